"""Check that the images of sets are in the order to which the targets refer.

A public copy of ImageCoDe was made with frames sorted by their names as text, img10 before img2, and targets pointed at
other frames; every figure measured on it is wrong. Numbers and names tell it without a model; where a copy was
renumbered, only the scores of a model whose accuracy is known still do.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from ctxr.datasets.dataset import Dataset
from ctxr.datasets.readers.frames import frame_number, in_string_order
from ctxr.metrics.compare import Interval, mean_interval, sign_flip
from ctxr.metrics.proportions import holm
from ctxr.metrics.votes import Doubles
from ctxr.pipelines.inspection.config import Check
from ctxr.problems.figures import percent
from ctxr.problems.runs import Run
from ctxr.store.records import ImageSet

SURE = 0.05
CURE = "sort the pictures of each set by the number in their names, img2 before img10, and make the dataset again"


def numbers_of(dataset: Dataset, image_set: ImageSet) -> list[int] | None:
    """The numbers of a set's frames in its order, from their names, else as recorded; None where both are missing."""
    images = [dataset.images[name] for name in image_set.images]
    # of img37.jpg, the last part of an image's path or id
    names = [(image.path or image.id).rpartition("/")[2] for image in images]
    named = [frame_number(name if "." in name else f"{name}.jpg") for name in names]
    listed = named if None not in named else [image.index for image in images]
    numbers = [number for number in listed if number is not None]
    return numbers if len(numbers) == len(images) == len(set(numbers)) else None


def check_order(dataset: Dataset) -> Iterator[Check]:
    """Whether frame numbers ascend in sets of video."""
    numbers = {image_set.id: own for image_set in dataset.sets if (own := numbers_of(dataset, image_set)) is not None}
    videos = {image_set.id for image_set in dataset.sets if image_set.ordered}
    falling = {name: own for name, own in numbers.items() if name in videos and own != sorted(own)}
    as_text = [name for name, own in falling.items() if in_string_order(own)]
    name, ascending = "order of frames", len(videos & numbers.keys())
    if falling:
        first = next(iter(as_text or falling))
        fall = next(f"{left} before {right}" for left, right in pairwise(numbers[first]) if right < left)
        detail = f"{len(falling)} sets of video have frames whose numbers do not ascend, {fall} in {first}"
        if as_text:
            sets = f"{len(as_text)} of {len(videos)} sets of video are sorted by name as text"
            detail = f"{sets}, {fall} in {first}: targets that count by number point at other images"
        yield Check(name, "problem", detail, CURE)
    elif videos and not ascending:
        yield Check(name, "note", f"none of {len(videos)} sets of video says the numbers of its frames")
    else:
        yield Check(name, "ok", f"numbers ascend in {ascending} of {len(videos)} sets of video")


@dataclass(frozen=True)
class Band:
    """Accuracies that are known of an encoder. Attributes: low, high: shares 0..1. sound: whether the order was right."""

    what: str
    low: float
    high: float
    sound: bool


REFERENCES = {
    ("ViT-B-16:openai", "valid"): (
        Band("published, and measured again by others", 0.218, 0.220, True),
        Band("a copy with frames sorted as text", 0.122, 0.122, False),
    ),
    ("ViT-B-16:openai", "test"): (Band("published", 0.224, 0.224, True),),
}
"""Zero-shot accuracy on the ImageCoDe release by encoder and split (paper, Tables 5 and 7)."""

AS_TEXT = "counted over names sorted as text"
BY_NUMBER = "counted by number where the set has names sorted as text"


def check_scores(dataset: Dataset, runs: list[Run], reference: str, seed: int) -> Iterator[Check]:
    """For each run and split with known targets: the band of its accuracy, and whether another order explains it better. `reference` is
    the encoder whose zero-shot scores the runs are, "" for the run's own name."""
    orders = {one.id: numbers for one in dataset.sets if (numbers := numbers_of(dataset, one)) is not None}
    for run in runs:
        # by split: the set, the position of the target, and the scores of the candidates of each query
        splits: dict[str, list[tuple[str, int, list[float]]]] = {}
        for query, image_set, position in dataset.sole_targets():
            own = run.scorers[0].values.get(query.id, {})
            if own.keys() >= set(image_set.images):
                row = (image_set.id, position, [own[image] for image in image_set.images])
                splits.setdefault(dataset.split_of(image_set) or "none", []).append(row)
        if not splits:
            yield Check(f"targets by {run.name}", "note", "it scores no query here whose target is known")
        for split, rows in splits.items():
            sets = [name for name, _, _ in rows]
            credits = np.array([credit(scores, position) for _, position, scores in rows])
            accuracy = mean_interval(credits, sets, np.random.default_rng(seed))
            yield from _banded(run.name, reference or run.name, split, accuracy)
            yield _explained(f"targets by {run.name}", split, rows, orders, accuracy, credits=credits, seed=seed)


def _explained(
    label: str,
    split: str,
    rows: list[tuple[str, int, list[float]]],
    orders: Mapping[str, list[int]],
    accuracy: Interval,
    *,
    credits: Doubles,
    seed: int,
) -> Check:
    """Whether another order of counting gives significantly more hits, on the same queries."""
    sets = [name for name, _, _ in rows]
    alternatives_of = {
        what: [moved(orders[name], position, what) if name in orders else position for name, position, _ in rows]
        for what in (AS_TEXT, BY_NUMBER)
    }
    orders_of = zip(*alternatives_of.values(), rows, strict=True)
    changed = sum(set(alternatives) != {row[1]} for *alternatives, row in orders_of)
    if not changed:
        why = "no set has names whose order as text is another one" if orders else "no numbers of frames are known"
        return Check(label, "ok" if orders else "note", f"{split}: {why}, so no other order can be tested")
    others = {
        what: np.array([credit(scores, position) for position, (_, _, scores) in zip(positions, rows, strict=True)])
        for what, positions in alternatives_of.items()
    }
    flips = holm([sign_flip(other - credits, sets, np.random.default_rng(seed)) for other in others.values()])
    tested = [(what, other.mean(), p) for (what, other), p in zip(others.items(), flips, strict=True)]
    would_be = ", ".join(f"{100 * mean:.1f} % if {what} (p {p:.2g})" for what, mean, p in tested)
    would_move = f"{split}, {changed} of {len(rows)} targets would move"
    detail = f"{would_move}: accuracy {percent(accuracy)} %; it would be {would_be}"
    better = [what for what, mean, p in tested if p < SURE and mean > credits.mean()]
    problem = Check(label, "problem", f"{detail}: the targets look {''.join(better[:1])}", CURE)
    return problem if better else Check(label, "ok", detail)


def credit(scores: list[float], position: int) -> float:
    """1 where the candidate at `position` alone has the highest score, 1/n where n share it, 0 else."""
    top = max(scores)
    return (scores[position] == top) / scores.count(top)


def moved(numbers: list[int], position: int, what: str) -> int:
    """Where a target stands if its index was looked up in the wrong order.

    Args:
        numbers: of the frames, in the order of the set. position: where the target stands now.
        what: AS_TEXT, its index counts by number and was looked up in names sorted as text; BY_NUMBER, the other way round.

    >>> moved([8, 9, 10, 11], 0, AS_TEXT)  # sorted as text, 8 stands third; third by number is 10
    2
    >>> moved([8, 9, 10, 11], 0, BY_NUMBER)
    2
    >>> moved([8, 9, 10], 0, AS_TEXT), moved([8, 9, 10], 0, BY_NUMBER)
    (1, 2)
    """
    by_number, as_text = sorted(numbers), sorted(numbers, key=str)
    looked_up, meant = (as_text, by_number) if what == AS_TEXT else (by_number, as_text)
    return numbers.index(meant[looked_up.index(numbers[position])])


def _banded(run: str, encoder: str, split: str, accuracy: Interval) -> Iterator[Check]:
    """Which known accuracy the interval of a run holds; nothing where none is known."""
    bands = REFERENCES.get((encoder, split))
    if bands is None or accuracy.value is None:
        return
    low, high = (accuracy.value if end is None else end for end in (accuracy.low, accuracy.high))
    inside = [band for band in bands if low <= band.high and high >= band.low]
    name, figure = f"accuracy of {run}", f"{split}: {percent(accuracy)} %"
    names = []
    for band in bands:
        end = "" if band.low == band.high else f"–{100 * band.high:.1f}"
        names.append(f"{100 * band.low:.1f}{end} % {band.what}")
    if inside and all(band.sound for band in inside):
        yield Check(name, "ok", f"{figure}, the band of {encoder} ({'; '.join(names)})")
    elif inside and not any(band.sound for band in inside):
        yield Check(name, "problem", f"{figure}, the band of {encoder} on {inside[0].what} ({'; '.join(names)})", CURE)
    else:
        where = "in more than one band" if inside else "in no band"
        yield Check(name, "note", f"{figure}, {where} of {encoder} ({'; '.join(names)})")

"""Whether a model's accuracy is that of scrambled targets: its reference band, and what another order would make of it."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from ctxr.data.dataset import Dataset
from ctxr.metrics.compare import Interval, mean_interval, sign_flip
from ctxr.metrics.proportions import holm
from ctxr.metrics.votes import Doubles
from ctxr.pipelines.check_artifact import Check
from ctxr.pipelines.evaluating.runs import Run
from ctxr.pipelines.order_check import CURE, SURE, numbers_of


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
"""Zero-shot accuracy on the ImageCoDe release by encoder and side (paper, Tables 5 and 7; specs A0.1, A0.4)."""

AS_TEXT = "counted over names sorted as text"
BY_NUMBER = "counted by number where the set has names sorted as text"


def check_scores(dataset: Dataset, runs: list[Run], reference: str, seed: int) -> Iterator[Check]:
    """For each run and side with known targets: the band of its accuracy, and whether another order explains it better.

    Args:
        reference: encoder whose zero-shot scores the runs are, "" for the run's own name.
    """
    known: dict[str, list[tuple[str, str, int]]] = {}
    for query, image_set, place in dataset.targets():
        known.setdefault(dataset.split_of(image_set) or "none", []).append((query.id, image_set.id, place))
    orders = {one.id: numbers for one in dataset.sets if (numbers := numbers_of(dataset, one)) is not None}
    candidates = {one.id: one.images for one in dataset.sets}
    for run in runs:
        values = run.scorers[0].values
        scored = {
            side: rows
            for side, asked in known.items()
            if (
                rows := [
                    (name, place, [own[image] for image in candidates[name]])
                    for query, name, place in asked
                    if (own := values.get(query, {})).keys() >= set(candidates[name])
                ]
            )
        }
        if not scored:
            yield Check(f"targets by {run.name}", "note", "it scores no query here whose target is known")
        for side, rows in scored.items():
            yield from _checked(run.name, side, rows, orders, reference or run.name, seed)


def _checked(
    run: str,
    side: str,
    rows: list[tuple[str, int, list[float]]],
    orders: Mapping[str, list[int]],
    encoder: str,
    seed: int,
) -> Iterator[Check]:
    """About the queries of a side: the set, the place of the target, and the scores of the candidates of each."""
    sets = [name for name, _, _ in rows]
    given = np.array([credit(scores, place) for _, place, scores in rows])
    found = mean_interval(given, sets, np.random.default_rng(seed))
    yield from _banded(run, encoder, side, found)
    others = {
        what: np.array([
            credit(scores, moved(orders[name], place, what) if name in orders else place)
            for name, place, scores in rows
        ])
        for what in (AS_TEXT, BY_NUMBER)
    }  # fmt: skip
    changed = sum(
        name in orders and any(moved(orders[name], place, what) != place for what in others) for name, place, _ in rows
    )
    label = f"targets by {run}"
    if not changed:
        why = "no set has names whose order as text is another one" if orders else "no numbers of frames are known"
        yield Check(label, "ok" if orders else "note", f"{side}: {why}, so no other order can be tried")
        return
    yield _explained(label, f"{side}, {changed} of {len(rows)} targets would move", found, given, others, sets, seed)


def _explained(
    label: str, side: str, found: Interval, given: Doubles, others: dict[str, Doubles], sets: list[str], seed: int
) -> Check:
    """Whether another order of counting gives significantly more hits, on the same queries."""
    flips = holm([sign_flip(other - given, sets, np.random.default_rng(seed)) for other in others.values()])
    told = [
        f"{100 * other.mean():.1f} % if {what} (p {p:.2g})"
        for (what, other), p in zip(others.items(), flips, strict=True)
    ]
    detail = f"{side}: accuracy {_percent(found)}; it would be {', '.join(told)}"
    better = [
        what for (what, other), p in zip(others.items(), flips, strict=True) if p < SURE and other.mean() > given.mean()
    ]
    if better:
        return Check(label, "problem", f"{detail}: the targets look {better[0]}", CURE)
    return Check(label, "ok", detail)


def credit(scores: list[float], place: int) -> float:
    """1 where the candidate at `place` alone has the highest score, 1/n where n share it, 0 else."""
    top = max(scores)
    return (scores[place] == top) / scores.count(top)


def moved(numbers: list[int], place: int, what: str) -> int:
    """Where a target stands if its index was looked up in the wrong order.

    Args:
        numbers: of the frames, in the order of the set. place: where the target stands now.
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
    return numbers.index(meant[looked_up.index(numbers[place])])


def _banded(run: str, encoder: str, side: str, found: Interval) -> Iterator[Check]:
    """Which known accuracy the interval of a run holds; nothing where none is known."""
    bands = REFERENCES.get((encoder, side))
    if bands is None or found.value is None:
        return
    low, high = found.value if found.low is None else found.low, found.value if found.high is None else found.high
    inside = [band for band in bands if low <= band.high and high >= band.low]
    name, told = f"accuracy of {run}", f"{side}: {_percent(found)}"
    names = "; ".join(f"{_span(band)} % {band.what}" for band in bands)
    if inside and all(band.sound for band in inside):
        yield Check(name, "ok", f"{told}, the band of {encoder} ({names})")
    elif inside and not any(band.sound for band in inside):
        yield Check(name, "problem", f"{told}, the band of {encoder} on {inside[0].what} ({names})", CURE)
    else:
        where = "in more than one band" if inside else "in no band"
        yield Check(name, "note", f"{told}, {where} of {encoder} ({names})")


def _span(band: Band) -> str:
    low, high = f"{100 * band.low:.1f}", f"{100 * band.high:.1f}"
    return low if low == high else f"{low}–{high}"


def _percent(found: Interval) -> str:
    if found.value is None:
        return "unknown"
    if found.low is None or found.high is None:
        return f"{100 * found.value:.1f} %"
    return f"{100 * found.value:.1f} % ({100 * found.low:.1f}–{100 * found.high:.1f})"

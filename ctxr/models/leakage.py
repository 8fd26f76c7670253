"""What splits of a dataset share: sources, files, descriptions, and similar pictures."""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import combinations

import numpy as np
import numpy.typing as npt

from ctxr.datasets.dataset import Dataset
from ctxr.datasets.splits import SPLITS
from ctxr.engine.progress import Progress
from ctxr.engine.report import Table
from ctxr.media.images import look_print
from ctxr.models.neighbours import euclidean_search
from ctxr.models.picture_vectors import PictureVectors, open_pictures
from ctxr.store.tables import grouped

EXAMPLES = 3
_ROWS = 512  # queries of a block


@dataclass(frozen=True)
class Leak:
    """What two splits share.

    Attributes:
        what: kind of thing. shared: how many different things are in both splits. of: how many are in the second.
        nearest: smallest distance between pictures of the splits, None for other things.
    """

    what: str
    splits: tuple[str, str]
    shared: int
    of: int
    examples: tuple[str, ...] = ()
    nearest: float | None = None


def shared_things(what: str, things: Iterable[tuple[str, str, str]], order: Sequence[str]) -> list[Leak]:
    """Leaks for every pair of splits that hold anything.

    `things`: (key, split, where); an empty key is skipped. `order`: the splits, earliest first.
    """
    first_seen: dict[str, dict[str, str]] = {split: {} for split in order}
    for key, split, where in things:
        if key and split in first_seen:
            first_seen[split].setdefault(key, where)
    leaks = []
    for earlier, later in combinations(order, 2):
        left, right = first_seen[earlier], first_seen[later]
        if left and right:
            both = sorted(left.keys() & right.keys())
            examples = tuple(f"{left[key]} ({earlier}) and {right[key]} ({later})" for key in both[:EXAMPLES])
            leaks.append(Leak(what, (earlier, later), len(both), len(right), examples))
    return leaks


def near_duplicates(
    what: str,
    vectors: Mapping[str, npt.NDArray[np.float32]],
    uses: Mapping[str, Sequence[tuple[str, str]]],
    limit: float,
    order: Sequence[str],
) -> list[Leak]:
    """Leaks for every pair of splits: images with one of the earlier split at most `limit` away.

    `vectors`, `uses`: by id of the image; split and set of each use. `order`: the splits, earliest first.
    """
    # an image of two splits is here once for each: it is its own near-duplicate
    names = grouped(sorted({(split, name) for name in uses.keys() & vectors for split, _ in uses[name]}))
    leaks = []
    for earlier, later in combinations(order, 2):
        first, second = names[earlier], names[later]
        if not first or not second:
            continue
        pool, queries = (np.stack([vectors[name] for name in part]) for part in (first, second))
        partner = euclidean_search(queries, pool, False).best(1, _ROWS).indices[:, 0]
        distances = np.sqrt(((queries.astype(np.float64) - pool[partner]) ** 2).sum(1))
        near: list[int] = np.flatnonzero(distances <= limit).tolist()
        ranked = sorted(near, key=lambda row: (distances[row], second[row]))[:EXAMPLES]
        examples = tuple(
            f"{first[partner[row]]} ({earlier}) and {second[row]} ({later}), {distances[row]:.4f} apart"
            for row in ranked
        )
        leaks.append(Leak(what, (earlier, later), len(near), len(second), examples, float(distances.min())))
    return leaks


def leakage_table(
    dataset: Dataset,
    vectors: PictureVectors | None,
    progress: Progress,
    embedding: float = 0.0,
    look: float | None = None,
) -> Table | str:
    """Every comparison of two splits that the dataset allows, with numbers and examples.

    `embedding`, `look`: limits of near-duplicates, a share of the encoder's threshold and a root mean square colour difference (0..1) at
    16 x 16 pixels; without `look` pictures are not opened.
    """
    splits: dict[str, str] = {image_set.id: dataset.split_of(image_set) or "" for image_set in dataset.sets}
    present: list[str] = [split for split in SPLITS if split in splits.values()]
    if len(present) < 2:
        return f"leakage needs two splits, and there is {present[0] if present else 'none'}"
    of_image = grouped((name, (splits[one.id], one.id)) for one in dataset.sets for name in one.images)
    # readers name the source of a photo set as the set itself where they do not know it
    sources = (
        (image_set.source, splits[image_set.id], image_set.id)
        for image_set in dataset.sets
        if image_set.kind != "photos" or image_set.source != image_set.id
    )
    files = (
        (dataset.images[name].sha256, split, f"{name} in {image_set}")
        for name, uses in of_image.items()
        for split, image_set in uses
    )
    descriptions = (
        (" ".join(dataset.text_of(query).lower().split()), splits[query.image_set], query.id)
        for query in dataset.queries.values()
        if query.labels is None
    )
    leaks = shared_things("source video or album", sources, present)
    leaks += shared_things("same file (sha256)", files, present)
    leaks += shared_things("same description", descriptions, present)
    notes = []
    if vectors is not None:
        limit = embedding * vectors.threshold
        what = f"embedding within {limit:.3g} ({vectors.encoder})"
        leaks += near_duplicates(what, vectors.by_image, of_image, limit, present)
    else:
        notes.append("no embeddings to compare by")
    if look is None:
        notes.append("pictures were not opened")
    else:
        named = {name: file for name in of_image if (file := dataset.picture(dataset.images[name]))}
        with closing(open_pictures(named, "looking at pictures", progress)) as opened:
            prints = {name: look_print(pixels) for name, pixels in opened}
        leaks += near_duplicates(f"look within {look:g}", prints, of_image, look, present)
        notes += [] if prints else ["no pictures to compare by look"]
    rows = tuple((leak.what, " – ".join(leak.splits), leak.shared, leak.of, leak.nearest) for leak in leaks)
    note = "of: different things of that sort in the second split" + "".join(f"; {note}" for note in notes)
    examples = tuple(f"{leak.what}: {example}" for leak in leaks for example in leak.examples)
    heads = ("what", "splits", "in both", "of", "nearest")
    return Table("Leakage between splits", heads, rows, note, examples, digits=4)

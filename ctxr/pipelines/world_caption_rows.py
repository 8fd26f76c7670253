"""Families of pictures with their captions, the truth of every caption for every picture, and the rows that they become."""

from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from itertools import repeat
from multiprocessing import get_context

import numpy as np
import numpy.typing as npt

from ctxr.data.atomic import write_bytes
from ctxr.data.caption_truth import CaptionTruth
from ctxr.data.entailment import EntailmentPair, refuse_leaks
from ctxr.data.hashing import sha256_bytes
from ctxr.data.images import decode_jpeg, encode_jpeg
from ctxr.data.records import Image, ImageSet, Judgment, Query, Split, SplitName, Text
from ctxr.data.tables import write_table
from ctxr.data.world import Scene, Statement, render, sample_scene
from ctxr.data.world.predicates import Before, Predicate
from ctxr.data.world.sets import neighbours
from ctxr.data.world.sights import SceneView
from ctxr.data.world.statements import propose, state
from ctxr.pipelines.talk import Talk
from ctxr.pipelines.world_caption_pairs import pairs_about
from ctxr.pipelines.world_captions import WorldCaptions
from ctxr.pipelines.world_text_pairs import text_pairs

TABLES = ("sets", "images", "splits", "texts", "queries", "judgments", "truth", "pairs")

LARGEST_FAMILY = 4
"""Pictures that differ by one or two small changes."""

_DRAWN_AT = 3
_DETAILS = (0.45, 0.8)  # how often a caption says one thing, and up to two; else three
_TRIES = 60
_THUMBNAIL = 8
_AUTHOR = "world"

Verdicts = npt.NDArray[np.int8]


@dataclass(frozen=True)
class GalleryPlan:
    """Pictures that are searched together.

    Attributes:
        pictures: how many. queries: whether its captions are asked. pairs: whether pairs for entailment stand on it.
    """

    name: str
    split: SplitName
    pictures: int
    number: int
    queries: bool
    pairs: bool


@dataclass(frozen=True)
class Family:
    """Near neighbours: their scenes, what is said of each, and their pictures as JPEG bytes."""

    scenes: tuple[Scene, ...]
    statements: tuple[tuple[Statement, ...], ...]
    pictures: tuple[bytes, ...]


@dataclass(frozen=True, eq=False)
class GalleryTruth:
    """A gallery as it is drawn.

    Attributes:
        images: [N] ids. families: [N] the family of each. views: [N].
        captions: [C] ids. owners: [C] places of the pictures they were written for. statements: [C].
        verdicts: [C, N] 1 where a caption holds for a picture, 0 where it does not, -1 where it is too close to call.
    """

    images: tuple[str, ...]
    families: tuple[str, ...]
    views: tuple[SceneView, ...]
    captions: tuple[str, ...]
    owners: tuple[int, ...]
    statements: tuple[Statement, ...]
    verdicts: Verdicts


def galleries_of(config: WorldCaptions) -> list[GalleryPlan]:
    """The galleries that have pictures. Pairs for training never stand on a gallery that is searched."""
    every_one = [
        GalleryPlan("train", "train", config.train, 0, queries=True, pairs=False),
        GalleryPlan("valid", "valid", config.valid, 1, queries=True, pairs=False),
        GalleryPlan("test", "test", config.test, 2, queries=True, pairs=True),
        GalleryPlan("pair-train", "train", config.pair_train, 3, queries=False, pairs=True),
        GalleryPlan("pair-valid", "valid", config.pair_valid, 4, queries=False, pairs=True),
    ]
    return [one for one in every_one if one.pictures]


def write_rows(config: WorldCaptions, galleries: Sequence[GalleryPlan], talk: Talk) -> dict[str, int]:
    """Draw the galleries and write their pictures and tables; how many rows each table has."""
    rows: dict[str, list[object]] = {name: [] for name in TABLES}
    total = sum(one.pictures for one in galleries)
    with talk.progress("drawing pictures", total) as task, _hands(config.workers) as pool:
        for gallery in galleries:
            families, left = [], gallery.pictures
            for family in _families(config, gallery, pool):
                kept = min(left, len(family.scenes))
                families.append(Family(family.scenes[:kept], family.statements[:kept], family.pictures[:kept]))
                task.advance(kept)
                left -= kept
                if not left:
                    break
            _write_gallery(config, gallery, families, rows)
    _guard(rows)
    return {name: write_table(config.out / f"{name}.jsonl", content) for name, content in rows.items()}  # type: ignore[type-var]


def draw_family(config: WorldCaptions, gallery: int, number: int) -> Family:
    """Family `number` of a gallery; it depends on the seed and on these numbers alone."""
    import cv2

    rng = np.random.default_rng((config.seed, gallery, number))
    base = sample_scene(rng)
    scenes = (base, *neighbours(rng, base, int(rng.integers(LARGEST_FAMILY))))
    views = [SceneView(scene) for scene in scenes]
    said = tuple(
        tuple(statement_about(rng, view, config.say) for _ in range(int(rng.integers(config.least, config.most + 1))))
        for view in views
    )
    size = (config.side, config.side)
    large = [render(scene, _DRAWN_AT * config.side, _DRAWN_AT * config.side) for scene in scenes]
    small = [np.asarray(cv2.resize(one, size, interpolation=cv2.INTER_AREA), np.uint8) for one in large]
    return Family(scenes, said, tuple(encode_jpeg(one) for one in small))


def statement_about(rng: np.random.Generator, view: SceneView, say: Sequence[str]) -> Statement:
    """A true statement of one to three details, made of the predicates in `say`."""
    wanted = 1 + int(np.searchsorted(_DETAILS, rng.random()))
    found: list[Predicate] = []
    for _ in range(_TRIES * wanted):
        predicate = propose(rng, view)
        if type(predicate).__name__ in say and predicate not in found and predicate.verdict(view) is True:
            found.append(predicate)
            if len(found) == wanted:
                break
    return state(rng, found or [Before(view.scene.backdrop.name)])


def judge_all(statements: Sequence[Statement], views: Sequence[SceneView]) -> Verdicts:
    """What holds: [C, N] as in `GalleryTruth`. Each distinct predicate is looked at once."""
    known: dict[Predicate, Verdicts] = {}
    found = np.empty((len(statements), len(views)), np.int8)
    for place, statement in enumerate(statements):
        for predicate in statement.predicates:
            if predicate not in known:
                verdicts = (predicate.verdict(view) for view in views)
                known[predicate] = np.array([-1 if one is None else int(one) for one in verdicts], np.int8)
        columns = np.stack([known[predicate] for predicate in statement.predicates])
        # false if any is false, else doubtful if any is doubtful
        found[place] = np.where((columns == 0).any(axis=0), 0, columns.min(axis=0))
    return found


def _hands(workers: int) -> AbstractContextManager[ProcessPoolExecutor | None]:
    return nullcontext() if workers == 1 else ProcessPoolExecutor(workers, mp_context=get_context("spawn"))


def _families(config: WorldCaptions, gallery: GalleryPlan, pool: ProcessPoolExecutor | None) -> Iterator[Family]:
    """Families without end: each has a seed of its own, so the number of processes changes nothing."""
    start, block = 0, 4 * config.workers
    while True:
        numbers = range(start, start + block)
        drawn = map if pool is None else pool.map
        yield from drawn(draw_family, repeat(config), repeat(gallery.number), numbers)
        start += block


def _write_gallery(
    config: WorldCaptions, gallery: GalleryPlan, families: Sequence[Family], rows: dict[str, list[object]]
) -> None:
    shown = _shown(gallery, families)
    pictures = [picture for family in families for picture in family.pictures]
    for place, content in enumerate(pictures):
        path = f"images/{shown.images[place]}.jpg"
        write_bytes(config.out / path, content, durable=False)
        image = Image(shown.images[place], path, sha256_bytes(content), shown.families[place], config.side, config.side)
        rows["images"].append(image)
    closest, mean = _distances(pictures)
    name = gallery.name
    rows["sets"].append(ImageSet(name, "photos", shown.images, name, name, None, closest, mean))
    rows["splits"].append(Split(name, gallery.split))
    for place, caption in enumerate(shown.captions):
        rows["texts"].append(Text(caption, shown.statements[place].text, _AUTHOR, place))
        rows["truth"].append(_truth(shown, gallery, place))
        if gallery.queries:
            rows["queries"].append(Query(caption, name, (caption,)))
            rows["judgments"].append(Judgment(caption, shown.images[shown.owners[place]], "gold", 1.0))
    if gallery.pairs:
        rng = np.random.default_rng((config.seed, gallery.number))  # families have three numbers
        rows["pairs"] += pairs_about(rng, shown, gallery.split, config.hypotheses)
        rows["pairs"] += text_pairs(rng, shown, gallery.split, config.texts)


def _shown(gallery: GalleryPlan, families: Sequence[Family]) -> GalleryTruth:
    images: list[str] = []
    groups: list[str] = []
    views: list[SceneView] = []
    captions: list[str] = []
    owners: list[int] = []
    statements: list[Statement] = []
    for number, family in enumerate(families):
        group = f"{gallery.name}/{number:05d}"
        for place, scene in enumerate(family.scenes):
            image = f"{group}-{place}"
            for order, statement in enumerate(family.statements[place]):
                captions.append(f"{image}/{order}")
                owners.append(len(images))
                statements.append(statement)
            images.append(image)
            groups.append(group)
            views.append(SceneView(scene))
    verdicts = judge_all(statements, views)
    return GalleryTruth(
        tuple(images), tuple(groups), tuple(views), tuple(captions), tuple(owners), tuple(statements), verdicts
    )


def _truth(shown: GalleryTruth, gallery: GalleryPlan, place: int) -> CaptionTruth:
    row = shown.verdicts[place]
    holds, doubtful = (tuple(shown.images[at] for at in np.flatnonzero(row == value)) for value in (1, -1))
    owner = shown.images[shown.owners[place]]
    return CaptionTruth(
        shown.captions[place], gallery.name, owner, holds, doubtful, len(shown.statements[place].predicates)
    )


def _distances(pictures: Sequence[bytes]) -> tuple[float, float]:
    """Smallest and mean distance of thumbnails of 8 x 8 pixels as unit vectors, 0..2; zeros for a single picture."""
    import cv2

    if len(pictures) < 2:
        return 0.0, 0.0
    size = (_THUMBNAIL, _THUMBNAIL)
    small = [cv2.resize(decode_jpeg(one), size, interpolation=cv2.INTER_AREA) for one in pictures]
    vectors = np.stack([np.asarray(one, np.float64).reshape(-1) + 1 for one in small])
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    upper = np.triu_indices(len(pictures), 1)
    apart = np.sqrt(np.maximum(0.0, 2 - 2 * (vectors @ vectors.T)[upper]))
    return round(float(apart.min()), 6), round(float(apart.mean()), 6)


def _guard(rows: dict[str, list[object]]) -> None:
    """Pairs for training stand on no picture, and on no family, of a gallery that is searched or judged."""
    pairs = [pair for pair in rows["pairs"] if isinstance(pair, EntailmentPair)]
    training = [pair for pair in pairs if pair.split == "train"]
    asked = {row.image_set for row in rows["queries"] if isinstance(row, Query)}
    sets = [row for row in rows["sets"] if isinstance(row, ImageSet) and row.id in asked]
    searched = {image for one in sets for image in one.images}
    others = {name for pair in pairs if pair.split != "train" for name in (pair.image, pair.group) if name}
    refuse_leaks(training, searched | others)

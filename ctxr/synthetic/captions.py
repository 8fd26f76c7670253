"""A retrieval benchmark from the drawn world whose captions are true of many images, and pairs for entailment.

As on COCO each caption is written for one picture, and only that is annotated; the truth of every other pair is computed from what
the caption says and what the picture shows, and lies beside. Pictures come in families of near neighbours, captions say more or
less. A training set for entailment classifiers stands on pictures of its own.

What does not hold is near: a true statement with one thing changed, or what was written for a near neighbour of the picture.

A text entails what says less of the same: fewer of its things, a kind with fewer attributes, that there is one where it says how
many, where, or beside what. It does not entail a text that is false of a picture of which it is true.
"""

from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass
from itertools import repeat
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from ctxr.datasets.pairs import EntailmentPair, refuse_leaks
from ctxr.datasets.truth import CaptionTruth
from ctxr.engine.progress import Progress, Silent
from ctxr.engine.project import refuse_seed
from ctxr.errors import UsageError
from ctxr.media.images import decode_jpeg, encode_jpeg
from ctxr.store.artifacts import Artifact, Content, finish, finished, locked, require_ours, take_manifest
from ctxr.store.atomic import write_bytes
from ctxr.store.hashing import sha256_bytes
from ctxr.store.records import Image, ImageSet, Judgment, Query, Split, SplitName, Text
from ctxr.store.tables import write_table
from ctxr.synthetic.world.attributes import COLOURS, SIZES, TEXTURES
from ctxr.synthetic.world.backdrops import BACKDROPS
from ctxr.synthetic.world.drawing import render
from ctxr.synthetic.world.kinds import Before, Counts, Kind, Shows
from ctxr.synthetic.world.outlines import SHAPES
from ctxr.synthetic.world.positions import RelativePosition, Within
from ctxr.synthetic.world.predicates import NAMES, Predicate, name_of
from ctxr.synthetic.world.scenes import Scene, choose, sample_scene
from ctxr.synthetic.world.sets import neighbours
from ctxr.synthetic.world.sights import SceneView
from ctxr.synthetic.world.statements import Statement, propose, state
from ctxr.synthetic.world.words import PLACE_PHRASES, SIDE_PHRASES

SAYINGS = ("Shows", "Before", "Counts", "Beside", "Within")
"""What captions are made of unless told otherwise (`ctxr.synthetic.world.predicates`)."""


@dataclass(frozen=True)
class WorldCaptions:
    """What to draw.

    Attributes:
        out: artifact folder to write.
        train, valid, test: pictures of each gallery.
        pair_train, pair_valid: pictures on which pairs for entailment stand; they are in no other gallery.
        least, most: captions of a picture.
        hypotheses: pairs of a picture, half of them entailed where it can be.
        texts: pairs of texts alone that come from a picture's captions, half of them entailed.
        say: the predicates that captions may use.
        side: of the square pictures, pixels.
        seed: of everything; the same one draws the same bytes.
        workers: processes that draw; they change nothing.
    """

    out: Path
    train: int = 600
    valid: int = 100
    test: int = 200
    pair_train: int = 600
    pair_valid: int = 100
    least: int = 2
    most: int = 6
    hypotheses: int = 8
    texts: int = 4
    say: tuple[str, ...] = SAYINGS
    side: int = 96
    seed: int = 0
    workers: int = 2


def write_captions(config: WorldCaptions, progress: Progress | None = None) -> "Artifact":
    """Draw the benchmark, or leave it if it is there. Raises UsageError for numbers that make no sense.

    The artifact is of kind `dataset` with the galleries `train`, `valid`, `test`, `pair-train` and `pair-valid` as image sets, and
    two tables more: `truth.jsonl` (CaptionTruth) and `pairs.jsonl` (EntailmentPair).
    """
    progress = progress or Silent()
    _check(config)
    decides = {name: value for name, value in asdict(config).items() if name not in ("out", "workers")}
    ready = finished(config.out, "dataset", "world-captions", decides, [])
    if ready is not None:
        return ready
    require_ours(config.out)
    with locked(config.out):
        take_manifest(config.out)
        counts = write_rows(config, galleries_of(config), progress)
        return finish(
            config.out,
            kind="dataset",
            verb="world-captions",
            config=decides,
            parents=[],
            content=Content([f"{name}.jsonl" for name in TABLES], counts, {}),
        )


def _check(config: WorldCaptions) -> None:
    refuse_seed(config.seed)
    pictures = (config.train, config.valid, config.test, config.pair_train, config.pair_valid)
    if min(pictures) < 0 or not sum(pictures) or config.side < 16 or config.workers < 1:
        raise UsageError("a world of captions needs pictures, a side of 16 pixels or more, and a worker")
    if not 1 <= config.least <= config.most or config.hypotheses < 2 or config.texts < 0:
        raise UsageError(
            f"a picture has 1 caption or more, 2 hypotheses or more and 0 texts or more, not {config.least} to {config.most}, "
            f"{config.hypotheses} and {config.texts}"
        )
    odd = next((name for name in config.say if name not in NAMES), None)
    if odd is not None or "Shows" not in config.say:
        raise UsageError(
            f"captions cannot be made of {', '.join(config.say)}", hint=f"take some of {', '.join(SAYINGS)}"
        )


SOURCE = "world"

_POOLS: dict[str, tuple[str, ...]] = {
    "shape": SHAPES, "colour": tuple(COLOURS), "size": tuple(SIZES), "texture": TEXTURES[1:],
}  # fmt: skip
Hypothesis = tuple[str, str | None, str, bool]
"""Text, the caption that it is, relation, whether it holds."""

_TRIES = 12
_ALTERED_SHARE = 0.5  # of what does not hold; the rest was written for other pictures


def pairs_about(
    rng: np.random.Generator, shown: "GalleryTruth", split: SplitName, hypotheses: int
) -> list[EntailmentPair]:
    """Up to `hypotheses` pairs for each picture of a gallery, half of them entailed where it can be.

    What holds was written for the picture itself, once, or for another one. What does not is one of `altered`, or was written for
    another picture, a near neighbour first. Nothing doubtful is among them, and no premise holds its hypothesis word by word.
    """
    pairs: list[EntailmentPair] = []
    for place, image in enumerate(shown.images):
        holding = _holding(rng, shown, place, hypotheses // 2)
        details = [_details(shown, at) for at in holding]
        chosen: list[Hypothesis] = [
            (shown.statements[at].text, shown.captions[at], "entailment", True) for at in holding
        ]
        chosen += _failing(rng, shown, place, hypotheses - hypotheses // 2, details)
        for number, (text, caption, relation, label) in enumerate(chosen):
            premise = " ".join(_premise(shown, place, caption, text))
            pairs.append(
                EntailmentPair(
                    f"{SOURCE}/{image}/{number}", premise or None, text, image, 1 if label else 0, relation, SOURCE, split,
                    shown.families[place], caption,
                )
            )  # fmt: skip
    return pairs


def altered(rng: np.random.Generator, statement: Statement, shown: "GalleryTruth", place: int) -> Statement | None:
    """The statement with one thing changed so that it is clearly false of the picture; None if no attempt succeeds."""
    view = shown.views[place]
    for _ in range(_TRIES):
        which = int(rng.integers(len(statement.predicates)))
        changed = _changed(rng, statement.predicates[which])
        if changed is not None and changed.verdict(view) is False:
            predicates = [*statement.predicates[:which], changed, *statement.predicates[which + 1 :]]
            return state(rng, predicates)
    return None


def _changed(rng: np.random.Generator, predicate: Predicate) -> Predicate | None:
    """The predicate with another place, side, number, backdrop, or one other attribute of a kind it names."""
    options: list[dict[str, Any]] = []
    match predicate:
        case Before(backdrop):
            options = [{"backdrop": choose(rng, [name for name in BACKDROPS if name != backdrop])}]
        case Counts(_, number):
            options = [{"number": number + 1}, {"number": max(0, number - 1)}]
        case RelativePosition(_, side, _):
            options = [{"side": choose(rng, [name for name in SIDE_PHRASES if name != side])}]
        case Within(_, region):
            options = [{"region": choose(rng, [name for name in PLACE_PHRASES if name != region])}]
        case _:
            pass
    for name in ("kind", "other"):
        kind = getattr(predicate, name, None)
        if isinstance(kind, Kind):
            options += [{name: one} for one in _other_kinds(rng, kind)]
    if not options:
        return None
    return msgspec.structs.replace(predicate, **options[int(rng.integers(len(options)))])


def _other_kinds(rng: np.random.Generator, kind: Kind) -> Iterator[Kind]:
    """The kind with one of the attributes that it names exchanged; its face goes, because another shape may have none."""
    for field, pool in _POOLS.items():
        known = getattr(kind, field)
        if known:
            other = choose(rng, [name for name in pool if name != known])
            yield msgspec.structs.replace(kind, face="" if field == "shape" else kind.face, **{field: other})


def _holding(rng: np.random.Generator, shown: "GalleryTruth", place: int, count: int) -> list[int]:
    """Captions that hold of a picture: one of its own, then others."""
    own = [at for at, owner in enumerate(shown.owners) if owner == place]
    foreign = [at for at in np.flatnonzero(shown.verdicts[:, place] == 1).tolist() if shown.owners[at] != place]
    # most of those that hold say little, so what says more comes first in half of the places
    rng.shuffle(foreign)
    foreign[: len(foreign) // 2] = sorted(foreign[: len(foreign) // 2], key=lambda at: -_details(shown, at))
    once = [int(rng.choice(own))] if len(own) > 1 else []
    return [*once, *foreign][:count]


def _failing(
    rng: np.random.Generator, shown: "GalleryTruth", place: int, count: int, details: Sequence[int]
) -> list[Hypothesis]:
    """What does not hold, saying as many things as what does: else the number of words would give the label away."""
    family = shown.families[place]
    true = np.flatnonzero(shown.verdicts[:, place] == 1).tolist()
    false = [at for at in np.flatnonzero(shown.verdicts[:, place] == 0).tolist() if shown.owners[at] != place]
    rng.shuffle(false)
    wanted = [details[number % len(details)] if details else 1 for number in rng.permutation(count).tolist()]
    found: list[Hypothesis] = []
    for number, much in enumerate(wanted):
        alike = [at for at in true if _details(shown, at) == much]
        if number < round(_ALTERED_SHARE * count) and alike:
            changed = altered(rng, shown.statements[int(rng.choice(alike))], shown, place)
            if changed is not None:
                found.append((changed.text, None, "altered", False))
                continue
        if false:
            # of what is as detailed a near neighbour's comes first
            best = min(
                false, key=lambda at: (abs(_details(shown, at) - much), shown.families[shown.owners[at]] != family)
            )
            false.remove(best)
            relation = "neighbour" if shown.families[shown.owners[best]] == family else "other"
            found.append((shown.statements[best].text, shown.captions[best], relation, False))
    return found


def _premise(shown: "GalleryTruth", place: int, caption: str | None, text: str) -> Iterator[str]:
    for at, owner in enumerate(shown.owners):
        if owner == place and shown.captions[at] != caption and text not in shown.statements[at].text:
            yield shown.statements[at].text


def _details(shown: "GalleryTruth", at: int) -> int:
    return len(shown.statements[at].predicates)


TEXT_SOURCE = "world-text"


def text_pairs(rng: np.random.Generator, shown: "GalleryTruth", split: SplitName, count: int) -> list[EntailmentPair]:
    """Up to `count` pairs of texts for each picture of a gallery, half of them entailed; each in a picture's family.

    Both come from the same premises and say equally much, so that neither premise nor length predicts the label.
    """
    pairs: list[EntailmentPair] = []
    of_image: list[list[int]] = [[] for _ in shown.images]
    for caption, owner in enumerate(shown.owners):
        of_image[owner].append(caption)
    for place, image in enumerate(shown.images):
        for number in range(count // 2):
            at = int(rng.choice(of_image[place]))
            premise = shown.statements[at]
            weaker = weakened(rng, premise)
            other = altered(rng, weaker, shown, place)
            if other is None:
                continue
            for label, relation, hypothesis in ((1, "entailment", weaker), (0, "altered", other)):
                key = f"{TEXT_SOURCE}/{image}/{2 * number + 1 - label}"
                pairs.append(
                    EntailmentPair(
                        key, premise.text, hypothesis.text, None, 1 if label else 0, relation, TEXT_SOURCE, split,
                        shown.families[place],
                    )
                )  # fmt: skip
    return pairs


def weakened(rng: np.random.Generator, statement: Statement) -> Statement:
    """A statement that holds wherever the given one does: some of its predicates, each as it is or saying less, in other words."""
    kept = 1 + int(rng.integers(len(statement.predicates)))
    chosen = rng.permutation(len(statement.predicates))[:kept].tolist()
    found: list[Predicate] = []
    for place in chosen:
        options = [statement.predicates[place], *_consequences(rng, statement.predicates[place])]
        predicate = options[int(rng.integers(len(options)))]
        if predicate not in found:
            found.append(predicate)
    return state(rng, found)


def _consequences(rng: np.random.Generator, predicate: Predicate) -> Iterator[Predicate]:
    """What follows from a predicate and says less."""
    match predicate:
        case Shows(kind) | Within(kind, _):
            yield msgspec.structs.replace(predicate, kind=_fewer(rng, kind))
        case RelativePosition(kind, _, other):
            yield msgspec.structs.replace(predicate, kind=_fewer(rng, kind), other=_fewer(rng, other))
        case _:
            pass
    match predicate:
        case Within(kind, _) | RelativePosition(kind, _, _):
            yield Shows(_fewer(rng, kind))
        case Counts(kind, number) if number > 0:
            yield Shows(kind)
        case _:
            pass


def _fewer(rng: np.random.Generator, kind: Kind) -> Kind:
    """The kind without one of its attributes; as it is where it has one only."""
    named = [field for field in kind.__struct_fields__ if getattr(kind, field)]
    if len(named) < 2:
        return kind
    return msgspec.structs.replace(kind, **{named[int(rng.integers(len(named)))]: ""})


TABLES = ("sets", "images", "splits", "texts", "queries", "judgments", "truth", "pairs")

LARGEST_FAMILY = 4
"""Pictures that differ by one or two small changes."""

_DRAWN_AT = 3
_DETAILS = (0.45, 0.8)  # how often a caption says one thing, and up to two; else three
_GALLERY_TRIES = 60
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


def write_rows(config: WorldCaptions, galleries: Sequence[GalleryPlan], progress: Progress) -> dict[str, int]:
    """Draw the galleries and write their pictures and tables; how many rows each table has."""
    rows: dict[str, list[object]] = {name: [] for name in TABLES}
    total = sum(one.pictures for one in galleries)
    with progress.task("drawing pictures", total) as task, _hands(config.workers) as pool:
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
    for _ in range(_GALLERY_TRIES * wanted):
        predicate = propose(rng, view)
        if name_of(predicate) in say and predicate not in found and predicate.verdict(view) is True:
            found.append(predicate)
            if len(found) == wanted:
                break
    return state(rng, found or [Before(view.scene.backdrop.name)])


def judge_all(statements: Sequence[Statement], views: Sequence[SceneView]) -> Verdicts:
    """What holds: [C, N] as in `GalleryTruth`. Each distinct predicate is evaluated once."""
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

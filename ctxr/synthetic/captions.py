"""A retrieval benchmark from the drawn world whose captions are true of many images, and pairs for entailment.

As on COCO each caption is written for one picture, and only that is annotated; the truth of every other pair is computed from what
the caption says and what the picture shows, and lies beside. Pictures come in families of near neighbours, captions say more or
less. A training set for entailment classifiers stands on pictures of its own.

What does not hold is near: a true statement with one thing changed, or a caption of a near neighbour of the picture.

A text entails what says less of the same: fewer of its things, a kind with fewer attributes, that there is one where it says how
many, where, or beside what. It does not entail a text that is false of a picture for which it is true itself.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import Annotated, Any, ClassVar, NamedTuple

import cv2
import msgspec
import numpy as np
import numpy.typing as npt

from ctxr.datasets.pairs import EntailmentPair, Label, refuse_leaks
from ctxr.datasets.truth import CaptionTruth
from ctxr.engine.options import NotDecisive, Options, Range, Seed
from ctxr.engine.progress import SILENT, Progress
from ctxr.engine.stage import Inputs, execute
from ctxr.media.images import decode_jpeg
from ctxr.store.artifacts import Content
from ctxr.store.atomic import write_bytes
from ctxr.store.hashing import sha256_bytes
from ctxr.store.records import Image, ImageSet, Judgment, Query, Split, SplitName, Text
from ctxr.store.tables import write_tables
from ctxr.synthetic.benchmark import AUTHOR, SyntheticDataset, draw_picture, draws
from ctxr.synthetic.config import Count
from ctxr.synthetic.world.backdrops import BACKDROPS
from ctxr.synthetic.world.predicates import (
    BY_NAME,
    Before,
    Counts,
    Kind,
    Predicate,
    RelativePosition,
    Shows,
    Within,
)
from ctxr.synthetic.world.scenes import Scene, choose, sample_scene
from ctxr.synthetic.world.sets import neighbour, neighbours
from ctxr.synthetic.world.sights import SceneView
from ctxr.synthetic.world.statements import POOLS, Statement, state, true_predicates
from ctxr.synthetic.world.words import PLACE_PHRASES, SIDE_PHRASES

PREDICATES = ("Shows", "Before", "Counts", "Beside", "Within")
"""What captions say by default (`ctxr.synthetic.world.predicates`)."""


@dataclass(frozen=True)
class WorldCaptions(Options):
    """What to draw.

    Attributes:
        train, valid, test: pictures of each gallery. pair_train, pair_valid: of those on which only pairs for entailment stand.
        least, most: captions of a picture. say: the predicates that they may use.
        hypotheses: pairs of a picture. texts: pairs of texts alone of a picture. Half of both are entailed where it can be.
        smallest_family, largest_family: pictures of a family. edits: changes of each of its pictures beside the one or two small ones.
        side: of the square pictures, pixels. workers: processes that draw.
    """

    COMMAND: ClassVar[str] = "world-captions"

    out: Path = Path("dataset")
    train: Count = 600
    valid: Count = 100
    test: Count = 200
    pair_train: Count = 600
    pair_valid: Count = 100
    least: Annotated[int, Range(1, math.inf, "at least 1 caption of a picture")] = 2
    most: int = 6
    hypotheses: Annotated[int, Range(2, math.inf, "at least 2 pairs of a picture")] = 8
    texts: Count = 4
    say: tuple[str, ...] = PREDICATES
    side: Annotated[int, Range(16, math.inf, "at least 16 pixels")] = 96
    seed: Seed = 0
    smallest_family: Annotated[int, Range(1, math.inf, "at least 1 picture")] = 1
    largest_family: Annotated[int, Range(1, math.inf, "at least 1 picture")] = 4
    edits: Count = 0
    workers: Annotated[int, Range(1, math.inf, "at least 1"), NotDecisive] = 2

    def rules(self) -> Iterator[tuple[str, str]]:
        """At least one picture, a range of captions, and known predicates."""
        if not (self.train or self.valid or self.test or self.pair_train or self.pair_valid):
            yield "a world of captions needs pictures", "give at least one gallery some"
        if self.smallest_family > self.largest_family:
            yield "the smallest family is larger than the largest", "--smallest-family is at most --largest-family"
        if self.least > self.most:
            yield f"a picture cannot have {self.least} to {self.most} captions", "--most is at least --least"
        if not {"Shows"} <= set(self.say) <= BY_NAME.keys():
            yield f"captions cannot be made of {', '.join(self.say)}", f"take some of {', '.join(PREDICATES)}"


def write_captions(config: WorldCaptions, progress: Progress = SILENT) -> None:
    """Draw the benchmark, unless it exists. Raises UsageError for options that are out of range.

    The artifact is of kind `dataset` with the galleries `train`, `valid`, `test`, `pair-train` and `pair-valid` as image sets, and
    two tables more: `truth.jsonl` (CaptionTruth) and `pairs.jsonl` (EntailmentPair).
    """
    execute(_Captions(config), progress)


class _Captions(SyntheticDataset):
    def write(self, inputs: Inputs, out: Path, progress: Progress) -> Content:
        config: WorldCaptions = replace(self.options, out=out)
        rows: dict[str, list[Any]] = {name: [] for name in TABLES}
        wanted = {number: getattr(config, plan.name.replace("-", "_")) for number, plan in enumerate(GALLERIES)}
        with progress.task("drawing pictures", sum(wanted.values())) as task:
            families = draws(partial(draw_family, config), wanted, lambda family: len(family.scenes), config.workers)
            for number, group in groupby(families, lambda item: item[0]):
                kept = []
                for _, family, count in group:
                    kept.append(Family(family.scenes[:count], family.statements[:count], family.pictures[:count]))
                    task.advance(count)
                _add_gallery(config, number, kept, rows)
        # pairs for training stand on no picture, and on no family, of a gallery that is searched or judged
        galleries = {query.image_set for query in rows["queries"]}
        searched = {image for image_set in rows["sets"] if image_set.id in galleries for image in image_set.images}
        judged = {name for pair in rows["pairs"] if pair.split != "train" for name in (pair.image, pair.group) if name}
        refuse_leaks([pair for pair in rows["pairs"] if pair.split == "train"], searched | judged)
        return Content([f"{name}.jsonl" for name in TABLES], write_tables(out, rows), {})


SOURCE = "world"


class Hypothesis(NamedTuple):
    """A text about a picture, the caption that it is, its relation to the premise, and whether it is entailed."""

    text: str
    caption: str | None
    relation: str
    label: Label

    def after(
        self, premise: str | None, picture: "GalleryPicture", split: SplitName, source: str, number: int
    ) -> EntailmentPair:
        """The pair of a source with this number about a picture, which a pair of texts alone does not name."""
        key, image = f"{source}/{picture.id}/{number}", picture.id if source == SOURCE else None
        return EntailmentPair(
            key, premise, self.text, image, self.label, self.relation, source, split, picture.family, self.caption
        )


_TRIES = 12
_ALTERED_SHARE = 0.5  # of what does not hold; the rest was written for other pictures


def pairs_about(
    rng: np.random.Generator, gallery: "GalleryTruth", split: SplitName, hypotheses: int
) -> list[EntailmentPair]:
    """Up to `hypotheses` pairs for each picture of a gallery, half of them entailed if possible.

    What holds was written for the picture itself, once, or for another one. What does not is one of `altered`, or was written for
    another picture, a near neighbour first. Nothing doubtful is among them, and no premise holds its hypothesis word by word.
    """
    pairs: list[EntailmentPair] = []
    for position, image in enumerate(gallery.pictures):
        own, foreign = gallery.own(position), gallery.foreign(position, 1)
        # most of those that hold say little, so what says more comes first in half of the places
        rng.shuffle(foreign)
        foreign[: len(foreign) // 2] = sorted(foreign[: len(foreign) // 2], key=lambda caption: -caption.details)
        once = [choose(rng, own)] if len(own) > 1 else []
        holding = [*once, *foreign][: hypotheses // 2]
        chosen = [Hypothesis(caption.statement.text, caption.id, "entailment", 1) for caption in holding]
        chosen += _failing(rng, gallery, position, hypotheses - hypotheses // 2, [row.details for row in holding])
        for number, one in enumerate(chosen):
            others = (caption.statement.text for caption in own if caption.id != one.caption)
            premise = " ".join(premise for premise in others if one.text not in premise) or None
            pairs.append(one.after(premise, image, split, SOURCE, number))
    return pairs


def altered(rng: np.random.Generator, statement: Statement, view: SceneView) -> Statement | None:
    """The statement with one thing changed, clearly false of the picture; None if none is found."""
    for _ in range(_TRIES):
        which = int(rng.integers(len(statement.predicates)))
        changed = _changed(rng, statement.predicates[which])
        if changed is not None and changed.verdict(view) is False:
            return state(rng, [*statement.predicates[:which], changed, *statement.predicates[which + 1 :]])
    return None


def _changed(rng: np.random.Generator, predicate: Predicate) -> Predicate | None:
    """The predicate with another region, side, number, backdrop, or one other attribute of a kind it names."""
    options: list[dict[str, object]] = []
    match predicate:
        case Before(backdrop):
            options = [{"backdrop": choose(rng, [name for name in BACKDROPS if name != backdrop])}]
        case Counts(_, number):
            options = [{"number": number + 1}, {"number": max(0, number - 1)}]
        case RelativePosition(_, side, _):
            options = [{"side": choose(rng, [name for name in SIDE_PHRASES if name != side])}]
        case Within(_, region):
            options = [{"region": choose(rng, [name for name in PLACE_PHRASES if name != region])}]
    for name in ("kind", "other"):
        kind = getattr(predicate, name, None)
        if isinstance(kind, Kind):
            for field in (field for field in POOLS if getattr(kind, field)):
                other = choose(rng, [one for one in POOLS[field] if one != getattr(kind, field)])
                # another shape may have no face
                face = "" if field == "shape" else kind.face
                options.append({name: msgspec.structs.replace(kind, face=face, **{field: other})})
    if not options:
        return None
    return msgspec.structs.replace(predicate, **options[int(rng.integers(len(options)))])


def _failing(
    rng: np.random.Generator, gallery: "GalleryTruth", position: int, count: int, details: Sequence[int]
) -> list[Hypothesis]:
    """What does not hold, saying as many things as what does: else the number of words would give the label away."""
    picture, false = gallery.pictures[position], gallery.foreign(position, 0)
    true = [gallery.captions[at] for at in np.flatnonzero(gallery.verdicts[:, position] == 1).tolist()]
    rng.shuffle(false)
    wanted = [details[number % len(details)] if details else 1 for number in rng.permutation(count).tolist()]
    failing: list[Hypothesis] = []
    for number, much in enumerate(wanted):
        alike = [caption.statement for caption in true if caption.details == much]
        early = alike and number < round(_ALTERED_SHARE * count)
        if early and (changed := altered(rng, choose(rng, alike), picture.view)):
            failing.append(Hypothesis(changed.text, None, "altered", 0))
        elif false:
            # of what is as detailed a near neighbour's comes first
            far = {row.id: gallery.pictures[row.owner].family != picture.family for row in false}
            best = min(false, key=lambda row: (abs(row.details - much), far[row.id]))
            false.remove(best)
            relation = "other" if far[best.id] else "neighbour"
            failing.append(Hypothesis(best.statement.text, best.id, relation, 0))
    return failing


TEXT_SOURCE = "world-text"


def text_pairs(rng: np.random.Generator, gallery: "GalleryTruth", split: SplitName, count: int) -> list[EntailmentPair]:
    """Up to `count` pairs of texts for each picture of a gallery, half of them entailed; each in a picture's family.

    Both have the same premises and say equally much: neither premise nor length predicts the label.
    """
    pairs: list[EntailmentPair] = []
    for position, image in enumerate(gallery.pictures):
        own = gallery.own(position)
        for number in range(count // 2):
            premise = choose(rng, own).statement
            weaker = weakened(rng, premise)
            other = altered(rng, weaker, image.view)
            if other is not None:
                both = Hypothesis(weaker.text, None, "entailment", 1), Hypothesis(other.text, None, "altered", 0)
                for at, one in enumerate(both, 2 * number):
                    pairs.append(one.after(premise.text, image, split, TEXT_SOURCE, at))
    return pairs


def weakened(rng: np.random.Generator, statement: Statement) -> Statement:
    """A statement that holds wherever the given one does: some of its predicates, each as it is or saying less, in other words."""
    kept = 1 + int(rng.integers(len(statement.predicates)))
    chosen = rng.permutation(len(statement.predicates))[:kept].tolist()
    weaker: list[Predicate] = []
    for position in chosen:
        options = [statement.predicates[position]]
        match options[0]:  # what follows from it and says less
            case Shows(kind):
                options.append(Shows(_fewer(rng, kind)))
            case Within(kind, region):
                options += Within(_fewer(rng, kind), region), Shows(_fewer(rng, kind))
            case RelativePosition(kind, side, other):
                relation = RelativePosition(_fewer(rng, kind), side, _fewer(rng, other))
                options += relation, Shows(_fewer(rng, kind))
            case Counts(kind, number) if number > 0:
                options.append(Shows(kind))
        predicate = options[int(rng.integers(len(options)))]
        if predicate not in weaker:
            weaker.append(predicate)
    return state(rng, weaker)


def _fewer(rng: np.random.Generator, kind: Kind) -> Kind:
    """The kind without one of its attributes; as it is where it has one only."""
    named = [field for field in kind.__struct_fields__ if getattr(kind, field)]
    if len(named) < 2:
        return kind
    return msgspec.structs.replace(kind, **{named[int(rng.integers(len(named)))]: ""})


TABLES = ("sets", "images", "splits", "texts", "queries", "judgments", "truth", "pairs")

_DETAILS = (0.45, 0.8)  # how often a caption says one thing, and up to two; else three
_GALLERY_TRIES = 60
_THUMBNAIL = 8

Verdicts = npt.NDArray[np.int8]


@dataclass(frozen=True)
class GalleryPlan:
    """Pictures that are searched together: whether its captions are queries, and whether pairs for entailment stand on it."""

    name: str
    split: SplitName
    queries: bool
    pairs: bool


GALLERIES = (
    GalleryPlan("train", "train", queries=True, pairs=False),
    GalleryPlan("valid", "valid", queries=True, pairs=False),
    GalleryPlan("test", "test", queries=True, pairs=True),
    GalleryPlan("pair-train", "train", queries=False, pairs=True),
    GalleryPlan("pair-valid", "valid", queries=False, pairs=True),
)
"""Pairs for training never stand on a gallery that is searched."""


@dataclass(frozen=True)
class Family:
    """Near neighbours: their scenes, what is said of each, and their pictures as JPEG bytes."""

    scenes: tuple[Scene, ...]
    statements: tuple[tuple[Statement, ...], ...]
    pictures: tuple[bytes, ...]


class GalleryPicture(NamedTuple):
    """A picture of a gallery."""

    id: str
    family: str
    view: SceneView


class GalleryCaption(NamedTuple):
    """A caption that was written for the picture at the place `owner`."""

    id: str
    owner: int
    statement: Statement

    @property
    def details(self) -> int:
        """How many things it says."""
        return len(self.statement.predicates)


@dataclass(frozen=True, eq=False)
class GalleryTruth:
    """A gallery of N pictures and C captions as it is drawn.

    Attributes:
        verdicts: [C, N] 1 where a caption holds for a picture, 0 where it does not, -1 where it is too close to call.
    """

    pictures: Sequence[GalleryPicture]
    captions: Sequence[GalleryCaption]
    verdicts: Verdicts

    def own(self, position: int) -> list[GalleryCaption]:
        """The captions that were written for a picture."""
        return [caption for caption in self.captions if caption.owner == position]

    def foreign(self, position: int, verdict: int) -> list[GalleryCaption]:
        """The captions of other pictures that have this verdict on a picture."""
        judged = (self.captions[at] for at in np.flatnonzero(self.verdicts[:, position] == verdict).tolist())
        return [caption for caption in judged if caption.owner != position]


def draw_family(config: WorldCaptions, gallery: int, number: int) -> Family:
    """Family `number` of a gallery; it depends on the seed and on these numbers alone."""
    rng = np.random.default_rng((config.seed, gallery, number))
    base = sample_scene(rng)
    scenes = [base, *neighbours(rng, base, int(rng.integers(config.smallest_family - 1, config.largest_family)))]
    for _ in range(config.edits):
        scenes = [neighbour(rng, scene) for scene in scenes]
    statements = tuple(
        tuple(statement_about(rng, view, config.say) for _ in range(int(rng.integers(config.least, config.most + 1))))
        for view in map(SceneView, scenes)
    )
    return Family(tuple(scenes), statements, tuple(draw_picture(scene, config.side) for scene in scenes))


def statement_about(rng: np.random.Generator, view: SceneView, say: Sequence[str]) -> Statement:
    """A true statement of one to three details, made of the predicates in `say`."""
    wanted = 1 + int(np.searchsorted(_DETAILS, rng.random()))
    predicates = true_predicates(rng, view, wanted, say, _GALLERY_TRIES)
    return state(rng, predicates or [Before(view.scene.backdrop.name)])


def judge_all(statements: Sequence[Statement], views: Sequence[SceneView]) -> Verdicts:
    """What holds: [C, N] as in `GalleryTruth`. Each distinct predicate is evaluated once."""
    by_predicate: dict[Predicate, Verdicts] = {}
    table = np.empty((len(statements), len(views)), np.int8)
    for row, statement in enumerate(statements):
        for predicate in statement.predicates:
            if predicate not in by_predicate:
                verdicts = map(predicate.verdict, views)
                by_predicate[predicate] = np.array(
                    [-1 if verdict is None else int(verdict) for verdict in verdicts], np.int8
                )
        columns = np.stack([by_predicate[predicate] for predicate in statement.predicates])
        # false if any is false, else doubtful if any is doubtful
        table[row] = np.where((columns == 0).any(axis=0), 0, columns.min(axis=0))
    return table


def _add_gallery(config: WorldCaptions, number: int, families: Sequence[Family], rows: dict[str, list[Any]]) -> None:
    plan, name = GALLERIES[number], GALLERIES[number].name
    pictures, captions = list[GalleryPicture](), list[GalleryCaption]()
    for at, family in enumerate(families):
        group = f"{name}/{at:05d}"
        for position, scene in enumerate(family.scenes):
            image, path = f"{group}-{position}", f"images/{group}-{position}.jpg"
            content = family.pictures[position]
            write_bytes(config.out / path, content, durable=False)
            rows["images"].append(Image(image, path, sha256_bytes(content), group, config.side, config.side))
            said = enumerate(family.statements[position])
            captions += [GalleryCaption(f"{image}/{order}", len(pictures), statement) for order, statement in said]
            pictures.append(GalleryPicture(image, group, SceneView(scene)))
    verdicts = judge_all([caption.statement for caption in captions], [picture.view for picture in pictures])
    gallery, ids = GalleryTruth(pictures, captions, verdicts), tuple(picture.id for picture in pictures)
    files = [decode_jpeg(content) for family in families for content in family.pictures]
    small = [cv2.resize(picture, (_THUMBNAIL, _THUMBNAIL), interpolation=cv2.INTER_AREA) for picture in files]
    # distances of each two as unit vectors, 0..2
    vectors = np.stack([np.asarray(picture, np.float64).reshape(-1) + 1 for picture in small])
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    upper = np.triu_indices(len(files), 1)
    distances = np.sqrt(np.maximum(0.0, 2 - 2 * (vectors @ vectors.T)[upper])) if len(files) > 1 else np.zeros(1)
    closest, mean = round(float(distances.min()), 6), round(float(distances.mean()), 6)
    rows["sets"].append(ImageSet(name, "photos", ids, name, name, None, closest, mean))
    rows["splits"].append(Split(name, plan.split))
    for at, (caption, row) in enumerate(zip(captions, verdicts, strict=True)):
        rows["texts"].append(Text(caption.id, caption.statement.text, AUTHOR, at))
        holds, doubtful = (tuple(ids[place] for place in np.flatnonzero(row == value)) for value in (1, -1))
        rows["truth"].append(CaptionTruth(caption.id, name, ids[caption.owner], holds, doubtful, caption.details))
        if plan.queries:
            rows["queries"].append(Query(caption.id, name, (caption.id,)))
            rows["judgments"].append(Judgment(caption.id, ids[caption.owner], "gold", 1.0))
    if plan.pairs:
        rng = np.random.default_rng((config.seed, number))  # families have three numbers
        rows["pairs"] += pairs_about(rng, gallery, plan.split, config.hypotheses)
        rows["pairs"] += text_pairs(rng, gallery, plan.split, config.texts)

"""Runs over galleries: training pairs, scores of every picture with every caption, rankings both ways."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import ClassVar

import numpy as np

from ctxr.datasets.dataset import Dataset
from ctxr.engine.progress import Progress
from ctxr.errors import UsageError
from ctxr.metrics.retrieval import Matrix, QueryScores, Vectors, caption_retrieval, top
from ctxr.models.cross.sources import CrossSource
from ctxr.models.encoders import Encoder, EncoderSource
from ctxr.models.families import find_encoder
from ctxr.models.hub import makes_pairs
from ctxr.models.precision import choose_device
from ctxr.models.preprocess import Preprocess
from ctxr.models.training.checkpoint import fingerprint_of
from ctxr.models.training.galleries import GalleryPairs, make_pairs
from ctxr.models.training.matching import Shortlist, gallery_scores
from ctxr.models.training.recipe import WITH_HEAD, Recipe
from ctxr.problems import ScoringOptions
from ctxr.problems.embeddings import PictureFiles, embedded, pixels_of
from ctxr.problems.figures import MOST_POSITIONS
from ctxr.problems.gallery.splits import GallerySplit
from ctxr.problems.pair_inputs import image_inputs
from ctxr.problems.reranking import Rerank, pair_scoring, shortlist_of
from ctxr.problems.runs import check_name, finished_runs, refuse_changed, run_folder
from ctxr.problems.scoring import Device, checkpoints, scorer_name, source_of, with_regions
from ctxr.store.artifacts import Artifact, Parent, open_artifact
from ctxr.store.kinds import MODEL, RUN
from ctxr.store.records import Record
from ctxr.store.tables import write_table


def as_pairs(
    side: GallerySplit, pictures: PictureFiles, source: "EncoderSource | CrossSource", device: str, progress: Progress
) -> "GalleryPairs":
    """What a scorer learns from, or is validated on: tokens, and pictures that were decoded, resized and cut once, or regions."""
    own, row = _rows(side, pictures)
    if isinstance(source, CrossSource):
        images = image_inputs(own, source, device, progress)
    else:
        images = pixels_of(own, Preprocess.from_config(source.build().visual.preprocess_cfg), device, progress)
    written, weak = ([(caption, int(row[image])) for caption, image in pairs] for pairs in (side.written, side.weak))
    return make_pairs(images, source.tokenize(list(side.texts)).numpy(), _galleries(side, row), written, weak)


def shortlist_for(
    side: GallerySplit, pictures: PictureFiles, rerank: Rerank, device: str, progress: Progress
) -> "Shortlist":
    """The pairs of a split that a cross-encoder rescores, its pictures as `as_pairs` has them. Raises what `load_encoder` raises."""
    return shortlist_of(_rows(side, pictures)[0], side.texts, rerank, device, progress)


def score_gallery(
    checkpoint: Path | None,
    encoder: str,
    side: GallerySplit,
    pictures: PictureFiles,
    machine: Device,
    rerank: Rerank,
    progress: Progress,
) -> Vectors | Matrix:
    """The scores of every picture, as a query, with every caption, by a checkpoint or the published `encoder`.

    Vectors of a bi-encoder; of a cross-encoder a table of the rescored pairs, with the others ranked below. Each is computed once for the
    same weights and precision. Raises what `source_of` raises.
    """
    device = choose_device(machine.device)
    source = source_of(checkpoint, encoder, progress)
    if isinstance(source, CrossSource):
        return _matched(checkpoint, source, side, pictures, Device(device, machine.precision), rerank, progress)
    return _vectors(side, pictures, Encoder(source, device, machine.precision, progress.warn), progress)


def first_owners(side: GallerySplit) -> np.ndarray:
    """The picture that each caption was written for, [C]; the first where it was written for several."""
    captions, images = (np.array(column, np.int64) for column in zip(*side.written, strict=True))
    owners: np.ndarray = images[np.unique(captions, return_index=True)[1]]
    return owners


def _vectors(side: GallerySplit, pictures: PictureFiles, encoder: "Encoder", progress: Progress) -> Vectors:
    """Unit vectors of every picture, as queries, and of every caption, as candidates; each is computed once."""
    own, row = _rows(side, pictures)
    images, captions = embedded(own, list(side.texts), encoder, progress)
    return Vectors(images[row], captions)


def _matched(
    checkpoint: Path | None, source: "CrossSource", side: GallerySplit, pictures: PictureFiles, machine: Device,
    rerank: Rerank, progress: Progress,
) -> Matrix:  # fmt: skip
    """Scores of pictures with captions, pair by pair, in the order of the side."""
    own, row = _rows(side, pictures)
    scorer = pair_scoring(checkpoint, source, own, side.texts, machine, progress)
    shortlist = shortlist_of(own, side.texts, rerank, machine.device, progress)
    with progress.task(f"looking at pairs of {side.name}", len(row)) as task:
        look = partial(scorer.scores, advance=task.advance)
        found = gallery_scores(_galleries(side, row), np.array(side.caption_galleries), shortlist, look)
    return Matrix(found.values[row])


def _rows(side: GallerySplit, pictures: PictureFiles) -> tuple[PictureFiles, np.ndarray]:
    """The pictures of a side, and the row in them of each of its images."""
    own = pictures.of([side.asked()])
    place = {image: row for row, image in enumerate(own.files)}
    return own, np.array([place[image] for image in side.images], np.int64)


def _galleries(side: GallerySplit, row: np.ndarray) -> np.ndarray:
    """The gallery of each picture, in the order of `_rows`."""
    found = np.empty(len(side.images), np.int64)
    found[row] = side.image_galleries
    return found


RANKINGS, RECALLS = "rankings.jsonl", "recalls.jsonl"

RANKED = 30
"""Candidates that are kept of each query: as many as the largest K of Entail@K."""


class QueryRanking(Record, frozen=True):
    """The best candidates of a query, best first, at most `RANKED`, with their scores: cosines, or log-odds of a match.

    Attributes:
        asks: `image` where a caption asks for pictures, `caption` where a picture asks for captions.
    """

    KEY: ClassVar[tuple[str, ...]] = ("asks", "query", "scorer")

    asks: str
    query: str
    scorer: str
    candidates: tuple[str, ...]
    scores: tuple[float, ...]


class RecallRow(Record, frozen=True):
    """A figure of a scorer on a side, 0..1: `TR@k`, `IR@k`, and their mean over k = 1, 5, 10 as `mean recall`."""

    KEY: ClassVar[tuple[str, ...]] = ("scorer", "side", "measure")

    scorer: str
    side: str
    measure: str
    value: float


def rankings_of(side: GallerySplit, found: QueryScores, scorer: str) -> list[QueryRanking]:
    """The best candidates in the gallery of every caption, and of every picture of a gallery."""
    galleries, owners = np.array(side.image_galleries), np.array(side.caption_galleries)
    rows = []
    for gallery in range(len(side.galleries)):
        images, captions = np.flatnonzero(galleries == gallery), np.flatnonzero(owners == gallery)
        part = found.part(images, captions)
        names = [side.images[image] for image in images], [side.captions[caption] for caption in captions]
        for asks, scored, (queries, candidates) in (
            ("caption", part, names),
            ("image", part.turned(), names[::-1]),
        ):
            for asked, best, scores in top(scored, RANKED):
                rows += [
                    QueryRanking(asks, queries[query], scorer, tuple(candidates[one] for one in row), tuple(values))
                    for query, row, values in zip(asked.tolist(), best.tolist(), scores.tolist(), strict=True)
                ]
    return rows


def recalls_of(side: GallerySplit, found: QueryScores, scorer: str) -> list[RecallRow]:
    """TR and IR of a side; every gallery is searched by itself, and counts as often as it has captions."""
    galleries, owners = np.array(side.image_galleries), first_owners(side)
    totals: dict[str, float] = {}
    for gallery in range(len(side.galleries)):
        images, captions = np.flatnonzero(galleries == gallery), np.flatnonzero(galleries[owners] == gallery)
        part = found.part(images, captions)
        means = caption_retrieval(part, np.searchsorted(images, owners[captions])).means()
        means["mean recall"] = sum(means.values()) / len(means)
        for measure, value in means.items():
            totals[measure] = totals.get(measure, 0.0) + value * len(captions) / len(owners)
    return [RecallRow(scorer, side.side, measure, value) for measure, value in totals.items()]


def mean_recall(rows: Sequence[RecallRow], scorer: str, side: str) -> float | None:
    """The mean recall of a scorer on a side, 0..1; None where it was not measured."""
    return next(
        (row.value for row in rows if (row.scorer, row.side, row.measure) == (scorer, side, "mean recall")), None
    )


def write_rankings(
    run: Path,
    recipe: Recipe,
    sides: Sequence[GallerySplit],
    pictures: PictureFiles,
    machine: Device,
    progress: Progress,
) -> list[str]:
    """Rankings and recalls by every seed of a run; the names of the tables."""
    rankings: list[QueryRanking] = []
    recalls: list[RecallRow] = []
    rerank, seeds = Rerank(recipe.rerank, recipe.rerank_by), checkpoints(run)
    for seed in seeds:
        scorer = scorer_name(run, seed, len(seeds))
        for side in sides:
            found = score_gallery(seed, recipe.encoder, side, pictures, machine, rerank, progress)
            rankings += rankings_of(side, found, scorer)
            recalls += recalls_of(side, found, scorer)
    write_table(run / RANKINGS, rankings)
    write_table(run / RECALLS, recalls)
    return [RANKINGS, RECALLS]


@dataclass(frozen=True)
class GalleryRun:
    """One row of a table: an encoder, or several that differ in their seed alone.

    Attributes:
        found: what every scorer says of a side, by its name. origin: what it is, by content.
        looked: the shortlist of a cross-encoder; None for encoders of vectors.
    """

    name: str
    found: Callable[[GallerySplit], Mapping[str, Vectors | Matrix]]
    origin: Parent
    artifact: Artifact | None = None
    looked: Rerank | None = None


def asks_galleries(sources: Sequence[str], dataset: Dataset, workdir: Path) -> bool:
    """Whether images are looked for in galleries of photos, and no source needs a set to score a picture."""
    asked = {query.image_set for query in dataset.queries.values() if query.labels is None}
    sets = [one for one in dataset.sets if one.id in asked]
    galleries = all(one.kind == "photos" for one in sets) and max((len(one.images) for one in sets), default=0)
    return galleries > MOST_POSITIONS and all(_searches(one, workdir) for one in sources or finished_runs(workdir))


def find_gallery_runs(
    sources: Sequence[str], pictures: PictureFiles, workdir: Path, device: str, progress: Progress, rerank: Rerank | None = None,
    regions: str = "",
) -> list[GalleryRun]:  # fmt: skip
    """The runs that `sources` name, or every one of the project. Raises what `find_encoder` and `open_artifact` raise.

    Args:
        rerank: what encoders of pairs look at; None for what each was validated with. regions: as in `scores_of`.
    """
    for source in sources:
        check_name(source, workdir)
    runs = [
        _open(source, pictures, workdir, device, progress, rerank, regions)
        for source in sources or finished_runs(workdir)
    ]
    names = [run.name for run in runs]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise UsageError(f"two runs are called {twice!r}", hint="rename one of the folders")
    return runs


def _searches(source: str, workdir: Path) -> bool:
    folder = run_folder(source, workdir)
    if folder is None:
        return bool(source) and not Path(source).is_file() and Path(source).suffix not in (".json", ".jsonl")
    config = open_artifact(folder, RUN).manifest.config
    return bool(checkpoints(folder)) and config.get("variant") not in WITH_HEAD


def _open(
    source: str,
    pictures: PictureFiles,
    workdir: Path,
    device: str,
    progress: Progress,
    rerank: Rerank | None,
    regions: str,
) -> GalleryRun:
    folder = run_folder(source, workdir)
    artifact: Artifact | None = None
    scorers: dict[str, Path | None] = {source: None}
    machine = Device(device)
    if folder is None:
        encoder, name, way = source, source, rerank or Rerank()
        origin = Parent(source, MODEL, fingerprint_of(find_encoder(source, progress.warn)))
    else:
        artifact, seeds = open_artifact(folder, RUN), checkpoints(folder)
        refuse_changed(artifact)
        config = artifact.manifest.config
        encoder, name = str(config["encoder"]), folder.resolve().name
        scorers = {scorer_name(folder, seed, len(seeds)): seed for seed in seeds}
        way = rerank or Rerank(int(config.get("rerank", 0)), str(config.get("rerank_by", "")))
        origin = Parent(name, RUN, artifact.sha256)
        regions = regions or str(config.get("regions", ""))
        machine = Device(device, str(config.get("precision", "auto")))

    def found(side: GallerySplit) -> Mapping[str, Vectors | Matrix]:
        seen = with_regions(pictures, encoder, regions, progress)
        return {
            scorer: score_gallery(checkpoint, encoder, side, seen, machine, way, progress)
            for scorer, checkpoint in scorers.items()
        }

    return GalleryRun(name, found, origin, artifact, way if makes_pairs(encoder) else None)


@dataclass(frozen=True)
class OpenGallery:
    """A run or an encoder that scores galleries.

    Attributes:
        checkpoints: by scorer; None for a published encoder. rerank: the shortlist of a cross-encoder.
    """

    checkpoints: Mapping[str, Path | None]
    encoder: str
    device: Device
    rerank: Rerank
    regions: str
    progress: Progress

    def score(self, examples: tuple[GallerySplit, PictureFiles]) -> dict[str, Vectors | Matrix]:
        """Scores of every picture of a split with every caption, by scorer."""
        split, pictures = examples
        pictures = with_regions(pictures, self.encoder, self.regions, self.progress)
        return {
            scorer: score_gallery(checkpoint, self.encoder, split, pictures, self.device, self.rerank, self.progress)
            for scorer, checkpoint in self.checkpoints.items()
        }


def open_run(source: Path | str, options: ScoringOptions, progress: Progress) -> OpenGallery:
    """A run by its folder, or an encoder by its name. Raises what `open_artifact` raises, DataError for a changed run."""
    rerank = None if options.rerank is None else Rerank(options.rerank, options.rerank_by)
    if isinstance(source, str):
        device = Device(options.device, options.precision)
        return OpenGallery({source: None}, source, device, rerank or Rerank(), options.regions, progress)
    artifact, seeds = open_artifact(source, RUN), checkpoints(source)
    refuse_changed(artifact)
    config = artifact.manifest.config
    return OpenGallery(
        {scorer_name(source, seed, len(seeds)): seed for seed in seeds},
        str(config["encoder"]),
        Device(options.device, str(config.get("precision", "auto"))),
        rerank or Rerank(int(config.get("rerank", 0)), str(config.get("rerank_by", ""))),
        options.regions or str(config.get("regions", "")),
        progress,
    )


def scored_runs(runs: Sequence[GalleryRun], progress: Progress) -> dict[str, dict[str, object]]:
    """The shortlist of each cross-encoder, with the weights of its retriever, for the settings of an evaluation."""
    told: dict[str, dict[str, object]] = {}
    for one in runs:
        if one.looked is not None:
            by = one.looked.by if one.looked.most else ""
            weights = fingerprint_of(find_encoder(by, progress.warn)) if by else ""
            told[one.name] = {"most": one.looked.most, "by": by, "weights": weights}
    return told


def shortlist_notes(runs: Sequence[GalleryRun], compare: bool) -> list[str]:
    """Notes on figures with a shortlist."""
    notes = [
        f"{one.name} rescores the {one.looked.most} candidates of each query that {one.looked.by} ranks highest, in both directions; "
        "the others rank below, in that order"
        for one in runs
        if one.looked is not None and one.looked.most
    ]
    ways = {None if one.looked is None or not one.looked.most else one.looked for one in runs}
    if compare and notes and len(ways) > 1:
        notes.append(
            "runs behind different shortlists, or behind none, are compared: a difference is also one of retrievers"
        )
    return notes

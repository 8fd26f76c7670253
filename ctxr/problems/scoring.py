"""Scores of any model for the queries of a dataset: a trained run, or an encoder as it was published."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from ctxr.datasets.dataset import Dataset
from ctxr.engine.progress import Progress, Silent
from ctxr.errors import DataError
from ctxr.models.context import PLACES
from ctxr.models.cross.sources import CrossSource
from ctxr.models.dataset_vectors import vectors_of
from ctxr.models.encoders import Encoder, EncoderSource
from ctxr.models.families import find_encoder
from ctxr.models.hub import makes_pairs
from ctxr.models.picture_vectors import PictureVectors
from ctxr.models.precision import choose_device
from ctxr.models.scorers import ClipScorer, PairScorer
from ctxr.models.training.checkpoint import CONFIG, HEAD, fingerprint_of, load_head, read_checkpoint, tuned
from ctxr.models.training.examples import ExampleTable
from ctxr.models.training.recipe import WITH_HEAD
from ctxr.models.training.scoring import attend_all, in_bf16, resolved, score_all
from ctxr.problems.embeddings import Array, PictureFiles, as_vectors, cached
from ctxr.problems.pair_inputs import as_features, as_inputs, at_once, regions_for
from ctxr.problems.protocols import OpenRun, ScoringOptions
from ctxr.problems.queries import EvalQuery, by_split, check_positions, contents_of, pictures_of, queries_of
from ctxr.problems.runs import checkpoints, scorers_in
from ctxr.store.artifacts import open_artifact
from ctxr.store.hashing import sha256_file, sha256_of
from ctxr.store.kinds import RUN
from ctxr.store.records import Score


@dataclass(frozen=True)
class Device:
    """Where and how finely vectors are computed: "auto", "cpu", "cuda", "mps"; "fp32", "bf16", or "auto", as a run was trained."""

    device: str = "auto"
    precision: str = "auto"


def scores_of(
    model: Path | str,
    dataset: Dataset,
    queries: Collection[str] | None = None,
    workdir: Path | None = None,
    machine: Device | None = None,
    progress: Progress | None = None,
    regions: str = "",
) -> list[Score]:
    """A score for every candidate of every query, higher is better; queries by side and id.

    Args:
        model: folder of a run, or the name of an encoder, which then is tried without training: a cosine, -1..1, or the
            log-odds of a match by an encoder of pairs.
        dataset: what is asked; queries with labels are left out.
        queries: ids; None for all.
        workdir: project folder, where vectors are kept for the next time; None for that of the run, or `work`.
        machine: where and how finely to compute.
        progress: hears of progress.
        regions: name of region features in the project, for a model that looks at regions; "" for those it was trained on.

    The scorer is called as the run's folder, or the encoder; a run of several seeds gives `NAME/seedN` for each.

    Raises UsageError for an unknown encoder, UnfinishedError for a run that is not finished, DataError for pictures or
    weights that are not there or do not fit.
    """
    selected = queries_of(dataset, queries)
    files = pictures_of(dataset, selected)
    folder = Path(model)
    project = workdir or (folder.resolve().parents[1] if folder.is_dir() else Path("work"))
    pictures = PictureFiles(files, contents_of(dataset, files), project)
    if not folder.is_dir():
        pictures = with_regions(pictures, str(model), regions, progress)
        return scores_by(None, str(model), str(model), selected, pictures, machine, progress)
    artifact = open_artifact(folder, RUN, "ctxr train")
    if not checkpoints(folder):
        raise DataError(f"{folder} holds no checkpoint", hint="train it again: ctxr train")
    config, machine = artifact.manifest.config, machine or Device()
    if machine.precision == "auto":
        machine = replace(machine, precision=str(config.get("precision", "auto")))
    encoder = str(config["encoder"])
    pictures = with_regions(pictures, encoder, regions or str(config.get("regions", "")), progress)
    return scores_by_seeds(folder, encoder, selected, pictures, machine, progress)


@dataclass(frozen=True)
class OpenSets(OpenRun):
    """A run or an encoder that scores the images of sets."""

    source: Path | str
    options: ScoringOptions
    progress: Progress

    def score(self, examples: tuple[Dataset, Collection[str] | None]) -> dict[str, dict[str, dict[str, float]]]:
        """Values by scorer, query and candidate, of queries of a dataset, None for all."""
        options = self.options
        device = Device(options.device, options.precision)
        rows = scores_of(self.source, *examples, options.workdir, device, self.progress, options.regions)
        values: dict[str, dict[str, dict[str, float]]] = {}
        for row in rows:
            values.setdefault(row.scorer, {}).setdefault(row.query, {})[row.candidate] = row.value
        return values

    def vectors(self, dataset: Dataset) -> PictureVectors | None:
        """Of all pictures, by an encoder."""
        return vectors_of(dataset, str(self.source), self.options.device, self.progress)

    def explain(self, examples: tuple[Dataset, Collection[str]]) -> dict[tuple[str, str], list[list[int]]]:
        """Attention of the last layer, averaged over heads, of the queries that are shown; kept in the project's cache."""
        (dataset, shown), run, progress = examples, Path(self.source), self.progress
        config = open_artifact(run, RUN).manifest.config
        device = Device(self.options.device, str(config.get("precision", "auto")))
        encoder, regions = str(config["encoder"]), str(config.get("regions", ""))
        attention = {}
        # whole splits, as they were asked for when the run was trained and evaluated: their vectors are in the cache
        for queries in by_split(queries_of(dataset)).values():
            rows = [row for row, one in enumerate(queries) if one.query in shown]
            if not rows:
                continue
            files = pictures_of(dataset, queries)
            pictures = PictureFiles(files, contents_of(dataset, files), self.options.workdir)
            pictures = with_regions(pictures, encoder, regions, progress)
            for scorer, seed in scorers_in(run).items():
                tables = _attention(seed, encoder, queries, rows, pictures, device, progress)
                for row, table in zip(rows, tables, strict=True):
                    count = len(queries[row].images)
                    percent = np.rint(100 * table[:count, :count]).astype(int).tolist()
                    attention[scorer, queries[row].query] = percent
        return attention


def _attention(
    seed: Path,
    encoder: str,
    queries: Sequence[EvalQuery],
    rows: list[int],
    pictures: PictureFiles,
    machine: Device,
    progress: Progress,
) -> Array:
    """float32 [n, K, K] of the queries at `rows`, by the checkpoint `seed`; computed once."""
    contents = [
        sha256_of([one.text, [pictures.contents[image] for image in one.images], one.ordered])
        for one in (queries[row] for row in rows)
    ]
    most = max(len(one.images) for one in queries)
    origin = {"attention": sha256_file(seed / HEAD), "config": sha256_file(seed / CONFIG), "most": most}

    def make(part: slice) -> Array:
        device, source = choose_device(machine.device), source_of(seed, encoder, progress)
        plan = plan_scoring(seed, source, pictures, Device(device, machine.precision), progress)
        shares: Array = attend_all(plan.ranker.eval(), plan.prepare(queries), rows[part], plan.at_once, device).numpy()
        return shares

    with progress.task("attention", len(rows)) as task:
        return np.concatenate(cached(pictures.workdir, origin, contents, make, task.advance))


def open_run(source: Path | str, options: ScoringOptions, progress: Progress) -> OpenSets:
    """A run by its folder, or an encoder by its name; it is opened once something is to be scored."""
    return OpenSets(source, options, progress)


def scores_by_seeds(
    run: Path,
    encoder: str,
    queries: Sequence[EvalQuery],
    pictures: PictureFiles,
    machine: Device,
    progress: Progress | None,
) -> list[Score]:
    """Scores by every checkpoint of a run."""
    return [
        row
        for scorer, seed in scorers_in(run).items()
        for row in scores_by(seed, encoder, scorer, queries, pictures, machine, progress)
    ]


def scores_by(
    checkpoint: Path | None,
    encoder: str,
    scorer: str,
    queries: Sequence[EvalQuery],
    pictures: PictureFiles,
    machine: Device | None = None,
    progress: Progress | None = None,
) -> list[Score]:
    """Scores by one checkpoint, or by the published `encoder` where there is none, under the name `scorer`."""
    notes = None if checkpoint is None else read_checkpoint(checkpoint)
    if notes is not None and notes.variant == "temporal":
        check_positions(queries, PLACES, notes.all_positions)
    chance = None if notes is None else notes.chance
    progress, machine = progress or Silent(), machine or Device()
    source = source_of(checkpoint, encoder, progress)
    device = choose_device(machine.device)
    plan = plan_scoring(checkpoint, source, pictures, Device(device, machine.precision), progress)
    scores = []
    for split in by_split(queries).values():
        questions = plan.prepare(split)
        with progress.task("scoring", len(split)) as task:
            values = score_all(plan.ranker, questions, plan.at_once, device, plan.bf16, task.advance, chance).tolist()
        scores += [
            Score(one.query, image, scorer, value)
            for one, row in zip(split, values, strict=True)
            for image, value in zip(one.images, row[: len(one.images)], strict=True)
        ]
    return scores


@dataclass(frozen=True)
class ScoringPlan:
    """How queries are scored.

    Attributes:
        prepare: makes arrays of queries. ranker: the scorer of these, on its device, in evaluation mode (see `load_head`).
        at_once: queries in one pass. bf16: compute in it by autocast.
    """

    prepare: "Callable[[Sequence[EvalQuery]], ExampleTable]"
    ranker: Any
    at_once: int
    bf16: bool = False


def plan_scoring(
    checkpoint: Path | None,
    source: "EncoderSource | CrossSource",
    pictures: PictureFiles,
    machine: Device,
    progress: Progress,
) -> ScoringPlan:
    """How a checkpoint, or the published encoder where there is none, scores queries, on `machine.device`.

    Vectors, and pair features below a head over a frozen encoder, come out of the cache; any other cross-encoder computes them again.
    """
    device, precision = machine.device, machine.precision
    if not isinstance(source, CrossSource):
        embedder = Encoder(source, device, resolved(precision, device), progress.warn)
        ranker = ClipScorer().eval() if checkpoint is None else load_head(checkpoint)
        return ScoringPlan(lambda split: as_vectors(split, pictures, embedder, progress), ranker.to(device), 256)
    notes = None if checkpoint is None else read_checkpoint(checkpoint)
    if checkpoint is not None and notes is not None and notes.variant in WITH_HEAD and notes.frozen:
        ranker = load_head(checkpoint).to(device)
        return ScoringPlan(lambda split: as_features(split, pictures, source, device, precision, progress), ranker, 256)
    encoder = source.build()
    ranker = PairScorer(encoder).eval() if checkpoint is None else load_head(checkpoint, encoder)
    bf16 = in_bf16(precision, device)
    return ScoringPlan(
        lambda split: as_inputs(split, pictures, source, device, progress), ranker.to(device), at_once(device), bf16
    )


def with_regions(pictures: PictureFiles, encoder: str, name: str, progress: Progress | None) -> PictureFiles:
    """The pictures with their regions, where the encoder looks at any."""
    if not makes_pairs(encoder):
        return pictures
    source = find_encoder(encoder, (progress or Silent()).warn)
    return replace(pictures, regions=regions_for(source, name, pictures.workdir))  # type: ignore[arg-type]


def source_of(checkpoint: Path | None, encoder: str, progress: Progress) -> "EncoderSource | CrossSource":
    """The encoder below a checkpoint, with its trained weights where it has any.

    Raises DataError where it was trained over another encoder than `encoder`, or over other weights than it has now.
    """
    source = find_encoder(encoder, progress.warn)
    if checkpoint is None:
        return source
    notes = read_checkpoint(checkpoint)
    if notes.encoder != source.name:
        raise DataError(
            f"{checkpoint} was trained over the encoder {notes.encoder}, not over {source.name}",
            hint=f"train again with --set encoder={notes.encoder}",
        )
    trained = tuned(source, checkpoint, f"{notes.encoder} as trained in {checkpoint.parent.name}/{checkpoint.name}")
    if fingerprint_of(trained) != notes.fingerprint:
        raise DataError(
            f"{checkpoint} was trained over other weights than {notes.encoder} has now",
            hint="put the weights back that it was trained with, or train again: ctxr train",
        )
    return trained

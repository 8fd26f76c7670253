"""One seed of a run: trained to its end or resumed, and written as a checkpoint."""

import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, fields
from functools import partial
from pathlib import Path
from statistics import mean
from typing import Any, ClassVar, Protocol

from ctxr.engine.progress import Progress
from ctxr.errors import DataError, UsageError
from ctxr.models.cross.sources import CrossSource
from ctxr.models.encoders import Encoder, EncoderSource
from ctxr.models.families import find_encoder
from ctxr.models.precision import memory_for
from ctxr.models.scorers import ClipScorer, trainable
from ctxr.models.training.checkpoint import (
    ENCODER,
    Checkpoint,
    fingerprint_of,
    new_scorer,
    read_checkpoint,
    tuned,
    width_of,
    write_config,
    write_weights,
)
from ctxr.models.training.contextual import ContextualObjective
from ctxr.models.training.contrastive import ContrastiveObjective
from ctxr.models.training.events import Events
from ctxr.models.training.examples import ExampleTable
from ctxr.models.training.loop import BEST, Callbacks, Trainer, TrainingRun
from ctxr.models.training.matching import MatchingObjective
from ctxr.models.training.recipe import Recipe
from ctxr.models.training.scoring import in_bf16, resolved
from ctxr.models.training.state import Epoch, TrainingState
from ctxr.pipelines.modelling.config import SeedResult, TrainReport
from ctxr.problems.embeddings import PictureFiles, as_pixels, as_vectors
from ctxr.problems.gallery.scoring import RECALLS, RecallRow, as_pairs, mean_recall, shortlist_for, write_rankings
from ctxr.problems.gallery.splits import GallerySplit
from ctxr.problems.pair_inputs import as_features, as_inputs
from ctxr.problems.queries import EvalQuery
from ctxr.problems.reranking import Rerank
from ctxr.problems.scoring import SCORES, Device, checkpoints, scorer_name, scores_by_seeds, source_of
from ctxr.store.artifacts import (
    MANIFEST,
    Content,
    Parent,
    finish,
    finished,
    locked,
    open_artifact,
    plain,
    require_ours,
    take_manifest,
)
from ctxr.store.hashing import sha256_of
from ctxr.store.kinds import RUN
from ctxr.store.records import Record, Score
from ctxr.store.scores import write_scores
from ctxr.store.tables import read_table, write_table


def judged_on(recipe: Recipe, sides: "Mapping[str, Sequence[EvalQuery]]") -> str:
    """The side that chooses the epoch, "" where none does."""
    known = {side for side, asked in sides.items() if any(one.target is not None for one in asked)}
    if not recipe.learns:
        return ""
    if recipe.judged_on_test and "test" in known:
        return "test"
    return "valid" if "valid" in known else ""


def accuracy(scores: "Sequence[Score]", asked: "Sequence[EvalQuery]") -> float | None:
    """Share 0..1 of queries whose target scores highest; of n candidates that share the top each counts 1/n.

    None where no target is known.
    """
    values: dict[str, dict[str, float]] = {}
    for row in scores:
        values.setdefault(row.query, {})[row.candidate] = row.value
    hits = []
    for one in asked:
        if one.target is not None:
            # by position: a set may hold an image twice
            own = [values[one.query][image] for image in one.images]
            hits.append((own[one.target] == max(own)) / own.count(max(own)))
    return mean(hits) if hits else None


def mean_of(shares: "Sequence[float | None]") -> float | None:
    """The mean of those that are known."""
    known = [share for share in shares if share is not None]
    return mean(known) if known else None


MAKING = "making"
"""Folder of a run for what only an unfinished training needs."""

_NAMED = 3
"""Settings that are named where a run was trained otherwise."""


class TrainJob(Protocol):
    """What is trained, seed by seed, into the folder of a run."""

    KIND: ClassVar[str]

    out: Path
    parents: tuple[Parent, ...]
    progress: Progress

    @property
    def decides(self) -> dict[str, Any]:
        """Everything beside the parents that decides the run, with the number of its `seeds`."""

    def key(self, seed: int) -> str:
        """What decides the training of a seed: a state of another key is not gone on from."""

    def made_by(self, checkpoint: Path) -> str:
        """The key of a finished checkpoint. Raises DataError where there is none."""

    def fit(self, seed: int, making: Path) -> "tuple[Sequence[Epoch], Callable[[Path], None]]":
        """Train one seed to its end, or go on in `making`: what its epochs came to, and what writes its checkpoint."""

    def content(self) -> Content:
        """Write what is made of all checkpoints."""

    def report(self, up_to_date: bool) -> "TrainReport":
        """What the files of the run say."""

    def check(self) -> None:
        """Whatever should not fail after hours."""
        return


def train_run(job: TrainJob) -> "TrainReport":
    """The finished run of a job. Finished seeds are not trained again."""
    decides, out = job.decides, job.out
    if is_current(out, job.KIND, decides, job.parents):
        return job.report(up_to_date=True)
    job.check()
    require_ours(out)
    with locked(out):
        prepare_folder(out, job.KIND, decides, job.parents, job.progress)
        seeds = [f"seed{number}" for number in range(decides["seeds"])]
        for number, seed in enumerate(seeds):
            if _is_made(job, number):
                continue
            epochs, save = job.fit(number, out / MAKING / seed)
            take_manifest(out)
            shutil.rmtree(out / seed, ignore_errors=True)
            write_history(out, number, epochs)
            save(out / seed)
        take_manifest(out)
        for extra in out.glob("seed*"):
            if extra.name[4:].isdigit() and extra.name not in seeds:
                shutil.rmtree(extra)
        drop_seeds(out, len(seeds))
        files, counts, models = job.content()
        files += [HISTORY, *(f"{seed}/{file.name}" for seed in seeds for file in (out / seed).iterdir())]
        finish(
            out,
            kind=job.KIND,
            verb="train",
            config=decides,
            parents=job.parents,
            content=Content(files, counts, models),
        )
        shutil.rmtree(out / MAKING, ignore_errors=True)
    return job.report(up_to_date=False)


def _is_made(job: TrainJob, seed: int) -> bool:
    try:
        return job.made_by(job.out / f"seed{seed}") == job.key(seed)
    except DataError:
        return False


def is_current(out: Path, kind: str, decides: Mapping[str, Any], parents: Sequence[Parent]) -> bool:
    """Whether exactly this run lies in `out`, finished and as it was written. What it was made from may have been renamed."""
    found = finished(out, kind, "train", decides, parents, renamed=True)
    return found is not None and not found.changed_files()


def prepare_folder(
    out: Path, kind: str, decides: Mapping[str, Any], parents: Sequence[Parent], progress: Progress
) -> None:
    """Handle a finished run in `out` that differs from the requested one, or was damaged.

    Seeds with damaged files are removed, to be trained again. A run of other settings is kept until the first new seed is done, so
    an interrupted training loses nothing.
    """
    if not (out / MANIFEST).is_file():
        return
    if finished(out, kind, "train", decides, parents, renamed=True) is None:
        known, wanted = open_artifact(out, kind).manifest.config, plain(decides)
        other = [name for name, value in wanted.items() if known.get(name) != value]
        why = ", ".join(other[:_NAMED]) + (f" and {len(other) - _NAMED} more" if len(other) > _NAMED else "")
        progress.warn(
            f"{out} holds a run that was trained otherwise ({why or 'on other data'}): it stays until the first seed of the new one "
            "is done; --name keeps both"
        )
        return
    damaged = open_artifact(out, kind).changed_files()
    take_manifest(out)
    for seed in sorted({Path(name).parts[0] for name in damaged if "/" in name}):
        progress.warn(f"{out / seed} was changed or damaged since it was written, so this seed is trained again")
        shutil.rmtree(out / seed, ignore_errors=True)


HISTORY, CLOCK = "history.jsonl", "clock.jsonl"


class HistoryRow(Record, frozen=True):
    """What an epoch of a seed came to: mean loss of its queries, accuracy on valid 0..1; None where it was not judged."""

    KEY = ("seed", "epoch")

    seed: int
    epoch: int
    loss: float
    accuracy: float | None


class ClockRow(Record, frozen=True):
    """How long an epoch took: the one table that differs between equal runs, so no manifest lists it."""

    KEY = ("seed", "epoch")

    seed: int
    epoch: int
    seconds: float


def write_history(run: Path, seed: int, epochs: Iterable["Epoch"]) -> None:
    """Put the epochs of a seed in the place of those that the run had of it."""
    rows = list(epochs)
    others = [row for row in read_history(run) if row.seed != seed]
    write_table(run / HISTORY, others + [HistoryRow(seed, row.epoch, row.loss, row.accuracy) for row in rows])
    clocks = [row for row in _read_clock(run) if row.seed != seed]
    write_table(run / CLOCK, clocks + [ClockRow(seed, row.epoch, round(row.seconds, 3)) for row in rows])


def drop_seeds(run: Path, seeds: int) -> None:
    """Keep the epochs of the first `seeds` seeds alone: a run may have had more."""
    write_table(run / HISTORY, [row for row in read_history(run) if row.seed < seeds])
    write_table(run / CLOCK, [row for row in _read_clock(run) if row.seed < seeds])


def read_history(run: Path) -> list[HistoryRow]:
    """What is known of every epoch."""
    return read_table(run / HISTORY, HistoryRow) if (run / HISTORY).exists() else []


def _read_clock(run: Path) -> list[ClockRow]:
    return read_table(run / CLOCK, ClockRow) if (run / CLOCK).exists() else []


TENSORBOARD = "tensorboard"
"""Folder of a run for event files: they hold clocks, so no manifest lists them."""


@dataclass(frozen=True)
class ScorerJob(TrainJob):
    """What the seeds of a run have in common.

    Attributes:
        recipe: with the encoder's resolved name. seeds: how many. out: folder of the run. dataset: name of what it learns from.
        asked: queries by side; those of "train" all have targets. pictures: of all sides.
        weights: fingerprint of the encoder as it was published.
        start: run whose fine-tuned encoder is taken, None for the published one.
        parents: what the run is made from. tensorboard: whether event files are written.
        galleries: by side, where captions and pictures of a batch compete; then `asked` is empty.
    """

    KIND = RUN

    recipe: Recipe
    seeds: int
    out: Path
    dataset: str
    asked: dict[str, list[EvalQuery]]
    pictures: PictureFiles
    weights: str
    start: Path | None
    parents: tuple[Parent, ...]
    device: str
    progress: Progress
    tensorboard: bool = False
    galleries: Mapping[str, GallerySplit] = field(default_factory=dict)

    @property
    def decides(self) -> dict[str, Any]:
        """Recipe, weights and number of seeds."""
        return {**asdict(self.recipe), "weights": self.weights, "seeds": self.seeds}

    def key(self, seed: int) -> str:
        """Recipe, weights, data and seed."""
        decides = {name: value for name, value in asdict(self.recipe).items() if name != "at_once"}
        return sha256_of([decides, self.weights, seed, sorted(parent.sha256 for parent in self.parents)])

    def made_by(self, checkpoint: Path) -> str:
        """Noted beside its weights."""
        return read_checkpoint(checkpoint).made_by

    def check(self) -> None:
        """Read every picture but those of train, which are read before the first step."""
        if self.recipe.learns:
            sides = [one for side, asked in self.asked.items() if side != "train" for one in asked]
            sides += [one.asked() for side, one in self.galleries.items() if side != "train"]
            self.pictures.of(sides).check(self.progress)

    def fit(self, seed: int, making: Path) -> "tuple[list[Epoch], Callable[[Path], None]]":
        """Raises CtxrError when the loss is no number any more, DataError where the start is of another encoder."""
        recipe = self.recipe
        below = None if self.start is None else _start_of(self.start, seed)
        source = source_of(below, recipe.encoder, self.progress)
        trained = _fit(self, source, seed, making) if recipe.learns else None
        best = 0 if trained is None else trained.best or 0
        own = {field.name for field in fields(Checkpoint)} & asdict(recipe).keys()
        kept = {name: getattr(recipe, name) for name in own}

        def save(final: Path) -> None:
            write_weights(final, None if trained is None else making / BEST, None if below is None else below / ENCODER)
            # the published encoder below its own weights alone, as whoever scores with the checkpoint finds it
            fingerprint = fingerprint_of(tuned(find_encoder(recipe.encoder, self.progress.warn), final, source.name))
            width, made_by = width_of(source), self.key(seed)
            write_config(final, Checkpoint(**kept, fingerprint=fingerprint, width=width, epoch=best, made_by=made_by))

        return [] if trained is None else trained.history, save

    def content(self) -> Content:
        """Write what each seed says of validation and test."""
        seeds = checkpoints(self.out)
        recipe, machine = self.recipe, Device(self.device, self.recipe.precision)
        if self.galleries:
            sides = [self.galleries[side] for side in ("valid", "test") if side in self.galleries]
            files = write_rankings(self.out, recipe, sides, self.pictures, machine, self.progress)
        else:
            judged = [one for side in ("valid", "test") for one in self.asked.get(side, [])]
            scores = scores_by_seeds(self.out, recipe.encoder, judged, self.pictures, machine, self.progress)
            write_scores(self.out / SCORES, scores)
            files = [SCORES]
        report = self.report(up_to_date=False)
        notes = read_checkpoint(seeds[0])
        counts = {"queries": report.queries, "seeds": len(seeds), "valid": report.valid, "test": report.test}
        encoder = {"name": notes.encoder, "fingerprint": notes.fingerprint, "dim": notes.width}
        return Content(files, counts, {"encoder": encoder})

    def report(self, up_to_date: bool) -> TrainReport:
        """Of every seed and of all."""
        folders = checkpoints(self.out)
        recalls = read_table(self.out / RECALLS, RecallRow) if self.galleries else []
        scores = [] if self.galleries else read_table(self.out / SCORES, Score)
        history = read_history(self.out)
        seeds = []
        for folder in folders:
            seed, scorer = int(folder.name[4:]), scorer_name(self.out, folder, len(folders))
            own = [row for row in scores if row.scorer == scorer]
            epochs = sum(row.seed == seed for row in history)
            valid, test = (
                mean_recall(recalls, scorer, side) if self.galleries else accuracy(own, self.asked.get(side, []))
                for side in ("valid", "test")
            )
            seeds.append(SeedResult(seed, read_checkpoint(folder).epoch, epochs, valid, test))
        return TrainReport(
            run=self.out.resolve().name,
            folder=self.out,
            variant=self.recipe.variant,
            encoder=self.recipe.encoder,
            dataset=self.dataset,
            queries={side: len(asked) for side, asked in (self.galleries or self.asked).items()},
            seeds=tuple(seeds),
            valid=mean_of([one.valid for one in seeds]),
            test=mean_of([one.test for one in seeds]),
            up_to_date=up_to_date,
            regions=self.recipe.regions,
            judged_on=judged_on(self.recipe, self.asked),
        )


def _fit(job: ScorerJob, source: "EncoderSource | CrossSource", seed: int, making: Path) -> "TrainingState":
    """The training itself; its states lie in `making`."""
    recipe, progress = job.recipe, job.progress
    encoder, train, valid = _questions(job, source)
    if valid is None:
        progress.warn(f"seed {seed}: there is nothing on valid to choose an epoch by, so the last epoch counts")
    with memory_for(f"a scorer over {recipe.encoder}", job.device, "use a smaller encoder or head, or --device cpu"):
        scorer = new_scorer(recipe, width_of(source), encoder, seed).to(job.device)
    if recipe.start_at_cosine:
        if not isinstance(scorer, ClipScorer):
            raise UsageError(f"{recipe.encoder} scores no cosine to start at", hint="--set start_at_cosine=false")
        published: Any = source.build()
        scorer.start_at_cosine(float(published.logit_scale.exp()))
    bf16 = in_bf16(recipe.precision, job.device)
    total = recipe.epochs * len(train)
    events = Events(job.out / TENSORBOARD / f"seed{seed}") if job.tensorboard else None

    def tell(row: "Epoch") -> None:
        if events is not None:
            events.epoch(row)
        found = "" if row.accuracy is None else f", valid {row.accuracy:.1%}"
        progress.note(
            f"seed {seed}, epoch {row.epoch} of {recipe.epochs}: loss {row.loss:.4f}{found}, {row.seconds:.1f} s"
        )

    objective, more = _objective(job, source)
    with progress.task(f"training seed {seed}", total) as task, _validating(job, source, seed) as looked:
        callbacks = Callbacks(progress.warn, task.advance, tell, progress.note, looked)
        run = TrainingRun(making, seed, job.key(seed), job.device, bf16, callbacks)
        try:
            return Trainer(scorer, objective(recipe, train, valid, run, **more)).run()
        finally:
            if events is not None:
                events.close()


def _objective(job: ScorerJob, source: "EncoderSource | CrossSource") -> tuple[Any, dict[str, Any]]:
    """The objective of a recipe, and its further arguments."""
    if not job.galleries:
        return ContextualObjective, {}
    if not isinstance(source, CrossSource):
        return ContrastiveObjective, {}
    rerank, side = Rerank(job.recipe.rerank, job.recipe.rerank_by), job.galleries.get("valid")
    return MatchingObjective, {
        "shortlist": None if side is None else shortlist_for(side, job.pictures, rerank, job.device, job.progress)
    }


@contextmanager
def _validating(
    job: ScorerJob, source: "EncoderSource | CrossSource", seed: int
) -> "Iterator[Callable[[float], None]]":
    """A line of progress for validations that take long: of an encoder of pairs over galleries."""
    side = job.galleries.get("valid")
    if side is None or not isinstance(source, CrossSource):
        yield lambda _: None
        return
    with job.progress.task(f"validating seed {seed}", job.recipe.epochs * len(side.images)) as task:
        yield task.advance


def _questions(
    job: ScorerJob, source: "EncoderSource | CrossSource"
) -> tuple[object | None, "ExampleTable", "ExampleTable | None"]:
    """(encoder that learns, None for a frozen one; queries to train on; queries to choose the epoch by)."""
    if job.galleries:
        pairs = partial(as_pairs, pictures=job.pictures, source=source, device=job.device, progress=job.progress)
        chooses = job.galleries.get("valid")
        return trainable(source.build), pairs(job.galleries["train"]), None if chooses is None else pairs(chooses)
    prepare = _prepares(job, source)
    train = prepare(job.asked["train"])
    judged = _judged(job)
    return trainable(source.build) if job.recipe.tunes else None, train, prepare(judged) if judged else None


def _prepares(job: ScorerJob, source: "EncoderSource | CrossSource") -> "Callable[[Sequence[EvalQuery]], ExampleTable]":
    """What makes arrays of queries: for an encoder that learns, or of what a frozen one says."""
    recipe, pictures, device, progress = job.recipe, job.pictures, job.device, job.progress
    if isinstance(source, CrossSource):
        if recipe.tunes:
            return lambda asked: as_inputs(asked, pictures, source, device, progress)
        return lambda asked: as_features(asked, pictures, source, device, recipe.precision, progress)
    if recipe.tunes:
        return lambda asked: as_pixels(asked, pictures, source, device, progress)
    frozen = Encoder(source, device, resolved(recipe.precision, device), progress.warn)
    return lambda asked: as_vectors(asked, pictures, frozen, progress)


def _judged(job: ScorerJob) -> list[EvalQuery]:
    """The queries that choose the epoch."""
    sides = {side: [one for one in job.asked.get(side, []) if one.target is not None] for side in ("valid", "test")}
    if not job.recipe.judged_on_test:
        return sides["valid"]
    if not sides["test"]:
        job.progress.warn("judged_on_test: no target of the test side is known, so valid chooses the epoch")
        return sides["valid"]
    job.progress.warn("judged_on_test: test chooses the epoch, so its accuracy is no estimate of anything")
    return sides["test"]


def _start_of(run: Path, seed: int) -> Path:
    """The checkpoint of a run that a seed starts from: of the same seed, or else of the first."""
    same = run / f"seed{seed}"
    return same if (same / "config.json").is_file() else run / "seed0"

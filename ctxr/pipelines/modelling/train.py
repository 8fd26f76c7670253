"""`ctxr train`: a recipe and a dataset become a run: trained models, their history, and their scores."""

import shutil
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from dataclasses import asdict, replace
from itertools import chain
from pathlib import Path
from statistics import mean
from typing import Any

from ctxr.datasets.lineage import remember_dataset
from ctxr.engine.progress import SILENT, Progress
from ctxr.engine.stage import Inputs, Stage, execute
from ctxr.errors import DataError, and_more
from ctxr.models.training.state import Epoch
from ctxr.pipelines.modelling.config import SeedResult, Train, TrainReport
from ctxr.problems import problem_of, recipe_class
from ctxr.problems.protocols import find_learner
from ctxr.problems.recipes import read_recipe
from ctxr.problems.training import MAKING, SeedTrainer, TrainJob, find_writer
from ctxr.store.artifacts import MANIFEST, Artifact, Content, finished, open_artifact, take_manifest
from ctxr.store.records import Record
from ctxr.store.tables import read_table, write_table

HISTORY, CLOCK = "history.jsonl", "clock.jsonl"

FEW = 50
"""Queries of a split below which the figures of a run mean nothing."""

_NAMED = 3
"""Settings that are named where a run was trained otherwise."""

Seed = tuple[int, list[Epoch], Callable[[Path], None]]
"""A trained seed, its epochs, and what writes its checkpoint."""


def load_recipe(named: str, parity: str = "fixed", changes: Sequence[str] = ()) -> Any:
    """The recipe of any problem, as `read_recipe` reads it."""
    return read_recipe(named, parity, changes, recipe_class)


def run(config: Train, progress: Progress = SILENT) -> TrainReport:
    """Train, or resume where it was stopped, and report the result.

    Raises UsageError for wrong arguments, DataError for a dataset that cannot be trained on or a checkpoint of another encoder,
    UnfinishedError without a finished dataset, CtxrError when the loss is not finite.
    """
    config.check()
    recipe = load_recipe(config.recipe, config.parity, config.changes)
    if config.tensorboard:
        find_writer()  # hours before it is wanted
    learner = find_learner(problem_of(asdict(recipe)))
    job = learner.job(config, recipe, progress)
    if few := [f"{split} {count}" for split, count in job.queries.items() if 0 < count < FEW]:
        progress.warn(f"fewer than {FEW} {job.UNIT} ({', '.join(few)}): figures of this run mean nothing")
    stage = Training(config, job)
    report = stage.report(execute(stage, progress).up_to_date)
    remember_dataset(report.folder, config.dataset)
    return report


class Training(Stage):
    """A run: its seeds one after another. Finished seeds are not trained again."""

    options: Train

    def __init__(self, options: Train, job: TrainJob) -> None:
        super().__init__(options)
        self.job = job
        self.KIND = job.KIND

    def out(self) -> Path:
        """The folder of the run."""
        return self.job.out

    def inputs(self, progress: Progress) -> Inputs:
        """The data and the recipe, which the job resolved."""
        job = self.job
        return Inputs(job.parents, key={**job.recipe.written(), **job.key, "seeds": job.seeds})

    def current(self, out: Path, inputs: Inputs) -> Artifact | None:
        """Exactly this run, as it was written. What it was made from may have been renamed."""
        artifact = self._finished(out, inputs)
        return None if artifact is None or artifact.changed_files() else artifact

    def require_free(self, out: Path) -> None:
        """Read every picture first: a folder is not made in vain."""
        self.job.check()
        super().require_free(out)

    def prepare(self, inputs: Inputs, out: Path, progress: Progress) -> Inputs:
        """Train the first unfinished seed. An earlier run stays until that is done, so an interrupted training loses nothing."""
        self._take_damaged(inputs, out, progress)
        seeds = self._trained()
        first = next(seeds, None)
        return replace(inputs, data=seeds if first is None else chain([first], seeds))

    def write(self, inputs: Inputs, out: Path, progress: Progress) -> Content:
        """A checkpoint of each seed, the history, and what the checkpoints say of validation and test."""
        trained: Iterable[Seed] = inputs.data
        count = range(self.job.seeds)
        for seed, epochs, save in trained:
            shutil.rmtree(out / f"seed{seed}", ignore_errors=True)
            write_history(out, {*count} - {seed}, seed, epochs)
            save(out / f"seed{seed}")
        seeds = [f"seed{seed}" for seed in count]
        for extra in out.glob("seed*"):
            if extra.name[4:].isdigit() and extra.name not in seeds:
                shutil.rmtree(extra)
        write_history(out, count)  # a run may have had more
        files = [*self.job.write_scores(), HISTORY]
        files += [f"{seed}/{file.name}" for seed in seeds for file in (out / seed).iterdir()]
        report = self.report(up_to_date=False)
        shutil.rmtree(out / MAKING, ignore_errors=True)
        return Content(files, self.job.counts(report.valid, report.test), self.job.models())

    def report(self, up_to_date: bool) -> TrainReport:
        """Every seed and all, as the files of the run say."""
        job, history, seeds = self.job, read_history(self.job.out), []
        results = job.results()
        for seed in range(job.seeds):
            accuracies = {row.epoch: row.accuracy for row in history if row.seed == seed}
            epoch = job.checkpoint(job.out / f"seed{seed}").epoch
            valid, test = (accuracies.get(epoch), None) if results is None else results[seed]
            seeds.append(SeedResult(seed, epoch, len(accuracies), valid, test))
        return TrainReport(
            run=job.out.resolve().name,
            folder=job.out,
            variant=job.recipe.variant,
            encoder=job.encoder,
            dataset=job.dataset,
            queries=job.queries,
            seeds=tuple(seeds),
            valid=_mean([seed.valid for seed in seeds]),
            test=_mean([seed.test for seed in seeds]),
            up_to_date=up_to_date,
            regions=job.recipe.regions,
            judged_on=job.judged_on,
            unit=job.UNIT,
            measure=job.MEASURE,
            note=job.NOTE,
        )

    def _finished(self, out: Path, inputs: Inputs) -> Artifact | None:
        return finished(out, self.KIND, self.options.COMMAND, self.key(inputs), inputs.parents, renamed=True)

    def note_replaced(self, inputs: Inputs, out: Path, progress: Progress) -> None:
        """Warn of a run with another recipe or other data."""
        if self._finished(out, inputs) is None:
            config = open_artifact(out, self.KIND).manifest.config
            other = [name for name, value in self.key(inputs).items() if config.get(name) != value]
            why = ", ".join(other[:_NAMED]) + and_more(len(other), _NAMED)
            progress.warn(
                f"{out} holds a run that was trained otherwise ({why or 'on other data'}): it stays until the first seed of the new "
                "one is done; --name keeps both"
            )

    def _take_damaged(self, inputs: Inputs, out: Path, progress: Progress) -> None:
        """Remove the seeds with damaged files of this very run, to be trained again."""
        if not (out / MANIFEST).is_file() or self._finished(out, inputs) is None:
            return
        damaged = open_artifact(out, self.KIND).changed_files()
        take_manifest(out)
        for seed in sorted({Path(name).parts[0] for name in damaged if "/" in name}):
            progress.warn(f"{out / seed} was changed or damaged since it was written, so this seed is trained again")
            shutil.rmtree(out / seed, ignore_errors=True)

    def _trained(self) -> Iterator[Seed]:
        """The seeds without a finished checkpoint, each trained when it is reached."""
        for seed in range(self.job.seeds):
            if not self._is_made(seed):
                train = SeedTrainer(self.job, seed, self.options.tensorboard)
                save = self.job.fit(seed, train)
                yield seed, train.epochs, save

    def _is_made(self, seed: int) -> bool:
        try:
            key = self.job.checkpoint(self.job.out / f"seed{seed}").made_by
        except DataError:
            return False
        return bool(key == self.job.seed_key(seed))


def _mean(shares: Iterable[float | None]) -> float | None:
    """The mean of those that are known."""
    defined = [share for share in shares if share is not None]
    return mean(defined) if defined else None


class HistoryRow(Record, frozen=True):
    """Metrics of an epoch of a seed: mean loss of its queries, accuracy on valid 0..1; None where it was not validated."""

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


def write_history(run: Path, kept: Container[int], seed: int = 0, epochs: Sequence[Epoch] = ()) -> None:
    """Keep the epochs of some seeds, and add those of one."""
    rows = [HistoryRow(seed, row.epoch, row.loss, row.accuracy) for row in epochs]
    clocks = [ClockRow(seed, row.epoch, round(row.seconds, 3)) for row in epochs]
    write_table(run / HISTORY, [*(row for row in read_history(run) if row.seed in kept), *rows])
    earlier = read_table(run / CLOCK, ClockRow) if (run / CLOCK).exists() else []
    write_table(run / CLOCK, [*(row for row in earlier if row.seed in kept), *clocks])


def read_history(run: Path) -> list[HistoryRow]:
    """Every epoch of every seed."""
    return read_table(run / HISTORY, HistoryRow) if (run / HISTORY).exists() else []

"""What a problem trains: a job, seed by seed, whose run folder `ctxr train` keeps."""

import shutil
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from torch import nn

from ctxr.engine.progress import Progress, Silent
from ctxr.errors import UsageError
from ctxr.models.precision import choose_device
from ctxr.models.training.checkpoint import SeedConfig, read_config
from ctxr.models.training.loop import BEST, Callbacks, Objective, Trainer, TrainingRun
from ctxr.models.training.processes import processes
from ctxr.models.training.recipe import Recipe
from ctxr.models.training.scoring import in_bf16
from ctxr.models.training.state import Epoch, TrainingState
from ctxr.problems.options import TrainOptions
from ctxr.store.artifacts import Parent
from ctxr.store.atomic import DRY_RUN
from ctxr.store.hashing import sha256_of
from ctxr.store.kinds import RUNS
from ctxr.store.paths import portable

if TYPE_CHECKING:
    from torch.utils.tensorboard import SummaryWriter

MAKING = "making"
"""Folder of a run for what only an unfinished training needs."""

UNJUDGED = "there is nothing on valid to choose an epoch by, so the last epoch counts"

TENSORBOARD = "tensorboard"
"""Folder of a run for event files: they hold clocks, so no manifest lists them."""


def find_writer() -> "type[SummaryWriter]":
    """The class that writes event files. Raises UsageError without the package tensorboard."""
    try:
        from torch.utils.tensorboard import SummaryWriter as Writer
    except ImportError as error:
        raise UsageError(
            "--tensorboard needs the package tensorboard, which is not installed", hint="pip install tensorboard"
        ) from error
    return Writer


class TrainJob(ABC):
    """What is trained, seed by seed, into the folder of a run.

    Attributes:
        HOME: folder of the project for its runs. UNIT, MEASURE, NOTE: what a split counts, what results measure, and how.
        recipe: decides the training. seeds: how many. out: folder of the run. device: to train on.
        parents: what the run is made from. weights: fingerprints of the models below, which decide it too.
        dataset, encoder, regions: names to report. queries: of each split. judged_on: split that chooses the epoch, "" where none does.
        checkpoint: reads the config of a finished checkpoint; raises DataError where there is none.
        slow_validation: images that a validation scores, where that takes long; else 0.
    """

    HOME: ClassVar[str] = RUNS
    UNIT: ClassVar[str] = "queries"
    MEASURE: ClassVar[str] = "accuracy"
    NOTE: ClassVar[str] = ""

    recipe: Recipe
    parents: Sequence[Parent]
    weights: object = ""
    dataset: str
    encoder: str = ""
    queries: dict[str, int]
    regions: str = ""
    checkpoint: Callable[[Path], SeedConfig] = staticmethod(partial(read_config, kind=SeedConfig, what="a training"))
    judged_on: str = ""
    slow_validation: int = 0

    def __init__(self, options: TrainOptions, recipe: Recipe, progress: Progress) -> None:
        self.recipe, self.progress, self.device = recipe, progress, choose_device(options.device)
        self.out, self.seeds = options.folder(self.HOME), options.seeds if recipe.learns else 1

    def seed_key(self, seed: int) -> str:
        """What decides the training of a seed: neither a state nor a checkpoint with another key is used."""
        recipe = portable(self.recipe.key(), self.out.parents[1])
        return sha256_of([recipe, self.weights, seed, sorted(one.sha256 for one in self.parents)])

    def train_seed(self, seed: int, tensorboard: bool = False) -> "SeedTrainer":
        """Train or resume a seed. Raises UsageError without TensorBoard, and what `fit` raises."""
        trainer = SeedTrainer(self, seed, tensorboard)
        trainer.save = self.fit(seed, trainer)
        return trainer

    def clear(self) -> None:
        """Remove what only an unfinished training needs."""
        shutil.rmtree(self.out / MAKING, ignore_errors=True)

    @abstractmethod
    def fit(self, seed: int, train: "SeedTrainer") -> Callable[[Path], None]:
        """Train one seed; what writes its checkpoint into an empty folder. Raises as `train`."""

    def check(self) -> None:
        """Whatever should not fail after hours."""
        return

    def write_scores(self) -> list[str]:
        """Write what all checkpoints say of validation and test; the names of the tables."""
        return []

    def results(self) -> list[tuple[float | None, float | None]] | None:
        """(valid, test) of each seed, as its tables say; None for those of validation alone."""
        return None

    def counts(self, valid: float | None, test: float | None) -> dict[str, object]:
        """What the manifest counts."""
        return {"queries": self.queries, "seeds": self.seeds, "valid": valid, "test": test}

    def models(self) -> dict[str, object]:
        """The published models that took part, for the manifest."""
        return {}


class Followed(Exception):
    """A seed is trained, and another process writes it."""


def together(device: str, lead: Callable[[], bool], job: Callable[[], TrainJob]) -> bool:
    """What `lead` returns in the first process of several. The others train the seeds of the job that it trains, and write nothing."""
    group, opened, before = processes(choose_device(device)), None, DRY_RUN.get()
    if not group.rank:
        up_to_date = lead()
        group.told(None)
        return up_to_date
    DRY_RUN.set(True)
    while (seed := group.told(None)) is not None:
        opened = opened or job()
        with suppress(Followed):
            opened.train_seed(int(seed))
    DRY_RUN.set(before)
    return False


class SeedTrainer:
    """Trains the model of one seed of a job, or resumes.

    Attributes:
        weights: file of the best epoch's weights, once it was called. epochs: all of them.
        save: writes the checkpoint into an empty folder.
    """

    save: Callable[[Path], None]

    def __init__(self, job: TrainJob, seed: int, tensorboard: bool = False) -> None:
        self.job, self.seed = job, seed
        self.folder = job.out / MAKING / f"seed{seed}"
        self.weights, self.epochs = self.folder / BEST, list[Epoch]()
        self.writers = find_writer() if tensorboard else None  # hours before it is wanted
        self.writer: SummaryWriter | None = None
        self.opened = ExitStack()

    def __call__(
        self, model: nn.Module, examples: int, objective: Callable[[TrainingRun], Objective[Any, Any]]
    ) -> TrainingState:
        """Train to the end, by the objective over so many examples an epoch. Raises CtxrError for an infinite loss."""
        job, progress, epochs = self.job, self.job.progress, self.job.recipe.epochs
        with self.opened as stack:
            task = stack.enter_context(progress.task(f"training seed {self.seed}", epochs * examples))
            slow = progress if job.slow_validation else Silent()
            validation = slow.task(f"validating seed {self.seed}", epochs * job.slow_validation)
            validated = stack.enter_context(validation).advance
            callbacks = Callbacks(progress.warn, task.advance, self._report, progress.note, validated)
            bf16 = in_bf16(job.recipe.precision, job.device)
            run = TrainingRun(self.folder, self.seed, job.seed_key(self.seed), job.device, bf16, callbacks)
            leads = not processes(job.device).rank
            if leads:
                processes(job.device).told(self.seed)
            state = Trainer(model, objective(run)).run()
            if not leads:
                raise Followed
        self.epochs = state.history
        return state

    def _report(self, row: Epoch) -> None:
        """Note an epoch, and write it into event files at once; the first deletes earlier files."""
        valid = row.figures or ({} if row.accuracy is None else {"accuracy": row.accuracy})
        if self.writers is not None:
            if self.writer is None:
                folder = self.job.out / TENSORBOARD / f"seed{self.seed}"
                if row.epoch == 1:
                    shutil.rmtree(folder, ignore_errors=True)
                self.writer = self.writers(str(folder), purge_step=row.epoch)
                self.opened.callback(self.writer.close)
            scalars = {"train/loss": row.loss, **{f"valid/{name}": value for name, value in valid.items()}}
            for name, value in (scalars | {"train/seconds": row.seconds}).items():
                self.writer.add_scalar(name, value, row.epoch)
            self.writer.flush()
        figures = "".join(f", valid {name} {value:.4f}" for name, value in row.figures.items())
        accuracy = "" if row.accuracy is None else f", valid {row.accuracy:.1%}"
        epoch = f"seed {self.seed}, epoch {row.epoch} of {self.job.recipe.epochs}"
        self.job.progress.note(f"{epoch}: loss {row.loss:.4f}{figures or accuracy}, {row.seconds:.1f} s")

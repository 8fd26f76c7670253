"""The work of `ctxr train` by a recipe for entailment: from pairs to a classifier, seed by seed."""

from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from ctxr.datasets.pairs import EntailmentPair, choosing, refuse_leaks
from ctxr.engine.progress import Progress
from ctxr.errors import DataError
from ctxr.metrics.entailment import FEW_CALLED, threshold_for
from ctxr.models.entailment.checkpoint import Notes, read_notes, write_classifier
from ctxr.models.entailment.classifier import EntailmentClassifier
from ctxr.models.entailment.recipe import ClassifierRecipe
from ctxr.models.entailment.sources import Branches, find_branches, new_classifier
from ctxr.models.entailment.training import EntailmentObjective, PairTable, probabilities
from ctxr.models.precision import choose_device
from ctxr.models.training.checkpoint import fill
from ctxr.models.training.loop import BEST, Callbacks, Trainer, TrainingRun
from ctxr.models.training.scoring import in_bf16
from ctxr.models.training.state import Epoch
from ctxr.pipelines.modelling.config import SeedResult, Train, TrainReport
from ctxr.pipelines.modelling.seed import TrainJob, read_history, train_run
from ctxr.problems.entailment.classifiers import claim_table, judged, learned
from ctxr.problems.entailment.pairs import EntailmentPairs, open_pairs
from ctxr.store.artifacts import Content
from ctxr.store.hashing import sha256_of
from ctxr.store.kinds import CLASSIFIER

AT_ONCE = 64
HALF = 0.5
"""The threshold where dev says nothing of a better one: the likelier class."""


class ClassifierJob(TrainJob):
    """What the seeds of a run have in common."""

    KIND = CLASSIFIER

    def __init__(self, config: Train, recipe: ClassifierRecipe, progress: Progress) -> None:
        self.config, self.recipe, self.progress = config, recipe, progress
        self.out, self.device = config.folder(recipe), choose_device(config.device)
        self.pairs = open_pairs(config.dataset, config.workdir, progress)
        self.train, self.dev = self.pairs.side("train"), self.pairs.side("valid")
        self.parents = (self.pairs.origin,)
        _refuse(self.pairs, self.train, self.dev)
        self.train = _apart(self.pairs, self.train, self.dev, progress)
        self.branches: Branches = find_branches(recipe, self.device)
        self.learned = learned(self.train, recipe)
        if not self.learned:
            raise DataError(
                f"{self.pairs.name} has no pair of the kinds that the recipe learns from",
                hint="--set text_data=true, or name other pairs",
            )
        _refuse_one_label(self.pairs.name, [one.label for one in self.learned])
        if len({pair.label for pair in self.dev}) == 1:
            progress.warn(
                f"all {len(self.dev)} pairs of valid have one label, so they choose neither epoch nor threshold well"
            )

    @property
    def decides(self) -> dict[str, Any]:
        """Recipe and number of seeds."""
        return {**asdict(self.recipe), "seeds": self.config.seeds}

    def key(self, seed: int) -> str:
        """Recipe, weights, data and seed."""
        decides = {name: value for name, value in asdict(self.recipe).items() if name != "at_once"}
        return sha256_of([decides, seed, self.pairs.origin.sha256, self.fingerprints()])

    def made_by(self, checkpoint: Path) -> str:
        """Noted beside its weights."""
        return read_notes(checkpoint).made_by

    def fingerprints(self) -> tuple[str, str]:
        """Of text branch and image branch, "" for none."""
        text, image = self.branches.text, self.branches.image
        return text.fingerprint if text else "", image.fingerprint if image else ""

    def table(self, rows: list[EntailmentPair]) -> "PairTable":
        """Pairs to be judged."""
        return claim_table(
            judged(rows, self.recipe), self.pairs, self.branches, self.config.workdir, self.device, self.progress
        )

    def fit(self, seed: int, making: Path) -> "tuple[list[Epoch], Callable[[Path], None]]":
        """Raises CtxrError when the loss is no number any more; the threshold is chosen on dev."""
        recipe, progress = self.recipe, self.progress
        table = claim_table(self.learned, self.pairs, self.branches, self.config.workdir, self.device, progress)
        dev = self.table(choosing(self.dev)) if self.dev else None
        model: EntailmentClassifier = new_classifier(recipe, self.branches, seed).to(self.device)

        def tell(row: "Epoch") -> None:
            found = "" if row.accuracy is None else f", dev {row.accuracy:.1%}"
            progress.note(
                f"seed {seed}, epoch {row.epoch} of {recipe.epochs}: loss {row.loss:.4f}{found}, {row.seconds:.1f} s"
            )

        bf16 = in_bf16(recipe.precision, self.device)
        with progress.task(f"training seed {seed}", recipe.epochs * len(table)) as task:
            callbacks = Callbacks(progress.warn, task.advance, tell, progress.note)
            run = TrainingRun(making, seed, self.key(seed), self.device, bf16, callbacks)
            trained = Trainer(model, EntailmentObjective(recipe, table, dev, run)).run()
        fill(model, making / BEST, "the classifier that was trained")
        value, reached = HALF, None
        if dev is not None:
            entailed = probabilities(model.eval(), dev, AT_ONCE, self.device, bf16)
            value, reached = _threshold(self, dev, entailed, seed)
        else:
            progress.warn(f"seed {seed}: no pairs of valid, so the last epoch counts and the threshold stays at {HALF}")
        notes = Notes(asdict(recipe), *self.fingerprints(), value, reached, trained.best or 0, self.key(seed))
        marks = sorted(self.pairs.marks([*self.train, *self.dev]))
        return trained.history, lambda final: write_classifier(final, making / BEST, notes, marks)

    def content(self) -> Content:
        """No table beside the checkpoints."""
        report = self.report(up_to_date=False)
        text, image = self.fingerprints()
        recipe, counts = self.recipe, {"pairs": report.queries, "claims": len(self.learned)}
        return Content(
            [],
            counts | {"seeds": self.config.seeds, "valid": report.valid},
            {"text": {"name": recipe.text, "fingerprint": text}, "image": {"name": recipe.image, "fingerprint": image}},
        )

    def report(self, up_to_date: bool) -> TrainReport:
        """Of every seed and of all."""
        history = read_history(self.out)
        seeds = []
        for seed in range(self.config.seeds):
            rows = {row.epoch: row.accuracy for row in history if row.seed == seed}
            epoch = read_notes(self.out / f"seed{seed}").epoch
            seeds.append(SeedResult(seed, epoch, len(rows), rows.get(epoch), None))
        known = [one.valid for one in seeds if one.valid is not None]
        return TrainReport(
            run=self.out.resolve().name,
            folder=self.out,
            variant=self.recipe.variant,
            encoder=" + ".join(filter(None, (self.recipe.text, self.recipe.image))),
            dataset=self.pairs.name,
            queries={"train": len(self.train), "valid": len(self.dev)},
            seeds=tuple(seeds),
            valid=sum(known) / len(known) if known else None,
            test=None,
            up_to_date=up_to_date,
            judged_on="valid" if self.dev else "",
        )


def train_classifier(config: Train, recipe: ClassifierRecipe, progress: Progress) -> TrainReport:
    """The classifier of a configuration, finished.

    Raises UsageError for wrong arguments, DataError for pairs that cannot be learned from or that would be judged again,
    CtxrError when the loss is no number any more.
    """
    return train_run(ClassifierJob(config, recipe, progress))


def _threshold(job: ClassifierJob, dev: "PairTable", entailed: "object", seed: int) -> tuple[float, float | None]:
    """(threshold, its precision on dev): the lowest that reaches the wanted precision, else 0.5."""
    import numpy as np

    wanted, chances = job.recipe.wanted_precision, np.asarray(entailed, np.float64)
    found = threshold_for(dev.label.numpy() == 1, chances, wanted)
    if found is None:
        job.progress.warn(f"seed {seed}: no threshold reaches a precision of {wanted} on dev, so it stays at {HALF}")
        return HALF, None
    job.progress.note(f"seed {seed}: threshold {found.value:.3f}, on dev {found.told()}")
    if found.called < FEW_CALLED:
        job.progress.warn(f"seed {seed}: on dev {found.weakness()}")
    # as float32 says it: a probability that was on the threshold must stay there
    return float(np.float32(found.value)), found.precision.value


def _refuse(pairs: EntailmentPairs, train: list[EntailmentPair], dev: list[EntailmentPair]) -> None:
    """Raises DataError for nothing to learn from, or for training pairs about pictures of dev or test."""
    if not train:
        raise DataError(
            f"{pairs.name} has no pair on the train side",
            hint="the side is in a file's name, as in rte_train.tsv: rename it, or name a file of train too",
        )
    held = [*dev, *pairs.side("test")]
    shown = {name for pair in held if pair.image for name in (pair.image, pair.group)}
    refuse_leaks([pair for pair in train if pair.image], shown)
    same = pairs.marks(train) & pairs.marks(held)
    if same:
        raise DataError(
            f"{pairs.name}: {len(same)} pictures of train are those of valid or test under another id",
            hint="leave them out of train",
        )


def _refuse_one_label(name: str, labels: list[int]) -> None:
    """Raises DataError where everything that is learned from has the same label: nothing could be told apart."""
    if len(set(labels)) == 1:
        said = "entailed" if labels[0] else "not entailed"
        raise DataError(
            f"{name}: all {len(labels)} training pairs are labelled {said}, and there is nothing to tell apart",
            hint="name pairs of both labels: a folder with the other files of train beside it",
        )


def _apart(
    pairs: EntailmentPairs, train: list[EntailmentPair], dev: list[EntailmentPair], progress: Progress
) -> list[EntailmentPair]:
    """The training pairs without those of texts whose premise stands on valid or test too: QQP has as published many questions on
    both. Raises DataError where none is left."""
    held = {pair.group for pair in (*dev, *pairs.side("test")) if pair.image is None}
    same = [pair for pair in train if pair.image is None and pair.group in held]
    if not same:
        return train
    said = f"{len(same)} of {len(train)} training pairs have a premise of valid or test, the first is {same[0].id}"
    if len(same) == len(train):
        raise DataError(said, hint="name other pairs to learn from")
    progress.warn(f"{said}: left out")
    return [pair for pair in train if pair.image is not None or pair.group not in held]

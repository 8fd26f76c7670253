"""How classifiers are trained and opened that answer about entailment."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from ctxr.datasets.pairs import EntailmentPair, choosing, refuse_leaks
from ctxr.engine.progress import Progress
from ctxr.errors import DataError
from ctxr.metrics.entailment import FEW_CALLED, threshold_for
from ctxr.models.entailment.checkpoint import Notes, read_notes, write_classifier
from ctxr.models.entailment.classifier import EntailmentClassifier
from ctxr.models.entailment.recipe import ClassifierRecipe
from ctxr.models.entailment.sources import find_branches, new_classifier
from ctxr.models.entailment.training import EntailmentObjective, PairTable, probabilities
from ctxr.models.precision import choose_device
from ctxr.models.training.checkpoint import fill
from ctxr.models.training.scoring import in_bf16
from ctxr.problems.entailment.classifiers import AT_ONCE, claim_rows, claim_table, learned, open_classifier_run
from ctxr.problems.entailment.pairs import EntailmentPairs, open_pairs
from ctxr.problems.options import TrainOptions
from ctxr.problems.training import SeedTrainer, TrainJob
from ctxr.store.hashing import sha256_of
from ctxr.store.kinds import CLASSIFIER, CLASSIFIERS
from ctxr.store.paths import portable

HALF = 0.5
"""The threshold where dev suggests no better one: the likelier class."""


class ClassifierJob(TrainJob):
    """Seeds that learn whether a hypothesis is entailed.

    Attributes:
        pairs: of all splits. train, dev: of these. learned: what of train the recipe learns from.
    """

    KIND: ClassVar[str] = CLASSIFIER
    UNIT: ClassVar[str] = "pairs"

    checkpoint = staticmethod(read_notes)
    recipe: ClassifierRecipe

    def __init__(self, options: TrainOptions, recipe: ClassifierRecipe, progress: Progress) -> None:
        """Raises DataError for pairs that cannot be learned from or that would be judged again."""
        self.recipe, self.progress, self.seeds = recipe, progress, options.seeds
        self.out, self.workdir = options.folder(CLASSIFIERS), options.workdir
        self.device = choose_device(options.device)
        self.pairs = pairs = open_pairs(options.dataset, options.workdir, progress)
        self.train, self.dev = pairs.in_split("train"), pairs.in_split("valid")
        if not self.train:
            raise DataError(
                f"{pairs.name} has no pair on the train side",
                hint="the side is in a file's name, as in rte_train.tsv: rename it, or name a file of train too",
            )
        evaluated = [*self.dev, *pairs.in_split("test")]
        shown = {name for pair in evaluated if pair.image for name in (pair.image, pair.group)}
        refuse_leaks([pair for pair in self.train if pair.image], shown)
        same = pairs.marks(self.train) & pairs.marks(evaluated)
        if same:
            raise DataError(
                f"{pairs.name}: {len(same)} pictures of train are those of valid or test under another id",
                hint="leave them out of train",
            )
        self.train = _without_shared_premises(pairs, self.train, self.dev, progress)
        self.branches = find_branches(recipe, self.device)
        self.learned = learned(self.train, recipe)
        if not self.learned:
            raise DataError(
                f"{pairs.name} has no pair of the kinds that the recipe learns from",
                hint="--set text_data=true, or name other pairs",
            )
        if len({claim.label for claim in self.learned}) == 1:
            label = "entailed" if self.learned[0].label else "not entailed"
            raise DataError(
                f"{pairs.name}: all {len(self.learned)} training pairs are labelled {label}, and there is nothing to tell apart",
                hint="name pairs of both labels: a folder with the other files of train beside it",
            )
        if len({pair.label for pair in self.dev}) == 1:
            flaw = "have one label, so they choose neither epoch nor threshold well"
            progress.warn(f"all {len(self.dev)} pairs of valid {flaw}")
        self.parents, self.key, self.dataset = (pairs.origin,), {}, pairs.name
        named = (portable(name, self.workdir) for name in (recipe.text, recipe.image))
        self.encoder = " + ".join(filter(None, named))
        self.queries = {"train": len(self.train), "valid": len(self.dev)}
        self.judged_on = "valid" if self.dev else ""

    def seed_key(self, seed: int) -> str:
        """Recipe, seed, data and branches."""
        return sha256_of(
            [portable(self.recipe.key(), self.workdir), seed, self.pairs.origin.sha256, self.fingerprints()]
        )

    def fingerprints(self) -> tuple[str, str]:
        """Of text branch and image branch, "" for none."""
        text, image = self.branches.text, self.branches.image
        return text.fingerprint if text else "", image.fingerprint if image else ""

    def fit(self, seed: int, train: SeedTrainer) -> Callable[[Path], None]:
        """See `TrainJob`; the threshold is chosen on dev."""
        recipe = self.recipe
        table = partial(
            claim_table, pairs=self.pairs, branches=self.branches, workdir=self.workdir, device=self.device,
            progress=self.progress,
        )  # fmt: skip
        claims, dev = table(self.learned), table(claim_rows(choosing(self.dev), recipe)) if self.dev else None
        model: EntailmentClassifier = new_classifier(recipe, self.branches, seed).to(self.device)
        trained = train(model, len(claims), partial(EntailmentObjective, recipe, claims, dev))
        fill(model, train.weights, "the classifier that was trained")
        value, reached = HALF, None
        if dev is not None:
            bf16 = in_bf16(recipe.precision, self.device)
            entailed = probabilities(model.eval(), dev, AT_ONCE, self.device, bf16)
            value, reached = _threshold(self, dev, entailed, seed)
        else:
            lack = "no pairs of valid, so the last epoch counts and the threshold stays at"
            self.progress.warn(f"seed {seed}: {lack} {HALF}")
        notes = Notes(trained.best or 0, self.seed_key(seed), recipe, *self.fingerprints(), value, reached)
        marks = sorted(self.pairs.marks([*self.train, *self.dev]))
        return lambda folder: write_classifier(folder, train.weights, notes, marks)

    def counts(self, valid: float | None, test: float | None) -> dict[str, object]:
        """Pairs, and the claims that are learned from."""
        return {"pairs": self.queries, "claims": len(self.learned), "seeds": self.seeds, "valid": valid}

    def models(self) -> dict[str, object]:
        """Both branches."""
        rows = zip(("text", "image"), (self.recipe.text, self.recipe.image), self.fingerprints(), strict=True)
        return {part: {"name": name, "fingerprint": fingerprint} for part, name, fingerprint in rows}


def _threshold(
    job: ClassifierJob, dev: PairTable, entailed: NDArray[np.float32], seed: int
) -> tuple[float, float | None]:
    """(threshold, its precision on dev): the lowest that reaches the wanted precision, else 0.5."""
    wanted, chances = job.recipe.wanted_precision, np.asarray(entailed, np.float64)
    threshold = threshold_for(dev.label.numpy() == 1, chances, wanted)
    if threshold is None:
        job.progress.warn(f"seed {seed}: no threshold reaches a precision of {wanted} on dev, so it stays at {HALF}")
        return HALF, None
    job.progress.note(f"seed {seed}: threshold {threshold.value:.3f}, on dev {threshold.in_words()}")
    if threshold.called < FEW_CALLED:
        job.progress.warn(f"seed {seed}: on dev {threshold.weakness()}")
    # as float32 says it: a probability that was on the threshold must stay there
    return float(np.float32(threshold.value)), threshold.precision.value


def _without_shared_premises(
    pairs: EntailmentPairs, train: list[EntailmentPair], dev: list[EntailmentPair], progress: Progress
) -> list[EntailmentPair]:
    """The training pairs without those of texts whose premise stands on valid or test too: QQP has as published many questions on
    both. Raises DataError where none is left."""
    groups = {pair.group for pair in (*dev, *pairs.in_split("test")) if pair.image is None}
    same = [pair for pair in train if pair.image is None and pair.group in groups]
    if not same:
        return train
    problem = f"{len(same)} of {len(train)} training pairs have a premise of valid or test, the first is {same[0].id}"
    if len(same) == len(train):
        raise DataError(problem, hint="name other pairs to learn from")
    progress.warn(f"{problem}: left out")
    return [pair for pair in train if pair.image is not None or pair.group not in groups]


class EntailmentLearner:
    """See `Learner`."""

    job = ClassifierJob
    open_run = staticmethod(open_classifier_run)

"""How classifiers of entailment are trained and opened, and the arrays of pairs they take."""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from ctxr.datasets.pairs import EntailmentPair, choosing, refuse_leaks
from ctxr.engine.progress import Progress
from ctxr.errors import DataError, UnfinishedError
from ctxr.media.images import read_image
from ctxr.metrics.entailment import FEW_CALLED, Threshold, threshold_for
from ctxr.models.entailment.checkpoint import AT_ONCE, ClassifierConfig, TrainedClassifier, read_notes, write_classifier
from ctxr.models.entailment.classifier import EntailmentClassifier
from ctxr.models.entailment.image_branches import BLACK, FINEST, cells_of
from ctxr.models.entailment.recipe import JOINT, TEXT, ClassifierRecipe
from ctxr.models.entailment.sources import Branches, find_branches, new_classifier
from ctxr.models.entailment.training import EntailmentObjective, PairTable, looking_up, make_claims, probabilities
from ctxr.models.precision import choose_device, device_kind
from ctxr.models.regions import GridRegions
from ctxr.models.training.checkpoint import fill
from ctxr.models.training.examples import Images, PixelTable, vector_table
from ctxr.models.training.scoring import in_bf16
from ctxr.problems.embeddings import cached, frozen_texts
from ctxr.problems.entailment.pairs import EntailmentPairs, open_pairs
from ctxr.problems.options import TrainOptions
from ctxr.problems.runs import OpenRun, ScoringOptions
from ctxr.problems.training import SeedTrainer, TrainJob
from ctxr.store.artifacts import open_artifact
from ctxr.store.hashing import sha256_bytes, sha256_of
from ctxr.store.kinds import CLASSIFIER, CLASSIFIERS
from ctxr.store.paths import portable

HALF = 0.5
"""The threshold where dev suggests no better one: the likelier class."""


def open_classifier(run: Path | str, device: str = "auto") -> TrainedClassifier:
    """A trained classifier (`ctxr.models.entailment.base.Judge`).

    Args:
        run: its folder, such as `work/classifiers/entailment`; of several seeds the first, or `.../seed1`.
        device: "auto", "cpu", "cuda" or "mps".

    Raises UnfinishedError for a folder that holds none, DataError for one that was changed since it was trained or whose branches
    are not here.
    """
    folder = Path(run)
    whole = folder.parent if folder.name.startswith("seed") else folder
    if not (whole / "manifest.json").is_file():
        raise UnfinishedError(f"{whole} holds no finished classifier", hint="ctxr train --recipe entailment")
    artifact, name = open_artifact(whole, CLASSIFIER), whole.resolve().name
    seed = folder if whole != folder else folder / "seed0"
    if not any(file.startswith(f"{seed.name}/") for file in artifact.manifest.files):
        raise DataError(f"{whole} was trained without {seed.name}", hint="name one of its seeds, or train it again")
    artifact.refuse_changed(f"{seed.name}/")
    return TrainedClassifier(seed, name if whole == folder else f"{name}/{seed.name}", choose_device(device))


def open_toy(folder: Path | str, device: str = "auto") -> TrainedClassifier:
    """The classifier that ships with ctxr, from its folder."""
    return TrainedClassifier(Path(folder), Path(folder).name, choose_device(device), toy=True)


@dataclass(frozen=True)
class OpenClassifier(OpenRun):
    """A seed of a classifier that judges pairs."""

    classifier: TrainedClassifier
    options: ScoringOptions
    progress: Progress

    @classmethod
    def open(cls, source: Path | str, options: ScoringOptions, progress: Progress) -> Self:
        """By the folder of a run (its first seed) or of a seed. Raises as `open_classifier`."""
        return cls(open_classifier(source, options.device), options, progress)

    def score(self, examples: tuple[EntailmentPairs, Sequence[EntailmentPair]]) -> dict[str, np.ndarray]:
        """Probabilities [n] that pairs are entailed, by the classifier's name."""
        (pairs, rows), judge = examples, self.classifier
        claims = claim_rows(rows, judge.recipe)
        table = claim_table(claims, pairs, judge.branches, self.options.workdir, judge.device, progress=self.progress)
        with self.progress.task(f"asking {judge.name}", len(table)) as task:
            return {judge.name: probabilities(judge.model, table, AT_ONCE, judge.device, advance=task.advance)}


@dataclass(frozen=True)
class ClaimRow:
    """One claim: what is shown of a pair, and which losses count."""

    premise: str
    image: str | None
    hypothesis: str
    label: int
    theta: Sequence[bool]


def learned(rows: Sequence[EntailmentPair], recipe: ClassifierRecipe) -> list[ClaimRow]:
    """What a recipe learns from pairs: texts, pictures without their premise, and both, in one stream (paper, Table 2).

    Every pair with a picture is learned from without its premise too; Table 2 does so with SNLI-VE, and not with CxC and ECCV.
    """
    has_text, has_image = bool(recipe.text), bool(recipe.image)
    claims = []
    for pair in rows:
        fields = (pair.premise or "", pair.image, pair.hypothesis or "", int(pair.label))
        if pair.kind == "text" and recipe.text_data and has_text:
            claims.append(ClaimRow(*fields, theta=(True, False, False)))
        if pair.image is not None and recipe.image_data and has_image:
            claims.append(ClaimRow("", *fields[1:], theta=(False, True, False)))
        if pair.kind == "both" and recipe.joint_data and (has_text or not recipe.image_data):
            claims.append(ClaimRow(*fields, theta=(has_text, has_image, has_text and has_image)))
    return claims


def claim_rows(rows: Sequence[EntailmentPair], recipe: ClassifierRecipe) -> list[ClaimRow]:
    """Each pair once, for the head that fits its premise (`ClassifierRecipe.theta`)."""
    return [
        ClaimRow(
            pair.premise or "",
            pair.image,
            pair.hypothesis or "",
            int(pair.label),
            recipe.theta(bool(pair.premise), pair.image is not None),
        )
        for pair in rows
    ]


def claim_table(
    rows: list[ClaimRow], pairs: EntailmentPairs, branches: Branches, workdir: Path, device: str, *, progress: Progress
) -> PairTable:
    """The claims as arrays; pictures are decoded and cropped, or encoded by a frozen encoder, once for all runs."""
    wanted = sorted({one.image for one in rows if one.image is not None}) if branches.image else []
    row = {image: number for number, image in enumerate(wanted, start=1)}
    claims = [(row.get(one.image or "", 0), one.premise, one.hypothesis, one.label, one.theta) for one in rows]
    images = _images(wanted, pairs, branches, workdir, device, progress=progress)
    if branches.text is None or not branches.text.frozen:
        return make_claims(images, claims, branches.tokenize)
    needed = {(one.premise, one.hypothesis) for one in rows if one.theta[TEXT] or one.theta[JOINT]}
    texts = sorted(needed | {(one.premise, one.hypothesis or "") for one in pairs.rows if one.premise})
    vectors = frozen_texts(branches.text, texts, workdir, device, progress)
    return make_claims(images, claims, looking_up(texts, vectors, branches))


def _images(
    wanted: list[str], pairs: EntailmentPairs, branches: Branches, workdir: Path, device: str, *, progress: Progress
) -> Images:
    """Pictures by row, a black one first."""
    source = branches.image
    if source is None:
        return vector_table(np.zeros((1, 1), np.float32))
    contents = [sha256_bytes(BLACK.tobytes()), *(pairs.contents[image] for image in wanted)]

    def read(part: slice) -> list[np.ndarray]:
        rows = range(len(contents))[part]
        return [read_image(pairs.files[wanted[row - 1]]) if row else BLACK for row in rows]

    with progress.task("looking at pictures", len(contents)) as task:
        if source.preprocess is None:
            grid = GridRegions(source.cells, FINEST, device)
            origin = {**grid.describe(), "what": "cells", "device": device_kind(device)}
            arrays = cached(workdir, origin, contents, lambda part: cells_of(grid, read(part)), task.advance)
            return vector_table(np.concatenate(arrays))
        fit = source.preprocess
        origin = {"preprocess": asdict(fit)}
        arrays = cached(
            workdir, origin, contents, lambda part: np.asarray(fit.fitted(read(part)).numpy()), task.advance
        )
        return PixelTable(arrays, fit, device)


class ClassifierJob(TrainJob):
    """Seeds that learn whether a hypothesis is entailed: `learned` is what of `train` the recipe learns from."""

    HOME: ClassVar[str] = CLASSIFIERS
    UNIT: ClassVar[str] = "pairs"

    checkpoint = staticmethod(read_notes)
    recipe: ClassifierRecipe

    def __init__(self, options: TrainOptions, recipe: ClassifierRecipe, progress: Progress) -> None:
        """Raises DataError for pairs that cannot be learned from or that would be judged again."""
        super().__init__(options, recipe, progress)
        self.workdir = options.workdir
        self.pairs = pairs = open_pairs(options.dataset, options.workdir, progress)
        self.train, self.dev = pairs.in_split("train"), pairs.in_split("valid")
        if not self.train:
            raise DataError(
                f"{pairs.name} has no pair in the train split",
                hint="the split is in a file's name, as in rte_train.tsv: rename it, or name a file of train too",
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
        self.parents, self.dataset = (pairs.origin,), pairs.name
        named = (portable(name, self.workdir) for name in (recipe.text, recipe.image))
        self.encoder = " + ".join(filter(None, named))
        self.queries = {"train": len(self.train), "valid": len(self.dev)}
        self.judged_on = "valid" if self.dev else ""

    def seed_key(self, seed: int) -> str:
        """Recipe, seed, data and branches."""
        return sha256_of(
            [portable(self.recipe.key(), self.workdir), seed, self.pairs.origin.sha256, [*self.fingerprints.values()]]
        )

    @property
    def fingerprints(self) -> dict[str, str]:
        """Of text branch and image branch, "" for none."""
        branches = {"text": self.branches.text, "image": self.branches.image}
        return {name: branch.fingerprint if branch else "" for name, branch in branches.items()}

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
        chosen = None
        if dev is not None:
            bf16 = in_bf16(recipe.precision, self.device)
            entailed = probabilities(model.eval(), dev, AT_ONCE, self.device, bf16)
            chosen = dev_threshold(self, dev, entailed, seed)
        else:
            lack = "no pairs of valid, so the last epoch counts and the threshold stays at"
            self.progress.warn(f"seed {seed}: {lack} {HALF}")
        # as float32 says it: a probability that was on the threshold must stay there
        value, reached = (float(np.float32(chosen.value)), chosen.precision.value) if chosen else (HALF, None)
        text, image = self.fingerprints.values()
        notes = ClassifierConfig(trained.best or 0, self.seed_key(seed), recipe, text, image, value, reached)
        marks = sorted(self.pairs.marks([*self.train, *self.dev]))
        return lambda folder: write_classifier(folder, train.weights, notes, marks)

    def counts(self, valid: float | None, test: float | None) -> dict[str, object]:
        """Pairs, and the claims that are learned from."""
        return {"pairs": self.queries, "claims": len(self.learned), "seeds": self.seeds, "valid": valid}

    def models(self) -> dict[str, object]:
        """Both branches."""
        return {
            part: {"name": getattr(self.recipe, part), "fingerprint": fingerprint}
            for part, fingerprint in self.fingerprints.items()
        }


def dev_threshold(job: ClassifierJob, dev: PairTable, entailed: NDArray[np.float32], seed: int) -> Threshold | None:
    """The lowest that reaches the wanted precision on dev, with a note; None, with a warning, where none does."""
    wanted, progress = job.recipe.wanted_precision, job.progress
    threshold = threshold_for(dev.label.numpy() == 1, np.asarray(entailed, np.float64), wanted)
    if threshold is None:
        progress.warn(f"seed {seed}: no threshold reaches a precision of {wanted} on dev, so it stays at {HALF}")
        return None
    progress.note(f"seed {seed}: threshold {threshold.value:.3f}, on dev {threshold.in_words()}")
    if threshold.called < FEW_CALLED:
        progress.warn(f"seed {seed}: on dev {threshold.weakness()}")
    return threshold


def _without_shared_premises(
    pairs: EntailmentPairs, train: list[EntailmentPair], dev: list[EntailmentPair], progress: Progress
) -> list[EntailmentPair]:
    """The training pairs whose premise is not on valid or test, as many of QQP's are. Raises DataError for none."""
    groups = {pair.group for pair in (*dev, *pairs.in_split("test")) if pair.image is None}
    same = [pair for pair in train if pair.image is None and pair.group in groups]
    if not same:
        return train
    problem = f"{len(same)} of {len(train)} training pairs have a premise of valid or test, the first is {same[0].id}"
    if len(same) == len(train):
        raise DataError(problem, hint="name other pairs to learn from")
    progress.warn(f"{problem}: left out")
    return [pair for pair in train if pair.image is not None or pair.group not in groups]


job, open_run = ClassifierJob, OpenClassifier.open

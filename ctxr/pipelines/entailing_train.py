"""The work of `ctxr train` by a recipe for entailment: from pairs to a classifier, seed by seed."""

import shutil
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from ctxr.data.artifacts import finish, locked, refuse_strangers, take_manifest
from ctxr.data.entailment import EntailmentPair, choosing, refuse_leaks
from ctxr.data.hashing import sha256_of
from ctxr.errors import DataError
from ctxr.metrics.entailment import FEW_CALLED, threshold_for
from ctxr.models.entailment.recipe import ClassifierRecipe
from ctxr.pipelines.entailing import KIND
from ctxr.pipelines.entailing_claims import claim_table, judged, learned
from ctxr.pipelines.entailing_pairs import Pairs, open_pairs
from ctxr.pipelines.talk import Talk
from ctxr.pipelines.train import Train, Trained, TrainReport
from ctxr.pipelines.training.history import HISTORY, read_history, write_history
from ctxr.pipelines.training.standing import make_way, stands

if TYPE_CHECKING:
    from ctxr.models.entailment.classifier import EntailmentClassifier
    from ctxr.models.entailment.sources import Branches
    from ctxr.models.entailment.training import ClaimTable

MAKING = "making"
"""Folder of a run for what only an unfinished training needs."""

AT_ONCE = 64
HALF = 0.5
"""The threshold where dev says nothing of a better one: the likelier class."""


class _Job:
    """What the seeds of a run have in common."""

    def __init__(self, config: Train, recipe: ClassifierRecipe, talk: Talk) -> None:
        from ctxr.models.entailment.sources import find_branches
        from ctxr.models.precision import choose_device

        self.config, self.recipe, self.talk = config, recipe, talk
        self.out, self.device = config.folder(recipe), choose_device(config.device)
        self.pairs = open_pairs(config.dataset, config.workdir, talk)
        self.train, self.dev = self.pairs.side("train"), self.pairs.side("valid")
        _refuse(self.pairs, self.train, self.dev)
        self.train = _apart(self.pairs, self.train, self.dev, talk)
        self.branches: Branches = find_branches(recipe, self.device)
        self.learned = learned(self.train, recipe)
        if not self.learned:
            raise DataError(
                f"{self.pairs.name} has no pair of the kinds that the recipe learns from",
                hint="--set text_data=true, or name other pairs",
            )
        _refuse_one_label(self.pairs.name, [one.label for one in self.learned])
        if len({pair.label for pair in self.dev}) == 1:
            talk.warn(
                f"all {len(self.dev)} pairs of valid have one label, so they choose neither epoch nor threshold well"
            )

    def key(self, seed: int) -> str:
        """What decides a training."""
        decides = {name: value for name, value in asdict(self.recipe).items() if name != "at_once"}
        return sha256_of([decides, seed, self.pairs.origin.sha256, self.fingerprints()])

    def fingerprints(self) -> tuple[str, str]:
        """Of text branch and image branch, "" for none."""
        text, image = self.branches.text, self.branches.image
        return text.fingerprint if text else "", image.fingerprint if image else ""

    def table(self, rows: list[EntailmentPair]) -> "ClaimTable":
        """Pairs to be judged."""
        return claim_table(
            judged(rows, self.recipe), self.pairs, self.branches, self.config.workdir, self.device, self.talk
        )


def train_classifier(config: Train, recipe: ClassifierRecipe, talk: Talk) -> TrainReport:
    """The classifier of a configuration, finished.

    Raises UsageError for wrong arguments, DataError for pairs that cannot be learned from or that would be judged again,
    CtxrError when the loss is no number any more.
    """
    job = _Job(config, recipe, talk)
    decides = {**asdict(recipe), "seeds": config.seeds}
    parents = [job.pairs.origin]
    if stands(job.out, KIND, decides, parents):
        return _report(job, up_to_date=True)
    refuse_strangers(job.out)
    with locked(job.out):
        make_way(job.out, KIND, decides, parents, talk)
        for seed in range(config.seeds):
            _train_seed(job, seed)
        take_manifest(job.out)
        for extra in sorted(job.out.glob("seed*")):
            if extra.name[4:].isdigit() and int(extra.name[4:]) >= config.seeds:
                shutil.rmtree(extra)
        report = _report(job, up_to_date=False)
        files = [
            f"seed{seed}/{file.name}" for seed in range(config.seeds) for file in (job.out / f"seed{seed}").iterdir()
        ]
        text, image = job.fingerprints()
        finish(
            job.out, kind=KIND, verb="train", config=decides, parents=parents, files=[*files, HISTORY],
            counts={"pairs": report.queries, "claims": len(job.learned), "seeds": config.seeds, "valid": report.valid},
            models={"text": {"name": recipe.text, "fingerprint": text}, "image": {"name": recipe.image, "fingerprint": image}},
        )  # fmt: skip
        shutil.rmtree(job.out / MAKING, ignore_errors=True)
    return report


def _train_seed(job: _Job, seed: int) -> None:
    """Train one seed to its end, choose its threshold on dev, and write it; nothing is done if it is there."""
    from ctxr.models.entailment.checkpoint import Notes, write_classifier
    from ctxr.models.entailment.sources import new_classifier
    from ctxr.models.entailment.training import ClassifierTrainer, probabilities
    from ctxr.models.training.checkpoint import fill
    from ctxr.models.training.loop import BEST, Callbacks, TrainingRun
    from ctxr.models.training.scoring import in_bf16
    from ctxr.models.training.state import Epoch

    final, making = job.out / f"seed{seed}", job.out / MAKING / f"seed{seed}"
    if _made_by(final) == job.key(seed):
        return
    recipe, talk = job.recipe, job.talk
    table = claim_table(job.learned, job.pairs, job.branches, job.config.workdir, job.device, talk)
    dev = job.table(choosing(job.dev)) if job.dev else None
    model: EntailmentClassifier = new_classifier(recipe, job.branches, seed).to(job.device)

    def tell(row: Epoch) -> None:
        found = "" if row.accuracy is None else f", dev {row.accuracy:.1%}"
        talk.note(f"seed {seed}, epoch {row.epoch} of {recipe.epochs}: loss {row.loss:.4f}{found}, {row.seconds:.1f} s")

    bf16 = in_bf16(recipe.precision, job.device)
    with talk.progress(f"training seed {seed}", recipe.epochs * len(table)) as task:
        callbacks = Callbacks(talk.warn, task.advance, tell, talk.note)
        run = TrainingRun(making, seed, job.key(seed), job.device, bf16, callbacks)
        progress = ClassifierTrainer(model, recipe, table, dev, run).run()
    fill(model, making / BEST, "the classifier that was trained")
    value, reached = HALF, None
    if dev is not None:
        entailed = probabilities(model.eval(), dev, AT_ONCE, job.device, bf16)
        value, reached = _threshold(job, dev, entailed, seed)
    else:
        talk.warn(f"seed {seed}: no pairs of valid, so the last epoch counts and the threshold stays at {HALF}")
    text, image = job.fingerprints()
    take_manifest(job.out)
    shutil.rmtree(final, ignore_errors=True)
    write_history(job.out, seed, progress.history)
    notes = Notes(asdict(recipe), text, image, value, reached, progress.best or 0, job.key(seed))
    write_classifier(final, making / BEST, notes, sorted(job.pairs.marks([*job.train, *job.dev])))


def _threshold(job: _Job, dev: "ClaimTable", entailed: "object", seed: int) -> tuple[float, float | None]:
    """(threshold, its precision on dev): the lowest that reaches the wanted precision, else 0.5."""
    import numpy as np

    wanted, chances = job.recipe.wanted_precision, np.asarray(entailed, np.float64)
    found = threshold_for(dev.label.numpy() == 1, chances, wanted)
    if found is None:
        job.talk.warn(f"seed {seed}: no threshold reaches a precision of {wanted} on dev, so it stays at {HALF}")
        return HALF, None
    job.talk.note(f"seed {seed}: threshold {found.value:.3f}, on dev {found.told()}")
    if found.called < FEW_CALLED:
        job.talk.warn(f"seed {seed}: on dev {found.weakness()}")
    # as float32 says it: a probability that was on the threshold must stay there
    return float(np.float32(found.value)), found.precision.value


def _refuse(pairs: Pairs, train: list[EntailmentPair], dev: list[EntailmentPair]) -> None:
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


def _apart(pairs: Pairs, train: list[EntailmentPair], dev: list[EntailmentPair], talk: Talk) -> list[EntailmentPair]:
    """The training pairs without those of texts whose premise stands on valid or test too: QQP has as published many questions on
    both. Raises DataError where none is left."""
    held = {pair.group for pair in (*dev, *pairs.side("test")) if pair.image is None}
    same = [pair for pair in train if pair.image is None and pair.group in held]
    if not same:
        return train
    said = f"{len(same)} of {len(train)} training pairs have a premise of valid or test, the first is {same[0].id}"
    if len(same) == len(train):
        raise DataError(said, hint="name other pairs to learn from")
    talk.warn(f"{said}: left out")
    return [pair for pair in train if pair.image is not None or pair.group not in held]


def _made_by(folder: Path) -> str | None:
    from ctxr.models.entailment.checkpoint import read_notes

    try:
        return read_notes(folder).made_by
    except DataError:
        return None


def _report(job: _Job, up_to_date: bool) -> TrainReport:
    from ctxr.models.entailment.checkpoint import read_notes

    history = read_history(job.out)
    seeds = []
    for seed in range(job.config.seeds):
        rows = {row.epoch: row.accuracy for row in history if row.seed == seed}
        epoch = read_notes(job.out / f"seed{seed}").epoch
        seeds.append(Trained(seed, epoch, len(rows), rows.get(epoch), None))
    known = [one.valid for one in seeds if one.valid is not None]
    return TrainReport(
        run=job.out.resolve().name,
        folder=job.out,
        variant=job.recipe.variant,
        encoder=" + ".join(filter(None, (job.recipe.text, job.recipe.image))),
        dataset=job.pairs.name,
        queries={"train": len(job.train), "valid": len(job.dev)},
        seeds=tuple(seeds),
        valid=sum(known) / len(known) if known else None,
        test=None,
        up_to_date=up_to_date,
        judged_on="valid" if job.dev else "",
    )

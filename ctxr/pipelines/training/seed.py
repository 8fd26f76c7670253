"""One seed of a run: trained to its end, or from where it was stopped, and written as a checkpoint."""

import shutil
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ctxr.data.artifacts import Parent
from ctxr.data.hashing import sha256_of
from ctxr.errors import DataError
from ctxr.models.training.recipe import Recipe
from ctxr.pipelines.scoring import source_of
from ctxr.pipelines.talk import Talk
from ctxr.pipelines.training.asked import Asked
from ctxr.pipelines.training.encoded import Pictures, as_pixels, as_vectors
from ctxr.pipelines.training.history import write_history

if TYPE_CHECKING:
    from ctxr.models.clip import ClipScorer
    from ctxr.models.loading import Source
    from ctxr.models.training.questions import Questions
    from ctxr.models.training.state import Epoch, Progress

MAKING = "making"
"""Folder of a run for what only an unfinished training needs."""


@dataclass(frozen=True)
class Job:
    """What the seeds of a run have in common.

    Attributes:
        recipe: with the encoder's resolved name. out: folder of the run. dataset: name of what it learns from.
        asked: queries by side; those of "train" all have targets. pictures: of all sides.
        start: run whose fine-tuned encoder is taken, None for the published one.
        parents: what the run is made from.
    """

    recipe: Recipe
    out: Path
    dataset: str
    asked: dict[str, list[Asked]]
    pictures: Pictures
    start: Path | None
    parents: tuple[Parent, ...]
    device: str
    talk: Talk

    def key(self, seed: int) -> str:
        """What decides a training: a state of another key is not gone on from."""
        decides = {name: value for name, value in asdict(self.recipe).items() if name != "at_once"}
        return sha256_of([decides, seed, [(parent.name, parent.sha256) for parent in self.parents]])


def train_seed(job: Job, seed: int) -> None:
    """Train one seed to its end and write its checkpoint; nothing is done if that is there.

    Raises CtxrError when the loss is no number any more, DataError where the start is of another encoder.
    """
    from ctxr.models.training.checkpoint import ENCODER, Checkpoint, fingerprint_of, tuned, write_config, write_weights
    from ctxr.models.training.loop import BEST

    final, making = job.out / f"seed{seed}", job.out / MAKING / f"seed{seed}"
    if _made_by(final) == job.key(seed):
        return
    below = None if job.start is None else _start_of(job.start, seed)
    source = source_of(below, job.recipe.encoder, job.talk)
    progress = _fit(job, source, seed, making) if job.recipe.learns else None
    shutil.rmtree(final, ignore_errors=True)
    write_weights(final, None if progress is None else making / BEST, None if below is None else below / ENCODER)
    write_history(job.out, seed, [] if progress is None else progress.history)
    recipe, best = job.recipe, 0 if progress is None else progress.best or 0
    fingerprint = fingerprint_of(tuned(source, final, source.name))
    shape = (source.dim, recipe.layers, recipe.heads, recipe.inner, recipe.fusion, recipe.scale)
    write_config(final, Checkpoint(recipe.variant, recipe.encoder, fingerprint, *shape, best, job.key(seed)))


def _fit(job: Job, source: "Source", seed: int, making: Path) -> "Progress":
    """The training itself; its states lie in `making`."""
    from ctxr.models.precision import choose_precision
    from ctxr.models.training.checkpoint import new_scorer
    from ctxr.models.training.loop import Hearing, Trainer

    recipe, talk = job.recipe, job.talk
    encoder, train, valid = _questions(job, source)
    scorer: ClipScorer = new_scorer(recipe, source.dim, encoder, seed).to(job.device)
    # on a CPU autocast wins or loses by the architecture: it has to be asked for
    bf16 = recipe.precision == "bf16" or (
        recipe.precision == "auto" and job.device == "cuda" and choose_precision("auto", "cuda", 0) == "bf16"
    )
    total = recipe.epochs * len(train)

    def tell(row: "Epoch") -> None:
        found = "" if row.accuracy is None else f", valid {row.accuracy:.1%}"
        talk.note(f"seed {seed}, epoch {row.epoch} of {recipe.epochs}: loss {row.loss:.4f}{found}, {row.seconds:.1f} s")

    with talk.progress(f"training seed {seed}", total) as task:
        hearing = Hearing(talk.warn, task.advance, tell)
        trainer = Trainer(
            scorer, recipe, train, valid, seed, making, job.key(seed), device=job.device, bf16=bf16, hearing=hearing
        )
        return trainer.run()


def _questions(job: Job, source: "Source") -> tuple[object | None, "Questions", "Questions | None"]:
    """(encoder that learns, None for a frozen one; queries to train on; queries to choose the epoch by)."""
    from ctxr.models.clip import trainable
    from ctxr.models.encode import Encoder

    sides = [job.asked["train"], [one for one in job.asked.get("valid", []) if one.target is not None]]
    if job.recipe.has_head:
        frozen = Encoder(source, job.device, job.recipe.precision, job.talk.warn)
        asked = [as_vectors(side, job.pictures, frozen, job.talk) if side else None for side in sides]
        encoder = None
    else:
        encoder = trainable(source.build)
        asked = [as_pixels(side, job.pictures, source, job.device, job.talk) if side else None for side in sides]
    train, valid = asked
    if train is None:
        raise ValueError("nothing to train on")
    return encoder, train, valid


def _made_by(folder: Path) -> str | None:
    """What decided the checkpoint in `folder`; None if there is none."""
    from ctxr.models.training.checkpoint import read_checkpoint

    try:
        return read_checkpoint(folder).made_by
    except DataError:
        return None


def _start_of(run: Path, seed: int) -> Path:
    """The checkpoint of a run that a seed starts from: of the same seed, or else of the first."""
    same = run / f"seed{seed}"
    return same if (same / "config.json").is_file() else run / "seed0"

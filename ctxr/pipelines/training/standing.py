"""The life of a run's folder: what stands in it, the run that is asked for seed by seed, and the manifest."""

import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from ctxr.data.artifacts import (
    MANIFEST,
    Content,
    Parent,
    finish,
    finished,
    locked,
    open_artifact,
    plain,
    refuse_strangers,
    take_manifest,
)
from ctxr.errors import DataError
from ctxr.pipelines.talk import Talk
from ctxr.pipelines.training.history import HISTORY, drop_seeds, write_history

if TYPE_CHECKING:
    from ctxr.models.training.state import Epoch
    from ctxr.pipelines.train import TrainReport

MAKING = "making"
"""Folder of a run for what only an unfinished training needs."""

_NAMED = 3
"""Settings that are named where a run was trained otherwise."""


class TrainJob(Protocol):
    """What is trained, seed by seed, into the folder of a run."""

    KIND: ClassVar[str]

    out: Path
    parents: tuple[Parent, ...]
    talk: Talk

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
    """The run of a job, finished. A seed that is there is not trained again."""
    decides, out = job.decides, job.out
    if stands(out, job.KIND, decides, job.parents):
        return job.report(up_to_date=True)
    job.check()
    refuse_strangers(out)
    with locked(out):
        make_way(out, job.KIND, decides, job.parents, job.talk)
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
            counts=counts,
            models=models,
            files=files,
        )
        shutil.rmtree(out / MAKING, ignore_errors=True)
    return job.report(up_to_date=False)


def _is_made(job: TrainJob, seed: int) -> bool:
    try:
        return job.made_by(job.out / f"seed{seed}") == job.key(seed)
    except DataError:
        return False


def stands(out: Path, kind: str, decides: Mapping[str, Any], parents: Sequence[Parent]) -> bool:
    """Whether exactly this run lies in `out`, finished and as it was written. What it was made from may have been renamed."""
    found = finished(out, kind, "train", decides, parents, renamed=True)
    return found is not None and not found.changed_files()


def make_way(out: Path, kind: str, decides: Mapping[str, Any], parents: Sequence[Parent], talk: Talk) -> None:
    """Say what becomes of a finished run in `out` that is not the one asked for.

    Seeds with damaged files are removed, to be trained again. A run of other settings is left as it is: it goes when the first new
    seed is done, so that a training that is broken off costs nothing.
    """
    if not (out / MANIFEST).is_file():
        return
    if finished(out, kind, "train", decides, parents, renamed=True) is None:
        known, wanted = open_artifact(out, kind).manifest.config, plain(decides)
        other = [name for name, value in wanted.items() if known.get(name) != value]
        why = ", ".join(other[:_NAMED]) + (f" and {len(other) - _NAMED} more" if len(other) > _NAMED else "")
        talk.warn(
            f"{out} holds a run that was trained otherwise ({why or 'on other data'}): it stays until the first seed of the new one "
            "is done; --name keeps both"
        )
        return
    damaged = open_artifact(out, kind).changed_files()
    take_manifest(out)
    for seed in sorted({Path(name).parts[0] for name in damaged if "/" in name}):
        talk.warn(f"{out / seed} was changed or damaged since it was written, so this seed is trained again")
        shutil.rmtree(out / seed, ignore_errors=True)

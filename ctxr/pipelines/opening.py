"""The dataset that a verb looks at: the one that was named, or the newest finished one of the project."""

from pathlib import Path
from typing import TYPE_CHECKING

from ctxr.errors import UnfinishedError
from ctxr.pipelines.talk import Talk

if TYPE_CHECKING:
    from ctxr.data.dataset import Dataset

CHAIN = ("revised", "dataset", "filtered", "sets")
"""Folders of a project that hold a dataset, latest in the chain first."""


def open_dataset(path: Path | None, workdir: Path, talk: Talk) -> "Dataset":
    """The dataset at `path`; without one the latest finished one in `workdir`, and says which.

    Raises UnfinishedError when the project has none, and whatever `read_dataset` raises.
    """
    from ctxr.data.artifacts import MANIFEST
    from ctxr.data.readers import read_dataset

    if path is None:
        path = next((workdir / name for name in CHAIN if (workdir / name / MANIFEST).is_file()), None)
        if path is None:
            raise UnfinishedError(
                f"{workdir} holds no finished dataset", hint="name one, or make one: ctxr build-sets videos/"
            )
        talk.note(f"looking at {path}")
    with talk.progress("pictures", None) as task:
        return read_dataset(path, task.advance)

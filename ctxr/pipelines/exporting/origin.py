"""What an export is made from: an artifact of image sets or a dataset, in memory."""

import re
from pathlib import Path, PurePosixPath

from ctxr.data.artifacts import Artifact, open_artifact
from ctxr.data.dataset import Dataset
from ctxr.data.readers.artifact import KINDS, dataset_of
from ctxr.errors import DataError
from ctxr.pipelines.revising.records import RESTORE
from ctxr.pipelines.revising.records import VERB as REVISED

_PLAIN = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]*")


def open_sets(path: Path) -> tuple[Artifact, Dataset]:
    """An artifact of image sets, or a dataset made of them, and what it holds.

    Raises UnfinishedError without a finished artifact, DataError when a table of it was changed or damaged.
    """
    artifact = open_artifact(path, None, "ctxr build-sets videos/")
    if artifact.manifest.kind not in KINDS:
        raise DataError(
            f"{path} holds {artifact.manifest.kind}, not {' or '.join(KINDS)}",
            hint="name the right folder, or the --workdir that it is in",
        )
    if edited := artifact.changed_files():
        raise DataError(
            f"{path / edited[0]} was changed since it was written",
            hint=RESTORE
            if artifact.manifest.verb == REVISED
            else f"restore it, or run ctxr {artifact.manifest.verb} again: it makes anew what was changed",
        )
    return artifact, dataset_of(artifact)


def plain_name(name: str, what: str) -> str:
    """`name`, if it can be a folder's name and leads nowhere else. Raises DataError otherwise."""
    if not _PLAIN.fullmatch(name) or len(name) > 200:
        raise DataError(
            f"{what} {name!r} cannot be the name of a folder",
            hint="names hold letters, digits, . _ - and do not begin with a dot",
        )
    return name


def stays_inside(path: str) -> bool:
    """Whether a path in a table is relative, with `/`, and does not leave its folder."""
    parts = PurePosixPath(path).parts
    return bool(parts) and not path.startswith("/") and ".." not in parts and not any(sign in path for sign in "\\:\0")

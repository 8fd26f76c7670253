"""What an export is made from: an artifact of image sets, as a dataset in memory."""

import re
from pathlib import Path, PurePosixPath
from typing import TypeVar

from ctxr.data.artifacts import Artifact, open_artifact
from ctxr.data.dataset import Dataset
from ctxr.data.records import Facts, Image, ImageSet, Judgment, Query, Record, Source, Split, Text
from ctxr.data.tables import read_table
from ctxr.errors import DataError
from ctxr.pipelines.sets_report import KIND

R = TypeVar("R", bound=Record)

_PLAIN = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]*")


def open_sets(path: Path) -> tuple[Artifact, Dataset]:
    """An artifact of image sets, and what it holds.

    Raises UnfinishedError without a finished artifact, DataError when a table of it was changed or damaged.
    """
    artifact = open_artifact(path, KIND, "ctxr build-sets videos/")
    if edited := artifact.changed_files():
        raise DataError(
            f"{path / edited[0]} was changed since it was written",
            hint=f"restore it, or run ctxr {artifact.manifest.verb} again: it makes anew what was changed",
        )
    return artifact, dataset_of(artifact)


def dataset_of(artifact: Artifact) -> Dataset:
    """An artifact of kind `image_sets` as a dataset. Raises DataError for rows that do not fit one another."""
    path = artifact.path
    images = {image.id: image for image in read_table(path / "images.jsonl", Image)}
    sets = tuple(sorted(read_table(path / "sets.jsonl", ImageSet), key=lambda row: row.id))
    for image_set in sets:
        for name in image_set.images:
            if name not in images:
                raise DataError(
                    f"{path / 'sets.jsonl'}: the set {image_set.id} names {name!r}, which images.jsonl does not have",
                    hint=f"run ctxr {artifact.manifest.verb} again",
                )

    def optional(name: str, record: type[R]) -> list[R]:
        return read_table(path / name, record) if name in artifact.manifest.files else []

    measured = {row.path: row for row in read_table(path / "facts.jsonl", Facts)}
    by_path = {image.path: image.id for image in images.values()}
    return Dataset(
        name=path.resolve().name,
        root=path,
        sets=sets,
        images=images,
        texts={row.id: row for row in optional("texts.jsonl", Text)},
        queries={row.id: row for row in optional("queries.jsonl", Query)},
        judgments=tuple(optional("judgments.jsonl", Judgment)),
        splits={row.group: row.split for row in read_table(path / "splits.jsonl", Split)},
        sources=tuple(read_table(path / "sources.jsonl", Source)),
        facts={by_path[name]: row for name, row in measured.items() if name in by_path},
    )


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

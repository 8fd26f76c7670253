"""A folder that `datasets.load_dataset` opens: parquet shards with the pictures inside, typed, by split."""

import json
import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from types import ModuleType
from typing import IO, Any

from ctxr.data.atomic import disk_errors
from ctxr.data.records import ImageSet
from ctxr.errors import CtxrError
from ctxr.pipelines.exporting.job import Job, Written
from ctxr.pipelines.exporting.pictures import suffix_of

SPLITS = {"train": "train", "valid": "validation", "test": "test", "unsplit": "unsplit"}
"""Our names of the sides, and theirs."""

_GROUP_BYTES = 64 * 2**20
"""Pictures held in memory and written as one row group."""

_GROUP_ROWS = 5000

_JUDGMENT = {"candidate": "string", "worker": "string", "value": "float64", "at": "string", "seconds": "float64"}
_JUDGMENT["round"] = "int64"

SETS: dict[str, Any] = {
    "id": "string",
    "kind": "string",
    "source": "string",
    "group": "string",
    "shot": "int32",
    "closest": "float64",
    "mean_distance": "float64",
    "images": ["image"],
    "members": [
        {
            "id": "string",
            "sha256": "string",
            "source": "string",
            "width": "int32",
            "height": "int32",
            "index": "int64",
            "time": "string",
            "licence": "string",
        }
    ],
}
"""Columns of the configuration `sets`: a name is a type, a list holds its one element, a mapping is a record."""

QUERIES: dict[str, Any] = {
    "id": "string",
    "image_set": "string",
    "texts": ["string"],
    "labels": ["string"],
    "targets": ["int32"],
    "judgments": [_JUDGMENT],
}
"""Columns of the configuration `queries`."""


def write(job: Job) -> Written:
    """Write `data/<split>-NNNNN.parquet`, and `queries/…` where anything is asked. Raises CtxrError without pyarrow."""
    arrow, parquet = _pyarrow()
    sets, queries = job.by_split(), {}
    with job.talk.progress("export sets", len(job.dataset.sets)) as task:
        for split, own in sets.items():
            with _Shards(arrow, parquet, job.out / "data", SPLITS[split], SETS, job.shard_bytes) as shards:
                for image_set in own:
                    shards.add(*_set_row(job, image_set))
                    task.advance()
    for split, own in sets.items():
        if rows := [row for image_set in own for row in job.query_rows(image_set)]:
            queries[split] = len(rows)
            with _Shards(arrow, parquet, job.out / "queries", SPLITS[split], QUERIES, job.shard_bytes) as shards:
                for row in rows:
                    shards.add(row, len(json.dumps(row)))
    folders = {"sets": ("data", list(sets))} | ({"queries": ("queries", list(queries))} if queries else {})
    return Written(
        _LOAD + (_LOAD_QUERIES if queries else ""),
        front_matter="\n".join(_configs(folders)),
        software={"pyarrow": arrow.__version__},
    )


def _configs(folders: dict[str, tuple[str, list[str]]]) -> Iterator[str]:
    yield "configs:"
    for name, (folder, splits) in folders.items():
        yield f"- config_name: {name}"
        if name == "sets":
            yield "  default: true"
        yield "  data_files:" if splits else "  data_files: []"
        for split in splits:
            yield f"  - split: {SPLITS[split]}"
            yield f"    path: {folder}/{SPLITS[split]}-*.parquet"


def _set_row(job: Job, image_set: ImageSet) -> tuple[dict[str, Any], int]:
    members = job.members(image_set)
    pictures = [job.pictures.content(image) for image in members]
    # the path serves to guess the format and is no place
    names = [f"{position}{suffix_of(image)}" for position, image in enumerate(members)]
    row = job.set_row(image_set) | {
        "images": [{"bytes": content, "path": name} for content, name in zip(pictures, names, strict=True)],
        "members": [job.image_row(image) for image in members],
    }
    return row, sum(map(len, pictures))


class _Shards:
    """Parquet files of bounded size, each whole on the medium before the next is begun. A context manager."""

    def __init__(
        self, arrow: ModuleType, parquet: ModuleType, folder: Path, prefix: str, columns: dict[str, Any], most: int
    ) -> None:
        self._arrow, self._parquet = arrow, parquet
        self._folder, self._prefix, self._most = folder, prefix, most
        features = {name: _feature(kind) for name, kind in columns.items()}
        described = json.dumps({"info": {"features": features}}, separators=(",", ":"))
        fields = [(name, _type(arrow, kind)) for name, kind in columns.items()]
        self._schema = arrow.schema(fields, metadata={"huggingface": described})
        self._rows: list[dict[str, Any]] = []
        self._waiting = self._written = self._count = 0
        self._writer: Any = None
        self._stream: IO[bytes] | None = None

    def add(self, row: dict[str, Any], size: int) -> None:
        """Write a row of about `size` bytes; a new shard is begun where it would not fit."""
        if self._written + self._waiting and self._written + self._waiting + size > self._most:
            self._finish()
        self._rows.append(row)
        self._waiting += size
        if self._waiting >= _GROUP_BYTES or len(self._rows) >= _GROUP_ROWS:
            self._flush()

    def _flush(self) -> None:
        if not self._rows:
            return
        with disk_errors(self._folder):
            if self._writer is None:
                self._folder.mkdir(parents=True, exist_ok=True)
                self._stream = (self._folder / f"{self._prefix}-{self._count:05d}.parquet").open("xb")
                self._writer = self._parquet.ParquetWriter(self._stream, self._schema)
                self._count += 1
            self._writer.write_table(self._arrow.Table.from_pylist(self._rows, self._schema))
        self._written, self._waiting = self._written + self._waiting, 0
        self._rows.clear()

    def _finish(self) -> None:
        self._flush()
        if self._writer is None or self._stream is None:
            return
        try:
            with disk_errors(self._folder):
                self._writer.close()
                self._stream.flush()
                os.fsync(self._stream.fileno())
        finally:
            self._abandon()
        self._written = 0

    def _abandon(self) -> None:
        """Let go of the shard as it is; what went wrong before is what matters."""
        for stream in (self._writer, self._stream):
            if stream is not None:
                with suppress(OSError, ValueError):
                    stream.close()
        self._writer = self._stream = None

    def __enter__(self) -> "_Shards":
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            if kind is None:
                self._finish()
        finally:
            self._abandon()


def _type(arrow: ModuleType, kind: Any) -> Any:
    if isinstance(kind, list):
        return arrow.list_(_type(arrow, kind[0]))
    if isinstance(kind, dict):
        return arrow.struct([(name, _type(arrow, one)) for name, one in kind.items()])
    if kind == "image":
        return arrow.struct([("bytes", arrow.binary()), ("path", arrow.string())])
    return getattr(arrow, kind)()


def _feature(kind: Any) -> Any:
    if isinstance(kind, list):
        return {"feature": _feature(kind[0]), "_type": "List"}
    if isinstance(kind, dict):
        return {name: _feature(one) for name, one in kind.items()}
    return {"_type": "Image"} if kind == "image" else {"dtype": kind, "_type": "Value"}


def _pyarrow() -> tuple[ModuleType, ModuleType]:
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError as error:
        raise CtxrError(
            "parquet files need the package pyarrow, which is not installed", hint="pip install 'ctxr[export]'"
        ) from error
    return pyarrow, parquet


_LOAD = """    from datasets import load_dataset     # version 4 or newer
    sets = load_dataset("PATH/OF/THIS/FOLDER", "sets")
    sets["train"][0]["images"]            # the pictures of one set, in order

A row is a set; `members` says of each picture what it is, with its exact time in its video as "numerator/denominator" seconds.
"""

_LOAD_QUERIES = """
The configuration `queries` holds what is asked: `texts` against `image_set`, `targets` as positions in `images`, and every judgment.
"""

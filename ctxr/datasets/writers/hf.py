"""A folder that `datasets.load_dataset` opens: typed parquet shards with pictures, by split."""

import json
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from types import ModuleType
from typing import IO

from ctxr.datasets.writers.job import Add, ExportJob, ExportResult, suffix_of, write_shards
from ctxr.store.artifacts import package_versions
from ctxr.store.records import ImageSet

SPLITS = {"train": "train", "valid": "validation", "test": "test", "unsplit": "unsplit"}
_GROUP_BYTES = 64 * 2**20
"""Pictures held in memory and written as one row group."""

_GROUP_ROWS = 5000

Kind = str | list["Kind"] | dict[str, "Kind"]
"""A column: a name is a type, a list holds its one element, a mapping is a record."""

Columns = dict[str, object]
_MEMBER: dict[str, Kind] = {
    "id": "string", "sha256": "string", "source": "string", "width": "int32", "height": "int32",
    "index": "int64", "time": "string", "licence": "string",
}  # fmt: skip
_JUDGMENT: dict[str, Kind] = {
    "candidate": "string", "worker": "string", "value": "float64", "at": "string", "seconds": "float64", "round": "int64",
}  # fmt: skip

SETS: dict[str, Kind] = {
    "id": "string", "kind": "string", "source": "string", "group": "string", "shot": "int32",
    "closest": "float64", "mean_distance": "float64", "images": ["image"], "members": [_MEMBER],
}  # fmt: skip
QUERIES: dict[str, Kind] = {
    "id": "string", "image_set": "string", "texts": ["string"], "labels": ["string"],
    "targets": ["int32"], "judgments": [_JUDGMENT],
}  # fmt: skip


def write(job: ExportJob) -> ExportResult:
    """Write `data/<split>-NNNNN.parquet`, and `queries/…` where anything is asked. Raises CtxrError without pyarrow."""
    sets, queries = job.by_split(), {}
    with job.progress.task("exporting sets", len(job.dataset.sets)) as task:

        def set_rows(own: Iterable[ImageSet]) -> Iterator[tuple[Columns, int]]:
            for image_set in own:
                members = job.members(image_set)
                pictures = [job.pictures.checked(image).read_bytes() for image in members]
                # the path serves to guess the format and is not a place
                names = [f"{position}{suffix_of(image)}" for position, image in enumerate(members)]
                images = [{"bytes": one, "path": name} for one, name in zip(pictures, names, strict=True)]
                described = {"images": images, "members": [job.image_row(image) for image in members]}
                yield job.set_row(image_set) | described, sum(map(len, pictures))
                task.advance()

        for split, own in sets.items():
            write_rows(job, "data", split, SETS, set_rows(own))
    for split, own in sets.items():
        if rows := [row for image_set in own for row in job.query_rows(image_set)]:
            queries[split] = len(rows)
            write_rows(job, "queries", split, QUERIES, ((row, len(json.dumps(row))) for row in rows))
    return ExportResult(
        _LOAD + (_LOAD_QUERIES if queries else ""),
        front_matter=front_matter([("sets", "data", sets), *([("queries", "queries", queries)] if queries else [])]),
        software=package_versions("pyarrow"),
    )


def write_rows(
    job: ExportJob, folder: str, split: str, columns: dict[str, Kind], rows: Iterable[tuple[Columns, int]]
) -> None:
    """Write a split of a table as shards `FOLDER/SPLIT-NNNNN.parquet`; rows come with about their bytes."""
    import pyarrow as arrow  # an extra, which the options ask for
    from pyarrow import parquet

    pattern = job.out / folder / f"{SPLITS[split]}-{{number:05d}}.parquet"
    write_shards(pattern, job.shard_bytes, partial(_parquet, arrow, parquet, columns), rows)


def front_matter(configs: Iterable[tuple[str, str, Iterable[str]]]) -> str:
    """YAML by which `datasets` finds configurations, by name, folder and splits; the first is the default."""
    front = ["configs:"]
    for name, folder, splits in configs:
        front += [f"- config_name: {name}", *(["  default: true"] if len(front) == 1 else [])]
        files = [f"  - split: {SPLITS[one]}\n    path: {folder}/{SPLITS[one]}-*.parquet" for one in splits]
        front += ["  data_files:", *files] if files else ["  data_files: []"]
    return "\n".join(front)


@contextmanager
def _parquet(
    arrow: ModuleType, parquet: ModuleType, columns: dict[str, Kind], stream: IO[bytes]
) -> Iterator[Add[Columns]]:
    """A parquet file, written in row groups that are held in memory until they are full."""
    features = {name: _feature(kind) for name, kind in columns.items()}
    described = json.dumps({"info": {"features": features}}, separators=(",", ":"))
    schema = arrow.schema([(name, _type(arrow, kind)) for name, kind in columns.items()], {"huggingface": described})
    writer = parquet.ParquetWriter(stream, schema)
    rows: list[Columns] = []
    sizes: list[int] = []

    def flush() -> None:
        if rows:
            writer.write_table(arrow.Table.from_pylist(rows, schema))
        rows.clear()
        sizes.clear()

    def add(row: Columns, size: int) -> None:
        rows.append(row)
        sizes.append(size)
        if sum(sizes) >= _GROUP_BYTES or len(rows) >= _GROUP_ROWS:
            flush()

    try:
        yield add
        flush()
        writer.close()
    finally:
        with suppress(OSError, ValueError):  # after an error: else it would once collected
            writer.close()


def _type(arrow: ModuleType, kind: Kind) -> object:
    if isinstance(kind, list):
        return arrow.list_(_type(arrow, kind[0]))
    if isinstance(kind, dict):
        return arrow.struct([(name, _type(arrow, item)) for name, item in kind.items()])
    if kind == "image":
        return arrow.struct([("bytes", arrow.binary()), ("path", arrow.string())])
    return getattr(arrow, kind)()


def _feature(kind: Kind) -> object:
    if isinstance(kind, list):
        return {"feature": _feature(kind[0]), "_type": "List"}
    if isinstance(kind, dict):
        return {name: _feature(item) for name, item in kind.items()}
    return {"_type": "Image"} if kind == "image" else {"dtype": kind, "_type": "Value"}


_LOAD = """    from datasets import load_dataset     # version 4 or newer
    sets = load_dataset("PATH/OF/THIS/FOLDER", "sets")
    sets["train"][0]["images"]            # the pictures of one set, in order

A row is a set; `members` says of each picture what it is, with its exact time in its video as "numerator/denominator" seconds.
"""

_LOAD_QUERIES = """
The configuration `queries` holds what is asked: `texts` against `image_set`, `targets` as positions in `images`, and every judgment.
"""

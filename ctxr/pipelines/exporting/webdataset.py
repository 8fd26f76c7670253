"""WebDataset: tar shards, one sample a set, the same bytes every time."""

import io
import os
import tarfile
from contextlib import suppress
from pathlib import Path
from typing import IO

import msgspec

from ctxr.data.atomic import disk_errors
from ctxr.data.records import ImageSet
from ctxr.data.sources import safe_name
from ctxr.pipelines.exporting.job import Job, Written
from ctxr.pipelines.exporting.pictures import suffix_of

_BLOCK = 512
_NAME = 60
"""Characters of a set's id in the name of its sample; the number before it keeps names apart."""


def write(job: Job) -> Written:
    """Write `<split>-NNNNNN.tar`: of each set KEY.json and KEY.0.jpg … in order."""
    shards: dict[str, int] = {}
    with job.talk.progress("export sets", len(job.dataset.sets)) as task:
        for split, sets in job.by_split().items():
            shards[split] = 0
            shard = _Shards(job.out, split, job.shard_bytes)
            with shard:
                for number, image_set in enumerate(sets):
                    shard.add(_sample(job, image_set, split, number))
                    task.advance()
            shards[split] = shard.count
    patterns = "\n".join(f"    {split}: {split}-{{000000..{count - 1:06d}}}.tar" for split, count in shards.items())
    return Written(_LOAD.format(patterns=patterns), counts={"shards": shards})


def _sample(job: Job, image_set: ImageSet, split: str, number: int) -> dict[str, bytes]:
    """Files of one sample by name. The key has no dot: what follows the first dot is the kind of file."""
    key = f"{number:06d}-{safe_name(image_set.id)[:_NAME].replace('.', '_')}"
    files: dict[str, bytes] = {}
    rows = []
    for position, image in enumerate(job.members(image_set)):
        name = f"{position}{suffix_of(image)}"
        files[f"{key}.{name}"] = job.pictures.content(image)
        rows.append(job.image_row(image) | {"file": name})
    row = job.set_row(image_set) | {"split": split, "images": rows, "queries": job.query_rows(image_set)}
    return {f"{key}.json": msgspec.json.encode(row), **files}


class _Shards:
    """Tars of bounded size, each whole on the medium before the next is begun. A context manager."""

    def __init__(self, folder: Path, prefix: str, most: int) -> None:
        self._folder, self._prefix, self._most = folder, prefix, most
        self._tar: tarfile.TarFile | None = None
        self._stream: IO[bytes] | None = None
        self._bytes = 0
        self.count = 0

    def add(self, files: dict[str, bytes]) -> None:
        """Write one sample; a new shard is begun where it would not fit."""
        size = sum(_BLOCK + -(-len(content) // _BLOCK) * _BLOCK for content in files.values())
        if self._tar is not None and self._bytes + size > self._most:
            self._finish()
        with disk_errors(self._folder):
            tar = self._tar or self._begin()
            for name, content in files.items():
                tar.addfile(_header(name, len(content)), io.BytesIO(content))
        self._bytes += size

    def _begin(self) -> tarfile.TarFile:
        path = self._folder / f"{self._prefix}-{self.count:06d}.tar"
        self._stream = path.open("xb")
        self._tar = tarfile.open(fileobj=self._stream, mode="w", format=tarfile.USTAR_FORMAT)  # noqa: SIM115
        self._bytes, self.count = 0, self.count + 1
        return self._tar

    def _finish(self) -> None:
        if self._tar is None or self._stream is None:
            return
        try:
            with disk_errors(self._folder):
                self._tar.close()
                self._stream.flush()
                os.fsync(self._stream.fileno())
        finally:
            self._abandon()

    def _abandon(self) -> None:
        """Let go of the shard as it is; what went wrong before is what matters."""
        if self._stream is not None:
            with suppress(OSError):
                self._stream.close()
        self._tar = self._stream = None

    def __enter__(self) -> "_Shards":
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            if kind is None:
                self._finish()
        finally:
            self._abandon()


def _header(name: str, size: int) -> tarfile.TarInfo:
    """A header in which nothing depends on the machine or the hour."""
    header = tarfile.TarInfo(name)
    header.size, header.mtime, header.mode = size, 0, 0o644
    header.uid = header.gid = 0
    header.uname = header.gname = ""
    return header


_LOAD = """Tar shards for WebDataset, one sample a set: `KEY.json` holds the set, its images and what is asked about it; `KEY.0.jpg`,
`KEY.1.jpg` … are its pictures in order.

{patterns}

    import webdataset
    for sample in webdataset.WebDataset("train-000000.tar", shardshuffle=False).decode("pil"):
        pictures = [sample[image["file"]] for image in sample["json"]["images"]]
"""

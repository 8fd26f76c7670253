"""WebDataset: tar shards, one sample a set, the same bytes every time."""

import io
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO

import msgspec

from ctxr.datasets.writers.job import Add, ExportJob, ExportResult, suffix_of, write_shards
from ctxr.store.paths import safe_name
from ctxr.store.records import ImageSet


def write(job: ExportJob) -> ExportResult:
    """Write `<split>-NNNNNN.tar`: of each set KEY.json and KEY.0.jpg … in order."""
    shards: dict[str, int] = {}
    with job.progress.task("exporting sets", len(job.dataset.sets)) as task:

        def samples(split: str, sets: list[ImageSet]) -> Iterator[tuple[dict[str, bytes], int]]:
            for number, image_set in enumerate(sets):
                # a part of the id suffices: the number keeps names apart; what follows the first dot is the kind of file
                key = f"{number:06d}-{safe_name(image_set.id)[:60].replace('.', '_')}"
                rows, files = [], dict[str, bytes]()
                for position, image in enumerate(job.members(image_set)):
                    name = f"{position}{suffix_of(image)}"
                    files[f"{key}.{name}"] = job.pictures.checked(image).read_bytes()
                    rows.append(job.image_row(image) | {"file": name})
                more = {"split": split, "images": rows, "queries": job.query_rows(image_set)}
                sample = {f"{key}.json": msgspec.json.encode(job.set_row(image_set) | more), **files}
                blocks = sum(1 + -(-len(content) // tarfile.BLOCKSIZE) for content in sample.values())
                yield sample, blocks * tarfile.BLOCKSIZE
                task.advance()

        for split, sets in job.by_split().items():
            pattern = job.out / f"{split}-{{number:06d}}.tar"
            shards[split] = write_shards(pattern, job.shard_bytes, _tar, samples(split, sets))
    patterns = "\n".join(f"    {split}: {split}-{{000000..{count - 1:06d}}}.tar" for split, count in shards.items())
    return ExportResult(_LOAD.format(patterns=patterns), counts={"shards": shards})


@contextmanager
def _tar(stream: IO[bytes]) -> Iterator[Add[dict[str, bytes]]]:
    """A tar of samples, each its files by name; its two empty last blocks are written if the block ends well."""
    tar = tarfile.open(fileobj=stream, mode="w", format=tarfile.USTAR_FORMAT)  # noqa: SIM115

    def add(files: dict[str, bytes], size: int) -> None:
        for name, content in files.items():
            # what else a header says does not depend on the machine or the hour
            header = tarfile.TarInfo(name)
            header.size = len(content)
            tar.addfile(header, io.BytesIO(content))

    yield add
    tar.close()


_LOAD = """Tar shards for WebDataset, one sample a set: `KEY.json` holds the set, its images and what is asked about it; `KEY.0.jpg`,
`KEY.1.jpg` … are its pictures in order.

{patterns}

    import webdataset
    for sample in webdataset.WebDataset("train-000000.tar", shardshuffle=False).decode("pil"):
        pictures = [sample[image["file"]] for image in sample["json"]["images"]]
"""

"""The work of `ctxr regions`: every content once, in shards that survive being killed."""

import os
import shutil
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from ctxr.data.artifacts import (
    Parent,
    finish,
    finished,
    locked,
    open_artifact,
    refuse_strangers,
    take_manifest,
)
from ctxr.data.atomic import link_or_copy
from ctxr.data.dataset import Dataset
from ctxr.data.hashing import sha256_of
from ctxr.data.images import Pixels, read_image
from ctxr.data.regions import BOX, KIND, PICTURES, Array, RegionRow, read_regions, shard_name
from ctxr.data.tables import write_table
from ctxr.errors import DataError
from ctxr.pipelines.changes import parent_of, refuse_other
from ctxr.pipelines.inputs import open_dataset
from ctxr.pipelines.regions import RegionsConfig, RegionsReport
from ctxr.pipelines.regions_files import FileRegions
from ctxr.pipelines.talk import Talk
from ctxr.pipelines.training.asked import contents_of
from ctxr.pipelines.training.caches import cached

if TYPE_CHECKING:
    from ctxr.models.regions import Extractor

SHARD = 128
"""Pictures of an array, and the most that a kill costs: 39 MB of 37 regions with 2,048 features."""

AT_ONCE = 16
"""Pictures that are decoded together."""


class Maker(Protocol):
    """Makes regions of contents (SHA-256 of a picture).

    Attributes:
        features: F.
    """

    features: int

    def describe(self) -> dict[str, object]:
        """Whatever decides the result beside `key`, as plain values."""

    def key(self, content: str) -> str:
        """What decides the regions of a picture."""

    def regions(self, contents: list[str]) -> list[Array | None]:
        """float32 [1 + R, F + BOX] of each, None where they cannot be made."""

    def why(self, content: str) -> str:
        """Why they cannot be made, in words."""


class PictureRegions:
    """Regions that an extractor makes of pixels; `files` by content."""

    def __init__(self, extractor: "Extractor", files: Mapping[str, Path]) -> None:
        self._extractor, self._files = extractor, files
        self.features = extractor.features

    def describe(self) -> dict[str, object]:
        """The extractor."""
        return self._extractor.describe()

    def key(self, content: str) -> str:
        """The content itself."""
        return content

    def regions(self, contents: list[str]) -> list[Array | None]:
        """float32 [1 + R, F + BOX] of each picture, None for one that cannot be read."""
        found: list[Array | None] = []
        for start in range(0, len(contents), AT_ONCE):
            with ThreadPoolExecutor(os.cpu_count()) as pool:
                read = list(pool.map(self._read, contents[start : start + AT_ONCE]))
            made = iter(self._extractor.regions([pixels for pixels in read if pixels is not None]))
            found += [None if pixels is None else next(made) for pixels in read]
        return found

    def why(self, content: str) -> str:
        """What reading the picture says."""
        try:
            read_image(self._files[content])
        except DataError as error:
            return error.message
        return "it could not be read when it was looked at"

    def _read(self, content: str) -> Pixels | None:
        refuse_other(self._files[content], content)
        try:
            return read_image(self._files[content])
        except DataError:
            return None


def extract(config: RegionsConfig, talk: Talk) -> RegionsReport:
    """The artifact of a configuration, finished. Raises what `pipelines.regions.run` says."""
    dataset = open_dataset(config.dataset, config.workdir, talk)
    images, files = _pictures(dataset, talk)
    maker, by = _maker(config, dataset, images, files, talk)
    keys = [maker.key(content) for content in images]
    decides = {"by": by, "most": config.most, "made_by": maker.describe(), "content": sha256_of(keys)}
    parents = [parent_of(dataset, sha256_of(list(images)))]
    out = config.folder()
    there = finished(out, KIND, "regions", decides, parents)
    if there is None:
        refuse_strangers(out)
        with locked(out):
            take_manifest(out)
            _write(out, maker, images, keys, config.workdir, talk)
            _finish(out, maker, images, decides, parents, talk)
    artifact = open_artifact(out, KIND)
    regions = read_regions(out)
    left_out = tuple(artifact.manifest.counts["left_out"])
    return RegionsReport(
        out, dataset.name, by, len(regions.rows), regions.most, regions.features, left_out, there is not None
    )


def _pictures(dataset: Dataset, talk: Talk) -> tuple[dict[str, str], dict[str, Path]]:
    """Image id, and file, of every content in the sets of a dataset, by SHA-256, in that order."""
    wanted = sorted({image for one in dataset.sets for image in one.images})
    places = {image: dataset.picture(dataset.images[image]) for image in wanted}
    lost = [image for image, file in places.items() if file is None or not file.is_file()]
    if lost or not wanted:
        first = f", the first is {lost[0]}" if lost else ""
        raise DataError(
            f"{len(lost)} of {len(wanted)} pictures of {dataset.name} are not there{first}",
            hint="put the pictures where the dataset names them, or name an artifact that holds its own",
        )
    files = {image: file for image, file in places.items() if file is not None}
    with talk.progress("hashing pictures", len(wanted)) as task:
        contents = contents_of(dataset, files, task.advance)
    images: dict[str, str] = {}
    for image, content in contents.items():
        images.setdefault(content, image)
    ordered = dict(sorted(images.items()))
    return ordered, {content: files[image] for content, image in ordered.items()}


def _maker(
    config: RegionsConfig, dataset: Dataset, images: Mapping[str, str], files: Mapping[str, Path], talk: Talk
) -> tuple[Maker, str]:
    """What makes the regions, and `--by` with the name that stands for one thing; places on this machine stay out of it."""
    way, _, rest = config.by.partition(":")
    if way == "file":
        return FileRegions(Path(rest), dataset, images, config.most), way
    if way == "grid":
        from ctxr.models.regions import GridRegions

        grid = GridRegions(rest, config.most, config.device, talk.warn)
        return PictureRegions(grid, files), f"grid:{grid.name}"
    from ctxr.models.regions_detector import DetectorRegions, weights_here

    detector = DetectorRegions(Path(rest) if rest else weights_here(), config.most, config.device)
    return PictureRegions(detector, files), way


def _write(out: Path, maker: Maker, images: Mapping[str, str], keys: list[str], workdir: Path, talk: Talk) -> None:
    """All shards, each computed once for the same contents and maker, whatever was killed since."""
    contents = list(images)
    shutil.rmtree(out / "shards", ignore_errors=True)
    made_by = {"what": KIND, **maker.describe()}
    with talk.progress("looking at regions", len(contents)) as task:
        for number, start in enumerate(range(0, len(contents), SHARD)):
            part = contents[start : start + SHARD]

            def make(rows: slice, part: list[str] = part) -> Array:
                found = maker.regions(part[rows])
                _refuse_no_numbers(found, [images[content] for content in part[rows]])
                return _stacked(found, maker.features)

            mapped: Any = cached(workdir, made_by, keys[start : start + SHARD], make, task.advance)[0]
            link_or_copy(Path(mapped.filename), out / shard_name(number))


def _finish(
    out: Path,
    maker: Maker,
    images: Mapping[str, str],
    decides: dict[str, object],
    parents: list[Parent],
    talk: Talk,
) -> None:
    """The table of pictures and the manifest. Raises DataError when no picture has regions."""
    contents = list(images)
    rows, left_out, shards = [], [], []
    for number, start in enumerate(range(0, len(contents), SHARD)):
        shards.append(shard_name(number))
        counts = _counts(np.load(out / shards[-1], mmap_mode="r", allow_pickle=False))
        for row, content in enumerate(contents[start : start + SHARD]):
            if counts[row]:
                rows.append(RegionRow(content, images[content], number, row, counts[row]))
            else:
                left_out.append(content)
    if left_out:
        more = "" if len(left_out) == 1 else f", and {len(left_out) - 1} more"
        sentence = f"{images[left_out[0]]}: {maker.why(left_out[0])}{more}"
        if not rows:
            raise DataError(f"no picture could be looked at; {sentence}", hint="ctxr doctor looks at an artifact")
        talk.warn(f"{sentence}: left out")
    write_table(out / PICTURES, rows)
    finish(
        out,
        kind=KIND,
        verb="regions",
        config=decides,
        parents=parents,
        counts={
            "pictures": len(rows),
            "regions": max(row.regions for row in rows),
            "features": maker.features,
            "left_out": [images[content] for content in left_out],
        },
        models={"regions": maker.describe()},
        files=[PICTURES, *shards],
    )


def _refuse_no_numbers(found: list[Array | None], names: list[str]) -> None:
    """Raises DataError naming the picture of which a feature is no number: it would spoil whatever learns from it."""
    for one, name in zip(found, names, strict=True):
        if one is not None and not np.isfinite(one).all():
            raise DataError(f"a feature of {name} is no number", hint="look at the weights, or name others with --by")


def _stacked(found: list[Array | None], features: int) -> Array:
    """float32 [n, R, F + BOX], padded with 0 to the most regions among them; a picture without any is all 0."""
    most = max((len(one) for one in found if one is not None), default=1)
    block = np.zeros((len(found), most, features + BOX), np.float32)
    for place, one in enumerate(found):
        if one is not None:
            block[place, : len(one)] = one
    return block


def _counts(block: Array) -> list[int]:
    """Regions of each picture: the first is the whole of it, whose area is 1; a box of area 0 is none."""
    boxes = block[:, :, -BOX:]
    there = (boxes != 0).any(-1)
    return [int(one.nonzero()[0].max()) + 1 if one.any() else 0 for one in there]

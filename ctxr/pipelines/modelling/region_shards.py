"""Features and boxes of regions of every picture, computed in shards or imported, as `ctxr regions` writes them.

`NAME.npz` holds `x` [R, F] features, `bbox` [R, 4] boxes in pixels (x1, y1, x2, y2), and the picture's size as `image_w` and
`image_h`, or `w` and `h`. Nothing in it is unpickled.
"""

import shutil
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np

from ctxr.datasets.changes import contents_of, refuse_other
from ctxr.datasets.dataset import Dataset
from ctxr.engine.engines import Engine, device_of
from ctxr.engine.progress import Progress
from ctxr.engine.units import KILLED
from ctxr.errors import DataError, and_more, first_line
from ctxr.media.images import Pixels, decoded, read_image
from ctxr.models.encoders import Warn
from ctxr.models.regions import DetectorRegions, Extractor, GridRegions
from ctxr.pipelines.modelling.config import RegionsConfig
from ctxr.problems.embeddings import CachedRows
from ctxr.store.artifacts import Content
from ctxr.store.atomic import link_or_copy
from ctxr.store.hashing import sha256_file
from ctxr.store.kinds import REGION_FEATURES
from ctxr.store.regions import BOX, PICTURES, SHARD_FILE, Array, RegionRow, with_whole
from ctxr.store.tables import write_table

SUFFIX = ".npz"

SIZES = (("image_w", "image_h"), ("w", "h"))
"""What exports call the size of a picture."""

MOST_BYTES = 2**30
"""Of a picture's arrays, unpacked: a hundred times a thousand regions of 2,048 features."""


class SetPicture(NamedTuple):
    """A picture of a dataset: the id of an image that shows it, and its file."""

    image: str
    file: Path


class FileRegions:
    """Regions out of files, by the content of the picture.

    Args:
        folder: of the files; one is found by the image's path or id in the dataset (`SET/img3.npz`), its file's name alone
            (`img3.npz`), or the SHA-256 of its content.
        most: boxes of a picture; the first of the file count.

    Raises DataError where none of the pictures has a file.
    """

    def __init__(self, folder: Path, dataset: Dataset, pictures: Mapping[str, SetPicture], most: int) -> None:
        self._folder, self._most = folder, most
        stems = Counter(Path(image.path or image.id).stem for image in dataset.images.values())
        unique = {stem for stem, count in stems.items() if count == 1}
        self._files: dict[str, Path] = {}
        for content, (image, _) in pictures.items():
            path = Path(dataset.images[image].path or image).with_suffix("")
            names = [path.as_posix(), path.as_posix().removeprefix("images/"), image, content]
            names += [path.name] if path.name in unique else []
            for file in (folder / f"{name}{SUFFIX}" for name in names):
                if file.is_file() and file.resolve().is_relative_to(folder.resolve()):
                    self._files.setdefault(content, file)
        if not self._files:
            image = next(iter(pictures.values())).image
            raise DataError(
                f"{folder} has no .npz for any of {len(pictures)} pictures, such as {image}",
                hint=f"name the files as the pictures: {image}{SUFFIX}",
            )
        self.features = _read(next(iter(self._files.values())), most).shape[1] - BOX
        self.settings: dict[str, object] = {
            "layout": "bottom-up-attention npz",
            "most": most,
            "features": self.features,
        }
        files = {content: sha256_file(file) for content, file in self._files.items()}
        self.keys = [content + files.get(content, "") for content in pictures]

    def regions(self, pictures: Sequence[tuple[str, SetPicture] | None]) -> list[Array | None]:
        """float32 [1 + R, F + BOX] of each picture, None where there is no file. Raises DataError naming the file whose arrays do not
        fit each other, or those of the other files."""
        arrays: list[Array | None] = []
        for file in (self._files.get(picture[0]) if picture else None for picture in pictures):
            array = None if file is None else _read(file, self._most)
            if array is not None and (features := array.shape[1] - BOX) != self.features:
                sentence = f"{file}: x has {features} features where other files have {self.features}"
                raise DataError(sentence, hint="extract all pictures with one detector")
            arrays.append(array)
        return arrays

    def why(self, content: str) -> str:
        """The reason why a picture has no regions."""
        return f"{self._folder} has no {SUFFIX} for it"


def _read(file: Path, most: int) -> Array:
    """float32 [1 + R, F + BOX], R at most `most`. Raises DataError naming the file."""
    try:
        with np.load(file, allow_pickle=False) as arrays:
            if sum(member.file_size for member in arrays.zip.infolist()) > MOST_BYTES:
                raise ValueError(f"its arrays have more than {MOST_BYTES:,} bytes")
            features, pixels = np.asarray(arrays["x"]), np.asarray(arrays["bbox"])
            sizes = [
                [float(arrays[name]) for name in names] for names in SIZES if names[0] in arrays and names[1] in arrays
            ]
    except KeyError as error:
        raise DataError(
            f"{file} lacks the array {error.args[0]!r}", hint="a file holds x, bbox, image_w and image_h"
        ) from error
    # NumPy lets out whatever zip files, Python's tokenizer, and memory for a shape that a header makes up, raise
    except Exception as error:
        raise DataError(f"{file} is not a readable .npz: {first_line(error)}") from error
    if not sizes:
        raise DataError(f"{file} lacks the size of its picture", hint="a file holds image_w and image_h")
    width, height = sizes[0]
    fits = features.ndim == 2 and features.shape[1] > 0 and pixels.shape == (len(features), 4)
    if not fits or not len(features) or {features.dtype.kind, pixels.dtype.kind} - set("fiu"):
        raise DataError(
            f"{file}: x is {features.dtype} {features.shape} and bbox {pixels.dtype} {pixels.shape}, "
            "wanted numbers [R, F] and [R, 4]"
        )
    if not (width > 0 and height > 0):
        raise DataError(f"{file}: invalid picture size, {width:g} by {height:g} pixels")
    boxes = pixels.astype(np.float64) / [width, height, width, height]
    # detectors count the last pixel as inside or not, and round
    slack = 2 / min(width, height)
    whole = np.isfinite(boxes).all() and bool(np.isfinite(features).all())
    if not whole or boxes.min() < -slack or boxes.max() > 1 + slack or (boxes[:, 2:] < boxes[:, :2]).any():
        raise DataError(
            f"{file}: bbox leaves the picture of {width:g} by {height:g} pixels, or holds a value that is not finite"
        )
    return with_whole(features[:most].astype(np.float32), boxes[:most].clip(0, 1).astype(np.float32))


SHARD = 128
"""Pictures of an array, and the most that a kill costs: 39 MB of 37 regions with 2,048 features."""

AT_ONCE = 16
"""Pictures that are decoded together."""


class PictureRegions:
    """Regions that an extractor makes of pixels; `pictures` by content. Each process opens the extractor itself."""

    def __init__(self, config: RegionsConfig, pictures: Mapping[str, SetPicture], warn: Warn = lambda _: None) -> None:
        (kind, _, source), device = config.extractor.partition(":"), device_of(config.engine, config.device)
        extractor: Extractor
        if kind == "grid":
            extractor = GridRegions(source, config.most, device, warn)
        else:
            extractor = DetectorRegions(Path(source), config.most, device)
        self._config, self._extractor, self._pictures = config, extractor, pictures
        self.features, self.settings, self.keys = extractor.features, extractor.describe(), list(pictures)

    def __reduce__(self) -> tuple[object, ...]:
        return PictureRegions, (self._config, {})

    def regions(self, pictures: Sequence[tuple[str, SetPicture] | None]) -> list[Array | None]:
        """float32 [1 + R, F + BOX] of each picture, None for one that cannot be read."""
        read = list(decoded(self._read, pictures))
        computed = iter(self._extractor.regions([pixels for pixels in read if pixels is not None]))
        return [None if pixels is None else next(computed) for pixels in read]

    def why(self, content: str) -> str:
        """The error of reading the picture."""
        try:
            read_image(self._pictures[content].file)
        except DataError as error:
            return error.message
        return "it could not be read"

    def _read(self, picture: tuple[str, SetPicture] | None) -> Pixels | None:
        if picture is None:
            return None
        content, (_, file) = picture
        refuse_other(file, content)
        try:
            return read_image(file)
        except DataError:
            return None


Maker = FileRegions | PictureRegions
"""Makes regions, of F `features` each, of contents (SHA-256 of a picture); with its `settings`, `keys` decide them."""


def _finite_regions(maker: Maker, pictures: Sequence[tuple[str, SetPicture] | None]) -> list[Array]:
    arrays = maker.regions(pictures)
    for picture, array in zip(pictures, arrays, strict=True):
        if picture and array is not None and not np.isfinite(array).all():
            hint = "check the weights, or name others with --extractor"
            raise DataError(f"a feature of {picture[1].image} is not finite", hint=hint)
    return [np.zeros((0, maker.features + BOX), np.float32) if array is None else array for array in arrays]


def _pictures(dataset: Dataset, progress: Progress) -> dict[str, SetPicture]:
    """The pictures in the sets of a dataset by SHA-256, in that order."""
    wanted = sorted({image for image_set in dataset.sets for image in image_set.images})
    paths = {image: dataset.picture(dataset.images[image]) for image in wanted}
    files = {image: file for image, file in paths.items() if file is not None and file.is_file()}
    lost = [image for image in wanted if image not in files]
    if lost or not wanted:
        first = f", the first is {lost[0]}" if lost else ""
        raise DataError(
            f"{len(lost)} of {len(wanted)} pictures of {dataset.name} do not exist{first}",
            hint="put the pictures where the dataset names them, or name an artifact that holds its own",
        )
    with progress.task("hashing pictures", len(wanted)) as task:
        contents = contents_of(dataset, files, task.advance)
    return dict(sorted((content, SetPicture(image, files[image])) for image, content in reversed(contents.items())))


def _tabulate(
    out: Path, maker: Maker, pictures: Mapping[str, SetPicture], deadly: Collection[str], progress: Progress
) -> Content:
    """The table of pictures, written; workers died at those whose keys are `deadly`. Raises DataError when no picture has regions."""
    contents = list(pictures)
    rows, left_out, shards = [], [], []
    for number, start in enumerate(range(0, len(contents), SHARD)):
        shards.append(SHARD_FILE.format(number))
        # regions of a picture: first the whole of it, of area 1; a box of area 0 is none
        block = np.load(out / shards[-1], mmap_mode="r", allow_pickle=False)
        present = (block[:, :, -BOX:] != 0).any(-1)
        for row, content in enumerate(contents[start : start + SHARD]):
            if present[row].any():
                count = int(present[row].nonzero()[0].max()) + 1
                rows.append(RegionRow(content, pictures[content].image, number, row, count))
            else:
                left_out.append(content)
    images = [pictures[content].image for content in left_out]
    if left_out:
        why = KILLED if dict(zip(contents, maker.keys, strict=True))[left_out[0]] in deadly else maker.why(left_out[0])
        sentence = f"{images[0]}: {why}{and_more(len(left_out))}"
        if not rows:
            raise DataError(f"no picture has regions; {sentence}", hint="ctxr doctor checks an artifact")
        progress.warn(f"{sentence}: left out")
    write_table(out / PICTURES, rows)
    most = max(row.regions for row in rows)
    counts = {"pictures": len(rows), "regions": most, "features": maker.features, "left_out": images}
    return Content([PICTURES, *shards], counts, {"regions": maker.settings})


def write_regions(out: Path, config: RegionsConfig, dataset: Dataset, progress: Progress) -> Content:
    """The regions of all pictures of a dataset in `out`: the shards, each computed once for the same contents and maker, whatever
    was killed since; and the table of pictures. Raises DataError for pictures, weights or files that cannot be used, UsageError for an
    encoder without a grid."""
    pictures = _pictures(dataset, progress)
    kind, _, source = config.extractor.partition(":")
    maker: Maker
    if kind == "file":
        maker = FileRegions(Path(source), dataset, pictures, config.most)
    else:
        maker = PictureRegions(config, pictures, progress.warn)
    shutil.rmtree(out / "shards", ignore_errors=True)
    # filled up to the most regions among them; a picture without any is all 0
    origin, make = {"what": REGION_FEATURES, **maker.settings}, partial(_finite_regions, maker)
    job = CachedRows(config.workdir, origin, make, AT_ONCE)
    things, engine = dict(zip(maker.keys, pictures.items(), strict=True)), Engine(config.engine, config.jobs)
    for number, file in enumerate(job.files(things, SHARD, engine, progress, "extracting regions")):
        link_or_copy(file, out / SHARD_FILE.format(number))
    content = _tabulate(out, maker, pictures, job.deadly, progress)
    return content._replace(counts=content.counts | {"dataset": dataset.name})

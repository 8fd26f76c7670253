"""Regions that somebody else extracted: a file for each picture in the layout of the bottom-up-attention exports.

`NAME.npz` holds `x` [R, F] features, `bbox` [R, 4] boxes in pixels (x1, y1, x2, y2), and the picture's size as `image_w` and
`image_h`, or `w` and `h`. Nothing in it is unpickled.
"""

import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ctxr.data.dataset import Dataset
from ctxr.data.hashing import sha256_file
from ctxr.data.records import Image
from ctxr.data.regions import Array, with_whole
from ctxr.errors import DataError, UsageError

SUFFIX = ".npz"

SIZES = (("image_w", "image_h"), ("w", "h"))
"""What exports call the size of a picture."""


class FileRegions:
    """Regions out of files, by the content of the picture.

    Args:
        folder: of the files; one is found by the image's path or id in the dataset (`SET/img3.npz`), its file's name alone
            (`img3.npz`), or the SHA-256 of its content.
        most: boxes of a picture; the first of the file count.

    Raises UsageError for a folder that is not there, DataError where none of the pictures has a file.
    """

    def __init__(self, folder: Path, dataset: Dataset, images: Mapping[str, str], most: int) -> None:
        if not folder.is_dir():
            raise UsageError(f"{folder} is no folder", hint="--by file:FOLDER with a .npz for each picture")
        self._folder, self._most = folder, most
        alone = _stems_that_name_one_picture(dataset)
        found = {content: _file_of(folder, dataset.images[image], content, alone) for content, image in images.items()}
        self._files = {content: file for content, file in found.items() if file is not None}
        if not self._files:
            image = next(iter(images.values()), "of nothing")
            raise DataError(
                f"{folder} has no .npz for any of {len(images)} pictures, such as {image}",
                hint=f"name the files as the pictures: {image}{SUFFIX}",
            )
        self.features = _read(next(iter(self._files.values())))[0].shape[1]

    def describe(self) -> dict[str, object]:
        """The settings; the files themselves are in `keys`."""
        return {"layout": "bottom-up-attention npz", "most": self._most, "features": self.features}

    def key(self, content: str) -> str:
        """What decides the regions of a picture: its content and that of its file."""
        file = self._files.get(content)
        return content if file is None else content + sha256_file(file)

    def regions(self, contents: list[str]) -> list[Array | None]:
        """float32 [1 + R, F + BOX] of each picture, None where there is no file.

        Raises DataError naming the file whose arrays do not fit each other, or those of the other files.
        """
        return [self._regions(self._files[content]) if content in self._files else None for content in contents]

    def why(self, content: str) -> str:
        """Why a picture has no regions."""
        return f"{self._folder} has no {SUFFIX} for it"

    def _regions(self, file: Path) -> Array:
        features, boxes = _read(file)
        if features.shape[1] != self.features:
            raise DataError(
                f"{file}: x has {features.shape[1]} features where other files have {self.features}",
                hint="extract all pictures with one detector",
            )
        return with_whole(features[: self._most], boxes[: self._most])


def _stems_that_name_one_picture(dataset: Dataset) -> set[str]:
    """File names, without suffix, that no two pictures share."""
    seen: dict[str, int] = {}
    for image in dataset.images.values():
        stem = Path(image.path or image.id).stem
        seen[stem] = seen.get(stem, 0) + 1
    return {stem for stem, count in seen.items() if count == 1}


def _file_of(folder: Path, image: Image, content: str, alone: set[str]) -> Path | None:
    path = Path(image.path or image.id).with_suffix("")
    names = [path.as_posix(), path.as_posix().removeprefix("images/"), image.id, content]
    names += [path.name] if path.name in alone else []
    inside = folder.resolve()
    for name in names:
        file = folder / f"{name}{SUFFIX}"
        if file.is_file() and file.resolve().is_relative_to(inside):
            return file
    return None


def _read(file: Path) -> tuple[Array, Array]:
    """Features float32 [R, F] and boxes [R, 4] as shares of the picture. Raises DataError naming the file."""
    try:
        with np.load(file, allow_pickle=False) as held:
            features, pixels = np.asarray(held["x"]), np.asarray(held["bbox"])
            sizes = [[float(held[name]) for name in names] for names in SIZES if names[0] in held and names[1] in held]
    except KeyError as error:
        raise DataError(
            f"{file} lacks the array {error.args[0]!r}", hint="a file holds x, bbox, image_w and image_h"
        ) from error
    except (OSError, ValueError, TypeError, EOFError, zipfile.BadZipFile) as error:
        raise DataError(f"{file} is not a readable .npz: {error}") from error
    if not sizes:
        raise DataError(f"{file} does not say how large its picture is", hint="a file holds image_w and image_h")
    return _checked(file, features, pixels, *sizes[0])


def _checked(file: Path, features: Any, pixels: Any, width: float, height: float) -> tuple[Array, Array]:
    fits = features.ndim == 2 and features.shape[1] > 0 and pixels.shape == (len(features), 4)
    if not fits or not len(features) or {features.dtype.kind, pixels.dtype.kind} - set("fiu"):
        raise DataError(
            f"{file}: x is {features.dtype} {features.shape} and bbox {pixels.dtype} {pixels.shape}, "
            "wanted numbers [R, F] and [R, 4]"
        )
    if not (width > 0 and height > 0):
        raise DataError(f"{file}: a picture of {width:g} by {height:g} pixels cannot be")
    boxes = pixels.astype(np.float64) / [width, height, width, height]
    # detectors count the last pixel as inside or not, and round
    slack = 2 / min(width, height)
    whole = np.isfinite(boxes).all() and bool(np.isfinite(features).all())
    if not whole or boxes.min() < -slack or boxes.max() > 1 + slack or (boxes[:, 2:] < boxes[:, :2]).any():
        raise DataError(f"{file}: bbox leaves the picture of {width:g} by {height:g} pixels, or a number is none")
    return features.astype(np.float32), boxes.clip(0, 1).astype(np.float32)

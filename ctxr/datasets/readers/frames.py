"""The pictures of a published release: one folder for each set, ordered by the number in the name, never as strings."""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

from ctxr.errors import DataError, plural
from ctxr.media.images import image_size
from ctxr.store.hashing import sha256_file
from ctxr.store.records import PHOTO_SUFFIXES, Image

SET_SIZE = 10
_FRAME = re.compile(r"img(\d{1,18})\.[A-Za-z]+")


@dataclass
class ReleasePictures:
    """The ordered pictures of the sets of a release that have `size` of them, and notes on skipped sets."""

    root: Path
    size: int = SET_SIZE
    files: dict[str, list[Path]] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def ids(self, name: str) -> list[str]:
        """Image ids of a set in order: `set/imgN`, or `set/#P` with the position P where its pictures are unavailable."""
        if name not in self.files:
            return [f"{name}/#{position}" for position in range(self.size)]
        # by set, not by video: two cuts of one video may number their frames alike
        return [f"{name}/img{frame_number(file.name)}" for file in self.files[name]]

    def describe(self, groups: dict[str, str], sources: dict[str, str], passed: Callable[[], None]) -> dict[str, Image]:
        """The images of all sets by id. A picture that cannot be read has no path."""
        images: dict[str, Image] = {}
        damaged: list[Path] = []
        for name, group in groups.items():
            images |= {image: Image(image, "", "", group, 0, 0) for image in self.ids(name)}
            for image, file in zip(self.ids(name), self.files.get(name, ()), strict=False):
                index = None if sources[name] == name else frame_number(file.name)
                described = describe_picture(self.root, file, image, group, index)
                if described is None:
                    damaged.append(file)
                images[image] = described or Image(image, "", "", group, 0, 0, index)
                passed()
        if damaged:
            self.notes.append(f"{len(damaged)} images cannot be read and count as missing: the first is {damaged[0]}")
        return images


def frame_number(name: str) -> int | None:
    """The number in `img37.jpg`; None for another name.

    >>> sorted(["img10.jpg", "img2.jpg"], key=frame_number)
    ['img2.jpg', 'img10.jpg']
    """
    match = _FRAME.fullmatch(name)
    return int(match[1]) if match else None


def in_string_order(numbers: Iterable[int]) -> bool:
    """Whether numbers stand as strings would be sorted although that is not the order of numbers: 10 before 2.

    >>> in_string_order([1, 10, 2]), in_string_order([1, 2, 10]), in_string_order([2, 1, 10])
    (True, False, False)
    """
    listed = list(numbers)
    return sorted(listed) != listed == sorted(listed, key=str)


def find_pictures(root: Path, names: Iterable[str]) -> ReleasePictures:
    """The pictures of the sets `names`, each set's in the order of their numbers.

    A set with fewer pictures than the others counts as one without: positions after a missing picture would be wrong.
    Raises DataError for a picture whose name has no number, a number that appears twice, and a picture outside the folder.
    """
    listed = list(names)
    pictures = ReleasePictures(root)
    tops = [root / name for name in ("image-sets", "image_sets", "images", ".") if (root / name).is_dir()]
    top = next((top for top in tops if any((top / name).is_dir() for name in listed)), None)
    if top is None:
        return pictures
    folders = {name: _ordered(top, top / name) for name in listed if (top / name).is_dir()}
    sizes = {len(files) for files in folders.values() if files}
    if len(sizes) == 1:
        (pictures.size,) = sizes
    pictures.files = {name: files for name, files in folders.items() if len(files) == pictures.size}
    if pictures.files and pictures.size != SET_SIZE:
        what = f"all sets have {pictures.size} pictures here, not {SET_SIZE}"
        pictures.notes.append(f"{what}: targets count those that are here, by number")
    wrong = sorted(name for name, files in folders.items() if len(files) != pictures.size)
    if wrong:
        have = len(folders[wrong[0]])
        pictures.notes.append(
            f"{plural(len(wrong), 'set')} without exactly {pictures.size} pictures: treated as sets without pictures, because "
            f"positions would be wrong ({wrong[0]} has {have})"
        )
    return pictures


def describe_picture(root: Path, file: Path, image_id: str, group: str, index: int | None) -> Image | None:
    """A picture as a record with its hash and size; None if it cannot be read."""
    try:
        width, height = image_size(file)
        sha256 = sha256_file(file)
    except (DataError, OSError):
        return None
    return Image(image_id, file.relative_to(root).as_posix(), sha256, group, width, height, index)


def _ordered(top: Path, folder: Path) -> list[Path]:
    files = [file for file in sorted(folder.iterdir()) if file.suffix.lower() in PHOTO_SUFFIXES and file.is_file()]
    inside = top.resolve()
    numbered: list[tuple[int, Path]] = []
    for file in files:
        number = frame_number(file.name)
        if number is None:
            raise DataError(f"{file}: a frame is named imgN, and its number gives its place", hint=f"rename {file}")
        if not file.resolve().is_relative_to(inside):
            raise DataError(f"{file} is a link that leads out of its folder", hint=f"put the picture itself at {file}")
        numbered.append((number, file))
    numbered.sort()
    for (one, first), (two, second) in pairwise(numbered):
        if one == two:
            what = f"{second}: the frame number {two} is that of {first.name} as well"
            raise DataError(what, hint=f"delete {second}")
    return [file for _, file in numbered]

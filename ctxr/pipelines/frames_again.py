"""Frames of many videos decoded again, each video once and in a process that can be killed; and sources found by their content."""

import os
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import suppress
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import Any, Protocol

from ctxr.data.hashing import sha256_bytes, sha256_file
from ctxr.data.images import PHOTO_SUFFIXES, Pixels
from ctxr.data.sources import find_sources
from ctxr.data.video import VideoError, check_file
from ctxr.data.whereabouts import place_of
from ctxr.errors import DataError
from ctxr.pipelines.frame_child import ChildFrameReader
from ctxr.pipelines.scan import ScanOptions
from ctxr.pipelines.talk import Talk, Task

WHERE = "--videos DIR names the folder where the videos and photos lie now; they are known by content, not by name"


class FrameOf(Protocol):
    """A picture that is a frame of a video."""

    @property
    def id(self) -> str:
        """Its name."""

    @property
    def index(self) -> int | None:
        """Frame number, from 0."""

    @property
    def time(self) -> Fraction | None:
        """Exact seconds."""


@dataclass(frozen=True)
class Wanted:
    """Frames of one video: `sha256` of the file, `decoder` that counted its frames."""

    name: str
    file: str
    sha256: str
    decoder: str
    images: Sequence[Any]


Visit = Callable[[Any, Pixels, int | None], None]
"""Hears of an image, its pixels uint8 [H, W, 3], and the number of the stream."""


@dataclass(frozen=True)
class ByContent:
    """Finds files by their sha256: in the folder `videos`, or where an artifact beside `artifact` last saw them."""

    artifact: Path
    videos: Path | None
    talk: Talk
    places: dict[str, Path] = field(default_factory=dict, compare=False)
    """Videos that were found and compared, and folders of albums, by sha256."""

    @cached_property
    def found(self) -> dict[str, Path]:
        """Every video and photo below `videos` by sha256; nothing without such a folder."""
        if self.videos is None:
            return {}
        places: dict[str, Path] = {}

        def progress(total: float) -> Any:
            return self.talk.progress("look through the sources (MiB)", total)

        for source in find_sources([str(self.videos)], progress).found:
            if source.kind == "video":
                places.setdefault(source.sha256, source.path)
            for file, digest in zip(source.photos, source.photo_sha256, strict=True):
                places.setdefault(digest, file)
        return places

    def video(self, wanted: Wanted) -> Path:
        """The file of a video. Raises VideoError when it is not there or is another."""
        if self.videos is not None:
            if wanted.sha256 not in self.found:
                name = PurePosixPath(wanted.file).name
                if other := next((path for path in sorted(self.found.values()) if path.name == name), None):
                    raise VideoError(
                        "changed",
                        f"{other} has this name but other content (sha256 {wanted.sha256[:12]}… is wanted)",
                        WHERE,
                    )
                raise VideoError(
                    "no_such_file",
                    f"{self.videos} does not hold {wanted.name} ({wanted.file}, sha256 {wanted.sha256[:12]}…)",
                    WHERE,
                )
            return self.places.setdefault(wanted.sha256, self.found[wanted.sha256])
        place = place_of(self.artifact, wanted.sha256)
        if place is None:
            raise VideoError("no_such_file", f"nobody knows where {wanted.name} ({wanted.file}) lies", WHERE)
        check_file(place)
        if sha256_file(place) != wanted.sha256:
            raise VideoError("changed", f"{place} has changed since", WHERE)
        return self.places.setdefault(wanted.sha256, place)

    def photos(self, albums: Mapping[str, str]) -> dict[str, Path]:
        """Photos by sha256: all below `videos`, or those in the places of `albums` (names and hashes)."""
        if self.videos is not None:
            return dict(self.found)
        found: dict[str, Path] = {}
        for digest in albums.values():
            place = place_of(self.artifact, digest)
            for file in sorted(place.iterdir()) if place is not None and place.is_dir() else []:
                if file.suffix.lower() in PHOTO_SUFFIXES and file.is_file():
                    with suppress(OSError):  # one that cannot be read is as good as lost
                        found.setdefault(sha256_file(file), file)
        return found


def decode_again(
    wanted: Sequence[Wanted],
    sources: ByContent,
    visit: Visit,
    talk: Talk,
    workers: int = 0,
    options: ScanOptions | None = None,
) -> dict[str, DataError]:
    """Give every wanted frame to `visit`, videos side by side, frames of one in ascending order; returns what failed, by video.

    A video that cannot be read costs only itself; what `visit` raises ends all.
    """
    failed: dict[str, DataError] = {}
    stop = threading.Event()
    if wanted:
        _ = sources.found  # looked through once, before the workers ask
    hands = workers or max(1, (os.cpu_count() or 2) // 2)
    total = sum(len(one.images) for one in wanted)
    with talk.progress("decode frames", total) as task, ThreadPoolExecutor(hands) as pool:
        jobs = {pool.submit(_decode, one, sources, visit, task, stop, options): one for one in wanted}
        try:
            for job in as_completed(jobs):
                if (error := job.result()) is not None:
                    failed[jobs[job].name] = error
        except BaseException:
            stop.set()
            for job in jobs:
                job.cancel()
            raise
    return failed


def _decode(
    wanted: Wanted,
    sources: ByContent,
    visit: Visit,
    task: Task,
    stop: threading.Event,
    options: ScanOptions | None,
) -> DataError | None:
    with ChildFrameReader(lambda: sources.video(wanted), wanted.decoder, options) as reader:
        for image in sorted(wanted.images, key=lambda image: (image.index, image.id)):
            if stop.is_set():
                return None
            try:
                pixels = reader.read(image.index, image.time)
            except DataError as error:
                return error
            visit(image, pixels, reader.stream)
            task.advance()
    return None


def pixels_sha256(rgb: Pixels) -> str:
    """Hash of a picture's upright RGB bytes, row by row."""
    return sha256_bytes(rgb.tobytes())


def software() -> dict[str, str]:
    """Versions of what decodes videos and writes JPEG here."""
    import av
    import cv2

    versions = {"av": av.__version__, "opencv": cv2.__version__}
    versions |= {name: ".".join(map(str, version)) for name, version in sorted(av.library_versions.items())}
    for line in cv2.getBuildInformation().splitlines():
        name, _, value = line.strip().partition(":")
        if name == "JPEG":
            versions["jpeg"] = value.strip().rpartition("/")[2]
    return versions


def other_software(recorded: Mapping[str, str]) -> str:
    """How what is installed here differs from what was recorded, as part of a sentence; empty if it does not."""
    here = software()
    other = [
        f"{name} {then} then, {here[name]} here" for name, then in recorded.items() if here.get(name, then) != then
    ]
    return "; ".join(other)

"""The footage of an artifact again: sources by content, wherever they are now, and given frames of its videos."""

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, Generic, TypeVar

from ctxr.engine.engines import Engine, map_units
from ctxr.engine.progress import SILENT, Progress
from ctxr.engine.units import KILLED, Job, WorkUnit
from ctxr.errors import DataError
from ctxr.media.decoder_process import ChildFrameReader
from ctxr.media.sources import fetch, files_of, find_sources
from ctxr.media.video import Pixels, VideoError, check_file, fetch_video
from ctxr.store.hashing import sha256_bytes, sha256_file
from ctxr.store.paths import last_path
from ctxr.store.records import PHOTO_SUFFIXES, Source

V = TypeVar("V")

WHERE = "--videos DIR names the folder where the videos and photos lie now; they are known by content, not by name"
RESTORE = "restore the files, or name the folder that they moved to: --videos DIR"


class SourceLocator:
    """Finds sources by their sha256: in the folder `videos`, searched on first use, or where artifacts beside `artifact` saw them.

    Attributes:
        places: videos that were found and compared, by sha256; callers may add folders of albums.
    """

    def __init__(self, artifact: Path, videos: Path | None, progress: Progress) -> None:
        self._artifact, self._videos, self._progress = artifact, videos, progress
        self._lock = threading.Lock()
        self._by_content: dict[str, Path] | None = None
        self.places: dict[str, Path] = {}

    def __reduce__(self) -> tuple[Any, ...]:
        return SourceLocator, (self._artifact, self._videos, SILENT), {"_by_content": self._by_content}

    @property
    def by_content(self) -> dict[str, Path]:
        """Every video, photo and album's folder below `videos` by sha256; nothing without such a folder."""
        with self._lock:
            if self._by_content is None:
                paths: dict[str, Path] = {}
                found = () if self._videos is None else find_sources([str(self._videos)], self._progress).found
                for source in found:
                    paths.setdefault(source.sha256, source.path)
                    for file, digest in zip(source.photos, source.photo_sha256, strict=True):
                        paths.setdefault(digest, file)
                self._by_content = paths
            return self._by_content

    def video(self, source: Source) -> Path:
        """The file of a video. Raises VideoError when it does not exist or has other content."""
        path = self.album(source)
        if self._videos is None:
            fetch_video(path)
            check_file(path)
            if sha256_file(path) != source.sha256:
                raise VideoError("changed", f"{path} has changed since the sets were built", RESTORE)
        return self.places.setdefault(source.sha256, path)

    def album(self, source: Source) -> Path:
        """The folder of an album, whose content is compared only in `videos`. Raises VideoError when it is not known."""
        if self._videos is None:
            if path := last_path(self._artifact, source.sha256):
                return path
            raise VideoError("no_such_file", f"the location of {source.name} ({source.file}) is unknown", WHERE)
        if path := self.by_content.get(source.sha256):
            return path
        name, digest = PurePosixPath(source.file).name, source.sha256[:12]
        if other := next((path for path in sorted(self.by_content.values()) if path.name == name), None):
            message = f"{other} has this name but other content (sha256 {digest}… is wanted)"
            raise VideoError("changed", message, WHERE)
        message = f"{self._videos} does not hold {source.name} ({source.file}, sha256 {digest}…)"
        raise VideoError("no_such_file", message, WHERE)

    def photos(self, albums: Mapping[str, str]) -> dict[str, Path]:
        """Photos by sha256: all below `videos`, or those in the last folders of `albums` (hashes by name)."""
        if self._videos is not None:
            return dict(self.by_content)
        paths: dict[str, Path] = {}
        for digest in albums.values():
            folder = last_path(self._artifact, digest)
            for file in files_of(folder) if folder is not None and folder.is_dir() else []:
                if file.suffix.lower() in PHOTO_SUFFIXES:
                    with suppress(OSError, DataError):
                        paths.setdefault(sha256_file(fetch(file)), file)
        return paths


Visit = Callable[[Any, Pixels, int | None], V]
Decoded = tuple[dict[str, V], Path | None, DataError | None]
"""Results for images of a video by id, where it was found, and why others failed."""


@dataclass
class DecodeFrames(Job[Decoded[V]], Generic[V]):
    """Decodes images of a video in a process that can be killed; see `decode_frames`."""

    sources: SourceLocator
    visit: Visit[V]

    def __call__(self, unit: WorkUnit) -> Decoded[V]:
        """Visit the frames of one video."""
        video, images = unit.payload
        results = dict[str, V]()
        try:
            path = self.sources.video(video)
        except DataError as error:
            return results, None, error
        with ChildFrameReader(path, video.decoder or "pyav") as reader:
            for image in images:
                if self.stopping.is_set():
                    break
                try:
                    pixels = reader.read(image.index, image.time)
                except DataError as error:
                    return results, path, error
                results[image.id] = self.visit(image, pixels, reader.stream)
                self.show(unit.name, len(results) / len(images))
        return results, path, None

    def lost(self, unit: WorkUnit) -> Decoded[V]:
        """The error of a video at which two workers died."""
        file = Path(unit.payload[0].file)
        return {}, None, VideoError("worker_died", KILLED, "it may need more memory: --jobs 1", file)


def decode_frames(
    videos: Mapping[Source, Sequence[Any]], sources: SourceLocator, visit: Visit[V], progress: Progress, engine: Engine
) -> Iterator[tuple[Source, dict[str, V], DataError | None]]:
    """Each of the `videos` with what `visit` returned for its images by id, and why a frame could not be read, which ends that video alone.

    Each video is decoded once, by any engine. `visit` gets an image, its pixels uint8 [H, W, 3] and the number of the stream; for
    several videos at once, and in ascending order; other engines than threads pickle it. What it raises ends all.
    """
    if videos:
        _ = sources.by_content  # first: one progress line at a time, once for all processes
    units = [
        WorkUnit(f"{number} {video.name}", None, (video, sorted(images, key=lambda image: (image.index, image.id))))
        for number, (video, images) in enumerate(videos.items())
    ]
    job = DecodeFrames(sources, visit)
    for unit, (results, path, error) in map_units(job, units, engine, progress, "decoding frames"):
        video, _ = unit.payload
        if path:
            sources.places.setdefault(video.sha256, path)
        yield video, results, error


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
    """Differences of the versions here from those recorded, as part of a sentence; may be empty."""
    here = software()
    other = [name for name, version in recorded.items() if here.get(name, version) != version]
    return "; ".join(f"{name} {recorded[name]} then, {here[name]} here" for name in other)

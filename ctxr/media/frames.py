"""Decode given frames of many videos, each video once and in a process that can be killed."""

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from typing import Any, TypeVar

from ctxr.engine.progress import Progress
from ctxr.engine.units import parallel
from ctxr.errors import DataError
from ctxr.media.decoder_process import ChildFrameReader
from ctxr.media.footage import SourceLocator
from ctxr.media.video import Pixels
from ctxr.store.hashing import sha256_bytes
from ctxr.store.records import Source

V = TypeVar("V")


def decode_frames(
    videos: Mapping[Source, Sequence[Any]],
    sources: SourceLocator,
    visit: Callable[[Any, Pixels, int | None], V],
    progress: Progress,
    workers: int = 0,
) -> Iterator[tuple[Source, list[V], DataError | None]]:
    """Each of the `videos` with what `visit` returned for its frames, and why a frame could not be read, which ends that video alone.

    `visit` gets an image, its pixels uint8 [H, W, 3] and the number of the stream; videos side by side, frames in ascending order.
    What it raises ends all.
    """
    stop = threading.Event()
    if videos:
        _ = sources.by_content  # searched first: one progress line at a time

    def decode(video: Source) -> tuple[list[V], DataError | None]:
        results: list[V] = []
        try:
            path = sources.video(video)
        except DataError as error:
            return results, error
        with ChildFrameReader(path, video.decoder or "pyav") as reader:
            for image in sorted(videos[video], key=lambda image: (image.index, image.id)):
                if stop.is_set():
                    break
                try:
                    pixels = reader.read(image.index, image.time)
                except DataError as error:
                    return results, error
                results.append(visit(image, pixels, reader.stream))
                task.advance()
        return results, None

    frames = sum(map(len, videos.values()))
    with (
        progress.task("decode frames", frames) as task,
        closing(parallel(decode, videos, workers, stop=stop.set)) as done,
    ):
        for video, (results, error) in done:
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
    """How what is installed here differs from what was recorded, as part of a sentence; empty if it does not."""
    here = software()
    other = (
        f"{name} {then} then, {here[name]} here" for name, then in recorded.items() if here.get(name, then) != then
    )
    return "; ".join(other)

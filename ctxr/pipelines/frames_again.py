"""Frames of many videos decoded again, each video once and in a process that can be killed."""

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ctxr.data.hashing import sha256_bytes
from ctxr.data.images import Pixels
from ctxr.errors import DataError
from ctxr.pipelines.decoding import side_by_side
from ctxr.pipelines.footage_again import SourceLocator
from ctxr.pipelines.frame_child import ChildFrameReader
from ctxr.pipelines.talk import Talk


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


def decode_frames(
    wanted: Sequence[Wanted], sources: SourceLocator, visit: Visit, talk: Talk, workers: int = 0
) -> dict[str, DataError]:
    """Give every wanted frame to `visit`, videos side by side, frames of one in ascending order; returns what failed, by video.

    A video that cannot be read costs only itself; what `visit` raises ends all.
    """
    failed: dict[str, DataError] = {}
    stop = threading.Event()
    if wanted:
        _ = sources.found  # looked through first: there is one line of progress at a time

    def decode(one: Wanted) -> None:
        with ChildFrameReader(lambda: sources.video(one), one.decoder) as reader:
            for image in sorted(one.images, key=lambda image: (image.index, image.id)):
                if stop.is_set():
                    return
                try:
                    pixels = reader.read(image.index, image.time)
                except DataError as error:
                    failed[one.name] = error
                    return
                visit(image, pixels, reader.stream)
                task.advance()

    with talk.progress("decode frames", sum(len(one.images) for one in wanted)) as task:
        side_by_side(decode, wanted, workers, stop.set)
    return failed


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

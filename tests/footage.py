"""Small clips for tests: textured shots with a wandering patch, so that every frame differs and cuts are plain."""

from collections.abc import Iterator, Sequence
from fractions import Fraction
from pathlib import Path

import av
import numpy as np
import numpy.typing as npt

Pixels = npt.NDArray[np.uint8]


def shot(rng: np.random.Generator, frames: int, height: int = 96, width: int = 160) -> Iterator[Pixels]:
    """A still backdrop of soft noise before which a coloured patch wanders without a jump."""
    coarse = rng.integers(0, 255, (height // 8, width // 8, 3))
    backdrop = np.kron(coarse, np.ones((8, 8, 1))).astype(np.uint8)
    colour = rng.integers(0, 255, 3)
    speed, start = rng.uniform(0.08, 0.12, 2), rng.uniform(0, 6, 2)
    for at in range(frames):
        picture = backdrop.copy()
        row, column = ((1 + np.sin(start + speed * at)) / 2 * (height - 40, width - 40)).astype(int)
        picture[row : row + 40, column : column + 40] = colour
        yield picture


def write_clip(path: Path, pictures: Sequence[Pixels], rate: Fraction = Fraction(25)) -> Path:
    """The pictures as H.264 with a keyframe every second; one encoder thread, so equal pictures give equal bytes."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with av.open(str(path), "w") as container:
        stream = container.add_stream("libx264", rate=rate)
        stream.height, stream.width = pictures[0].shape[:2]
        stream.pix_fmt = "yuv420p"
        stream.codec_context.gop_size = 25
        stream.options = {"preset": "veryfast", "crf": "18", "threads": "1"}
        for picture in pictures:
            container.mux(stream.encode(av.VideoFrame.from_ndarray(picture, format="rgb24")))
        container.mux(stream.encode(None))
    return path


def two_shot_clip(path: Path, seed: int, frames: int = 100) -> Path:
    """Two shots of `frames` frames each."""
    rng = np.random.default_rng(seed)
    return write_clip(path, [*shot(rng, frames), *shot(rng, frames)])


def write_audio(path: Path) -> Path:
    """Half a second of silence as AAC in an mp4 without a picture."""
    with av.open(str(path), "w") as container:
        stream = container.add_stream("aac", rate=44100)
        frame = av.AudioFrame.from_ndarray(np.zeros((1, 22050), np.float32), format="fltp", layout="mono")
        frame.sample_rate = 44100
        container.mux(stream.encode(frame))
        container.mux(stream.encode(None))
    return path

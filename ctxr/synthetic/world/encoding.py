"""Drawing a film's frames and encoding them, to equal bytes for equal films on one machine."""

from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path

import av
import cv2
import numpy as np

from ctxr.synthetic.world.drawing import render
from ctxr.synthetic.world.films import Film

# x264's look-ahead reads rows beyond pictures whose sides are no multiples of 16: two runs differed. All that rests on
# it is off; B-frames stay, so that frames are stored in another order than they are shown.
_X264 = "rc-lookahead=0:mbtree=0:b-adapt=0:scenecut=0:weightp=0:bframes=2:keyint=60"
_OPTIONS = {
    "libx264": {"preset": "veryfast", "crf": "16", "x264-params": _X264},
    "libvpx-vp9": {"deadline": "good", "cpu-used": "8", "crf": "10", "b": "0", "row-mt": "0"},
}


def frames(film: Film) -> Iterator[np.ndarray]:
    """Yield the film's upright pictures in order, uint8 RGB [H, W, 3]; a dissolve mixes two shots' pictures."""
    width, height = film.format.width, film.format.height
    for index in range(len(film.times)):
        shot, share = film.shot_of(index), film.mix(index)
        picture = render(film.scene(index), width, height)
        if share < 1:
            before = render(film.scene(index, shot - 1), width, height)
            picture = np.asarray(cv2.addWeighted(picture, share, before, 1 - share, 0.0))
        yield picture


def time_base(film: Film) -> Fraction:
    """Return the unit in which the film's times are whole numbers."""
    variable = film.format.variable or film.format.suffix == ".webm"  # Matroska counts milliseconds
    return Fraction(1, 1000) if variable else 1 / film.format.rate


def encode(film: Film, path: Path) -> None:
    """Write the film to a video file, replacing an existing one.

    One encoder thread and no dates in the file: equal films give equal bytes on one machine.

    Args:
        film: what to draw.
        path: where to; its folder must exist.
    """
    unit = time_base(film)
    turned = film.format.rotation in (90, 270)
    width, height = film.format.width, film.format.height
    options = {"fflags": "+bitexact"} | ({"movflags": "+faststart"} if path.suffix == ".mp4" else {})
    with av.open(str(path), "w", container_options=options) as container:
        stream = container.add_stream(film.format.codec, rate=film.format.rate, options=_OPTIONS[film.format.codec])
        stream.width, stream.height = (height, width) if turned else (width, height)
        stream.pix_fmt = "yuv420p"
        stream.codec_context.thread_count = 1
        stream.codec_context.time_base = unit
        stream.time_base = unit
        if film.format.rotation:
            stream.set_display_rotation(film.format.rotation)
        for time, picture in zip(film.times, frames(film), strict=True):
            # a player turns the stored picture counterclockwise by `rotation`: store it turned the other way
            stored = np.ascontiguousarray(np.rot90(picture, -(film.format.rotation // 90)))
            frame = av.VideoFrame.from_ndarray(stored, format="rgb24")
            frame.pts, frame.time_base = int(time / unit), unit
            container.mux(stream.encode(frame))
        container.mux(stream.encode())

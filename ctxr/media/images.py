"""Pictures as files: reading, writing, thumbnails; sharpness and perceptual hashes."""

import os
import warnings
from base64 import b64encode
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path, PurePosixPath
from typing import Any, TypeVar

import cv2
import numpy as np
import numpy.typing as npt
from PIL import Image as Pillow
from PIL import ImageOps, UnidentifiedImageError, features

from ctxr.engine.units import parallel
from ctxr.errors import CtxrError, DataError
from ctxr.media.sources import fetch
from ctxr.store.atomic import write_bytes
from ctxr.store.hashing import sha256_bytes, sha256_if_readable

Pixels = npt.NDArray[np.uint8]
T = TypeVar("T")

ORIENTATION = 0x0112  # tag of EXIF
_QUARTER_TURNS = frozenset({5, 6, 7, 8})  # its values that swap width and height

JPEG_QUALITY = 95  # 0..100, of saved frames; BRISQUE does not react to its artefacts
THUMBNAIL_QUALITY = 68  # 4 to 8 kB for a small picture; neighbouring frames still differ


def read_image(path: Path, side: int | None = None, *, tight: bool = False) -> Pixels:
    """The picture at `path` as upright RGB uint8 [H, W, 3] (EXIF orientation applied, transparency on white).

    With `side`, a JPEG may be decoded smaller: its sides are at least twice that or, if `tight`, the longer one is at least that.

    Raises DataError for a file that is missing, empty, truncated, absurdly large or not a picture.
    """
    fetch(path)
    try:
        with warnings.catch_warnings():
            # Pillow only warns between its limit and twice that: both are absurd for a photo
            warnings.simplefilter("error", Pillow.DecompressionBombWarning)
            # its other warnings (odd EXIF, palette transparency) do not concern pixels
            warnings.simplefilter("ignore", UserWarning)
            with Pillow.open(path) as opened:
                if side is not None:
                    shape = [-(-length * side // max(opened.size)) if tight else 2 * side for length in opened.size]
                    opened.draft("RGB", (shape[0], shape[1]))
                upright = ImageOps.exif_transpose(opened)
                if upright.mode in {"RGBA", "LA", "PA"} or "transparency" in upright.info:
                    rgba = upright.convert("RGBA")
                    upright = Pillow.alpha_composite(Pillow.new("RGBA", rgba.size, "white"), rgba)
                return np.asarray(upright.convert("RGB"))
    except FileNotFoundError as error:
        raise DataError(f"{path} is missing") from error
    except PermissionError as error:
        raise DataError(f"{path} cannot be read: no permission", hint=f"chmod +r {path}") from error
    except (Pillow.DecompressionBombError, Pillow.DecompressionBombWarning) as error:
        raise DataError(f"{path} is too large to be a photo: {error}") from error
    except (UnidentifiedImageError, OSError, ValueError, SyntaxError) as error:
        empty = path.is_file() and path.stat().st_size == 0
        raise DataError(f"{path} is {'empty' if empty else f'not a readable picture ({error})'}") from error


def read_photo(path: Path) -> Pixels:
    """The picture at `path`, as `read_image`. Raises DataError as that does, for an animated picture, and for a JPEG with a hole."""
    rgb = read_image(path)
    with Pillow.open(path) as opened:
        kind, frames = opened.format, getattr(opened, "n_frames", 1)
    if frames > 1 and kind in ("AVIF", "GIF", "PNG", "WEBP"):
        raise DataError(f"{path} is an animated picture of {frames} frames: save it as a video, or one frame as PNG")
    if kind in ("JPEG", "MPO"):
        import av  # takes longer than all else here, and few commands read new photos

        # Pillow fills a hole with grey; ffmpeg's decoder, at an eighth of the size, stops there
        decoder = av.CodecContext.create("mjpeg", "r")
        decoder.options = {"lowres": "3", "err_detect": "explode"}
        try:
            decoder.decode(av.Packet(path.read_bytes()))
        except av.error.InvalidDataError as error:
            raise DataError(f"{path} is damaged: a part of its pixels is missing or wrong") from error
    return rgb


def thumbnail(path: Path, side: int, quality: int = THUMBNAIL_QUALITY, *, tight: bool = False) -> bytes:
    """The picture at `path`, upright, as a JPEG whose longer side has at most `side` pixels. Raises DataError as `read_image`."""
    rgb = Pillow.fromarray(read_image(path, side, tight=tight))
    rgb.thumbnail((side, side), Pillow.Resampling.LANCZOS)
    content = BytesIO()
    rgb.save(content, "JPEG", quality=quality, optimize=True)
    return content.getvalue()


@dataclass(frozen=True)
class ThumbnailMaker:
    """Makes thumbnails of pictures, in any process, and keeps them between runs by the SHA-256 of the picture.

    Attributes:
        root: folder of the pictures, resolved. cache: folder where thumbnails are kept.
        folder: where they are written, named by their content; None puts them into their addresses.
    """

    root: Path
    side: int
    cache: Path
    folder: Path | None = None

    def __call__(self, paths: Sequence[str]) -> list[str | DataError]:
        """The address of the thumbnail of each picture, or the error of reading it."""
        return [self._address(path) for path in paths]

    def _address(self, path: str) -> str | DataError:
        file = self.root / PurePosixPath(path)
        if not (file.is_file() and file.resolve().is_relative_to(self.root)):
            return DataError(f"{path} is missing")
        kind, content = f"{self.side}-{THUMBNAIL_QUALITY}-{features.version('pil')}", b""
        kept = self.cache / kind / (sha256_if_readable(file) or "")
        with suppress(OSError):
            stored = kept.read_bytes()
            content = stored[64:] if sha256_bytes(stored[64:]).encode() == stored[:64] else b""
        if not content:
            try:
                content = thumbnail(file, self.side, tight=True)
            except DataError as error:
                return DataError(error.message.replace(str(file), path))
            with suppress(CtxrError):  # without its cache a report only takes longer
                write_bytes(kept, sha256_bytes(content).encode() + content, durable=False)
        if self.folder is None:
            return f"data:image/jpeg;base64,{b64encode(content).decode()}"
        target = self.folder / f"{sha256_bytes(content)[:32]}.jpg"
        write_bytes(target, content, durable=False)
        return target.name


def encode_jpeg(rgb: Pixels) -> bytes:
    """RGB uint8 [H, W, 3] as JPEG bytes; equal pixels give equal bytes."""
    done, encoded = cv2.imencode(".jpg", cv2.cvtColor(rgb, cv2.COLOR_RGB2BGR), [cv2.IMWRITE_JPEG_QUALITY, JPEG_QUALITY])
    if not done:
        raise DataError(f"a frame of shape {rgb.shape} cannot be written as JPEG")
    return bytes(encoded)


def decode_jpeg(content: bytes) -> Pixels:
    """RGB uint8 [H, W, 3] of JPEG bytes that `encode_jpeg` made."""
    bgr = cv2.imdecode(np.frombuffer(content, np.uint8), cv2.IMREAD_COLOR)
    if bgr is None:
        raise DataError("a saved frame cannot be decoded: it was changed or damaged")
    return np.asarray(cv2.cvtColor(bgr, cv2.COLOR_BGR2RGB), np.uint8)


def image_size(path: Path) -> tuple[int, int]:
    """Upright (width, height) from the header alone. Raises DataError as `read_image`."""
    fetch(path)
    try:
        with Pillow.open(path) as opened:
            width, height = opened.size
            # Pillow turns TIFFs by itself
            turned = opened.format != "TIFF" and opened.getexif().get(ORIENTATION, 1) in _QUARTER_TURNS
    except (OSError, ValueError, SyntaxError) as error:
        raise DataError(f"{path} is not a readable picture ({error})") from error
    return (height, width) if turned else (width, height)


def sharpness(rgb: Pixels) -> float:
    """Variance of the Laplacian of luma, 0 for a flat picture; higher is sharper."""
    return float(cv2.Laplacian(cv2.cvtColor(rgb, cv2.COLOR_RGB2GRAY), cv2.CV_64F).var())


def look_print(rgb: Pixels) -> npt.NDArray[np.float32]:
    """A picture of 16 by 16 pixels as a vector [768], which compression and scaling hardly change.

    The distance of two is the root mean square difference of their colour values, 0 (equal) to 1 (black and white).
    """
    small = cv2.resize(rgb, (16, 16), interpolation=cv2.INTER_AREA).astype(np.float32) / 255
    return np.asarray(small.ravel() / np.sqrt(small.size), np.float32)


_SHORT = 256  # least pixels of the shorter side for hashes, to which larger pictures are halved
_FLAT = 5.0  # median size of cosine coefficients of flat pictures: noise and gradients are below 1, photos above 15

# shares that are cut from every side: two of them, or one and none, differ by each of 1, 2, 3, 4, 5 and 6 %
CUTS = (0.01, 0.04, 0.06)


def perceptual_hash(rgb: Pixels) -> str:
    """Four perceptual hashes of a picture, 64 hex digits each; "" for a flat picture.

    They are signs of the 16 x 16 lowest cosine coefficients of luma, within a uniform border and with each of `CUTS`: a cropped
    copy has a hash in common. With a border, the last is of the whole picture.
    """
    luma = cv2.cvtColor(rgb, cv2.COLOR_RGB2GRAY)
    while min(luma.shape) >= 2 * _SHORT:
        luma = cv2.resize(luma, (luma.shape[1] // 2, luma.shape[0] // 2), interpolation=cv2.INTER_AREA)
    inner = within_border(luma, luma)
    views = [inner]
    for cut in CUTS:
        rows, columns = (round(side * cut) for side in inner.shape)
        views.append(inner[rows : inner.shape[0] - rows, columns : inner.shape[1] - columns])
    if inner.shape != luma.shape:
        views[-1] = luma
    waves = []
    for view in views:
        # halving twice averages, and is far faster than one resize to 64
        for side in (_SHORT, _SHORT // 2, _SHORT // 4):
            view = cv2.resize(view, (side, side), interpolation=cv2.INTER_LINEAR if side == _SHORT else cv2.INTER_AREA)
        waves.append(cv2.dct(view.astype(np.float32))[:16, :16])
    if np.median(np.abs(waves[0])) < _FLAT:
        return ""
    return np.packbits(np.stack(waves) > 0).tobytes().hex()


def within_border(picture: Pixels, luma: Pixels) -> Pixels:
    """The part of a picture within a uniform border of its `luma` [H, W], of up to a quarter of its sides."""
    top, bottom, left, right = map(_border, (luma, luma[::-1], luma.T, luma.T[::-1]))
    return picture[top : luma.shape[0] - bottom, left : luma.shape[1] - right]


def _border(lines: npt.NDArray[np.uint8]) -> int:
    """How many of the first lines are of one tone, up to a quarter of all; one more, which compression may blend."""
    count, most, first = 0, len(lines) // 4, 0.0
    while count < most:
        mean, spread = (float(figure[0, 0]) for figure in cv2.meanStdDev(np.ascontiguousarray(lines[count])))
        first = first if count else mean
        if spread > 3 or abs(mean - first) > 5:
            break
        count += 1
    return min(count + 1, most) if count else 0


def decoded(read: Callable[..., T], *arguments: Sequence[Any]) -> Iterator[T]:
    """The result of `read` for each row of `arguments`, which are its columns, in order. Raises what `read` raises."""
    rows, cores = zip(*arguments, strict=True), os.cpu_count() or 1
    return (result for _, result in parallel(lambda row: read(*row), rows, cores, ordered=True, queued=cores))


def troubles(read: Callable[..., Pixels], *arguments: Sequence[Any]) -> Iterator[DataError | None]:
    """The error of `read`, or None, for each row of `arguments`, in order; pictures are decoded and forgotten."""

    def trouble(*row: Any) -> DataError | None:
        try:
            read(*row)
        except DataError as error:
            return error
        return None

    return decoded(trouble, *arguments)

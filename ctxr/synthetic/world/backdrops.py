"""Backdrops: windows of public-domain photographs, and textures with a photograph's spectrum.

The photographs are those in scikit-image's wheel that their documentation (`skimage/data/_fetchers.py`) calls CC0 or
public domain: brick, camera, chelsea, coffee, grass and gravel are CC0, astronaut, hubble_deep_field and rocket public
domain. They are read from the installed files; `skimage.data` is never imported, because that takes a second.
"""

from functools import cache
from importlib.util import find_spec
from pathlib import Path

import cv2
import msgspec
import numpy as np

from ctxr.errors import DataError


class WheelPhoto(msgspec.Struct, frozen=True):
    """A photograph of the wheel; `tint` colours a grey one: RGB of its mid tone, or None."""

    file: str
    tint: tuple[int, int, int] | None = None


class Texture(msgspec.Struct, frozen=True):
    """A random texture with spectrum 1/f^slope; photographs lie near slope 1, larger is smoother.

    Attributes:
        stretch: how much longer structures are across than down. colours: RGB of its dark, middle and light tones.
        sky: RGB blended in from the top, or None.
    """

    seed: int
    slope: float
    stretch: float
    colours: tuple[tuple[int, int, int], tuple[int, int, int], tuple[int, int, int]]
    sky: tuple[int, int, int] | None = None


BACKDROPS: dict[str, WheelPhoto | Texture] = {
    "bricks": WheelPhoto("brick.png", (176, 112, 88)),
    "photographer": WheelPhoto("camera.png"),
    "cat": WheelPhoto("chelsea.png"),
    "coffee": WheelPhoto("coffee.png"),
    "grass": WheelPhoto("grass.png", (112, 150, 72)),
    "gravel": WheelPhoto("gravel.png", (160, 146, 130)),
    "rocket": WheelPhoto("rocket.jpg"),
    "stars": WheelPhoto("hubble_deep_field.jpg"),
    "astronaut": WheelPhoto("astronaut.png"),
    "sky": Texture(1, 1.55, 1.8, ((70, 130, 206), (136, 182, 228), (250, 250, 252)), (92, 148, 220)),
    "sea": Texture(2, 1.05, 5.0, ((10, 62, 98), (28, 112, 146), (150, 214, 216)), (84, 160, 190)),
    "sand": Texture(3, 0.85, 1.6, ((186, 150, 104), (220, 190, 142), (244, 224, 186))),
    "snow": Texture(4, 1.1, 1.5, ((186, 202, 222), (228, 236, 244), (252, 254, 255))),
    "sunset": Texture(5, 1.5, 3.0, ((112, 44, 92), (232, 112, 72), (255, 214, 132)), (86, 56, 122)),
    "leaves": Texture(6, 0.9, 1.0, ((16, 44, 24), (54, 104, 46), (168, 196, 92))),
    "wood": Texture(7, 1.1, 14.0, ((92, 54, 30), (154, 102, 60), (202, 152, 100))),
    "stone": Texture(8, 1.15, 1.1, ((92, 94, 100), (138, 140, 144), (190, 190, 188))),
    "night": Texture(9, 1.5, 2.0, ((10, 14, 38), (24, 34, 76), (74, 86, 132)), (6, 8, 26)),
}
_SIDE = 512


def _read_photo(photo: WheelPhoto) -> np.ndarray:
    spec = find_spec("skimage")
    folder = Path(spec.origin or "").parent if spec else Path()
    grey = photo.tint is not None
    picture = cv2.imread(str(folder / "data" / photo.file), cv2.IMREAD_GRAYSCALE if grey else cv2.IMREAD_COLOR)
    if picture is None:
        what = f"{photo.file}, a photograph of scikit-image, cannot be read"
        raise DataError(what, "pip install --force-reinstall scikit-image")
    if photo.tint is None:
        return np.ascontiguousarray(cv2.cvtColor(picture, cv2.COLOR_BGR2RGB))
    # a tone curve through black, the tint at the mean tone and a light version of it
    tones = [0.0, float(picture.mean()), 255.0]
    table = np.stack([np.interp(np.arange(256), tones, (c * 0.12, c, 0.4 * c + 153)) for c in photo.tint], axis=1)
    return np.asarray(table.round().astype(np.uint8)[picture])


def _grow_texture(texture: Texture) -> np.ndarray:
    rng = np.random.default_rng(texture.seed)
    across = np.fft.fftfreq(_SIDE)[None, : _SIDE // 2 + 1] * texture.stretch
    frequency = np.hypot(across, np.fft.fftfreq(_SIDE)[:, None])
    frequency[0, 0] = np.inf
    spectrum = np.fft.rfft2(rng.standard_normal((_SIDE, _SIDE))) / frequency**texture.slope
    grain = np.fft.irfft2(spectrum, s=(_SIDE, _SIDE))
    grain = (grain - grain.mean()) / grain.std()
    if texture.sky is not None:  # the tile is mirrored in height by the window, so top and bottom may differ
        grain = grain + np.linspace(-0.5, 0.5, _SIDE)[:, None]
    tones = np.stack([np.interp(grain, (-1.8, 0.0, 1.8), tone) for tone in zip(*texture.colours, strict=True)], axis=-1)
    if texture.sky is not None:
        share = np.linspace(0.65, 0.0, _SIDE)[:, None, None]
        tones = tones * (1 - share) + np.array(texture.sky) * share
    return np.asarray(tones.round().clip(0, 255).astype(np.uint8))


@cache
def pyramid(name: str) -> tuple[np.ndarray, ...]:
    """Return a backdrop at full, half, quarter ... size, each uint8 RGB [H, W, 3], made at the first call.

    Raises DataError if the photograph's file is missing or damaged.
    """
    source = BACKDROPS[name]
    levels = [_read_photo(source) if isinstance(source, WheelPhoto) else _grow_texture(source)]
    while min(levels[-1].shape[:2]) >= 96:
        height, width = levels[-1].shape[:2]
        levels.append(cv2.resize(levels[-1], (width // 2, height // 2), interpolation=cv2.INTER_AREA))
    for level in levels:
        level.setflags(write=False)
    return tuple(levels)


def window(name: str, x: float, y: float, zoom: float, mirrored: bool, *, width: int, height: int) -> np.ndarray:
    """The window of a backdrop, uint8 RGB [height, width, 3], with sub-pixel precision.

    Args:
        x, y: where the window lies in the room left to it, 0 left or top to 1 right or bottom.
        zoom: at least 1; 1 shows as much as fits. mirrored: whether left and right are exchanged.
    """
    levels = pyramid(name)
    full_height, full_width = levels[0].shape[:2]
    step = min(full_width / width, full_height / height) / zoom  # source pixels per drawn pixel
    left, top = x * (full_width - step * width), y * (full_height - step * height)
    level = 0
    while step > 1.6 and level + 1 < len(levels):
        level += 1
        step, left, top = step / 2, left / 2, top / 2
    # pixel centres map on pixel centres: hence the halves
    across = (-step, left + step * (width - 0.5) - 0.5) if mirrored else (step, left + 0.5 * step - 0.5)
    matrix = np.array([[across[0], 0.0, across[1]], [0.0, step, top + 0.5 * step - 0.5]])
    flags = cv2.INTER_LINEAR | cv2.WARP_INVERSE_MAP
    picture = cv2.warpAffine(levels[level], matrix, (width, height), flags=flags, borderMode=cv2.BORDER_REFLECT_101)
    return np.asarray(picture)

"""Pictures with and without text, for the text filter: photographs, and captions drawn over them."""

import os
from pathlib import Path

import cv2
import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont
from skimage import data as photographs

Picture = NDArray[np.uint8]
Rng = np.random.Generator
Box = tuple[float, float, float, float]  # left, top, right, bottom as shares of width and height

WORDS = (
    *("the", "breaking", "news", "subscribe", "now", "follow", "live", "from", "Paris", "recipe", "step", "two", "add"),
    *(
        "sugar",
        "and",
        "butter",
        "how",
        "to",
        "cook",
        "perfect",
        "steak",
        "episode",
        "video",
        "channel",
        "John",
        "Smith",
    ),
    *("weather", "report", "sale", "today", "only", "copyright", "example", "title", "music", "by"),
)
# letters' size on a picture of 640 pixels
SIZES = (10, 12, 14, 17, 20, 24, 32, 44, 64, 96)
INKS = ((255, 255, 255), (255, 255, 255), (0, 0, 0), (250, 230, 40), (220, 30, 30))


def real_folder() -> Path:
    """Where real photos and videos may be."""
    return Path(os.environ.get("CTXR_REAL_DATA", "../shared/data"))


def photos() -> list[Picture]:
    """Photographs and frames, [H, W, 3]: scikit-image's own, and real ones where they are."""
    names = ("astronaut", "chelsea", "coffee", "rocket", "hubble_deep_field", "retina")
    return [*(np.asarray(getattr(photographs, name)(), np.uint8) for name in names), *real_photos()]


def real_photos(every: int = 60) -> list[Picture]:
    """Those that trained nothing: photographs, and every so many-th frame of clips; none where there are no real data."""
    folder = real_folder()
    files = [*sorted((folder / "photos" / "coco-mini").glob("*.jpg")), *sorted((folder / "narratives").rglob("*.jpg"))]
    found = [np.asarray(cv2.cvtColor(cv2.imread(str(file)), cv2.COLOR_BGR2RGB), np.uint8) for file in files]
    names = (
        "bikes.mp4",
        "big_buck_bunny_0_30.webm",
        "issue-236-split-copy.mkv",
        "fades.mp4",
        "test_video_structuralize.mp4",
    )
    for name in names:
        if (folder / "videos" / name).exists():
            found += frames(folder / "videos" / name, every)
    return found


def frames(file: Path, every: int) -> list[Picture]:
    """Every so many-th frame of a clip, the first of them after 20."""
    film, found, at = cv2.VideoCapture(str(file)), [], 0
    while (read := film.read())[0]:
        if at % every == 20 % every:
            found.append(np.asarray(cv2.cvtColor(read[1], cv2.COLOR_BGR2RGB), np.uint8))
        at += 1
    return found


def fit(picture: Picture, height: int, width: int) -> Picture:
    """The middle of a picture at `height` x `width`."""
    scale = max(height / picture.shape[0], width / picture.shape[1])
    size = (max(width, round(picture.shape[1] * scale)), max(height, round(picture.shape[0] * scale)))
    whole = cv2.resize(picture, size, interpolation=cv2.INTER_AREA if scale < 1 else cv2.INTER_CUBIC)
    top, left = (whole.shape[0] - height) // 2, (whole.shape[1] - width) // 2
    return np.ascontiguousarray(whole[top : top + height, left : left + width], np.uint8)


def overlay(picture: Picture, rng: Rng, size: int | None = None, plain: bool = False) -> tuple[Picture, Box]:
    """`picture` with one to six words somewhere, and where they are.

    Letters of `size` or any of `SIZES`, on a picture of 640 pixels; unless `plain`, any ink, opacity from 0.45, with or without
    an outline or a box behind.
    """
    size = int(rng.choice(SIZES)) if size is None else size
    words = [WORDS[at] for at in rng.integers(0, len(WORDS), rng.integers(1, 7))]
    line = " ".join(words).upper() if rng.random() < 0.3 else " ".join(words)
    outline = 0 if plain else int(rng.integers(3)) * int(rng.random() < 0.4)
    edge = 4 + outline
    letters = np.pad(glyphs(line, max(9, round(size * max(picture.shape) / 640)), rng), edge)
    height, width = (min(drawn, whole) for drawn, whole in zip(letters.shape, picture.shape, strict=False))
    letters = letters[:height, :width]
    top = int(rng.integers(0, picture.shape[0] - height + 1))
    left = int(rng.integers(0, picture.shape[1] - width + 1))
    ink = INKS[0] if plain else INKS[rng.integers(len(INKS))]
    opposite = (255, 255, 255) if ink == (0, 0, 0) else (0, 0, 0)
    written = picture.copy()
    part = written[top : top + height, left : left + width].astype(np.float64)
    if plain or rng.random() < 0.35:
        part += (np.array(opposite) - part) * (1.0 if plain else float(rng.choice([0.5, 1])))
    opacity = 1.0 if plain else float(rng.choice([1, 1, 0.7, 0.45]))
    if outline:
        around = cv2.dilate(letters, np.ones((2 * outline + 1, 2 * outline + 1), np.uint8))
        part += (np.array(opposite) - part) * (around[:, :, None] / 255 * opacity)
    part += (np.array(ink) - part) * (letters[:, :, None] / 255 * opacity)
    written[top : top + height, left : left + width] = np.rint(part)
    across, down = picture.shape[1], picture.shape[0]
    return written, (left / across, top / down, (left + width) / across, (top + height) / down)


def glyphs(line: str, size: int, rng: Rng) -> Picture:
    """`line` as a mask, 0..255: in Pillow's own font, or one of OpenCV's."""
    if rng.random() < 0.5:
        font = ImageFont.load_default(size)
        box = font.getbbox(line)
        image = Image.new("L", (int(box[2] - box[0]) + 2, int(box[3] - box[1]) + 2))
        ImageDraw.Draw(image).text((1 - box[0], 1 - box[1]), line, font=font, fill=255)
        return np.asarray(image)
    face = int(rng.choice([cv2.FONT_HERSHEY_SIMPLEX, cv2.FONT_HERSHEY_DUPLEX, cv2.FONT_HERSHEY_COMPLEX]))
    scale, thick = size / 30, max(1, round(size / 14))
    (width, height), below = cv2.getTextSize(line, face, scale, thick)
    mask = np.zeros((height + below + 2 * thick, width + 2 * thick), np.uint8)
    return np.asarray(cv2.putText(mask, line, (thick, height + thick), face, scale, 255, thick, cv2.LINE_AA), np.uint8)

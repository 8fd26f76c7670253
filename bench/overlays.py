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
    found = [np.asarray(getattr(photographs, name)(), np.uint8) for name in names]
    files = sorted((real_folder() / "photos" / "coco-mini").glob("*.jpg"))
    found += [np.asarray(cv2.cvtColor(cv2.imread(str(file)), cv2.COLOR_BGR2RGB), np.uint8) for file in files]
    for name in ("bikes.mp4", "big_buck_bunny_0_30.webm", "issue-236-split-copy.mkv", "fades.mp4"):
        if (real_folder() / "videos" / name).exists():
            found += frames(real_folder() / "videos" / name, every=60)
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


def overlay(picture: Picture, rng: Rng, size: int | None = None, plain: bool = False) -> tuple[Picture, list[str]]:
    """`picture` with one to six words somewhere, and the words.

    Letters of `size` or any of `SIZES`, on a picture of 640 pixels; unless `plain`, any ink, opacity from 0.45, with or without
    an outline or a box behind.
    """
    size = int(rng.choice(SIZES)) if size is None else size
    font = ImageFont.load_default(max(9, round(size * max(picture.shape) / 640)))
    words = [WORDS[at] for at in rng.integers(0, len(WORDS), rng.integers(1, 7))]
    line = " ".join(words).upper() if rng.random() < 0.3 else " ".join(words)
    image = Image.fromarray(picture).convert("RGBA")
    layer = Image.new("RGBA", image.size, (0, 0, 0, 0))
    pen = ImageDraw.Draw(layer)
    box = pen.textbbox((0, 0), line, font=font)
    width, height = int(box[2] - box[0]), int(box[3] - box[1])
    left = int(rng.integers(0, max(1, image.width - width - 4)))
    top = int(rng.integers(0, max(1, image.height - height - 8)))
    ink = INKS[0] if plain else INKS[rng.integers(len(INKS))]
    opposite = (255, 255, 255) if ink == (0, 0, 0) else (0, 0, 0)
    opacity = 255 if plain else int(255 * rng.choice([1, 1, 0.7, 0.45]))
    if plain or rng.random() < 0.35:
        behind = (*opposite, 255 if plain else int(255 * rng.choice([0.5, 1])))
        pen.rectangle((left - 4, top - 4, left + width + 8, top + height + 10), fill=behind)
    outline = 0 if plain else int(rng.integers(3)) * int(rng.random() < 0.4)
    at = (left - box[0], top - box[1])
    pen.text(at, line, font=font, fill=(*ink, opacity), stroke_width=outline, stroke_fill=opposite)
    return np.asarray(Image.alpha_composite(image, layer).convert("RGB")), words

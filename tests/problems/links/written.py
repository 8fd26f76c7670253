"""Documents as an artifact, with pictures that show noise."""

from pathlib import Path

import numpy as np
from PIL import Image as Picture

from ctxr.datasets.documents import DocumentTables
from ctxr.store.artifacts import Content, Parent, finish
from ctxr.store.records import Image, Record, Split, SplitName
from ctxr.store.tables import write_table


def write_documents(folder: Path, pictures: bool = True, count: int = 30, train: int = 0) -> Path:
    """Documents of 2 to 4 sentences and images, the last ones to train on.

    Of the test ones the first has no link, the second nothing but links, and the third no judged pair.
    """
    rng, pixels, tables = np.random.default_rng(0), np.random.default_rng(1), DocumentTables()
    for number in range(count):
        sentences, images = rng.integers(2, 5, 2).tolist()
        links = rng.choice([0.0, 1.0, np.nan], (sentences, images), p=[0.5, 0.3, 0.2])
        links[0, 0], links[-1, -1] = 1, 0
        if number < 3:
            links[:] = (0, 1, np.nan)[number]
        names = [f"d{number:02}/i{place}" for place in range(images)]
        for name in names if pictures else ():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            Picture.fromarray(pixels.integers(0, 255, (20, 20, 3), np.uint8)).save(folder / f"{name}.png")
        rows = [
            Image(name, f"{name}.png" if pictures else "", "", f"d{number:02}", 20, 20, None, None) for name in names
        ]
        texts = [f"Sentence {place} of story {number}." for place in range(sentences)]
        split: SplitName = "test" if number % 3 or number < 3 else "valid"
        split = "train" if number >= count - train else split
        tables.add(f"d{number:02}", split, texts, rows, links)
    dataset = tables.dataset("documents", folder)
    content: dict[str, list[Record]] = {
        "sets": [*dataset.sets], "images": [*dataset.images.values()], "texts": [*dataset.texts.values()],
        "queries": [*dataset.queries.values()], "judgments": [*dataset.judgments],
        "splits": [Split(group, split) for group, split in dataset.splits.items()],
    }  # fmt: skip
    folder.mkdir(exist_ok=True)
    for name, own in content.items():
        write_table(folder / f"{name}.jsonl", own)
    files = Content([f"{name}.jsonl" for name in content], {}, {})
    finish(folder, kind="dataset", verb="aggregate", config={}, parents=[Parent("x", "x", "0" * 64)], content=files)
    return folder

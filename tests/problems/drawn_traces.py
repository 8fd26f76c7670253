"""Rows of five pictures, and traces over them: a query is a trace, and each picture that it touches is a target."""

from pathlib import Path

import numpy as np

from ctxr.store.artifacts import Content, Parent, finish
from ctxr.store.records import Image, ImageSet, Judgment, Query, Record, Split, Text
from ctxr.store.tables import write_table


class Trace(Record, frozen=True):
    """Two points over a row that is 0..5 long."""

    KEY = ("id",)

    id: str
    points: tuple[float, float]


def write_traces(folder: Path, train: int = 200, test: int = 60) -> Path:
    """Rows of pictures with a trace over each, as an artifact."""
    rng, rows = np.random.default_rng(0), list[Record]()
    for number in range(train + test):
        name, points = f"r{number:03}", rng.uniform(0, 5, 2).tolist()
        images = tuple(f"{name}/i{place}" for place in range(5))
        rows += [Image(image, "", "", name, 0, 0, None) for image in images]
        rows += [ImageSet(name, "photos", images, name, name, 0, 0.1, 0.2), Text(f"{name}/t", "touched", "ann", 0)]
        rows += [Query(name, name, (f"{name}/t",)), Split(name, "train" if number < train else "test")]
        rows += [Judgment(name, images[place], "gold", 1.0) for place in sorted({int(point) for point in points})]
        rows.append(Trace(name, (points[0], points[1])))
    kinds = {"sets": ImageSet, "images": Image, "texts": Text, "queries": Query, "judgments": Judgment}
    folder.mkdir()
    for name, kind in {**kinds, "splits": Split, "traces": Trace}.items():
        write_table(folder / f"{name}.jsonl", [row for row in rows if isinstance(row, kind)])
    content = Content([file.name for file in folder.iterdir()], {}, {})
    finish(folder, kind="dataset", verb="aggregate", config={}, parents=[Parent("x", "x", "0" * 64)], content=content)
    return folder

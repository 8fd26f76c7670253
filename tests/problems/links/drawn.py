"""Drawn documents whose sentences and images are about the same topics, and trainings on them."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ctxr.datasets.dataset import Dataset
from ctxr.datasets.documents import DocumentTables
from ctxr.engine.progress import Progress, Silent
from ctxr.engine.stage import execute
from ctxr.pipelines.modelling.config import Train, TrainReport
from ctxr.pipelines.modelling.train import Training, TrainInputs, report_on
from ctxr.problems.links import learner
from ctxr.problems.links.question import Links
from ctxr.problems.links.recipe import LinksRecipe
from ctxr.problems.recipes import read_recipe
from ctxr.store.artifacts import Content, Parent
from ctxr.store.hashing import sha256_of
from ctxr.store.records import Image, SplitName

TOPICS, WIDTH = 20, 16
SPLITS: dict[SplitName, int] = {"train": 120, "valid": 12, "test": 12}
QUICK = ("lr=0.03", "epochs=7", "width=16", "word_width=16", "least_count=1", "batch=10", "dropout=0")


def draw(folder: Path, splits: dict[SplitName, int] = SPLITS, pictures: Sequence[str] = ()) -> Dataset:
    """Documents of 3 sentences and 4 images, whose features are written to `features.npy` in `folder`.

    `pictures` are files that stand for topics: then images have these, and no features are written.
    """
    chance, tables, rows = np.random.default_rng(0), DocumentTables(), dict[str, Any]()
    topics = chance.standard_normal((TOPICS, WIDTH))
    names = [(split, f"{split}{number:03}") for split, count in splits.items() for number in range(count)]
    for split, name in names:
        own = chance.permutation(len(pictures) or TOPICS)[:4].tolist()
        texts = [f"Topic{topic} is here{chance.integers(3)}." for topic in own[:3]]
        ids = [f"{name}-{number}" for number in range(4)] if not pictures else [f"picture{topic}" for topic in own]
        rows |= {key: topics[topic] + 0.2 * chance.standard_normal(WIDTH) for key, topic in zip(ids, own, strict=True)}
        paths = [pictures[topic] if pictures else "" for topic in own]
        images = [Image(key, path, "", key, 1, 1) for key, path in zip(ids, paths, strict=True)]
        tables.add(name, split, texts, images, np.eye(3, 4))
    if not pictures:
        np.save(folder / "features.npy", np.array(list(rows.values()), np.float32))
        (folder / "features.json").write_text(json.dumps({key: row for row, key in enumerate(rows)}))
    return tables.dataset("drawn", folder)


class InMemory(Training):
    """A training on a dataset that lies nowhere."""

    def __init__(self, options: Train, recipe: Any, dataset: Dataset) -> None:
        super().__init__(options, recipe, Links())
        self.dataset = dataset

    def inputs(self, progress: Progress) -> TrainInputs:
        content = sha256_of([repr(row) for rows in self.dataset.tables().values() for row in rows])
        parents = [Parent(self.dataset.name, "release", content)]
        return TrainInputs(parents, {**self.recipe.key(), "seeds": self.options.seeds}, self.recipe)

    def write(self, inputs: TrainInputs, out: Path, progress: Progress) -> Content:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(learner, "open_dataset", lambda *_: self.dataset)
            return super().write(inputs, out, progress)


def job_of(dataset: Dataset, work: Path, *changes: str, recipe: str = "links-ap", **more: Any) -> Training:
    """A training that is not started."""
    options = Train(recipe, changes=changes, workdir=work, device="cpu", **more)
    read: Any = read_recipe(recipe, "fixed", changes, lambda _: LinksRecipe)
    return InMemory(options, Links().adapted(read, options), dataset)


def train(dataset: Dataset, work: Path, *changes: str, progress: Progress | None = None, **more: Any) -> TrainReport:
    """Train to the end."""
    stage = job_of(dataset, work, *changes, **more)
    return report_on(stage.out(), execute(stage, progress or Silent()).up_to_date)

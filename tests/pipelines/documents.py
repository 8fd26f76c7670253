"""A project whose dataset is drawn documents, with an evaluation of two runs."""

import math
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from PIL import Image as Pillow

from ctxr.datasets.documents import DocumentTables
from ctxr.datasets.open import read_dataset
from ctxr.store.artifacts import Content, finish
from ctxr.store.hashing import sha256_file
from ctxr.store.records import Image, Record, Split
from ctxr.store.tables import write_table
from ctxr.synthetic.world.drawing import render
from ctxr.synthetic.world.sets import sample_sets
from tests.pipelines.evaluated import evaluate, write_scores

SIZES = ((5, 5), (18, 7), (3, 8))
"""Sentences and images of documents, in turn."""

SKILLS = {"links-nostruct": 0.4, "links-ap": 2.5}
"""By run, what a link adds to a score, in standard deviations of its noise."""


def write_documents(folder: Path, count: int = 12, pictured: bool = True) -> Path:
    """An artifact of documents of test; each image has at most one sentence, and sentences may have none.

    Where there are more images, nobody said what the first sentence is not linked to.
    """
    rng, tables = np.random.default_rng(7), DocumentTables()
    for number, drawn in enumerate(sample_sets(rng, count, "photos")):
        sentences, images = SIZES[number % len(SIZES)]
        rows = []
        for place, scene in enumerate(drawn.scenes[:images]):
            path = f"images/d{number}-p{place}.jpg" if pictured else ""
            if pictured:
                (folder / "images").mkdir(parents=True, exist_ok=True)
                Pillow.fromarray(render(scene, 96, 72)).save(folder / path)
            digest = sha256_file(folder / path) if pictured else ""
            rows.append(Image(f"d{number}/p{place}", path, digest, f"d{number}", 96, 72))
        linked = min(sentences, images)
        links = np.zeros((sentences, images))
        links[rng.permutation(sentences)[:linked], rng.permutation(images)[:linked]] = 1
        if sentences < images:
            links[0, links[0] == 0] = math.nan
        about = [drawn.scenes[int(np.nanargmax(row))] if np.nansum(row) else drawn.scenes[-1] for row in links]
        figures = [[f"a {one.colour} {one.shape}" for one in scene.actors] for scene in about]
        texts = [f"There is {' and '.join(named)}." if named else "Nothing happens." for named in figures]
        tables.add(f"d{number}", "test", texts, rows, links)
    dataset = tables.dataset("drawn", folder)
    splits = [Split(group, split) for group, split in dataset.splits.items()]
    content: Mapping[str, list[Record]] = {
        "sets": [*dataset.sets],
        "images": [*dataset.images.values()],
        "texts": [*dataset.texts.values()],
        "queries": [*dataset.queries.values()],
        "judgments": [*dataset.judgments],
        "splits": [*splits],
    }
    for name, records in content.items():
        write_table(folder / f"{name}.jsonl", records)
    files = [f"{name}.jsonl" for name in content]
    finish(folder, kind="dataset", verb="build-documents", config={}, parents=[], content=Content(files, {}, {}))
    return folder


def documents_project(work: Path, count: int = 12, pictured: bool = True) -> Path:
    """A project with documents and their evaluation."""
    dataset = write_documents(work / "dataset", count, pictured)
    links = {query.id: position for query, _, position in read_dataset(dataset).targets()}
    files = []
    for run, skill in SKILLS.items():
        rng = np.random.default_rng(1)

        def value(query: str, place: int, rng: np.random.Generator = rng, skill: float = skill) -> float:
            return float(rng.normal() + skill * (place == links.get(query)))

        files.append(write_scores(work / "scores" / f"{run}.jsonl", dataset, value, ("test",)))
    evaluate(dataset, *files, workdir=work)
    return work

"""A project whose dataset is drawn documents, with an evaluation of two runs."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
from msgspec.structs import replace
from PIL import Image as Pillow

from ctxr.datasets.documents import Document, DocumentTables, documents_of
from ctxr.datasets.open import read_dataset
from ctxr.engine.report import Table
from ctxr.metrics.compare import Interval
from ctxr.problems.figures import Figure
from ctxr.problems.results import Findings, QueryResult, write_findings
from ctxr.store.artifacts import Content, Parent, finish, open_artifact
from ctxr.store.hashing import sha256_file
from ctxr.store.records import Image, Record, Split
from ctxr.store.tables import write_table
from ctxr.synthetic.world.drawing import render
from ctxr.synthetic.world.sets import sample_sets

SIZES = ((5, 5), (18, 7), (3, 8))
"""Sentences and images of documents, in turn."""

SKILLS = {"links-ap/seed0": 2.5, "links-ap/seed1": 2.0, "links-nostruct": 0.4}
"""By run, what a link adds to a score, in standard deviations of its noise."""


def write_documents(folder: Path, count: int = 12, pictured: bool = True) -> Path:
    """An artifact of documents of test; each image has at most one sentence, and sentences may have none."""
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
        about = [drawn.scenes[int(row.argmax())] if row.any() else drawn.scenes[-1] for row in links]
        figures = [[f"a {one.colour} {one.shape}" for one in scene.actors] for scene in about]
        texts = [f"There is {' and '.join(named)}." if named else "Nothing happens." for named in figures]
        tables.add(f"d{number}", "test", texts, rows, links)
    dataset = tables.dataset("drawn", folder)
    splits = [Split(group, split) for group, split in dataset.splits.items()]
    content: Mapping[str, list[Record]] = {
        "sets": [replace(one, closest=0.0, mean_distance=0.0) for one in dataset.sets],
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


def evaluate_documents(dataset: Path, out: Path) -> Path:
    """An evaluation of `SKILLS` on documents, as `ctxr eval` leaves it."""
    rng, rows = np.random.default_rng(1), list[QueryResult]()
    for run, skill in SKILLS.items():
        for document in documents_of(read_dataset(dataset)):
            rows += _rows(document, run, rng.normal(size=document.links.shape) + skill * document.links)
    runs = list(dict.fromkeys(run.partition("/")[0] for run in SKILLS))
    figures = [Figure("test", run, "overall", "all", "AUC", 12, Interval(0.9, 0.8, 0.95, 12, 100)) for run in runs]
    table = Table("Links on test", ("run", "AUC", "p@1"), (("links-ap", 93.21, 0.1 + 0.2), ("links-nostruct", 1, None)))
    content = write_findings(out, Findings(figures, rows={"tables": [table]}), rows, {})
    parents = [Parent("dataset", "dataset", open_artifact(dataset).sha256)]
    finish(out, kind="results", verb="eval", config={"runs": runs}, parents=parents, content=content)
    return out


def _rows(document: Document, run: str, scores: np.ndarray) -> list[QueryResult]:
    return [
        QueryResult(
            run=run, query=query, side="test", image_set=document.id, kind="document", text=text, accuracy=0.0,
            targets=tuple(image for image, link in zip(document.images, links, strict=True) if link > 0),
            picks=(), reciprocal_rank=0.0, above=0, level=0, tokens=5, candidates=document.images, scores=tuple(row),
        )
        for query, text, links, row in zip(
            document.sentences, document.texts, document.links, scores.tolist(), strict=True
        )
    ]  # fmt: skip


def documents_project(work: Path, count: int = 12, pictured: bool = True) -> Path:
    """A project with documents and their evaluation."""
    evaluate_documents(write_documents(work / "dataset", count, pictured), work / "results" / "links")
    return work

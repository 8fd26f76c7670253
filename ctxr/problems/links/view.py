"""The section of the report on documents: the links that each run predicts between sentences and images; and their table in stats."""

from collections.abc import Sequence, Set
from dataclasses import dataclass, replace
from math import nan
from typing import NamedTuple

import numpy as np

from ctxr.datasets.dataset import Dataset
from ctxr.datasets.documents import GOLD, documents_of
from ctxr.datasets.splits import SPLITS
from ctxr.engine.report import Table
from ctxr.errors import plural
from ctxr.metrics.links import auc, precision_at
from ctxr.problems.results import MOST_SCORES, QueryResult
from ctxr.problems.view import DIGITS, ProblemResults, Subject, View

DOCUMENTS = Subject(
    unit="document",
    of="",
    text="sentence",
    sets="documents of sentences and images",
    task="linking the sentences and images of a document",
    formats=("links", "mmc4", "hf", "webdataset"),
    similar=False,
    unknown="not judged",
    legend="The number before a sentence is the image that it is linked to: – is none, ? is not judged.",
)

MOST_DOCUMENTS = 200
"""Documents that a page holds; the hardest of them."""

STRONGEST = 5
"""Links of a document that are drawn for a run."""


class Edge(NamedTuple):
    """A link as a run predicts it: positions of sentence and image, the score, and the label, None where it was not judged."""

    sentence: int
    image: int
    score: float
    label: float | None


@dataclass(frozen=True)
class Graph:
    """What a run says of a document: AUC and p@1 of its judged pairs, the lowest score of any pair, and the strongest links."""

    auc: float | None
    p1: float | None
    low: float
    edges: Sequence[Edge]


@dataclass(frozen=True)
class DocumentGraphs:
    """A document as the page draws it; the graph of a run that scored nothing is None.

    Attributes:
        images: ids, and the numbers of their pictures. links: true ones, positions of sentence and image.
    """

    id: str
    split: str
    texts: Sequence[str]
    images: Sequence[tuple[str, int]]
    links: Sequence[tuple[int, int]]
    runs: Sequence[Graph | None]

    @property
    def ease(self) -> float:
        """Small where runs fail; largest where there is no AUC, as all pairs are links or none is."""
        return sum(1.0 if graph is None or graph.auc is None else graph.auc for graph in self.runs)


def document_view(results: ProblemResults) -> View:
    """The hardest documents, each with the graph of every run."""
    by_document: dict[str, list[QueryResult]] = {}
    # ids of a document's sentences end in their number, and tables are sorted as text
    for row in sorted(results.rows, key=lambda row: (row.image_set, len(row.query), row.query)):
        by_document.setdefault(row.image_set, []).append(row)
    runs, dataset = results.scorers, results.dataset
    judged = {(row.query, row.candidate) for row in dataset.judgments if row.worker == GOLD} if dataset else None
    documents = [_graphs(rows, runs, judged) for rows in by_document.values()]
    scored = sorted((one for one in documents if any(one.runs)), key=lambda one: one.ease)
    shown = [
        replace(one, images=[(name, results.picture(name)) for name, _ in one.images])
        for one in scored[:MOST_DOCUMENTS]
    ]
    sizes = {"drawn": len(scored), "shown": len(shown), "large": len(documents) - len(scored)}
    context = {"runs": runs, "strongest": STRONGEST, "most_images": MOST_SCORES, **sizes}
    counted = plural(len(documents), DOCUMENTS.unit, form=",")
    return View("documents", "Documents", __package__, context, {"runs": runs, "rows": shown}, counted)


def _graphs(rows: Sequence[QueryResult], runs: Sequence[str], judged: Set[tuple[str, str]] | None) -> DocumentGraphs:
    """A document with the graph of each run, its pictures without numbers; without a dataset all pairs are judged."""
    texts = {row.query: row.text for row in rows}
    images = list(dict.fromkeys(name for row in rows for name in row.candidates))
    sentence, column = ({name: at for at, name in enumerate(names)} for names in (texts, images))
    links = {(sentence[row.query], column[image]) for row in rows for image in row.targets if image in column}
    pairs: dict[str, list[Edge]] = {run: [] for run in runs}
    for row in rows:
        for image, score in zip(row.candidates, row.scores, strict=False):
            label = None if judged is not None and (row.query, image) not in judged else float(image in row.targets)
            pairs[row.run].append(Edge(sentence[row.query], column[image], score, label))
    graphs = [_graph(sorted(pairs[run], key=lambda edge: (-edge.score, edge.sentence, edge.image))) for run in runs]
    numberless = [(name, 0) for name in images]
    return DocumentGraphs(rows[0].image_set, rows[0].side, [*texts.values()], numberless, sorted(links), graphs)


def _graph(pairs: Sequence[Edge]) -> Graph | None:
    """The graph of a run by its links, strongest first; None where it scored nothing."""
    if not pairs:
        return None
    scores, labels = [pair.score for pair in pairs], [nan if pair.label is None else pair.label for pair in pairs]
    edges = [pair._replace(score=float(f"{pair.score:.{DIGITS}g}")) for pair in pairs[:STRONGEST]]
    precision = precision_at(scores, labels, 1) if any(label > 0 for label in labels) else None
    return Graph(auc(scores, labels), precision, scores[-1], edges)


def document_table(dataset: Dataset) -> Table:
    """Documents of each split, with their sentences, images and links."""
    worker = min((row.worker for row in dataset.judgments), key=lambda name: (name != GOLD, name), default=GOLD)
    documents, rows = documents_of(dataset, worker), []
    for split in (*SPLITS, None, "all"):
        if part := [one for one in documents if split in (one.split, "all")]:
            n, m = zip(*(one.links.shape for one in part), strict=True)
            linked, judged = (sum(int(what(one.links).sum()) for one in part) for what in (np.nan_to_num, np.isfinite))
            alone = sum(int((one.links == 0).all(axis).sum()) for one in part for axis in (0, 1))
            images = {image for one in part for image in one.images}
            counts = (len(part), sum(n), len(images), linked, alone, float(np.median(n)), float(np.median(m)))
            rows.append((split or "no split", *counts, 100 * linked / judged if judged else None))
    heads = ("split", "documents", "sentences", "images", "links", "linked to nothing",
             "median sentences", "median images", "density %")  # fmt: skip
    note = f"density: links over pairs that are labelled; links by {worker}"
    return Table("Documents by split", heads, tuple(rows), note, digits=1)

"""The section on documents: the links that each run predicts between the sentences and the images of a document."""

from collections.abc import Mapping, Sequence, Set
from math import isnan, nan
from typing import Any

from ctxr.datasets.documents import GOLD
from ctxr.metrics.links import auc, precision_at
from ctxr.pipelines.inspection.pages.edition import Edition
from ctxr.pipelines.inspection.pages.results import DIGITS
from ctxr.problems.results import MOST_SCORES, QueryResult

MOST_DOCUMENTS = 200
"""Documents that a page holds; the hardest of them."""

STRONGEST = 5
"""Links of a document that are drawn for a run."""


def make_documents(edition: Edition) -> Mapping[str, Any] | None:
    """Fills `data["documents"]`; None where no document was scored."""
    by_document: dict[str, list[QueryResult]] = {}
    # ids of a document's sentences end in their number, and tables are sorted as text
    for row in sorted(edition.documents, key=lambda row: (row.image_set, len(row.query), row.query)):
        by_document.setdefault(row.image_set, []).append(row)
    runs, dataset = edition.data["results"]["runs"] if by_document else [], edition.chain.dataset
    judged = {(row.query, row.candidate) for row in dataset.judgments if row.worker == GOLD} if dataset else None
    documents = [_document(rows, runs, judged) for rows in by_document.values()]
    scored = sorted((one for one in documents if any(one["runs"])), key=_ease)
    paths = {image.id: image.path for image in edition.chain.images.values()}
    for one in (shown := scored[:MOST_DOCUMENTS]):
        one["images"] = [[name, edition.pictures.number(paths.get(name, ""))] for name in one["images"]]
    edition.data["documents"] = {"runs": runs, "rows": shown}
    sizes = {"drawn": len(scored), "shown": len(shown), "large": len(documents) - len(scored)}
    return {"runs": runs, "strongest": STRONGEST, "most_images": MOST_SCORES, **sizes} if documents else None


def _document(rows: Sequence[QueryResult], runs: Sequence[str], judged: Set[tuple[str, str]] | None) -> dict[str, Any]:
    """Sentences, images, true links as pairs of positions, and the graph of each run; without a dataset all pairs are judged."""
    texts = {row.query: row.text for row in rows}
    images = list(dict.fromkeys(name for row in rows for name in row.candidates))
    sentence, column = ({name: at for at, name in enumerate(names)} for names in (texts, images))
    links = {(sentence[row.query], column[image]) for row in rows for image in row.targets if image in column}
    pairs: dict[str, list[tuple[float, int, int, float]]] = {run: [] for run in runs}
    for row in rows:
        for image, score in zip(row.candidates, row.scores, strict=False):
            label = nan if judged is not None and (row.query, image) not in judged else float(image in row.targets)
            pairs[row.run].append((-score, sentence[row.query], column[image], label))
    facts = {"id": rows[0].image_set, "split": rows[0].side, "texts": [*texts.values()], "images": images}
    return {**facts, "links": sorted(links), "runs": [_graph(sorted(pairs[run])) for run in runs]}


def _graph(pairs: Sequence[tuple[float, int, int, float]]) -> dict[str, Any] | None:
    """AUC, p@1, the lowest score, and the strongest links (sentence, image, score, label); None where a run scored nothing."""
    if not pairs:
        return None
    scores, labels = [-score for score, *_ in pairs], [label for *_, label in pairs]
    edges = [(*at, float(f"{-score:.{DIGITS}g}"), None if isnan(y) else y) for score, *at, y in pairs[:STRONGEST]]
    precision = precision_at(scores, labels, 1) if any(label > 0 for label in labels) else None
    return {"auc": auc(scores, labels), "p1": precision, "low": scores[-1], "edges": edges}


def _ease(document: Mapping[str, Any]) -> float:
    """Small where runs fail; largest where there is no AUC, as all pairs are links or none is."""
    return sum(1.0 if graph is None or graph["auc"] is None else graph["auc"] for graph in document["runs"])

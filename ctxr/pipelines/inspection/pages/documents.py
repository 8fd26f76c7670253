"""The section on documents: the links that each run predicts between the sentences and the images of a document."""

from collections.abc import Mapping, Sequence, Set
from typing import Any

from ctxr.metrics.links import auc, precision_at
from ctxr.pipelines.inspection.pages.edition import NONE, Edition
from ctxr.pipelines.inspection.pages.results import DIGITS
from ctxr.problems.results import MOST_SCORES, QueryResult
from ctxr.store.records import Image

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
    runs, images = list(dict.fromkeys(row.run for row in edition.documents)), edition.chain.images
    documents = [_document(edition, images, rows, runs) for rows in by_document.values()]
    drawn = sorted((one for one in documents if any(one["runs"])), key=_ease)
    edition.data["documents"] = {"runs": runs, "rows": drawn[:MOST_DOCUMENTS]}
    sizes = {"drawn": len(drawn), "shown": min(len(drawn), MOST_DOCUMENTS), "large": len(documents) - len(drawn)}
    return {"runs": runs, "strongest": STRONGEST, "most_images": MOST_SCORES, **sizes} if documents else None


def _document(
    edition: Edition, known: Mapping[str, Image], rows: Sequence[QueryResult], runs: Sequence[str]
) -> dict[str, Any]:
    """Sentences, images with their pictures, true links as pairs of positions, and the graph of each run."""
    texts = {row.query: row.text for row in rows}
    sentences = {query: at for at, query in enumerate(texts)}
    images = {image: at for at, image in enumerate(dict.fromkeys(name for row in rows for name in row.candidates))}
    links = {(sentences[row.query], images[image]) for row in rows for image in row.targets if image in images}
    pairs: dict[str, list[tuple[float, int, int]]] = {run: [] for run in runs}
    for row in rows:
        scored = zip(row.candidates, row.scores, strict=False)
        pairs[row.run] += [(-score, sentences[row.query], images[image]) for image, score in scored]
    pictures = [[name, edition.pictures.number(known[name].path) if name in known else NONE] for name in images]
    facts = {"id": rows[0].image_set, "split": rows[0].side, "texts": [*texts.values()], "images": pictures}
    return {**facts, "links": sorted(links), "runs": [_graph(sorted(pairs[run]), links) for run in runs]}


def _graph(pairs: Sequence[tuple[float, int, int]], links: Set[tuple[int, int]]) -> dict[str, Any] | None:
    """AUC, p@1, the lowest score, and the strongest links (sentence, image, score) of a run; None where it scored nothing."""
    if not pairs:
        return None
    scores, labels = [-score for score, *_ in pairs], [(sentence, image) in links for _, sentence, image in pairs]
    edges = [(sentence, image, float(f"{-score:.{DIGITS}g}")) for score, sentence, image in pairs[:STRONGEST]]
    return {"auc": auc(scores, labels), "p1": precision_at(scores, labels, 1), "low": scores[-1], "edges": edges}


def _ease(document: Mapping[str, Any]) -> tuple[bool, float, str]:
    """Small where runs fail: mean AUC; last where there is none, as all pairs are links or none is."""
    values = [graph["auc"] for graph in document["runs"] if graph is not None and graph["auc"] is not None]
    return not values, sum(values) / max(len(values), 1), document["id"]

"""Ranks the pictures of an index by words, by what is drawn, and by another picture."""

from pathlib import Path

import cv2
import numpy as np
import numpy.typing as npt

from ctxr.datasets.changes import refuse_other
from ctxr.engine.progress import Progress
from ctxr.errors import DataError
from ctxr.media.images import Pixels
from ctxr.pipelines.finding.config import Box, Search, SearchAnswer, SearchQuery, SearchResult
from ctxr.pipelines.finding.index import FRAMES, read_index, scoring_of
from ctxr.problems.embeddings import Array
from ctxr.problems.queries import EvalQuery
from ctxr.problems.traces.queries import TracedQuery
from ctxr.problems.traces.recipe import TRACE
from ctxr.problems.traces.searching import SearchModel, as_tensor, row_products
from ctxr.store.artifacts import open_artifact
from ctxr.store.records import TimedWord

ALL_TRACED, MOST_TRACED = 10_000, 2_000
"""Largest gallery whose cells are all compared with a drawing; of a larger one, how many pictures: those that fit the words best."""

LEAST_RANK = 0.2
"""Share of the everyday words that a gallery has to fit worse than a query, or nothing fits; measured by `python -m bench.search`."""


class Finder:
    """An open index.

    Attributes:
        gallery, by: names of the gallery and the model. version: by content.
        pictures: in its order. left_out: pictures that could not be read.
        reads: what a query consists of: text, trace or text+trace.
    """

    def __init__(self, config: Search, gallery: Path, by: Path | str, progress: Progress) -> None:
        """`gallery`: the folder in which its pictures lie. Raises DataError for a damaged index."""
        self._folder, self._gallery, self.gallery = config.folder(), gallery, gallery.resolve().name
        index, self._model = read_index(self._folder), SearchModel(by, scoring_of(config), progress)
        self.pictures, self._vectors, self._cells = index.images, as_tensor(index.vectors), as_tensor(index.cells)
        self.reads, self._lengths = self._model.reads, np.linalg.norm(index.vectors, axis=1)
        artifact = open_artifact(self._folder)
        self.version, self.by = artifact.sha256[:16], str(artifact.manifest.config["model"])
        self.left_out: tuple[str, ...] = tuple(artifact.manifest.counts["left_out"])
        self._background = np.array(artifact.manifest.counts.get("background", ()))

    def find(self, query: SearchQuery, count: int) -> SearchAnswer:
        """The best pictures for a query."""
        if not any(text.strip() for text, *_ in query.words) and self.reads != TRACE:
            return SearchAnswer([], says="Say in words what you look for.")
        if not query.strokes and self.reads == TRACE:
            return SearchAnswer([], says="Draw what you look for: this model reads no words.")
        weights = self._model.weights(traced_query(query))
        whole, cells = weights[: self._model.width], weights[self._model.width :]
        scores = row_products(self._vectors, whole)
        said = whole[self._model.reach]
        fits = bool((self._background < scores.max()).mean() >= LEAST_RANK) if len(self._background) else None
        if not cells.any():
            return self._answer(scores, np.tile(said, (self._model.cells, 1)), count, fits)
        traced = np.full_like(scores, -np.inf)
        rows: slice | npt.NDArray[np.int64] = slice(None)
        if len(scores) > ALL_TRACED and self.reads != TRACE:
            rows = np.sort(np.argpartition(-scores, MOST_TRACED)[:MOST_TRACED])
        traced[rows] = scores[rows] + row_products(self._cells[rows], cells)
        by_cell = cells.reshape(self._model.cells, -1)
        # a cell beside the drawing counts against a picture, and does not answer
        return self._answer(traced, np.where((by_cell @ said)[:, None] < 0, 0, by_cell), count, fits)

    def alike(self, like: int | Pixels, count: int) -> SearchAnswer:
        """The pictures nearest to one of the index, by its row, or to another one, RGB uint8 [H, W, 3]."""
        if isinstance(like, int):
            self._require(like)
            vector = self._vectors[like].numpy()
        elif self._model.regions is None:
            vector = self._model.look([like])[0, : self._model.width]
        else:
            return SearchAnswer([], says="This model looks at regions, and a new picture has none.")
        scores = row_products(self._vectors, vector) / (self._lengths * np.linalg.norm(vector))
        if isinstance(like, int):
            scores[like] = -np.inf
        return self._answer(scores, None, count)

    def picture(self, place: int) -> Path:
        """The file of a picture. Raises DataError where it is gone or changed since indexing."""
        self._require(place)
        image, file = self.pictures[place], self._file(place)
        if not file.is_file():
            raise DataError(f"{image.path or image.id} is gone")
        refuse_other(file, image.sha256)
        return file

    def _require(self, place: int) -> None:
        if not 0 <= place < len(self.pictures):
            raise DataError(f"there is no picture {place}", hint=f"places are 0 to {len(self.pictures) - 1}")

    def _file(self, place: int) -> Path:
        image = self.pictures[place]
        return self._gallery / image.path if image.path else self._folder / FRAMES.format(image.id)

    def _answer(self, scores: Array, shown: Array | None, count: int, fits: bool | None = None) -> SearchAnswer:
        """The pictures of the highest scores, equal ones in their order.

        Args:
            shown: weights [C, E] of cells, by which the region that answers is found. fits: see `SearchAnswer`.
        """
        results, gone = list[SearchResult](), 0
        for place in np.argsort(-scores, kind="stable").tolist():
            if len(results) == count or scores[place] == -np.inf:
                break
            if not self._file(place).is_file():
                gone += 1
                continue
            box, image = None, self.pictures[place]
            if shown is not None and len(shown):
                answers = (self._cells[place].numpy().reshape(shown.shape) * shown).sum(1)
                box = answering(answers.reshape(self._model.side, -1))
            time = None if image.time is None else float(image.time)
            name, score = image.path or image.id, float(scores[place])
            results.append(SearchResult(place, image.id, name, time, score, box, image.width, image.height))
        return SearchAnswer(results, fits, gone=gone)


def answering(cells: Array) -> Box:
    """The box, x1, y1, x2, y2 as shares, around the best of cells [G, G] and those beside it that are above half of what it exceeds
    their mean by."""
    high = cells >= (cells.max() + cells.mean()) / 2
    _, parts = cv2.connectedComponents(high.astype(np.uint8), connectivity=4)
    rows, columns = np.nonzero(parts == parts.flat[cells.argmax()])
    side = len(cells)
    edges = columns.min(), rows.min(), columns.max() + 1, rows.max() + 1
    x1, y1, x2, y2 = (int(edge) / side for edge in edges)
    return x1, y1, x2, y2


def traced_query(query: SearchQuery) -> TracedQuery:
    """A query as models of traces take it; where nothing was said, each stroke stands for a word."""
    strokes = [np.array(points, np.float64) for points in query.strokes]
    words = query.words or [TimedWord("", stroke[0, 2], stroke[-1, 2]) for stroke in strokes]
    times = np.array([(start, end) for _, start, end in words], np.float64).reshape(-1, 2)
    texts = tuple(text for text, *_ in words)
    empty = EvalQuery("", "", (), (), (), ordered=False, split=None)
    return TracedQuery(empty, " ".join(texts).strip(), texts, times, strokes, np.zeros(len(strokes), np.int64))

"""Ranks the pictures of an index by words, by what is drawn, and by another picture."""

from pathlib import Path
from threading import Lock

import cv2
import numpy as np
import numpy.typing as npt

from ctxr.datasets.changes import refuse_other
from ctxr.engine.progress import Progress
from ctxr.errors import DataError
from ctxr.media.images import Pixels
from ctxr.pipelines.finding.config import Answer, Asked, Result, Search
from ctxr.pipelines.finding.index import FRAMES, read_index
from ctxr.pipelines.finding.model import SearchModel
from ctxr.problems.embeddings import Array
from ctxr.problems.traces.recipe import TRACE

MOST_TRACED = 10_000
"""Pictures whose cells are looked at: where there are more, those that fit the words best."""


class Finder:
    """An open index.

    Attributes:
        pictures: in its order. reads: what a query consists of: text, trace or text+trace.
    """

    def __init__(self, config: Search, gallery: Path, by: Path | str, progress: Progress) -> None:
        """`gallery`: the folder in which its pictures lie. Raises DataError for a damaged index."""
        self._folder, self._gallery = config.folder(), gallery
        index, self.model, self._looking = read_index(self._folder), SearchModel(by, config, progress), Lock()
        self.pictures, self._vectors, self._cells = index.images, index.vectors, index.cells
        self.reads = self.model.reads
        self._lengths = np.linalg.norm(self._vectors, axis=1)

    def find(self, asked: Asked, count: int) -> Answer:
        """The best pictures for a query."""
        said, drawn = any(text.strip() for text, *_ in asked.words), bool(asked.strokes)
        if not said and self.reads != TRACE:
            return Answer([], says="Say in words what you look for.")
        if not drawn and self.reads == TRACE:
            return Answer([], says="Draw what you look for: this model reads no words.")
        weights = self.model.weights(asked)
        whole, cells = weights[: self.model.width], weights[self.model.width :]
        scores = self._vectors @ whole
        if cells.any():
            rows: slice | npt.NDArray[np.int64] = slice(None)
            if len(scores) > MOST_TRACED and self.reads != TRACE:
                rows = np.sort(np.argpartition(-scores, MOST_TRACED)[:MOST_TRACED])
            traced = np.full(len(scores), -np.inf, np.float32)
            traced[rows] = scores[rows] + self._cells[rows] @ cells
            scores = traced
        return self._answer(scores, cells if cells.any() else np.tile(whole[self.model.reach], self.model.cells), count)

    def alike(self, like: int | Pixels, count: int) -> Answer:
        """The pictures nearest to one of the index, by its row, or to another one, RGB uint8 [H, W, 3]."""
        if isinstance(like, int):
            vector = self._vectors[like]
        elif self.model.regions is not None:
            return Answer([], says="This model knows only pictures whose regions were extracted.")
        else:
            with self._looking:
                vector = self.model.look([like])[0, : self.model.width]
        scores = self._vectors @ vector / (self._lengths * np.linalg.norm(vector))
        if isinstance(like, int):
            scores[like] = -np.inf
        return self._answer(scores, np.zeros(0, np.float32), count)

    def picture(self, place: int) -> Path:
        """The file of a picture. Raises DataError where it is gone or has changed since it was indexed."""
        image = self.pictures[place]
        file = self._file(place)
        if not file.is_file():
            raise DataError(f"{image.path or image.id} is gone")
        refuse_other(file, image.sha256)
        return file

    def _file(self, place: int) -> Path:
        image = self.pictures[place]
        return self._gallery / image.path if image.path else self._folder / FRAMES.format(image.id)

    def _answer(self, scores: Array, shown: Array, count: int) -> Answer:
        """The pictures of the highest scores, equal ones in their order; `shown`: weights of their cells, by which one is pointed out."""
        results, gone = list[Result](), 0
        for place in np.argsort(-scores, kind="stable").tolist():
            if len(results) == count or scores[place] == -np.inf:
                break
            if not self._file(place).is_file():
                gone += 1
                continue
            image, box = self.pictures[place], None
            if len(shown):
                by_cell = (self._cells[place] * shown).reshape(self.model.cells, -1).sum(1)
                box = answering(by_cell.reshape(self.model.sources.side, -1))
            time = None if image.time is None else float(image.time)
            results.append(
                Result(
                    place, image.id, image.path or image.id, time, float(scores[place]), box, image.width, image.height
                )
            )
        return Answer(results, gone=gone)


def answering(cells: Array) -> tuple[float, float, float, float]:
    """The box, x1, y1, x2, y2 as shares, around the best of cells [G, G] and those beside it that are above half of what it exceeds
    their mean by."""
    high = cells >= (cells.max() + cells.mean()) / 2
    _, parts = cv2.connectedComponents(high.astype(np.uint8), connectivity=4)
    rows, columns = np.nonzero(parts == parts.flat[cells.argmax()])
    side = len(cells)
    return columns.min() / side, rows.min() / side, (columns.max() + 1) / side, (rows.max() + 1) / side

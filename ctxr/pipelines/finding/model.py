"""Encoders, and runs that learned from traces, as a search uses them: pictures to vectors, queries to weights of these.

Letters: N pictures, D width, C cells of a picture, E numbers of a cell that texts reach.
"""

from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from threading import Lock

import numpy as np
import torch

from ctxr.engine.progress import Progress
from ctxr.errors import UsageError
from ctxr.media.images import Pixels
from ctxr.pipelines.finding.config import Asked, Search
from ctxr.problems.embeddings import Array
from ctxr.problems.queries import EvalQuery
from ctxr.problems.runs import ScoringOptions
from ctxr.problems.traces.learner import Opened, OpenTraces, TraceSources
from ctxr.problems.traces.patches import PatchEncoder
from ctxr.problems.traces.queries import TracedQuery
from ctxr.problems.traces.recipe import DUAL, HEAT, TEXT, TRACE, TracesRecipe
from ctxr.store.records import TimedWord

_KEPT = 64  # vectors of texts; somebody who types asks for the words before again


def _opened(by: Path | str, options: ScoringOptions, progress: Progress) -> Opened:
    """The first seed of a run, or an encoder with heat maps over its cells, or without cells where it has none."""
    if isinstance(by, Path):
        run = OpenTraces.open(by, options, progress)
        return run.open_model(min(run.checkpoints))
    try:
        sources = TraceSources(TracesRecipe(variant=HEAT, encoder=by), options, progress)
    except UsageError:
        sources = TraceSources(TracesRecipe(variant=HEAT, encoder=by, grid=0), options, progress)
    return Opened(sources, sources.model(()).eval(), ())


class SearchModel:
    """A model whose score of a query and a picture is the product of weights and the vector and cells of the picture.

    Attributes:
        width: D. cells: C. reads: text, trace or text+trace; text for an encoder without cells.
    """

    def __init__(self, by: Path | str, config: Search, progress: Progress) -> None:
        options = ScoringOptions(config.workdir, config.device, regions=config.regions)
        self.opened, self._lock = _opened(by, options, progress), Lock()
        self.sources, self.model = self.opened.sources, self.opened.model
        self.recipe, self.regions = self.sources.recipe, self.sources.regions
        self.dual = self.recipe.variant == DUAL
        self.cells = 0 if self.dual or self.recipe.query == TEXT else self.sources.side**2
        self.reads = self.recipe.query if self.cells or self.dual else TEXT
        self._read = lru_cache(_KEPT)(lambda text: self.sources.encoder.encode_texts([text])[0])
        self.width = self.recipe.width if self.dual else self.sources.source.width
        # with ctxr-lite most numbers of a text are 0, whatever it says
        self.reach = np.flatnonzero(self._read("a photo")) if self.recipe.variant == HEAT else np.arange(self.width)

    @property
    def size(self) -> int:
        """D + C * E."""
        return self.width + self.cells * len(self.reach)

    def read(self, texts: Sequence[str]) -> Array:
        """Unit vectors of texts."""
        return np.stack([self._read(text) for text in texts])

    @torch.inference_mode()
    def look(self, pictures: Sequence[Pixels], contents: Sequence[str] = ()) -> Array:
        """float32 [N, D + C * E]: the vector of each picture, and its cells row by row; `contents`: SHA-256 of each, for models of
        regions."""
        device = self.sources.device
        if self.regions is not None:
            regions = torch.from_numpy(self.regions.of(contents)).to(device)
            return self.model.images(regions).cpu().numpy()
        tuned = self.model.tower if isinstance(self.model, PatchEncoder) else None
        tower = self.sources.patches if tuned is None else tuned
        vectors = torch.from_numpy(tower.encode(pictures, self.sources.preprocess, device)).to(device)
        rows = self.model.images(vectors).cpu().numpy()
        whole = vectors[:, 0].cpu().numpy() if self.recipe.query == TRACE else rows[:, : self.width]
        cells = self._reached(rows)
        return np.concatenate([whole, cells.reshape(len(rows), -1)], 1)

    @torch.inference_mode()
    def weights(self, asked: Asked) -> Array:
        """What the vector and cells of a picture, as `look` gives them, are multiplied with, [D + C * E]."""
        query, device = traced_query(asked), self.sources.device
        with self._lock:
            inputs = self.sources.inputs([query], self.opened.words, self.read)(torch.tensor([0]))
            row = self.model.queries(*(part.to(device) for part in inputs)).cpu().numpy().ravel()
        whole = np.zeros(self.width, np.float32) if self.recipe.query == TRACE else row[: self.width]
        return np.concatenate([whole, self._reached(row[None]).ravel()])

    def _reached(self, rows: Array) -> Array:
        """The cells [N, C, E] behind the vectors in rows of the model."""
        behind = rows[:, rows.shape[1] - self.cells * self.width :]
        return behind.reshape(len(rows), self.cells, self.width)[:, :, self.reach]


def traced_query(asked: Asked) -> TracedQuery:
    """A query as models of traces take it; where nothing was said, each stroke stands for a word."""
    strokes = [np.array(points, np.float64) for points in asked.strokes]
    words = asked.words or [TimedWord("", stroke[0, 2], stroke[-1, 2]) for stroke in strokes]
    times = np.array([(start, end) for _, start, end in words], np.float64).reshape(-1, 2)
    texts = tuple(text for text, *_ in words)
    whole = EvalQuery("", "", (), (), (), ordered=False, split=None)
    return TracedQuery(whole, " ".join(texts).strip(), texts, times, strokes, np.zeros(len(strokes), np.int64))

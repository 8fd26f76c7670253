"""Encoders, and runs that learned from traces, as a search uses them: pictures to vectors, queries to weights of these.

Letters: N pictures, D width, C cells of a picture, E numbers of a cell that texts reach.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from threading import Lock
from typing import Any
from warnings import catch_warnings

import numpy as np
import torch
from torch import Tensor
from torchvision.models import EfficientNet_B0_Weights

from ctxr.engine.progress import SILENT, Progress
from ctxr.errors import UsageError
from ctxr.media.images import Pixels
from ctxr.models.hub import TINY
from ctxr.problems.embeddings import Array
from ctxr.problems.runs import ScoringOptions
from ctxr.problems.traces.learner import OpenTraces, TraceSources
from ctxr.problems.traces.patches import PatchEncoder
from ctxr.problems.traces.queries import TracedQuery
from ctxr.problems.traces.recipe import DUAL, HEAT, TEXT, TRACE, TracesRecipe

BACKGROUND: tuple[str, ...] = tuple(EfficientNet_B0_Weights.DEFAULT.meta["categories"][::7])
"""143 everyday words, by which a gallery is known: a query fits that fits it better than `LEAST_RANK` of them (docs/log.md)."""

TRACE_WEIGHT = 0.5
"""Of a drawing beside words: at 1, `traces-heat` loses where the words name other things, too (docs/log.md)."""

_KEPT = 512  # vectors of texts; somebody who types asks for the same words again


def opened_model(by: Path | str, options: ScoringOptions, progress: Progress) -> Any:
    """The first seed of a run, or an encoder with heat maps over its cells, or without cells where it has none."""
    if isinstance(by, Path):
        run = OpenTraces.open(by, options, progress)
        return run.open_model(min(run.checkpoints))
    recipe = TracesRecipe(variant=HEAT, encoder=by, trace_weight=TRACE_WEIGHT)
    try:
        return TraceSources(recipe, options, progress).open()
    except UsageError:
        return TraceSources(replace(recipe, grid=0), options, progress).open()


class SearchModel:
    """A model whose score of a query and a picture is the product of weights and the vector and cells of the picture.

    Attributes:
        width: D. cells: C. size: D + C * E. reach: numbers of a cell that texts reach.
        reads: text, trace or text+trace; text for an encoder without cells.
        knows: everyday words mean something to it; only then ctxr says whether a picture fits.
    """

    def __init__(self, by: Path | str, options: ScoringOptions, progress: Progress) -> None:
        self._made_of, self._sources, self._lock = (by, options), opened_model(by, options, progress), Lock()
        self._model = self._sources.opened
        recipe, self.weights_of, self.regions = self._sources.recipe, self._sources.weights, self._sources.regions
        self.traced_alone, dual, self.side = recipe.query == TRACE, recipe.variant == DUAL, 0
        if not dual and recipe.query != TEXT:
            self.side = self._sources.side
        self.cells = self.side**2
        self.reads = recipe.query if self.cells or dual else TEXT
        self.knows = isinstance(by, str) and by != TINY and not by.startswith("random:")
        self._read = lru_cache(_KEPT)(lambda text: self._sources.encoder.encode_texts([text], rows=1)[0])
        self.width = recipe.width if dual else self._sources.source.width
        # with ctxr-lite most numbers of a text are 0, whatever it says
        self.reach = np.flatnonzero(self._read("a photo")) if recipe.variant == HEAT else np.arange(self.width)
        self.size = self.width + self.cells * len(self.reach)

    def __reduce__(self) -> tuple[object, ...]:
        return SearchModel, (*self._made_of, SILENT)

    def read(self, texts: Sequence[str]) -> Array:
        """Unit vectors [N, D] of texts."""
        return np.stack([self._read(text) for text in texts])

    @torch.inference_mode()
    def look(self, pictures: Sequence[Pixels], contents: Sequence[str] = ()) -> Array:
        """The vector of each picture and its cells, row by row, float32 [N, D + C * E].

        Args:
            contents: SHA-256 of each picture, for a model of regions. Raises DataError for one without regions.
        """
        device = self._sources.device
        if self.regions is not None:
            seen: Array = self._model.images(torch.from_numpy(self.regions.of(contents)).to(device)).cpu().numpy()
            return seen
        tuned = self._model.tower if isinstance(self._model, PatchEncoder) else None
        with self._lock:
            vectors = (tuned or self._sources.patches).encode(pictures, self._sources.preprocess, device)
            rows = self._model.images(torch.from_numpy(vectors).to(device)).cpu().numpy()
        whole = vectors[:, 0] if self.traced_alone else rows[:, : self.width]
        return np.concatenate([whole, self._reached(rows)], 1)

    @torch.inference_mode()
    def weights(self, query: TracedQuery) -> Array:
        """What the vector and cells of a picture are multiplied with, [D + C * E]."""
        with self._lock:
            inputs = self._sources.inputs([query], self._sources.words, self.read)(torch.tensor([0]))
            rows = self._model.queries(*(part.to(self._sources.device) for part in inputs)).cpu().numpy().reshape(1, -1)
        whole = np.zeros((1, self.width), np.float32) if self.traced_alone else rows[:, : self.width]
        row: Array = np.concatenate([whole, self._reached(rows)], 1)[0]
        return row

    def _reached(self, rows: Array) -> Array:
        """[N, C * E] of the cells [C, D] at the end of rows."""
        cells = rows[:, rows.shape[1] - self.cells * self.width :].reshape(len(rows), self.cells, self.width)
        return cells[:, :, self.reach].reshape(len(rows), -1)


def as_tensor(rows: Array) -> Tensor:
    """A tensor that shares the memory of an array, which may be a file that is read only."""
    with catch_warnings(action="ignore"):
        return torch.from_numpy(rows)


def row_products(rows: Tensor, weights: Array) -> Array:
    """[N] of rows [N, D] and weights [D]."""
    # the threads of NumPy's product spin on, and a text that is read next takes twice as long
    return np.asarray((rows @ torch.from_numpy(weights)).numpy())

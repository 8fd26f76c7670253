"""How models learn queries of text and mouse trace, each against the others of its step, and how they are opened to score images."""

from collections.abc import Callable, Mapping, Sequence
from math import isqrt
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence

from ctxr.errors import DataError
from ctxr.metrics.traces import cell_shares, word_boxes
from ctxr.models.scorers import trainable
from ctxr.problems import embeddings
from ctxr.problems.embeddings import CHUNK, Array, PictureFiles
from ctxr.problems.traces.patches import HeatMaps, PatchEncoder, PatchTower, heat_maps
from ctxr.problems.traces.queries import TracedQuery, traced_queries
from ctxr.problems.traces.recipe import BOTH, DUAL, HEAT, PATCHES, TEXT, TRACE, TracesRecipe
from ctxr.problems.traces.towers import DualEncoder, query_inputs
from ctxr.problems.two_towers import Inputs, OpenTowers, TowersJob, TowerSources, TwoTowers


class TraceSources(TowerSources[TracedQuery]):
    """Inputs of queries and images."""

    recipe: TracesRecipe
    asked = staticmethod(traced_queries)
    # boxes are shares of the whole picture, so all of it is seen
    CUT: ClassVar[Mapping[str, Any]] = {"resize_mode": "squash"}

    def __init__(self, recipe: TracesRecipe, *given: Any) -> None:
        super().__init__(recipe, *given)
        self.reads_words = recipe.variant == DUAL and recipe.query != TRACE

    def keep(self, tower: nn.Module) -> None:
        """It makes patches."""
        self.patches = PatchTower(tower, self.recipe.grid)
        with torch.inference_mode():
            self.side = isqrt(self.patches(torch.zeros(1, 3, *self.preprocess.size)).shape[1] - 1)
        self.patches.to(self.device)

    def build(self, words: int) -> TwoTowers:
        """See `TowerSources`."""
        recipe = self.recipe
        if self.regions is not None:
            return DualEncoder(recipe, self.regions.features, words)
        if recipe.variant == HEAT:
            return HeatMaps(recipe)
        return PatchEncoder(recipe, self.source.width, trainable(self.source.build) if recipe.tunes else None)

    def images(self, pictures: PictureFiles) -> Inputs:
        """Pixels of encoders that learn, or patches of frozen ones, each computed once for the same weights and precision."""
        if self.recipe.tunes:
            pixels = embeddings.pixels_of(pictures, self.preprocess, self.device, self.progress)
            return lambda rows: (pixels(rows),)
        contents = list(pictures.contents.values())
        origin = {"what": "patches", "weights": self.weights, "side": self.side}

        def embed(part: slice) -> Array:
            return self.patches.encode(pictures.read(part), self.preprocess, self.device)

        with self.progress.task("embedding patches", len(contents)) as task:
            arrays = embeddings.cached(pictures.workdir, origin, contents, embed, task.advance)
        return lambda rows: (torch.from_numpy(np.stack([arrays[row // CHUNK][row % CHUNK] for row in rows.tolist()])),)

    def inputs(
        self, queries: Sequence[TracedQuery], words: Sequence[str], read: Callable[[list[str]], Array] | None = None
    ) -> Inputs:
        """What the `queries` of the model take, by row; `read`: unit vectors of texts, by default kept on the disk."""
        recipe = self.recipe
        if recipe.variant == DUAL:
            columns = query_inputs(queries, words, recipe)
            return lambda rows: tuple(column[rows] for column in columns)
        said = [one.text if recipe.query != TRACE else "" for one in queries]
        phrased = [one.phrased(recipe.phrase) for one in queries]
        # other models read no phrases
        spoken = [one.words if (recipe.variant, recipe.query) == (PATCHES, BOTH) else () for one in phrased]
        known = sorted({"", *said, *(phrase for own in spoken for phrase in own)})
        row = {text: number for number, text in enumerate(known)}
        if recipe.tunes:
            table: Tensor = self.source.tokenize(known)
        else:
            table = torch.from_numpy((read or self.vectors)(known))
        whole = torch.tensor([row[text] for text in said], dtype=torch.int64)
        if recipe.variant == HEAT:
            maps = heat_maps(queries, recipe, self.side)
            return lambda rows: (table[whole[rows]], maps[rows])
        shares = []
        for one in phrased:
            boxes, present = word_boxes(one.points, one.times, recipe.margin, recipe.padding)
            shares.append(torch.from_numpy(cell_shares(boxes, self.side) * present[:, None]).float())
        numbers = [torch.tensor([row[phrase] for phrase in own], dtype=torch.int64) for own in spoken]
        phrases, places = (pad_sequence(own, batch_first=True) for own in (numbers, shares))
        return lambda rows: (table[whole[rows]], table[phrases[rows]], places[rows])


class OpenTraces(OpenTowers):
    """A run that scores the images of a query, or an encoder as it was published, by heat maps."""

    RECIPE, SOURCES = TracesRecipe, TraceSources
    PUBLISHED: ClassVar[Mapping[str, str]] = {"variant": HEAT}


class TracesJob(TowersJob):
    """Seeds that learn from queries with traces."""

    SHAPE = (
        *("variant", "encoder", "frozen", "grid", "locations", "positions", "text_layers", "image_layers"),
        *("width", "inner", "heads", "embedded", "pooled", "max_tokens"),
    )
    OPEN = OpenTraces
    checkpoint = staticmethod(OpenTraces.notes)
    recipe: TracesRecipe

    def check(self) -> None:
        """With at least one trace where traces are read."""
        recipe, train = self.recipe, self.parts["train"]
        if recipe.learns and recipe.query != TEXT and not any(len(one.points) for one in train):
            raise DataError(f"no query of {self.data.name} on train has a trace", hint="--set query=text")
        super().check()


job, open_run = TracesJob, OpenTraces.open

"""How models learn queries of text and mouse trace, each against the others of its step, and how they are opened to score images."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from math import isqrt
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from ctxr.engine.progress import Progress
from ctxr.errors import DataError
from ctxr.metrics.traces import cell_shares, word_boxes
from ctxr.models.encoders import find_source, fingerprint
from ctxr.models.hub import placeless
from ctxr.models.layers import seeded
from ctxr.models.precision import memory_for
from ctxr.models.preprocess import Preprocess
from ctxr.models.scorers import trainable
from ctxr.problems import embeddings
from ctxr.problems.embeddings import CHUNK, Array, PictureFiles
from ctxr.problems.runs import ScoringOptions
from ctxr.problems.traces.patches import HeatMaps, PatchEncoder, PatchTower, heat_maps
from ctxr.problems.traces.queries import TracedQuery, traced_queries
from ctxr.problems.traces.recipe import BOTH, DUAL, HEAT, PATCHES, TEXT, TRACE, TracesRecipe
from ctxr.problems.traces.towers import DualEncoder, query_inputs
from ctxr.problems.two_towers import Inputs, OpenTowers, TowersJob, TowerSources, TwoTowers


class TraceSources(TowerSources[TracedQuery]):
    """Inputs of queries and images."""

    recipe: TracesRecipe
    asked = staticmethod(traced_queries)

    def __init__(self, recipe: TracesRecipe, options: ScoringOptions, progress: Progress) -> None:
        super().__init__(recipe, options, progress)
        self.reads_words = recipe.variant == DUAL and recipe.query != TRACE
        if recipe.variant == DUAL:
            self.regions = embeddings.named_regions(
                options.regions or recipe.regions, options.workdir, "the dual encoder"
            )
            return
        self.source = find_source(recipe.encoder, progress.warn)
        self.encoder_name, model = self.source.name, self.source.build()
        self.recipe = replace(recipe, encoder=self.source.name)
        # boxes are shares of the whole picture, so all of it is seen
        self.preprocess = replace(Preprocess.from_config(model.visual.preprocess_cfg), resize_mode="squash")
        self.weights[placeless(self.source.name)] = fingerprint(model, self.source.config, self.preprocess)
        self.patches = PatchTower(model.visual, recipe.grid)
        with torch.inference_mode():
            self.side = isqrt(self.patches(torch.zeros(1, 3, *self.preprocess.size)).shape[1] - 1)
        self.patches.to(self.device)

    def model(self, words: Sequence[str], seed: int = 0) -> TwoTowers:
        """The untrained model, drawn by `seed`, for a vocabulary."""
        recipe = self.recipe
        with seeded(seed), memory_for(f"a model of {recipe.variant}", self.device, "use a smaller width or encoder"):
            made: TwoTowers
            if self.regions is not None:
                made = DualEncoder(recipe, self.regions.features, len(words))
            elif recipe.variant == HEAT:
                made = HeatMaps(recipe)
            else:
                made = PatchEncoder(recipe, self.source.width, trainable(self.source.build) if recipe.tunes else None)
            return made.to(self.device)

    def images(self, pictures: PictureFiles) -> Inputs:
        """Regions, pixels of encoders that learn, or patches of frozen ones, each computed once for the same weights and precision."""
        if self.regions is not None:
            return self.region_rows(self.regions, pictures)
        if self.recipe.tunes:
            pixels = embeddings.pixels_of(pictures, self.preprocess, self.device, self.progress)
            return lambda rows: (pixels(rows),)
        contents = list(pictures.contents.values())
        origin = {"what": "patches", "weights": self.weights, "side": self.side}
        with self.progress.task("embedding patches", len(contents)) as task:
            arrays = embeddings.cached(
                pictures.workdir,
                origin,
                contents,
                lambda part: self.patches.encode(pictures.read(part), self.preprocess, self.device),
                task.advance,
            )
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
            read = read or (
                lambda texts: embeddings.embedded_texts(texts, self.options.workdir, self.encoder, self.progress)
            )
            table = torch.from_numpy(read(known))
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


class OpenTraces(OpenTowers[TracedQuery]):
    """A run that scores the images of a query, or an encoder as it was published, by heat maps."""

    RECIPE, SOURCES = TracesRecipe, TraceSources
    PUBLISHED: ClassVar[Mapping[str, str]] = {"variant": HEAT}


class TracesJob(TowersJob[TracedQuery]):
    """Seeds that learn from queries with traces."""

    SHAPE = (
        *("variant", "encoder", "frozen", "grid", "locations", "positions", "text_layers", "image_layers"),
        *("width", "inner", "heads", "embedded", "pooled", "max_tokens"),
    )
    SOURCES, OPEN = TraceSources, OpenTraces
    checkpoint = staticmethod(OpenTraces.notes)
    recipe: TracesRecipe

    def check_queries(self) -> None:
        """At least one trace where traces are read."""
        recipe, train = self.recipe, self.parts["train"]
        if recipe.learns and recipe.query != TEXT and not any(len(one.points) for one in train):
            raise DataError(f"no query of {self.data.name} on train has a trace", hint="--set query=text")


job, open_run = TracesJob, OpenTraces.open

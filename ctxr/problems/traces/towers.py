"""The dual encoder of texts with mouse traces, and of images as regions (What and where, section 4 and appendix A.1).

Letters: N queries or images, T words of a text, K words with a box, R regions, F features of a region, E width of embeddings, D of a tower.
"""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor, nn

from ctxr.metrics.traces import WHOLE, word_boxes
from ctxr.models.words import token_rows, tokens_of
from ctxr.problems.traces.queries import TracedQuery
from ctxr.problems.traces.recipe import TEXT, TRACE, TracesRecipe
from ctxr.problems.two_towers import TwoTowers
from ctxr.store.regions import BOX


def query_inputs(queries: Sequence[TracedQuery], words: Sequence[str], recipe: TracesRecipe) -> tuple[Tensor, ...]:
    """What `DualEncoder.queries` takes: rows of words [N, T], the place of each in its query, boxes [N, K, 5], and which were drawn [N, K].

    A place is the number of the utterance. A trace without points is the box of the whole image at the first place where there is no text.
    """
    most = recipe.max_tokens
    places, boxes = np.zeros((len(queries), most), np.int64), np.zeros((len(queries), most, BOX), np.float32)
    has_box = np.zeros((len(queries), most), np.bool_)
    for number, one in enumerate(queries):
        said = zip(one.text.split(), one.places, strict=True)
        own = [place for word, place in said for _ in tokens_of(word)][:most]
        places[number, : len(own)] = np.minimum(own, most - 1)
        of_words, there = word_boxes(one.points, one.times[:most], recipe.margin, recipe.padding)
        boxes[number, : len(there)], has_box[number, : len(there)] = of_words, there
    if recipe.query == TRACE:
        boxes[~has_box.any(1), 0], has_box[~has_box.any(1), 0] = WHOLE, True
    tokens = token_rows([one.text for one in queries], words, most)
    return tuple(map(torch.from_numpy, (tokens, places, boxes, has_box)))


def two_layers(width: int, inner: int, out: int, dropout: float) -> nn.Sequential:
    """A 2-layer MLP with ReLU and dropout between."""
    return nn.Sequential(nn.Linear(width, inner), nn.ReLU(), nn.Dropout(dropout), nn.Linear(inner, out))


class BoxEmbedder(nn.Module):
    """x1, y1, x2, y2 and area, each by its own layer, side by side, then a 2-layer MLP."""

    def __init__(self, width: int, dropout: float) -> None:
        super().__init__()
        self.numbers = nn.ModuleList(nn.Linear(1, width) for _ in range(BOX))
        self.joined = two_layers(BOX * width, width, width, dropout)

    def forward(self, boxes: Tensor) -> Tensor:
        """[..., E] of boxes [..., 5]."""
        parts = [layer(boxes[..., number : number + 1]) for number, layer in enumerate(self.numbers)]
        return torch.as_tensor(self.joined(torch.cat(parts, -1)))


class Tower(nn.Module):
    """Items to one vector: a map to its width, a vanilla Transformer (norms behind sublayers, ReLU), the mean, and a 2-layer MLP."""

    def __init__(self, recipe: TracesRecipe, layers: int) -> None:
        super().__init__()
        width = recipe.width
        self.widened = nn.Linear(recipe.embedded, width)
        self.layers = nn.ModuleList(
            nn.TransformerEncoderLayer(width, recipe.heads, recipe.inner, batch_first=True) for _ in range(layers)
        )
        self.pooler = two_layers(width, recipe.pooled, width, recipe.dropout)

    def forward(self, items: Tensor, present: Tensor) -> Tensor:
        """[N, D] of items [N, I, E]; those where `present` [N, I] is False do not count, and one of each row does."""
        items = self.widened(items)
        for layer in self.layers:
            items = layer(items, src_key_padding_mask=~present)
        counted = present[..., None].to(items.dtype)
        return torch.as_tensor(self.pooler((items * counted).sum(1) / counted.sum(1)))


class DualEncoder(TwoTowers):
    """Vectors of queries and of images, whose product says how well they match.

    Parts that an ablation leaves out are not there. Words and boxes share one table of places.

    Args:
        features: F. words: size of the vocabulary.
    """

    def __init__(self, recipe: TracesRecipe, features: int, words: int) -> None:
        super().__init__()
        width, dropout, self.temperature = recipe.embedded, recipe.dropout, recipe.temperature
        self.words = self.read = self.traced = self.places = self.located = None
        if recipe.query != TRACE:
            self.words, self.read = nn.Embedding(words, width), two_layers(width, width, width, dropout)
        if recipe.query != TEXT:
            self.traced = BoxEmbedder(width, dropout)
        if recipe.positions:
            self.places = nn.Embedding(recipe.max_tokens, width)
            nn.init.normal_(self.places.weight, std=0.02)  # as in BERT: 1 would drown the words
        self.seen = nn.Linear(features, width)
        if recipe.locations:
            self.located = BoxEmbedder(width, dropout)
        self.region = two_layers(width, width, width, dropout)
        self.of_query, self.of_image = Tower(recipe, recipe.text_layers), Tower(recipe, recipe.image_layers)
        for layer in self.modules():  # as TensorFlow does; torch's first weights shrink differences of boxes to nothing
            if isinstance(layer, nn.Linear):
                nn.init.xavier_uniform_(layer.weight, gain=1.0 if layer.in_features > 1 else layer.out_features**0.5)
                nn.init.zeros_(layer.bias)

    def images(self, regions: Tensor) -> Tensor:
        """[N, D] of regions [N, R, F + 5] in any order, all 0 where there is none."""
        if self.training:
            regions = regions[:, torch.randperm(regions.shape[1])]
        features, boxes = regions[..., :-BOX], regions[..., -BOX:]
        items = self.seen(features)
        if self.located is not None:
            items = items + self.located(boxes)
        return torch.as_tensor(self.of_image(self.region(items), (boxes != 0).any(-1)))

    def queries(self, tokens: Tensor, places: Tensor, boxes: Tensor, has_box: Tensor) -> Tensor:
        """[N, D] of what `query_inputs` makes, divided by the temperature."""
        items, present = list[Tensor](), list[Tensor]()
        if self.words is not None and self.read is not None:
            said = filled(tokens != 0)
            items.append(self.placed(self.read(self.words(tokens[:, said])), places[:, said]))
            present.append(tokens[:, said] != 0)
        if self.traced is not None:
            shown = filled(has_box)
            numbers = torch.arange(has_box.shape[1], device=has_box.device).expand_as(has_box)
            items.append(self.placed(self.traced(boxes[:, shown]), numbers[:, shown]))
            present.append(has_box[:, shown])
        return torch.as_tensor(self.of_query(torch.cat(items, 1), torch.cat(present, 1))) / self.temperature

    def placed(self, items: Tensor, places: Tensor) -> Tensor:
        """Items [N, I, E] with their places [N, I] in the query."""
        return items if self.places is None else items + self.places(places)


def filled(present: Tensor) -> slice:
    """The columns up to the last one in which any row has something."""
    return slice(0, int(present.any(0).nonzero().max()) + 1 if present.any() else 0)

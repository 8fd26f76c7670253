"""Patches of images in the space of texts, and what is made of them: boxes of phrases pooled over patches, and heat maps on them.

Letters: N queries or images, P phrases, C cells of a picture (G x G), M maps, F features of a cell, D width, T tokens.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from open_clip.modified_resnet import ModifiedResNet
from open_clip.transformer import VisionTransformer
from torch import Tensor, nn
from torch.nn import functional

from ctxr.errors import UsageError
from ctxr.media.images import Pixels
from ctxr.metrics.traces import heat_map
from ctxr.models.layers import unit
from ctxr.models.lite import LitePictures
from ctxr.models.preprocess import Preprocess
from ctxr.models.regions import ROWS, averaging, feature_map
from ctxr.models.scorers import ImageTextModel
from ctxr.problems.embeddings import Array
from ctxr.problems.traces.queries import TracedQuery
from ctxr.problems.traces.recipe import BOTH, TEXT, TRACE, TracesRecipe
from ctxr.problems.two_towers import TwoTowers


class PatchTower(nn.Module):
    """Unit vectors of pictures and of the cells of the last map of an image tower, averaged to at most `most` a side; 0: no cells."""

    def __init__(self, tower: Any, most: int) -> None:
        super().__init__()
        self.tower, self.most = tower, most

    def forward(self, pixels: Tensor) -> Tensor:
        """[N, 1 + C, D] of pixels [N, 3, H, W]: the whole, then cells row by row. Raises what `feature_map` and `cell_vectors` raise."""
        if not self.most:
            return unit(self.tower(pixels)[:, None])
        outputs = list[Tensor]()
        handle = self.tower.register_forward_hook(lambda _tower, _given, out: outputs.append(out))
        try:
            cells = feature_map(self.tower, pixels)
        finally:
            handle.remove()
        kept = min(self.most, *cells.shape[2:])
        rows, columns = (averaging(side, kept).to(cells) for side in cells.shape[2:])
        cells = torch.einsum("hi,wj,nfij->nhwf", rows, columns, cells).flatten(1, 2)
        vectors = cell_vectors(self.tower, cells.flatten(0, 1)).view(len(cells), kept * kept, -1)
        whole = outputs[0] if outputs else self.tower(pixels)  # timm makes the map alone
        return unit(torch.cat([whole[:, None], vectors], 1))

    @torch.inference_mode()
    def encode(self, images: Sequence[Pixels], preprocess: Preprocess, device: str) -> Array:
        """float32 [N, 1 + C, D] of pictures, `ROWS` in a pass, filled up with zeros: they do not depend on each other."""
        parts = []
        for start in range(0, len(images), ROWS):
            part = preprocess(images[start : start + ROWS])
            pixels = functional.pad(part, (*[0] * 7, ROWS - len(part)))
            parts.append(self(pixels.to(device))[: len(part)].cpu().numpy())
        return np.concatenate(parts)


def cell_vectors(tower: Any, cells: Tensor) -> Tensor:
    """Vectors [N, D] of cells [N, F] of the last map, by what the tower does with a picture of one cell; without places that it adds before
    it pools. Raises UsageError where it cannot.
    """
    if isinstance(tower, LitePictures):
        return tower.embedded(cells)
    if isinstance(tower, VisionTransformer) and tower.attn_pool is None:
        return cells if tower.proj is None else cells @ tower.proj
    if isinstance(tower, ModifiedResNet):
        return torch.as_tensor(tower.attnpool.c_proj(tower.attnpool.v_proj(cells)))
    trunk, head = getattr(tower, "trunk", None), getattr(tower, "head", nn.Identity())
    if trunk is None or hasattr(head, "pool"):
        sentence = f"an encoder of the kind {type(tower).__name__} has no vectors of patches in the space of texts"
        raise UsageError(sentence, hint="--set encoder=ViT-B-32:openai")
    if (prefix := getattr(trunk, "num_prefix_tokens", None)) is not None:
        # whatever pools tokens gets the cell in the place of each, also of those that stand before the picture
        single = cells[:, None].expand(-1, prefix + 1, -1)
    else:
        single = cells[:, None, None] if getattr(trunk, "output_fmt", "") == "NHWC" else cells[:, :, None, None]
    return torch.as_tensor(head(trunk.forward_head(single)))


class PatchEncoder(TwoTowers):
    """Images as [whole ; patches] and queries as [text ; phrases on the cells of their boxes]: their product is the cosine of text and
    image plus `weight` times the mean over phrases of <phrase, patches pooled over its box>, times a learned scale.

    Queries that are traces alone have one learned vector in place of each phrase, and no text.

    Args:
        width: D. encoder: of open_clip, which learns; None where vectors come in: then linear maps learn, first the identity.
    """

    def __init__(self, recipe: TracesRecipe, width: int, encoder: ImageTextModel | None = None) -> None:
        super().__init__()
        self.query, self.tower, self.text = recipe.query, None, encoder
        if encoder is not None:
            self.tower = PatchTower(encoder.visual, recipe.grid)
            del encoder.visual
        self.maps = nn.ModuleDict()
        kinds = {TEXT: ("text", "whole"), TRACE: ("patch",), BOTH: ("text", "whole", "phrase", "patch")}[recipe.query]
        for kind in kinds if encoder is None else ():
            self.maps[kind] = layer = nn.Linear(width, width, bias=False)
            nn.init.eye_(layer.weight)
        self.scale = nn.Parameter(-torch.tensor(recipe.temperature).log())
        self.weight = nn.Parameter(torch.tensor(recipe.trace_weight)) if recipe.query == BOTH else None
        self.anything = nn.Parameter(functional.normalize(torch.randn(width), dim=0)) if recipe.query == TRACE else None

    def mapped(self, kind: str, vectors: Tensor) -> Tensor:
        """Unit vectors of one kind."""
        return unit(self.maps[kind](vectors)) if kind in self.maps else unit(vectors)

    def read(self, kind: str, texts: Tensor) -> Tensor:
        """Unit vectors [..., D] of texts: of their vectors, or of their tokens [..., T]."""
        if self.text is None:
            return self.mapped(kind, texts)
        return unit(self.text.encode_text(texts.flatten(0, -2))).view(*texts.shape[:-1], -1)

    def images(self, pictures: Tensor) -> Tensor:
        """[N, D'] of pixels [N, 3, H, W], or of vectors as `PatchTower` makes them."""
        vectors = pictures if self.tower is None or pictures.ndim == 3 else self.tower(pictures)
        whole = [] if self.query == TRACE else [self.mapped("whole", vectors[:, :1])]
        patches = [] if self.query == TEXT else [self.mapped("patch", vectors[:, 1:])]
        return torch.cat([*whole, *patches], 1).flatten(1)

    def queries(self, text: Tensor, phrases: Tensor, shares: Tensor) -> Tensor:
        """[N, D'] of texts, of phrases [N, P, D or T], and of their shares of cells [N, P, C], 0 where nothing was drawn."""
        parts = list[Tensor]()
        if self.query != TRACE:
            parts.append(self.read("text", text)[:, None])
        if self.query != TEXT:
            count = (shares.sum(-1) > 0).sum(1).clamp(min=1)
            shares = shares / count[:, None, None]
            if self.anything is None:
                where = torch.einsum("npc,npd->ncd", shares, self.read("phrase", phrases))
            else:
                where = shares.sum(1)[..., None] * self.anything
            parts.append(where if self.weight is None else self.weight * where)
        return self.scale.exp() * torch.cat(parts, 1).flatten(1)


class HeatMaps(TwoTowers):
    """The cosine of text and image, plus a weight times <heat map, cosines of text and patches>; of several maps the best one counts.

    It learns nothing. A map is taken less its mean: a text that matches all cells alike adds 0.
    """

    def __init__(self, recipe: TracesRecipe) -> None:
        super().__init__()
        self.weight = recipe.trace_weight if recipe.query == BOTH else 0.0

    def images(self, vectors: Tensor) -> Tensor:
        """[N, D'] of what `PatchTower` makes."""
        return vectors.flatten(1)

    def queries(self, text: Tensor, maps: Tensor) -> Tensor:
        """[N, M, D'] of texts [N, D] and heat maps less their mean [N, M, C]."""
        shares = torch.cat([maps.new_ones(*maps.shape[:2], 1), self.weight * maps], -1)
        return (shares[..., None] * text[:, None, None]).flatten(2)


def heat_maps(queries: Sequence[TracedQuery], recipe: TracesRecipe, side: int) -> Tensor:
    """Heat maps less their mean, one for each image that a query was drawn on, [N, M, C]; of those with fewer the last one again."""
    maps = []
    for one in queries:
        images = [
            np.concatenate([one.strokes[at] for at in np.flatnonzero(one.drawn_on == image).tolist()])
            for image in np.unique(one.drawn_on)
        ]
        own = np.stack([heat_map(points, side, recipe.spread) for points in images or [one.points]])
        maps.append(own - own.sum(1, keepdims=True) / max(1, side * side))
    most = max([1, *map(len, maps)])
    filled = [np.pad(one, ((0, most - len(one)), (0, 0)), "edge") for one in maps]
    return torch.from_numpy(np.stack(filled).astype(np.float32))

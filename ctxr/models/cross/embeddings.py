"""Word pieces and regions as the items that the layers of a cross-encoder work on."""

import torch
from torch import Tensor, nn

from ctxr.models.cross.config import CrossConfig


class Words(nn.Module):
    """Sum of word piece, position and kind, normalised (BERT)."""

    def __init__(self, config: CrossConfig) -> None:
        super().__init__()
        width = config.text.width
        self.pieces = nn.Embedding(config.vocabulary, width, padding_idx=0)
        self.places = nn.Embedding(config.places, width)
        self.kinds = nn.Embedding(config.kinds, width)
        self.norm = nn.LayerNorm(width, eps=config.epsilon)
        self.dropout = nn.Dropout(config.dropout)

    def forward(self, texts: Tensor) -> Tensor:
        """[B, T, width] of token ids [B, T]. Raises ValueError for more tokens than there are positions."""
        count = texts.shape[1]
        if count > self.places.num_embeddings:
            raise ValueError(f"a text has {count} tokens, and {self.places.num_embeddings} positions are learned")
        items = self.pieces(texts) + self.places.weight[:count] + self.kinds.weight[0]
        normal: Tensor = self.dropout(self.norm(items))
        return normal


class Regions(nn.Module):
    """Sum of a region's features and its box, normalised; as UNITER does each is normalised first and the kind is added."""

    def __init__(self, config: CrossConfig, box: int) -> None:
        super().__init__()
        width = config.vision.width
        self.features, self.box = nn.Linear(config.features, width), nn.Linear(box, width)
        self.norm = nn.LayerNorm(width, eps=config.epsilon)
        normed = config.embedding == "uniter"
        self.features_norm = nn.LayerNorm(width, eps=config.epsilon) if normed else nn.Identity()
        self.box_norm = nn.LayerNorm(width, eps=config.epsilon) if normed else nn.Identity()
        self.dropout = nn.Dropout(config.dropout)

    def forward(self, features: Tensor, boxes: Tensor, kind: Tensor | None) -> Tensor:
        """[N, R, width] of features [N, R, F], boxes [N, R, 5] and the embedding [width] of the kind "region"."""
        items = self.features_norm(self.features(features)) + self.box_norm(self.box(boxes))
        items = items if kind is None else items + kind
        normal: Tensor = self.dropout(self.norm(items))
        return normal


def there(items: Tensor) -> Tensor:
    """bool [N, R], where items [N, R] or [N, R, ...] are not all 0; the first always is, so that attention has an object."""
    mask = items.flatten(2).any(-1) if items.ndim > 2 else items != 0
    first = torch.arange(mask.shape[1], device=mask.device) == 0
    return mask | first

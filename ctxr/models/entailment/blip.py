"""BLIP as image branch: the [CLS] of its text encoder, which attends to the picture, is h^v."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from ctxr.errors import UsageError
from ctxr.models.blip import load_blip
from ctxr.models.entailment.base import ImageSource
from ctxr.models.entailment.recipe import ClassifierRecipe
from ctxr.models.entailment.vision import black_patches, by_head, cls_shares
from ctxr.models.regions import output_of


class BlipBranch(nn.Module):
    """A branch as `FusionBranch` is one.

    Args:
        encoder: a `BlipEncoder`. black: a picture without light, as it looks at it, [1, 3, 1, 1].

    Attributes:
        width: D.
    """

    black: Tensor

    def __init__(self, encoder: Any, black: Tensor) -> None:
        super().__init__()
        self.encoder, self.width = encoder, int(encoder.width)
        self.register_buffer("black", black)

    def forward(self, images: Tensor, place: Tensor, tokens: Tensor) -> Tensor:
        """h^v [B, D] of hypotheses [B, T] about the pictures in rows `place` [B] of `images`; each is encoded once."""
        mask = torch.ones(len(place), 1, dtype=torch.bool, device=place.device)
        pairs: Tensor = self.encoder.pairs(images, tokens, place[:, None], mask)[:, 0]
        return pairs

    def cls_attention(self, images: Tensor) -> Tensor:
        """How much [CLS] of the vision transformer looks at each patch in its last layer, mean over heads: [N, P]."""
        vision = self.encoder.model.vision_model
        last = vision.encoder.layers[-1]
        seen = output_of(last.layer_norm1, vision, images)
        query, key, _ = by_head(last.self_attn.qkv(seen), last.self_attn.num_heads)
        return cls_shares(query, key)

    def blackened(self, images: Tensor, hidden: Tensor) -> Tensor:
        """The pictures without light in the patches where `hidden` [N, P] is True."""
        return black_patches(images, hidden, self.black)


def blip_source(name: str, recipe: ClassifierRecipe) -> ImageSource:
    """The image branch of "blip:DIRECTORY", "blip:OWNER/NAME" or "random:blip-tiny". Raises what `load_blip` raises."""
    source = load_blip(name)
    preprocess = source.preprocess
    if preprocess is None or recipe.image_size not in (0, preprocess.size[0]):
        raise UsageError(f"{name} looks at pictures of its own size", hint="--set image_size=0")
    dark = -torch.tensor(preprocess.mean).view(1, 3, 1, 1) / torch.tensor(preprocess.std).view(1, 3, 1, 1)

    def build() -> BlipBranch:
        return BlipBranch(source.build(), dark).requires_grad_(True)

    return ImageSource(name, source.fingerprint, source.width, build, source.tokenize, preprocess)

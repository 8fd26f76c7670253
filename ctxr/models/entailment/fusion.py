"""A vision transformer, and a text transformer whose upper layers attend to its picture (ALBEF), built of transformers' BLIP layers.

Letters: B claims, T tokens, N pictures, P patches, F features, D width.
"""

from dataclasses import dataclass
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from ctxr.models.blip import joint_vectors
from ctxr.models.layers import EPSILON
from ctxr.models.regions import output_of


@dataclass(frozen=True)
class FusionConfig:
    """Sizes of a fusion encoder.

    Attributes:
        vocabulary, places, kinds: word pieces, positions and token types.
        width: D. text_layers: over words alone. fusion_layers: above them, with cross-attention.
        heads, inner, dropout: of each layer. image_width: width of the image tokens.
        products: fusion layers add a product of each word with the cells it attends to, which learns faster from little data.
            Published layers have none.
    """

    vocabulary: int
    width: int = 768
    text_layers: int = 6
    fusion_layers: int = 6
    heads: int = 12
    inner: int = 3072
    image_width: int = 768
    places: int = 512
    kinds: int = 2
    dropout: float = 0.1
    products: bool = False


class NoCrossAttention(nn.Module):
    """In place of cross-attention in the layers over words alone."""

    def forward(self, words: Tensor, **_: object) -> tuple[Tensor, None]:
        """The words as they are, and no attention."""
        return words, None


class ProductOutput(nn.Module):
    """The output of cross-attention, with a product of each word with the cells it attends to."""

    def __init__(self, output: Any, width: int) -> None:
        super().__init__()
        self.dense, self.LayerNorm, self.dropout = output.dense, output.LayerNorm, output.dropout
        self.products = nn.Linear(width, width)

    def forward(self, seen: Tensor, words: Tensor) -> Tensor:
        """[B, T, D] of attended cells and of words, [B, T, D] both."""
        seen = self.dense(seen)
        seen = seen + self.products(words * seen)
        return cast("Tensor", self.LayerNorm(words + self.dropout(seen)))


def text_model(config: FusionConfig) -> Any:
    """A BlipTextModel with BERT's embeddings, whose lower layers have no cross-attention."""
    from transformers import BlipTextConfig, BlipTextModel
    from transformers.models.bert.modeling_bert import BertEmbeddings

    settings = BlipTextConfig(
        vocab_size=config.vocabulary, hidden_size=config.width, encoder_hidden_size=config.image_width,
        intermediate_size=config.inner, num_hidden_layers=config.text_layers + config.fusion_layers,
        num_attention_heads=config.heads, max_position_embeddings=config.places, type_vocab_size=config.kinds,
        hidden_act="gelu", layer_norm_eps=EPSILON, hidden_dropout_prob=config.dropout,
        attention_probs_dropout_prob=config.dropout, pad_token_id=0, bos_token_id=None, eos_token_id=None, sep_token_id=0,
    )  # fmt: skip
    model = BlipTextModel(settings, add_pooling_layer=False)
    model.embeddings = BertEmbeddings(settings)
    for number, layer in enumerate(model.encoder.layer):
        if number < config.text_layers:
            layer.crossattention = NoCrossAttention()
        elif config.products:
            layer.crossattention.output = ProductOutput(layer.crossattention.output, config.width)
    return model


class CellEmbeddings(nn.Module):
    """[CLS], then cells [N, P, F] of another encoder's map, projected to D and normalised."""

    def __init__(self, cells: int, features: int, width: int) -> None:
        super().__init__()
        self.class_embedding = nn.Parameter(torch.zeros(1, 1, width))
        self.position_embedding = nn.Parameter(0.02 * torch.randn(1, 1 + cells, width))
        self.project, self.norm = nn.Linear(features, width), nn.LayerNorm(width)

    def forward(self, cells: Tensor, **_: object) -> Tensor:
        """[N, 1 + P, D]."""
        patches = self.norm(self.project(cells))
        return torch.cat([self.class_embedding.expand(len(cells), -1, -1), patches], dim=1) + self.position_embedding


def vision_model(side: int, patch: int, width: int, depth: int, heads: int, *, inner: int) -> Any:
    """A BlipVisionModel over square pictures, with ALBEF's normalisation."""
    from transformers import BlipVisionConfig, BlipVisionModel

    settings = BlipVisionConfig(
        hidden_size=width, intermediate_size=inner, num_hidden_layers=depth, num_attention_heads=heads, image_size=side,
        patch_size=patch, hidden_act="gelu", layer_norm_eps=1e-6, initializer_range=0.02,
    )  # fmt: skip
    return BlipVisionModel(settings)


class FusionBranch(nn.Module):
    """Picture and hypothesis to h^v, the [CLS] of the text model.

    `vision`: BlipVisionModel. `words`: BlipTextModel. `black`: a black picture as `vision` takes it, [1, ...].
    """

    black: Tensor

    def __init__(self, vision: Any, words: Any, black: Tensor) -> None:
        super().__init__()
        self.vision, self.words, self.width = vision, words, int(words.config.hidden_size)
        self.register_buffer("black", black)

    def forward(self, images: Tensor, place: Tensor, tokens: Tensor) -> Tensor:
        """h^v [B, D] of hypotheses [B, T] about rows `place` [B] of `images`, each encoded once."""
        return joint_vectors(self.words, tokens, self.vision(images).last_hidden_state[place])

    def cls_attention(self, images: Tensor) -> Tensor:
        """Attention of the vision transformer's [CLS] to each patch in its last layer, mean over heads: [N, P]."""
        attention: Tensor = output_of(self.vision.encoder.layers[-1].self_attn, self.vision, images)[1]
        return attention[:, :, 0, 1:].mean(1)

    def blackened(self, images: Tensor, ratio: float) -> Tensor:
        """The pictures, black in the `ratio` of patches of highest `cls_attention`, at least one."""
        shares = self.cls_attention(images).float()
        count = max(1, round(ratio * shares.shape[1]))
        order = shares.argsort(dim=1, descending=True, stable=True)[:, :count]
        hidden = torch.zeros_like(shares, dtype=torch.bool).scatter(1, order, True)
        if images.ndim == 3:
            return torch.where(hidden[..., None], self.black, images)
        size = round(hidden.shape[1] ** 0.5)
        cover = functional.interpolate(hidden.view(-1, 1, size, size).float(), size=images.shape[-2:], mode="nearest")
        return torch.where(cover > 0, self.black, images)

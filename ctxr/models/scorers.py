"""Scorers of candidates: their input, the context head, bi-encoders, and encoders of pairs.

A scorer maps a `Batch` to float32 [B, K]: higher is better, -inf where there is no candidate.
Letters: B queries, K candidates, N images, R regions, F features of a region, T tokens, D width of a pair.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Literal, Self, TypeVar, cast

import torch
from torch import Tensor, nn

from ctxr.models.layers import Block, unit


class ImageTextModel(nn.Module):
    """The parts of a model of open_clip that are used here, for type checkers."""

    visual: Any
    logit_scale: nn.Parameter
    encode_text: Callable[..., Tensor]


Fusion = Literal["multiply", "concat"]

SCALE = 1000.0
"""Brings products of unit vectors of 512 numbers, about 1/512, to order 1 (released code)."""

LARGEST_SCALE = math.log(100)
"""Of the logarithm of a learned temperature, as CLIP was trained."""

PLACES = 10  # positions that are learned: as many as a set of ImageCoDe has images


class ContextHead(nn.Module):
    """Scores the candidates of a set together, from the pair features of any encoder.

    score_i = w (z_i + m_i) + b with z = Transformer(m + p), where p is learned for each position of an ordered set and 0
    for a set without order. Without `positions`, and for sets without order, permuting candidates permutes scores.

    Args:
        width: of a pair's features. layers: blocks. heads, inner, dropout: of each.
        positions: learn a vector for each position in an ordered set of at most `PLACES` candidates (+TemporalEmbeddings).

    Attributes:
        highway_positions: w (z_i + m_i + p_i) + b, as Eq. 1 of the paper has it.
        all_positions: positions act on sets without order too, as in the released cross-encoders.
    """

    def __init__(
        self,
        width: int,
        layers: int = 2,
        heads: int = 8,
        inner: int = 3072,
        dropout: float = 0.1,
        *,
        positions: bool = False,
    ) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(Block(width, heads, inner, dropout) for _ in range(layers))
        self.positions = nn.Embedding(PLACES, width) if positions else None
        self.highway_positions = self.all_positions = False
        self.score = nn.Linear(width, 1)

    def forward(self, pairs: Tensor, mask: Tensor, ordered: Tensor) -> Tensor:
        """Scores [B, K] of pair features [B, K, D], valid where `mask` is True; `ordered` [B] says which sets have an order.

        Raises ValueError for an ordered set with more candidates than there are positions.
        """
        items = placed = self.placed(pairs, mask, ordered)
        for block in self.blocks:
            items = block(items, mask)
        items = items + (placed if self.highway_positions else pairs)
        # scores of one set lie close together: autocast would make ties of them
        return (items * self.score.weight[0]).sum(-1) + self.score.bias

    def placed(self, pairs: Tensor, mask: Tensor, ordered: Tensor) -> Tensor:
        """Input of the first block, [B, K, D]: pairs, with learned positions. Raises as a call."""
        if self.positions is None:
            return pairs
        ordered = torch.ones_like(ordered) if self.all_positions else ordered
        most, learned = int((mask.sum(1) * ordered).max()), self.positions.num_embeddings
        if most > learned:
            raise ValueError(f"an ordered set has {most} candidates, and {learned} positions are learned")
        table = pairs.new_zeros(pairs.shape[1:])
        table[:learned] = self.positions.weight[: len(table)].to(pairs.dtype)
        # 0 for sets without order
        return pairs + table * ordered[:, None, None].to(pairs.dtype)


@torch.no_grad()
def attention_of(head: ContextHead, pairs: Tensor, mask: Tensor, ordered: Tensor) -> Tensor:
    """Attention of each candidate to each other in every layer, [B, layers, heads, K, K]; rows sum to 1.

    The head does not keep these shares: they are computed again, as in evaluation. Arguments are those of the head.
    """
    mode = head.training
    head.eval()
    try:
        items, shares = head.placed(pairs, mask, ordered), []
        for block in head.blocks:
            shares.append(block.attention.shares(items, mask))  # type: ignore[union-attr, operator]
            items = block(items, mask)
        return torch.stack(shares, dim=1)
    finally:
        head.train(mode)


@dataclass(frozen=True)
class Batch:
    """Queries with their candidates. An image stands in it once, however many queries ask about it.

    Attributes:
        images: [N, 3, H, W] float pixels as the encoder takes them, or [N, D] unit vectors.
        texts: [B, T] int64 token ids, or [B, D] unit vectors.
        candidates: [B, K] int64 rows of `images`, in the order of the set; any row where there is none.
        mask: [B, K] bool, True where there is a candidate; each query has at least one.
        ordered: [B] bool, whether the order of the candidates is that of time.
        targets: [B, K] bool, the right candidates; none where they are not known.
        payload: further data of the queries, [B, ...] by name.
    """

    images: Tensor
    texts: Tensor
    candidates: Tensor
    mask: Tensor
    ordered: Tensor
    targets: Tensor
    payload: Mapping[str, Tensor] = field(default_factory=dict)

    def to(self, device: str) -> "Batch":
        """The same on another device."""
        payload = {name: tensor.to(device) for name, tensor in self.payload.items()}
        tensors = {part.name: getattr(self, part.name).to(device) for part in fields(self) if part.name != "payload"}
        return Batch(**tensors, payload=payload)


def marks_at(positions: Tensor, candidates: int) -> Tensor:
    """bool [Q, K], True at the position [Q] of each row, nowhere where it is -1."""
    return torch.arange(candidates, device=positions.device) == positions[:, None]


def _masked(scores: Tensor, mask: Tensor) -> Tensor:
    precise = scores if scores.dtype == torch.float64 else scores.float()
    return precise.masked_fill(~mask, float("-inf"))


class ClipScorer(nn.Module):
    """Cosine of image and text times a learned scale, or a head over their pair features (`pairs`).

    `encoder`: a model of open_clip for pixels and tokens; None if images and texts come as its unit vectors.
    """

    def __init__(
        self,
        encoder: nn.Module | None = None,
        head: ContextHead | None = None,
        fusion: Fusion = "multiply",
        scale: float = SCALE,
    ) -> None:
        super().__init__()
        self.encoder: Any = encoder
        self.head = head
        self.fusion, self.scale = fusion, scale

    def forward(self, batch: Batch) -> Tensor:
        """float32 [B, K], higher is better, -inf where there is no candidate."""
        if self.head is None:
            images = self.image_vectors(batch.images)[batch.candidates]
            # not by a product of matrices, which autocast would round
            scores = (images * self.text_vectors(batch.texts)[:, None, :]).sum(-1)
            if self.encoder is not None:
                scores = scores * self.encoder.logit_scale.exp()
        else:
            scores = self.head(self.pairs(batch), batch.mask, batch.ordered)
        return _masked(scores, batch.mask)

    def pairs(self, batch: Batch) -> Tensor:
        """Features of pairs: `scale` times the product, [B, K, D], or both vectors, [B, K, 2 D]."""
        images = self.image_vectors(batch.images)[batch.candidates]
        texts = self.text_vectors(batch.texts)[:, None, :].expand_as(images)
        return self.scale * images * texts if self.fusion == "multiply" else torch.cat([images, texts], dim=-1)

    def start_at_cosine(self, logit_scale: float) -> None:
        """Let an untrained head score as the encoder below it does: cosine times `logit_scale`."""
        if self.head is None or self.fusion != "multiply":
            raise ValueError("only a head over products can start at the cosine")
        # the mean of the last layer norm is 0: with one weight for all numbers only the product counts
        nn.init.constant_(self.head.score.weight, logit_scale / self.scale)
        nn.init.zeros_(self.head.score.bias)

    def train(self, mode: bool = True) -> Self:
        """Training mode, except for batch statistics: the vector of a picture must not depend on its neighbours."""
        super().train(mode)
        for module in self.modules():
            if isinstance(module, nn.modules.batchnorm._BatchNorm):
                module.eval()
        return self

    def image_vectors(self, images: Tensor) -> Tensor:
        """Unit vectors [N, D] of pixels [N, 3, H, W]; vectors stay as they are."""
        return images if images.ndim == 2 else unit(self._ask("pixels").visual(images))

    def text_vectors(self, texts: Tensor) -> Tensor:
        """Unit vectors [B, D] of tokens [B, T]; vectors stay as they are."""
        return texts if texts.is_floating_point() else unit(self._ask("tokens").encode_text(texts))

    def _ask(self, what: str) -> ImageTextModel:
        if self.encoder is None:
            raise ValueError(f"a scorer without an encoder was given {what}")
        return cast("ImageTextModel", self.encoder)


ModuleT = TypeVar("ModuleT", bound=nn.Module)


def trainable(build: Callable[[], ModuleT]) -> ModuleT:
    """A model of open_clip whose weights all learn, fp32, in training mode. `build` as in `EncoderSource`."""
    # with channels last in memory, convolutions of ctxr-tiny take two thirds of the time on a CPU
    return build().requires_grad_(True).train().to(memory_format=torch.channels_last)


class PairScorer(nn.Module):
    """Scores from the pair features of an encoder.

    Args:
        encoder: a module with `pairs(images, texts, candidates, mask)`, which gives pair features [B, K, D], `match(pairs)`, how well
            each matches [B, K], and `width`, D. None if the batch's images are pair features [N, D], the rows of `candidates`.
        head: scores all candidates of a set together. alone: a layer [D] -> [1] that scores each by itself.
            With neither, the encoder's published head scores.
    """

    def __init__(
        self, encoder: nn.Module | None = None, head: ContextHead | None = None, alone: nn.Module | None = None
    ) -> None:
        super().__init__()
        self.encoder, self.head, self.alone = encoder, head, alone

    def forward(self, batch: Batch) -> Tensor:
        """float32 [B, K], higher is better, -inf where there is no candidate."""
        pairs = self.pairs(batch)
        if self.head is not None:
            scores = self.head(pairs, batch.mask, batch.ordered)
        elif self.alone is not None:
            scores = self.alone(pairs).squeeze(-1)
        elif self.encoder is not None:
            scores = self.encoder.match(pairs)  # type: ignore[operator]
        else:
            raise ValueError("a scorer of pair features needs a head or a layer")
        return _masked(scores, batch.mask)

    def pairs(self, batch: Batch) -> Tensor:
        """Features of each pair [B, K, D]."""
        if self.encoder is None:
            return batch.images[batch.candidates]
        pairs: Tensor = self.encoder.pairs(batch.images, batch.texts, batch.candidates, batch.mask)  # type: ignore[operator]
        return pairs

"""A bi-encoder of open_clip as a scorer: alone, fine-tuned, or frozen below a context head (specs A0.2)."""

from collections.abc import Callable
from typing import Any, Self

import torch
from torch import Tensor, nn

from ctxr.models.base import Batch
from ctxr.models.context import SCALE, ContextHead, Fusion, fuse
from ctxr.models.layers import unit


class ClipScorer(nn.Module):
    """Cosine of image and text times a learned scale; with a head, what it makes of their pair.

    Images and texts may come as pixels and tokens, for which an encoder is needed, or as its unit vectors.

    Args:
        encoder: a model of open_clip; None if everything comes as vectors.
        head: looks at all candidates of a set; None scores each by itself.
        fusion: how a pair is made for the head, "multiply" or "concat".
        scale: of the product.
    """

    def __init__(
        self, encoder: Any = None, head: ContextHead | None = None, fusion: Fusion = "multiply", scale: float = SCALE
    ) -> None:
        super().__init__()
        self.encoder, self.head = encoder, head
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
        precise = scores if scores.dtype == torch.float64 else scores.float()
        return precise.masked_fill(~batch.mask, float("-inf"))

    def pairs(self, batch: Batch) -> Tensor:
        """Features of each pair as the head takes them, [B, K, D]."""
        images = self.image_vectors(batch.images)[batch.candidates]
        return fuse(images, self.text_vectors(batch.texts), self.fusion, self.scale)

    def start_at_cosine(self, logit_scale: float) -> None:
        """Let an untrained head score as the encoder below it does: cosine times `logit_scale`.

        The last layer norm leaves numbers whose mean is 0, so a weight that is the same for all of them hears the product alone.
        """
        if self.head is None or self.fusion != "multiply":
            raise ValueError("only a head over products can start at the cosine")
        nn.init.constant_(self.head.score.weight, logit_scale / self.scale)
        nn.init.zeros_(self.head.score.bias)

    def train(self, mode: bool = True) -> Self:
        """Training mode, but for statistics over a batch: the vector of a picture must not depend on its neighbours."""
        super().train(mode)
        for module in self.modules():
            if isinstance(module, nn.modules.batchnorm._BatchNorm):
                module.eval()
        return self

    def image_vectors(self, images: Tensor) -> Tensor:
        """Unit vectors [N, D] of pixels [N, 3, H, W]; vectors stay as they are."""
        return images if images.ndim == 2 else unit(self._ask("pixels").encode_image(images))

    def text_vectors(self, texts: Tensor) -> Tensor:
        """Unit vectors [B, D] of tokens [B, T]; vectors stay as they are."""
        return texts if texts.is_floating_point() else unit(self._ask("tokens").encode_text(texts))

    def _ask(self, what: str) -> Any:
        if self.encoder is None:
            raise ValueError(f"a scorer without an encoder was given {what}")
        return self.encoder


def trainable(build: Callable[[], Any]) -> Any:
    """A model of open_clip whose weights all learn, fp32, in training mode. `build` as in `loading.Source`.

    Channels stand last in memory: convolutions of ctxr-tiny then take two thirds of the time on a CPU.
    """
    return build().requires_grad_(True).train().to(memory_format=torch.channels_last)

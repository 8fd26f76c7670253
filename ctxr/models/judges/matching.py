"""The published image-text matching head of an encoder of pairs as a judge: does the picture match the hypothesis?"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from ctxr.errors import UsageError
from ctxr.media.images import read_image
from ctxr.models.blip import is_blip, load_blip
from ctxr.models.entailment.base import Claim, Judge
from ctxr.store.hashing import sha256_of

AT_ONCE = 64
"""Claims in one pass, those about one picture together."""


class MatchingJudge(Judge):
    """A BLIP-like encoder, shown the picture and the hypothesis. A claim without a picture gets no answer.

    Args:
        model: "blip:DIRECTORY", "blip:OWNER/NAME" or "random:blip-tiny". device: where it runs.

    Raises UsageError for another encoder, and what `load_blip` raises.
    """

    threshold = 0.5
    trained_on = None
    family = "blip"

    def __init__(self, model: str, device: str = "cpu") -> None:
        if not is_blip(model):
            raise UsageError(
                f"{model!r} has no head that matches pixels with a text", hint="--judge itm:blip:DIRECTORY"
            )
        source, (kind, _, where) = load_blip(model), model.partition(":")
        self.name = f"itm:{kind}:{Path(where).resolve().name if Path(where).is_dir() else where}"
        self.fingerprint = sha256_of(["itm", source.fingerprint])
        self.tokenize, self.device = source.tokenize, device
        self.preprocess: Any = source.preprocess
        self.model: Any = source.build().to(device)

    @torch.no_grad()
    def probabilities(
        self, claims: Sequence[Claim], advance: Callable[[float], None] | None = None
    ) -> npt.NDArray[np.float32]:
        """float32 [n] in 0..1 that picture and hypothesis match, NaN where there is no picture."""
        matched = np.full(len(claims), np.nan, np.float32)
        rows = sorted((str(claim.image), row) for row, claim in enumerate(claims) if claim.image is not None)
        for start in range(0, len(rows), AT_ONCE):
            part = [row for _, row in rows[start : start + AT_ONCE]]
            matched[part] = self._match([claims[row] for row in part])
            if advance:
                advance(len(part))
        if advance:
            advance(len(claims) - len(rows))
        return matched

    def _match(self, claims: Sequence[Claim]) -> npt.NDArray[np.float32]:
        """The same of claims with pictures; each picture is encoded once."""
        files = list(dict.fromkeys(claim.image for claim in claims if claim.image is not None))
        index = torch.tensor([[files.index(claim.image)] for claim in claims if claim.image is not None])
        pixels = self.preprocess([read_image(file) for file in files]).to(self.device)
        texts = self.tokenize([claim.hypothesis for claim in claims]).to(self.device)
        pairs = self.model.pairs(pixels, texts, index.to(self.device), torch.ones_like(index, dtype=torch.bool))
        return np.asarray(self.model.match(pairs)[:, 0].sigmoid().cpu().numpy(), np.float32)

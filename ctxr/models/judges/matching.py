"""The published image-text matching head of an encoder of pairs as a judge: does the picture match the hypothesis?"""

from collections.abc import Sequence
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

AT_ONCE = 32
"""Claims in one pass, those about one picture together."""


class MatchingJudge(Judge):
    """A BLIP-like encoder, which sees picture and hypothesis. A claim without a picture gets no answer.

    Raises UsageError for a name that is not one of `load_blip`, and what that raises.
    """

    family = "blip"

    def __init__(self, model: str, device: str = "cpu") -> None:
        if not is_blip(model):
            raise UsageError(f"--judge itm:{model} names no BLIP model", hint="--judge itm:blip:DIRECTORY")
        source = load_blip(model)
        self.name = f"itm:{Path(model.partition(':')[2]).resolve().name}"
        self.fingerprint = sha256_of(["itm", source.fingerprint])
        self.tokenize, self.device = source.tokenize, device
        self.preprocess: Any = source.preprocess
        self.model: Any = source.build().to(device)

    @torch.no_grad()
    def probabilities(self, claims: Sequence[Claim]) -> npt.NDArray[np.float32]:
        """float32 [n] in 0..1 that picture and hypothesis match, NaN where there is no picture."""
        matched = np.full(len(claims), np.nan, np.float32)
        rows = sorted((claim.image, row) for row, claim in enumerate(claims) if claim.image is not None)
        for start in range(0, len(rows), AT_ONCE):
            files, part = zip(*rows[start : start + AT_ONCE], strict=True)
            pictures = sorted(set(files))
            pixels = self.preprocess([read_image(file) for file in pictures]).to(self.device)
            tokens = self.tokenize([claims[row].hypothesis for row in part]).to(self.device)
            index = torch.tensor([[pictures.index(file)] for file in files]).to(self.device)
            pairs = self.model.pairs(pixels, tokens, index, torch.ones_like(index, dtype=torch.bool))
            matched[list(part)] = self.model.match(pairs)[:, 0].sigmoid().cpu().numpy()
        return matched

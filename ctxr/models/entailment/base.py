"""What every entailment classifier and each of its branches takes and gives."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from ctxr.models.preprocess import Preprocess

if TYPE_CHECKING:
    from torch import Tensor, nn


@dataclass(frozen=True)
class Claim:
    """A hypothesis, its premises: text ("" for none) and picture; `pair`: ids, for a judge that reads a file."""

    premise: str
    image: Path | None
    hypothesis: str
    pair: tuple[str, str] | None = None


@dataclass(frozen=True)
class Estimate:
    """What a paid judge would take: requests, tokens sent and received, and their price."""

    requests: int
    tokens_in: int
    tokens_out: int
    cost: float

    def in_words(self, priced: bool) -> str:
        """Requests and tokens, and their cost if prices are set."""
        tokens = f"{self.tokens_in:,} tokens sent and {self.tokens_out:,} received"
        return f"{self.requests:,} requests, {tokens}{f': {self.cost:.4f}' * priced}"


class Judge(Protocol):
    """Says how likely a premise entails a hypothesis.

    Attributes:
        name: as outputs call it. fingerprint: SHA-256 over everything that decides its answers: weights, config, prompt, file.
        threshold: probability from which a claim counts as entailed, unless the user sets another.
        trained_on: images it was trained on or chosen by, which it must not judge: SHA-256 of each available file, and the
            canonical id (`coco/9`, `flickr30k/7`) of each published one. None where its training data are unknown.
        family: the encoder it is built on, such as `ctxr-tiny` or `blip`; "" for none or unknown.
        toy: whether it was trained on drawn scenes alone and ships with ctxr.
    """

    name: str
    fingerprint: str
    threshold: float = 0.5
    trained_on: frozenset[str] | None = None
    family: str = ""
    toy: bool = False

    def probabilities(self, claims: Sequence[Claim]) -> npt.NDArray[np.float32]:
        """float32 [n] in 0..1: that premise and image together entail the hypothesis; NaN where it gives no answer.

        Raises DataError for a picture that cannot be read, UnfinishedError where the budget ends; answers until then are kept.
        """
        ...

    def check(self) -> None:
        """Raises DataError where it will not be able to answer, before others work for it."""
        return

    def estimate(self, claims: int, usual: float = 0) -> Estimate | None:
        """What so many claims would cost: at most, or probably, with the `usual` characters of one; None for a judge that costs nothing."""
        return None


class PairTokens(NamedTuple):
    """Ids and types [B, T] of premises with their hypotheses, id 0 where there is none."""

    ids: Tensor
    types: Tensor


class ClaimTokens(NamedTuple):
    """What a classifier reads of claims: ids and types of `PairTokens`; [B, U] hypotheses for the image branch."""

    ids: Tensor
    types: Tensor
    hypotheses: Tensor


@dataclass(frozen=True)
class TextSource:
    """A text branch. `build` makes the module, on the CPU, fp32: ids and types [B, T] to h^t [B, D] of `width` D. Of a `frozen` one
    `tokenize` gives h^t itself in place of ids. `fingerprint`: sha256 over weights, config and vocabulary."""

    name: str
    fingerprint: str
    width: int
    build: Callable[[], nn.Module]
    tokenize: Callable[[Sequence[str], Sequence[str]], PairTokens]
    frozen: bool = False


@dataclass(frozen=True)
class ImageSource:
    """An image branch.

    Attributes:
        build: makes the module, on the CPU, fp32 (`ctxr.models.entailment.fusion.FusionBranch`). width: D of h^v.
        tokenize: hypotheses to ids int64 [B, U], 0 where there is none.
        preprocess: of pixels; None for a branch over cells of the encoder named `cells`.
        pairs: premises and hypotheses for the layers over words, which a text branch can share; None where it cannot.
    """

    name: str
    fingerprint: str
    width: int
    build: Callable[[], Any]
    tokenize: Callable[[Sequence[str]], Tensor]
    preprocess: Preprocess | None
    cells: str = ""
    pairs: Callable[[Sequence[str], Sequence[str]], PairTokens] | None = None

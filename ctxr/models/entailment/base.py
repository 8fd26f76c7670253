"""What every entailment classifier takes and gives."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np
import numpy.typing as npt

TEXT, IMAGE, JOINT = 0, 1, 2
"""Columns of the indicators and of the heads: textual, visual, multi-modal."""


@dataclass(frozen=True)
class Claim:
    """A hypothesis and what it is held against.

    Attributes:
        premise: text, such as all captions of the picture joined by blanks; "" where there is none.
        image: file of the picture; None where there is none.
        hypothesis: text.
    """

    premise: str
    image: Path | None
    hypothesis: str


class Classifier(Protocol):
    """Says how likely a premise entails a hypothesis.

    Attributes:
        name: of the run. fingerprint: SHA-256 over weights, config and preprocessing.
        threshold: probability from which on a claim counts as entailed, chosen on dev.
        trained_on: images it was trained on or chosen by, what it must not judge: SHA-256 of each file that was at hand, and the
            canonical id (`coco/9`, `flickr30k/7`) of each published one. Ids of artifacts are not among them: two may share them.
    """

    name: str
    fingerprint: str
    threshold: float
    trained_on: frozenset[str]

    def probabilities(
        self, claims: Sequence[Claim], advance: Callable[[float], None] | None = None
    ) -> npt.NDArray[np.float32]:
        """float32 [n] in 0..1: that premise and image together entail the hypothesis. `advance` is told of claims done.

        Raises DataError for a picture that cannot be read.
        """

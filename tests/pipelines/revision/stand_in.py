"""A classifier that knows the drawn world's truth and errs as often as it is told to, the same way whenever it is asked."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from ctxr.datasets.dataset import Dataset
from ctxr.datasets.open import read_dataset
from ctxr.datasets.rounds import CandidateRow
from ctxr.datasets.truth import CaptionTruth
from ctxr.engine.progress import ProgressTask, Silent
from ctxr.models.entailment.base import Claim, Judge
from ctxr.store.hashing import sha256_of
from ctxr.store.tables import read_table


@dataclass
class StandIn(Judge):
    """Says yes with probabilities of 0.5 and more, to `sensitivity` of what holds and to 1 - `specificity` of the rest.

    Attributes:
        claims: how many it was asked about, in all.
    """

    folder: Path
    sensitivity: float = 1.0
    specificity: float = 1.0
    name: str = "stand-in"
    threshold: float = 0.5
    trained_on: frozenset[str] = frozenset()
    claims: int = 0
    dies_after: int | None = None
    holds: frozenset[tuple[str, str]] = field(default_factory=frozenset)

    def __post_init__(self) -> None:
        self.fingerprint = sha256_of([self.sensitivity, self.specificity])
        self.dataset: Dataset = read_dataset(self.folder)
        texts = self.dataset.texts
        rows = read_table(self.folder / "truth.jsonl", CaptionTruth)
        self.holds = frozenset((texts[row.caption].text, image) for row in rows for image in row.holds)
        self.image_of = {self.dataset.picture(image): image.id for image in self.dataset.images.values()}

    def probabilities(
        self, claims: Sequence[Claim], advance: Callable[[float], None] | None = None
    ) -> np.typing.NDArray[np.float32]:
        self.claims += len(claims)
        if self.dies_after is not None and self.claims > self.dies_after:
            raise KeyboardInterrupt
        return np.array([self._says(claim) for claim in claims], np.float32)

    def _says(self, claim: Claim) -> float:
        image = self.image_of.get(claim.image, "")
        chance, sure = (int(sha256_of([n, image, claim.hypothesis])[:8], 16) / 2**32 for n in "ab")
        if (claim.hypothesis, image) in self.holds:
            yes = chance < self.sensitivity
        else:
            yes = chance >= self.specificity
        return 0.5 + 0.5 * sure if yes else 0.49 * sure


def ledger_of(workdir: Path, number: int = 1) -> list[CandidateRow]:
    return read_table(workdir / "revised" / "rounds" / f"{number:03d}" / "ledger.jsonl", CandidateRow)


def truth_of(workdir: Path) -> dict[str, CaptionTruth]:
    return {row.caption: row for row in read_table(workdir / "dataset" / "truth.jsonl", CaptionTruth)}


class Listening(Silent):
    """Remembers what was noted, what it was warned of, and which progress it showed."""

    def __init__(self) -> None:
        self.tasks: list[str] = []
        self.notes: list[str] = []
        self.warned: list[str] = []

    def note(self, text: str) -> None:
        self.notes.append(text)

    def warn(self, text: str) -> None:
        self.warned.append(text)

    def task(self, label: str, total: float | None) -> AbstractContextManager[ProgressTask]:
        self.tasks.append(label)
        return super().task(label, total)


class Hashed:
    """An encoder that costs nothing: small pictures and hashed words, projected at random into one space."""

    name, fingerprint, precision, dim = "hashed", "hashed", "fp32", 16

    def encode_images(self, images: Sequence[np.typing.NDArray[np.uint8]]) -> np.typing.NDArray[np.float32]:
        return self._unit(np.stack([image[::6, ::6].astype(np.float32).reshape(-1) - 128 for image in images]), 1)

    def encode_texts(self, texts: Sequence[str]) -> np.typing.NDArray[np.float32]:
        words = np.zeros((len(texts), 64), np.float32)
        for row, text in enumerate(texts):
            for word in text.split():
                words[row, int(sha256_of(word)[:8], 16) % 64] += 1
        return self._unit(words, 2)

    def _unit(self, values: np.typing.NDArray[np.float32], seed: int) -> np.typing.NDArray[np.float32]:
        projection = np.random.default_rng(seed).standard_normal((values.shape[1], self.dim))
        found = values @ projection
        return np.asarray(found / np.linalg.norm(found, axis=1, keepdims=True), np.float32)

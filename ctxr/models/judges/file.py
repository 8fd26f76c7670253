"""Probabilities that were computed elsewhere, in a file of (image, caption, p)."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import msgspec
import numpy as np
import numpy.typing as npt

from ctxr.datasets.readers.entailment import Rows
from ctxr.errors import DataError
from ctxr.models.entailment.base import Claim, Judge
from ctxr.store.hashing import sha256_file


class PairProbability(msgspec.Struct, frozen=True):
    """The probability that a picture entails a caption, by the ids of image and query; other columns are left alone."""

    image: str
    caption: str
    p: Annotated[float, msgspec.Meta(ge=0, le=1)]


class FileJudge(Judge):
    """Answers from a file of JSON Lines, or of CSV with the header image,caption,p; a pair without a row gets none.

    Raises UsageError for a file that cannot be opened; DataError naming file:line for a row that is none, and for a pair with two
    probabilities.
    """

    def __init__(self, path: Path) -> None:
        self.name, self.answers = f"file:{path.name}", _read(path)
        self.fingerprint = sha256_file(path)

    def probabilities(self, claims: Sequence[Claim]) -> npt.NDArray[np.float32]:
        """float32 [n] in 0..1 by the ids of each claim, NaN where the file has no row of them."""
        return np.array([self.answers.get(claim.pair or ("", ""), np.nan) for claim in claims], np.float32)


def _read(path: Path) -> dict[tuple[str, str], float]:
    rows, hint = Rows(path), "write rows with image, caption and p from 0 to 1"
    answers: dict[tuple[str, str], float] = {}
    for row in rows:
        try:
            answer = msgspec.convert(row.cells, PairProbability, strict=False)
        except msgspec.ValidationError as error:
            raise DataError(f"{path}:{row.line}: {error}", hint=hint) from error
        p = answers.setdefault((answer.image, answer.caption), answer.p)
        if p != answer.p:
            pair = f"{answer.image} and {answer.caption}"
            raise DataError(
                f"{path}:{row.line}: p of {pair} is {answer.p:g}, and {p:g} above", hint="delete one of them"
            )
    for oddity in rows.oddities:
        if not oddity.kept:
            raise DataError(f"{oddity.where}: {oddity.what}", hint=hint)
    if not answers:
        raise DataError(f"{path} holds no row", hint=hint)
    return answers

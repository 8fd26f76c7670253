"""Probabilities that were computed elsewhere, in a file of (image, caption, p)."""

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path

import numpy as np
import numpy.typing as npt

from ctxr.datasets.readers.entailment import Rows
from ctxr.errors import DataError, some
from ctxr.models.entailment.base import Claim, Judge
from ctxr.store.hashing import sha256_file

COLUMNS = ("image", "caption", "p")
"""Ids of image and query, as in a ledger.jsonl, and a probability; other columns are ignored."""

_HINT = (
    "under the header image,caption,p a row is such as photos/1.jpg,photos/1.jpg#1,0.75: "
    "the ids of image and query, as in the ledger.jsonl of a round"
)


class FileJudge(Judge):
    """Answers from a file of JSON Lines, or of CSV with the header image,caption,p; a pair without a row gets none.

    Raises UsageError for a file that cannot be opened.
    """

    def __init__(self, path: Path) -> None:
        self.name, self._path = f"file:{path.name}", path
        Rows(path)  # tells at once of a file that cannot be opened
        self.fingerprint = sha256_file(path)

    @cached_property
    def answers(self) -> dict[tuple[str, str], float]:
        """Probabilities by ids of image and query. Raises DataError naming file:line of invalid and repeated pairs."""
        rows, answers = Rows(self._path), dict[tuple[str, str], float]()
        for row in rows:
            where = f"{rows.path}:{row.line}"
            if not set(COLUMNS) <= row.cells.keys():
                columns = some(map(repr, row.cells), 6)
                raise DataError(f"{where}: the columns are {columns}: image, caption and p are needed", hint=_HINT)
            image, caption, text = (row.cells[name] for name in COLUMNS)
            try:
                p = float(text)
            except ValueError:
                p = np.nan
            if not 0 <= p <= 1:
                raise DataError(f"{where}: p must be a number from 0 to 1 and is {text[:30]!r}", hint=_HINT)
            before = answers.setdefault((image, caption), p)
            if before != p:
                clash = f"p of {image} and {caption} is {p:g}, and {before:g} above"
                raise DataError(f"{where}: {clash}", hint="delete one of them")
        for issue in rows.issues:
            if not issue.kept:
                raise DataError(f"{issue.where}: {issue.what}", hint=_HINT)
        if not answers:
            raise DataError(f"{rows.path} holds no row", hint=_HINT)
        return answers

    def check(self) -> None:
        """Raises what `answers` raises."""
        len(self.answers)

    def probabilities(self, claims: Sequence[Claim]) -> npt.NDArray[np.float32]:
        """float32 [n] in 0..1 by the ids of each claim, NaN where the file has no row of them."""
        return np.array([self.answers.get(claim.pair or ("", ""), np.nan) for claim in claims], np.float32)

    def gaps(self, pairs: Sequence[tuple[str, str]]) -> str:
        """How many pairs have no row, and rows no pair; "" for none. Raises DataError if all rows have none."""
        lacking, strange = len(set(pairs) - self.answers.keys()), len(self.answers.keys() - set(pairs))
        if not pairs or not lacking + strange:
            return ""
        if strange == len(self.answers):
            row, pair = (f"({', '.join(ids)})" for ids in (next(iter(self.answers)), pairs[0]))
            raise DataError(
                f"{self.name} names none of the {lacking:,} candidates: its first row is {row}, the first candidate {pair}",
                hint=_HINT,
            )
        return (
            f"{self.name} has no row for {lacking:,} of {len(set(pairs)):,} candidates; "
            f"{strange:,} of its {len(self.answers):,} rows name no candidate"
        )

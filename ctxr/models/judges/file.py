"""Probabilities that were computed elsewhere, in a file of (image, caption, p)."""

import csv
from collections.abc import Callable, Iterator, Sequence
from io import StringIO
from pathlib import Path

import msgspec
import numpy as np
import numpy.typing as npt

from ctxr.datasets.readers.text_files import read_utf8
from ctxr.errors import DataError, UsageError
from ctxr.models.entailment.base import Claim, Judge
from ctxr.store.hashing import sha256_file
from ctxr.store.tables import UNREADABLE

COLUMNS = ("image", "caption", "p")


class Answer(msgspec.Struct, frozen=True):
    """The probability that a picture entails a caption, by the ids of the image and of the query; other columns are left alone."""

    image: str
    caption: str
    p: float


class FileJudge(Judge):
    """Answers from a file: `.jsonl`, or `.csv` with the header image,caption,p. A pair without a row gets no answer.

    Raises UsageError for a file that cannot be opened or has another ending; DataError naming file:line for a row that is none, a
    probability outside 0..1, or a pair with two probabilities, and for a file without rows.
    """

    threshold = 0.5
    trained_on = None

    def __init__(self, path: Path) -> None:
        self.name = f"file:{path.name}"
        self.answers = _read(path)
        self.fingerprint = sha256_file(path)

    def probabilities(
        self, claims: Sequence[Claim], advance: Callable[[float], None] | None = None
    ) -> npt.NDArray[np.float32]:
        """float32 [n] in 0..1 by the ids of each claim, NaN where the file has no row of them."""
        if advance:
            advance(len(claims))
        none = ("", float("nan"))
        return np.array([self.answers.get(claim.pair or ("", ""), none)[1] for claim in claims], np.float32)


def _read(path: Path) -> dict[tuple[str, str], tuple[str, float]]:
    """Line and probability of each pair."""
    if path.suffix not in _ROWS:
        raise UsageError(
            f"{path} ends neither in .jsonl nor in .csv", hint=f"file:FILE with the columns {', '.join(COLUMNS)}"
        )
    answers: dict[tuple[str, str], tuple[str, float]] = {}
    for line, make in _ROWS[path.suffix](path, read_utf8(path, "name a file of probabilities")):
        where = f"{path}:{line}"
        try:
            row = make()
        except UNREADABLE as error:
            raise DataError(f"{where}: {str(error).rstrip('.')}", hint="mend the row, or remove it") from error
        if not 0 <= row.p <= 1:
            raise DataError(f"{where}: p is {row.p:g}, not within 0..1", hint="write probabilities")
        earlier, p = answers.setdefault((row.image, row.caption), (where, row.p))
        if p != row.p:
            pair = f"image {row.image!r} and caption {row.caption!r}"
            raise DataError(f"{where}: p of {pair} is {row.p:g}, and {p:g} at {earlier}", hint="delete one of them")
    if not answers:
        raise DataError(f"{path} holds no row", hint=f"write rows with {', '.join(COLUMNS)}")
    return answers


Rows = Iterator[tuple[int, Callable[[], Answer]]]


def _of_jsonl(path: Path, text: str) -> Rows:
    for number, line in enumerate(text.split("\n"), 1):
        if line.strip():
            yield number, lambda line=line: msgspec.json.decode(line, type=Answer)


def _of_csv(path: Path, text: str) -> Rows:
    rows = csv.DictReader(StringIO(text, newline=""), strict=True)
    try:
        if missing := [name for name in COLUMNS if name not in (rows.fieldnames or ())]:
            raise DataError(
                f"{path}:1: the header lacks {', '.join(missing)}", hint=f"begin it with {','.join(COLUMNS)}"
            )
        for row in rows:
            cells = {name: row[name] for name in COLUMNS if row[name] is not None}
            yield rows.line_num, lambda cells=cells: msgspec.convert(cells, Answer, strict=False)
    except csv.Error as error:
        raise DataError(f"{path}:{rows.line_num}: {error}", hint="mend the row, or remove it") from error


_ROWS: dict[str, Callable[[Path, str], Rows]] = {".jsonl": _of_jsonl, ".csv": _of_csv}

"""CxC's graded similarities as published: captions with pictures (SITS), pictures (SIS), captions (STS), each 0..5."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from ctxr.data.entailment import coco_image
from ctxr.data.readers.entailment.oddities import Oddity
from ctxr.data.readers.entailment.rows import Rows
from ctxr.errors import DataError

Similarity = Literal["SITS", "SIS", "STS"]

_COLUMNS: dict[tuple[str, str], Similarity] = {
    ("caption", "image"): "SITS", ("image1", "image2"): "SIS", ("caption1", "caption2"): "STS",
}  # fmt: skip
_SCORE = "agg_score"
MOST = 5.0


@dataclass(frozen=True)
class Rated:
    """The rated pairs of a file.

    Attributes:
        kind: what is compared. pairs: COCO ids (`coco/ID`) of the first and the second, and the rating 0..5.
        oddities: rows that were left out, and what else is odd.
    """

    kind: Similarity
    pairs: tuple[tuple[str, str, float], ...]
    oddities: tuple[Oddity, ...]


def read_similarities(path: Path) -> Rated:
    """The rated pairs of a CxC file, told by its columns; rows without ids or a rating are left out and noted.

    Raises UsageError for a file that cannot be opened, DataError for other columns, and where no row can be used.
    """
    rows = Rows(path)
    columns = next((pair for pair in _COLUMNS if {*pair, _SCORE} <= set(rows.columns)), None)
    if columns is None:
        wanted = " or ".join(",".join((*pair, _SCORE)) for pair in _COLUMNS)
        raise DataError(f"{path}:1: the header is none of CxC's: {wanted}", hint="restore the header")
    pairs: list[tuple[str, str, float]] = []
    for row in rows:
        first, second = (_id(name, row.cells[name].strip()) for name in columns)
        rating = _rating(row.cells[_SCORE].strip())
        if first is None or second is None:
            rows.note(row.line, "image", f"{row.cells[columns[first is not None]]!r} is no id of COCO")
        elif rating is None:
            rows.note(row.line, "score", f"{row.cells[_SCORE]!r} is no score of 0 to 5")
        else:
            pairs.append((first, second, rating))
    if not pairs:
        raise DataError(f"{path} holds no rated pair", hint="fetch it again")
    return Rated(_COLUMNS[columns], tuple(pairs), tuple(rows.oddities))


def _id(column: str, name: str) -> str | None:
    if column.startswith("image"):
        return coco_image(name)
    number = name.rpartition(":")[2]
    return f"coco/{number}" if number.isascii() and number.isdigit() else None


def _rating(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if 0 <= value <= MOST else None

"""What became of every considered frame and photo, as rows for the scripts of the timelines and of the dropped ones."""

from typing import Any

from ctxr.data.units import SourceUnit
from ctxr.pipelines.reporting.edition import Edition, time_code

IN_A_SET = -1
"""Fate of what is in a set; otherwise it is the number of a reason."""


FATE, PICTURE = 2, 6
"""Columns of a row."""


def fill(edition: Edition) -> None:
    """Have `data["ledger"]`: by source number, rows of index, milliseconds, fate, value, nearest, distance, picture, name."""
    if "ledger" not in edition.data:
        edition.data["ledger"] = [_rows(edition, unit) for unit in edition.chain.units]


def _rows(edition: Edition, unit: SourceUnit) -> list[list[Any]]:
    rows = []
    for row in sorted(unit.ledger, key=lambda row: row.index):
        fate = IN_A_SET if row.reason is None else edition.reason_number(row.reason)
        rows.append(
            [
                row.index,
                None if row.time is None else time_code(row.time),
                fate,
                row.value,
                row.nearest,
                row.distance,
                edition.picture_of(unit.source.name, row.index),
                row.name,
            ]
        )
    return rows

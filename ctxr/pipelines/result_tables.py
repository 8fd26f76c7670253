"""A table of figures as a result: what a command shows in columns and prints as JSON."""

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Table:
    """Figures with a heading.

    Attributes:
        title: what the table shows. columns: heads; the first names the rows.
        rows: plain values; None where there is no figure.
        note: what one must know to read it; empty if nothing.
        examples: sentences that show what is counted.
        digits: shown behind the point, None for as many as a value has; JSON has them all.
    """

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]
    note: str = ""
    examples: tuple[str, ...] = ()
    digits: int | None = 3

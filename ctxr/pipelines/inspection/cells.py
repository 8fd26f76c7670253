"""Published figures of papers: the table of cells, the arithmetic between them, and the verdict on what was found."""

import math
import tomllib
from collections.abc import Callable, Mapping
from functools import partial
from operator import mul
from pathlib import Path

import msgspec

from ctxr.pipelines.inspection.config import Cell, CellResult, Found, State

TABLE = Path(__file__).with_name("cells.toml")


class Paper(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A paper: its title, the release that its measures need, and its cells by name."""

    title: str
    release: str
    cells: dict[str, Cell]


def read_cells(file: Path) -> dict[str, Paper]:
    """The table of cells by paper."""
    return msgspec.convert(tomllib.loads(file.read_text(encoding="utf-8")), dict[str, Paper])


def _weighted(*pairs: float) -> float:
    return math.fsum(map(mul, pairs[::2], pairs[1::2])) / math.fsum(pairs[1::2])


def _f_score(precision: float, recall: float, beta: float = 1.0) -> float:
    return (1 + beta**2) * precision * recall / (beta**2 * precision + recall)


def _accuracy(precision: float, recall: float, positives: float, total: float) -> float:
    hits = positives * recall / 100
    return 100 * (total - positives + 2 * hits - 100 * hits / precision) / total


ARITHMETIC: dict[str, Callable[..., float]] = {
    "same": lambda value: value,
    "sum": lambda *parts: math.fsum(parts),
    "difference": lambda whole, *parts: whole - math.fsum(parts),
    "product": lambda *factors: math.prod(factors),
    "per": lambda *parts: math.fsum(parts[:-1]) / parts[-1],
    "reduction": lambda after, *before: 100 * (1 - after / math.fsum(before)),
    "density": lambda links, sentences, images: 100 * links / (sentences * images),
    "weighted": _weighted,
    "rest": lambda mean, total, other, size: (mean * total - other * size) / (total - size),
    "f1": _f_score,
    "f0.5": partial(_f_score, beta=0.5),
    "accuracy": _accuracy,
}
"""Functions of printed figures.

per: the sum of all but the last, over the last. reduction: in percent, from the sum of the last ones to the first. density: links among
pairs of sentences and images, in percent. weighted: the mean of values, each followed by its weight. rest: the mean of the items that a
mean over `total` has beside those that `other` is over. f1, f0.5: of precision and recall. accuracy: in percent, of precision, recall, the
number of positives and of all.
"""


def compute(cell: Cell, cells: Mapping[str, Cell]) -> Found:
    """The arithmetic of a cell. A number with a point was rounded to its last digit, a whole one is exact; `margin` is how far the rounding
    of the arguments may move the value."""
    ((name, arguments),) = cell.arithmetic.items()
    function = ARITHMETIC[name]
    named = [cells[one] if isinstance(one, str) else Cell("", "", one, within=_half(one)) for one in arguments]
    values = [one.value for one in named]
    value = function(*values)
    moved = [function(*values[:at], one.value + one.within, *values[at + 1 :]) for at, one in enumerate(named)]
    return Found(value, 0, "arithmetic", margin=math.fsum(abs(one - value) for one in moved))


def _half(number: float) -> float:
    """Half of the last digit of a number that is written with a point."""
    return 0.5 * 0.1 ** len(repr(number).partition(".")[2]) if isinstance(number, float) else 0.0


def verdict_on(paper: str, name: str, cell: Cell, found: Found | None, needs: tuple[str, ...]) -> CellResult:
    """The verdict on a cell. A figure over a part of the release settles nothing: it is shown, and the rest is needed."""
    state: State = "needs"
    if found is not None and found.by != "arithmetic" and found.items < cell.whole:
        needs = (f"the rest of the release ({found.items:,} of {cell.whole:,} are here)",)
    elif found is not None:
        close = abs(found.value - cell.value) <= cell.tolerance + found.margin + 1e-9
        state, needs = "reproduced" if close else "off", ()
    return CellResult(paper, name, cell, state, found, needs)

"""Votes as three parallel arrays of codes: which unit, which worker, which value. One form for all numbers of the crowd."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ctxr.errors import DataError

FIRST_VOTES = "first votes"
"""What tables call the first vote on each unit: no later vote depends on it."""

Codes = npt.NDArray[np.int64]
Doubles = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]
Names = npt.NDArray[np.generic]
Column = Sequence[object] | Names


@dataclass(frozen=True, eq=False)
class Votes:
    """N votes in the order in which they were given to `gather`.

    Attributes:
        units: [N] codes 0..U-1 of what was judged. workers: [N] codes 0..W-1 of who judged. values: [N] codes 0..V-1 of what
            was said, rising with the label.
        unit_names: [U] what each code stands for. worker_names: [W]. labels: [V], numbers if numbers were given, else words.
    """

    units: Codes
    workers: Codes
    values: Codes
    unit_names: Names
    worker_names: Names
    labels: Names

    def __len__(self) -> int:
        return len(self.units)

    def where(self, chosen: Flags | Codes) -> "Votes":
        """The votes marked in `chosen` [N], or those at these rows. Codes and names stay what they are, so results compare row by row."""
        return replace(self, units=self.units[chosen], workers=self.workers[chosen], values=self.values[chosen])


def gather(units: Column, workers: Column, values: Column) -> Votes:
    """Votes from three columns [N] of strings or numbers. Raises DataError for a worker who judged a unit twice.

    >>> votes = gather(["b", "b", "a"], ["x", "y", "x"], [7, 9, 7])
    >>> votes.units.tolist(), votes.workers.tolist(), votes.values.tolist(), votes.labels.tolist()
    ([1, 1, 0], [0, 1, 0], [0, 1, 0], [7, 9])
    """
    (u, unit_names), (w, worker_names), (v, labels) = factorise(units), factorise(workers), factorise(values)
    keys = u * np.int64(len(worker_names)) + w
    if not np.diff(np.sort(keys)).all():
        row = int(np.delete(np.arange(len(keys)), np.unique(keys, return_index=True)[1])[0])
        unit, worker = unit_names[u[row]], worker_names[w[row]]
        raise DataError(
            f"vote {row}: worker {str(worker)!r} judged unit {str(unit)!r} a second time",
            "keep one vote of each worker on a unit, for example that of the latest round",
        )
    return Votes(u, w, v, unit_names, worker_names, labels)


class Factors(NamedTuple):
    """A column as codes [N] of its sorted names [M]: `names[codes]` is the column again."""

    codes: Codes
    names: Names


def factorise(column: Column) -> Factors:
    """The codes and names of a column of strings or numbers.

    >>> codes, names = factorise(["b", "a", "b"])
    >>> codes.tolist(), names.tolist()
    ([1, 0, 1], ['a', 'b'])
    """
    array = column if isinstance(column, np.ndarray) else None
    if array is None and len(column) and isinstance(column[0], (bool, int, float, np.number, np.bool_)):
        array = np.asarray(column)
    if array is not None and array.dtype.kind in "iufb":
        names, codes = np.unique(array if array.dtype.kind == "f" else array.astype(np.int64), return_inverse=True)
        return Factors(codes.astype(np.int64), names)
    # hashing strings is several times faster than sorting them
    rows = column.tolist() if isinstance(column, np.ndarray) else column
    ranked = {name: code for code, name in enumerate(sorted(set(rows)))}
    named = np.empty(len(ranked), object)
    for name, code in ranked.items():  # names may be tuples, which numpy would spread over rows
        named[code] = name
    return Factors(np.fromiter(map(ranked.__getitem__, rows), np.int64, len(rows)), named)

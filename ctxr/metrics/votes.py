"""Votes as three parallel arrays of codes: which unit, which worker, which value. One form for all numbers of the crowd."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from ctxr.errors import DataError

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

    def numbers(self) -> Doubles:
        """The labels [V] as numbers. DataError if they are words."""
        if self.labels.size and self.labels.dtype.kind not in "iufb":
            raise DataError(
                f"values such as {str(self.labels[0])!r} are words, and this difference needs numbers",
                "ask for the nominal level",
            )
        return self.labels.astype(np.float64)


def gather(units: Column, workers: Column, values: Column) -> Votes:
    """Votes from three columns [N] of strings or numbers.

    Args:
        units: what was judged. workers: who judged it. values: what was said; numbers keep their distances.

    Raises DataError for columns of different lengths, a value that is not a number (NaN), or a worker who judged a unit twice.

    >>> votes = gather(["b", "b", "a"], ["x", "y", "x"], [7, 9, 7])
    >>> votes.units.tolist(), votes.workers.tolist(), votes.values.tolist(), votes.labels.tolist()
    ([1, 1, 0], [0, 1, 0], [0, 1, 0], [7, 9])
    """
    if not len(units) == len(workers) == len(values):
        raise DataError(f"{len(units)} units, {len(workers)} workers and {len(values)} values are not parallel columns")
    (u, unit_names), (w, worker_names), (v, labels) = factorise(units), factorise(workers), factorise(values)
    if labels.dtype.kind == "f" and np.isnan(labels).any():
        raise DataError(
            f"vote {int(np.flatnonzero(np.isnan(labels[v]))[0])} has no value (NaN)", "leave missing votes out"
        )
    keys = u * np.int64(len(worker_names)) + w
    if len(np.unique(keys)) < len(keys):
        row = int(np.delete(np.arange(len(keys)), np.unique(keys, return_index=True)[1])[0])
        unit, worker = unit_names[u[row]], worker_names[w[row]]
        raise DataError(
            f"vote {row}: worker {str(worker)!r} judged unit {str(unit)!r} a second time",
            "keep one vote of each worker on a unit, for example that of the latest round",
        )
    return Votes(u, w, v, unit_names, worker_names, labels)


def factorise(column: Column) -> tuple[Codes, Names]:
    """Codes [N] and the sorted names [M] that they stand for: `names[codes]` is the column again.

    >>> codes, names = factorise(["b", "a", "b"])
    >>> codes.tolist(), names.tolist()
    ([1, 0, 1], ['a', 'b'])
    """
    array = column if isinstance(column, np.ndarray) else None
    if array is None and len(column) and isinstance(column[0], (bool, int, float, np.number, np.bool_)):
        array = np.asarray(column)
    if array is not None and array.dtype.kind in "iub" and array.size:
        dense = _dense(array.astype(np.int64))
        if dense is not None:
            return dense
    if array is not None and array.dtype.kind in "iufb":
        names, codes = np.unique(array, return_inverse=True)
        return codes.reshape(-1).astype(np.int64), names
    # hashing strings is several times faster than sorting them
    rows = column.tolist() if isinstance(column, np.ndarray) else column
    try:
        ranked = {name: code for code, name in enumerate(sorted(set(rows)))}
    except TypeError as error:
        raise DataError(
            f"a column mixes kinds: {error}", "give strings or numbers, and leave missing votes out"
        ) from error
    named = np.empty(len(ranked), object)
    for name, code in ranked.items():
        named[code] = name
    return np.fromiter(map(ranked.__getitem__, rows), np.int64, len(rows)), named


def _dense(numbers: Codes) -> tuple[Codes, Names] | None:
    """The same by counting, without sorting, where the numbers lie close together."""
    low, high = int(numbers.min()), int(numbers.max())
    if high - low > 2 * numbers.size + 1000:
        return None
    present = np.zeros(high - low + 1, bool)
    present[numbers - low] = True
    codes = np.cumsum(present) - 1
    return codes[numbers - low], np.flatnonzero(present) + low

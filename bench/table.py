"""One row of a bench, and the clock that fills it."""

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Row:
    """One measured figure.

    Attributes:
        figure: what was measured, in words.
        seconds: median wall-clock seconds of ours.
        against: what it is compared with, measured in the same run; "" if nothing.
        against_seconds: median wall-clock seconds of that.
        target: the wanted relation as text, "" if there is none; `met` says whether it holds.
        note: anything a reader needs to judge the figure.
    """

    figure: str
    seconds: float
    against: str = ""
    against_seconds: float | None = None
    target: str = ""
    met: bool | None = None
    note: str = ""

    @property
    def ratio(self) -> float | None:
        """Ours divided by the other: below 1 is faster than the other."""
        return None if self.against_seconds is None else self.seconds / self.against_seconds


def median_seconds(call: Callable[[], object], repeat: int = 3) -> float:
    """Median wall-clock seconds of `repeat` calls of `call`."""
    taken = []
    for _ in range(repeat):
        start = time.perf_counter()
        call()
        taken.append(time.perf_counter() - start)
    return statistics.median(taken)

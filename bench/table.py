"""One row of a bench, and the clocks that fill it."""

import math
import statistics
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any


class Median(float):
    """The median of measurements.

    Attributes:
        runs: the measurements. turns: names the rounds in which they were taken in turn with those of another; "" for none.
    """

    runs: tuple[float, ...]
    turns: str

    def __new__(cls, runs: Iterable[float], turns: str = "") -> "Median":
        """Of at least one measurement."""
        taken = tuple(runs)
        middle = super().__new__(cls, statistics.median(taken))
        middle.runs, middle.turns = taken, turns
        return middle

    def __getnewargs__(self) -> tuple[Any, ...]:
        """The measurements go to other processes too."""
        return self.runs, self.turns

    def __truediv__(self, divisor: float) -> "Median":
        """Each measurement divided, as for the seconds of one of several pictures."""
        return Median((run / divisor for run in self.runs), self.turns)


@dataclass(frozen=True)
class Row:
    """One measured figure.

    Attributes:
        figure: what was measured, in words.
        seconds: ours: wall-clock seconds, or what `unit` says; a `Median` shows its spread.
        against: what it is compared with, measured in the same run; "" if nothing.
        against_seconds: the same of that.
        target: the wanted relation as text, "" if there is none; `met` says whether it holds.
        note: anything a reader needs to judge the figure.
        unit: "s" for seconds, "" for a plain number, or the unit's name.
        curve: the growth curve that the row is a point of, "" for none. size: where on the curve, in the unit that its name begins with.
        facts: further figures of a point, by name and unit.
    """

    figure: str
    seconds: float
    against: str = ""
    against_seconds: float | None = None
    target: str = ""
    met: bool | None = None
    note: str = ""
    unit: str = "s"
    curve: str = ""
    size: float = 0.0
    facts: Mapping[str, float] = field(default_factory=dict)

    @property
    def ratio(self) -> float | None:
        """Ours divided by the other: below 1 is faster than the other."""
        return None if self.against_seconds is None else float(self.seconds) / float(self.against_seconds)

    @property
    def ratios(self) -> tuple[float, ...]:
        """The ratio of each pair of runs; none where they did not take turns."""
        ours, theirs = self.seconds, self.against_seconds
        if not (isinstance(ours, Median) and isinstance(theirs, Median) and "" != ours.turns == theirs.turns):
            return ()
        return tuple(our / their for our, their in zip(ours.runs, theirs.runs, strict=True))


def runs_of(figure: float) -> tuple[float, ...]:
    """The measurements behind a figure; itself if there was one."""
    return figure.runs if isinstance(figure, Median) else (figure,)


def seconds_of(call: Callable[[], object]) -> float:
    """Wall-clock seconds of one call."""
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def median_seconds(call: Callable[[], object], repeat: int = 3) -> float:
    """Median wall-clock seconds of `repeat` calls of `call`: a `Median`."""
    return Median(seconds_of(call) for _ in range(repeat))


def in_turns(*calls: Callable[[], object], repeat: int = 3) -> tuple[Median, ...]:
    """Median wall-clock seconds of each call, which take turns: what slows the machine down for a while slows all of them down."""
    rounds = [[seconds_of(call) for call in calls] for _ in range(repeat)]
    turns = f"{repeat} from {time.monotonic_ns()}"
    return tuple(Median(taken, turns) for taken in zip(*rounds, strict=True))


def number(value: float) -> str:
    """Three digits, or all before the point."""
    if not math.isfinite(value) or value == 0:
        return f"{value:g}"
    digits = max(0, 2 - math.floor(math.log10(abs(float(f"{value:.3g}")))))
    return f"{value:,.{digits}f}"

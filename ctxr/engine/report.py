"""What verbs report: whether all was done and found in order, tables of figures, and what an artifact of image sets contains."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ctxr.errors import CtxrError

P_SHOWN = 0.001
"""A smaller p-value is shown as below this."""


class VerbReport:
    """What a verb returns when it has done its work. A run whose input was incomplete, or that found problems, ends with a finding;
    `ctxr` shows the report first, and exits with the finding's code."""

    @property
    def finding(self) -> CtxrError | None:
        """A PartialError where not all could be done, a FindingsError where problems were found; by default None."""
        return None

    @property
    def exit_code(self) -> int:
        """0, or that of the finding."""
        return self.finding.exit_code if self.finding else 0


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


@dataclass(frozen=True)
class SetsReport(VerbReport):
    """What `build-sets` and `filter` say when they are done.

    Attributes:
        counts: the manifest's counts. up_to_date: nothing was to do.
        curve: sets by threshold, when asked for.
        failures: sources that gave nothing, with why.
        rank: which rank of how many this was; empty for a whole run. `counts` are then of its sources.
        retry: the command that tries failed sources again; empty where it is not known.
    """

    artifact: Path
    up_to_date: bool
    encoder: str
    threshold: float
    counts: dict[str, Any]
    failures: list[dict[str, Any]]
    curve: dict[str, int] | None = None
    read: Path | None = None
    rank: str = ""
    retry: str = ""


def share_with_interval(interval: Mapping[str, float | None]) -> str:
    """A share with its interval, in percent."""
    value, low, high = interval["value"], interval["low"], interval["high"]
    if value is None:
        return "–"
    return (
        f"{100 * value:.1f}" if low is None or high is None else f"{100 * value:.1f} ({100 * low:.1f}–{100 * high:.1f})"
    )

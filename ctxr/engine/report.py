"""What verbs report: findings, tables of figures, and the contents of an artifact of image sets."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ctxr.errors import CtxrError, plural

SUMMARY = "summary"
"""Name of the table that is printed without --full."""

P_SHOWN = 0.001  # smaller p-values are shown as below this


class VerbReport:
    """What a verb returns; `ctxr` shows it, and exits with the code of its finding."""

    @property
    def finding(self) -> CtxrError | None:
        """A PartialError where the input was incomplete, a FindingsError where problems were found; by default None."""
        return None

    @property
    def place(self) -> Path | None:
        """The artifact or page that was written, the first of the fields that is a path; None where there is none."""
        return next((value for value in vars(self).values() if isinstance(value, Path)), None)


@dataclass(frozen=True)
class Table:
    """Figures with a heading.

    Attributes:
        columns: heads; the first names the rows.
        rows: plain values; None where there is no figure.
        note: what a reader must know; may be empty. examples: sentences that show what is counted.
        digits: shown behind the point, None for as many as a value has; JSON has them all.
    """

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]
    note: str = ""
    examples: tuple[str, ...] = ()
    digits: int | None = 3

    def cell(self, value: object, head: str = "") -> str:
        """A value of a row as text; no p-value is 0."""
        if head == "p" and isinstance(value, float) and value < P_SHOWN:
            return f"<{P_SHOWN}"
        if isinstance(value, float):
            return f"{value:g}" if self.digits is None else f"{value:.{self.digits}f}"
        return "–" if value is None else str(value)

    def __str__(self) -> str:
        """The table in Markdown, its title as a heading, its note below."""
        rows = [self.columns, ["---", *["---:"] * (len(self.columns) - 1)]]
        rows += [[*map(self.cell, row, self.columns)] for row in self.rows]
        lines = ["| " + " | ".join(cell.replace("|", r"\|") for cell in row) + " |" for row in rows]
        return "\n".join([f"### {self.title}", "", *lines, "", *([self.note, ""] if self.note else [])])

    def _repr_markdown_(self) -> str:
        return str(self).replace("<", "&lt;").replace("[", r"\[")


@dataclass(frozen=True)
class SetsReport(VerbReport):
    """What `build-sets` and `filter` report.

    Attributes:
        counts: of the manifest, or of the sources of a rank. curve: sets by threshold, for `--yield-curve`.
        exact: thresholds of the curve at which it counts what a build without limits of quality gives; at others it is close to that,
            and mostly below.
        neighbours: how many of the nearest photos an index found, as in the manifest; empty where they are exact.
        rank: which rank of how many this was; empty for a whole run.
        retry: the command that tries failed sources again; may be empty.
    """

    artifact: Path
    up_to_date: bool
    encoder: str
    threshold: float
    counts: dict[str, Any]
    failures: list[dict[str, Any]]
    curve: dict[str, int] | None = None
    exact: Sequence[str] = ()
    neighbours: Mapping[str, Any] = field(default_factory=dict)
    read: Path | None = None
    rank: str = ""
    retry: str = ""


def share_with_interval(interval: Mapping[str, float | None]) -> str:
    """A share with its interval, in percent."""
    value, low, high = interval["value"], interval["low"], interval["high"]
    if value is None:
        return "–"
    return f"{100 * value:.1f}" + ("" if low is None or high is None else f" ({100 * low:.1f}–{100 * high:.1f})")


def leak_sentence(counts: Mapping[str, object]) -> str:
    """What the counts of an artifact of image sets say about leaks; empty if there are none."""
    kinds = {
        "leaking_groups": ("source", "in sets of several splits"),
        "leaking_images": ("picture", "in sets of several splits"),
        "leaking_footage": ("pair", "of sources with shared footage in different splits"),
    }
    parts = [
        f"{plural(count, noun)} {where}"
        for name, (noun, where) in kinds.items()
        if isinstance(count := counts.get(name), int) and count
    ]
    return f"splits leak: {'; '.join(parts)}" if parts else ""

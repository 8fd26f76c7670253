"""What is odd in a published file, row by row: nothing is repaired or left out without a line here."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from ctxr.data.entailment import EntailmentPair

Code = Literal[
    "byte_order_mark", "encoding", "quotes", "columns", "not_json", "label", "no_consensus", "score", "empty_text",
    "language", "repeated", "same_id", "other_label", "image",
]  # fmt: skip


@dataclass(frozen=True)
class Oddity:
    """One thing that is not as it should be.

    Attributes:
        where: `file:line`. code: what sort of thing. what: it, in words.
        kept: whether the row is among the pairs all the same.
    """

    where: str
    code: Code
    what: str
    kept: bool


@dataclass(frozen=True)
class Reading:
    """What came out of a file.

    Attributes:
        pairs: in the order of the file, ids unique.
        oddities: in the order of the file. A row may have several; of those that are not kept each row has exactly one.
        rows: records of the file after its header, blank lines not counted: kept pairs and rows left out.
        source: the format by which it was read.
    """

    pairs: tuple[EntailmentPair, ...]
    oddities: tuple[Oddity, ...]
    rows: int
    source: str

    @property
    def left_out(self) -> tuple[Oddity, ...]:
        """One entry for each row that is not among the pairs."""
        return tuple(one for one in self.oddities if not one.kept)

    def tally(self) -> list[str]:
        """A sentence for each sort of oddity, with its count and first place."""
        return tally(self.oddities)


def tally(oddities: Sequence[Oddity]) -> list[str]:
    """A sentence for each sort of oddity, commonest first.

    >>> tally([Oddity("a.tsv:3", "columns", "2 columns where 4 are named", False)])
    ['1 row left out, columns: 2 columns where 4 are named (first a.tsv:3)']
    """
    counted = Counter((one.kept, one.code) for one in oddities)
    first = {(one.kept, one.code): one for one in reversed(oddities)}
    lines = []
    for (kept, code), count in counted.most_common():
        fate = "kept" if kept else "left out"
        one = first[kept, code]
        lines.append(f"{count} row{'s' * (count > 1)} {fate}, {code}: {one.what} (first {one.where})")
    return lines

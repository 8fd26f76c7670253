"""Kauchak's sentence-aligned Wikipedia and Simple Wikipedia (2013): a simpler sentence follows from the one that it simplifies.

Two files line by line, `normal.aligned` and `simple.aligned`: title, number of the paragraph and sentence, parted by tabs. The
entailment paper takes every pair as entailed (section 6, TextSimplification).
"""

from itertools import zip_longest
from pathlib import Path

from ctxr.data.entailment import EntailmentPair, text_group
from ctxr.data.readers.entailment.oddities import Oddity, Reading
from ctxr.data.readers.entailment.rows import numbered
from ctxr.data.records import SplitName
from ctxr.errors import DataError

SOURCE = "text-simplification"
NORMAL, SIMPLE = "normal.aligned", "simple.aligned"
_COLUMNS = 3


def read_aligned(folder: Path, split: SplitName | None = "train") -> Reading:
    """The pairs of a folder that holds both files, all entailed; lines that are not whole or do not belong together are left out.

    Raises UsageError where a file cannot be opened, DataError where one has more lines than the other.
    """
    oddities: list[Oddity] = []
    pairs: dict[tuple[str, str], EntailmentPair] = {}
    lines = zip_longest(*(numbered(folder / name, oddities) for name in (NORMAL, SIMPLE)))
    read = 0
    for read, (normal, simple) in enumerate(lines, 1):
        at = f"{folder / NORMAL}:{read}"
        if normal is None or simple is None:
            shorter = SIMPLE if simple is None else NORMAL
            raise DataError(f"{folder / shorter} ends before line {read} of the other", hint="fetch both files again")
        cells = [text.split("\t") for _, text in (normal, simple)]
        if any(len(one) != _COLUMNS or not one[-1].strip() for one in cells):
            oddities.append(Oddity(at, "columns", "title, paragraph and sentence are not all there", False))
        elif cells[0][0] != cells[1][0]:
            oddities.append(Oddity(at, "columns", f"{cells[0][0]!r} stands beside {cells[1][0]!r}", False))
        elif (texts := (cells[0][2].strip(), cells[1][2].strip())) in pairs:
            oddities.append(Oddity(at, "repeated", "says again what was said", False))
        else:
            pairs[texts] = EntailmentPair(
                f"{SOURCE}/{split}/{read}", *texts, None, 1, "simplified", SOURCE, split, text_group(SOURCE, texts[0])
            )
    return Reading(tuple(pairs.values()), tuple(oddities), read, SOURCE)

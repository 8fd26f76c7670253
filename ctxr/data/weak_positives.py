"""What a classifier said of captions and pictures that nobody wrote for each other, in later rounds of judgments."""

from collections.abc import Iterable
from pathlib import Path

from ctxr.data.records import Judgment
from ctxr.data.tables import read_table
from ctxr.errors import DataError

WORKER = "entailment"
"""What the names of classifiers begin with among the workers."""

Pair = tuple[str, str]


def verdicts(judgments: Iterable[Judgment]) -> dict[Pair, bool]:
    """Whether a classifier calls a (query, candidate) entailed; of several rounds the latest counts, and in it any yes."""
    latest: dict[Pair, tuple[int, bool]] = {}
    for row in judgments:
        if row.worker.startswith(WORKER):
            pair, said = (row.query, row.candidate), row.value > 0
            known = latest.get(pair, (-1, False))
            if row.round >= known[0]:
                latest[pair] = (row.round, said or (row.round == known[0] and known[1]))
    return {pair: said for pair, (_, said) in latest.items()}


def read_judgments(path: Path) -> list[Judgment]:
    """A table of judgments: a file, or `judgments.jsonl` of a folder. Raises DataError where there is none."""
    file = path / "judgments.jsonl" if path.is_dir() else path
    if not file.is_file():
        raise DataError(
            f"{file} is not there", hint="name a table of judgments, or a folder that holds judgments.jsonl"
        )
    return read_table(file, Judgment)

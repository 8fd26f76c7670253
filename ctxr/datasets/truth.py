"""For which pictures a caption holds: the truth of the drawn world, and weak positives of later rounds of judgments."""

from collections.abc import Iterable
from pathlib import Path
from typing import ClassVar

from ctxr.errors import DataError
from ctxr.store.records import Judgment, Record
from ctxr.store.tables import read_table


class CaptionTruth(Record, frozen=True):
    """The images of a gallery that entail a caption. Images in neither list do not.

    Attributes:
        caption: id of its text. gallery: the image set, all of whose images were judged.
        image: the picture it was written for, which is among `holds`.
        holds: pictures that it clearly describes, in the order of the gallery.
        doubtful: pictures on which people would not agree, likewise: neither right nor wrong.
        details: how many things it says.
    """

    KEY: ClassVar[tuple[str, ...]] = ("caption",)

    caption: str
    gallery: str
    image: str
    holds: tuple[str, ...]
    doubtful: tuple[str, ...]
    details: int


WORKER = "entailment"
"""What the names of classifiers begin with among the workers."""

Pair = tuple[str, str]


UNSURE = -1.0
"""Value of a judgment of a judge that neither accepts nor rejects: the pair is neither a positive nor a negative."""


def judge_verdicts(judgments: Iterable[Judgment]) -> dict[Pair, bool | None]:
    """Whether a judge calls (query, candidate) entailed, None if unsure: the latest round's any yes, then any no."""
    latest: dict[Pair, tuple[int, float]] = {}
    for row in judgments:
        if row.worker.startswith(WORKER):
            pair = (row.query, row.candidate)
            latest[pair] = max(latest.get(pair, (-1, 0.0)), (row.round, row.value))
    return {pair: None if value == UNSURE else value > 0 for pair, (_, value) in latest.items()}


def read_verdicts(path: Path) -> list[Judgment]:
    """A table of judgments: a file, or `judgments.jsonl` of a folder. Raises DataError where there is none."""
    file = path / "judgments.jsonl" if path.is_dir() else path
    if not file.is_file():
        hint = "name a table of judgments, or a folder that holds judgments.jsonl"
        raise DataError(f"{file} does not exist", hint=hint)
    return read_table(file, Judgment)

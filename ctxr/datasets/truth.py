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
        doubtful: pictures on which people would not agree, likewise. They are neither right nor wrong.
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


def verdicts(judgments: Iterable[Judgment]) -> dict[Pair, bool]:
    """Whether a classifier calls a (query, candidate) entailed; of several rounds the latest counts, and in it any yes."""
    latest: dict[Pair, tuple[int, bool]] = {}
    for row in judgments:
        if row.worker.startswith(WORKER):
            pair, entailed = (row.query, row.candidate), row.value > 0
            previous = latest.get(pair, (-1, False))
            if row.round >= previous[0]:
                latest[pair] = (row.round, entailed or (row.round == previous[0] and previous[1]))
    return {pair: entailed for pair, (_, entailed) in latest.items()}


def read_judgments(path: Path) -> list[Judgment]:
    """A table of judgments: a file, or `judgments.jsonl` of a folder. Raises DataError where there is none."""
    file = path / "judgments.jsonl" if path.is_dir() else path
    if not file.is_file():
        raise DataError(
            f"{file} does not exist", hint="name a table of judgments, or a folder that holds judgments.jsonl"
        )
    return read_table(file, Judgment)

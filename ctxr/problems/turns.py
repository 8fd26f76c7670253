"""What evaluations of intent keep of each dialogue, which the report shows beside its photos."""

from typing import ClassVar

from ctxr.store.records import Record

TURNS = "turns.jsonl"
"""Table of an evaluation: `PredictedTurns` of each scorer and dialogue."""


class PredictedTurns(Record, frozen=True):
    """What a scorer, `RUN/seedN` where there are several seeds, says of a dialogue.

    Attributes:
        values: how sure it is, after each turn (`talks.merged`) before the photo, that the photo comes next; it does after the last.
        threshold: from which value on it would share. first: turn, from 1, after which it would share first; None for no turn.
    """

    KEY: ClassVar[tuple[str, ...]] = ("run", "query")

    run: str
    query: str
    split: str
    values: tuple[float, ...]
    threshold: float
    first: int | None

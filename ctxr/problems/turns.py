"""What is kept of a dialogue after each turn: how sure a run is that the photo comes next."""

from typing import ClassVar

from ctxr.store.records import Record

TURNS = "turns.jsonl"


class TurnScores(Record, frozen=True):
    """What a run said of one dialogue; a run of several seeds has a row for each, `RUN/seedN`.

    Attributes:
        values: probability after each merged turn that the photo is shared next. threshold: at which the run would share.
        first: number, from 1, of the first turn after which it would; 0 for none. right: whether that is the last one.
    """

    KEY: ClassVar[tuple[str, ...]] = ("run", "query")

    run: str
    query: str
    split: str
    values: tuple[float, ...]
    threshold: float
    first: int
    right: bool

"""The tables of a run that grow seed by seed: what each epoch came to, and how long it took."""

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from ctxr.data.records import Record
from ctxr.data.tables import read_table, write_table

if TYPE_CHECKING:
    from ctxr.models.training.state import Epoch

HISTORY, CLOCK = "history.jsonl", "clock.jsonl"


class HistoryRow(Record, frozen=True):
    """What an epoch of a seed came to: mean loss of its queries, accuracy on valid 0..1; None where it was not judged."""

    KEY = ("seed", "epoch")

    seed: int
    epoch: int
    loss: float
    accuracy: float | None


class ClockRow(Record, frozen=True):
    """How long an epoch took: the one table that differs between equal runs, so no manifest lists it."""

    KEY = ("seed", "epoch")

    seed: int
    epoch: int
    seconds: float


def write_history(run: Path, seed: int, epochs: Iterable["Epoch"]) -> None:
    """Put the epochs of a seed in the place of those that the run had of it."""
    rows = list(epochs)
    others = [row for row in read_history(run) if row.seed != seed]
    write_table(run / HISTORY, others + [HistoryRow(seed, row.epoch, row.loss, row.accuracy) for row in rows])
    clocks = [row for row in _read_clock(run) if row.seed != seed]
    write_table(run / CLOCK, clocks + [ClockRow(seed, row.epoch, round(row.seconds, 3)) for row in rows])


def drop_seeds(run: Path, seeds: int) -> None:
    """Keep the epochs of the first `seeds` seeds alone: a run may have had more."""
    write_table(run / HISTORY, [row for row in read_history(run) if row.seed < seeds])
    write_table(run / CLOCK, [row for row in _read_clock(run) if row.seed < seeds])


def read_history(run: Path) -> list[HistoryRow]:
    """What is known of every epoch."""
    return read_table(run / HISTORY, HistoryRow) if (run / HISTORY).exists() else []


def _read_clock(run: Path) -> list[ClockRow]:
    return read_table(run / CLOCK, ClockRow) if (run / CLOCK).exists() else []

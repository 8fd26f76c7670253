"""What answers so far say about those to come: how long one takes, and below which pay nobody is asked."""

from pathlib import Path
from statistics import median

from ctxr.annotation.cost import FLOOR
from ctxr.annotation.records import Answer, Unit
from ctxr.data.artifacts import MANIFEST, open_artifact
from ctxr.data.tables import read_table
from ctxr.pipelines.tasks_artifact import JUDGMENTS

PILOT = 20
"""Timed answers from which a median says something."""


def answered_work(workdir: Path) -> list[tuple[Unit, Answer]]:
    """Every imported answer with its unit, checks of the workers left out; empty before the first import."""
    folder = workdir / JUDGMENTS
    if not (folder / MANIFEST).is_file():
        return []
    units = {unit.id: unit for unit in read_table(folder / "units.jsonl", Unit) if unit.purpose == "work"}
    return [(units[one.unit], one) for one in read_table(folder / "answers.jsonl", Answer) if one.unit in units]


def median_seconds(task: str, pilot: list[tuple[Unit, Answer]]) -> tuple[float | None, int]:
    """Median time of an answer to a task, and of how many; (None, 0) where nobody was timed."""
    times = [one.seconds for unit, one in pilot if unit.task == task and one.seconds is not None]
    return (median(times), len(times)) if times else (None, 0)


def planned_floor(workdir: Path) -> int:
    """Cents an hour below which nothing is launched: what `ctxr plan` was told, else Prolific's."""
    folder = workdir / "plan"
    if not (folder / MANIFEST).is_file():
        return FLOOR
    return int(open_artifact(folder, "plan").manifest.config["floor"])

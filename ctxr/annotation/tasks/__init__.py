"""The tasks of the crowd. A task is data (a `Unit`) and three pure functions: render, validate, score.

It never knows which backend serves it: `render` says what is on the page as a `Form`, `validate` says what is wrong with
the values that came back, `score` turns them into rows. Nothing here reads a clock, a file or a random number.
"""

from collections.abc import Collection, Mapping
from typing import Protocol

from ctxr.annotation.forms import Form
from ctxr.annotation.records import Answer, Outcome, TaskName, Unit
from ctxr.annotation.tasks import describe, dialogue, entail, retrieve, tag, verify
from ctxr.annotation.tasks.values import Exposure, Values
from ctxr.annotation.wording import Problem
from ctxr.errors import DataError


class Task(Protocol):
    """What a module of this package offers. `SEATS` workers do one unit together; `FRESH`: only who has not seen its set."""

    SEATS: int
    FRESH: bool

    def render(self, unit: Unit, order: tuple[str, ...], seat: int = 0) -> Form:
        """The form with the pictures in `order`."""

    def validate(self, unit: Unit, values: Values, exposure: Exposure) -> list[Problem]:
        """What is wrong with the values, as kind sentences; empty where the answer can be taken."""

    def score(self, unit: Unit, answer: Answer) -> Outcome:
        """Rows that a valid answer is worth, and whether it is right."""


_TASKS: Mapping[str, Task] = {
    "describe": describe,
    "retrieve": retrieve,
    "dialogue": dialogue,
    "verify": verify,
    "tag": tag,
    "entail": entail,
}

NAMES: tuple[TaskName, ...] = ("describe", "retrieve", "dialogue", "verify", "tag", "entail", "audit")


def task_of(unit: Unit) -> Task:
    """The functions for a unit; an audit is the task that it looks at again. Raises DataError for an audit of nothing."""
    name = unit.like if unit.task == "audit" else unit.task
    if name is None or name == "audit":
        raise DataError(f"unit {unit.id!r} is an audit that does not say of what task")
    return _TASKS[name]


def counts(answer: Answer, blocked: Collection[str]) -> bool:
    """Whether an answer counts: neither its worker nor the partner in a talk is among the `blocked`."""
    return {answer.worker, *answer.values.get(dialogue.PAIR, ())}.isdisjoint(blocked)


def places(unit: Unit) -> int:
    """How many answers a unit takes at most; those of workers who are or were blocked take no place, as others replace them."""
    return unit.most * task_of(unit).SEATS

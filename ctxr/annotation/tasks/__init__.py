"""The tasks of the crowd: what a `Unit` asks, as a form, and what an answer to it is worth."""

from collections.abc import Collection, Mapping

from ctxr.annotation.records import Answer, TaskName, Unit
from ctxr.annotation.tasks import describe, dialogue, entail, own, retrieve, review, tag
from ctxr.annotation.tasks.base import Task
from ctxr.annotation.tasks.values import Exposure
from ctxr.annotation.wording import Problem, first_problem
from ctxr.errors import DataError

_TASKS: Mapping[str, Task] = {
    "describe": describe.DescribeTask(),
    "retrieve": retrieve.RetrieveTask(),
    "dialogue": dialogue.DialogueTask(),
    "review": review.ReviewTask(),
    "tag": tag.TagTask(),
    "entail": entail.EntailTask(),
    "own": own.OwnTask(),
}

MAKES_WORK = tuple(name for name, task in _TASKS.items() if task.MAKES_WORK)
"""Tasks whose answers give others work, for which the image set must be known."""

NAMES: tuple[TaskName, ...] = ("describe", "retrieve", "dialogue", "review", "tag", "entail", "own", "repeat")


def task_of(unit: Unit) -> Task:
    """The task of a unit; of a second look, the task that it repeats. Raises DataError for a second look at nothing."""
    name = unit.like if unit.task == "repeat" else unit.task
    if name is None or name == "repeat":
        raise DataError(f"unit {unit.id!r} repeats a unit and does not say of what task")
    return _TASKS[name]


def problems_of(unit: Unit, answer: Answer, exposure: Exposure) -> list[Problem]:
    """Why an answer is not taken, on any backend; empty where it is. Any order is taken: it says what the worker saw."""
    problem = first_problem(
        (not answer.worker, "nobody", "The answer names no worker."),
        (answer.worker in unit.authors, "own_work", "Workers may not judge their own work."),
    )
    return [problem] if problem else task_of(unit).validate(unit, answer.values, exposure)


def counts(unit: Unit, answer: Answer, blocked: Collection[str]) -> bool:
    """Whether an answer counts as a vote: neither its worker nor the partner in a talk is among the `blocked`."""
    trusted = {answer.worker, *answer.values.get(dialogue.PAIR, ())}.isdisjoint(blocked)
    return trusted and task_of(unit).is_vote(answer.values)


def most_answers(unit: Unit) -> int:
    """How many answers a unit takes at most, without those of workers who are or were blocked, whom others replace."""
    return unit.most * task_of(unit).SEATS

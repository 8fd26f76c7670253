"""A task: its form, the problems of values that come back, and the rows that an answer makes."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import ClassVar

from ctxr.annotation.forms import BROKEN, PROBLEM, Choice, Field, Form, Mark, Order, Pick, Talk, Write
from ctxr.annotation.records import Answer, Outcome, Unit
from ctxr.annotation.tasks.values import ODD_CHARACTERS, Exposure, Values, odd, too_long
from ctxr.annotation.wording import Problem, first_problem
from ctxr.store.records import Judgment, Query
from ctxr.web.language import _


class Task(ABC):
    """Pure functions of a unit: they read no clock, no file and no random number, and do not know which backend serves it.

    Attributes:
        SEATS: workers who do one unit together.
        FRESH: whether it is only for workers who have seen none of its pictures.
        MAKES_WORK: whether its answers give others work; one who cannot answer leaves the unit to somebody else.
    """

    SEATS: ClassVar[int] = 1
    FRESH: ClassVar[bool] = False
    MAKES_WORK: ClassVar[bool] = False

    @abstractmethod
    def render(self, unit: Unit, order: tuple[str, ...], seat: int = 0) -> Form:
        """The form with the pictures in `order`."""

    def validate(self, unit: Unit, values: Values, exposure: Exposure) -> list[Problem]:
        """What is wrong with the values, for the worker: what is missing, was not offered, is too long or unknown; else `wrong`."""
        form = self.render(unit, unit.images)
        problems: list[Problem | None] = []
        told = bool(values.get(PROBLEM))
        for field in form.asked:
            filled = values.get(field.name, ())
            missing = not (told or getattr(field, "optional", False) or any(map(str.strip, filled)))
            problems.append(first_problem(*_checks(field, form, filled, missing)))
        unasked = bool(values.keys() - {field.name for field in form.asked})
        unexpected = _("The page sent unexpected data. Please load it again.")
        problems.append(first_problem((unasked, "not_asked", unexpected)))
        found = [problem for problem in problems if problem]
        return found if found or told else self.wrong(unit, values, exposure)

    def wrong(self, unit: Unit, values: Values, exposure: Exposure) -> list[Problem]:
        """What is wrong with values that are all there, by rules of the task's own."""
        return []

    def score(self, unit: Unit, answer: Answer) -> Outcome:
        """The rows of a valid answer, and whether it is right; who cannot tell has found no truth."""
        if not answer.values.get(PROBLEM):
            return self.worth(unit, answer)
        return Outcome(right=False if unit.truth and self.is_vote(answer.values) else None)

    def is_vote(self, values: Values) -> bool:
        """Whether an answer takes one of the places of its unit: not where a picture is broken, nor where the worker cannot make what
        others are to judge; then the unit goes to somebody else."""
        told = values.get(PROBLEM, ())
        return BROKEN not in told and not (told and self.MAKES_WORK)

    @abstractmethod
    def worth(self, unit: Unit, answer: Answer) -> Outcome:
        """The rows that an answer to the task's own fields is worth, and whether it is right."""


def _checks(field: Field, form: Form, filled: Sequence[str], missing: bool) -> list[tuple[bool, str, str]]:
    """What may be wrong with what was filled into a field, most important first: whether it is, a code, and what is said."""
    what, many = field.legend, len(filled) > 1
    if isinstance(field, Talk):
        return []
    if isinstance(field, Write):
        text, most = filled[0] if filled else "", field.most_characters
        return [
            (many, "too_many_chosen", _("Please send one text.")),
            (missing, "empty", _("Please write something: {what}").format(what=what)),
            (len(text) > most, "too_long", too_long(len(text), most)),
            (odd(text), ODD_CHARACTERS.code, _(ODD_CHARACTERS.sentence)),
        ]
    blank_counts = isinstance(field, Mark | Order)  # what a page sends of a place that was left empty
    checks = [
        (missing and (blank_counts or not filled), "nothing_chosen", _("Please answer: {what}").format(what=what))
    ]
    if isinstance(field, Mark):
        outside = many or not all(map(field.holds, filled))
        return [*checks, (outside, "not_marked", _("Please mark a place within the picture: {what}").format(what=what))]
    if isinstance(field, Order):
        unordered = bool(filled) and sorted(filled) != sorted(option.value for option in form.options(field))
        return [*checks, (unordered, "not_ordered", _("Please give each a place of its own: {what}").format(what=what))]
    offered = [one.image for one in form.pictures] if isinstance(field, Pick) else [one.value for one in field.options]
    several = isinstance(field, Choice) and field.several
    unknown = not {*offered}.issuperset(filled) or len({*filled}) < len(filled)
    return [
        *checks,
        (many and not several, "too_many_chosen", _("Please choose only one: {what}").format(what=what)),
        (unknown, "not_offered", _("That answer was not among those offered. Please choose again.")),
    ]


class LabelTask(Task):
    """A task whose answer is labels, in `FIELD`. `ALONE` excludes all others; `MIXED` is said where one stands beside it."""

    FIELD: ClassVar[str]
    ALONE: ClassVar[str | None] = None
    MIXED: ClassVar[Problem]

    def wrong(self, unit: Unit, values: Values, exposure: Exposure) -> list[Problem]:
        """`ALONE` stands alone."""
        mixed = self.ALONE in values[self.FIELD] and len(values[self.FIELD]) > 1
        return [Problem(self.MIXED.code, _(self.MIXED.sentence))] if mixed else []

    def worth(self, unit: Unit, answer: Answer) -> Outcome:
        """The query that asks for labels, and a judgment for each: 1 = chosen, 0 = not chosen."""
        chosen = set(answer.values.get(self.FIELD, ()))
        correct = chosen == set(unit.truth) if unit.truth else None
        if unit.purpose != "work" or unit.query is None:
            return Outcome(right=correct)
        rows = tuple(
            Judgment(unit.query, label, answer.worker, float(label in chosen), answer.at, answer.seconds, unit.round)
            for label in unit.labels
        )
        query = Query(unit.query, unit.image_set, unit.text_ids, unit.labels)
        return Outcome(queries=(query,), judgments=rows, right=correct)

"""Describe the marked image for workers who look for it in its set (ImageCoDe, section 3.2)."""

from ctxr.annotation.forms import Form, Write, pictures_shown
from ctxr.annotation.records import Answer, Outcome, Unit
from ctxr.annotation.tasks.base import Task
from ctxr.annotation.tasks.values import Exposure, Values, clean, query_of
from ctxr.annotation.wording import RULES, Problem, wording_problems
from ctxr.store.records import Judgment, Query, Text
from ctxr.web.language import _, name_of_language

FIELD = "description"
REASON = "reason"
"""Field in which a worker says why the wording check is wrong; reviewers see it."""


class DescribeTask(Task):
    """A description of the target; one worker may describe several targets of a set."""

    MAKES_WORK = True

    def render(self, unit: Unit, order: tuple[str, ...], seat: int = 0) -> Form:
        """The set with its target marked, and a field for the description."""
        note = _("One to three sentences in plain {language}.").format(language=name_of_language(unit.limits.language))
        return Form(
            title=_("Describe the marked image"),
            instruction=(
                _("Someone else will see these images without the mark. Write what they need to find the marked one."),
                _("Say enough to tell it from the others, not everything that differs."),
                _(
                    "Do not mention the other images: the reader does not know which ones you compared, nor their order."
                ),
            ),
            pictures=pictures_shown(order, unit.target),
            sequence=unit.ordered,
            fields=(
                Write(FIELD, _("Your description"), note, 1000, checked=True),
                Write(
                    REASON,
                    _("Should the description be kept even though it breaks a rule?"),
                    _("Give your reason; reviewers will read it."),
                    300,
                    optional=True,
                    exception=True,
                ),
            ),
        )

    def wrong(self, unit: Unit, values: Values, exposure: Exposure) -> list[Problem]:
        """The `wording_problems` of the description; a reason overrules all but an empty text."""
        overruled = bool("".join(values.get(REASON, ())).strip())
        complaints = wording_problems(values[FIELD][0], exposure.own, exposure.others, unit.limits)
        return [problem for problem in complaints if problem.code not in RULES or not overruled]

    def worth(self, unit: Unit, answer: Answer) -> Outcome:
        """The text, its query about the set, and the target as judgment of worker `gold`."""
        query = query_of(unit.id, answer.worker)
        return Outcome(
            texts=(Text(query, clean(answer.values[FIELD][0]), answer.worker),),
            queries=(Query(query, unit.image_set, (query,)),),
            judgments=(Judgment(query, unit.target or "", "gold", 1.0),),
        )

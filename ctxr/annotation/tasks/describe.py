"""Describe the marked image for other workers, who look for it in its set (ImageCoDe, section 3.2)."""

from ctxr.annotation.forms import Form, Write, pictures_of
from ctxr.annotation.records import Answer, Outcome, Unit
from ctxr.annotation.tasks.base import Task
from ctxr.annotation.tasks.values import Exposure, Values, clean, query_of
from ctxr.annotation.wording import RULES, Problem, wording_problems
from ctxr.store.records import Judgment, Query, Text

FIELD = "description"
REASON = "reason"
"""Field in which a worker says why the wording check is wrong; reviewers see it."""


class DescribeTask(Task):
    """A description of the target; one worker may describe several targets of a set."""

    MAKES_WORK = True

    def render(self, unit: Unit, order: tuple[str, ...], seat: int = 0) -> Form:
        """The set with its target marked, and a field for the description."""
        return Form(
            title="Describe the marked image",
            instruction=(
                "Someone else will see these images without the mark. Write what they need to find the marked one.",
                "Say enough to tell it from the others, not everything that differs.",
                "Do not mention the other images: the reader does not know which ones you compared, nor their order.",
            ),
            pictures=pictures_of(order, unit.target),
            sequence=unit.ordered,
            fields=(
                Write(FIELD, "Your description", "One to three sentences in plain English.", 1000, checked=True),
                Write(
                    REASON,
                    "Should the description stand although it breaks a rule?",
                    "Give your reason; reviewers will read it.",
                    300,
                    optional=True,
                ),
            ),
        )

    def wrong(self, unit: Unit, values: Values, exposure: Exposure) -> list[Problem]:
        """What is wrong with the description (`wording_problems`); a reason overrules all but an empty text."""
        overruled = bool("".join(values.get(REASON, ())).strip())
        complaints = wording_problems(values[FIELD][0], exposure.own, exposure.others, unit.limits)
        return [problem for problem in complaints if problem.code not in RULES or not overruled]

    def worth(self, unit: Unit, answer: Answer) -> Outcome:
        """The text, the query that asks it against the set, and the target as judgment of worker `gold`."""
        query = query_of(unit.id, answer.worker)
        return Outcome(
            texts=(Text(query, clean(answer.values[FIELD][0]), answer.worker),),
            queries=(Query(query, unit.image_set, (query,)),),
            judgments=(Judgment(query, unit.target or "", "gold", 1.0),),
        )

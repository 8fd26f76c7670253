"""What tag, verify and entail share: labels are the candidates, and a worker looks at each of them."""

from ctxr.annotation.forms import Form
from ctxr.annotation.records import Answer, Outcome, Unit
from ctxr.annotation.tasks.values import Values, misfits
from ctxr.annotation.wording import Problem
from ctxr.data.records import Judgment, Query


def alone(form: Form, values: Values, field: str, label: str, problem: Problem) -> list[Problem]:
    """What is wrong with the values, where `label` goes with no other: `problem` if it does."""
    wrong = misfits(form, values)
    if not wrong and label in values[field] and len(values[field]) > 1:
        return [problem]
    return wrong


def judged(unit: Unit, answer: Answer, field: str) -> Outcome:
    """The query that asks for labels, and one judgment for each: 1 = chosen, 0 = looked, and no."""
    chosen = set(answer.values.get(field, ()))
    right = chosen == set(unit.truth) if unit.truth else None
    if unit.purpose != "work" or unit.query is None:
        return Outcome(right=right)
    rows = tuple(
        Judgment(unit.query, label, answer.worker, float(label in chosen), answer.at, answer.seconds, unit.round)
        for label in unit.labels
    )
    query = Query(unit.query, unit.image_set, unit.text_ids, unit.labels)
    return Outcome(queries=(query,), judgments=rows, right=right)

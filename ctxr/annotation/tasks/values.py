"""Values that come back from a form, checked against its fields; labels and ids that tasks share."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from unicodedata import category

from ctxr.annotation.forms import Choice, Form, Pick, Talk, Write
from ctxr.annotation.records import Answer, Outcome, Unit
from ctxr.annotation.wording import Problem
from ctxr.store.records import Judgment, Query

ODD_CHARACTERS = Problem("odd_characters", "The text contains characters that cannot be shown. Please type it again.")

_UNSEEN = ("Cc", "Cf", "Cs", "Co", "Cn")
"""Unicode's categories of what is no sign: controls, formats (such as a change of direction), halves, private and unassigned."""

_HARMLESS = "\n\r\t\u200c\u200d"
"""Line ends, the tab, and the joiners that scripts and emoji are written with."""

Values = Mapping[str, Sequence[str]]
"""Values by the name of their field, as a browser posts them."""


@dataclass(frozen=True)
class Exposure:
    """What the worker, and others, wrote before: against texts sent twice or copied.

    Attributes:
        own: earlier descriptions of this worker. others: what other people wrote about the same set.
    """

    own: tuple[str, ...] = ()
    others: tuple[str, ...] = ()


def misfits(form: Form, values: Values) -> list[Problem]:
    """What does not fit the fields: something missing, something that was not offered, something too long."""
    problems: list[Problem] = []
    for field in form.fields:
        filled = list(values.get(field.name, ()))
        if isinstance(field, Write):
            problems += _text_problems(field, filled)
        elif not isinstance(field, Talk):
            problems += _choice_problems(form, field, filled)
    if values.keys() - {field.name for field in form.fields}:
        problems.append(Problem("not_asked", "The page sent unexpected data. Please load it again."))
    return problems


def _choice_problems(form: Form, field: Pick | Choice, chosen: list[str]) -> list[Problem]:
    several, optional = (field.several, field.optional) if isinstance(field, Choice) else (False, False)
    if isinstance(field, Choice):
        offered = {option.value for option in field.options}
    else:
        offered = {picture.image for picture in form.gallery.pictures} if form.gallery else set()
    if not chosen and not optional:
        return [Problem("nothing_chosen", f"Please answer: {field.legend}")]
    if len(chosen) > 1 and not several:
        return [Problem("too_many_chosen", f"Please choose only one: {field.legend}")]
    if not offered.issuperset(chosen) or len(set(chosen)) < len(chosen):
        return [Problem("not_offered", "That answer was not among those offered. Please choose again.")]
    return []


def _text_problems(field: Write, texts: list[str]) -> list[Problem]:
    text = texts[0] if texts else ""
    if len(texts) > 1:
        return [Problem("too_many_chosen", "Please send one text.")]
    if not text.strip():
        return [] if field.optional else [Problem("empty", f"Please write something: {field.legend}")]
    if len(text) > field.most_characters:
        return [Problem("too_long", f"Please stay within {field.most_characters} characters; that is {len(text)}.")]
    return [ODD_CHARACTERS] if odd(text) else []


def odd(text: str) -> bool:
    """Whether a text contains invisible characters or ones that change how others are displayed.

    >>> odd("a cat"), odd("a \\u202etac")
    (False, True)
    """
    return any(sign not in _HARMLESS and category(sign) in _UNSEEN for sign in text)


def clean(text: str) -> str:
    """A text as it is stored: spaces and line ends made plain, nothing else."""
    return " ".join(text.split())


def exclusive(form: Form, values: Values, field: str, label: str, problem: Problem) -> list[Problem]:
    """What is wrong with the values, where `label` goes with no other: `problem` if it does."""
    wrong = misfits(form, values)
    if not wrong and label in values[field] and len(values[field]) > 1:
        return [problem]
    return wrong


def label_outcome(unit: Unit, answer: Answer, field: str) -> Outcome:
    """The query that asks for labels, and one judgment for each: 1 = chosen, 0 = seen but not chosen."""
    chosen = set(answer.values.get(field, ()))
    correct = chosen == set(unit.truth) if unit.truth else None
    if unit.purpose != "work" or unit.query is None:
        return Outcome(right=correct)
    rows = tuple(
        Judgment(unit.query, label, answer.worker, float(label in chosen), answer.at, answer.seconds, unit.round)
        for label in unit.labels
    )
    query = Query(unit.query, unit.image_set, unit.text_ids, unit.labels)
    return Outcome(queries=(query,), judgments=rows, right=correct)


def stable_id(prefix: str, *parts: str) -> str:
    """An id from what it is made of.

    >>> stable_id("q", "unit", "worker") == stable_id("q", "unit", "worker")
    True
    """
    return f"{prefix}-{hashlib.sha256(chr(0).join(parts).encode()).hexdigest()[:16]}"


def query_of(unit: str, worker: str) -> str:
    """The query that a worker's description in a unit makes."""
    return stable_id("q", unit, worker)

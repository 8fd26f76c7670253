"""What came back from a form: checked against the fields, whoever sent it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ctxr.annotation.forms import Choice, Form, Pick, Talk, Write
from ctxr.annotation.wording import Problem

Values = Mapping[str, Sequence[str]]
"""Values by the name of their field, as a browser posts them."""


@dataclass(frozen=True)
class Met:
    """What the worker, and others, wrote before: against texts sent twice or copied.

    Attributes:
        own: earlier descriptions of this worker. others: what other people wrote about the same set.
    """

    own: tuple[str, ...] = ()
    others: tuple[str, ...] = ()


def misfits(form: Form, values: Values) -> list[Problem]:
    """What does not fit the fields: something missing, something that was not offered, something too long."""
    found: list[Problem] = []
    for field in form.fields:
        given = list(values.get(field.name, ()))
        if isinstance(field, Talk):
            continue
        if isinstance(field, Write):
            found += _written(field, given)
            continue
        offered = _offered(form, field)
        several = isinstance(field, Choice) and field.several
        optional = isinstance(field, Choice) and field.optional
        if not given and not optional:
            found.append(Problem("nothing_chosen", f"Please answer: {field.legend}"))
        elif len(given) > 1 and not several:
            found.append(Problem("too_many_chosen", f"Please choose only one: {field.legend}"))
        elif any(value not in offered for value in given) or len(set(given)) < len(given):
            found.append(Problem("not_offered", "That answer was not among those offered. Please choose again."))
    known = {field.name for field in form.fields}
    if any(name not in known for name in values):
        found.append(Problem("not_asked", "Something was sent that nobody asked for. Please load the page again."))
    return found


def _written(field: Write, given: list[str]) -> list[Problem]:
    text = given[0] if given else ""
    if len(given) > 1:
        return [Problem("too_many_chosen", "Please send one text.")]
    if not text.strip():
        return [] if field.optional else [Problem("empty", f"Please write something: {field.legend}")]
    if len(text) > field.most_characters:
        return [Problem("too_long", f"Please stay within {field.most_characters} characters; that is {len(text)}.")]
    if any(ord(sign) < 32 and sign not in "\n\r\t" for sign in text):
        return [Problem("odd_characters", "The text holds characters that cannot be shown. Please type it anew.")]
    return []


def _offered(form: Form, field: Pick | Choice) -> set[str]:
    if isinstance(field, Choice):
        return {option.value for option in field.options}
    return {picture.image for picture in form.gallery.pictures} if form.gallery else set()


def clean(text: str) -> str:
    """A text as it is stored: spaces and line ends made plain, nothing else."""
    return " ".join(text.split())

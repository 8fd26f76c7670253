"""A task of a researcher's own: the fields that a TOML file lists, asked of a picture, a set or a description."""

from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Annotated, Literal, NamedTuple, TypeVar

import msgspec

from ctxr.annotation import forms
from ctxr.annotation.forms import Choice, Form, Line, Mark, Option, Order, OwnField, Passage, Scale, Write
from ctxr.annotation.records import Answer, Outcome, OwnQuestions, Unit
from ctxr.annotation.tasks import dialogue
from ctxr.annotation.tasks.base import Task
from ctxr.engine.options import read_toml
from ctxr.errors import DataError, did_you_mean
from ctxr.store.tables import fault
from ctxr.web.language import _

KINDS: Mapping[str, type[OwnField]] = {
    "choice": Choice, "several": Choice, "text": Write, "scale": Scale, "point": Mark, "box": Mark, "order": Order,
}  # fmt: skip
"""The class of each kind of field; of two kinds with one class, the second has the flag of its name."""

_FLAGS = {"several", "box", "checked", "exception"}
_RESERVED = (forms.PROBLEM, forms.COMMENT, dialogue.FIELD, dialogue.PAIR, "counted", "csrf", "link", "view")

MOST_STEPS = 20
"""From one end of a scale to the other: each is a button."""

S = TypeVar("S", bound=msgspec.Struct)


class OwnFile(msgspec.Struct, frozen=True):
    """The file: what a unit is about, how many people answer it, and a table for each field."""

    title: str
    field: tuple[dict[str, object], ...]
    instruction: tuple[str, ...] = ()
    about: Literal["image", "set", "query"] = "image"
    votes: Annotated[int, msgspec.Meta(ge=1)] = 3


class OwnStudy(NamedTuple):
    """A file, and what it asks."""

    file: OwnFile
    asked: OwnQuestions


class OwnTask(Task):
    """The fields of `Unit.asked`."""

    def render(self, unit: Unit, order: tuple[str, ...], seat: int = 0) -> Form:
        """The pictures, the description if there is one, and the fields."""
        if not isinstance(unit.asked, OwnQuestions):
            raise DataError(f"unit {unit.id!r} has no questions", hint="export its tasks again")
        return Form(
            title=unit.asked.title,
            instruction=unit.asked.instruction,
            pictures=forms.pictures_shown(order, unit.target),
            sequence=unit.ordered,
            passages=(Passage(_("Description"), tuple(map(Line, unit.texts))),) if unit.texts else (),
            fields=unit.asked.fields,
        )

    def worth(self, unit: Unit, answer: Answer) -> Outcome:
        """No rows: what the answers come to is a table of its own."""
        return Outcome()


def field_kind(field: OwnField) -> str:
    """The kind of a field, as the file calls it."""
    kinds = [kind for kind, one in KINDS.items() if one is type(field)]
    return kinds[-1 if getattr(field, kinds[-1], False) else 0]


def read_own(path: Path) -> OwnStudy:
    """What a file asks. Raises UsageError where it cannot be read, DataError for what is wrong with it."""
    file = _converted(read_toml(path, "the task"), OwnFile, f"{path}")
    fields = [_field(row, f"{path}: field {place}") for place, row in enumerate(file.field, 1)]
    if not fields:
        hint = "begin each field with [[field]], and give its name, kind and legend"
        raise DataError(f"{path} asks nothing", hint=hint)
    names = [field.name for field in fields]
    for place, field in enumerate(fields):
        for wrong, what, hint in (
            *_rules(field, file.about),
            (field.name in names[:place], "is there twice", "rename one"),
        ):
            if wrong:
                raise DataError(f"{path}: the field {field.name!r} {what}", hint=hint)
    return OwnStudy(file, OwnQuestions(file.title, file.instruction, tuple(fields)))


def _field(row: Mapping[str, object], where: str) -> OwnField:
    kind = str(row.get("kind", ""))
    if kind not in KINDS:
        hint = did_you_mean(kind, KINDS, f"choose one of {', '.join(KINDS)}", 'kind = "{}"')
        raise DataError(f"{where}: there is no kind {kind!r}" if kind else f"{where} has no kind", hint=hint)
    told = {name: value for name, value in row.items() if name != "kind"}
    if isinstance(options := told.get("options"), list):
        rows = [one if isinstance(one, dict) else {"value": one} for one in options]
        rows = [{"label": one.get("value")} | one for one in rows]
        told["options"] = [_converted(one, Option, where) for one in rows]
    field = _converted(told, KINDS[kind], where, _FLAGS)
    return msgspec.structs.replace(field, **{kind: True}) if kind in _FLAGS else field


def _converted(value: object, kind: type[S], where: str, kept: Collection[str] = ()) -> S:
    """A table of the file as a class, whose fields in `kept` are no keys. Raises DataError for an unknown key, or another type."""
    known = sorted({*kind.__struct_fields__}.difference(kept))
    unknown = sorted(value.keys() - {*known}) if isinstance(value, dict) else []
    if unknown:
        hint = did_you_mean(unknown[0], known, f"known: {', '.join(known)}")
        raise DataError(f"{where}: unknown key {unknown[0]!r}", hint=hint)
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        raise DataError(f"{where}: {fault(error, kind)}", hint=f"known keys: {', '.join(known)}") from error


def _rules(field: OwnField, about: str) -> Iterator[tuple[bool, str, str]]:
    """Whether a field is wrong, what is, and a hint."""
    plain = field.name.isidentifier() and field.name.isascii() and field.name.islower()
    yield not plain, "has an odd name", "a name has letters a-z, digits and _, and begins with a letter"
    yield field.name in _RESERVED, "has a name that pages use", "give it another name"
    if isinstance(field, Choice | Order) and (field.options or isinstance(field, Choice)):
        values = [option.value for option in field.options]
        yield len(values) < 2, "has too few options", 'options = ["yes", "no"]'
        labels = {option.label for option in field.options}
        yield min(len({*values}), len(labels)) < len(values), "has an option twice", "give each another value and label"
        yield not all(map(str.strip, values)), "has an option without a value", "give each a value"
    elif isinstance(field, Order):
        yield about == "image", "orders pictures, and there is one", 'about = "set", or options of its own'
    elif isinstance(field, Scale):
        yield field.low >= field.high, f"goes from {field.low} to {field.high}", "give a low below high"
        yield field.high - field.low > MOST_STEPS, "has too many steps", f"{MOST_STEPS} at most"
    elif isinstance(field, Mark):
        yield about == "set", "marks one picture, and a set has several", 'about = "image", or "query"'
    elif isinstance(field, Write):
        yield field.most_characters < 1, "takes no text", "most_characters = 300"

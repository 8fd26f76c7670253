"""What a worker sees and fills in; a backend turns it into a page or a labelling project.

A form holds image ids, never paths, addresses or the right answer.
"""

import re
from collections.abc import Mapping, Sequence

import msgspec

from ctxr.web.language import _, number


class Picture(msgspec.Struct, frozen=True):
    """A picture of a page. `place` counts from 1 as shown; `marked` is the target to describe."""

    image: str
    place: int
    marked: bool = False


def pictures_shown(order: Sequence[str], marked: str | None = None) -> tuple[Picture, ...]:
    """The pictures in the order shown."""
    return tuple(Picture(image, place, image == marked) for place, image in enumerate(order, 1))


class Line(msgspec.Struct, frozen=True):
    """A sentence to read; `speaker` is 0 or 1 in a dialogue, else None. `share` marks where the photo was shared."""

    text: str
    speaker: int | None = None
    share: bool = False


class Passage(msgspec.Struct, frozen=True):
    """Something to read before answering; what is `judged` stands out from what is only given."""

    title: str
    lines: tuple[Line, ...]
    judged: bool = False


class Pick(msgspec.Struct, frozen=True, tag=True):
    """Choose one of the pictures; the answer is its image id."""

    name: str
    legend: str


class Option(msgspec.Struct, frozen=True):
    """One answer of a choice: the value that is stored, what is read, and a line of explanation."""

    value: str
    label: str
    note: str = ""


class Choice(msgspec.Struct, frozen=True, tag=True):
    """Choose one option, or any number with `several`; `optional` where none is an answer too."""

    name: str
    legend: str
    options: tuple[Option, ...]
    several: bool = False
    optional: bool = False
    note: str = ""


class Write(msgspec.Struct, frozen=True, tag=True):
    """Write a text.

    Attributes:
        checked: the page shows problems with the wording while it is typed. exception: it is asked for only where there are some.
    """

    name: str
    legend: str
    note: str = ""
    most_characters: int = 2000
    checked: bool = False
    optional: bool = False
    exception: bool = False


class Scale(msgspec.Struct, frozen=True, tag=True):
    """Choose a whole number from `low` to `high`; the labels say what the two mean."""

    name: str
    legend: str
    low: int
    high: int
    low_label: str = ""
    high_label: str = ""
    note: str = ""
    optional: bool = False

    @property
    def options(self) -> tuple[Option, ...]:
        """An option for each number."""
        notes = {self.high: self.high_label, self.low: self.low_label}
        return tuple(Option(str(step), str(step), notes.get(step, "")) for step in range(self.low, self.high + 1))


class Mark(msgspec.Struct, frozen=True, tag=True):
    """Mark a point of the marked picture, or the only one, as "x,y"; or a `box` as "x,y,width,height": shares 0..1 of the picture from its
    top left, with four decimals."""

    name: str
    legend: str
    box: bool = False
    note: str = ""
    optional: bool = False

    def holds(self, value: str) -> bool:
        """Whether a value is a place within the picture; a box has an area."""
        parts = value.split(",")
        numbers = [int(part.replace(".", "")) for part in parts if re.fullmatch(r"[01]\.[0-9]{4}", part)]
        if len(numbers) != len(parts) or len(parts) != (4 if self.box else 2):
            return False
        sizes = numbers[2:] or (0, 0)
        inside = max(numbers[0] + sizes[0], numbers[1] + sizes[1]) <= 10000
        return inside and (not self.box or all(sizes))


def mark_place(percents: Sequence[str | float]) -> str:
    """The value of a `Mark` from percent of the picture: x and y, and of a box its width and height. Edges are rounded, so a box stays
    within the picture. What is no number is left as it is, and no mark `holds` it."""
    try:
        numbers = [float(one) for one in percents]
        starts = [round(start * 100) for start in numbers[:2]]
        ends = [round((start + size) * 100) for start, size in zip(numbers, numbers[2:], strict=False)]
    except (ValueError, OverflowError):
        return ",".join(map(str, percents))
    sizes = [end - start for start, end in zip(starts, ends, strict=False)]
    return ",".join(f"{number / 10000:.4f}" for number in (*starts, *sizes))


def percents_of(place: str) -> tuple[str, ...]:
    """What `mark_place` was given."""
    parts = place.split(",")
    is_place = all(re.fullmatch(r"-?[0-9]+\.[0-9]{4}", part) for part in parts)
    return tuple(f"{100 * float(part):.2f}".rstrip("0").rstrip(".") for part in parts) if is_place else tuple(parts)


class Order(msgspec.Struct, frozen=True, tag=True):
    """Put the options in order; the answer is their values, from the first place on. Without options, the pictures."""

    name: str
    legend: str
    options: tuple[Option, ...] = ()
    note: str = ""
    optional: bool = False


class Talk(msgspec.Struct, frozen=True, tag=True):
    """Talk with another worker, live, and share the photo after so many turns of both; only our own pages can render it."""

    name: str
    legend: str
    turns_before_share: int


OwnField = Choice | Write | Scale | Mark | Order
Field = Pick | Talk | OwnField

PROBLEM, COMMENT = "problem", "comment"
CANNOT_TELL, BROKEN = "cannot_tell", "broken"


def report_fields(pictures: int = 1) -> tuple[Choice, Write]:
    """What every page asks beside its own fields, with so many pictures; with a problem, these may stay empty."""
    options = (
        Option(CANNOT_TELL, _("I cannot tell"), _("no answer is right, or several are equally good")),
        Option(BROKEN, _("The picture is broken"), _("it is missing, cannot be recognised, or should not be here")),
    )
    told = Choice(PROBLEM, _("Something is wrong with this one"), options, optional=True)
    comment = _("Which image, and what is wrong?") if pictures > 1 else _("What is wrong?")
    return told, Write(COMMENT, comment, "", 1000, optional=True)


class Form(msgspec.Struct, frozen=True):
    """One page of work; in a `sequence` neighbouring pictures are consecutive in time, and arrow keys step through them.

    `fields` are those of the task; every form also has those of `report_fields`.
    """

    title: str
    instruction: tuple[str, ...]
    fields: tuple[Field, ...]
    pictures: tuple[Picture, ...] = ()
    sequence: bool = False
    passages: tuple[Passage, ...] = ()

    @property
    def asked(self) -> tuple[Field, ...]:
        """All fields of the page."""
        return (*self.fields, *report_fields(len(self.pictures)))

    def options(self, field: Order) -> tuple[Option, ...]:
        """What a field puts in order."""
        label = _("Image {place}")
        return field.options or tuple(Option(one.image, label.format(place=number(one.place))) for one in self.pictures)

    def without_blanks(self, values: Mapping[str, tuple[str, ...]]) -> dict[str, tuple[str, ...]]:
        """Values without those of optional fields that were left empty; beside a problem, without those of the task."""
        optional = {field.name for field in self.asked if getattr(field, "optional", False)}
        left_out = {name for name in optional if not any(map(str.strip, values.get(name, ())))}
        left_out |= set() if PROBLEM in left_out else {field.name for field in self.fields}
        return {name: texts for name, texts in values.items() if name not in left_out}

"""What a worker sees and fills in; a backend turns it into a page or a labelling project.

A form holds image ids, never paths, addresses or the right answer.
"""

from collections.abc import Mapping, Sequence

import msgspec

from ctxr.web.language import _


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


class Write(msgspec.Struct, frozen=True, tag=True):
    """Write a text. `checked`: the page shows problems with the wording while it is typed."""

    name: str
    legend: str
    note: str = ""
    most_characters: int = 2000
    checked: bool = False
    optional: bool = False


class Talk(msgspec.Struct, frozen=True, tag=True):
    """Talk with another worker, live, and share the photo after so many turns of both; only our own pages can render it."""

    name: str
    legend: str
    turns_before_share: int


Field = Pick | Choice | Write | Talk

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

    def without_blanks(self, values: Mapping[str, tuple[str, ...]]) -> dict[str, tuple[str, ...]]:
        """Values without those of optional fields that were left empty; beside a problem, without those of the task."""
        optional = {field.name for field in self.asked if getattr(field, "optional", False)}
        left_out = {name for name in optional if not any(map(str.strip, values.get(name, ())))}
        left_out |= set() if PROBLEM in left_out else {field.name for field in self.fields}
        return {name: texts for name, texts in values.items() if name not in left_out}

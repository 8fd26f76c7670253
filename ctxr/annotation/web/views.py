"""A `Form` as its template needs it: pictures by the names they have on this page, and what was typed before.

What a page says about a picture is its place; its id would tell a frame's number, and so the order of a shuffled set.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from ctxr.annotation.forms import Choice, Form, Pick, Talk, Write

Values = Mapping[str, Sequence[str]]


@dataclass(frozen=True)
class ShownPicture:
    """A picture on a page: `key` is its name there, `place` counts from 1, sides in pixels, 0 where they are not known."""

    key: str
    place: int
    marked: bool
    width: int
    height: int

    @property
    def label(self) -> str:
        """The alternative text for screen readers."""
        return f"Image {self.place}, the marked one" if self.marked else f"Image {self.place}"


@dataclass(frozen=True)
class FormView:
    """Everything on a page of work.

    Attributes:
        layout: `talk`, `pick` (a grid to choose from) or `read` (pictures beside the question).
        pictures: in the order shown. given: values by field, as they were typed or kept as a draft.
    """

    form: Form
    layout: str
    pictures: tuple[ShownPicture, ...]
    given: Values

    @property
    def step(self) -> bool:
        """Whether there are several pictures to step through."""
        return len(self.pictures) > 1

    @property
    def mixed(self) -> bool:
        """Whether pictures differ in shape: their grid then needs boxes of equal shape."""
        return len({round(one.width / max(1, one.height), 1) for one in self.pictures}) > 1


def view_of(form: Form, key: Callable[[str], str], sizes: Mapping[str, tuple[int, int]], values: Values) -> FormView:
    """The view of a form whose pictures are called `key(image id)`; `sizes` are (width, height) by image id."""
    pictures = tuple(
        ShownPicture(key(picture.image), picture.place, picture.marked, *sizes.get(picture.image, (0, 0)))
        for picture in (form.gallery.pictures if form.gallery else ())
    )
    kinds = {type(field) for field in form.fields}
    layout = "talk" if Talk in kinds else "pick" if Pick in kinds else "read"
    picks = {field.name for field in form.fields if isinstance(field, Pick)}
    filled = {name: tuple(map(key, texts)) if name in picks else tuple(texts) for name, texts in values.items()}
    return FormView(form, layout, pictures, filled)


def values_of(form: Form, key: Callable[[str], str], posted: Values) -> dict[str, tuple[str, ...]]:
    """What was posted, as the task understands it: pictures by their ids, line ends plain.

    A name that is no picture of this page stays as it came, and the task refuses it.
    """
    images = {key(picture.image): picture.image for picture in (form.gallery.pictures if form.gallery else ())}
    picks = {field.name for field in form.fields if isinstance(field, Pick)}
    texts = {field.name for field in form.fields if isinstance(field, Write)}
    values: dict[str, tuple[str, ...]] = {}
    for name, parts in posted.items():
        if name in picks:
            values[name] = tuple(images.get(part, f"?{part}") for part in parts)
        else:
            values[name] = tuple(part.replace("\r\n", "\n") if name in texts else part for part in parts)
    return values


def kind_of(field: object) -> str:
    """The template's name for a field: `choice`, `write`, `pick` or `talk`."""
    names: Mapping[type, str] = {Choice: "choice", Write: "write", Pick: "pick", Talk: "talk"}
    return names[type(field)]

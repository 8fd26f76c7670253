"""A unit as one rater sees it: image order, form, and a seal that detects edited pages."""

from dataclasses import dataclass

from ctxr.annotation.forms import Form, Passage, Picture
from ctxr.annotation.protocol import Protocol, shown_order
from ctxr.annotation.records import Unit
from ctxr.annotation.tasks import task_of


@dataclass(frozen=True)
class Sheet:
    """One unit for one rater. `order` are its images as they are shown."""

    unit: Unit
    slot: int
    order: tuple[str, ...]
    form: Form

    @property
    def pictures(self) -> tuple[Picture, ...]:
        """The pictures shown; none without a gallery."""
        return self.form.gallery.pictures if self.form.gallery else ()

    @property
    def marked(self) -> int | None:
        """Position of the marked picture, from 1."""
        return next((picture.place for picture in self.pictures if picture.marked), None)

    @property
    def shape(self) -> tuple[object, ...]:
        """What forms must share to be filled into one template: everything but pictures, texts and the mark."""
        form = self.form
        return (
            form.title,
            form.instruction,
            len(self.pictures),
            self.marked is not None,
            tuple(passage.title for passage in form.passages),
            form.fields,
        )


def sheet(unit: Unit, slot: int, seed: int) -> Sheet:
    """The unit as the rater in `slot` sees it."""
    order = shown_order(unit.images, unit.ordered, unit.id, slot, seed)
    return Sheet(unit, slot, order, task_of(unit).render(unit, order))


def raters(unit: Unit, protocol: Protocol) -> int:
    """Raters of a unit on platforms that cannot stop early; checks of the worker get as many as an evaluation unit."""
    return unit.most if unit.purpose == "work" else protocol.eval_most


def passage_text(passage: Passage) -> str:
    """The lines of a passage as one text: who says what, and where the photo was shared."""
    return "\n".join(
        "[the photo is shared]"
        if line.share
        else line.text
        if line.speaker is None
        else f"{'AB'[line.speaker]}: {line.text}"
        for line in passage.lines
    )

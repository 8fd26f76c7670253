"""Keep a dialogue, or say why not (PhotoChat, section 3: the third party's verification)."""

from ctxr.annotation.forms import Choice, Form, Line, Option, Passage, pictures_of
from ctxr.annotation.records import Unit
from ctxr.annotation.tasks.base import LabelTask
from ctxr.annotation.wording import Problem

FIELD = "verdict"

KEEP = "keep"

CODES = {
    "not_associated": "before it is shared, the talk has little to do with the photo",
    "unnatural": "people would not talk like that",
    "inappropriate": "rude, hateful or sexual words",
    "typos": "so many mistakes that it is hard to read",
    "gives_away": "one of them describes the task instead of talking",
}
"""Why a dialogue is dropped, and what is read beside the code."""

LABELS = (KEEP, *CODES)


class ReviewTask(LabelTask):
    """`keep`, or one or several faults."""

    FIELD, ALONE = FIELD, KEEP
    MIXED = Problem("keep_and_fault", "A conversation with a fault is not kept. Please untick one of them.")

    def render(self, unit: Unit, order: tuple[str, ...], seat: int = 0) -> Form:
        """The dialogue with the photo, and a box for each reason against it."""
        speakers = unit.speakers or (0,) * len(unit.texts)
        lines = tuple(Line(text, speaker, share=not text) for text, speaker in zip(unit.texts, speakers, strict=True))
        options = (
            Option(KEEP, "keep", "it is natural, clean, and leads to the photo"),
            *(Option(code, code.replace("_", " "), note) for code, note in CODES.items()),
        )
        return Form(
            title="Is this a good conversation?",
            instruction=("Two people talked, and one of them shared this photo. Keep the talk, or tick every fault.",),
            pictures=pictures_of(order),
            passages=(Passage("Conversation", lines),),
            fields=(Choice(FIELD, "Your verdict", options, several=True),),
        )

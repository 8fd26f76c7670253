"""Keep a dialogue, or say why not (PhotoChat, section 3: the third party's verification)."""

from ctxr.annotation.forms import Choice, Form, Line, Option, Passage, pictures_shown
from ctxr.annotation.records import Unit
from ctxr.annotation.tasks.base import LabelTask
from ctxr.annotation.wording import Problem
from ctxr.web.language import N_, _

FIELD = "verdict"

KEEP = "keep"

CODES = {
    "not_associated": (N_("not associated"), N_("before it is shared, the talk has little to do with the photo")),
    "unnatural": (N_("unnatural"), N_("people would not talk like that")),
    "inappropriate": (N_("inappropriate"), N_("rude, hateful or sexual words")),
    "typos": (N_("typos"), N_("so many mistakes that it is hard to read")),
    "gives_away": (N_("gives away"), N_("one of them describes the task instead of talking")),
}
"""Why a dialogue is dropped, and what is read: the code in words, and what it means."""

LABELS = (KEEP, *CODES)


class ReviewTask(LabelTask):
    """`keep`, or one or several faults."""

    FIELD, ALONE = FIELD, KEEP
    MIXED = Problem("keep_and_fault", N_("A conversation with a fault is not kept. Please untick one of them."))

    def render(self, unit: Unit, order: tuple[str, ...], seat: int = 0) -> Form:
        """The dialogue with the photo, and a box for each reason against it."""
        speakers = unit.speakers or (0,) * len(unit.texts)
        lines = tuple(Line(text, speaker, share=not text) for text, speaker in zip(unit.texts, speakers, strict=True))
        options = (
            Option(KEEP, _("keep"), _("it is natural, clean, and leads to the photo")),
            *(Option(code, _(name), _(note)) for code, (name, note) in CODES.items()),
        )
        return Form(
            title=_("Is this a good conversation?"),
            instruction=(
                _("Two people talked, and one of them shared this photo. Keep the talk, or tick every fault."),
            ),
            pictures=pictures_shown(order),
            passages=(Passage(_("Conversation"), lines),),
            fields=(Choice(FIELD, _("Your verdict"), options, several=True),),
        )

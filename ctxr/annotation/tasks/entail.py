"""Does an image with its captions entail a sentence? (Entailment label revision: the human check of mined links.)"""

from ctxr.annotation.forms import Choice, Form, Line, Option, Passage, pictures_shown
from ctxr.annotation.records import Unit
from ctxr.annotation.tasks.base import LabelTask
from ctxr.web.language import _

FIELD = "verdict"

ENTAILMENT, NEUTRAL, CONTRADICTION = "entailment", "neutral", "contradiction"
LABELS = (ENTAILMENT, NEUTRAL, CONTRADICTION)


class EntailTask(LabelTask):
    """One of three answers."""

    FIELD = FIELD

    def render(self, unit: Unit, order: tuple[str, ...], seat: int = 0) -> Form:
        """The sentence on top, then the image and captions as premises, and three answers."""
        options = (
            Option(ENTAILMENT, _("yes"), _("the image shows that it is true")),
            Option(NEUTRAL, _("cannot be told"), _("it may be true, but the image does not show it")),
            Option(CONTRADICTION, _("no"), _("the image shows that it is wrong")),
        )
        premise = (Passage(_("Captions of the image"), tuple(Line(text) for text in unit.texts)),) if unit.texts else ()
        return Form(
            title=_("Is the sentence true of this image?"),
            instruction=(
                _("Read the sentence, look at the image and its captions, and say whether the sentence must be true."),
            ),
            pictures=pictures_shown(order),
            passages=(Passage(_("Sentence to judge"), (Line(unit.statement or ""),), judged=True), *premise),
            fields=(
                Choice(
                    FIELD,
                    _("Is the sentence true?"),
                    tuple(option for option in options if option.value in unit.labels),
                ),
            ),
        )

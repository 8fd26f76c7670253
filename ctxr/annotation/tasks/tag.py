"""Which phenomena does a description use? (ImageCoDe, section 4.4 and appendix G)"""

from ctxr.annotation.forms import Choice, Form, Line, Option, Passage, pictures_shown
from ctxr.annotation.records import Unit
from ctxr.annotation.tasks.base import LabelTask
from ctxr.annotation.wording import Problem
from ctxr.web.language import N_, _

FIELD = "tags"

NONE = "none"
"""The explicit answer that none applies; an empty form is not an answer."""

NOTES = {
    N_("context"): N_("only the other images tell which one is meant"),
    N_("temporal"): N_("something happens before, after, still, again, no longer"),
    N_("quantities"): N_("how many there are"),
    N_("spatial"): N_("where something is: left of, behind, at the top"),
    N_("negation"): N_("what is not there, or not done"),
    N_("visibility"): N_("hidden, cut off, or only partly to be seen"),
    N_("nuances"): N_("a small detail that is easily overlooked"),
    N_("coreference"): N_("a pronoun stands for something named before"),
    N_("meta"): N_("about the image itself: blurry, close up, overlaid, black and white"),
    N_("colour"): N_("the colour of something"),
}


class TagTask(LabelTask):
    """One or several phenomena, or none. Tags are about the words: a worker may know the images."""

    FIELD, ALONE = FIELD, NONE
    MIXED = Problem("none_and_some", N_("“None of these” cannot go with another tick. Please untick one of them."))

    def render(self, unit: Unit, order: tuple[str, ...], seat: int = 0) -> Form:
        """The description, its set with the target marked, and a box for each phenomenon."""
        options = tuple(Option(label, _(label), _(NOTES.get(label, ""))) for label in unit.labels)
        return Form(
            title=_("Which phenomena does the description use?"),
            instruction=(
                _("Read the description of the marked image and tick everything that it uses to pick it out."),
            ),
            pictures=pictures_shown(order, unit.target),
            sequence=unit.ordered,
            passages=(Passage(_("Description"), tuple(Line(text) for text in unit.texts)),),
            fields=(
                Choice(
                    FIELD,
                    _("The description uses …"),
                    (*options, Option(NONE, _("none of these"), _("I considered each of them"))),
                    several=True,
                ),
            ),
        )

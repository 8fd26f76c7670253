"""Find the image that a description means (ImageCoDe, section 3.3): the vote that keeps or drops a description."""

from ctxr.annotation.forms import Form, Line, Passage, Pick, pictures_shown
from ctxr.annotation.records import Answer, Outcome, Unit
from ctxr.annotation.tasks.base import Task
from ctxr.store.records import Judgment
from ctxr.web.language import _

FIELD = "pick"


class RetrieveTask(Task):
    """One image of the set is chosen."""

    FRESH = True  # who has seen the set with another target has learned its images

    def render(self, unit: Unit, order: tuple[str, ...], seat: int = 0) -> Form:
        """The description and the images to choose from."""
        texts = map(_, unit.texts) if unit.purpose == "attention" else unit.texts
        return Form(
            title=_("Find the described image"),
            instruction=(_("Read the description, look at every image, and choose the one that it describes best."),),
            pictures=pictures_shown(order),
            sequence=unit.ordered,
            passages=(Passage(_("Description"), tuple(map(Line, texts))),),
            fields=(Pick(FIELD, _("Which image is described?")),),
        )

    def worth(self, unit: Unit, answer: Answer) -> Outcome:
        """The image picked, as a judgment of the worker; checks of the worker make no rows."""
        picked = answer.values[FIELD][0]
        correct = picked in unit.truth if unit.truth else None
        if unit.purpose != "work" or unit.query is None:
            return Outcome(right=correct)
        row = Judgment(unit.query, picked, answer.worker, 1.0, answer.at, answer.seconds, unit.round)
        return Outcome(judgments=(row,), right=correct)

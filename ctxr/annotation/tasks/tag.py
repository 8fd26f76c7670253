"""Which phenomena does a description use? Several at once (ImageCoDe, section 4.4 and appendix G)."""

from ctxr.annotation.forms import Choice, Form, Line, Option, Passage, pictures_of
from ctxr.annotation.records import Unit
from ctxr.annotation.tasks.base import LabelTask
from ctxr.annotation.wording import Problem

FIELD = "tags"

NONE = "none"
"""The explicit answer that none applies; an empty form is not an answer."""

NOTES = {
    "context": "only the other images tell which one is meant",
    "temporal": "something happens before, after, still, again, no longer",
    "quantities": "how many there are",
    "spatial": "where something is: left of, behind, at the top",
    "negation": "what is not there, or not done",
    "visibility": "hidden, cut off, or only partly to be seen",
    "nuances": "a small detail that is easily overlooked",
    "coreference": "a pronoun stands for something named before",
    "meta": "about the image itself: blurry, close up, overlaid, black and white",
    "colour": "the colour of something",
}


class TagTask(LabelTask):
    """One or several phenomena, or none. Tags are about the words: a worker may know the images."""

    FIELD, ALONE = FIELD, NONE
    MIXED = Problem("none_and_some", "“None of these” cannot go with another tick. Please untick one of them.")

    def render(self, unit: Unit, order: tuple[str, ...], seat: int = 0) -> Form:
        """The description, its set with the target marked, and a box for each phenomenon."""
        options = tuple(Option(label, label, NOTES.get(label, "")) for label in unit.labels)
        return Form(
            title="Which phenomena does the description use?",
            instruction=("Read the description of the marked image and tick everything that it uses to pick it out.",),
            pictures=pictures_of(order, unit.target),
            sequence=unit.ordered,
            passages=(Passage("Description", tuple(Line(text) for text in unit.texts)),),
            fields=(
                Choice(
                    FIELD,
                    "The description uses …",
                    (*options, Option(NONE, "none of these", "I considered each of them")),
                    several=True,
                ),
            ),
        )

"""The question of dialogues: which photo does one lead to?"""

from typing import ClassVar

from ctxr.datasets.dataset import Dataset
from ctxr.problems.dialogue.chats import chat_view
from ctxr.problems.dialogue.queries import DialogueQuery, dialogue_queries
from ctxr.problems.dialogue.recipe import VARIANTS, DialogueRecipe
from ctxr.problems.dialogue_tables import dialogue_tables
from ctxr.problems.evaluation import EvalRequest
from ctxr.problems.question import Question, Subject
from ctxr.problems.ranked import RankedEvaluation
from ctxr.store.kinds import RUN


class DialogueEvaluation(RankedEvaluation[DialogueQuery]):
    """Runs on dialogues that lead to a photo."""

    PROBLEM: ClassVar[str] = "dialogue"
    CLUSTERS: ClassVar[str] = "photos"
    SUMMED = (1, 5, 10)

    def __init__(self, request: EvalRequest) -> None:
        super().__init__(request, Dialogues(), dialogue_queries(request.dataset))


class Dialogues(Question):
    """Dialogues before a photo, and the photos of their set."""

    LEARNER: ClassVar[str] = "ctxr.problems.dialogue.learner"
    Recipe: ClassVar[type[DialogueRecipe]] = DialogueRecipe
    KIND: ClassVar[str] = RUN
    VARIANTS: ClassVar[tuple[str, ...]] = VARIANTS
    evaluation = DialogueEvaluation
    tables, view = staticmethod(dialogue_tables), staticmethod(chat_view)
    subject: ClassVar[Subject] = Subject(
        text="dialogue",
        sets="galleries of photos with dialogues in which they are shared",
        task="finding the photo that a dialogue leads to",
        formats=(*Subject.formats, "photochat"),
        similar=False,
    )

    def asks(self, dataset: Dataset) -> bool:
        """Whether it has dialogues."""
        return bool(dataset.payloads.get("dialogues"))

    def takes(self, request: EvalRequest) -> bool:
        """Whether the dataset has dialogues, or a run was trained on some."""
        return not request.variants.isdisjoint(VARIANTS) or super().takes(request)

"""Recipes of trainings that tell when a photo is shared (PhotoChat, section 6.1)."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, ClassVar

from ctxr.engine.options import Choices
from ctxr.models.training.recipe import Positive, Recipe
from ctxr.store.kinds import MODEL

WHOLE, WRITTEN, APART = VARIANTS = ("intent", "intent-t5", "intent-turns")
"""An encoder over all turns, T5 that writes a label, and a GRU over encoded turns."""

HALF = 0.5
"""The threshold where valid chooses none: the likelier class."""


@dataclass(frozen=True)
class IntentRecipe(Recipe):
    """How a model learns whether a photo is shared next; `batch`: dialogues up to a turn."""

    DOCS: ClassVar[str] = "docs/models.md and docs/intent.md"

    variant: Annotated[str, Choices(VARIANTS)] = WHOLE
    """How turns are read."""
    text: str = "bert:google-bert/bert-base-uncased"
    """Model of texts: "bert:FOLDER" or "bert:OWNER/NAME" (BERT, ALBERT), "bert:minilm"; of intent-t5 "t5:FOLDER" or "t5:OWNER/NAME"; of
    intent-turns also "random:bert-tiny", untrained."""
    positive_weight: Positive = 1.0
    """Of a turn before a photo in the loss, where any other has 1."""

    def inputs(self) -> Iterator[tuple[str, str]]:
        """See `Recipe`."""
        yield "text", MODEL

    def rules(self) -> Iterator[tuple[str, str]]:
        """A model that the variant reads with."""
        yield from super().rules()
        kinds = {WHOLE: ("bert",), WRITTEN: ("t5",)}.get(self.variant, ("bert", "random"))
        if self.text.partition(":")[0] not in kinds:
            yield f"{self.variant} does not read with text = {self.text}", f"--set text={kinds[0]}:DIRECTORY"

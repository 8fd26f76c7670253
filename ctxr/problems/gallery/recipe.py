"""Recipes of trainings over galleries."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, ClassVar

from ctxr.engine.options import Choices
from ctxr.models.hub import makes_pairs
from ctxr.models.training.recipe import ScorerRecipe

IN_BATCH = "in-batch"
"""The only variant: all captions and pictures of a batch against each other."""


@dataclass(frozen=True)
class GalleryRecipe(ScorerRecipe):
    """How a scorer learns captions and pictures against each other; `distractors` and `rerank` concern encoders of pairs."""

    UNUSED: ClassVar[tuple[str, ...]] = (
        "start_at_cosine", "shared_distractors", "fixed_distractors", "summed_gradients", "leaked_gradients",
        "dropout_in_evaluation", "judged_on_test", "highway_positions",
    )  # fmt: skip

    variant: Annotated[str, Choices((IN_BATCH,))] = IN_BATCH
    """In-batch contrast."""

    def rules(self) -> Iterator[tuple[str, str]]:
        """A binary loss and a shortlist for encoders of pairs alone, and an encoder of vectors that makes the shortlist."""
        yield from super().rules()
        pairs = makes_pairs(self.encoder)
        if self.loss != "softmax" and not pairs:
            yield f"loss does not apply to the variant {IN_BATCH!r} of {self.encoder}", "--set loss=softmax"
        if not self.distractors:
            yield "distractors = 0 means the other images of a set, and a gallery has no sets", "--set distractors=1"
        if self.rerank and not pairs:
            yield f"rerank is for encoders of pairs, and the recipe is for {self.encoder}", "--set rerank=0"
        if self.rerank and (not self.rerank_by or makes_pairs(self.rerank_by)):
            yield (
                f"rerank = {self.rerank} needs an encoder of vectors to find the candidates, and rerank_by is {self.rerank_by!r}",
                "--set rerank_by=ViT-B-32:openai, or --set rerank=0 to score every pair",
            )

"""Recipes of trainings over galleries."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated

from ctxr.engine.options import Choices
from ctxr.models.hub import makes_pairs
from ctxr.models.training.recipe import Count, Natural, ScorerRecipe
from ctxr.store.kinds import MODEL

IN_BATCH = "in-batch"
"""The only variant: all captions and pictures of a batch against each other."""


@dataclass(frozen=True)
class GalleryRecipe(ScorerRecipe):
    """How captions and pictures are learned; `distractors` and `rerank`: for encoders of pairs."""

    variant: Annotated[str, Choices((IN_BATCH,))] = IN_BATCH
    """In-batch contrast."""
    distractors: Natural = 9
    """Other pictures, and other captions, of the batch that are drawn for each pair."""
    rerank: Count = 0
    """Candidates of each query, both ways, that a cross-encoder rescores; 0 = all."""
    rerank_by: str = ""
    """Encoder of vectors that retrieves them and ranks the rest; unused with 0."""

    def inputs(self) -> Iterator[tuple[str, str]]:
        """See `Recipe`; the encoder of the shortlist too."""
        yield from super().inputs()
        if self.rerank:
            yield "rerank_by", MODEL

    def rules(self) -> Iterator[tuple[str, str]]:
        """A binary loss for encoders of pairs alone, an encoder of vectors for the shortlist."""
        yield from super().rules()
        if not makes_pairs(self.encoder):
            yield from self.unread(("loss", "distractors", "rerank", "rerank_by", "new_score"), "encoders of pairs")
        if self.rerank and (not self.rerank_by or makes_pairs(self.rerank_by)):
            yield (
                f"rerank = {self.rerank} needs an encoder of vectors to find the candidates, and rerank_by is {self.rerank_by!r}",
                "--set rerank_by=ViT-B-32:openai, or --set rerank=0 to score every pair",
            )

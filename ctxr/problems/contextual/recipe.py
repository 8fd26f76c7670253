"""Recipes of trainings over sets of images."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, ClassVar

from ctxr.engine.options import Choices
from ctxr.models.training.recipe import ScorerRecipe

VARIANTS = ("zero-shot", "none", "batch", "module", "temporal")
"""The rows of Table 5: as published, fine-tuned without context, + ContextBatch, + ContextModule, + TemporalEmbeddings."""


@dataclass(frozen=True)
class ContextualRecipe(ScorerRecipe):
    """How a scorer learns to find the target of a query among the images of its set; without context, among random images."""

    UNUSED: ClassVar[tuple[str, ...]] = ("rerank",)

    variant: Annotated[str, Choices(VARIANTS)] = "batch"
    """One of the rows of Table 5."""

    def rules(self) -> Iterator[tuple[str, str]]:
        """A head that can start at a cosine, distractors of one kind, and weak positives only where something is learned."""
        yield from super().rules()
        if self.start_at_cosine and not (self.has_head and self.fusion == "multiply"):
            yield (
                "start_at_cosine needs a head over products of image and text",
                "--set start_at_cosine=false, or fusion=multiply in a recipe with a head",
            )
        if self.shared_distractors and self.fixed_distractors:
            yield (
                "shared_distractors and fixed_distractors exclude each other: steps hold other queries in every epoch",
                "--set fixed_distractors=false",
            )
        if self.weak != "off" and not self.learns:
            yield (
                f"weak = {self.weak!r} does not apply to the variant {self.variant!r}: it learns nothing",
                "--set weak=off",
            )

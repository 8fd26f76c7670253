"""Recipes of trainings over sets of images."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar

from ctxr.engine.options import Choices
from ctxr.models.training.recipe import (
    HEADS,
    TRAINING,
    Count,
    HeadShape,
    Natural,
    Positive,
    ScorerRecipe,
    ScorerShape,
    Share,
)

VARIANTS = ("zero-shot", "none", "batch", *HEADS)
"""Table 5: as published, tuned without context, + ContextBatch, + Module, + TemporalEmbeddings."""

_QUIRKS = (
    "summed_gradients", "undivided_decay", "dropout_in_evaluation", "leaked_gradients", "fp16_masters",
    "unjudged_last_epoch", "judged_on_test",
)  # fmt: skip


@dataclass(frozen=True)
class ContextualRecipe(ScorerRecipe):
    """How a scorer learns to find a target in its set, or, without context, among random images."""

    READ_BY: ClassVar[Mapping[str, Sequence[str]]] = {
        **dict.fromkeys((*TRAINING, "start", "new_score", "weak", "alpha", *_QUIRKS), VARIANTS[1:]),
        **dict.fromkeys(("distractors", "shared_distractors", "fixed_distractors"), ("none",)),
        **dict.fromkeys(("layers", "heads", "inner", "dropout", "fusion", "scale", "frozen", "start_at_cosine"), HEADS),
        **dict.fromkeys(("all_positions", "highway_positions"), ("temporal",)),
    }

    variant: Annotated[str, Choices(VARIANTS)] = "batch"
    """One of the rows of Table 5."""
    layers: Count = 2
    """Of the context head."""
    heads: Natural = 8
    """Of the context head."""
    inner: Natural = 3072
    """Inner width of the context head."""
    dropout: Share = 0.1
    """Of the context head."""
    fusion: Annotated[str, Choices(("multiply", "concat"))] = "multiply"
    """Of image and text for the head."""
    scale: Positive = 1000.0
    """Of their product."""
    frozen: bool = True
    """A head learns from what the encoder as it is says; else both learn together."""
    start_at_cosine: bool = False
    """An untrained head scores as the encoder below it does, and learns what to add (fusion multiply)."""
    distractors: Count = 9
    """Candidates beside the target in variants without context; 0 = the images of its set."""
    shared_distractors: bool = False
    """They are targets of the same step instead of any image: each is encoded once for all its queries."""
    summed_gradients: bool = False
    """Of the queries of a step; else averaged."""
    undivided_decay: bool = False
    """L2 against an averaged gradient as strong as against a sum; else divided by `batch`."""
    dropout_in_evaluation: bool = False
    """The released code never switches it off."""
    fixed_distractors: bool = False
    """Drawn once for all epochs."""
    leaked_gradients: bool = False
    """Of the last, partial step flow into the first step of the next epoch, without a step of their own."""
    fp16_masters: bool = False
    """Weights are rounded to fp16 after each step, so small steps vanish."""
    unjudged_last_epoch: bool = False
    """The last epoch is trained and never validated, so it cannot be chosen."""
    all_positions: bool = False
    """Positions act on sets without order too."""
    judged_on_test: bool = False
    """Test chooses the epoch, where its targets are known."""
    highway_positions: bool = False
    """The highway adds the positions too, as in the paper's Eq. 1;
    else it adds the pair without them, as the released code does."""

    @property
    def learns(self) -> bool:
        """Whether there is anything to train."""
        return self.variant != "zero-shot"

    @property
    def tunes(self) -> bool:
        """Whether the encoder itself learns."""
        return self.learns and not (self.variant in HEADS and self.frozen)

    @property
    def decay(self) -> float:
        """Weight decay as the optimiser takes it."""
        return self.weight_decay if self.summed_gradients or self.undivided_decay else super().decay

    @property
    def shape(self) -> ScorerShape:
        """Of the scorer that learns."""
        head = HeadShape(
            self.layers, self.heads, self.inner, self.dropout, self.fusion, self.scale,
            positions=self.variant == "temporal",
            all_positions=self.all_positions,
            highway_positions=self.highway_positions,
        )  # fmt: skip
        return ScorerShape(self.encoder, head if self.variant in HEADS else None, self.new_score and self.learns)

    def rules(self) -> Iterator[tuple[str, str]]:
        """A head that can start at a cosine, and distractors of one kind."""
        yield from super().rules()
        if self.start_at_cosine and self.fusion != "multiply":
            yield "start_at_cosine needs a head over products of image and text", "--set fusion=multiply"
        if self.shared_distractors and self.fixed_distractors:
            yield (
                "shared_distractors and fixed_distractors exclude each other: steps hold other queries in every epoch",
                "--set fixed_distractors=false",
            )

"""Recipes of trainings on texts and mouse traces (What and where; `traces`), and of patch tokens below them."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar

from ctxr.engine.options import Choices
from ctxr.models.training.recipe import TRAINING, Natural, NotNegative, Positive, Recipe, Share, step_rules
from ctxr.store.kinds import MODEL, REGION_FEATURES, RUN

DUAL, PATCHES, HEAT = VARIANTS = ("traces", "traces-patches", "traces-heat")
"""The dual encoder of the paper, trace boxes over the patch tokens of an encoder, and a baseline that learns nothing."""

TEXT, TRACE, BOTH = "text", "trace", "text+trace"

_DECAY, _EPOCHS = 0.95, 25
"""Of the schedule `steps`: the factor of the rate, and its epochs (appendix A.2)."""


@dataclass(frozen=True)
class TracesRecipe(Recipe):
    """How texts with mouse traces and images learn to be near each other; `batch`: queries, each with an image of its own."""

    DOCS: ClassVar[str] = "docs/traces.md"
    READ_BY: ClassVar[Mapping[str, Sequence[str]]] = {
        **dict.fromkeys([*(name for name in TRAINING if name != "loss"), "start", "temperature"], (DUAL, PATCHES)),
        **dict.fromkeys(("regions", "locations", "positions", "text_layers", "image_layers", "width"), (DUAL,)),
        **dict.fromkeys(("inner", "heads", "embedded", "pooled", "dropout", "vocabulary", "max_tokens"), (DUAL,)),
        **dict.fromkeys(("encoder", "grid", "trace_weight"), (PATCHES, HEAT)),
        **dict.fromkeys(("margin", "padding"), (DUAL, PATCHES)),
        **dict.fromkeys(("frozen", "phrase"), (PATCHES,)),
        "spread": (HEAT,),
    }

    variant: Annotated[str, Choices(VARIANTS)] = DUAL
    """The published dual encoder, boxes over patch tokens, or the heat map without training."""
    query: Annotated[str, Choices((BOTH, TEXT, TRACE))] = BOTH
    """What a query consists of."""
    start: str = ""
    """Run of the same shape whose weights are the first ones; its queries may be of another kind. Empty for random ones."""
    regions: str = ""
    """Region features of the images, by the name of their artifact."""
    encoder: str = "ViT-B-16:openai"
    """Name of an encoder of vectors, whose patch tokens are taken."""
    margin: NotNegative = 0.4
    """Seconds before and after a word in which its trace counts (t_p, not in the paper)."""
    padding: Share = 0.05
    """By which a box is enlarged on each side, a share of the image (s_p, which the paper does not give)."""
    schedule: Annotated[str, Choices(("constant", "linear", "cosine", "steps"))] = "steps"
    """Of the rate after the warm-up; steps: times 0.95 every 25 epochs from there."""
    temperature: Positive = 1.0
    """That products of vectors are divided by, at first where it is learned (traces-patches); 1 as published, for it gives none."""
    locations: bool = True
    """Regions carry their boxes."""
    positions: bool = True
    """Words and boxes carry their place in the query."""
    text_layers: Natural = 6
    """Of the tower of texts and traces (M)."""
    image_layers: Natural = 6
    """Of the tower of images (L)."""
    width: Natural = 1024
    """Of both towers."""
    inner: Natural = 4096
    """Of the layers between, the filter size."""
    heads: Natural = 8
    """Of attention."""
    embedded: Natural = 512
    """Width of embeddings of words, regions, places and boxes."""
    pooled: Natural = 2048
    """Inner width of the poolers."""
    dropout: Share = 0.3
    """Of embedders and poolers."""
    vocabulary: Natural = 10_000
    """Most words that are known, the most common ones of the training texts."""
    max_tokens: Natural = 128
    """Words, and boxes, of a query; the rest is cut off."""
    frozen: bool = True
    """The encoder stays as it is, and projections over it learn; else it learns too."""
    phrase: Natural = 4
    """Words whose text and box are taken together."""
    grid: Natural = 7
    """Most cells of a side to which patch tokens are averaged."""
    spread: Positive = 0.1
    """Standard deviation around each point of the heat map, a share of the image."""
    trace_weight: NotNegative = 1.0
    """Of the patches against the whole image; the first value where it is learned."""

    def inputs(self) -> Iterator[tuple[str, str]]:
        """See `Recipe`."""
        if self.variant == DUAL:
            yield "regions", REGION_FEATURES
        else:
            yield "encoder", MODEL
        yield "start", RUN

    @property
    def learns(self) -> bool:
        """Whether there is anything to train."""
        return self.variant != HEAT

    @property
    def tunes(self) -> bool:
        """Whether the encoder itself learns."""
        return self.variant == PATCHES and not self.frozen

    def rate(self, measures: Sequence[float | None]) -> float:
        """See `Recipe`."""
        behind = max(0, len(measures) - round(self.warmup * self.epochs))
        return self.lr * (_DECAY ** (behind // _EPOCHS) if self.schedule == "steps" else 1)

    def rules(self) -> Iterator[tuple[str, str]]:
        """An encoder of vectors where there is one, and two queries a step."""
        yield from super().rules()
        yield from step_rules(self, "query")
        if self.variant == HEAT and self.query == TRACE:
            lack = "a heat map is compared with where a text matches, and query = trace has no text"
            yield lack, "--set query=text+trace"
        if self.width % self.heads:
            yield f"heads = {self.heads} does not divide the width {self.width}", "--set heads=8"

"""Recipes of trainings: what the loop reads, and what scorers over encoders share."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import inf, nextafter
from typing import Annotated, Any, ClassVar

from ctxr.engine.options import Choices, NotDecisive, Options, Range
from ctxr.models.hub import LITE, makes_pairs
from ctxr.store.kinds import MODEL, REGION_FEATURES, RUN

WEAK = ("off", "mask-only", "extra-batch", "loss-weight", "soft-label")
"""How weak positives count: as negatives (off); not at all (mask-only); in a step of their own, at alpha times the rate
(extra-batch); in the loss, times alpha (loss-weight); as alpha of a positive (soft-label). Unless off, unsure images do not count."""

SOFTMAX, SUM, HARDEST = LOSSES = "softmax", "sum-hinge", "max-hinge"
"""Losses of queries against the images of their step: cross-entropy, or a hinge over all wrong pairs or the hardest one."""

HEADS = ("module", "temporal")  # variants of scorers with a head over all candidates of a query

TRAINING = (
    "optimiser", "lr", "beta1", "beta2", "eps", "weight_decay", "undecayed_vectors", "batch", "patience", "schedule",
    "warmup", "clip", "loss",
)  # fmt: skip
Positive = Annotated[float, Range(0, inf, "a number above 0", above=True)]
Share = Annotated[float, Range(0, nextafter(1, 0), "a share from 0 to below 1, such as 0.1")]
NotNegative = Annotated[float, Range(0, inf, "a number, 0 or more")]
Natural = Annotated[int, Range(1, inf, "a whole number, 1 or more")]
Count = Annotated[int, Range(0, inf, "a whole number, 0 or more")]


@dataclass(frozen=True)
class Recipe(Options):
    """How a model is trained: what the loop reads. The recipe of a problem adds its own fields and rules; published values stand in
    the recipes' files."""

    SYNONYMS: ClassVar[Mapping[str, str]] = {"learning_rate": "lr"}
    DOCS: ClassVar[str] = "docs/models.md"
    """Where all keys are described."""
    READ_BY: ClassVar[Mapping[str, Sequence[str]]] = {}
    """Fields that only some variants read, each with these."""

    variant: str = ""
    """What is trained; a variant belongs to one problem."""
    optimiser: Annotated[str, Choices(("adam", "adamw"))] = "adamw"
    """Weight decay is added to the gradient (adam, L2), or decoupled (adamw)."""
    lr: Positive = 4e-6
    """Learning rate of what learns."""
    beta1: Share = 0.9
    """Of Adam."""
    beta2: Share = 0.98
    """Of Adam."""
    eps: Positive = 1e-6
    """Of Adam."""
    weight_decay: NotNegative = 0.01
    """Of the weights; of adam divided by `batch`: L2 was published for summed gradients."""
    undecayed_vectors: bool = False
    """No weight decay on biases and layer norms."""
    batch: Natural = 36
    """Queries of a step."""
    at_once: Annotated[Count, NotDecisive] = 0
    """Queries in one pass, the rest is accumulated exactly; 0 = all."""
    epochs: Count = 30
    """At most."""
    patience: Count = 5
    """Epochs without a better validation accuracy after which to stop; 0 = never."""
    schedule: Annotated[str, Choices(("constant", "linear", "cosine"))] = "constant"
    """Of the rate after the warm-up."""
    warmup: Share = 0.0
    """Share of all steps in which the rate rises from 0."""
    clip: NotNegative = 0.0
    """Largest norm of the gradient; 0 = none."""
    precision: Annotated[str, Choices(("auto", "fp32", "bf16"))] = "auto"
    """Autocast in bf16 (the weights stay fp32) or not; auto: where a GPU multiplies in it."""

    def inputs(self) -> Iterator[tuple[str, str]]:
        """Fields that name what is learned from beside the dataset, with the kind of each."""
        yield from ()

    @property
    def learns(self) -> bool:
        """Whether there is anything to train."""
        return True

    @property
    def tunes(self) -> bool:
        """Whether the encoder itself learns."""
        return True

    @property
    def decay(self) -> float:
        """Weight decay as the optimiser takes it, for averaged gradients."""
        # Adam makes nothing of a gradient's scale, but much of its ratio to the decay
        return self.weight_decay / self.batch if self.optimiser == "adam" else self.weight_decay

    def rate(self, measures: Sequence[float | None]) -> float:
        """Learning rate after epochs with these measures (`Epoch.accuracy`); constant here."""
        return self.lr

    def spelled(self, name: str) -> str:
        """How a file spells a key."""
        return f"{name} = {{}}"

    def unread(self, names: Iterable[str], readers: str) -> Iterator[tuple[str, str]]:
        """A rule for each of these fields that has a value of its own, although only `readers` read it."""
        for name in names:
            value, default = getattr(self, name), self.describe()[name].default
            if value != default:
                sentence = f"{name} = {value!r} does not apply to the variant {self.variant!r}: only {readers} read it"
                yield sentence, f"--set {name}={str(default).lower() if isinstance(default, bool) else default}"

    def rules(self) -> Iterator[tuple[str, str]]:
        """At least one epoch, and no field that the variant does not read."""
        for name, variants in self.READ_BY.items():
            if self.variant not in variants:
                yield from self.unread([name], ", ".join(variants))
        if self.learns and self.epochs < 1:
            yield f"epochs = {self.epochs}: {self.variant} would learn nothing", "--set epochs=1"


def step_rules(recipe: Any, row: str) -> Iterator[tuple[str, str]]:
    """Rules where what a step holds is compared with the rest of it: an encoder of vectors that can learn, and two `row`s a step."""
    if "encoder" in dict(recipe.inputs()):
        if makes_pairs(recipe.encoder):
            yield f"{recipe.encoder} makes no vectors", "--set encoder=ViT-B-32:openai"
        if recipe.encoder == LITE and recipe.tunes:
            yield FROZEN_LITE[0], "--set frozen=true, or --set encoder=ctxr-tiny"
    if recipe.learns and recipe.batch < 2:
        yield f"batch = {recipe.batch}: a {row} needs another one to be compared with", "--set batch=32"


@dataclass(frozen=True)
class HeadShape:
    """A context head: `layers`, `heads`, `inner` and `dropout` of its transformer, `fusion` and `scale` of the pairs, and positions as
    `ContextHead` has them."""

    layers: int
    heads: int
    inner: int
    dropout: float
    fusion: str
    scale: float
    positions: bool
    all_positions: bool
    highway_positions: bool


@dataclass(frozen=True)
class ScorerShape:
    """A scorer: the name of its encoder, and a head over it, a new layer for pairs, or nothing."""

    encoder: str
    head: HeadShape | None = None
    new_score: bool = False


FROZEN_LITE = (
    f"{LITE} cannot be tuned, as its towers share a space that no training made",
    "--set encoder=ctxr-tiny, or another encoder; a head over frozen vectors learns on it: --recipe clip-module",
)


@dataclass(frozen=True)
class ScorerRecipe(Recipe):
    """How an encoder, or a head over one, is trained to score images."""

    encoder: str = "ViT-B-16:openai"
    """Name, as `models.families.find_encoder` takes it."""
    regions: str = ""
    """Region features to use as input, by the name of their artifact; empty for encoders of pixels."""
    start: str = ""
    """Run whose fine-tuned encoder is taken instead of the published one; empty for none."""
    new_score: bool = False
    """Pairs are scored by a new layer, as in the released cross-encoders; else by the published head."""
    loss: Annotated[str, Choices(("softmax", "binary"))] = "softmax"
    """Over the candidates of a query, or each candidate by itself."""
    weak: Annotated[str, Choices(WEAK)] = "off"
    """What is done with texts that were found to hold for further pictures."""
    alpha: Annotated[float, Range(0, 1, "a share from 0 to 1, such as 0.3")] = 0.3
    """As `weak` says."""

    def inputs(self) -> Iterator[tuple[str, str]]:
        """See `Recipe`."""
        yield from (("encoder", MODEL), ("regions", REGION_FEATURES), ("start", RUN))

    def rules(self) -> Iterator[tuple[str, str]]:
        """No encoder learns that is frozen."""
        yield from super().rules()
        if self.encoder == LITE and self.learns and self.tunes:
            yield FROZEN_LITE
        if self.encoder == LITE and self.start:
            yield f"start = {self.start!r}: no run tunes {LITE}", "--set start="

    @property
    def shape(self) -> ScorerShape:
        """Shape of the scorer that learns."""
        return ScorerShape(self.encoder, None, self.new_score)

    @property
    def repeats_queries(self) -> bool:
        """Whether queries with weak positives are repeated with one of these as the target."""
        return self.weak in ("extra-batch", "loss-weight")

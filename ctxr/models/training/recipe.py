"""Everything that decides a training, as numbers and names: the hyper-parameters and each quirk of the released code."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from math import inf, nextafter
from typing import Annotated, Any, ClassVar

from ctxr.engine.options import Choices, NotDecisive, Options, Range, Since

WEAK = ("off", "mask-only", "extra-batch", "loss-weight", "soft-label")
"""What is done with weak positives: nothing (they are negatives like any other), only that they are no negatives, a step of their
own at alpha times the rate, a part of the loss times alpha, or alpha of a positive among the others (specs A3.2). Images of which
judges are unsure are no negatives either, unless it is off."""

HEADS = ("module", "temporal")
"""Variants of scorers with a head over all candidates of a query."""

Positive = Annotated[float, Range(0, inf, "a number above 0", above=True)]
Share = Annotated[float, Range(0, nextafter(1, 0), "a share from 0 to below 1, such as 0.1")]
NotNegative = Annotated[float, Range(0, inf, "a number, 0 or more")]
Natural = Annotated[int, Range(1, inf, "a whole number, 1 or more")]
Count = Annotated[int, Range(0, inf, "a whole number, 0 or more")]


@dataclass(frozen=True)
class Recipe(Options):
    """How a model is trained; published values stand in the recipes' files (specs A0.3).

    Format 1 writes all of these fields into the key of every run, so the recipe of a problem adds fields and rules, and says in
    `UNUSED` which fields mean nothing to it.
    """

    SYNONYMS: ClassVar[Mapping[str, str]] = {"learning_rate": "lr"}
    DOCS: ClassVar[str] = "docs/models.md"
    """Where all keys are described."""
    UNUSED: ClassVar[tuple[str, ...]] = ()
    """Fields that must stay at their defaults."""

    variant: str = "batch"
    """What is trained; a variant belongs to one problem."""
    encoder: str = "ViT-B-16:openai"
    """Name, as `models.families.find_encoder` takes it."""
    regions: str = ""
    """Region features to use as input, by the name of their artifact; empty for encoders of pixels."""
    start: str = ""
    """Run whose fine-tuned encoder is taken instead of the published one; empty for none."""
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
    """See `undivided_decay`."""
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
    layers: Count = 2
    """Of the context head."""
    heads: Natural = 8
    """Of the context head."""
    inner: Natural = 3072
    """Inner width of the context head."""
    dropout: Share = 0.1
    """Of the context head, or of a classifier."""
    fusion: Annotated[str, Choices(("multiply", "concat"))] = "multiply"
    """Of image and text for the head."""
    scale: Positive = 1000.0
    """Of their product."""
    frozen: bool = True
    """A head learns from what the encoder as it is says; else both learn together."""
    start_at_cosine: bool = False
    """An untrained head scores as the encoder below it does, and learns what to add (fusion multiply)."""
    new_score: bool = False
    """Pairs are scored by a new layer, as in the released cross-encoders; else by the published head."""
    loss: Annotated[str, Choices(("softmax", "binary"))] = "softmax"
    """Over the candidates of a query, or each candidate by itself."""
    undecayed_vectors: bool = False
    """No weight decay on biases and layer norms."""
    distractors: Count = 9
    """Candidates drawn beside the target in variants without context; 0 = the other images of its own set."""
    shared_distractors: bool = False
    """They are targets of the same step instead of any image: each is encoded once for all its queries."""
    rerank: Count = 0
    """Candidates of each query, both ways, that a cross-encoder rescores; 0 = all."""
    rerank_by: str = ""
    """Encoder of vectors that retrieves them and ranks the rest; unused with 0."""
    weak: Annotated[str, Choices(WEAK)] = "off"
    """What is done with texts that were found to hold for further pictures."""
    alpha: Annotated[float, Range(0, 1, "a share from 0 to 1, such as 0.3")] = 0.3
    """As `weak` says."""
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

    @property
    def learns(self) -> bool:
        """Whether there is anything to train."""
        return True

    def rate(self, measures: Sequence[float | None]) -> float:
        """Of a constant schedule, by the measures of the epochs so far, as `Epoch.accuracy` has them."""
        return self.lr

    def spelled(self, name: str) -> str:
        """As in a file."""
        return f"{name} = {{}}"

    def written(self) -> dict[str, Any]:
        """What the manifest of a run holds: every field, those that came later only where they are not what they were."""
        later = {name: since.was for name, option in self.describe().items() if (since := option.marker(Since))}
        return {name: value for name, value in asdict(self).items() if name not in later or value != later[name]}

    def rules(self) -> Iterator[tuple[str, str]]:
        """At least one epoch, and no value for an unused field."""
        if self.learns and self.epochs < 1:
            yield f"epochs = {self.epochs}: {self.variant} would learn nothing", "--set epochs=1"
        for field in fields(self):
            if field.name in self.UNUSED and getattr(self, field.name) != field.default:
                default = str(field.default).lower()
                yield f"{field.name} does not apply to the variant {self.variant!r}", f"--set {field.name}={default}"


@dataclass(frozen=True)
class ScorerRecipe(Recipe):
    """How an encoder, or a head over one, is trained to score images."""

    highway_positions: Annotated[bool, Since(False)] = False
    """The highway adds the positions too, as in the paper's Eq. 1; else it adds the pair without them, as the released code does."""

    @property
    def learns(self) -> bool:
        """Whether there is anything to train."""
        return self.variant != "zero-shot"

    @property
    def has_head(self) -> bool:
        """Whether a head over all candidates of a query learns."""
        return self.variant in HEADS

    @property
    def tunes(self) -> bool:
        """Whether the encoder itself learns."""
        return self.learns and not (self.has_head and self.frozen)

    @property
    def weak_share(self) -> float | None:
        """The target share of a weak candidate relative to a positive: 0 makes it a negative, None leaves it out of the loss."""
        return {"off": 0.0, "soft-label": self.alpha}.get(self.weak)

    @property
    def repeats_queries(self) -> bool:
        """Whether queries with weak positives are repeated with one of these as the target."""
        return self.weak in ("extra-batch", "loss-weight")

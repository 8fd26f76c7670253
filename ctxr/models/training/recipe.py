"""Everything that decides a training, as numbers and names: the hyper-parameters and each quirk of the released code."""

from dataclasses import dataclass
from typing import ClassVar

from ctxr.errors import UsageError
from ctxr.models.hub import makes_pairs

VARIANTS = ("zero-shot", "none", "batch", "module", "temporal")
"""The rows of Table 5: as published, fine-tuned without context, + ContextBatch, + ContextModule, + TemporalEmbeddings."""

IN_BATCH = "in-batch"
"""Variant of galleries: all captions and pictures of a batch against each other."""

WEAK = ("off", "mask-only", "extra-batch", "loss-weight", "soft-label")
"""What is done with weak positives: nothing (they are negatives like any other), only that they are no negatives, a step of their
own at alpha times the rate, a part of the loss times alpha, or alpha of a positive among the others (specs A3.2)."""

WITH_HEAD = ("module", "temporal")
"""Variants that train a head over all candidates of a set."""

ENTAILMENT = "entailment"
"""Of recipes for classifiers (`ctxr.models.entailment.recipe`)."""

_CHOICES = {
    "optimiser": ("adam", "adamw"),
    "schedule": ("constant", "linear", "cosine"),
    "precision": ("auto", "fp32", "bf16"),
    "fusion": ("multiply", "concat"),
    "loss": ("softmax", "binary"),
    "weak": WEAK,
}
_POSITIVE = ("batch", "heads", "inner", "scale", "distractors", "eps")
_NOT_IN_BATCH = (
    "shared_distractors", "fixed_distractors", "summed_gradients", "leaked_gradients", "dropout_in_evaluation",
    "judged_on_test",
)  # fmt: skip
_SHARES = ("beta1", "beta2", "warmup", "dropout")


@dataclass(frozen=True)
class Recipe:
    """How a scorer is trained; published values stand in the recipes' files (specs A0.3).

    Attributes:
        variant: one of `VARIANTS`, or `IN_BATCH`.
        encoder: name, as `models.families.find_encoder` takes it.
        regions: region features to use as input, by the name of their artifact; "" for encoders of pixels.
        start: run whose fine-tuned encoder is taken instead of the published one; "" for none.
        optimiser: "adam" (weight decay is added to the gradient, L2) or "adamw" (decoupled).
        lr: learning rate of what learns. beta1, beta2, eps: of Adam. weight_decay: see `undivided_decay`.
        batch: queries for each step. at_once: of them in one pass, the rest is accumulated exactly; 0 = all.
        epochs: at most. patience: epochs without a better validation accuracy after which to stop; 0 = never.
        schedule: of the rate after the warm-up. warmup: share of all steps in which it rises from 0.
        clip: largest norm of the gradient; 0 = none.
        precision: "fp32", "bf16" (autocast; the weights stay fp32) or "auto", bf16 where a GPU multiplies in it.
        layers, heads, inner, dropout: of the context head. fusion, scale: of image and text for it.
        frozen: a head learns from what the encoder as it is says; else both learn together.
        start_at_cosine: an untrained head scores as the encoder below it does, and learns what to add (fusion multiply).
        new_score: pairs are scored by a new layer, as in the released cross-encoders; else by the published head.
        loss: over the candidates of a query: "softmax", or "binary", each candidate by itself.
        undecayed_vectors: no weight decay on biases and layer norms.
        distractors: random images beside the target where a variant has no context; in galleries other pictures of the batch beside
            that of each caption, and other captions beside that of each picture, for an encoder of pairs.
        rerank: candidates of each query, both ways, that a cross-encoder rescores in a gallery; 0 = all. rerank_by: the
            encoder of vectors that retrieves them and ranks the rest; unused with 0.
        shared_distractors: they are targets of the same step instead of any image: each is encoded once for all its queries.
        weak: one of `WEAK`, for texts that were found to hold for further pictures. alpha: as `WEAK` says, 0..1.
        summed_gradients: of the queries of a step; else averaged.
        undivided_decay: L2 against an averaged gradient as strong as against a sum; else divided by `batch`.
        dropout_in_evaluation: the released code never switches it off.
        fixed_distractors: drawn once for all epochs.
        leaked_gradients: of the last, partial step flow into the first step of the next epoch, without a step of their own.
        fp16_masters: weights are rounded to fp16 after each step, so small steps vanish.
        unjudged_last_epoch: the last epoch is trained and never validated, so it cannot be chosen.
        all_positions: positions act on sets without order too.
        judged_on_test: test chooses the epoch, where its targets are known.
    """

    DOCS: ClassVar[str] = "docs/models.md"
    """Where all keys are described."""
    KNOWN: ClassVar[tuple[str, ...]] = (*VARIANTS, IN_BATCH, ENTAILMENT)
    """What `variant` can be."""

    variant: str = "batch"
    encoder: str = "ViT-B-16:openai"
    regions: str = ""
    start: str = ""
    optimiser: str = "adamw"
    lr: float = 4e-6
    beta1: float = 0.9
    beta2: float = 0.98
    eps: float = 1e-6
    weight_decay: float = 0.01
    batch: int = 36
    at_once: int = 0
    epochs: int = 30
    patience: int = 5
    schedule: str = "constant"
    warmup: float = 0.0
    clip: float = 0.0
    precision: str = "auto"
    layers: int = 2
    heads: int = 8
    inner: int = 3072
    dropout: float = 0.1
    fusion: str = "multiply"
    scale: float = 1000.0
    frozen: bool = True
    start_at_cosine: bool = False
    new_score: bool = False
    loss: str = "softmax"
    undecayed_vectors: bool = False
    distractors: int = 9
    shared_distractors: bool = False
    rerank: int = 0
    rerank_by: str = ""
    weak: str = "off"
    alpha: float = 0.3
    summed_gradients: bool = False
    undivided_decay: bool = False
    dropout_in_evaluation: bool = False
    fixed_distractors: bool = False
    leaked_gradients: bool = False
    fp16_masters: bool = False
    unjudged_last_epoch: bool = False
    all_positions: bool = False
    judged_on_test: bool = False

    @property
    def has_head(self) -> bool:
        """Whether a head over all candidates of a set learns."""
        return self.variant in WITH_HEAD

    @property
    def tunes(self) -> bool:
        """Whether the encoder itself learns."""
        return self.learns and not (self.has_head and self.frozen)

    @property
    def learns(self) -> bool:
        """Whether there is anything to train."""
        return self.variant != "zero-shot"

    @property
    def weak_share(self) -> float | None:
        """The target share of a weak candidate relative to a positive: 0 makes it a negative, None leaves it out of the loss."""
        return {"off": 0.0, "soft-label": self.alpha}.get(self.weak)

    @property
    def repeats_queries(self) -> bool:
        """Whether queries with weak positives are repeated with one of these as the target."""
        return self.weak in ("extra-batch", "loss-weight")

    def check(self) -> None:
        """Raises UsageError for a value that makes no sense."""
        self._check_ranges()
        self._check_in_batch()
        if self.start_at_cosine and not (self.has_head and self.fusion == "multiply"):
            raise UsageError(
                "start_at_cosine needs a head over products of image and text",
                hint="--set start_at_cosine=false, or fusion=multiply in a recipe with a head",
            )
        if self.rerank:
            self._check_rerank()
        if self.shared_distractors and self.fixed_distractors:
            raise UsageError(
                "shared_distractors and fixed_distractors exclude each other: steps hold other queries in every epoch",
                hint="--set fixed_distractors=false",
            )
        if self.learns and self.epochs < 1:
            raise UsageError(f"epochs = {self.epochs}: {self.variant} would learn nothing", hint="--set epochs=1")

    def _check_ranges(self) -> None:
        for name, choices in {"variant": self.KNOWN, **_CHOICES}.items():
            if getattr(self, name) not in choices:
                raise UsageError(f"{name} = {getattr(self, name)!r} is unknown", hint=f"choose {', '.join(choices)}")
        for name in (*_POSITIVE, "lr"):
            if not getattr(self, name) > 0:
                raise UsageError(f"{name} = {getattr(self, name)} must be above 0", hint=f"--set {name}=VALUE")
        for name in _SHARES:
            if not 0 <= getattr(self, name) < 1:
                raise UsageError(f"{name} = {getattr(self, name)} is not in 0 <= {name} < 1", hint=f"--set {name}=0.1")
        for name in ("weight_decay", "at_once", "epochs", "patience", "clip", "layers", "rerank"):
            if not getattr(self, name) >= 0:
                raise UsageError(f"{name} = {getattr(self, name)} is below 0", hint=f"--set {name}=0")

    def _check_in_batch(self) -> None:
        if not 0 <= self.alpha <= 1:
            raise UsageError(f"alpha = {self.alpha} is not in 0..1", hint="--set alpha=0.3")
        if self.variant != IN_BATCH:
            if self.weak != "off" and self.variant not in VARIANTS[1:]:
                raise UsageError(
                    f"weak = {self.weak!r} does not apply to the variant {self.variant!r}: no query has candidates to learn from",
                    hint="--set weak=off",
                )
            return
        unknown = [name for name in _NOT_IN_BATCH if getattr(self, name)]
        if unknown or (self.loss != "softmax" and not makes_pairs(self.encoder)):
            raise UsageError(
                f"{unknown[0] if unknown else 'loss'} does not apply to the variant {IN_BATCH!r}",
                hint=f"--set {unknown[0]}=false" if unknown else "--set loss=softmax",
            )

    def _check_rerank(self) -> None:
        if self.variant != IN_BATCH or not makes_pairs(self.encoder):
            raise UsageError(
                f"rerank is about galleries and encoders of pairs, and the recipe is {self.variant!r} of {self.encoder}",
                hint="--set rerank=0",
            )
        if not self.rerank_by or makes_pairs(self.rerank_by):
            raise UsageError(
                f"rerank = {self.rerank} needs an encoder of vectors to find the candidates, and rerank_by is {self.rerank_by!r}",
                hint="--set rerank_by=ViT-B-32:openai, or --set rerank=0 to score every pair",
            )

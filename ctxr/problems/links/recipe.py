"""Recipes of trainings on documents (Hessel et al., EMNLP 2019)."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import inf
from typing import Annotated, ClassVar

from ctxr.engine.options import Choices, NotDecisive
from ctxr.models.hub import MINILM
from ctxr.models.training.recipe import TRAINING, Count, Natural, NotNegative, Recipe, Share, step_rules
from ctxr.store.kinds import MODEL
from ctxr.store.records import Record

CURVE = "curve.jsonl"
_WAIT, _FACTOR, _LEAST_RATE, _LEAST_FALL = 3, 0.2, 1e-7, 1e-4
"""Of the schedule `plateau`: epochs without a lower loss, what the rate is multiplied by, its least value, and what counts as lower."""

VARIANTS = ("links-ap", "links-dc", "links-tk", "links-nostruct", "links-objects", "links-zero-shot")
"""The optimal assignment, dense correspondence, the k best;
baselines: one drawn pair, labels of objects, a published encoder."""


@dataclass(frozen=True)
class LinksRecipe(Recipe):
    """How a document's sentences and images learn to be near each other; `batch`: documents."""

    DOCS: ClassVar[str] = "docs/models.md and docs/links.md"
    READ_BY: ClassVar[Mapping[str, Sequence[str]]] = {
        **dict.fromkeys((*TRAINING, "negatives", "margin", "augment", "dropout", "word_width"), VARIANTS[:4]),
        **dict.fromkeys(("sentences", "images"), ("links-ap", "links-dc", "links-tk")),
        "k": ("links-ap", "links-tk"),
        "at_most": ("links-ap",),
        "objects": ("links-objects",),
    }

    variant: Annotated[str, Choices(VARIANTS)] = "links-ap"
    """Similarity of two documents, or a baseline."""
    encoder: str = "ViT-B-16:openai"
    """Name of an encoder of vectors; unused where `features` and `text` leave it nothing to encode."""
    frozen: bool = True
    """The towers of `encoder` stay as they are; else they learn too."""
    at_once: Annotated[Count, NotDecisive] = 4096
    """Sentences or images in one pass."""
    schedule: Annotated[str, Choices(("constant", "linear", "cosine", "plateau"))] = "plateau"
    """Of the rate after the warm-up; plateau: a fifth after 3 epochs without a lower validation
    loss once it is below 2 margins."""
    loss: Annotated[str, Choices(("hinge", "logistic", "softmax"))] = "hinge"
    """Of the similarity of a document with itself against those with others."""
    layers: Count = 1
    """Of the projection of images, and of texts where an encoder makes them; 0 = none."""
    dropout: Share = 0.1
    """Of word vectors and projections."""
    text: Annotated[str, Choices(("gru", "encoder", MINILM))] = "gru"
    """Word vectors and a GRU, the text tower of `encoder`, or MiniLM as it is, the text tower of ctxr-lite."""
    words: str = ""
    """File of word vectors, GloVe or word2vec, text or binary; empty to learn them."""
    features: str = ""
    """Of images: FILE.npy with FILE.json {id: row}, or densenet169[:WEIGHTS];
    empty for the image tower of `encoder`."""
    width: Natural = 1024
    """Of the space that sentences and images share."""
    word_width: Natural = 300
    """Of word vectors that are learned."""
    least_count: Natural = 5
    """Occurrences from which on a word of the training sentences is known."""
    max_tokens: Natural = 20
    """Of a sentence; the rest is cut off."""
    k: Annotated[str, Choices(("all", "half"))] = "all"
    """Links of the k best and of the assignment: as many as the smaller side has, or half of that, rounded up."""
    at_most: bool = False
    """The assignment leaves out negative links, as the paper's program says;
    else it has exactly k, as the released code."""
    margin: NotNegative = 0.2
    """Of the loss."""
    negatives: Annotated[str, Choices(("hard", "mean"))] = "hard"
    """Other documents of the step: the most similar one, or the mean over all."""
    sentences: Count = 0
    """Drawn of each document in each step; 0 = all."""
    images: Count = 0
    """Drawn of each document in each step; 0 = all."""
    augment: bool = False
    """Rotate by up to 20 degrees, mirror and crop pictures, where the image tower learns."""
    objects: Natural = 10
    """Labels of an image, for links-objects."""

    def inputs(self) -> Iterator[tuple[str, str]]:
        """See `Recipe`; the encoder where it has anything to encode."""
        if not self.features or self.text == "encoder":
            yield "encoder", MODEL
        yield from (("features", "features"), ("words", "words"))

    @property
    def learns(self) -> bool:
        """Whether there is anything to train."""
        return self.variant not in ("links-objects", "links-zero-shot")

    @property
    def tunes(self) -> bool:
        """Whether the encoder itself learns."""
        return not self.frozen

    def rate(self, measures: Sequence[float | None]) -> float:
        """See `Recipe`; a measure is minus the validation loss."""
        rate, best, waited, low = self.lr, inf, 0, False
        for loss in (-measure for measure in measures if measure is not None and self.schedule == "plateau"):
            # only similarities that a margin keeps apart have a loss that it bounds
            low = low or self.loss != "hinge" or loss < 2 * self.margin
            lower = loss < best - _LEAST_FALL
            best, waited = loss if lower else best, 0 if lower or not low else waited + 1
            if waited == _WAIT:
                rate, waited = max(rate * _FACTOR, min(self.lr, _LEAST_RATE)), 0
        return rate

    def rules(self) -> Iterator[tuple[str, str]]:
        """Two documents a step, an image tower that can learn, and word vectors for labels."""
        yield from super().rules()
        yield from step_rules(self, "document")
        if self.text == MINILM and not self.frozen:
            yield "frozen = false: minilm stays as it is", "--set text=encoder, or --set frozen=true"
        if self.features and not self.frozen:
            yield "frozen = false needs pictures, and features are given", "--set features="
        if self.augment and self.frozen:
            yield "augment needs an image tower that learns", "--set frozen=false"
        plain = self.text == "encoder" and self.frozen and not self.layers
        if self.learns and plain:
            yield "layers = 0 over a frozen encoder leaves nothing to learn", "--set layers=1"
        if self.variant == "links-zero-shot" and (self.features or not plain):
            yield "links-zero-shot takes an encoder as it is", "--set text=encoder --set layers=0 --set features="
        named = self.words and self.features.startswith("densenet169") and self.text == "gru" and self.layers == 1
        if self.variant == "links-objects" and not named:
            yield "links-objects needs words and names of objects", "--set words=FILE --set features=densenet169"


class CurveRow(Record, frozen=True):
    """An epoch: its mean loss, loss of validation, and AUC of its links, None where unknown."""

    KEY = ("epoch",)

    epoch: int
    loss: float
    valid_loss: float | None
    valid_auc: float | None

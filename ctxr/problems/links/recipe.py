"""Recipes of trainings on documents (Hessel et al., EMNLP 2019)."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, ClassVar

from ctxr.engine.options import Choices, NotDecisive
from ctxr.models.training.recipe import Count, Natural, NotNegative, Recipe

VARIANTS = ("links-ap", "links-dc", "links-tk", "links-nostruct", "links-objects", "links-zero-shot")
"""Similarities of two documents: the optimal assignment, dense correspondence, the k best. Baselines: one sentence and one image
drawn of each document, labels of objects, an encoder as published."""


@dataclass(frozen=True)
class LinksRecipe(Recipe):
    """How sentences and images of a document learn to be nearer to each other than to those of other documents; `batch` counts
    documents."""

    UNUSED: ClassVar[tuple[str, ...]] = (
        "regions", "start", "heads", "inner", "fusion", "scale", "start_at_cosine", "new_score", "distractors",
        "shared_distractors", "rerank", "rerank_by", "weak", "alpha", "summed_gradients", "undivided_decay",
        "dropout_in_evaluation", "fixed_distractors", "leaked_gradients", "fp16_masters", "unjudged_last_epoch",
        "all_positions", "judged_on_test",
    )  # fmt: skip

    variant: Annotated[str, Choices(VARIANTS)] = "links-ap"
    """Similarity of two documents, or a baseline."""
    at_once: Annotated[Count, NotDecisive] = 4096
    """Sentences or images in one pass."""
    schedule: Annotated[str, Choices(("constant", "linear", "cosine", "plateau"))] = "plateau"
    """Of the rate after the warm-up; plateau: a fifth after 3 epochs without a lower validation loss, once that is below twice the
    margin."""
    loss: Annotated[str, Choices(("hinge", "logistic", "softmax"))] = "hinge"
    """Of the similarity of a document with itself against those with others."""
    layers: Count = 1
    """Of the projection of images, and of texts where an encoder makes them; 0 = none."""
    text: Annotated[str, Choices(("gru", "encoder"))] = "gru"
    """Word vectors and a GRU, or the text tower of `encoder`."""
    words: str = ""
    """File of word vectors, GloVe or word2vec, text or binary; empty to learn them."""
    features: str = ""
    """Of images: FILE.npy with FILE.json {id: row}, or densenet169[:WEIGHTS]; empty for the image tower of `encoder`."""
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
    """The assignment leaves out negative links, as the paper's program says; else it has exactly k, as the released code."""
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

    @property
    def learns(self) -> bool:
        """Whether there is anything to train."""
        return self.variant not in ("links-objects", "links-zero-shot")

    def rules(self) -> Iterator[tuple[str, str]]:
        """Two documents a step, an image tower that can learn, and word vectors for labels."""
        yield from super().rules()
        if self.learns and self.batch < 2:
            yield f"batch = {self.batch}: a document needs another one to be compared with", "--set batch=11"
        if self.features and not self.frozen:
            yield "frozen = false needs pictures, and features are given", "--set features="
        if self.augment and self.frozen:
            yield "augment needs an image tower that learns", "--set frozen=false"
        if self.variant == "links-objects" and not (self.words and self.features.startswith("densenet169")):
            yield (
                "links-objects needs word vectors and a classifier of objects",
                "--set words=FILE --set features=densenet169",
            )

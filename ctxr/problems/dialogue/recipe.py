"""Recipes of models that find the photo that a dialogue leads to (PhotoChat, section 5.2)."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar

from ctxr.engine.options import Choices
from ctxr.models.training.recipe import LOSSES, TRAINING, Natural, NotNegative, Positive, Recipe, step_rules
from ctxr.store.kinds import MODEL, REGION_FEATURES, RUN

DUAL, BM25, ZERO_SHOT, VSE, SCAN = VARIANTS = (
    "dialogue", "dialogue-bm25", "dialogue-zero-shot", "dialogue-vse", "dialogue-scan"
)  # fmt: skip
"""The dual encoder of the paper; words of labels; an encoder as it is; VSE++ and SCAN t-i AVG, which the paper compares with."""

IMAGE, LABELS, BOTH = "image", "labels", "both"
SHARER, ALL = "sharer", "all"

_DECAY, _EPOCHS = 0.999, 12
"""Of the schedule `steps`: what the rate is multiplied by, and after how many epochs: 972 steps of the published training set."""


@dataclass(frozen=True)
class DialogueRecipe(Recipe):
    """How dialogues and photos learn to be near; `batch`: dialogues, each with its photo."""

    DOCS: ClassVar[str] = "docs/dialogues.md"
    READ_BY: ClassVar[Mapping[str, Sequence[str]]] = {
        **dict.fromkeys([*TRAINING, "start", "width", "max_tokens", "margin"], (DUAL, VSE, SCAN)),
        **dict.fromkeys(("text", "label_text", "temperature"), (DUAL,)),
        **dict.fromkeys(("embedded", "vocabulary"), (VSE, SCAN)),
        "photo": (DUAL, ZERO_SHOT),
        "encoder": (DUAL, ZERO_SHOT, VSE),
        "frozen": (DUAL, VSE),
        "regions": (SCAN,),
    }

    variant: Annotated[str, Choices(VARIANTS)] = DUAL
    """Dual encoder, BM25, an encoder without training, VSE++ or SCAN."""
    said: Annotated[str, Choices((SHARER, ALL))] = SHARER
    """Whose messages before the photo are read."""
    photo: Annotated[str, Choices((BOTH, IMAGE, LABELS))] = BOTH
    """What is known of a photo: its pixels, its object labels, or both."""
    start: str = ""
    """Run of the same shape whose weights are the first ones, such as one on captions; empty for random ones."""
    encoder: str = "resnet152"
    """Image tower: resnet50 or resnet152 of torchvision, or an encoder of vectors."""
    frozen: bool = False
    """The image tower stays as it is; else it learns too."""
    regions: str = ""
    """Region features of the photos, by the name of their artifact."""
    text: str = "bert:google-bert/bert-base-uncased"
    """Encoder of dialogues, as recipes of entailment name text branches."""
    label_text: str = "bert:google-bert/bert-base-uncased"
    """Encoder of object labels, likewise; its weights are its own."""
    loss: Annotated[str, Choices(LOSSES)] = LOSSES[0]
    """Cross-entropy (CE), or a hinge over all wrong pairs (SH) or the hardest one (MH), both ways."""
    margin: NotNegative = 0.2
    """Of the hinge."""
    temperature: Positive = 1.0
    """That products are divided by; 1 as published, for the paper names none."""
    width: Natural = 512
    """Of vectors of photos and dialogues."""
    embedded: Natural = 300
    """Width of embeddings of words."""
    vocabulary: Natural = 10_000
    """Most words that are known, the most common ones of the training texts."""
    max_tokens: Natural = 128
    """Words or word pieces of a dialogue; the rest is cut off."""
    schedule: Annotated[str, Choices(("constant", "linear", "cosine", "steps"))] = "steps"
    """Of the rate after the warm-up; steps: times 0.999 every 12 epochs."""

    @property
    def encodes(self) -> bool:
        """Whether an encoder of vectors is read."""
        return self.variant in (ZERO_SHOT, VSE) or (self.variant == DUAL and self.photo != LABELS)

    @property
    def looks(self) -> bool:
        """Whether pictures are needed."""
        return self.variant in (VSE, SCAN) or (self.encodes and self.photo != LABELS)

    @property
    def texts(self) -> dict[str, str]:
        """Names of text encoders, by what they read."""
        names = {"text": self.text} | ({"label_text": self.label_text} if self.photo != IMAGE else {})
        return names if self.variant == DUAL else {}

    def inputs(self) -> Iterator[tuple[str, str]]:
        """See `Recipe`."""
        if self.encodes:
            yield "encoder", MODEL
        yield from ((name, MODEL) for name in self.texts)
        if self.variant == SCAN:
            yield "regions", REGION_FEATURES
        yield "start", RUN

    @property
    def learns(self) -> bool:
        """Whether there is anything to train."""
        return self.variant not in (BM25, ZERO_SHOT)

    @property
    def tunes(self) -> bool:
        """Whether the image tower learns."""
        return self.learns and self.encodes and not self.frozen

    def rate(self, measures: Sequence[float | None]) -> float:
        """See `Recipe`."""
        return self.lr * (_DECAY ** (len(measures) // _EPOCHS) if self.schedule == "steps" else 1)

    def rules(self) -> Iterator[tuple[str, str]]:
        """An encoder of vectors where there is one, texts that are read one by one, and two dialogues a step."""
        yield from super().rules()
        yield from step_rules(self, "dialogue")
        if late := next((key for key, name in self.texts.items() if name.startswith("late:")), ""):
            yield f"{late} = {self.texts[late]!r} makes no vector of one text", f"--set {late}=bert:minilm"

"""Everything that decides the training of an entailment classifier, as numbers and names."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from ctxr.errors import UsageError
from ctxr.models.training.recipe import ENTAILMENT, Recipe


@dataclass(frozen=True)
class ClassifierRecipe(Recipe):
    """How a classifier is trained: the keys of `Recipe` that are about steps and rates, and these.

    Attributes:
        text: text branch, as `find_text` takes it; "shared" for the layers over words of the image branch; "" for none.
        image: image branch, as `find_image` takes it; "" for none.
        frozen_text: the text branch stays as it is, and is asked once; else it learns too.
        scalar_gate: gates of one number; else one for each dimension.
        head_width: of the heads' hidden layers; 0 for that of the branches.
        masking: share of patches that are blackened to make a negative of a positive; 0 = no masking.
        masked: pictures of a step that are masked, at most, however many passes it takes.
        text_data, image_data, joint_data: whether pairs of texts, of pictures without premise, and of both are learned from.
        wanted_precision: the threshold is the lowest that reaches it on dev.
        image_size: pixels of a side that a published vision transformer looks at; 0 as it was trained.
        width, vision_layers, text_layers, fusion_layers: of branches that start from nothing.
    """

    DOCS: ClassVar[str] = "docs/models.md and docs/entailment.md"

    variant: str = ENTAILMENT
    encoder: str = ""
    text: str = "bert:google-bert/bert-base-uncased"
    image: str = "albef:ALBEF"
    frozen_text: bool = False
    scalar_gate: bool = False
    head_width: int = 0
    masking: float = 0.4
    masked: int = 4
    text_data: bool = True
    image_data: bool = True
    joint_data: bool = True
    wanted_precision: float = 0.8
    image_size: int = 384
    width: int = 128
    vision_layers: int = 2
    text_layers: int = 2
    fusion_layers: int = 2

    def column(self, premise: bool, image: bool) -> int:
        """The head that judges a claim: over both where there are both, of the one that there is, else of the branch that the
        classifier has, which then sees an empty premise or a black picture."""
        has_text, has_image = bool(self.text), bool(self.image)
        if has_text and has_image:
            return JOINT if premise and image else IMAGE if image else TEXT
        return TEXT if has_text else IMAGE

    def check(self) -> None:
        """Raises UsageError for a value that makes no sense."""
        super().check()
        if self.variant != ENTAILMENT:
            raise UsageError(f"variant = {self.variant!r} is no classifier's", hint=f"--set variant={ENTAILMENT}")
        for name, value in (("text", self.text), ("image", self.image)):
            if instead := REMOVED.get(value.partition(":")[0]):
                raise UsageError(
                    f"{name} = {value!r} is a branch that ctxr no longer has",
                    hint=f"ctxr train --recipe entailment --set {name}={instead}",
                )
        if not self.image and self.text in ("", SHARED):
            raise UsageError("a classifier needs a text branch or an image branch", hint="--set text=random:bert-tiny")
        if self.frozen_text and self.text in ("", SHARED):
            raise UsageError("frozen_text needs a text branch of its own", hint="--set text=bert:DIRECTORY")
        if not (self.text_data or self.image_data or self.joint_data):
            raise UsageError("without data of any kind nothing is learned", hint="--set joint_data=true")
        if not 0 <= self.masking < 1 or not 0 < self.wanted_precision <= 1:
            raise UsageError(
                f"masking = {self.masking} and wanted_precision = {self.wanted_precision} are shares of 1",
                hint="--set masking=0.4",
            )
        for name in ("width", "vision_layers", "text_layers", "fusion_layers"):
            if getattr(self, name) < 1:
                raise UsageError(f"{name} = {getattr(self, name)} must be above 0", hint=f"--set {name}=2")
        if self.width % 32:
            raise UsageError(f"width = {self.width} is no multiple of 32", hint="--set width=128")
        if min(self.masked, self.head_width, self.image_size) < 0:
            raise UsageError("masked, head_width and image_size cannot be below 0", hint="--set masked=4")


TEXT, IMAGE, JOINT = 0, 1, 2
"""Columns of the indicators and of the heads: textual, visual, multi-modal."""


SHARED = "shared"
"""Text branch of that name: the layers over words of the image branch (paper, Table 3, without BERT)."""

REMOVED = {"sbert": "late:DIRECTORY", "grid": "aligned:ENCODER"}
"""Kinds of branches that earlier versions had, each with what to train instead."""

SEED = 0
"""Of the first weights of branches that start from nothing."""

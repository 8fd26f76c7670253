"""Text and image branches by name, and the classifier that they make."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

import torch

from ctxr.errors import DataError, UsageError
from ctxr.models.blip import BlipEncoder, load_blip
from ctxr.models.entailment.albef import albef_source
from ctxr.models.entailment.base import ClaimTokens, ImageSource, TextSource
from ctxr.models.entailment.classifier import EntailmentClassifier
from ctxr.models.entailment.fusion import FusionBranch
from ctxr.models.entailment.image_branches import RANDOM, aligned_source, dark_pixel, random_source
from ctxr.models.entailment.recipe import SHARED, ClassifierRecipe
from ctxr.models.entailment.text import LATE, TINY, SharedBranch, bert_source, frozen_text_source, tiny_source
from ctxr.models.hub import MINILM, is_blip
from ctxr.models.layers import seeded


def find_image(name: str, recipe: ClassifierRecipe, device: str = "cpu") -> ImageSource:
    """The image branch of that name.

    Args:
        name: "albef:FOLDER", a published checkpoint; "blip:DIRECTORY" or "blip:OWNER/NAME"; "aligned:ENCODER", a fusion encoder
            over the cells of an encoder of open_clip; or untrained weights, "random:albef", "random:albef-tiny", "random:blip-tiny".

    Raises UsageError for an unknown name, DataError for files that do not fit.
    """
    if name.startswith("albef:"):
        return albef_source(name, recipe)
    if is_blip(name):
        source = load_blip(name)
        preprocess = source.preprocess
        if preprocess is None or recipe.image_size not in (0, preprocess.size[0]):
            raise UsageError(f"{name} looks at pictures of its own size", hint="--set image_size=0")

        def build() -> FusionBranch:
            model = cast("BlipEncoder", source.build()).model
            black = dark_pixel(preprocess.mean, preprocess.std)
            return FusionBranch(model.vision_model, model.text_encoder, black).requires_grad_(True)

        return ImageSource(name, source.fingerprint, source.width, build, source.tokenize, preprocess)
    if name.startswith("aligned:"):
        return aligned_source(name, recipe, device)
    if name in RANDOM:
        return random_source(name, recipe)
    names = "albef:FOLDER, blip:DIRECTORY, aligned:ctxr-tiny, " + ", ".join(RANDOM)
    raise UsageError(f"unknown image branch {name!r}", hint=f"--set image={names}")


def find_text(name: str, recipe: ClassifierRecipe) -> TextSource:
    """The text branch of that name: "bert:DIRECTORY", "bert:OWNER/NAME", "bert:minilm", the same with "late:" to read premise and
    hypothesis apart, or untrained weights, "random:bert-tiny" and "aligned:ENCODER", whose words start in the space of an encoder.

    Raises UsageError for an unknown name, DataError for files that do not fit.
    """
    if name.partition(":")[0] in ("bert", LATE) and ":" in name:
        return bert_source(name)
    if name == TINY or name.startswith("aligned:"):
        return tiny_source(recipe, "" if name == TINY else name.removeprefix("aligned:"))
    raise UsageError(
        f"unknown text branch {name!r}",
        hint=f"--set text=bert:DIRECTORY, {LATE}:DIRECTORY, {LATE}:{MINILM}, aligned:ctxr-tiny, {TINY} or {SHARED}",
    )


@dataclass(frozen=True)
class Branches:
    """The branches; None for a missing one, and for a text branch `shared` with the image."""

    text: TextSource | None
    image: ImageSource | None
    shared: bool = False

    def tokenize(self, premises: Sequence[str], hypotheses: Sequence[str]) -> ClaimTokens:
        """A row for each claim; one column of 0 for no branch."""
        nothing = torch.zeros(len(premises), 1, dtype=torch.int64)
        paired = self.text.tokenize if self.text else self.image.pairs if self.shared and self.image else None
        ids, types = paired(premises, hypotheses) if paired else (nothing, nothing)
        return ClaimTokens(ids, types, self.image.tokenize(hypotheses) if self.image else nothing)


def find_branches(recipe: ClassifierRecipe, device: str = "cpu") -> Branches:
    """Those of a recipe. Raises as `find_text` and `find_image`, DataError for unlike widths."""
    image = find_image(recipe.image, recipe, device) if recipe.image else None
    shared = recipe.text == SHARED
    text = find_text(recipe.text, recipe) if recipe.text and not shared else None
    text = frozen_text_source(text, device) if text and recipe.frozen_text else text
    if shared and (image is None or image.pairs is None):
        raise DataError(f"{recipe.image} has no layers over words alone to share", hint="--set text=bert:DIRECTORY")
    if text and image and text.width != image.width:
        raise DataError(
            f"{text.name} is {text.width} wide and {image.name} {image.width}: what they say is added",
            hint="take branches of one width; for untrained ones --set width=",
        )
    return Branches(text, image, shared)


def new_classifier(recipe: ClassifierRecipe, branches: Branches, seed: int = 0) -> EntailmentClassifier:
    """The classifier before training; `seed` decides the first weights of heads and gates."""
    image: Any = branches.image.build() if branches.image else None
    text: Any = SharedBranch(image) if branches.shared else branches.text.build() if branches.text else None
    with seeded(seed):
        return EntailmentClassifier(text, image, recipe.head_width, recipe.scalar_gate, recipe.dropout)

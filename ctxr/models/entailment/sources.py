"""What the names of text branches and image branches stand for, and the classifier that they make."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

import torch
from torch import Tensor, nn

from ctxr.errors import DataError, UsageError
from ctxr.models.blip import BlipEncoder, is_blip, load_blip
from ctxr.models.entailment.albef import albef_source
from ctxr.models.entailment.base import ImageSource, TextSource
from ctxr.models.entailment.classifier import EntailmentClassifier
from ctxr.models.entailment.image_branches import RANDOM, aligned_source, random_source
from ctxr.models.entailment.recipe import SHARED, ClassifierRecipe
from ctxr.models.entailment.text import LATE, TINY, SharedBranch, bert_source, frozen_text_source, tiny_source
from ctxr.models.entailment.vision import black_patches, by_head, cls_shares
from ctxr.models.regions import output_of


class BlipBranch(nn.Module):
    """A branch as `FusionBranch` is one.

    Args:
        black: a picture without light, as it looks at it, [1, 3, 1, 1].
    """

    black: Tensor

    def __init__(self, encoder: BlipEncoder, black: Tensor) -> None:
        super().__init__()
        self.encoder, self.width = encoder, encoder.width
        self.register_buffer("black", black)

    def forward(self, images: Tensor, place: Tensor, tokens: Tensor) -> Tensor:
        """h^v [B, D] of hypotheses [B, T] about the pictures in rows `place` [B] of `images`; each is encoded once."""
        mask = torch.ones(len(place), 1, dtype=torch.bool, device=place.device)
        return self.encoder.pairs(images, tokens, place[:, None], mask)[:, 0]

    def cls_attention(self, images: Tensor) -> Tensor:
        """How much [CLS] of the vision transformer looks at each patch in its last layer, mean over heads: [N, P]."""
        vision = self.encoder.model.vision_model
        last = vision.encoder.layers[-1]
        seen = output_of(last.layer_norm1, vision, images)
        query, key, _ = by_head(last.self_attn.qkv(seen), last.self_attn.num_heads)
        return cls_shares(query, key)

    def blackened(self, images: Tensor, hidden: Tensor) -> Tensor:
        """The pictures without light in the patches where `hidden` [N, P] is True."""
        return black_patches(images, hidden, self.black)


def blip_source(name: str, recipe: ClassifierRecipe) -> ImageSource:
    """The image branch of "blip:DIRECTORY", "blip:OWNER/NAME" or "random:blip-tiny". Raises what `load_blip` raises."""
    source = load_blip(name)
    preprocess = source.preprocess
    if preprocess is None or recipe.image_size not in (0, preprocess.size[0]):
        raise UsageError(f"{name} looks at pictures of its own size", hint="--set image_size=0")
    dark = -torch.tensor(preprocess.mean).view(1, 3, 1, 1) / torch.tensor(preprocess.std).view(1, 3, 1, 1)

    def build() -> BlipBranch:
        return BlipBranch(cast("BlipEncoder", source.build()), dark).requires_grad_(True)

    return ImageSource(name, source.fingerprint, source.width, build, source.tokenize, preprocess)


def find_image(name: str, recipe: ClassifierRecipe, device: str = "cpu") -> ImageSource:
    """The image branch of that name.

    Args:
        name: "albef:FOLDER", a published checkpoint; "blip:DIRECTORY" or "blip:OWNER/NAME"; "aligned:ENCODER", a fusion encoder of
            our own over the cells of an encoder of open_clip, whose words and cells start in its space; or untrained weights,
            "random:albef", "random:albef-tiny", "random:blip-tiny".

    Raises UsageError for an unknown name, DataError for files that do not fit.
    """
    if name.startswith("albef:"):
        return albef_source(name, recipe)
    if is_blip(name):
        return blip_source(name, recipe)
    if name.startswith("aligned:"):
        return aligned_source(name, recipe, device)
    if name in RANDOM:
        return random_source(name, recipe)
    names = "albef:FOLDER, blip:DIRECTORY, aligned:ctxr-tiny, " + ", ".join(RANDOM)
    raise UsageError(f"unknown image branch {name!r}", hint=f"--set image={names}")


def find_text(name: str, recipe: ClassifierRecipe) -> TextSource:
    """The text branch of that name: "bert:DIRECTORY", "bert:OWNER/NAME" of the hub, the same with "late:" to read premise
    and hypothesis apart, or untrained weights, "random:bert-tiny" and "aligned:ENCODER", whose words start as an encoder of open_clip has
    them.

    Raises UsageError for an unknown name, DataError for files that do not fit.
    """
    if name.partition(":")[0] in ("bert", LATE) and ":" in name:
        return bert_source(name)
    if name == TINY:
        return tiny_source(recipe)
    if name.startswith("aligned:"):
        return tiny_source(recipe, name.removeprefix("aligned:"))
    raise UsageError(
        f"unknown text branch {name!r}",
        hint=f"--set text=bert:DIRECTORY, {LATE}:DIRECTORY, aligned:ctxr-tiny, {TINY} or {SHARED}",
    )


@dataclass(frozen=True)
class Branches:
    """What a classifier is made of; None for a branch that it does without.

    Attributes:
        text: with `SHARED`, it is that of the image branch and None here.
    """

    text: TextSource | None
    image: ImageSource | None
    shared: bool = False

    def tokenize(self, premises: Sequence[str], hypotheses: Sequence[str]) -> tuple[Tensor, Tensor, Tensor]:
        """(ids, types, ids of the hypotheses for the image branch), a row for each claim; one column of 0 for no branch."""
        nothing = torch.zeros(len(premises), 1, dtype=torch.int64)
        paired = self.text.tokenize if self.text else self.image.pairs if self.shared and self.image else None
        ids, types = paired(premises, hypotheses) if paired else (nothing, nothing)
        return ids, types, self.image.tokenize(hypotheses) if self.image else nothing


def find_branches(recipe: ClassifierRecipe, device: str = "cpu") -> Branches:
    """The branches that a recipe names. Raises what `find_text` and `find_image` raise, DataError for widths that differ."""
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
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return EntailmentClassifier(text, image, recipe.head_width, recipe.scalar_gate, recipe.dropout)

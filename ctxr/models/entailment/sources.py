"""What the names of text branches and image branches stand for, before anything is built."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ctxr.errors import UsageError

if TYPE_CHECKING:
    from torch import Tensor, nn

    from ctxr.models.preprocess import Preprocess

SHARED = "shared"
"""Text branch of that name: the layers over words of the image branch (paper, Table 3, without BERT)."""

REMOVED = {"sbert": "late:DIRECTORY", "grid": "aligned:ENCODER"}
"""Kinds of branches that earlier versions had, each with what to train instead."""


@dataclass(frozen=True)
class Sizes:
    """Of branches that start from nothing; published ones bring their own.

    Attributes:
        width: D. vision_layers, text_layers, fusion_layers: of each part. image_size: pixels that a published vision transformer
            looks at, 0 for as many as it was trained on. seed: of first weights.
    """

    width: int = 128
    vision_layers: int = 2
    text_layers: int = 2
    fusion_layers: int = 2
    dropout: float = 0.1
    image_size: int = 0
    seed: int = 0


@dataclass(frozen=True)
class TextSource:
    """A text branch.

    Attributes:
        name: as it was given. fingerprint: sha256 over weights, config and vocabulary. width: D of h^t.
        build: makes the module, on the CPU, fp32: ids and types [B, T] to h^t [B, D].
        tokenize: premises and hypotheses to ids and types int64 [B, T], id 0 where there is none.
        asked: the branch stays as it is: in place of ids stands h^t itself, float32 [B, D], and the module hands it on.
    """

    name: str
    fingerprint: str
    width: int
    build: Callable[[], nn.Module]
    tokenize: Callable[[Sequence[str], Sequence[str]], tuple[Tensor, Tensor]]
    asked: bool = False


@dataclass(frozen=True)
class ImageSource:
    """An image branch.

    Attributes:
        name: as it was given. fingerprint: sha256 over weights, config and vocabulary. width: D of h^v.
        build: makes the module, on the CPU, fp32 (`ctxr.models.entailment.fusion.FusionBranch` says what it does).
        tokenize: hypotheses to ids int64 [B, U], 0 where there is none.
        preprocess: what is done to pixels first; None where cells of an encoder are looked at.
        cells: that encoder's name; "" for pixels.
        pairs: premises and hypotheses as the layers over words take them, for a text branch that shares them; None where it cannot.
    """

    name: str
    fingerprint: str
    width: int
    build: Callable[[], Any]
    tokenize: Callable[[Sequence[str]], Tensor]
    preprocess: Preprocess | None
    cells: str = ""
    pairs: Callable[[Sequence[str], Sequence[str]], tuple[Tensor, Tensor]] | None = None


def find_image(name: str, sizes: Sizes, device: str = "cpu") -> ImageSource:
    """The image branch of that name.

    Args:
        name: "albef:FOLDER", a published checkpoint; "blip:DIRECTORY" or "blip:OWNER/NAME"; "aligned:ENCODER", a fusion encoder of
            our own over the cells of an encoder of open_clip, whose words and cells start in its space; or untrained weights,
            "random:albef", "random:albef-tiny", "random:blip-tiny".

    Raises UsageError for an unknown name, DataError for files that do not fit.
    """
    from ctxr.models.blip import is_blip

    if name.startswith("albef:"):
        from ctxr.models.entailment.albef import albef_source

        return albef_source(name, sizes)
    if is_blip(name):
        from ctxr.models.entailment.blip import blip_source

        return blip_source(name, sizes)
    from ctxr.models.entailment.fresh import RANDOM, aligned_source, random_source

    if name.startswith("aligned:"):
        return aligned_source(name, sizes, device)
    if name in RANDOM:
        return random_source(name, sizes)
    known = "albef:FOLDER, blip:DIRECTORY, aligned:ctxr-tiny, " + ", ".join(RANDOM)
    raise UsageError(f"unknown image branch {name!r}", hint=f"--set image={known}")


def find_text(name: str, sizes: Sizes) -> TextSource:
    """The text branch of that name: "bert:DIRECTORY", "bert:OWNER/NAME" of the hub, the same with "late:" to read premise
    and hypothesis apart, or untrained weights, "random:bert-tiny" and "aligned:ENCODER", whose words start as an encoder of open_clip has
    them.

    Raises UsageError for an unknown name, DataError for files that do not fit.
    """
    from ctxr.models.entailment.text import LATE, TINY, bert_source, tiny_source

    if name.partition(":")[0] in ("bert", LATE) and ":" in name:
        return bert_source(name)
    if name == TINY:
        return tiny_source(sizes)
    if name.startswith("aligned:"):
        return tiny_source(sizes, name.removeprefix("aligned:"))
    raise UsageError(
        f"unknown text branch {name!r}",
        hint=f"--set text=bert:DIRECTORY, {LATE}:DIRECTORY, aligned:ctxr-tiny, {TINY} or {SHARED}",
    )

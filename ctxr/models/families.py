"""Encoders of vectors and encoders of pairs, by name."""

from collections.abc import Sequence
from pathlib import Path

from ctxr.models.blip import blip_folder, load_blip
from ctxr.models.cross.sources import CrossSource, load_cross
from ctxr.models.encoders import TINY_FOLDER, EncoderSource, Warn, find_source
from ctxr.models.entailment.text import bert_folder
from ctxr.models.hub import LITE, RESNETS, TINY, fetched_weights, is_blip, makes_pairs, split_name
from ctxr.models.judges.nli import nli_folder
from ctxr.models.regions import DETECTOR, weights_here
from ctxr.models.resnets import resnet_file
from ctxr.models.wheels import lite_folder


def find_encoder(name: str, warn: Warn) -> EncoderSource | CrossSource:
    """The encoder of a name. Raises what `find_source`, `load_blip` and `load_cross` raise."""
    if not makes_pairs(name):
        return find_source(name, warn)
    return load_blip(name) if is_blip(name) else load_cross(name)


def locate_model(name: str) -> tuple[str, Sequence[Path]]:
    """The full name of a model that is not named by its folder, and its files, which are fetched if they are not on this machine.

    Raises UsageError for an unknown name, CtxrError for files that cannot be fetched.
    """
    kind, _, value = name.partition(":")
    if name == DETECTOR:
        file = weights_here()
        return f"{name}:{file}", [file]
    # where there is no folder, whoever builds it says so
    if kind in ("random", "local-dir", "checkpoint", "volta", "albef", DETECTOR):
        return name, []
    if kind in RESNETS:
        return f"{kind}:{(file := resnet_file(name))}", [file]
    if kind == "nli":
        return name, sorted(file for file in nli_folder(value).iterdir() if file.is_file())
    if is_blip(name) or kind in ("bert", "late", "t5"):
        folder = blip_folder(value) if is_blip(name) else bert_folder(name)
        return name, sorted(file for file in folder.iterdir() if file.is_file())
    if name == "auto":
        name = find_source(name).name
    if name == LITE:
        return name, sorted(file for file in lite_folder().rglob("*") if file.is_file())
    if name == TINY:
        return name, sorted(TINY_FOLDER.iterdir())
    arch, tag = split_name(name)
    return f"{arch}:{tag}", [fetched_weights(arch, tag)]

"""Checkpoints of volta: its names for weights, and ours (specs A0.2, 6)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import torch
from torch import Tensor

from ctxr.errors import DataError, UsageError
from ctxr.models.cross.config import CrossConfig
from ctxr.models.cross.encoder import RegionEncoder
from ctxr.models.published import check_shapes, read_tensors, renamed

VOCABULARY = "vocab.txt"
_PICKLES = ("pytorch_model*.bin", "*.pth")
_MATCH = "cls.bi_seq_relationship"
_LEFT = ("cls.predictions.", "cls.imagePredictions.", "cls.qaPredictions.")
"""Pre-training's other heads: masked words, tied to the embeddings, and masked regions."""

_LAYER = {
    "attention_self.{}query": "query",
    "attention_self.{}key": "key",
    "attention_self.{}value": "value",
    "attention_output.{}dense": "out",
    "attention_output.{}LayerNorm": "after_attention",
}
_FEED = {"intermediate.{}dense": "widen", "output.{}dense": "narrow", "output.{}LayerNorm": "after_widening"}
_WORDS = {"word_embeddings": "pieces", "position_embeddings": "places", "token_type_embeddings": "kinds"}
_VILBERT = {"image_embeddings": "features", "image_location_embeddings": "box", "LayerNorm": "norm"}
_UNITER = {
    "image_embeddings": "features",
    "image_location_embeddings": "box",
    "image_layer_norm": "features_norm",
    "image_location_layer_norm": "box_norm",
    "v_LayerNorm": "norm",
}


def find_files(folder: Path) -> tuple[Path, Path]:
    """(config, weights) of a checkpoint's folder.

    Config is `config.json` or the only JSON file; weights are `model.safetensors`, `pytorch_model*.bin` or `*.pth`.

    Raises:
        UsageError: no such folder. DataError: none or several of one of them.
    """
    if not folder.is_dir():
        raise UsageError(
            f"there is no folder {folder} with weights of volta",
            hint="volta:FOLDER with a config, weights and vocab.txt; for a recipe --set encoder=volta:FOLDER",
        )
    safe = folder / "model.safetensors"
    weights = [safe] if safe.is_file() else sorted({path for kind in _PICKLES for path in folder.glob(kind)})
    named = folder / "config.json"
    configs = [named] if named.is_file() else sorted(folder.glob("*.json"))
    for found, what in (
        (configs, "config (*.json)"),
        (weights, "weights (model.safetensors, pytorch_model*.bin, *.pth)"),
    ):
        if len(found) != 1:
            names = ", ".join(path.name for path in found) or "none"
            raise DataError(f"{folder}: wanted one file with the {what}, found {names}", hint="leave exactly one there")
    return configs[0], weights[0]


def load_volta(config: CrossConfig, path: Path) -> RegionEncoder:
    """The encoder with the weights of a checkpoint, fp32, on the CPU, in evaluation mode.

    Raises:
        DataError: a file that is damaged or holds more than weights, or weights of another model.
    """
    mine = translate(read_tensors(path, under=("model_state_dict",)), config, path)
    with torch.device("meta"):
        model = RegionEncoder(config)
    check_shapes(mine, model.state_dict(), path)
    model.load_state_dict(mine, assign=True)
    return model.eval()


def translate(state: Mapping[str, Tensor], config: CrossConfig, path: Path) -> dict[str, Tensor]:
    """A `RegionEncoder`'s state, fp32, from volta's.

    Raises:
        DataError: weights that are missing, unexpected, or not equal where they are shared; `path` is named.
    """
    state = {key.removeprefix("module."): value.float() for key, value in state.items()}
    state = _with_match(state)
    twins = {copy: key for copy, key in _twins(config) if copy in state}
    # safetensors stores shared weights once, under either name
    state = {key: state[copy] for copy, key in twins.items()} | state
    ours = renamed(state, dict(_names(config)), lambda key: key in twins or key.startswith(_LEFT), path)
    for copy, key in twins.items():
        if not torch.equal(state[key], state[copy]):
            raise DataError(f"{path}: {key} and {copy} differ", hint="give a config that does not share sublayers")
    return ours


def _with_match(state: dict[str, Tensor]) -> dict[str, Tensor]:
    """The state with a matching head: pre-training's, or in its place that of a fine-tuned retrieval task [1, D]."""
    if f"{_MATCH}.weight" in state:
        return state
    tasks = [key.removesuffix(".weight") for key in state if key.startswith("clfs_dict.") and key.endswith(".weight")]
    if len(tasks) != 1 or state[f"{tasks[0]}.weight"].shape[0] != 1 or f"{tasks[0]}.bias" not in state:
        return state
    rest = {key: value for key, value in state.items() if not key.startswith("clfs_dict.")}
    for part in ("weight", "bias"):
        logit = state[f"{tasks[0]}.{part}"]
        # the difference of both rows is the task's logit
        rest[f"{_MATCH}.{part}"] = torch.cat([logit, torch.zeros_like(logit)])
    return rest


def _names(config: CrossConfig) -> Iterator[tuple[str, str]]:
    """(volta's name, ours) of every weight."""
    for theirs, ours in _WORDS.items():
        yield f"bert.embeddings.{theirs}.weight", f"words.{ours}.weight"
    modules = {"bert.embeddings.LayerNorm": "words.norm"}
    place, parts = ("embeddings", _UNITER) if config.embedding == "uniter" else ("v_embeddings", _VILBERT)
    modules |= {f"bert.{place}.{theirs}": f"regions.{ours}" for theirs, ours in parts.items()}
    for index, kind in enumerate(config.stages):
        if kind == "joint":
            modules |= _layer(index, "", f"stages.{index}.", "attention.")
        if kind in ("text", "both", "crossed"):
            modules |= _layer(index, "", f"stages.{index}.text.", "" if kind == "crossed" else "attention.")
        if kind in ("vision", "both", "crossed"):
            modules |= _layer(index, "v_", f"stages.{index}.vision.", "" if kind == "crossed" else "attention.")
    modules |= {"bert.t_pooler.dense": "pool_text", "bert.v_pooler.dense": "pool_vision", _MATCH: "aligned"}
    for theirs, ours in modules.items():
        yield from ((f"{theirs}.{part}", f"{ours}.{part}") for part in ("weight", "bias"))


def _layer(index: int, mark: str, stage: str, attention: str) -> dict[str, str]:
    """Modules of the attention sublayer and the feed-forward one of a stage; `mark` is "v_" for vision."""
    at = f"bert.encoder.layer.{2 * index}."
    names = {at + name.format(mark): stage + _within(ours, attention) for name, ours in _LAYER.items()}
    at = f"bert.encoder.layer.{2 * index + 1}."
    return names | {at + name.format(mark): stage + ours for name, ours in _FEED.items()}


def _within(name: str, attention: str) -> str:
    return name if name == "after_attention" else attention + name


def _twins(config: CrossConfig) -> Iterator[tuple[str, str]]:
    """(name of a copy, name that it copies): volta's state repeats shared weights."""
    if config.embedding == "uniter":
        yield "bert.embeddings.image_token_type_embeddings.weight", "bert.embeddings.token_type_embeddings.weight"
    for index, kind in enumerate(config.stages):
        if kind == "joint":
            plain, copied = (_layer(index, mark, "", "") for mark in ("", "v_"))
            for copy, key in zip(copied, plain, strict=True):
                yield from ((f"{copy}.{part}", f"{key}.{part}") for part in ("weight", "bias"))

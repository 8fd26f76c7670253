"""Checkpoints of volta: its configuration as a `CrossConfig`, and its names for weights."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Literal

import torch
from msgspec import Meta, Struct, ValidationError, convert
from torch import Tensor

from ctxr.errors import DataError
from ctxr.models.cross.encoder import CrossConfig, RegionEncoder, Stage, Stream
from ctxr.models.layers import require_heads
from ctxr.models.published import check_shapes, read_object, read_tensors, renamed

_HINT = "give the config of a ViLBERT or UNITER as volta publishes it, e.g. vilbert_base.json or ctrl_uniter_base.json"
_STAGES: dict[tuple[str, ...], Stage] = {
    # gates of the attention, streams of the feed-forward layer
    ("tt", "t"): "text",
    ("vv", "v"): "vision",
    ("tt", "vv", "t", "v"): "both",
    ("tv", "vt", "t", "v"): "crossed",
    ("tt", "tv", "vt", "vv", "t", "v"): "joint",
}

Size = Annotated[int, Meta(ge=1, le=1_000_000)]
Rate = Annotated[float, Meta(ge=0, lt=1)]
Sublayers = frozenset[Annotated[int, Meta(ge=0, le=1_000_000)]]
Sizes = dict[str, Size]


class VoltaConfig(Struct):
    """What of a config of volta decides the encoder, by volta's names; `v_` stands for vision."""

    image_embeddings: Literal["vilbert", "uniter"]
    hidden_size: Size
    num_attention_heads: Size
    intermediate_size: Size
    v_hidden_size: Size
    v_num_attention_heads: Size
    v_intermediate_size: Size
    pooler_size: Size
    v_pooler_size: Size
    vocab_size: Size
    type_vocab_size: Size
    max_position_embeddings: Size
    v_feature_size: Size
    hidden_dropout_prob: Rate = 0.1
    attention_probs_dropout_prob: Rate = 0.1
    v_hidden_dropout_prob: Rate = 0.1
    v_attention_probs_dropout_prob: Rate = 0.1
    layer_norm_eps: Rate = 1e-12
    initializer_range: Rate = 0.02
    tt_attn_sublayers: Sublayers = frozenset()
    tv_attn_sublayers: Sublayers = frozenset()
    vt_attn_sublayers: Sublayers = frozenset()
    vv_attn_sublayers: Sublayers = frozenset()
    t_ff_sublayers: Sublayers = frozenset()
    v_ff_sublayers: Sublayers = frozenset()
    shared_sublayers: Sublayers = frozenset()
    sublayer2attn_hidden_size: Sizes = {}
    sublayer2num_attention_heads: Sizes = {}
    sublayer2intermediate_size: Sizes = {}
    sublayer2v_attn_hidden_size: Sizes = {}
    sublayer2v_num_attention_heads: Sizes = {}
    sublayer2v_intermediate_size: Sizes = {}
    # other values are other models
    hidden_act: Literal["gelu"] = "gelu"
    v_hidden_act: Literal["gelu"] = "gelu"
    fusion_method: Literal["mul"] = "mul"
    add_global_imgfeat: Literal["first"] = "first"
    num_locs: Literal[5] = 5
    model: Literal["bert"] = "bert"
    bert_model: Literal["bert-base-uncased", "bert-large-uncased"] = "bert-base-uncased"

    def stream(self, mark: str, layer: int) -> Stream:
        """The sizes of a side in an attention sublayer and the feed-forward one behind it; -2 for those of all."""
        width, heads, inner = (
            getattr(self, f"sublayer2{mark}{name}").get(str(at), getattr(self, mark + name.removeprefix("attn_")))
            for name, at in (
                ("attn_hidden_size", layer),
                ("num_attention_heads", layer),
                ("intermediate_size", layer + 1),
            )
        )
        require_heads(width, heads)
        return Stream(width, heads, inner)


def read_volta_config(path: Path) -> CrossConfig:
    """The encoder that a config of volta describes.

    Args:
        path: JSON as volta publishes it, e.g. `vilbert_base.json` or `ctrl_uniter_base.json`.

    Raises DataError for a file that is not readable, or an architecture other than ViLBERT's and UNITER's.
    """
    try:
        return _cross_config(convert(read_object(path), VoltaConfig))
    except (ValidationError, ValueError) as error:
        raise DataError(f"{path}: {error}", hint=_HINT) from error


def _cross_config(raw: VoltaConfig) -> CrossConfig:
    """Raises ValueError for what is neither ViLBERT nor UNITER."""
    text, vision = (raw.stream(mark, -2) for mark in ("", "v_"))
    attending = {gate: getattr(raw, f"{gate}_attn_sublayers") for gate in ("tt", "tv", "vt", "vv")}
    feeding = {side: getattr(raw, f"{side}_ff_sublayers") for side in ("t", "v")}
    count = len(frozenset().union(*attending.values(), *feeding.values()))
    if not count or count % 2:
        raise ValueError(f"has {count} sublayers, not pairs of attention and feed-forward ones")
    stages: list[Stage] = []
    crossed = set()
    for layer in range(0, count, 2):
        parts = tuple(gate for gate in attending if layer in attending[gate])
        kind = _STAGES.get(parts + tuple(side for side in feeding if layer + 1 in feeding[side]))
        both = {layer, layer + 1}
        if kind is None or both & raw.shared_sublayers != (both if kind == "joint" else set()):
            raise ValueError(f"sublayers {layer} and {layer + 1} are neither ViLBERT's nor UNITER's")
        own = tuple(raw.stream(mark, layer) for mark in ("", "v_"))
        if kind == "crossed":
            crossed |= {(stream.width, stream.heads) for stream in own}
            own = tuple(replace(one, inner=stream.inner) for one, stream in zip((text, vision), own, strict=True))
        if own != (text, vision):
            raise ValueError(f"sublayer {layer} has a size of its own, which is not supported")
        stages.append(kind)
    rates = {
        getattr(raw, f"{mark}{name}_dropout_prob") for mark in ("", "v_") for name in ("hidden", "attention_probs")
    }
    faults = {
        "has crossed sublayers of several sizes": len(crossed) > 1,
        "has poolers of two sizes": raw.pooler_size != raw.v_pooler_size,
        "has several rates of dropout": len(rates) > 1,
        "shares sublayers between streams of two sizes": "joint" in stages and text != vision,
    }
    for fault in (fault for fault, found in faults.items() if found):
        raise ValueError(fault)
    width, heads = crossed.pop() if crossed else (text.width, text.heads)
    return CrossConfig(
        text=text,
        vision=vision,
        stages=tuple(stages),
        crossed_width=width,
        crossed_heads=heads,
        embedding=raw.image_embeddings,
        vocabulary=raw.vocab_size,
        kinds=raw.type_vocab_size,
        places=raw.max_position_embeddings,
        features=raw.v_feature_size,
        pooled=raw.pooler_size,
        dropout=rates.pop(),
        epsilon=raw.layer_norm_eps,
        spread=raw.initializer_range,
    )


VOCABULARY = "vocab.txt"
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


def load_volta(config: CrossConfig, path: Path) -> RegionEncoder:
    """The encoder with the weights of a checkpoint, fp32, on the CPU, in evaluation mode.

    Raises DataError for a file that is damaged or holds more than weights, or weights of another model.
    """
    mine = translate(read_tensors(path, under=("model_state_dict",)), config, path)
    with torch.device("meta"):
        model = RegionEncoder(config)
    check_shapes(mine, model.state_dict(), path)
    model.load_state_dict(mine, assign=True)
    return model.eval()


def translate(state: Mapping[str, Tensor], config: CrossConfig, path: Path) -> dict[str, Tensor]:
    """A `RegionEncoder`'s state, fp32, from volta's.

    Raises DataError for weights that are missing, unexpected, or not equal where they are shared; `path` is named.
    """
    state = _with_match({key.removeprefix("module."): value.float() for key, value in state.items()})
    copies = {copy: key for copy, key in _copies(config) if copy in state}
    # safetensors stores shared weights once, under either name
    state = {key: state[copy] for copy, key in copies.items()} | state
    ours = renamed(state, dict(_names(config)), lambda key: key in copies or key.startswith(_LEFT), path)
    for copy, key in copies.items():
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
    others = {key: value for key, value in state.items() if not key.startswith("clfs_dict.")}
    for part in ("weight", "bias"):
        logit = state[f"{tasks[0]}.{part}"]
        # the difference of both rows is the task's logit
        others[f"{_MATCH}.{part}"] = torch.cat([logit, torch.zeros_like(logit)])
    return others


def _names(config: CrossConfig) -> Iterator[tuple[str, str]]:
    """(volta's name, ours) of every weight."""
    for theirs, ours in _WORDS.items():
        yield f"bert.embeddings.{theirs}.weight", f"words.{ours}.weight"
    modules = {"bert.embeddings.LayerNorm": "words.norm"}
    module, parts = ("embeddings", _UNITER) if config.embedding == "uniter" else ("v_embeddings", _VILBERT)
    modules |= {f"bert.{module}.{theirs}": f"regions.{ours}" for theirs, ours in parts.items()}
    for index, kind in enumerate(config.stages):
        attention = "" if kind == "crossed" else "attention."
        if kind != "vision":
            modules |= _layer(index, "", f"stages.{index}.{'' if kind == 'joint' else 'text.'}", attention)
        if kind in ("vision", "both", "crossed"):
            modules |= _layer(index, "v_", f"stages.{index}.vision.", attention)
    modules |= {"bert.t_pooler.dense": "pool_text", "bert.v_pooler.dense": "pool_vision", _MATCH: "aligned"}
    for theirs, ours in modules.items():
        yield from ((f"{theirs}.{part}", f"{ours}.{part}") for part in ("weight", "bias"))


def _layer(index: int, mark: str, stage: str, attention: str) -> dict[str, str]:
    """Modules of the attention sublayer and the feed-forward one of a stage; `mark` is "v_" for vision."""
    at, after = (f"bert.encoder.layer.{layer}." for layer in (2 * index, 2 * index + 1))
    inside = {name: ours if ours == "after_attention" else attention + ours for name, ours in _LAYER.items()}
    names = {at + name.format(mark): stage + ours for name, ours in inside.items()}
    return names | {after + name.format(mark): stage + ours for name, ours in _FEED.items()}


def _copies(config: CrossConfig) -> Iterator[tuple[str, str]]:
    """(name of a copy, name that it copies): volta's state repeats shared weights."""
    if config.embedding == "uniter":
        yield "bert.embeddings.image_token_type_embeddings.weight", "bert.embeddings.token_type_embeddings.weight"
    for index, kind in enumerate(config.stages):
        if kind == "joint":
            plain, copied = (_layer(index, mark, "", "") for mark in ("", "v_"))
            for copy, key in zip(copied, plain, strict=True):
                yield from ((f"{copy}.{part}", f"{key}.{part}") for part in ("weight", "bias"))

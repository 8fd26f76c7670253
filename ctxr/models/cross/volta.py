"""Checkpoints of volta: its configuration as a `CrossConfig`, and its names for weights."""

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
    """The fields of a config of volta that decide the encoder; `v_` stands for vision."""

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
    # only these values are ViLBERT and UNITER
    hidden_act: Literal["gelu"] = "gelu"
    v_hidden_act: Literal["gelu"] = "gelu"
    fusion_method: Literal["mul"] = "mul"
    add_global_imgfeat: Literal["first"] = "first"
    num_locs: Literal[5] = 5
    model: Literal["bert"] = "bert"
    bert_model: Literal["bert-base-uncased", "bert-large-uncased"] = "bert-base-uncased"

    def stream(self, mark: str, layer: int) -> Stream:
        """The sizes of a side in an attention sublayer and the feed-forward one behind it; -2 for those of all."""
        places = {"attn_hidden_size": layer, "num_attention_heads": layer, "intermediate_size": layer + 1}
        width, heads, inner = (
            getattr(self, f"sublayer2{mark}{name}").get(str(at), getattr(self, mark + name.removeprefix("attn_")))
            for name, at in places.items()
        )
        require_heads(width, heads)
        return Stream(width, heads, inner)


def read_volta_config(path: Path) -> CrossConfig:
    """The encoder that a config of volta describes. Raises DataError for other architectures."""
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
            own = (replace(text, inner=own[0].inner), replace(vision, inner=own[1].inner))
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
_OTHER_HEADS = ("cls.predictions.", "cls.imagePredictions.", "cls.qaPredictions.")

_MODULES = {
    "words.pieces": "bert.embeddings.word_embeddings",
    "words.places": "bert.embeddings.position_embeddings",
    "words.kinds": "bert.embeddings.token_type_embeddings",
    "words.norm": "bert.embeddings.LayerNorm",
    "pool_text": "bert.t_pooler.dense",
    "pool_vision": "bert.v_pooler.dense",
    "aligned": _MATCH,
}
_REGIONS = {
    "features": "image_embeddings", "box": "image_location_embeddings", "features_norm": "image_layer_norm",
    "box_norm": "image_location_layer_norm",
}  # fmt: skip
_FEED_FORWARD = {"widen": "intermediate.{}dense", "narrow": "output.{}dense", "after_widening": "output.{}LayerNorm"}
_ATTENTION = {
    "query": "attention_self.{}query", "key": "attention_self.{}key", "value": "attention_self.{}value",
    "out": "attention_output.{}dense", "after_attention": "attention_output.{}LayerNorm",
}  # fmt: skip


def load_volta(config: CrossConfig, path: Path) -> RegionEncoder:
    """The encoder with the weights of a checkpoint, fp32, on the CPU, in evaluation mode.

    Raises DataError for a file that is damaged or holds more than weights, for weights that are missing or unexpected, and for
    shared weights whose copies differ.
    """
    with torch.device("meta"):
        model = RegionEncoder(config)
    names, copies = {}, {}
    if config.embedding == "uniter":
        kinds = _MODULES["words.kinds"]
        copies[f"{kinds.replace('token_type', 'image_token_type')}.weight"] = f"{kinds}.weight"
    for name in model.state_dict():
        module, _, part = name.rpartition(".")
        names[key := f"{_volta_name(module, config)}.{part}"] = name
        if module.startswith("stages.") and config.stages[int(module.split(".")[1])] == "joint":
            copies[f"{_volta_name(module, config, 'v_')}.{part}"] = key
    state = read_tensors(path, under=("model_state_dict",))
    state = _with_match({key.removeprefix("module."): value.float() for key, value in state.items()})
    copies = {copy: key for copy, key in copies.items() if copy in state}
    # safetensors stores shared weights once, under either name
    state = {key: state[copy] for copy, key in copies.items()} | state
    weights = renamed(state, names, lambda key: key in copies or key.startswith(_OTHER_HEADS), path)
    for copy, key in copies.items():
        if not torch.equal(state[key], state[copy]):
            raise DataError(f"{path}: {key} and {copy} differ", hint="give a config that does not share sublayers")
    check_shapes(weights, model.state_dict(), path)
    model.load_state_dict(weights, assign=True)
    return model.eval()


def _volta_name(module: str, config: CrossConfig, mark: str = "") -> str:
    """Volta's name for a module of a `RegionEncoder`; with the mark "v_", for the copy of a shared one."""
    name = module.rpartition(".")[2]
    if module in _MODULES:
        return _MODULES[module]
    if module.startswith("regions."):
        stream, norm = ("embeddings", "v_LayerNorm") if config.embedding == "uniter" else ("v_embeddings", "LayerNorm")
        return f"bert.{stream}.{_REGIONS.get(name, norm)}"
    layer = 2 * int(module.split(".")[1]) + (name in _FEED_FORWARD)
    mark = "v_" if ".vision." in module else mark
    return f"bert.encoder.layer.{layer}.{(_ATTENTION | _FEED_FORWARD)[name].format(mark)}"


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

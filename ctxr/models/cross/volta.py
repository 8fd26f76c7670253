"""Checkpoints of volta: its configuration as a `CrossConfig`, and its names for weights."""

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ctxr.errors import DataError
from ctxr.models.cross.encoder import CrossConfig, RegionEncoder, Stage, Stream
from ctxr.models.published import check_shapes, read_object, read_tensors, renamed
from ctxr.store.regions import BOX

_HINT = "give the config of a ViLBERT or UNITER as volta publishes it, e.g. vilbert_base.json or ctrl_uniter_base.json"
_EMBEDDINGS = ("vilbert", "uniter")
_GATES = ("tt", "tv", "vt", "vv")
_MOST = 1_000_000
_STAGES: dict[tuple[str, ...], Stage] = {
    # gates of the attention, streams of the feed-forward layer
    ("tt", "t"): "text",
    ("vv", "v"): "vision",
    ("tt", "vv", "t", "v"): "both",
    ("tv", "vt", "t", "v"): "crossed",
    ("tt", "tv", "vt", "vv", "t", "v"): "joint",
}
_EXPECTED: dict[str, tuple[object, ...]] = {
    "hidden_act": ("gelu",),
    "v_hidden_act": ("gelu",),
    "fusion_method": ("mul",),
    "add_global_imgfeat": ("first",),
    "num_locs": (BOX,),
    "model": ("bert",),
    "bert_model": ("bert-base-uncased", "bert-large-uncased"),
    "do_lower_case": (True,),
}
_SIZES = (
    ("hidden_size", "sublayer2attn_hidden_size", "sublayer2v_attn_hidden_size"),
    ("num_attention_heads", "sublayer2num_attention_heads", "sublayer2v_num_attention_heads"),
    ("intermediate_size", "sublayer2intermediate_size", "sublayer2v_intermediate_size"),
)


def read_volta_config(path: Path) -> CrossConfig:
    """The encoder that a config of volta describes.

    Args:
        path: JSON as volta publishes it, e.g. `vilbert_base.json` or `ctrl_uniter_base.json`.

    Raises DataError for a file that is not readable, or an architecture other than ViLBERT's and UNITER's.
    """
    return _Reader(path, read_object(path)).config()


def _is_size(value: object, least: int = 1) -> bool:
    return type(value) is int and least <= value <= _MOST


class _Reader:
    def __init__(self, path: Path, raw: Mapping[str, object]) -> None:
        self.path, self.raw = path, raw

    def config(self) -> CrossConfig:
        text, vision = self._stream(""), self._stream("v_")
        stages = self._stages()
        crossed = {self._crossed(2 * index) for index, kind in enumerate(stages) if kind == "crossed"}
        if len(crossed) > 1:
            raise self._wrong("has crossed sublayers of several sizes")
        width, heads = crossed.pop() if crossed else (text.width, text.heads)
        for key, values in _EXPECTED.items():
            self._take(key, values[0], values.__contains__, " or ".join(map(repr, values)))
        pooled = self._whole("pooler_size")
        if self._whole("v_pooler_size") != pooled:
            raise self._wrong("has poolers of two sizes")
        if "joint" in stages and text != vision:
            raise self._wrong("shares sublayers between streams of two sizes")
        return CrossConfig(
            text=text,
            vision=vision,
            stages=stages,
            crossed_width=width,
            crossed_heads=heads,
            embedding=self._take("image_embeddings", None, _EMBEDDINGS.__contains__, " or ".join(_EMBEDDINGS)),
            vocabulary=self._whole("vocab_size"),
            kinds=self._whole("type_vocab_size"),
            places=self._whole("max_position_embeddings"),
            features=self._whole("v_feature_size"),
            pooled=pooled,
            dropout=self._dropout(),
            epsilon=self._share("layer_norm_eps", 1e-12),
            spread=self._share("initializer_range", 0.02),
        )

    def _stream(self, mark: str) -> Stream:
        width, heads, inner = (self._whole(mark + key) for key, _, _ in _SIZES)
        if width % heads:
            raise self._wrong(f"has {heads} heads, which do not divide a width of {width}")
        return Stream(width, heads, inner)

    def _stages(self) -> tuple[Stage, ...]:
        """One for each attention sublayer and the feed-forward one behind it."""
        attending = {gate: self._sublayers(f"{gate}_attn_sublayers") for gate in _GATES}
        feeding = {stream: self._sublayers(f"{stream}_ff_sublayers") for stream in ("t", "v")}
        shared = self._sublayers("shared_sublayers")
        count = len(set().union(*attending.values(), *feeding.values()))
        if not count or count % 2:
            raise self._wrong(f"has {count} sublayers, not pairs of attention and feed-forward ones")
        stages = []
        for layer in range(0, count, 2):
            parts = tuple(gate for gate in _GATES if layer in attending[gate])
            parts += tuple(stream for stream in ("t", "v") if layer + 1 in feeding[stream])
            kind = _STAGES.get(parts)
            both = {layer, layer + 1}
            if kind is None or both & shared != (both if kind == "joint" else set()):
                raise self._wrong(f"sublayers {layer} and {layer + 1} are neither ViLBERT's nor UNITER's")
            self._check_sizes(layer, kind)
            stages.append(kind)
        return tuple(stages)

    def _check_sizes(self, layer: int, kind: Stage) -> None:
        """Sizes of single sublayers are for crossed attention alone."""
        for key, table, v_table in _SIZES:
            for mark, name in (("", table), ("v_", v_table)):
                own = self._of_sublayer(name, layer + (key == "intermediate_size"), mark + key)
                free = kind == "crossed" and key != "intermediate_size"
                if not free and own != self._whole(mark + key):
                    raise self._wrong(f"{name} gives sublayer {layer} a size of its own, which is not supported")

    def _crossed(self, layer: int) -> tuple[int, int]:
        """Width and heads of a crossed attention."""
        sizes = []
        for key, table, v_table in _SIZES[:2]:
            sizes.append(self._of_sublayer(table, layer, key))
            if sizes[-1] != self._of_sublayer(v_table, layer, f"v_{key}"):
                raise self._wrong(f"sublayer {layer} has a {key} for each stream, and they look at each other")
        width, heads = sizes
        if width % heads:
            raise self._wrong(f"sublayer {layer} has {heads} heads, which do not divide a width of {width}")
        return width, heads

    def _of_sublayer(self, table: str, layer: int, key: str) -> int:
        sizes = self._take(
            table, {}, lambda value: isinstance(value, dict) and all(map(_is_size, value.values())), "sizes"
        )
        return int(sizes.get(str(layer), self._whole(key)))

    def _sublayers(self, key: str) -> set[int]:
        def fits(value: object) -> bool:
            return isinstance(value, list) and all(_is_size(item, 0) for item in value)

        return set(self._take(key, [], fits, "a list of sublayers"))

    def _dropout(self) -> float:
        names = ("hidden_dropout_prob", "attention_probs_dropout_prob")
        rates = {self._share(mark + name, 0.1) for mark in ("", "v_") for name in names}
        if len(rates) > 1:
            raise self._wrong("has several rates of dropout", "set the four *_dropout_prob to one value")
        return rates.pop()

    def _whole(self, key: str) -> int:
        return int(self._take(key, None, _is_size, "a whole number"))

    def _share(self, key: str, default: float) -> float:
        def fits(value: object) -> bool:
            return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < 1

        return float(self._take(key, default, fits, "a number from 0 to 1"))

    def _take(self, key: str, default: object, fits: Callable[[object], bool], wanted: str) -> Any:
        """The value of a key. Raises DataError for one that does not fit."""
        value = self.raw.get(key, default)
        if not fits(value):
            raise self._wrong(f"{key} is {value!r}, wanted {wanted}")
        return value

    def _wrong(self, what: str, hint: str = _HINT) -> DataError:
        return DataError(f"{self.path}: {what}", hint=hint)


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

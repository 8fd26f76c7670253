"""Checkpoints as volta writes them, and its forward pass spelled out: one pair, one head, one item at a time."""

import json
import math
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from tests.models.slow_layers import SlowLayers, mixed, shares

PIECES = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *"abcdefghijklmnopqrstuvwxyz", *(f"##{c}" for c in "abcdefgh")]
FEATURES, POOLED, WORDS = 12, 20, len(PIECES)

_BOTH: dict[str, Any] = {
    "attention_probs_dropout_prob": 0.1, "hidden_act": "gelu", "hidden_dropout_prob": 0.1, "initializer_range": 0.02,
    "max_position_embeddings": 16, "type_vocab_size": 2, "vocab_size": WORDS, "bert_model": "bert-base-uncased",
    "do_lower_case": True, "num_locs": 5, "add_global_imgfeat": "first", "v_attention_probs_dropout_prob": 0.1,
    "v_hidden_act": "gelu", "v_hidden_dropout_prob": 0.1, "v_feature_size": FEATURES, "fusion_method": "mul",
    "visual_target_weights": {"0": 1.0}, "pooler_size": POOLED, "v_pooler_size": POOLED, "clf_hidden_size": 30,
    "sublayer2intermediate_size": {}, "sublayer2v_attn_hidden_size": {}, "sublayer2v_num_attention_heads": {},
    "sublayer2v_intermediate_size": {},
}  # fmt: skip
VILBERT: dict[str, Any] = _BOTH | {
    "image_embeddings": "vilbert",
    "hidden_size": 16, "num_attention_heads": 4, "intermediate_size": 28,
    "v_hidden_size": 24, "v_num_attention_heads": 2, "v_intermediate_size": 18,
    "tt_attn_sublayers": [0, 4, 8], "tv_attn_sublayers": [2, 6], "vt_attn_sublayers": [2, 6],
    "vv_attn_sublayers": [4, 8], "t_ff_sublayers": [1, 3, 5, 7, 9], "v_ff_sublayers": [3, 5, 7, 9],
    "shared_sublayers": [], "single_ln_sublayers": [],
    "sublayer2attn_hidden_size": {"2": 24, "6": 24}, "sublayer2num_attention_heads": {"2": 2, "6": 2},
}  # fmt: skip
UNITER: dict[str, Any] = _BOTH | {
    "image_embeddings": "uniter",
    "hidden_size": 16, "num_attention_heads": 4, "intermediate_size": 28,
    "v_hidden_size": 16, "v_num_attention_heads": 4, "v_intermediate_size": 28,
    "tt_attn_sublayers": [0, 2], "tv_attn_sublayers": [0, 2], "vt_attn_sublayers": [0, 2], "vv_attn_sublayers": [0, 2],
    "t_ff_sublayers": [1, 3], "v_ff_sublayers": [1, 3],
    "shared_sublayers": [0, 1, 2, 3], "single_ln_sublayers": [0, 1, 2, 3],
    "sublayer2attn_hidden_size": {}, "sublayer2num_attention_heads": {},
}  # fmt: skip
CONTROLLED: dict[str, Any] = VILBERT | {
    "v_hidden_size": 16, "v_num_attention_heads": 4, "sublayer2attn_hidden_size": {}, "sublayer2num_attention_heads": {},
}  # fmt: skip
CONFIGS = {"vilbert": VILBERT, "controlled vilbert": CONTROLLED, "uniter": UNITER}


def make_state(config: dict[str, Any], seed: int = 0) -> dict[str, Tensor]:
    """Random weights under volta's names, pre-training's other heads and copies of shared weights with them."""
    chance = torch.Generator().manual_seed(seed)
    state: dict[str, Tensor] = {}

    def table(name: str, *shape: int) -> None:
        state[f"{name}.weight"] = torch.randn(*shape, generator=chance) / math.sqrt(shape[-1])

    def linear(name: str, given: int, made: int) -> None:
        table(name, made, given)
        state[f"{name}.bias"] = 0.3 * torch.randn(made, generator=chance)

    def norm(name: str, width: int) -> None:
        state[f"{name}.weight"] = 1 + 0.3 * torch.randn(width, generator=chance)
        state[f"{name}.bias"] = 0.3 * torch.randn(width, generator=chance)

    t, v = config["hidden_size"], config["v_hidden_size"]
    for name, rows in (("word", WORDS), ("position", 16), ("token_type", 2)):
        table(f"bert.embeddings.{name}_embeddings", rows, t)
    norm("bert.embeddings.LayerNorm", t)
    uniter = config["image_embeddings"] == "uniter"
    images = "bert.embeddings" if uniter else "bert.v_embeddings"
    linear(f"{images}.image_embeddings", FEATURES, v)
    linear(f"{images}.image_location_embeddings", 5, v)
    for name in ("image_layer_norm", "image_location_layer_norm", "v_LayerNorm") if uniter else ("LayerNorm",):
        norm(f"{images}.{name}", v)
    for n in range(max(config["t_ff_sublayers"]) + 1):
        at = f"bert.encoder.layer.{n}."
        text = n in config["tt_attn_sublayers"] or n in config["tv_attn_sublayers"]
        vision = n in config["vv_attn_sublayers"] or n in config["vt_attn_sublayers"]
        shared = n in config["shared_sublayers"]
        size = config["sublayer2attn_hidden_size"].get(str(n))
        for there, mark, width in ((text, "", t), (vision, "v_", v)):
            if not there:
                continue
            if mark and shared:
                _copy(state, at + "attention_self.", ("query", "key", "value"))
                _copy(state, at + "attention_output.", ("dense", "LayerNorm"))
                continue
            for part in ("query", "key", "value"):
                linear(f"{at}attention_self.{mark}{part}", width, size or width)
            linear(f"{at}attention_output.{mark}dense", size or width, width)
            norm(f"{at}attention_output.{mark}LayerNorm", width)
        for listed, mark, width in (("t_ff_sublayers", "", t), ("v_ff_sublayers", "v_", v)):
            if n not in config[listed]:
                continue
            if mark and shared:
                _copy(state, at + "intermediate.", ("dense",))
                _copy(state, at + "output.", ("dense", "LayerNorm"))
                continue
            inner = config[f"{mark}intermediate_size"]
            linear(f"{at}intermediate.{mark}dense", width, inner)
            linear(f"{at}output.{mark}dense", inner, width)
            norm(f"{at}output.{mark}LayerNorm", width)
    linear("bert.t_pooler.dense", t, POOLED)
    linear("bert.v_pooler.dense", v, POOLED)
    linear("cls.bi_seq_relationship", POOLED, 2)
    state["cls.predictions.bias"] = torch.zeros(WORDS)
    linear("cls.predictions.transform.dense", t, t)
    norm("cls.predictions.transform.LayerNorm", t)
    state["cls.predictions.decoder.weight"] = state["bert.embeddings.word_embeddings.weight"]
    linear("cls.imagePredictions.transform.dense", v, v)
    norm("cls.imagePredictions.transform.LayerNorm", v)
    linear("cls.imagePredictions.decoder_dict.0", v, 1601)
    return state


def make_checkpoint(
    folder: Path, config: dict[str, Any], state: dict[str, Tensor], name: str = "pytorch_model_9.bin"
) -> Path:
    """A folder with config, weights and vocabulary."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "ctrl.json").write_text(json.dumps(config), encoding="utf-8")
    (folder / "vocab.txt").write_text("\n".join(PIECES) + "\n", encoding="utf-8")
    torch.save(state, folder / name)
    return folder


def _copy(state: dict[str, Tensor], at: str, names: tuple[str, ...]) -> None:
    for name in names:
        for part in ("weight", "bias"):
            state[f"{at}v_{name}.{part}"] = state[f"{at}{name}.{part}"]


class Literal(SlowLayers):
    """The forward pass in evaluation, read off volta's layers."""

    def __init__(self, config: dict[str, Any], state: dict[str, Tensor]) -> None:
        super().__init__(state)
        self.config = config

    def pooled(self, tokens: list[int], regions: Tensor, boxes: Tensor) -> Tensor:
        """[D] of one pair; regions [R, F] and boxes [R, 5] of which some are padding."""
        texts = torch.stack([self._word(token, place) for place, token in enumerate(tokens)])
        images = torch.stack([self._region(f, b) for f, b in zip(regions.double(), boxes.double(), strict=True)])
        off = -10000.0
        t_mask = [0.0 if token != 0 else off for token in tokens]
        v_mask = [0.0 if bool(box.any()) else off for box in boxes]
        for n in range(max(self.config["t_ff_sublayers"]) + 1):
            if n in self.config["t_ff_sublayers"]:
                texts, images = self._feed(n, texts, images)
            else:
                texts, images = self._attend(n, texts, images, t_mask, v_mask)
        text = self.linear("bert.t_pooler.dense", texts[0]).clamp(min=0)
        return text * self.linear("bert.v_pooler.dense", images[0]).clamp(min=0)

    def aligned(self, pooled: Tensor) -> Tensor:
        """The published score of one pair."""
        return self.linear("cls.bi_seq_relationship", pooled).softmax(-1)[0]

    def _word(self, token: int, place: int) -> Tensor:
        at = "bert.embeddings."
        word = self.state[f"{at}word_embeddings.weight"][token] + self.state[f"{at}position_embeddings.weight"][place]
        return self.norm(f"{at}LayerNorm", word + self.state[f"{at}token_type_embeddings.weight"][0])

    def _region(self, features: Tensor, box: Tensor) -> Tensor:
        if self.config["image_embeddings"] == "vilbert":
            at = "bert.v_embeddings."
            both = self.linear(f"{at}image_embeddings", features) + self.linear(f"{at}image_location_embeddings", box)
            return self.norm(f"{at}LayerNorm", both)
        at = "bert.embeddings."
        look = self.norm(f"{at}image_layer_norm", self.linear(f"{at}image_embeddings", features))
        spot = self.norm(f"{at}image_location_layer_norm", self.linear(f"{at}image_location_embeddings", box))
        return self.norm(f"{at}v_LayerNorm", look + spot + self.state[f"{at}token_type_embeddings.weight"][1])

    def _attend(
        self, n: int, texts: Tensor, images: Tensor, t_mask: list[float], v_mask: list[float]
    ) -> tuple[Tensor, Tensor]:
        gates = {gate: n in self.config[f"{gate}_attn_sublayers"] for gate in ("tt", "tv", "vt", "vv")}
        at = f"bert.encoder.layer.{n}."
        heads = self.config["sublayer2num_attention_heads"].get(str(n))
        new = []
        for own, items, mark in (("t", texts, ""), ("v", images, "v_")):
            looked = [
                (source, other, mask)
                for gate, source, other, mask in (("t", "", texts, t_mask), ("v", "v_", images, v_mask))
                if gates[own + gate]
            ]
            if not looked:
                new.append(items)
                continue
            query = self.linear(f"{at}attention_self.{mark}query", items)
            key = torch.cat([self.linear(f"{at}attention_self.{source}key", other) for source, other, _ in looked])
            value = torch.cat([self.linear(f"{at}attention_self.{source}value", other) for source, other, _ in looked])
            penalty = torch.tensor([penalty for _, _, mask in looked for penalty in mask])
            rows = mixed(shares(query, key, heads or self.config[f"{mark}num_attention_heads"], penalty), value)
            dense = self.linear(f"{at}attention_output.{mark}dense", rows)
            new.append(self.norm(f"{at}attention_output.{mark}LayerNorm", dense + items))
        return new[0], new[1]

    def _feed(self, n: int, texts: Tensor, images: Tensor) -> tuple[Tensor, Tensor]:
        at, new = f"bert.encoder.layer.{n}.", []
        for listed, items, mark in (("t_ff_sublayers", texts, ""), ("v_ff_sublayers", images, "v_")):
            if n not in self.config[listed]:
                new.append(items)
                continue
            wide = self.linear(f"{at}intermediate.{mark}dense", items)
            wide = wide * 0.5 * (1.0 + torch.erf(wide / math.sqrt(2.0)))
            narrow = self.linear(f"{at}output.{mark}dense", wide)
            new.append(self.norm(f"{at}output.{mark}LayerNorm", narrow + items))
        return new[0], new[1]

"""A small untrained ALBEF in the layout of its published checkpoints, and its forward pass spelled out on those names."""

import json
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from tests.models.blip_folder import WORDS
from tests.models.slow_layers import SlowLayers, mixed, shares

WIDTH, IMAGE, HEADS, INNER, PATCH, SIDE = 32, 128, 4, 48, 8, 32
LAYERS, BELOW, BLOCKS, PLACES = 3, 1, 2, 160
CONFIG: dict[str, Any] = {
    "vocab_size": len(WORDS), "hidden_size": WIDTH, "num_hidden_layers": LAYERS, "fusion_layer": BELOW,
    "num_attention_heads": HEADS, "intermediate_size": INNER, "encoder_width": IMAGE, "max_position_embeddings": PLACES,
    "type_vocab_size": 2, "hidden_dropout_prob": 0.1,
}  # fmt: skip


def make_state(seed: int = 0, fine_tuned: bool = False) -> dict[str, Tensor]:
    """Weights by ALBEF's names: those of pre-training with its other heads, copies and queues, or of a fine-tuned one."""
    chance, state = torch.Generator().manual_seed(seed), {}

    def add(name: str, *shape: int) -> None:
        state[name] = torch.randn(*shape, generator=chance) * 0.2

    def layer(name: str, out: int, given: int) -> None:
        add(f"{name}.weight", out, given)
        add(f"{name}.bias", out)

    def norm(name: str, width: int) -> None:
        state[f"{name}.weight"] = 1 + torch.randn(width, generator=chance) * 0.1
        add(f"{name}.bias", width)

    add("visual_encoder.cls_token", 1, 1, IMAGE)
    add("visual_encoder.pos_embed", 1, 1 + (SIDE // PATCH) ** 2, IMAGE)
    add("visual_encoder.patch_embed.proj.weight", IMAGE, 3, PATCH, PATCH)
    add("visual_encoder.patch_embed.proj.bias", IMAGE)
    norm("visual_encoder.norm", IMAGE)
    for block in range(BLOCKS):
        at = f"visual_encoder.blocks.{block}"
        norm(f"{at}.norm1", IMAGE)
        norm(f"{at}.norm2", IMAGE)
        layer(f"{at}.attn.qkv", 3 * IMAGE, IMAGE)
        layer(f"{at}.attn.proj", IMAGE, IMAGE)
        layer(f"{at}.mlp.fc1", 64, IMAGE)
        layer(f"{at}.mlp.fc2", IMAGE, 64)
    text = "text_encoder" if fine_tuned else "text_encoder.bert"
    for name, rows in (("word", len(WORDS)), ("position", PLACES), ("token_type", 2)):
        add(f"{text}.embeddings.{name}_embeddings.weight", rows, WIDTH)
    norm(f"{text}.embeddings.LayerNorm", WIDTH)
    for number in range(LAYERS):
        at = f"{text}.encoder.layer.{number}"
        for kind in ("attention", "crossattention")[: 1 + (number >= BELOW)]:
            seen = IMAGE if kind == "crossattention" else WIDTH
            layer(f"{at}.{kind}.self.query", WIDTH, WIDTH)
            layer(f"{at}.{kind}.self.key", WIDTH, seen)
            layer(f"{at}.{kind}.self.value", WIDTH, seen)
            layer(f"{at}.{kind}.output.dense", WIDTH, WIDTH)
            norm(f"{at}.{kind}.output.LayerNorm", WIDTH)
        layer(f"{at}.intermediate.dense", INNER, WIDTH)
        layer(f"{at}.output.dense", WIDTH, INNER)
        norm(f"{at}.output.LayerNorm", WIDTH)
    if fine_tuned:
        layer("cls_head.0", WIDTH, WIDTH)
        layer("cls_head.2", 3, WIDTH)
        return state
    copies = {f"{part}_m.{name}": value for key, value in state.items() for part, _, name in [key.partition(".")]}
    layer("itm_head", 2, WIDTH)
    layer("vision_proj", 8, IMAGE)
    layer("text_encoder.cls.predictions.decoder", 4, WIDTH)
    more = {"temp": torch.tensor(0.07), "image_queue": torch.zeros(8, 4), "queue_ptr": torch.zeros(1)}
    return state | copies | more | {f"{text}.embeddings.position_ids": torch.arange(PLACES)[None]}


def make_albef(folder: Path, state: dict[str, Tensor], **config: Any) -> Path:
    """Write checkpoint, config and vocabulary into a new folder, as they are published."""
    folder.mkdir(parents=True)
    torch.save({"model": state, "epoch": 29, "optimizer": {"param_groups": [{"lr": 1e-4}]}}, folder / "ALBEF.pth")
    (folder / "config_bert.json").write_text(json.dumps(CONFIG | config), encoding="utf-8")
    (folder / "vocab.txt").write_text("\n".join(WORDS) + "\n", encoding="utf-8")
    return folder


class Spelled(SlowLayers):
    """ALBEF's forward pass for one picture [3, H, W] and one text [T], word by word, on its own names."""

    def __init__(self, state: dict[str, Tensor], text: str = "text_encoder.bert") -> None:
        super().__init__(state)
        self.at = text

    def __call__(self, picture: Tensor, tokens: list[int]) -> Tensor:
        """The [CLS] of the last fusion layer, [D]."""
        image, state = self.image(picture.double()), self.state
        words = torch.stack([
            state[f"{self.at}.embeddings.word_embeddings.weight"][token]
            + state[f"{self.at}.embeddings.position_embeddings.weight"][place]
            + state[f"{self.at}.embeddings.token_type_embeddings.weight"][0]
            for place, token in enumerate(tokens)
        ])  # fmt: skip
        words = self.norm(f"{self.at}.embeddings.LayerNorm", words, 1e-12)
        for number in range(LAYERS):
            at = f"{self.at}.encoder.layer.{number}"
            words = self.look(f"{at}.attention", words, words)
            if number >= BELOW:
                words = self.look(f"{at}.crossattention", words, image)
            wide = functional.gelu(self.linear(f"{at}.intermediate.dense", words))
            words = self.norm(f"{at}.output.LayerNorm", words + self.linear(f"{at}.output.dense", wide), 1e-12)
        return words[0]

    def image(self, picture: Tensor) -> Tensor:
        """Tokens [1 + P, D] of a picture."""
        state, rows = self.state, [self.state["visual_encoder.cls_token"][0, 0]]
        weight, bias = (state[f"visual_encoder.patch_embed.proj.{part}"] for part in ("weight", "bias"))
        for top in range(0, SIDE, PATCH):
            for left in range(0, SIDE, PATCH):
                patch = picture[:, top : top + PATCH, left : left + PATCH]
                rows.append((weight * patch).sum((1, 2, 3)) + bias)
        tokens = torch.stack(rows) + state["visual_encoder.pos_embed"][0]
        for block in range(BLOCKS):
            at = f"visual_encoder.blocks.{block}"
            tokens = tokens + self.linear(f"{at}.attn.proj", self.mixed(block, tokens))
            wide = functional.gelu(self.linear(f"{at}.mlp.fc1", self.norm(f"{at}.norm2", tokens, 1e-6)))
            tokens = tokens + self.linear(f"{at}.mlp.fc2", wide)
        return self.norm("visual_encoder.norm", tokens, 1e-6)

    def parted(self, block: int, tokens: Tensor) -> tuple[Tensor, ...]:
        """Queries, keys and values of a block, [1 + P, D] each."""
        at = f"visual_encoder.blocks.{block}"
        return self.linear(f"{at}.attn.qkv", self.norm(f"{at}.norm1", tokens, 1e-6)).chunk(3, dim=1)

    def shares(self, block: int, tokens: Tensor) -> list[Tensor]:
        """What each token looks at, [1 + P, 1 + P] of each head, which is 64 wide."""
        query, key, _ = self.parted(block, tokens)
        return shares(query, key, IMAGE // 64)

    def mixed(self, block: int, tokens: Tensor) -> Tensor:
        """What each token makes of what it looks at, [1 + P, D]."""
        return mixed(self.shares(block, tokens), self.parted(block, tokens)[2])

    def look(self, at: str, words: Tensor, seen: Tensor) -> Tensor:
        """An attention sublayer."""
        query, key, value = (
            self.linear(f"{at}.self.{name}", rows) for name, rows in (("query", words), ("key", seen), ("value", seen))
        )
        dense = self.linear(f"{at}.output.dense", mixed(shares(query, key, HEADS), value))
        return self.norm(f"{at}.output.LayerNorm", words + dense)

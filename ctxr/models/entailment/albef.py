"""ALBEF's published checkpoints: their names for weights, and ours.

A folder holds one `*.pth` (or `model.safetensors`), BERT's config as `config_bert.json` (or `config.json`, or the only JSON file)
and `vocab.txt`. The sizes of the vision transformer follow from its weights; its heads are 64 wide.
"""

import json
import math
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

import torch
from torch import Tensor

from ctxr.errors import DataError, UsageError
from ctxr.models.cross.wordpieces import make_tokenizer, read_vocabulary
from ctxr.models.entailment.base import ImageSource
from ctxr.models.entailment.fusion import FusionBranch, FusionConfig, FusionEncoder
from ctxr.models.entailment.image_branches import MEAN, PREMISE, STD, WORDS, paired, pixel_vision
from ctxr.models.entailment.recipe import ClassifierRecipe
from ctxr.models.entailment.vision import resized_positions
from ctxr.models.preprocess import Preprocess
from ctxr.models.published import BERT_WORDS, check_shapes, checkpoint_files, fingerprint_of, read_tensors, renamed

HEAD = 64
"""Width of each head of the vision transformer."""

_LEFT = re.compile(
    r".*_m\..*|.*_queue|queue_ptr|idx_queue|temp|(vision|text)_proj\..*|itm_head\..*|cls_head\..*|text_encoder\.cls\..*"
    r"|text_encoder\.(bert\.)?pooler\..*|.*position_ids|text_decoder\..*|.*\.mask_token"
)
"""What a classifier of entailment does without: momentum copies, queues, other heads, other decoders."""

_VISION = {"cls_token": "cls", "pos_embed": "places"}
_VISION_LAYERS = {"patch_embed.proj": "stem.project", "norm": "norm"}
_VISION_BLOCK = {
    "norm1": "before_attention", "attn.qkv": "parted", "attn.proj": "out",
    "norm2": "before_widening", "mlp.fc1": "widen", "mlp.fc2": "narrow",
}  # fmt: skip
_LAYER = {
    "attention.self.query": "attention.query", "attention.self.key": "attention.key",
    "attention.self.value": "attention.value", "attention.output.dense": "attention.out",
    "attention.output.LayerNorm": "after_attention", "intermediate.dense": "widen", "output.dense": "narrow",
    "output.LayerNorm": "after_widening",
}  # fmt: skip
_CROSSED = {
    "crossattention.self.query": "crossed.query", "crossattention.self.key": "crossed.key",
    "crossattention.self.value": "crossed.value", "crossattention.output.dense": "crossed.out",
    "crossattention.output.LayerNorm": "after_crossed",
}  # fmt: skip


def albef_source(name: str, recipe: ClassifierRecipe) -> ImageSource:
    """The image branch of "albef:FOLDER".

    Raises UsageError for no such folder; DataError for files that are missing, damaged, or do not belong together, and for a picture
    size that is no multiple of a patch.
    """
    folder = Path(name.removeprefix("albef:"))
    missing = UsageError(
        f"there is no folder {folder} with ALBEF's weights",
        hint="ctxr train --set image=albef:FOLDER, which holds a .pth, config_bert.json and vocab.txt; "
        "--recipe entailment-tiny needs no weights",
    )
    configs, weights = ("config_bert.json", "config.json", "*.json"), (("model.safetensors",), ("*.pth",))
    config_path, path = checkpoint_files(folder, configs, weights, missing)
    pieces = read_vocabulary(folder / "vocab.txt")
    state = {
        key.removeprefix("module."): tensor.float() for key, tensor in read_tensors(path, under=("model",)).items()
    }
    vision = _vision_sizes(state, path)
    config = _fusion_config(config_path, vision["width"], len(pieces))
    size = recipe.image_size or vision["side"]
    if size % vision["patch"]:
        raise DataError(f"pictures of {size} pixels cannot be cut into patches of {vision['patch']}")
    tensors = translate_albef(state, config, vision, path)
    tensors["vision.places"] = resized_positions(tensors["vision.places"], (size // vision["patch"]) ** 2)
    dimensions = vision | {"side": size}

    def build() -> FusionBranch:
        with torch.random.fork_rng(devices=[]):
            branch = FusionBranch(pixel_vision(**dimensions), FusionEncoder(config))
        check_shapes(tensors, branch.state_dict(), path)
        branch.load_state_dict(tensors, strict=False)
        return branch

    build()
    fingerprint = fingerprint_of(tensors, json.dumps([repr(config), dimensions, pieces]).encode())
    return ImageSource(
        name, fingerprint, config.width, build, make_tokenizer(pieces, most=WORDS),
        Preprocess((size, size), MEAN, STD, resize_mode="squash"), pairs=paired(pieces, PREMISE),
    )  # fmt: skip


def translate_albef(
    state: Mapping[str, Tensor], config: FusionConfig, vision: Mapping[str, int], path: Path
) -> dict[str, Tensor]:
    """A `FusionBranch`'s state, but for `vision.black`, from ALBEF's. Raises as `renamed` does."""
    # pre-training keeps the encoder under the model for masked words, fine-tuning does not
    state = {re.sub(r"^text_encoder\.bert\.", "text_encoder.", key): tensor for key, tensor in state.items()}
    names = dict(_names(config, vision["depth"]))
    return renamed(state, names, lambda key: _LEFT.fullmatch(key) is not None, path)


def _names(config: FusionConfig, depth: int) -> Iterator[tuple[str, str]]:
    """(ALBEF's name, ours) of every weight."""
    for theirs, ours in _VISION.items():
        yield f"visual_encoder.{theirs}", f"vision.{ours}"
    for theirs, ours in BERT_WORDS.items():
        yield f"text_encoder.embeddings.{theirs}.weight", f"words.{ours}.weight"
    modules = {"text_encoder.embeddings.LayerNorm": "words.norm"}
    modules |= {f"visual_encoder.{theirs}": f"vision.{ours}" for theirs, ours in _VISION_LAYERS.items()}
    for block in range(depth):
        at = f"visual_encoder.blocks.{block}."
        modules |= {at + theirs: f"vision.blocks.{block}.{ours}" for theirs, ours in _VISION_BLOCK.items()}
    for layer in range(config.text_layers + config.fusion_layers):
        above = layer - config.text_layers
        prefix = f"words.text.{layer}." if above < 0 else f"words.fusion.{above}."
        parts = _LAYER if above < 0 else _LAYER | _CROSSED
        modules |= {f"text_encoder.encoder.layer.{layer}.{theirs}": prefix + ours for theirs, ours in parts.items()}
    for theirs, ours in modules.items():
        yield from ((f"{theirs}.{part}", f"{ours}.{part}") for part in ("weight", "bias"))


def _vision_sizes(state: Mapping[str, Tensor], path: Path) -> dict[str, int]:
    """Side, patch, width, depth, heads and inner width, from the shapes of the weights."""
    try:
        width, _, patch, _ = state["visual_encoder.patch_embed.proj.weight"].shape
        patches = state["visual_encoder.pos_embed"].shape[1] - 1
        inner = state["visual_encoder.blocks.0.mlp.fc1.weight"].shape[0]
    except (KeyError, ValueError) as error:
        raise DataError(f"{path}: holds no vision transformer of ALBEF ({error})") from error
    blocks = {int(match[1]) for key in state if (match := re.match(r"visual_encoder\.blocks\.(\d+)\.", key))}
    size = math.isqrt(patches) * patch
    return {
        "side": size, "patch": patch, "width": width, "depth": len(blocks), "heads": max(1, width // HEAD), "inner": inner
    }  # fmt: skip


def _fusion_config(path: Path, image_width: int, words: int) -> FusionConfig:
    try:
        settings = json.loads(path.read_text(encoding="utf-8"))
        layers, below = int(settings["num_hidden_layers"]), int(settings["fusion_layer"])
        config = FusionConfig(
            int(settings["vocab_size"]), int(settings["hidden_size"]), below, layers - below, int(settings["num_attention_heads"]),
            int(settings["intermediate_size"]), int(settings.get("encoder_width", image_width)),
            int(settings["max_position_embeddings"]), int(settings["type_vocab_size"]), float(settings["hidden_dropout_prob"]),
        )  # fmt: skip
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise DataError(
            f"{path}: is not a config of ALBEF's BERT: {error!r}", hint="put config_bert.json there"
        ) from error
    sensible = 0 < below < layers and config.width % config.heads == 0 and config.places >= PREMISE
    if not sensible or config.image_width != image_width or words > config.vocabulary:
        raise DataError(
            f"{path}: does not fit: {below} of {layers} layers fuse, pictures are {image_width} wide, and there are {words} words",
            hint="give the config and vocab.txt of these weights",
        )
    return config

"""ALBEF's published checkpoints: their names for weights, and ours.

A folder holds one `*.pth` (or `model.safetensors`), BERT's config as `config_bert.json` (or `config.json`, or the only JSON file)
and `vocab.txt`. The sizes of the vision transformer follow from its weights; its heads are 64 wide.
"""

import json
import math
import re
from collections.abc import Iterable, Mapping
from pathlib import Path

import torch
from torch import Tensor
from torch.nn import functional

from ctxr.errors import DataError, UsageError
from ctxr.models.cross.wordpieces import make_tokenizer, read_vocabulary
from ctxr.models.entailment.base import ImageSource
from ctxr.models.entailment.fusion import FusionBranch, FusionConfig, text_model, vision_model
from ctxr.models.entailment.image_branches import MEAN, PREMISE, STD, WORDS, dark_pixel, paired
from ctxr.models.entailment.recipe import ClassifierRecipe
from ctxr.models.preprocess import Preprocess
from ctxr.models.published import check_shapes, checkpoint_file, fingerprint_of, read_tensors, renamed

POSITIONS = "vision.embeddings.position_embedding"

HEAD = 64  # width of each head of the vision transformer

# what a classifier of entailment does without: momentum copies, queues, other heads, other decoders
_LEFT = re.compile(
    r".*_m\..*|.*_queue|queue_ptr|idx_queue|temp|(vision|text)_proj\..*|itm_head\..*|cls_head\..*|text_encoder\.cls\..*"
    r"|text_encoder\.(bert\.)?pooler\..*|.*position_ids|text_decoder\..*|.*\.mask_token"
)

# parts of ALBEF's names for weights, and those of transformers in their place
_OURS = (
    ("visual_encoder.cls_token", "vision.embeddings.class_embedding"),
    ("visual_encoder.pos_embed", POSITIONS),
    ("visual_encoder.patch_embed.proj.", "vision.embeddings.patch_embedding."),
    ("visual_encoder.norm.", "vision.post_layernorm."),
    ("visual_encoder.blocks.", "vision.encoder.layers."),
    (".norm1.", ".layer_norm1."),
    (".norm2.", ".layer_norm2."),
    (".attn.qkv.", ".self_attn.qkv."),
    (".attn.proj.", ".self_attn.projection."),
    ("text_encoder.", "words."),
)


def albef_source(name: str, recipe: ClassifierRecipe) -> ImageSource:
    """The image branch of "albef:FOLDER". Raises UsageError for no such folder; DataError for files that are missing, damaged, or do
    not belong together, and for a picture size that is not a multiple of a patch.
    """
    folder = Path(name.removeprefix("albef:"))
    if not folder.is_dir():
        raise UsageError(
            f"there is no folder {folder} with ALBEF's weights",
            hint="ctxr train --set image=albef:FOLDER, which holds a .pth, config_bert.json and vocab.txt; "
            "--recipe entailment-tiny needs no weights",
        )
    config_path = checkpoint_file(folder, "config", (("config_bert.json",), ("config.json",), ("*.json",)))
    path = checkpoint_file(folder, "weights", (("model.safetensors",), ("*.pth",)))
    pieces = read_vocabulary(folder / "vocab.txt")
    state = {
        key.removeprefix("module."): tensor.float() for key, tensor in read_tensors(path, under=("model",)).items()
    }
    vision = _vision_sizes(state, path)
    config = _fusion_config(config_path, vision["width"], len(pieces))
    size = recipe.image_size or vision["side"]
    if size % vision["patch"]:
        raise DataError(f"pictures of {size} pixels cannot be cut into patches of {vision['patch']}")
    dimensions = vision | {"side": size}

    def untrained() -> FusionBranch:
        with torch.random.fork_rng(devices=[]):
            return FusionBranch(vision_model(**dimensions), text_model(config), dark_pixel())

    parameters = dict(untrained().named_parameters())
    tensors = translate_albef(state, parameters, path)
    tensors[POSITIONS] = resized_positions(tensors[POSITIONS], (size // vision["patch"]) ** 2)
    check_shapes(tensors, parameters, path)

    def build() -> FusionBranch:
        branch = untrained()
        branch.load_state_dict(tensors, strict=False)
        return branch

    fingerprint = fingerprint_of(tensors, json.dumps([repr(config), dimensions, pieces]).encode())
    return ImageSource(
        name, fingerprint, config.width, build, make_tokenizer(pieces, most=WORDS),
        Preprocess((size, size), MEAN, STD, resize_mode="squash"), pairs=paired(pieces, PREMISE),
    )  # fmt: skip


def translate_albef(state: Mapping[str, Tensor], ours: Iterable[str], path: Path) -> dict[str, Tensor]:
    """The parameters of a `FusionBranch`, by their names, from ALBEF's state. Raises as `renamed` does."""
    # pre-training keeps the encoder under the model for masked words, fine-tuning does not
    state = {re.sub(r"^text_encoder\.bert\.", "text_encoder.", key): tensor for key, tensor in state.items()}
    names = {}
    for name in ours:
        key = name
        for albef, transformers in _OURS:
            key = key.replace(transformers, albef)
        names[key] = name
    return renamed(state, names, lambda key: _LEFT.fullmatch(key) is not None, path)


def resized_positions(positions: Tensor, patches: int) -> Tensor:
    """Positions [1, 1 + Q, D] of a square grid, interpolated to [1, 1 + P, D]; [CLS] stays."""
    old, new = math.isqrt(positions.shape[1] - 1), math.isqrt(patches)
    if old == new:
        return positions
    grid = positions[:, 1:].transpose(1, 2).reshape(1, -1, old, old)
    grid = functional.interpolate(grid, size=(new, new), mode="bicubic", align_corners=False)
    return torch.cat([positions[:, :1], grid.flatten(2).transpose(1, 2)], dim=1)


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

"""What a name of a cross-encoder stands for: a model to build, and its inputs."""

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Literal

from torch import Tensor, nn

from ctxr.errors import DataError, UsageError
from ctxr.models.cross.encoder import CONFIGS, TOKENS, CrossConfig, RegionEncoder
from ctxr.models.cross.volta import VOCABULARY, load_volta, read_volta_config
from ctxr.models.cross.wordpieces import make_tokenizer, read_vocabulary, tiny_vocabulary
from ctxr.models.layers import seeded
from ctxr.models.preprocess import Preprocess
from ctxr.models.published import checkpoint_file, fingerprint_of


@dataclass(frozen=True)
class CrossSource:
    """A cross-encoder that can be built again and again.

    Attributes:
        fingerprint: sha256 in hex over weights, config and vocabulary. width: D of a pair.
        looks_at: "pixels" [N, 3, H, W], or "regions" [N, R, features + BOX]. features: F of a region; 0 for pixels.
        build: makes the encoder for `ctxr.models.scorers.PairScorer`, on the CPU, fp32, in evaluation mode.
        tokenize: texts to int64 token ids [B, T], 0 where there is none.
        preprocess: what is done to a picture first; None for regions.
    """

    name: str
    fingerprint: str
    width: int
    looks_at: Literal["pixels", "regions"]
    features: int
    build: Callable[[], nn.Module]
    tokenize: Callable[[Sequence[str]], Tensor]
    preprocess: Preprocess | None


def load_cross(name: str) -> CrossSource:
    """The region cross-encoder of that name.

    `name`: "volta:FOLDER", a checkpoint with config, weights and vocab.txt; or untrained weights, "random:vilbert", "random:uniter",
    "random:vilbert-tiny" or "random:uniter-tiny", where ":F" says how many features a region has (2048, tiny 64).

    Raises UsageError for an unknown name or folder; DataError for files that cannot be read or do not belong together.
    """
    kind, _, model = name.partition(":")
    if kind == "volta" and model:
        folder = Path(model)
        if not folder.is_dir():
            hint = "volta:FOLDER with a config, weights and vocab.txt; for a recipe --set encoder=volta:FOLDER"
            raise UsageError(f"there is no folder {folder} with weights of volta", hint=hint)
        config = read_volta_config(checkpoint_file(folder, "config", (("config.json",), ("*.json",))))
        weights = checkpoint_file(folder, "weights", (("model.safetensors",), ("pytorch_model*.bin", "*.pth")))
        pieces = read_vocabulary(folder / VOCABULARY)
        if len(pieces) > config.vocabulary:
            message = f"{folder / VOCABULARY}: has {len(pieces)} word pieces, and the config has {config.vocabulary}"
            raise DataError(message, hint="give the vocabulary of these weights")
        return _source(name, config, pieces, lambda: load_volta(config, weights))
    size, _, features = model.partition(":")
    if kind != "random" or size not in CONFIGS:
        names = ", ".join(f"random:{config}" for config in CONFIGS)
        raise UsageError(f"unknown cross-encoder {name!r}", hint=f"volta:FOLDER, {names}")
    if features and not (features.isascii() and features.isdecimal() and 0 < int(features[:8]) < 1_000_000):
        raise UsageError(f"{name}: {features!r} is not a number of features", hint=f"random:{size}:2048, for example")
    pieces = tiny_vocabulary()
    config = replace(CONFIGS[size], vocabulary=len(pieces), features=int(features or CONFIGS[size].features))
    return _source(name, config, pieces, seeded(0)(lambda: RegionEncoder(config).eval()))


def _source(name: str, config: CrossConfig, pieces: list[str], build: Callable[[], nn.Module]) -> CrossSource:
    about = json.dumps([asdict(config), pieces], sort_keys=True).encode()
    return CrossSource(
        name=name,
        fingerprint=fingerprint_of(build().state_dict(), about),
        width=config.pooled,
        looks_at="regions",
        features=config.features,
        build=build,
        tokenize=make_tokenizer(pieces, most=min(TOKENS, config.places)),
        preprocess=None,
    )

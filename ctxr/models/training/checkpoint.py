"""Checkpoints: weights in safetensors, and a config that says how to build the model."""

import json
from dataclasses import asdict, dataclass, replace
from functools import partial
from math import gcd
from pathlib import Path
from typing import TypeVar, cast

import msgspec
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor, nn

from ctxr.errors import DataError, UsageError
from ctxr.models.cross.sources import CrossSource
from ctxr.models.encoders import EncoderSource, fingerprint
from ctxr.models.hub import makes_pairs
from ctxr.models.layers import seeded
from ctxr.models.precision import memory_for
from ctxr.models.preprocess import Preprocess
from ctxr.models.scorers import ClipScorer, ContextHead, Fusion, ModuleT, PairScorer
from ctxr.models.training.recipe import Recipe, ScorerShape
from ctxr.models.training.state import save_tensors
from ctxr.store.atomic import link_or_copy, write_bytes
from ctxr.store.hashing import sha256_file, sha256_of
from ctxr.store.paths import portable, rooted
from ctxr.store.tables import UNREADABLE

CONFIG, ENCODER, HEAD, ALONE = "config.json", "encoder.safetensors", "head.safetensors", "score.safetensors"
# parts of a scorer, and the file of each
_PARTS = {"encoder": ENCODER, "head": HEAD, "alone": ALONE}

TRAIN_AGAIN = "train it again: ctxr train"


@dataclass(frozen=True)
class SeedConfig:
    """The chosen epoch, from 1 (0: nothing was trained), and a hash over recipe, seed and dataset."""

    epoch: int
    made_by: str


ConfigT = TypeVar("ConfigT", bound=SeedConfig)


@dataclass(frozen=True)
class Checkpoint(SeedConfig):
    """How to build a trained scorer. `fingerprint`, `width`: of its encoder with the weights in use. `frozen`: whether that did not learn.
    `seed`: of the training, and of dropout while it scores with `dropout_in_evaluation`."""

    shape: ScorerShape
    fingerprint: str
    width: int
    frozen: bool
    seed: int
    dropout_in_evaluation: bool = False


class ExactLinear(nn.Linear):
    """A layer with one result, without autocast, which would turn close scores of one set into ties."""

    def forward(self, pairs: Tensor) -> Tensor:
        """[.., 1] of pairs [.., D]."""
        return (pairs * self.weight[0]).sum(-1, keepdim=True) + self.bias


def new_scorer(
    shape: ScorerShape, width: int, encoder: nn.Module | None = None, seed: int = 0
) -> ClipScorer | PairScorer:
    """An untrained scorer for vectors or pairs of `width`, or around `encoder`; `seed`: of first weights."""
    pairs, head = makes_pairs(shape.encoder), shape.head
    with seeded(seed):
        if head is None:
            linear = ExactLinear(width, 1) if pairs and shape.new_score else None
            return PairScorer(encoder, None, linear) if pairs else ClipScorer(encoder)
        pair = _pair_width(shape, width)
        module = ContextHead(pair, head.layers, head.heads, head.inner, head.dropout, positions=head.positions)
        module.highway_positions, module.all_positions = head.highway_positions, head.all_positions
    if pairs:
        return PairScorer(encoder, module)
    return ClipScorer(encoder, module, cast(Fusion, head.fusion), head.scale)


def check_head(shape: ScorerShape, width: int, device: str) -> None:
    """Build the head of a scorer over `width` and discard it, before hours go into computing its inputs.

    Raises UsageError for a number of heads that does not divide the width, CtxrError where memory does not hold it.
    """
    if (head := shape.head) is None:
        return
    if (pair := _pair_width(shape, width)) % head.heads:
        problem = f"{head.heads} heads do not divide the {pair} numbers of a pair of {shape.encoder}"
        raise UsageError(problem, hint=f"--set heads={gcd(pair, 8)}")
    with memory_for(f"a head of {head.layers} layers, {head.inner} wide", device, "--set inner=3072"):
        new_scorer(shape, width).to(device)


def _pair_width(shape: ScorerShape, width: int) -> int:
    concatenated = shape.head is not None and shape.head.fusion == "concat" and not makes_pairs(shape.encoder)
    return 2 * width if concatenated else width


def write_weights(folder: Path, trained: Path | None, encoder: Path | None) -> None:
    """Write the weights of a scorer into a new folder, one file each for encoder and head.

    `trained`: file of a scorer's weights, None where nothing was trained. `encoder`: weights to keep beside those of a head.
    """
    if encoder is not None and encoder.exists():
        link_or_copy(encoder, folder / ENCODER)
    weights = {} if trained is None else load_file(trained)
    for part, name in _PARTS.items():
        own = {key.removeprefix(f"{part}."): value for key, value in weights.items() if key.startswith(f"{part}.")}
        if own:
            save_tensors(folder / name, own, {})


def write_config(folder: Path, config: SeedConfig) -> None:
    """Write how to build the model, last: a checkpoint without it is unfinished."""
    write_bytes(folder / CONFIG, json.dumps(portable(asdict(config), folder / "../../.."), indent=1).encode() + b"\n")


def read_config(folder: Path, kind: type[ConfigT], what: str) -> ConfigT:
    """The config of a checkpoint. Raises DataError if missing, damaged, or not of `what`."""
    try:
        config = msgspec.convert(rooted(msgspec.json.decode((folder / CONFIG).read_bytes()), folder / "../../.."), kind)
        if isinstance(recipe := getattr(config, "recipe", None), Recipe):
            recipe.check()
        return config
    except UsageError as error:
        raise DataError(f"{folder} cannot be opened: {error}", hint=error.hint) from error
    except (OSError, *UNREADABLE) as error:
        raise DataError(f"{folder / CONFIG} is not a config of {what}", hint=TRAIN_AGAIN) from error


read_checkpoint = partial(read_config, kind=Checkpoint, what="a trained scorer")


def load_head(folder: Path, encoder: nn.Module | None = None) -> ClipScorer | PairScorer:
    """The trained scorer of vectors or pairs, or around `encoder`, in evaluation mode unless dropout stays on.

    Raises DataError where weights and config do not fit.
    """
    config = read_checkpoint(folder)
    scorer = new_scorer(config.shape, config.width, encoder)
    for part in ("head", "alone"):
        module = getattr(scorer, part, None)
        if module is not None:
            fill(module, folder / _PARTS[part], f"the head that {folder / CONFIG} describes")
    return scorer.train(config.dropout_in_evaluation)


def tuned(source: EncoderSource | CrossSource, folder: Path, name: str) -> EncoderSource | CrossSource:
    """The encoder of a checkpoint: `source` with the weights in `folder`, if it holds any; then called `name`."""
    file = folder / ENCODER
    if not file.exists():
        return source

    def filled(model: ModuleT) -> ModuleT:
        fill(model, file, source.name)
        return model

    if isinstance(source, CrossSource):
        untrained, fingerprint = source.build, sha256_of([source.fingerprint, sha256_file(file)])
        return replace(source, name=name, fingerprint=fingerprint, build=lambda: filled(untrained()))
    return replace(source, name=name, build=lambda: filled(source.build()))


def fill(module: nn.Module, file: Path, what: str) -> None:
    """Load weights into a module. Raises DataError where they are missing, damaged, or not those of `what`."""
    try:
        module.load_state_dict(load_file(file))
    except (OSError, SafetensorError) as error:
        raise DataError(f"{file} cannot be read as weights", hint=TRAIN_AGAIN) from error
    except RuntimeError as error:
        hint = "name the encoder it was trained with"
        raise DataError(f"{file} holds weights of something else than {what}", hint=hint) from error


def model_fingerprint(source: EncoderSource | CrossSource) -> str:
    """SHA-256 over weights, architecture and preprocessing of the model that `source` builds."""
    if isinstance(source, CrossSource):
        return source.fingerprint
    model = source.build()
    return fingerprint(model, source.config, Preprocess.from_config(model.visual.preprocess_cfg))

"""What a training leaves behind: weights in safetensors, and a config that says how to build what they belong to."""

import json
from dataclasses import asdict, dataclass, fields, replace
from math import gcd
from pathlib import Path
from typing import Any, TypeVar, cast

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor, nn

from ctxr.errors import DataError, UsageError
from ctxr.models.context import ContextHead, Fusion
from ctxr.models.cross.sources import CrossSource
from ctxr.models.encoders import EncoderSource, fingerprint
from ctxr.models.hub import makes_pairs
from ctxr.models.precision import memory_for
from ctxr.models.preprocess import Preprocess
from ctxr.models.scorers import ClipScorer, PairScorer
from ctxr.models.training.recipe import Recipe, ScorerRecipe
from ctxr.models.training.state import save_tensors
from ctxr.store.atomic import link_or_copy, write_bytes
from ctxr.store.hashing import sha256_file, sha256_of

CONFIG, ENCODER, HEAD, ALONE = "config.json", "encoder.safetensors", "head.safetensors", "score.safetensors"
_PARTS = {"encoder": ENCODER, "head": HEAD, "alone": ALONE}
"""Parts of a scorer, and the file of each."""

TRAIN_AGAIN = "train it again: ctxr train"

ConfigT = TypeVar("ConfigT")


@dataclass(frozen=True)
class Checkpoint:
    """How to build a trained scorer.

    Attributes:
        variant: of the recipe. encoder: name of the published encoder below.
        fingerprint: of the encoder with the weights in use. width: of its vectors.
        layers, heads, inner, fusion, scale: of the head.
        epoch: the one that was chosen, from 1; 0 where nothing was trained.
        made_by: hash over what decided the training: recipe, seed, dataset.
        frozen, new_score, all_positions, regions, dropout, dropout_in_evaluation, highway_positions: as in `ScorerRecipe`.
    """

    variant: str
    encoder: str
    fingerprint: str
    width: int
    layers: int
    heads: int
    inner: int
    fusion: str
    scale: float
    epoch: int
    made_by: str
    frozen: bool = True
    new_score: bool = False
    all_positions: bool = False
    regions: str = ""
    dropout: float = 0.1
    dropout_in_evaluation: bool = False
    highway_positions: bool = False

    @property
    def chance(self) -> int:
        """Seed of what is drawn while it scores, where dropout stays on in evaluation."""
        return int(sha256_of(self.made_by)[:15], 16)


class EverywhereOrdered(ContextHead):
    """A head whose positions act on sets without order too, as in the released cross-encoders (specs A0.6.8)."""

    def forward(self, pairs: Tensor, mask: Tensor, ordered: Tensor) -> Tensor:
        """As `ContextHead.forward`, with every set taken as an ordered one."""
        return super().forward(pairs, mask, torch.ones_like(ordered))


class ExactLinear(nn.Linear):
    """A layer with one result that autocast leaves alone: scores of one set lie close together, and would become ties."""

    def forward(self, pairs: Tensor) -> Tensor:
        """[.., 1] of pairs [.., D]."""
        return (pairs * self.weight[0]).sum(-1, keepdim=True) + self.bias


def new_scorer(recipe: ScorerRecipe, width: int, encoder: Any = None, seed: int = 0) -> Any:
    """An untrained scorer for vectors or pairs of `width`, or around `encoder`; `seed` decides the first weights of what is new.

    It is a `PairScorer` for an encoder of pairs, else a `ClipScorer`.
    """
    pairs = makes_pairs(recipe.encoder)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        if not recipe.has_head:
            linear = ExactLinear(width, 1) if pairs and recipe.new_score and recipe.learns else None
            return PairScorer(encoder, None, linear) if pairs else ClipScorer(encoder)
        kind = EverywhereOrdered if recipe.all_positions else ContextHead
        head = kind(
            _pair_width(recipe, width), recipe.layers, recipe.heads, recipe.inner, recipe.dropout,
            positions=recipe.variant == "temporal",
        )  # fmt: skip
        head.highway_positions = recipe.highway_positions
    if pairs:
        return PairScorer(encoder, head)
    return ClipScorer(encoder, head, cast(Fusion, recipe.fusion), recipe.scale)


def check_head(recipe: ScorerRecipe, width: int, device: str) -> None:
    """Build the head of a recipe over `width` and discard it, before hours go into computing its inputs.

    Raises UsageError for a number of heads that does not divide the width, CtxrError where memory does not hold it.
    """
    if not recipe.has_head:
        return
    pair = _pair_width(recipe, width)
    if pair % recipe.heads:
        raise UsageError(
            f"{recipe.heads} heads do not divide the {pair} numbers of a pair of {recipe.encoder}",
            hint=f"--set heads={gcd(pair, 8)}",
        )
    with memory_for(f"a head of {recipe.layers} layers, {recipe.inner} wide", device, "--set inner=3072"):
        new_scorer(recipe, width).to(device)


def _pair_width(recipe: ScorerRecipe, width: int) -> int:
    """Length of what the head is given of each pair."""
    return width if makes_pairs(recipe.encoder) or recipe.fusion == "multiply" else 2 * width


def write_weights(folder: Path, trained: Path | None, encoder: Path | None) -> None:
    """Write the weights of a scorer, one file each for encoder and head.

    Args:
        folder: new. trained: file of a scorer's weights, None where nothing was trained.
        encoder: file of encoder weights to keep beside those of a head.
    """
    if encoder is not None and encoder.exists():
        link_or_copy(encoder, folder / ENCODER)
    weights = {} if trained is None else load_file(trained)
    for part, name in _PARTS.items():
        own = {key.removeprefix(f"{part}."): value for key, value in weights.items() if key.startswith(f"{part}.")}
        if own:
            save_tensors(folder / name, own, {})


def write_config(folder: Path, notes: Any) -> None:
    """Write how to build the model, last: a checkpoint without it is unfinished."""
    write_bytes(folder / CONFIG, json.dumps(asdict(notes), indent=1).encode() + b"\n")


def read_config(folder: Path, kind: type[ConfigT], what: str, recipe: type[Recipe] | None = None) -> ConfigT:
    """The config of a checkpoint, with a `recipe` where one is named. Raises DataError for one that is missing, damaged, or not of
    `what`."""
    try:
        notes = kind(**json.loads((folder / CONFIG).read_text(encoding="utf-8")))
        if recipe is not None:
            recipe(**cast(Any, notes).recipe).check()
        return notes
    except UsageError as error:
        raise DataError(f"{folder} cannot be opened: {error}", hint=error.hint) from error
    except (OSError, ValueError, TypeError, RecursionError) as error:
        raise DataError(f"{folder / CONFIG} is not a config of {what}", hint=TRAIN_AGAIN) from error


def read_checkpoint(folder: Path) -> Checkpoint:
    """The config of a trained scorer. Raises what `read_config` raises."""
    return read_config(folder, Checkpoint, "a trained scorer")


def load_head(folder: Path, encoder: Any = None) -> Any:
    """The trained scorer of vectors or pair features, or around `encoder`, in evaluation mode unless its quirk leaves dropout on.

    Raises DataError where weights and config do not fit.
    """
    notes = read_checkpoint(folder)
    names = {field.name for field in fields(ScorerRecipe)}
    recipe = ScorerRecipe(**{name: value for name, value in asdict(notes).items() if name in names})
    scorer = new_scorer(recipe, notes.width, encoder)
    for part in ("head", "alone"):
        module = getattr(scorer, part, None)
        if module is not None:
            fill(module, folder / _PARTS[part], f"the head that {folder / CONFIG} describes")
    return scorer.train(notes.dropout_in_evaluation)


def tuned(source: EncoderSource | CrossSource, folder: Path, name: str) -> EncoderSource | CrossSource:
    """The encoder of a checkpoint: `source` with the weights in `folder`, if it holds any; then called `name`."""
    file = folder / ENCODER
    if not file.exists():
        return source
    if isinstance(source, CrossSource):
        source = replace(source, fingerprint=sha256_of([source.fingerprint, sha256_file(file)]))

    def build() -> Any:
        model = source.build()
        fill(model, file, source.name)
        return model

    return replace(source, name=name, build=build)


def fill(module: nn.Module, file: Path, what: str) -> None:
    """Load weights into a module. Raises DataError where they are missing, damaged, or of another shape than `what`."""
    try:
        module.load_state_dict(load_file(file))
    except (OSError, SafetensorError) as error:
        raise DataError(f"{file} cannot be read as weights", hint=TRAIN_AGAIN) from error
    except RuntimeError as error:
        raise DataError(
            f"{file} holds weights of something else than {what}", hint="name the encoder it was trained with"
        ) from error


def width_of(source: EncoderSource | CrossSource) -> int:
    """Length of the vectors, or of the pair features, that `source` makes."""
    return source.width if isinstance(source, CrossSource) else source.dim


def fingerprint_of(source: EncoderSource | CrossSource) -> str:
    """SHA-256 over weights, architecture and preprocessing of the model that `source` builds."""
    if isinstance(source, CrossSource):
        return source.fingerprint
    model = source.build()
    return fingerprint(model, source.config, Preprocess.from_config(model.visual.preprocess_cfg))

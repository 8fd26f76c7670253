"""Image branches that no one has trained: published, small, or over cells of an encoder."""

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import asdict
from functools import partial
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from ctxr.errors import UsageError
from ctxr.media.images import Pixels
from ctxr.models.cross.wordpieces import END, START, make_tokenizer, tiny_vocabulary
from ctxr.models.encoders import EncoderSource, find_source, fingerprint
from ctxr.models.entailment.base import ImageSource, PairTokens
from ctxr.models.entailment.fusion import (
    CellEmbeddings,
    FusionBranch,
    FusionConfig,
    NoCrossAttention,
    text_model,
    vision_model,
)
from ctxr.models.entailment.recipe import SEED, ClassifierRecipe
from ctxr.models.hub import placeless
from ctxr.models.layers import seeded
from ctxr.models.preprocess import Preprocess
from ctxr.models.regions import Extractor, GridRegions
from ctxr.models.scorers import ImageTextModel
from ctxr.store.regions import Array

# untrained weights of ALBEF's sizes, and of tests: pixels of a side, and of a patch
RANDOM = {"random:albef": (384, 16), "random:albef-tiny": (32, 8)}

# per channel on the 0..1 scale, as ALBEF was trained
MEAN, STD = (0.48145466, 0.4578275, 0.40821073), (0.26862954, 0.26130258, 0.27577711)

# word pieces of a hypothesis and of a premise with its hypothesis; what is longer is cut
WORDS, PREMISE = 40, 160

BERT = 768  # width of the published text encoders
WORDS_AT_ONCE = 64  # words in one pass of a text tower
LITTLE = 0.1  # first positions, kinds and layers over words, beside word embeddings
FINEST = 64  # cells of a picture at most
BLACK = np.zeros((16, 16, 3), np.uint8)  # in place of a missing picture (paper, section 3.4)


def random_source(name: str, recipe: ClassifierRecipe) -> ImageSource:
    """ALBEF untrained, in its published sizes or tiny."""
    size, patch = RANDOM[name]
    size, pieces = recipe.image_size or size, tiny_vocabulary()
    width, depth, heads, inner = (768, 12, 12, 3072)
    config = FusionConfig(len(pieces))
    if name.endswith("tiny"):
        width, depth, heads, inner = (32, 2, 4, 64)
        layers = (recipe.text_layers, recipe.fusion_layers)
        config = FusionConfig(
            len(pieces), recipe.width, *layers, heads, 2 * recipe.width, width, dropout=recipe.dropout
        )
    vision = {"side": size, "patch": patch, "width": width, "depth": depth, "heads": heads, "inner": inner}
    build = partial(new_branch, partial(vision_model, **vision), config, dark_pixel())
    preprocess = Preprocess((size, size), MEAN, STD, resize_mode="squash")
    return untrained(name, build, config, pieces, preprocess, decides=([vision, asdict(preprocess)], SEED))


def aligned_source(name: str, recipe: ClassifierRecipe, device: str) -> ImageSource:
    """A fusion encoder over the last map of a frozen encoder; its words start in that space."""
    encoder = name.partition(":")[2]
    grid = GridRegions(encoder, FINEST, device)
    cells, features = grid.grid[0] * grid.grid[1], grid.features
    dark = torch.from_numpy(cells_of(grid, [BLACK]))
    pieces, width, heads = tiny_vocabulary(), recipe.width, max(1, recipe.width // 32)
    config = FusionConfig(
        len(pieces), width, recipe.text_layers, recipe.fusion_layers, heads, 2 * width, width, dropout=recipe.dropout,
        products=True,
    )  # fmt: skip

    def vision() -> nn.Module:
        model: nn.Module = vision_model(1, 1, width, recipe.vision_layers, heads, inner=2 * width)
        model.embeddings = CellEmbeddings(cells, features, width)
        return model

    return untrained(
        name,
        lambda: start_aligned(new_branch(vision, config, dark), encoder, pieces),
        config,
        pieces,
        encoder,
        decides=([grid.describe(), recipe.vision_layers], SEED),
    )


def cells_of(grid: Extractor, pictures: Sequence[Pixels]) -> Array:
    """float32 [N, P, F], row by row from the top left, without whole picture and boxes."""
    return np.stack([regions[1:, : grid.features] for regions in grid.regions(pictures)])


def dark_pixel(mean: Sequence[float] = MEAN, std: Sequence[float] = STD) -> Tensor:
    """A normalised black pixel, [1, 3, 1, 1]."""
    return -torch.tensor(mean).view(1, 3, 1, 1) / torch.tensor(std).view(1, 3, 1, 1)


def untrained(
    name: str, build: Callable[[], FusionBranch], config: FusionConfig, pieces: Sequence[str], looks: Preprocess | str,
    *, decides: Sequence[object],
) -> ImageSource:  # fmt: skip
    """The source of a branch with random first weights, which follow from `decides` beside name, config and word pieces.

    `looks`: preprocessing of pixels, or the name of the encoder whose cells are used.
    """
    settings = json.dumps([placeless(name), asdict(config), list(pieces), *decides], sort_keys=True, default=str)
    return ImageSource(
        name=name,
        fingerprint=hashlib.sha256(settings.encode()).hexdigest(),
        width=config.width,
        build=build,
        tokenize=make_tokenizer(pieces, most=WORDS),
        preprocess=None if isinstance(looks, str) else looks,
        cells=looks if isinstance(looks, str) else "",
        pairs=paired(pieces, PREMISE),
    )


def new_branch(vision: Callable[[], nn.Module], config: FusionConfig, black: Tensor) -> FusionBranch:
    """A branch whose first weights are normal (`spread_of`), from the seed, without bias."""
    with seeded(SEED):
        branch = FusionBranch(vision(), text_model(config), black)
        spread = spread_of(branch.width)
        for part in branch.modules():
            if isinstance(part, nn.Linear | nn.Embedding | nn.Conv2d):
                nn.init.normal_(part.weight, std=spread)
                if getattr(part, "bias", None) is not None:
                    nn.init.zeros_(part.bias)  # type: ignore[arg-type]
        nn.init.normal_(branch.vision.embeddings.class_embedding, std=spread)
    return branch


def spread_of(width: int) -> float:
    """Standard deviation of first weights: BERT's 0.02 at its width, more for narrower layers."""
    return 0.02 if width >= BERT else float(width**-0.5)


def paired(pieces: Sequence[str], most: int) -> Callable[[Sequence[str], Sequence[str]], PairTokens]:
    """A function from premises and hypotheses to ids and types [B, `most`]: [CLS] premise [SEP] hypothesis [SEP], then 0.

    An overlong premise is cut, its hypothesis never.
    """
    first, second = make_tokenizer(pieces, most - WORDS), make_tokenizer(pieces, WORDS + 1)
    start, end = pieces.index(START), pieces.index(END)

    def tokenize(premises: Sequence[str], hypotheses: Sequence[str]) -> PairTokens:
        ids = torch.zeros(len(premises), most, dtype=torch.int64)
        types = torch.zeros_like(ids)
        for row, (above, below) in enumerate(zip(first(premises), second(hypotheses), strict=True)):
            premise = above[above != 0] if above.any() else torch.tensor([start, end])
            whole = torch.cat([premise, below[below != 0][1:]])
            ids[row, : len(whole)] = whole
            types[row, len(premise) : len(whole)] = 1
        return PairTokens(ids, types)

    return tokenize


class WordSpace(NamedTuple):
    """Words by a text tower: their mean [E], the axes [E, D] along which they differ most, and their coordinates [V, D] on these, of
    the norm sqrt(D) on average."""

    centre: Tensor
    axes: Tensor
    meaning: Tensor


_FOUND: dict[tuple[object, ...], WordSpace] = {}
"""Words by content of their encoder, shared by a classifier's branches and later ones."""


@torch.no_grad()
def words_of(model: ImageTextModel, source: EncoderSource, pieces: Sequence[str], width: int) -> WordSpace:
    """The words of an encoder on `width` axes. Raises UsageError for one of fewer axes."""
    most = min(len(pieces), source.width)
    if width > most:
        raise UsageError(
            f"width = {width} is more than the {most} of {source.name}", hint=f"--set width={most // 32 * 32}"
        )
    by = fingerprint(model, source.config, Preprocess.from_config(model.visual.preprocess_cfg))
    if found := _FOUND.get((by, width, *pieces)):
        return found
    # each word is encoded alone
    words = [piece.strip("[]").lower() if len(piece) > 2 else piece for piece in pieces]
    parts = (words[start : start + WORDS_AT_ONCE] for start in range(0, len(words), WORDS_AT_ONCE))
    vectors = torch.cat([model.encode_text(source.tokenize(part), normalize=True) for part in parts])
    centre = vectors.mean(0)
    axes = torch.linalg.svd(vectors - centre, full_matrices=False).Vh[:width].T
    meaning = (vectors - centre) @ axes
    meaning = meaning * (width**0.5 / meaning.norm(dim=-1).mean())
    meaning[0] = 0  # padding
    return _FOUND.setdefault((by, width, *pieces), WordSpace(centre, axes, meaning))


@torch.no_grad()
def start_aligned(branch: FusionBranch, encoder: str, pieces: Sequence[str]) -> FusionBranch:
    """The branch whose words, cells and attention start as the encoder's. Raises as `words_of` and `into_space`."""
    source = find_source(encoder)
    model = source.build()
    centre, axes, meaning = words_of(model, source, pieces, branch.width)
    weight, bias = into_space(model.visual)
    cells, words = branch.vision.embeddings, branch.words.embeddings
    cells.project.weight.copy_(axes.T @ weight)
    cells.project.bias.copy_(axes.T @ (bias - centre))
    words.word_embeddings.weight.copy_(meaning)
    for part in (words.position_embeddings.weight, words.token_type_embeddings.weight, cells.position_embedding):
        part.mul_(LITTLE)
    # at first a layer changes words and patches little, and words attend to cells like them
    for layer in branch.vision.encoder.layers:
        layer.self_attn.projection.weight.mul_(LITTLE)
        layer.mlp.fc2.weight.mul_(LITTLE)
    for layer in branch.words.encoder.layer:
        layer.attention.output.dense.weight.mul_(LITTLE)
        layer.output.dense.weight.mul_(LITTLE)
        if not isinstance(crossed := layer.crossattention, NoCrossAttention):
            for projection in (crossed.self.query, crossed.self.key, crossed.self.value, crossed.output.dense):
                nn.init.eye_(projection.weight)
    return branch


def into_space(tower: nn.Module) -> tuple[Tensor, Tensor]:
    """[E, F] and bias [E] from a cell of the last map to the encoder's space. Raises UsageError for other towers."""
    pool, project = getattr(tower, "attnpool", None), getattr(tower, "proj", None)
    if pool is not None and hasattr(pool, "c_proj"):
        return pool.c_proj.weight @ pool.v_proj.weight, pool.c_proj.weight @ pool.v_proj.bias + pool.c_proj.bias
    if isinstance(project, Tensor):
        return project.T, torch.zeros(project.shape[1])
    raise UsageError(
        f"the cells of {type(tower).__name__} cannot be projected into the space of its texts",
        hint="--set image=aligned:ctxr-tiny",
    )

"""An image branch whose words and cells start in the space of a bi-encoder of pictures and captions.

ALBEF too is pre-trained with image-text contrast before it learns entailment. Here each word starts as its vector by the text tower,
and each cell as its part of the pooled vector, both along the axes on which words differ most.

Letters: V words, P cells, F features, E width of the encoder's space, D width of the branch.
"""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn

from ctxr.errors import UsageError
from ctxr.models.encoders import EncoderSource, find_source
from ctxr.models.entailment.fusion import FusionBranch, NoCrossAttention
from ctxr.models.scorers import ImageTextModel

WORDS_AT_ONCE = 64

LITTLE = 0.1  # what first positions, kinds and layers over words are beside what the words mean


class WordSpace(NamedTuple):
    """Words by a text tower: their mean [E], the axes [E, D] along which they differ most, and their coordinates [V, D] on these, of
    the norm sqrt(D) on average."""

    centre: Tensor
    axes: Tensor
    meaning: Tensor


@torch.no_grad()
def words_of(model: ImageTextModel, source: EncoderSource, pieces: Sequence[str], width: int) -> WordSpace:
    """The words of an encoder on `width` axes. Raises UsageError for an encoder of fewer dimensions."""
    most = min(len(pieces), source.dim)
    if width > most:
        raise UsageError(
            f"width = {width} is more than the {most} of {source.name}", hint=f"--set width={most // 32 * 32}"
        )
    vectors = word_vectors(model, source, pieces)
    centre = vectors.mean(0)
    axes = torch.linalg.svd(vectors - centre, full_matrices=False).Vh[:width].T
    meaning = (vectors - centre) @ axes
    meaning = meaning * (width**0.5 / meaning.norm(dim=-1).mean())
    meaning[0] = 0  # padding
    return WordSpace(centre, axes, meaning)


@torch.no_grad()
def start_aligned(branch: FusionBranch, encoder: str, pieces: Sequence[str]) -> FusionBranch:
    """The branch with words, cells and attention between them that start as the encoder's. Raises as `words_of` and `into_space`."""
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
    # at first a layer changes words and patches little, and a word attends to the cells that are like it
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


@torch.no_grad()
def word_vectors(model: ImageTextModel, source: EncoderSource, pieces: Sequence[str]) -> Tensor:
    """Unit vectors [V, E] of words, each encoded alone."""
    words = [piece.strip("[]").lower() if len(piece) > 2 else piece for piece in pieces]
    parts = (words[start : start + WORDS_AT_ONCE] for start in range(0, len(words), WORDS_AT_ONCE))
    return torch.cat([model.encode_text(source.tokenize(part), normalize=True) for part in parts])


def into_space(tower: nn.Module) -> tuple[Tensor, Tensor]:
    """Weights [E, F] and bias [E] from a cell of the last feature map to the encoder's space. Raises UsageError for other towers."""
    pool, project = getattr(tower, "attnpool", None), getattr(tower, "proj", None)
    if pool is not None and hasattr(pool, "c_proj"):
        return pool.c_proj.weight @ pool.v_proj.weight, pool.c_proj.weight @ pool.v_proj.bias + pool.c_proj.bias
    if isinstance(project, Tensor):
        return project.T, torch.zeros(project.shape[1])
    raise UsageError(
        f"the cells of {type(tower).__name__} cannot be projected into the space of its texts",
        hint="--set image=aligned:ctxr-tiny",
    )

"""Towers of dialogues and photos: the dual encoder of PhotoChat, and VSE++ and SCAN, with which it is compared.

Letters: N photos, Q dialogues, T words, R regions, F features of a region or picture, D width, V size of a vocabulary.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from ctxr.models.entailment.base import TextSource
from ctxr.models.entailment.text import MEAN
from ctxr.models.layers import cut, unit
from ctxr.problems.dialogue.recipe import DialogueRecipe
from ctxr.problems.two_towers import TwoTowers, WordTower
from ctxr.store.regions import BOX

_CELLS = 20_000_000
"""Pairs of word and region that attention looks at in one pass."""


def text_ids(source: TextSource, texts: Sequence[str], most: int) -> Tensor:
    """[N, up to `most`] ids of `[CLS] text [SEP]`, 0 where there is none; the rest is cut off."""
    ids, types = source.tokenize(texts, [""] * len(texts))
    return cut(ids * (types == 0))[:, :most]


def first_words(count: int, width: int) -> Tensor:
    """Word vectors [V, D] as VSE++ and SCAN draw them."""
    return torch.empty(count, width).uniform_(-0.1, 0.1)


class DialogueEncoder(TwoTowers):
    """B = norm(FC([A; L])) of a photo A and its labels L, T = norm(FC([CLS])) of a dialogue, and B · T over the temperature (section 5.2);
    T is the last state of a GRU over words where no text is named (VSE++, Faghri et al., 2018).

    Args:
        tower: of images, which learns; None where vectors come in. features: F, 0 where no pictures are seen. texts: by what they read.
    """

    def __init__(
        self, recipe: DialogueRecipe, tower: nn.Module | None, features: int, texts: dict[str, TextSource], words: int
    ) -> None:
        super().__init__()
        self.tower, self.features, self.temperature = tower, features, recipe.temperature
        built: dict[str, Any] = {kind: source.build() for kind, source in texts.items()}
        for kind, source in texts.items():
            if not source.name.startswith("bert:"):  # untrained, [CLS] learns slowly
                built[kind].pooling = MEAN
        self.texts = nn.ModuleDict(built)
        seen = features + (texts["label_text"].width if "label_text" in texts else 0)
        self.of_photo = nn.Linear(seen, recipe.width)
        table = first_words(words, recipe.embedded)
        self.of_text = nn.Linear(texts["text"].width, recipe.width) if texts else WordTower(table, recipe.width, 0.0)

    def read(self, kind: str, ids: Tensor) -> Tensor:
        """Vectors of ids [N, T]; the ids themselves where they are rows of words."""
        return self.texts[kind](cut(ids), torch.zeros_like(cut(ids))) if kind in self.texts else ids

    def images(self, *inputs: Tensor) -> Tensor:
        """[N, D] of pixels [N, 3, H, W] or vectors [N, F], ids of labels [N, T], or both, in this order."""
        seen = [inputs[0] if self.tower is None else self.tower(inputs[0])] if self.features else []
        parts = [self.features**0.5 * unit(one) for one in seen]  # numbers about as large as those of [CLS]
        parts += [self.read("label_text", inputs[-1])] if "label_text" in self.texts else []
        return unit(self.of_photo(torch.cat(parts, 1)))

    def queries(self, ids: Tensor) -> Tensor:
        """[Q, D] of ids [Q, T]."""
        return unit(self.of_text(self.read("text", ids))) / self.temperature


class WordAttention(TwoTowers):
    """SCAN t-i AVG (Lee et al., 2018): each word attends to regions, and the mean over words of its cosine with what it sees counts."""

    def __init__(self, recipe: DialogueRecipe, features: int, words: int) -> None:
        super().__init__()
        self.seen = nn.Linear(features, recipe.width)
        self.words = nn.Embedding(words, recipe.embedded, _weight=first_words(words, recipe.embedded))
        self.gru = nn.GRU(recipe.embedded, recipe.width, batch_first=True, bidirectional=True)

    def images(self, regions: Tensor) -> Tensor:
        """Unit vectors [N, R, D] of regions [N, R, F + BOX], 0 where there is none."""
        present = (regions[..., -BOX:] != 0).any(-1, keepdim=True)
        return unit(self.seen(regions[..., :-BOX])) * present

    def queries(self, tokens: Tensor) -> Tensor:
        """Unit vectors [Q, T, D] of rows of words [Q, T], the mean of both directions, 0 behind the last word."""
        lengths = (tokens != 0).sum(1).cpu()
        packed = pack_padded_sequence(self.words(tokens), lengths, batch_first=True, enforce_sorted=False)
        states, _ = pad_packed_sequence(self.gru(packed)[0], batch_first=True, total_length=tokens.shape[1])
        forwards, backwards = states.chunk(2, -1)
        return unit(forwards + backwards) * (tokens != 0)[..., None]

    def match(self, queries: Tensor, images: Tensor) -> Tensor:
        """[Q, N] of words [Q, T, D] and regions [N, R, D]."""
        said = int((queries != 0).any(-1).sum(1).max())
        rows = max(1, _CELLS // (said * images.shape[0] * images.shape[1]))
        return torch.cat([attended(part, images) for part in torch.split(queries[:, :said], rows)])


def attended(words: Tensor, regions: Tensor, sharpness: float = 9.0) -> Tensor:
    """[Q, N]: the mean over words of cos(word, attended regions), of unit vectors [Q, T, D] and [N, R, D] that are 0 where there is none.

    Attention is the softmax over regions of `sharpness` times [cosine]+, which is first brought to length 1 over the words. Attended
    vectors are never made: their products with words, and with themselves, follow from cosines.
    """
    spoken, present = (words != 0).any(-1), (regions != 0).any(-1)
    cosines = torch.einsum("qtd,nrd->qntr", words, regions)
    fits = cosines.clamp(min=0)
    fits = fits / fits.norm(dim=2, keepdim=True).clamp(min=1e-8)
    shares = (sharpness * fits).masked_fill(~present[None, :, None], -torch.inf).softmax(-1)
    lengths = ((shares @ (regions @ regions.transpose(1, 2))) * shares).sum(-1).clamp(min=1e-12).sqrt()
    likeness = (shares * cosines).sum(-1) / lengths * spoken[:, None]
    return torch.as_tensor(likeness.sum(-1) / spoken.sum(1)[:, None])

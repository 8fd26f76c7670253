"""ViLBERT and UNITER as one encoder of pairs over region features (specs A0.2, 6; volta's gated layers).

Letters: B queries, K candidates, N images, R regions, F features, T tokens, D width of a pair, P pairs in a pass.
"""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from ctxr.data.regions import BOX
from ctxr.models.cross.config import CrossConfig
from ctxr.models.cross.embeddings import Regions, Words, there
from ctxr.models.cross.stages import Joint, Own, make_stage

PAIRS = 160
"""Pairs in one pass: sixteen sets of ten."""


class RegionEncoder(nn.Module):
    """A `PairEncoder`: pooled text times pooled vision, each of them a ReLU of the first item.

    What does not depend on the other side is done once for each text and each image: embeddings, and the layers before the
    first in which the streams meet (half of ViLBERT's layers of text). Weights are drawn from torch's global generator.

    Args:
        config: what it is made of.
        most: pairs in one pass.
    """

    def __init__(self, config: CrossConfig, most: int = PAIRS) -> None:
        super().__init__()
        self.config, self.most, self.width = config, most, config.pooled
        self.words, self.regions = Words(config), Regions(config, BOX)
        self.stages = nn.ModuleList(make_stage(kind, config) for kind in config.stages)
        self.pool_text = nn.Linear(config.text.width, config.pooled)
        self.pool_vision = nn.Linear(config.vision.width, config.pooled)
        self.aligned = nn.Linear(config.pooled, 2)
        self.dropout = nn.Dropout(config.pair_dropout)
        self.apply(self._draw)

    def pairs(self, images: Tensor, texts: Tensor, candidates: Tensor, mask: Tensor) -> Tensor:
        """Pair features [B, K, D]; 0 where `mask` is False.

        Args:
            images: regions [N, R, F + BOX], the whole picture first; a box of zeros means that there is none.
            texts: int64 [B, T] token ids, 0 where there is none.
            candidates: int64 [B, K] rows of `images`.
            mask: bool [B, K].

        Raises:
            ValueError: regions of another width, or more tokens than there are positions.
        """
        if images.shape[-1] != self.config.features + BOX:
            raise ValueError(
                f"a region has {images.shape[-1]} numbers, and {self.config.features} features and {BOX} of a box are wanted"
            )
        alone, meeting = self._split()
        texts = _trimmed(texts)
        boxes = images[..., -BOX:]
        said, seen = there(texts), there(boxes)
        kind = self.words.kinds.weight[1] if self.config.embedding == "uniter" else None
        words, regions = self.words(texts), self.regions(images[..., :-BOX], boxes, kind)
        for stage in alone:
            words, regions = stage(words, regions, said, seen)
        query, place = mask.nonzero(as_tuple=True)
        image = candidates[query, place]
        made = []
        for start in range(0, max(1, len(image)), self.most):
            of, at = query[start : start + self.most], image[start : start + self.most]
            made.append(self._met(words[of], regions[at], said[of], seen[at], meeting))
        pairs = torch.cat(made)
        return pairs.new_zeros(*mask.shape, self.width).index_put((query, place), pairs)

    def match(self, pairs: Tensor) -> Tensor:
        """Log-odds [..] that image and text belong together, from pairs [.., D]; the published score is their sigmoid."""
        # candidates of one set lie close together: autocast would make ties of them
        weight, bias = self.aligned.weight, self.aligned.bias
        return (pairs * (weight[0] - weight[1])).sum(-1) + (bias[0] - bias[1])

    def _split(self) -> tuple[list[nn.Module], list[nn.Module]]:
        """(stages before the streams meet, the others)."""
        stages = list(self.stages)
        count = next((at for at, stage in enumerate(stages) if not isinstance(stage, Own)), len(stages))
        return stages[:count], stages[count:]

    def _met(self, words: Tensor, regions: Tensor, said: Tensor, seen: Tensor, stages: Sequence[nn.Module]) -> Tensor:
        """[P, D] of words [P, T, ..] and regions [P, R, ..]."""
        for stage in stages:
            if isinstance(stage, Joint):
                both = stage(torch.cat([words, regions], 1), torch.cat([said, seen], 1))
                words, regions = both.split([words.shape[1], regions.shape[1]], 1)
            else:
                words, regions = stage(words, regions, said, seen)
        text, vision = self.pool_text(words[:, 0]).relu(), self.pool_vision(regions[:, 0]).relu()
        if text.dtype != torch.float64:
            text, vision = text.float(), vision.float()
        pair: Tensor = self.dropout(text * vision)
        return pair

    def _draw(self, module: nn.Module) -> None:
        """BERT's first weights."""
        if isinstance(module, nn.Linear | nn.Embedding):
            nn.init.normal_(module.weight, std=self.config.spread)
        if isinstance(module, nn.Linear):
            nn.init.zeros_(module.bias)


def _trimmed(texts: Tensor) -> Tensor:
    """The columns up to the last token of the longest text, one at least."""
    used = (texts != 0).any(0).nonzero()
    return texts[:, : int(used.max()) + 1 if len(used) else 1]

"""An encoder of pairs as the retrieval model that proposes candidates."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from ctxr.metrics.votes import Codes, Flags
from ctxr.pipelines.scoring import Device
from ctxr.pipelines.talk import Talk
from ctxr.pipelines.training.encoded import PictureFiles
from ctxr.pipelines.training.pair_looks import Rerank, pair_looks, shortlist_of
from ctxr.pipelines.training.paired import regions_for

if TYPE_CHECKING:
    from ctxr.models.cross.sources import CrossSource

Matrix = npt.NDArray[np.float32]


@dataclass(frozen=True)
class PairMiner:
    """An encoder of pairs as the retrieval model.

    Attributes:
        checkpoint: folder of a trained one, None for the published one. rerank: what is looked at. regions: name of those it was
            trained on, "" for pixels.
    """

    name: str
    fingerprint: str
    source: "CrossSource"
    checkpoint: Path | None
    rerank: Rerank
    regions: str
    device: str
    precision: str

    def over(self, pictures: PictureFiles, texts: Sequence[str], k: int, talk: Talk) -> "Scores":
        """What gives the scores of some pictures with some texts, by their places; `k` candidates are wanted of each.

        Raises what `regions_for` raises.
        """
        seen = replace(pictures, regions=regions_for(self.source, self.regions, pictures.workdir))
        looks = pair_looks(self.checkpoint, self.source, seen, texts, Device(self.device, self.precision), talk)
        shortlist = shortlist_of(seen, texts, self.rerank, self.device, talk)
        if 0 < self.rerank.most < k:
            talk.note(f"{self.name} looks at {self.rerank.most} captions of a picture, not {k}, and proposes no others")

        def scores(
            images: Codes, captions: Codes, known: Codes, advance: Callable[[float], None]
        ) -> tuple[Matrix, Flags]:
            wanted = shortlist.wanted(images, captions, known)
            asked = wanted.copy()
            asked[known[:, 0], known[:, 1]] = True
            return looks.look(images, captions, asked, advance), wanted

        return scores


Scores = Callable[[Codes, Codes, Codes, Callable[[float], None]], tuple[Matrix, Flags]]
"""Scores [n, m] of pictures [n] with texts [m] and of known pairs [g, 2] of their places, and which pairs are candidates; a
function is told how many pictures are done."""

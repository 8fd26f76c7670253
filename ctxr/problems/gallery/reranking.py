"""Scores of pictures with texts by a cross-encoder, cached as they are computed."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ctxr.engine.progress import Progress
from ctxr.metrics.retrieval import Vectors
from ctxr.models.cross.sources import CrossSource
from ctxr.models.encoders import load_encoder
from ctxr.models.training.examples import Images
from ctxr.problems.embeddings import PictureFiles, cached, embedded
from ctxr.problems.gallery.matching import Advance, PairMatcher, Rows, Shortlist, Table, Wanted
from ctxr.problems.pair_inputs import image_inputs
from ctxr.problems.scoring import Device, plan_scoring
from ctxr.store.hashing import sha256_bytes, sha256_file, sha256_of

if TYPE_CHECKING:
    from collections.abc import Sequence

KEPT = 50_000
"""Scores in a file of the cache, as many as a stopped run may lose: some minutes of a large encoder of pairs on a CPU."""


@dataclass(frozen=True)
class Rerank:
    """How many candidates of each query a cross-encoder rescores, 0 for all; the shortlist is made by the encoder `by`."""

    most: int = 0
    by: str = ""


@dataclass(frozen=True)
class PairScoring:
    """An encoder of pairs over some pictures and texts.

    Attributes:
        scorer: on its device, in evaluation mode. images: by index in `pictures`. tokens: [C, T] of the texts.
        made_by: whatever decides a score beside picture and text.
    """

    scorer: Any
    images: "Images"
    tokens: Any
    pictures: PictureFiles
    texts: "Sequence[str]"
    made_by: dict[str, Any]
    device: str
    bf16: bool

    def scores(
        self, images: "Rows", captions: "Rows", wanted: "Wanted", advance: "Advance" = lambda _: None
    ) -> "Table":
        """Scores [n, m] of pictures with texts, by index, 0 where a pair is not wanted; each is computed once.

        Args:
            advance: called with the number of finished pictures.
        """
        contents = list(self.pictures.contents.values())
        origin = self.made_by | {"texts": sha256_of([self.texts[one] for one in captions])}
        names = [
            sha256_of([contents[image], sha256_bytes(np.packbits(row).tobytes())])
            for image, row in zip(images, wanted, strict=True)
        ]

        matcher = PairMatcher(self.scorer, self.images, self.tokens, self.device, self.bf16)

        def make(part: slice) -> "Table":
            return matcher.scores(images[part], captions, wanted[part])

        chunk = max(1, KEPT // max(1, int(wanted.sum(1).max(initial=1))))
        return np.concatenate(cached(self.pictures.workdir, origin, names, make, advance, chunk))


def pair_scoring(
    checkpoint: Path | None,
    source: "CrossSource",
    pictures: PictureFiles,
    texts: "Sequence[str]",
    machine: Device,
    progress: Progress,
) -> PairScoring:
    """A checkpoint, or the published encoder where there is none, over pictures and texts, on `machine.device`."""
    plan = plan_scoring(checkpoint, source, pictures, machine, progress)
    weights = [] if checkpoint is None else [sha256_file(one) for one in sorted(checkpoint.glob("*.safetensors"))]
    regions = None if pictures.regions is None else pictures.regions.sha256
    origin = {"what": "matches", "weights": [source.fingerprint, weights], "bf16": plan.bf16, "regions": regions}
    images = image_inputs(pictures, source, machine.device, progress)
    return PairScoring(
        plan.ranker.eval(), images, source.tokenize(list(texts)), pictures, texts, origin, machine.device, plan.bf16
    )


def shortlist_of(
    pictures: PictureFiles, texts: "Sequence[str]", rerank: Rerank, device: str, progress: Progress
) -> "Shortlist":
    """The pairs of pictures and texts that a cross-encoder rescores, by index. Raises what `load_encoder` raises."""
    if not rerank.most:
        return Shortlist()
    encoder = load_encoder(rerank.by, device, warn=progress.warn)
    return Shortlist(Vectors(*embedded(pictures, list(texts), encoder, progress)), rerank.most)

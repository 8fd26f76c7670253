"""The sample that people are shown: drawn by decision, band of probability and rank, so that few looks tell of the whole pool."""

from collections.abc import Mapping, Sequence

import numpy as np

from ctxr.metrics.stratified import allocate
from ctxr.pipelines.asking import StatementRow
from ctxr.pipelines.revising.records import AuditSample, CandidateRow

BANDS = (0.1, 0.5, 0.9)
"""Where the probability is cut."""

RANKS = (10,)
"""Where the rank is cut: after it."""


def stratum_of(link: CandidateRow) -> str:
    """The stratum of a candidate in words: what was done, how sure the classifier is, where retrieval had it.

    >>> stratum_of(Link("i", "c", "m", "image", 12, 0.3, 0.95, "added", "f"))
    'added, p 0.9 to 1, rank above 10'
    """
    done = "capped" if link.reason in ("cap_image", "cap_caption") else link.decision
    edges = (0.0, *BANDS, 1.0)
    band = int(np.searchsorted(BANDS, link.probability, side="right"))
    rank = f"rank up to {RANKS[0]}" if link.rank <= RANKS[0] else f"rank above {RANKS[0]}"
    return f"{done}, p {edges[band]:g} to {edges[band + 1]:g}, {rank}"


def draw(links: Sequence[CandidateRow], size: int, rng: np.random.Generator) -> list[AuditSample]:
    """About `size` candidates, at least four of each stratum (`allocate`), without any twice."""
    strata: dict[str, list[CandidateRow]] = {}
    for link in links:
        strata.setdefault(stratum_of(link), []).append(link)
    names = sorted(strata)
    found = []
    for name, count in zip(names, allocate([len(strata[name]) for name in names], size) if size else [], strict=False):
        held = strata[name]
        for place in sorted(rng.choice(len(held), count, replace=False).tolist()):
            one = held[place]
            found.append(
                AuditSample(one.image, one.caption, name, one.decision, len(held), count, one.probability, one.rank)
            )
    return found


def as_candidates(
    drawn: Sequence[AuditSample],
    captions: Mapping[str, Sequence[str]],
    texts: Mapping[str, str],
    authors: Mapping[str, str],
) -> list[StatementRow]:
    """The sample as `ctxr export-tasks entail` takes it; nothing in it tells what the classifier said.

    Args:
        captions: written for each image. texts, authors: of each caption, by query.
    """
    return [
        StatementRow(
            one.image, one.caption, texts[one.caption], tuple(captions.get(one.image, ())), authors[one.caption]
        )
        for one in sorted(drawn, key=lambda one: one.key())
    ]

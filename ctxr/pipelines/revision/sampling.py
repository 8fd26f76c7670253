"""The sample of an audit, stratified by decision, band of probability and rank, to estimate precision and recall of all candidates."""

from collections.abc import Mapping, Sequence

import numpy as np

from ctxr.annotation.task_batch import StatementRow
from ctxr.datasets.rounds import AuditSample, CandidateRow, stratum_of
from ctxr.metrics.stratified import allocate


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
    """The sample as `ctxr export-tasks entail` takes it; it does not reveal the classifier's decision.

    Args:
        captions: written for each image. texts, authors: of each caption, by query.
    """
    return [
        StatementRow(
            one.image, one.caption, texts[one.caption], tuple(captions.get(one.image, ())), authors[one.caption]
        )
        for one in sorted(drawn, key=lambda one: one.key())
    ]

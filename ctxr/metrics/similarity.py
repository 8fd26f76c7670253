"""How scores of pairs go together with people's graded similarity: Spearman's rho over samples, as Crisscrossed Captions has it.

Parekh et al. 2021 (EACL, "Crisscrossed Captions", semantic similarity tasks) chose their pairs densely around some items, so a plain
correlation would count these most. They draw half of the queries, one rated pair of each, take Spearman's rho over those, and
report the mean of 1,000 such draws.
"""

from dataclasses import dataclass

import numpy as np

from ctxr.metrics.agreement import percentiles
from ctxr.metrics.compare import pearson
from ctxr.metrics.votes import Column, Doubles

DRAWS = 1000


@dataclass(frozen=True)
class SampledRho:
    """Spearman's rho over draws, -1..1.

    Attributes:
        value: mean over the draws; None where rho is not defined in any of them. spread: standard deviation over them.
        low, high: between which 95 % of the draws lie: of half of the queries each, so no interval of their mean.
        pairs, queries: that there are.
    """

    value: float | None
    spread: float | None
    low: float | None
    high: float | None
    pairs: int
    queries: int


def spearman(one: Doubles, other: Doubles) -> float | None:
    """Spearman's rho of two columns [N], -1..1, ties by their mean rank; None where one of them does not vary."""
    return pearson(mean_ranks(one), mean_ranks(other))


def sampled_spearman(
    queries: Column, rated: Doubles, scored: Doubles, rng: np.random.Generator, draws: int = DRAWS
) -> SampledRho:
    """Spearman's rho of ratings [N] and scores [N], over draws of half of the queries [N] (rounded up) and one pair of each."""
    codes = np.unique(np.asarray(queries), return_inverse=True)[1] if len(queries) else np.zeros(0, np.int64)
    order = np.argsort(codes, kind="stable")
    sizes = np.bincount(codes)
    starts = np.cumsum(sizes) - sizes
    rhos = []
    for _ in range(draws):
        chosen = rng.choice(len(sizes), (len(sizes) + 1) // 2, replace=False)
        pairs = order[starts[chosen] + rng.integers(0, sizes[chosen])]
        rho = spearman(rated[pairs], scored[pairs])
        if rho is not None:
            rhos.append(rho)
    if not rhos:
        return SampledRho(None, None, None, None, len(queries), len(sizes))
    values = np.array(rhos)
    low, high = percentiles(values)
    return SampledRho(float(values.mean()), float(values.std()), low, high, len(queries), len(sizes))


def mean_ranks(column: Doubles) -> Doubles:
    """Ranks from 1, equal values at the mean of theirs."""
    _, codes, counts = np.unique(column, return_inverse=True, return_counts=True)
    ends = np.cumsum(counts)
    return ((ends - counts + 1 + ends) / 2)[codes]

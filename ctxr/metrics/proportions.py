"""Shares of right answers: exact intervals, exact tests against chance, and many tests at once."""

from collections.abc import Callable, Sequence
from typing import NamedTuple, cast

import numpy as np
from scipy.special import bdtrc, betainccinv, betaincinv, chdtrc, gammaincinv, stdtrit

from ctxr.metrics.votes import Doubles

LEVEL = 0.95
"""Share of the repetitions in which an interval of ours holds the truth."""

LEAST_EXPECTED = 5
"""Counts that a cell must expect for the p-value of `even_spread` to mean something."""


class Limits(NamedTuple):
    """The ends of an interval."""

    low: float
    high: float


def exact_interval(hits: float, trials: int) -> Limits:
    """Clopper and Pearson's interval for a share, in 0..1: it covers the truth in at least 95 %.

    Half hits, from ties, are rounded outwards: the interval only grows. (0, 1) for no trial.
    """
    if not trials:
        return Limits(0.0, 1.0)
    least, most = int(np.floor(hits + 1e-9)), int(np.ceil(hits - 1e-9))
    tail = (1 - LEVEL) / 2
    low = float(betaincinv(least, trials - least + 1, tail)) if least else 0.0
    return Limits(low, float(betainccinv(most + 1, trials - most, tail)) if most < trials else 1.0)


def share_limits(share: Doubles, looks: Doubles, free: Doubles) -> Doubles:
    """Wilson's limits [2, S] of shares [S], with Student's quantile in place of the normal one: it holds the truth of few looks too often
    rather than too seldom; no nearer to the share than the exact limits, since Wilson's hold too little around one hit of many looks.

    Args:
        looks: [S] of each, above 0; fewer than there were where the truth is that of few pairs itself, and no whole number then.
        free: [S] degrees of freedom; below 1 they count as 1.

    >>> low, high = share_limits(np.array([0.0]), np.array([10.0]), np.array([9.0]))
    >>> float(low[0]), round(float(high[0]), 4)
    (0.0, 0.3385)
    """
    square = stdtrit(np.maximum(free, 1), (1 + LEVEL) / 2) ** 2 / looks
    middle = (share + square / 2) / (1 + square)
    half = np.sqrt(square * share * (1 - share) + square**2 / 4) / (1 + square)
    tail, hits = (1 - LEVEL) / 2, share * looks
    low, high = betaincinv(hits, looks - hits + 1, tail), betainccinv(hits + 1, looks - hits, tail)
    # exact limits are not defined without hits or without misses, nor for endless looks
    low, high = np.where(np.isnan(low), middle - half, low), np.where(np.isnan(high), middle + half, high)
    low, high = np.minimum(middle - half, low), np.maximum(middle + half, high)
    return np.stack([np.clip(low, 0, share), np.clip(high, share, 1)])


def weighted_limits(counts: Doubles, variances: Doubles, steps: Doubles, sizes: Doubles) -> Doubles:
    """Limits [2, G] of sums of weighted counts by the gamma distribution (Fay and Feuer 1997; Tiwari et al. 2006): of what is counted
    where that is the rarer kind, else of the rest; their distances add up by their squares.

    Args:
        counts, variances: [G, S] of the parts of G sums. steps: [G, S] what one more of a part's sample adds. sizes: [S] the most.
    """
    many, tail, reaches = counts > sizes / 2, (1 - LEVEL) / 2, []
    for kind in (many, ~many):
        parts = np.maximum(kind.sum(axis=1), 1)
        count = np.maximum((np.minimum(counts, sizes - counts) * kind).sum(axis=1), 1e-9)
        spread = np.maximum((variances * kind).sum(axis=1), 1e-12)
        more, wider = count + (steps * kind).sum(axis=1) / parts, spread + (steps**2 * kind).sum(axis=1) / parts
        below = count - gammaincinv(count**2 / spread, tail) * spread / count
        above = gammaincinv(more**2 / wider, 1 - tail) * wider / more - count
        reaches.append(np.maximum([below, above], 0))
    # what lies below the count of the rest lies above that of the counted
    below, above = np.hypot(reaches[0][::-1], reaches[1])
    value = counts.sum(axis=1)
    return np.stack([np.clip(value - below, 0, value), np.clip(value + above, value, sizes.sum())])


def bounded_tail(total: float, trials: int, chance: float) -> float:
    """An upper bound on the p-value by chance, for outcomes anywhere in 0..1.

    Valid for P(X >= total), X a sum of `trials` outcomes in 0..1, each with a known mean whatever came before, `chance` the
    mean of these means. X is below a binomial number B in the convex order (Hoeffding 1963), so P(X >= total) is at most
    E(B - h)+ / (total - h) for every h below `total`; the least of these is taken (Bentkus 2004). 1.0 for no trial.

    >>> bounded_tail(2, 2, 0.5)
    0.25
    """
    if total <= 1e-9 or chance >= 1 or not trials:
        return 1.0
    if chance <= 0:
        return 0.0
    counts = np.arange(trials + 1)
    tails = bdtrc(counts - 1, trials, chance)
    # E(B - h)+ is the sum of P(B >= k) over k above h
    excess = np.append(np.cumsum(tails[:0:-1])[::-1], 0.0)
    below = counts[counts < total - 1e-9]
    return min(1.0, float((excess[below] / (total - below)).min()))


def bounded_interval(total: float, trials: int) -> Limits:
    """Interval for the mean of outcomes in 0..1 by `bounded_tail`: covers it at least 95 % of the time. (0, 1) for no trial."""
    if not trials:
        return Limits(0.0, 1.0)

    def limit(total: float) -> float:
        """The share at which so large a total has a bound of 2.5 %; 0 for a total of 0."""
        if total <= 1e-9:
            return 0.0
        tail = (1 - LEVEL) / 2
        share = zero_of_fall(
            lambda share: np.array(tail - bounded_tail(total, trials, float(share))), np.zeros(()), np.ones(())
        )
        return float(share)

    return Limits(limit(total), 1 - limit(trials - total))


def zero_of_fall(of: Callable[[Doubles], Doubles], low: Doubles, high: Doubles) -> Doubles:
    """Where functions that fall from 0 or more to 0 or less between two places are 0, by halving; an entry for each."""
    for _ in range(60):
        middle = (low + high) / 2
        above = of(middle) > 0
        low, high = np.where(above, middle, low), np.where(above, high, middle)
    return high


def holm(p_values: Sequence[float]) -> list[float]:
    """Adjusted p-values, in the order given: refusing those below a level errs anywhere at most that often (Holm 1979)."""
    values = np.asarray(p_values, np.float64)
    order = np.argsort(values, kind="stable")
    adjusted = np.empty_like(values)
    adjusted[order] = np.maximum.accumulate(np.minimum(1.0, np.arange(len(values), 0, -1) * values[order]))
    return cast("list[float]", adjusted.tolist())


def even_spread(counts: Sequence[int]) -> float:
    """Pearson's p-value for the claim that all cells are equally likely, by the chi-square distribution; 1 where there is nothing."""
    total, cells = sum(counts), len(counts)
    if not total or cells < 2:
        return 1.0
    expected = total / cells
    statistic = sum((count - expected) ** 2 for count in counts) / expected
    return float(chdtrc(cells - 1, statistic))

"""May a judge stand in for people (alternative annotator test, Calderon et al., ACL 2025)? And does it favour a retriever?"""

from dataclasses import dataclass

import numpy as np
from scipy.special import stdtr

from ctxr.metrics.votes import Codes, Doubles, Flags, Votes

LEVEL = 0.05
"""False discovery rate of the tests over people."""

WINNING = 0.5
"""Winning rate from which on a judge may stand in."""

FEW_ITEMS = 30
"""Items below which the test is Wilcoxon's."""


@dataclass(frozen=True)
class AnnotatorTest:
    """The test of a judge against a person left out, on the items that others answered too, None without any: the share of them on which
    the judge agrees with the others at least as often, the p-value of the judge being worse by ε or more, and whether that is ruled out."""

    name: str
    items: int
    advantage: float | None = None
    p: float | None = None
    rejected: bool = False


def alternative_test(votes: Votes, verdicts: Codes, weights: Doubles, epsilon: float) -> tuple[AnnotatorTest, ...]:
    """Compare a judge with each person by how many of the others agree with either; tests are corrected for each other (Benjamini and
    Yekutieli 2001).

    Args:
        verdicts: [U] the label that the judge gives. weights: [U] how many units each stands for, alike in the paper. epsilon: what the
            judge may be worse, since it is cheaper.
    """
    counts = np.zeros((len(votes.unit_names), len(votes.labels)), np.int64)
    np.add.at(counts, (votes.units, votes.values), 1)
    as_judge = votes.labels[votes.values] == verdicts[votes.units]
    others = np.bincount(votes.units, as_judge)[votes.units] - as_judge
    worse = np.sign(counts[votes.units, votes.values] - 1 - others)
    shared = counts.sum(axis=1)[votes.units] > 1
    rows = [np.flatnonzero(shared & (votes.workers == code)) for code in range(len(votes.worker_names))]
    weight = weights[votes.units]
    p_values = np.array([inferiority(worse[row], weight[row], epsilon) for row in rows if len(row)])
    ranks = np.arange(1, len(p_values) + 1)
    ordered = np.sort(p_values)
    highest = float(ordered[ordered <= LEVEL * ranks / (len(ranks) * (1 / ranks).sum())].max(initial=-1.0))
    tested = iter(p_values.tolist())
    return tuple(
        AnnotatorTest(str(name), len(row), float(np.average(worse[row] <= 0, weights=weight[row])), p := next(tested), p <= highest)
        if len(row) else AnnotatorTest(str(name), 0)
        for name, row in zip(votes.worker_names, rows, strict=True)
    )  # fmt: skip


def inferiority(differences: Doubles, weights: Doubles, epsilon: float) -> float:
    """One-sided p-value for the claim that differences [n] are `epsilon` or more: Student's, by the effective number of items (Kish), or
    of few items Wilcoxon's, which knows no weights: exact, with mean ranks for ties."""
    values = differences - epsilon
    if len(values) >= FEW_ITEMS:
        share = weights / weights.sum()
        mean, count = float(share @ values), 1 / float(share @ share)
        spread = float(np.linalg.norm(share * (values - mean))) * np.sqrt(count / (count - 1))
        return float(stdtr(count - 1, mean / spread)) if spread > 1e-12 else float(mean >= 0)
    values = np.round(values[values != 0], 9)
    sizes = np.abs(values)
    # twice the mean rank is a whole number
    ranks = (sizes[:, None] > sizes).sum(axis=1) + (sizes[:, None] >= sizes).sum(axis=1) + 1
    chance = np.ones(1)
    for rank in ranks.tolist():
        chance = (np.pad(chance, (0, rank)) + np.pad(chance, (rank, 0))) / 2
    return float(chance[: int(ranks[values > 0].sum()) + 1].sum())


@dataclass(frozen=True)
class Preference:
    """How much higher the mean probability is of pairs that a retriever ranks up to `rank`, among pairs of the same verdict, and the
    one-sided p-value."""

    rank: float
    difference: float
    p: float


def preference(probability: Doubles, ranks: Doubles, entailed: Flags, weights: Doubles, seed: int) -> Preference | None:
    """Whether a judge favours what a retriever ranks high: 4,000 permutations of the ranks among pairs [N] with the same verdict.

    `probability` is NaN where the judge gives none, a weight 0 leaves a pair out. None where all pairs of either verdict rank alike.
    """
    rank, rng, gaps, total = float(np.median(ranks)), np.random.default_rng(seed), np.zeros(4001), 0.0
    for verdict in (False, True):
        rows = (entailed == verdict) & ~np.isnan(probability) & (weights > 0)
        high, weight = ranks[rows] <= rank, weights[rows]
        if high.any() and not high.all():
            dealt = np.vstack([high, rng.permuted(np.tile(high, (4000, 1)), axis=1)]).astype(np.float64)
            upper, lower = ((side @ (weight * probability[rows])) / (side @ weight) for side in (dealt, 1 - dealt))
            gaps, total = gaps + weight.sum() * (upper - lower), total + float(weight.sum())
    return Preference(rank, float(gaps[0] / total), float((gaps >= gaps[0] - 1e-9).mean())) if total else None

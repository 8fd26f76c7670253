"""Does the highest score of a query tell whether its right candidate is there: AUROC, and selective accuracy (Geifman and El-Yaniv 2017).

Ties, of candidates and of queries, are broken as by a fair coin, and figures are means over all ways to break them.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ctxr.metrics.compare import Clusters, Interval, interval_of
from ctxr.metrics.ranking import BLOCK, accuracy, count_ranks, row_blocks
from ctxr.metrics.votes import Codes, Doubles, Flags

COVERAGES = (0.25, 0.5, 0.75, 1.0)
"""Shares of the queries that are answered, those with the highest scores first."""


class BestScores(NamedTuple):
    """The highest scores of N queries by one scorer: `best` [N] of all candidates and `rest` [N] of those that are not right, -inf where
    all are; `credit` [N] is the chance 0..1 that the first candidate is right."""

    best: Doubles
    credit: Doubles
    rest: Doubles


def best_scores(blocks: Iterable[tuple[npt.NDArray[np.floating], Flags]]) -> BestScores:
    """Those of blocks: scores [b, K], -inf where there is no candidate, and which are right [b, K]. Raises DataError as `count_ranks`."""
    columns = [np.zeros((3, 0))]
    for scores, right in blocks:
        rest = np.max(scores, axis=1, where=~right, initial=-np.inf)
        columns.append(np.stack([scores.max(axis=1), accuracy(count_ranks(scores, right)), rest]))
    return BestScores(*np.concatenate(columns, axis=1))


def draw_removed(scorers: Sequence[BestScores], rng: np.random.Generator) -> Flags:
    """A random half of the queries [N], rounded down; none of those where nothing but right candidates is ranked."""
    able, queries = np.all([one.rest > -np.inf for one in scorers], axis=0), np.arange(len(scorers[0].rest))
    return np.isin(queries, rng.permutation(queries[able])[: len(queries) // 2])


def selective(scorers: Sequence[BestScores], removed: Flags, rows: Codes, clusters: Clusters) -> list[Interval]:
    """AUROC and the selective accuracy at each of `COVERAGES`, 0..1, means over the scorers of a run, with intervals over clusters.

    AUROC: the chance that the highest score of a query is higher than that of a `removed` one [N], a tie counting half.
    Selective accuracy: the share of answered queries whose first candidate is right; a removed query has no right one.
    `rows` [N]: the row of the clusters that each query is drawn with.
    """
    codes, drawn = clusters.codes[rows], np.vstack([np.ones((1, clusters.size), np.uint8), clusters.weights])
    blocks = (drawn[block][:, codes].astype(np.float64) for block in row_blocks(len(drawn), len(rows), BLOCK))
    found = [np.mean([_figures(one, removed, weights) for one in scorers], axis=0) for weights in blocks]
    size, (figures, *draws) = len(np.unique(codes)), np.concatenate(found)
    return [
        interval_of(None if np.isnan(figure) else float(figure), column[~np.isnan(column)], size)
        for figure, column in zip(figures, np.transpose(draws), strict=True)
    ]


def _figures(scored: BestScores, removed: Flags, weights: Doubles) -> Doubles:
    """The figures for weights of queries [b, N], [b, 1 + len(COVERAGES)]; NaN if undefined."""
    highest = np.where(removed, scored.rest, scored.best)
    order = np.argsort(-highest, kind="stable")
    ends = np.flatnonzero(np.append(np.diff(np.unique(-highest, return_inverse=True)[1][order]), 1))
    # running sums from the highest score on, at the ends of ties: straight lines between them are means over their orders
    asked, right, whole = (
        np.pad(np.cumsum(weights[:, order] * column[order], axis=1)[:, ends], ((0, 0), (1, 0)))
        for column in (np.ones(len(order)), np.where(removed, 0.0, scored.credit), ~removed)
    )
    lacking = asked - whole
    area = ((whole[:, 1:] + whole[:, :-1]) / 2 * np.diff(lacking)).sum(axis=1)
    answered = asked[:, -1:] * np.array(COVERAGES)
    hits = np.array([np.interp(*curve) for curve in zip(answered, asked, right, strict=True)])
    with np.errstate(invalid="ignore"):
        return np.column_stack([area / (whole[:, -1] * lacking[:, -1]), hits / answered])

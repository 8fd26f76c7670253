"""Number of entailed pairs in each stratum and error rates of people, from several votes on each audited pair.

A stratum mixes entailed pairs, whose votes say no by error, and others, whose votes say yes by error. Assumption: people err
independently of each other and equally often on all pairs. Intervals are those of a profile likelihood over the error rates.
"""

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import binom, ndtri, stdtrit

from ctxr.metrics.proportions import LEVEL, zero_of_fall
from ctxr.metrics.votes import Codes, Doubles

GRID, ZOOMS, ROOTS = 11, 3, (1e-3, 0.5**0.5)
"""Grid over the roots of both error rates: points per rate, refinements around the best, and range."""


@dataclass(frozen=True, eq=False)
class PairVotes:
    """Votes on P audited pairs, tied ones too, [P] each: stratum (below S), votes cast, and how many of these say entailed."""

    strata: Codes
    cast: Codes
    yes: Codes


def likely_shares(votes: PairVotes, population: Doubles) -> tuple[Doubles, Doubles, Doubles] | None:
    """What strata of `population` [S] pairs hold under each of G pairs of error rates that fit the votes.

    Returns the rates, the chance that a vote says yes, and no, by error [G, 2]; how far limits under them count, 0..1 [G]; and the
    entailed share of all pairs, its variance, and what one more entailed pair of the sample adds to it [3, G, S], NaN without votes.
    None where no pair has two votes: nothing shows errors.
    """
    if not (votes.cast > 1).any():
        return None
    cast, yes = np.array([(cast, yes) for cast in np.unique(votes.cast) for yes in range(cast + 1)]).T
    asked, same = votes.cast[:, None] == cast, (votes.strata == np.arange(len(population))[:, None]).astype(float)
    looks, seen, judged = same @ asked, same @ (asked & (votes.yes[:, None] == yes)), np.maximum(same.sum(axis=1), 1)

    low, high = np.full((2, 2), ROOTS).T
    for _ in range(ZOOMS):
        steps = np.linspace(low, high, GRID)
        roots = np.stack(np.meshgrid(*steps.T, indexing="ij"), axis=-1).reshape(-1, 2)
        no, wrong = cast - yes, (roots**2)[:, :, None, None]
        entailed = binom(cast, yes) * wrong[:, 1] ** no * (1 - wrong[:, 1]) ** yes
        other = binom(cast, yes) * wrong[:, 0] ** yes * (1 - wrong[:, 0]) ** no
        edge, gain = np.full((len(roots), len(population)), 1e-9), entailed - other

        def slope(share: Doubles, gain: Doubles = gain, other: Doubles = other) -> Doubles:
            return np.asarray((seen * gain / (other + share[..., None] * gain)).sum(axis=-1))

        share = zero_of_fall(slope, edge, 1 - edge)
        fit = (seen * np.log(other + share[..., None] * gain)).sum(axis=(1, 2))
        misfit = (fit.max() - fit) / -math.log(1 - LEVEL)
        near = roots[misfit <= 1]
        low = np.maximum(near.min(axis=0) - steps[1] + steps[0], ROOTS[0])
        high = np.minimum(near.max(axis=0) + steps[1] - steps[0], ROOTS[1])

    def left(share: Doubles) -> Doubles:
        """The variance that the votes leave open, less what a census would."""
        known = (looks * gain**2 / (other + share[..., None] * gain)).sum(axis=-1)
        return np.asarray(1 / np.maximum(known, 1e-9) - share * (1 - share) / np.maximum(population, 1)).clip(1e-9)

    middle, sure = (share * judged + 2) / (judged + 4), np.clip(share, 1e-4, 1 - 1e-4)
    few = (stdtrit(np.maximum(judged - 1, 1), (1 + LEVEL) / 2) / ndtri((1 + LEVEL) / 2)) ** 2
    moments = [share, left(sure) * few, left(middle) / (middle * (1 - middle))]
    shares = np.where(looks.any(axis=1), np.stack(moments), np.nan)
    return near**2, np.sqrt(1 - misfit[misfit <= 1]), shares[:, misfit <= 1]

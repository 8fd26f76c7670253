"""How many pairs of each stratum are entailed, and how often people err, from several votes on each audited pair.

A stratum mixes entailed pairs, whose votes say no by error, and others, whose votes say yes by error; people err independently of each
other, equally often on all pairs. Rates of error that fit the votes less well reach less far, as in a profile likelihood.
"""

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import binom

from ctxr.metrics.proportions import LEVEL, share_limits, zero_of_fall
from ctxr.metrics.votes import Codes, Doubles

GRID, ZOOMS, ROOTS = 11, 3, (1e-3, 0.5**0.5)
"""Roots of the error rates: how many are tried at once, how often they close in on those that fit, and between which numbers."""


@dataclass(frozen=True, eq=False)
class PairVotes:
    """Votes on P audited pairs, tied ones too, [P] each: stratum (below S), votes cast, and how many of these say entailed."""

    strata: Codes
    cast: Codes
    yes: Codes


@dataclass(frozen=True, eq=False)
class Likely:
    """What S strata hold under each of G pairs of error rates that fit the votes.

    Attributes:
        errors: [G, 2] the chance that a single vote says yes, and no, by error. reach: [G] how far limits under these rates count,
            0..1. shares: [3, G, S] the entailed share of all pairs, and its limits; NaN without votes.
    """

    errors: Doubles
    reach: Doubles
    shares: Doubles


def likely_shares(votes: PairVotes, population: Doubles) -> Likely | None:
    """What strata of `population` [S] pairs hold. None where no pair has two votes: then nothing tells an error from the truth."""
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
        edge = np.full((len(roots), len(population)), 1e-9)
        gain = entailed - other

        def slope(share: Doubles, gain: Doubles = gain, other: Doubles = other) -> Doubles:
            return np.asarray((seen * gain / (other + share[..., None] * gain)).sum(axis=-1))

        share = zero_of_fall(slope, edge, 1 - edge)
        fit = (seen * np.log(other + share[..., None] * gain)).sum(axis=(1, 2))
        misfit = (fit.max() - fit) / -math.log(1 - LEVEL)
        near = roots[misfit <= 1]
        low = np.maximum(near.min(axis=0) - steps[1] + steps[0], ROOTS[0])
        high = np.minimum(near.max(axis=0) + steps[1] - steps[0], ROOTS[1])
    # as many looks without errors would say as much: what the votes leave open, less what a census would
    middle = (share * judged + 2) / (judged + 4)
    spread = middle * (1 - middle)
    inverse = (looks * gain**2 / (other + middle[..., None] * gain)).sum(axis=-1)
    with np.errstate(divide="ignore"):
        left = np.maximum(1 / inverse - spread / np.maximum(population, 1), 1e-9)
    limits = share_limits(share, spread / left, judged - 1)
    shares = np.where(looks.any(axis=1), np.stack([share, *limits]), np.nan)
    return Likely(near**2, np.sqrt(1 - misfit[misfit <= 1]), shares[:, misfit <= 1])

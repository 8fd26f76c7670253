"""Other coefficients of agreement beyond chance, for those who know them: Cohen's and Fleiss' kappa, Gwet's AC1.

All are (observed - chance) / (1 - chance); they differ in what they call chance. Where one value is much commoner than the
others, kappa falls although workers agree, and AC1 does not (Gwet 2008).
"""

from typing import Literal

import numpy as np

from ctxr.errors import DataError
from ctxr.metrics.agreement import NO_PAIR, NO_VARIATION, Agreement
from ctxr.metrics.differences import cells
from ctxr.metrics.votes import Doubles, Votes

Weights = Literal["linear", "quadratic"]


def cohen(votes: Votes, weights: Weights | None = None) -> Agreement:
    """Cohen's kappa of two workers, on the units that both judged; chance is that each keeps to his own habits (Cohen 1960).

    Args:
        votes: of exactly two workers.
        weights: how grave it is to be apart: by distance (`linear`) or its square (`quadratic`) between numbers; None: any
            difference is equally grave (Cohen 1968).

    Raises:
        DataError: another number of workers; words where numbers are needed; votes with repeats.

    >>> from ctxr.metrics.votes import gather
    >>> cohen(gather([1, 2, 3, 4] * 2, ["x"] * 4 + ["y"] * 4, [1, 1, 0, 0, 1, 0, 0, 0])).value
    0.5
    """
    crowd = np.unique(votes.once().workers)
    if len(crowd) != 2:
        raise DataError(f"Cohen's kappa compares two workers, and {len(crowd)} voted", "choose two, or ask for alpha")
    said = np.full((2, len(votes.unit_names)), -1)
    said[(votes.workers == crowd[1]).astype(int), votes.units] = votes.values
    both = said[:, (said >= 0).all(axis=0)]
    units, kinds = both.shape[1], len(votes.labels)
    if not units:
        return Agreement(None, 0, 0, NO_PAIR)
    one, other = (np.bincount(row, minlength=kinds) / units for row in both)
    if weights is None:
        observed, expected = float((both[0] != both[1]).mean()), float(1 - one @ other)
    else:
        numbers, power = votes.numbers(), 1 if weights == "linear" else 2
        observed = float((np.abs(numbers[both[0]] - numbers[both[1]]) ** power).mean())
        expected = float(one @ np.abs(numbers[:, None] - numbers) ** power @ other)
    if expected <= 1e-15:
        return Agreement(None, units, 2 * units, NO_VARIATION)
    return Agreement(1 - observed / expected, units, 2 * units)


def fleiss(votes: Votes) -> Agreement:
    """Fleiss' kappa; chance is that everybody draws from the shares of the values over all units (Fleiss 1971).

    Where units have different numbers of votes, each unit counts the same (Gwet 2014); units with one vote tell of the
    shares only.
    """
    observed, shares, units, count = _agreeing(votes)
    if not units:
        return Agreement(None, 0, 0, NO_PAIR)
    return _beyond(observed, float((shares * shares).sum()), units, count)


def gwet(votes: Votes, categories: int | None = None) -> Agreement:
    """Gwet's AC1; chance is that of agreeing by guessing where guessing is plausible (Gwet 2008).

    Args:
        votes: as for `fleiss`.
        categories: values that could have been given; without, those that were. Picking one of ten images: 10.

    >>> from ctxr.metrics.votes import gather
    >>> round(gwet(gather([1, 2, 3, 4] * 2, ["x"] * 4 + ["y"] * 4, [1, 1, 0, 0, 1, 0, 0, 0])).value, 4)
    0.5294
    """
    observed, shares, units, count = _agreeing(votes)
    if not units:
        return Agreement(None, 0, 0, NO_PAIR)
    kinds = int((shares > 0).sum()) if categories is None else categories
    if kinds < 2:
        return Agreement(None, units, count, NO_VARIATION)
    return _beyond(observed, float((shares * (1 - shares)).sum() / (kinds - 1)), units, count)


def _agreeing(votes: Votes) -> tuple[float, Doubles, int, int]:
    """Mean share of agreeing pairs, share of each value [V] (units count the same), units and votes with a pair."""
    size, kinds = len(votes.unit_names), len(votes.labels)
    cell, cell_units, cell_values = cells(votes.once().units, size, votes.values, kinds)
    given = np.bincount(cell, minlength=len(cell_units))
    sizes = np.bincount(votes.units, minlength=size)
    shares = np.bincount(cell_values, given / sizes[cell_units], kinds) / max(1, (sizes > 0).sum())
    many = sizes >= 2
    if not many.any():
        return 0.0, shares, 0, 0
    agreeing = np.bincount(cell_units, given * (given - 1), size)[many] / (sizes * (sizes - 1))[many]
    return float(agreeing.mean()), shares, int(many.sum()), int(sizes[many].sum())


def _beyond(observed: float, chance: float, units: int, votes: int) -> Agreement:
    if chance >= 1 - 1e-15:
        return Agreement(None, units, votes, NO_VARIATION)
    return Agreement((observed - chance) / (1 - chance), units, votes)

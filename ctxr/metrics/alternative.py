"""The alternative annotator test: may a judge stand in for people (Calderon et al., ACL 2025)?

Each person is left out once. On every item that others answered too, the judge and the person left out are compared by the share of
the others who agree with them. The judge may be worse by a cost ε, since it is cheaper than a person.
"""

from dataclasses import dataclass

import numpy as np
from scipy.special import stdtr

from ctxr.metrics.proportions import benjamini_yekutieli
from ctxr.metrics.votes import Codes, Doubles, Votes

LEVEL = 0.05
"""False discovery rate of the tests over people."""

WINNING = 0.5
"""Winning rate from which on a judge passes."""

FEW_ITEMS = 30
"""Items below which the test is Wilcoxon's."""

LEAST_PEOPLE = 2


@dataclass(frozen=True)
class Person:
    """A person left out, against the judge.

    Attributes:
        items: that others answered too. advantage: share of them on which the judge agrees with the others at least as often.
        p: that the judge is worse than the person by ε or more, of one test. rejected: whether that is refused after all corrections.
    """

    name: str
    items: int
    advantage: float
    p: float
    rejected: bool


@dataclass(frozen=True)
class Alternative:
    """The result of the test.

    Attributes:
        people: by name. alone: names of those who share no item with anybody.
        omega: winning rate: share of the people whose test is rejected. rho: mean advantage over people. Both None with fewer
            than two people.
        items: that at least two people answered.
    """

    people: tuple[Person, ...]
    alone: tuple[str, ...]
    omega: float | None
    rho: float | None
    items: int

    @property
    def passed(self) -> bool:
        """Whether the judge wins against at least half of the people."""
        return self.omega is not None and self.omega >= WINNING


def alternative_test(votes: Votes, verdicts: Codes, epsilon: float) -> Alternative:
    """Compare a judge with every person who is left out.

    Args:
        votes: of people. verdicts: [U] the label that the judge gives. epsilon: what it may be worse.

    >>> from ctxr.metrics.votes import gather
    >>> votes = gather([*range(6)] * 2, ["x"] * 6 + ["y"] * 6, [0, 1, 0, 1, 0, 1] * 2)
    >>> alternative_test(votes, np.array([0, 1, 0, 1, 0, 1]), 0.1).omega
    1.0
    """
    counts = np.zeros((len(votes.unit_names), len(votes.labels)), np.int64)
    np.add.at(counts, (votes.units, votes.values), 1)
    shared = counts.sum(axis=1)[votes.units] > 1
    as_judge = votes.labels[votes.values] == verdicts[votes.units]
    # how many of the others agree with the person, and with the judge
    with_person = counts[votes.units, votes.values] - 1
    with_judge = np.bincount(votes.units, as_judge)[votes.units] - as_judge
    difference = np.sign(with_person - with_judge)
    rows = {str(name): difference[shared & (votes.workers == code)] for code, name in enumerate(votes.worker_names)}
    tested = {name: row for name, row in rows.items() if len(row)}
    alone = tuple(name for name in rows if name not in tested)
    if len(tested) < LEAST_PEOPLE:
        return Alternative((), alone, None, None, 0)
    p_values = [inferiority(row.astype(np.float64), epsilon) for row in tested.values()]
    people = tuple(
        Person(name, len(row), float((row <= 0).mean()), p, adjusted <= LEVEL)
        for (name, row), p, adjusted in zip(tested.items(), p_values, benjamini_yekutieli(p_values), strict=True)
    )
    omega, rho = (float(np.mean([getattr(person, name) for person in people])) for name in ("rejected", "advantage"))
    return Alternative(people, alone, omega, rho, len(np.unique(votes.units[shared])))


def inferiority(differences: Doubles, epsilon: float) -> float:
    """One-sided p-value for the claim that differences [n] are `epsilon` or more on average: Student's test, Wilcoxon's of fewer than
    `FEW_ITEMS`."""
    if len(differences) < FEW_ITEMS:
        return signed_ranks(differences - epsilon)
    distance, spread = float(differences.mean() - epsilon), float(differences.std(ddof=1))
    if not spread:
        return float(distance >= 0)
    return float(stdtr(len(differences) - 1, distance / spread * np.sqrt(len(differences))))


def signed_ranks(values: Doubles) -> float:
    """Wilcoxon's exact one-sided p-value for the claim that values [n] lie around 0 or above; ties have their mean rank, zeros are left
    out.

    >>> signed_ranks(np.array([-1.0, -2.0, -3.0]))
    0.125
    """
    values = values[np.abs(values) > 1e-9]
    sizes = np.round(np.abs(values), 9)
    # twice the mean rank is a whole number
    below, upto = ((comparison(sizes[:, None], sizes)).sum(axis=1) for comparison in (np.greater, np.greater_equal))
    doubled = below + upto + 1
    chance = np.ones(1)
    for rank in doubled.tolist():
        chance = (np.pad(chance, (0, rank)) + np.pad(chance, (rank, 0))) / 2
    return float(chance[: int(doubled[values > 0].sum()) + 1].sum())

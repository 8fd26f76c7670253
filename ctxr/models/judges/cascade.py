"""Judges in order: each is asked only about the claims that those before it leave unsure."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ctxr.datasets.truth import UNSURE
from ctxr.metrics.votes import Codes, Doubles
from ctxr.models.entailment.base import Judge
from ctxr.store.hashing import sha256_of

# probabilities below which a claim is not entailed, from which it is; unsure in between
Limits = tuple[float, float]

DIGITS = 6  # decimal places of a probability
BETWEEN: Limits = (0.1, 0.9)  # limits of a judge that another one follows


@dataclass(frozen=True, eq=False)
class Verdicts:
    """Parallel columns [N].

    Attributes:
        values: 1 entailed, 0 not, -1 unsure. judges: index of the judge that decided. probabilities: its; NaN without an answer.
    """

    values: Codes
    probabilities: Doubles
    judges: Codes

    def part(self, rows: slice) -> "Verdicts":
        """The verdicts on a slice of the claims."""
        return Verdicts(self.values[rows], self.probabilities[rows], self.judges[rows])


class Cascade:
    """One judge, or several, with the limits of all but the last.

    Attributes:
        name: as outputs call it. threshold: the last judge's. toy: whether one of them is the toy.
        fingerprint: of the only judge; of several a hash over them and over the limits.
        trained_on: the union over the judges whose training data are known.
        unknown: judges whose training data are unknown, "" for none.
    """

    def __init__(self, judges: tuple[Judge, ...], limits: tuple[Limits, ...] = ()) -> None:
        self.judges, self.limits = judges, limits
        self.name = ", then ".join(one.name for one in judges)
        own = [one.fingerprint for one in judges]
        self.fingerprint = own[0] if len(own) == 1 else sha256_of([own, limits])
        self.threshold = judges[-1].threshold
        self.toy = any(one.toy for one in judges)
        self.trained_on = frozenset[str]().union(*(one.trained_on or () for one in judges))
        self.unknown = ", ".join(one.name for one in judges if one.trained_on is None)

    def decide(self, ask: Callable[[Judge, Codes], Doubles], count: int, last: Limits) -> Verdicts:
        """The verdicts on `count` claims. `ask` gives a judge's probabilities of some; `last`: the last limits.

        Probabilities and limits are rounded as in the ledger, so a limit read from it gives the same verdicts.
        """
        verdicts = Verdicts(np.full(count, int(UNSURE)), np.full(count, np.nan), np.zeros(count, np.int64))
        left = np.arange(count)
        for index, (judge, limits) in enumerate(zip(self.judges, (*self.limits, last), strict=True)):
            probability, (low, high) = np.round(ask(judge, left).astype(np.float64), DIGITS), np.round(limits, DIGITS)
            verdicts.judges[left], verdicts.probabilities[left] = index, probability
            verdicts.values[left] = np.where(probability >= high, 1, np.where(probability < low, 0, int(UNSURE)))
            left = left[verdicts.values[left] == UNSURE]
        return verdicts

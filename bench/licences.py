"""How right are the judges that an audit licenses, when a judge copies one of the people who audit it, or errs as often as that person?

python -m bench.licences [rounds]
"""

import sys
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import product

import numpy as np

from ctxr.pipelines.revision.config import ReviseLabels
from ctxr.pipelines.revision.licence import PRECISION
from scripts.licence_proof import PEOPLE, PICTURES, RANKS, THRESHOLD, Drawn, audited, precision, round_of, said

PREVALENCES, ERRORS, COPIES = (0.05, 0.1, 0.2, 0.35, 0.5), (0.05, 0.1, 0.3), (True, False)
PAIRS, ROUNDS = 200, 100


@dataclass(frozen=True)
class Case:
    """A share of candidates that hold, how often one person errs, and whether the judge copies that person."""

    prevalence: float
    error: float
    copies: bool

    def draw(self, rng: np.random.Generator) -> Drawn:
        """A round whose captions hold less often behind the first, with a judge that says yes from `THRESHOLD` on and knows no more;
        the other people err in 5 to 10 %."""
        share = np.exp(-np.arange(RANKS) / 12) * rng.uniform(0.6, 1.4, (PICTURES, 1))
        holds = (rng.random(share.shape) < share * self.prevalence / share.mean()).ravel()
        errors = np.array([self.error, *rng.uniform(0.05, 0.1, PEOPLE - 1)])
        votes = said(holds, errors, rng)
        yes = votes[:, 0] if self.copies else said(holds, errors[:1], rng)[:, 0]
        return round_of(holds, np.where(yes, THRESHOLD, 0) + rng.random(len(yes)) / 2, votes)


@dataclass(frozen=True)
class Outcome:
    """Of the rounds of a case: the share that is right of what the judge calls entailed, and of what each licensed one adds."""

    right: float
    licensed: tuple[float, ...]


def outcome(case: Case, rounds: int) -> Outcome:
    """Audit so many rounds of a case, by `PAIRS` pairs each."""
    right, licensed = [], []
    for seed in range(rounds):
        rng = np.random.default_rng((seed, round(100 * case.prevalence), round(100 * case.error)))
        world = case.draw(rng)
        right.append(precision(world, THRESHOLD))
        licence, _ = audited(ReviseLabels(), world, PAIRS, rng)
        if licence.passed and licence.threshold is not None:
            licensed.append(precision(world, licence.threshold))
    return Outcome(float(np.mean(right)), tuple(licensed))


def lines(rounds: int) -> Iterator[str]:
    """A row of a table for each case."""
    yield f"| judge | hold among candidates | errors | right of its calls | licensed % | right of what these add | below {PRECISION} |"
    yield "| --- | --- | --- | --- | --- | --- | --- |"
    cases = [Case(*one) for one in product(PREVALENCES, ERRORS, COPIES)]
    with ProcessPoolExecutor(2) as pool:
        for case, found in zip(cases, pool.map(partial(outcome, rounds=rounds), cases), strict=True):
            name = "copies a person" if case.copies else "errs as often"
            mean = f"{np.mean(found.licensed):.2f}" if found.licensed else "–"
            below = sum(one < PRECISION for one in found.licensed)
            share = f"{100 * len(found.licensed) / rounds:.0f}"
            yield f"| {name} | {case.prevalence:.0%} | {case.error:.0%} | {found.right:.2f} | {share} | {mean} | {below} |"


if __name__ == "__main__":
    for line in lines(int(sys.argv[1]) if len(sys.argv) > 1 else ROUNDS):
        print(line, flush=True)

"""False alarms of `ctxr shortcuts` on benchmarks without a shortcut: learning a position from earlier sets, and leaving out one.

python -m bench shortcuts
"""

import time
from collections import Counter
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from bench.table import Row
from ctxr.metrics.shortcuts import (
    Trial,
    Verdict,
    corrected,
    extreme_credits,
    judge_rule,
    learnt_credits,
    position_credits,
)

LIMIT = 0.025
Learn = Callable[[list[Trial]], NDArray[np.float64]]


def measure(rounds: int = 1000) -> list[Row]:
    """How often a rule's own test is below 2.5 %, and how often a dataset of 50 sets has any rule flagged after Holm."""
    rows = []
    for name, learn, limit in (
        ("position learnt from the sets before", lambda asked: learnt_credits(asked, by_length=False), LIMIT),
        ("position learnt from all other sets", leave_one_out, None),
    ):
        start = time.perf_counter()
        alone, anywhere = false_alarms(learn, rounds)
        met = None if limit is None else alone <= limit and anywhere <= limit
        note = f"{alone:.2%} of its tests below {LIMIT:.1%}; any of five rules flagged in {anywhere:.2%} of {rounds:,} datasets"
        target = "" if limit is None else "both <= 2.5 %"
        rows.append(Row(name, time.perf_counter() - start, target=target, met=met, note=note))
    return rows


def false_alarms(learn: Learn, rounds: int) -> tuple[float, float]:
    """Share of datasets where the learnt rule alone is below the limit, and where any rule is flagged after correction."""
    rng = np.random.default_rng(99)
    found: Counter[str] = Counter()
    for _ in range(rounds):
        asked = draw(rng)
        values = {query.image_set: rng.integers(0, 12, 10).astype(float) for query in asked}
        credits = {
            "learnt": learn(asked),
            "first": position_credits(asked, last=False),
            "last": position_credits(asked, last=True),
            "least": extreme_credits(asked, values, largest=False),
            "most": extreme_credits(asked, values, largest=True),
        }
        made: list[Verdict] = corrected(
            [one for rule, each in credits.items() if (one := judge_rule(rule, "all", asked, each)) is not None]
        )
        found["alone"] += any(one.rule == "learnt" and one.p_value < LIMIT for one in made)
        found["anywhere"] += any(one.flagged for one in made)
    return found["alone"] / rounds, found["anywhere"] / rounds


def draw(rng: np.random.Generator, sets: int = 50) -> list[Trial]:
    """Sets of ten with one to three different targets each, all positions equally likely."""
    return [
        Trial(str(number), "video", None, 10, int(target), 20)
        for number in range(sets)
        for target in rng.choice(10, int(rng.integers(1, 4)), replace=False)
    ]


def leave_one_out(asked: list[Trial]) -> NDArray[np.float64]:
    """Credits [Q] of the position that is commonest in all sets but the query's own."""
    counts = np.zeros(10)
    own: dict[str, NDArray[np.float64]] = {}
    for query in asked:
        counts[query.target] += 1
        own.setdefault(query.image_set, np.zeros(10))[query.target] += 1
    left = [counts - own[query.image_set] for query in asked]
    best = [one == one.max() for one in left]
    return np.array([chosen[query.target] / chosen.sum() for query, chosen in zip(asked, best, strict=True)])

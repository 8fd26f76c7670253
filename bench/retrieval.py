"""Retrieval of 100,000 against 100,000 block by block, and how often corrected shares of entailed pairs hold the truth.

python -m bench retrieval
"""

import resource
import time

import numpy as np

from bench.__main__ import show
from bench.table import Row
from ctxr.metrics.retrieval import Vectors, from_pairs, retrieved, top
from ctxr.metrics.stratified import Stratum, rates, rogan_gladen

SIZE, WIDTH, ASKED = 100_000, 64, 2000
CLUSTERS, PAIRS, POOL, AUDITED = 50, 10, 2000, 200
SHARE, SENSITIVITY, FALSE_ALARMS = 0.3, 0.8, 0.1


def measure(studies: int = 400) -> list[Row]:
    """Seconds for 2,000 of 100,000 queries, with the memory held, and the coverage of intervals of 95 %."""
    rng = np.random.default_rng(0)
    queries, candidates = (rng.standard_normal((SIZE, WIDTH)).astype(np.float32) for _ in range(2))
    right = from_pairs(np.repeat(np.arange(ASKED), 3), rng.integers(0, SIZE, 3 * ASKED))
    start = time.perf_counter()
    retrieved(Vectors(queries, candidates), right)
    figures = time.perf_counter() - start
    start = time.perf_counter()
    for _ in top(Vectors(queries[:ASKED], candidates), 30):
        pass
    best = time.perf_counter() - start
    held = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
    start = time.perf_counter()
    covered = np.mean([study(rng) for _ in range(studies)])
    note = f"intervals of 95 % hold the truth in {covered:.1%} (Rogan and Gladen)"
    return [
        Row(
            f"every figure, {ASKED:,} x {SIZE:,}",
            figures,
            note=f"all of them: {figures * SIZE / ASKED / 60:.1f} minutes",
        ),
        Row(f"best 30, {ASKED:,} x {SIZE:,}", best, note=f"at most {held} MiB held"),
        Row(f"{studies} studies corrected", time.perf_counter() - start, note=note),
    ]


def study(rng: np.random.Generator, draws: int = 400) -> bool:
    """A drawn study of pictures with ten pairs each: whether the interval of the corrected share holds the true one.

    The audit is of another pool: a hundred pairs that were called entailed and a hundred that were not.
    """
    truth = rng.random((CLUSTERS, PAIRS)) < rng.beta(10 * SHARE, 10 * (1 - SHARE), CLUSTERS)[:, None]
    hits, trials = said(rng, truth).sum(axis=1).astype(np.float64), np.full(CLUSTERS, PAIRS)
    other = rng.random(POOL) < SHARE
    called = said(rng, other)
    parts = []
    for answer in (True, False):
        held = np.flatnonzero(called == answer)
        looked = rng.choice(held, AUDITED // 2, replace=False)
        parts.append(Stratum(len(held), len(looked), int(other[looked].sum()), answer))
    errs = rates(parts, rng, draws)
    found = None if errs is None else rogan_gladen(hits, trials, errs, rng)
    return found is not None and found.low is not None and found.high is not None and found.low <= SHARE <= found.high


def said(rng: np.random.Generator, truth: np.ndarray) -> np.ndarray:
    """What the classifier calls entailed."""
    return np.where(truth, rng.random(truth.shape) < SENSITIVITY, rng.random(truth.shape) < FALSE_ALARMS)


if __name__ == "__main__":
    show("retrieval", measure())

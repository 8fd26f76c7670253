"""How often intervals of Entail@K, corrected stratum by stratum, hold the truth of a gallery whose best captions hold most often.

python -m bench.poststratified
"""

from dataclasses import dataclass

import numpy as np

from ctxr.metrics.compare import Clusters
from ctxr.metrics.poststratified import Known, Sampled, entailed_share, known_at
from ctxr.metrics.stratified import allocate
from ctxr.metrics.votes import Codes, Doubles, Flags

MINED, GIVEN = 30, 2
BANDS = (0.1, 0.5, 0.9)
CUT = 10


@dataclass(frozen=True, eq=False)
class World:
    """Pictures with their mined captions by rank, [I, 30]: whether each holds, how probable the classifier calls it; and the rank
    [I, 2] of the captions that were given."""

    holds: Flags
    probability: Doubles
    given: Codes

    def written(self, k: int) -> Doubles:
        """Given captions among the first k, [I]."""
        return np.asarray((self.given < k).sum(axis=1), np.float64)

    def first(self, k: int) -> Flags:
        """Which mined captions are among the first k, [I, 30]."""
        return np.arange(MINED) < k - self.written(k)[:, None]

    def entailed(self, k: int) -> Doubles:
        """Captions that hold among the first k, [I]."""
        return np.asarray(self.written(k) + (self.first(k) & self.holds).sum(axis=1), np.float64)

    def known(self, k: int, looks: int, rng: np.random.Generator) -> Known:
        """What an audit of so many looks says of the first k."""
        images, ranks = (one.ravel() for one in np.indices(self.holds.shape))
        band = np.searchsorted(BANDS, self.probability.ravel(), side="right")
        strata = np.unique(2 * band + (ranks >= CUT), return_inverse=True)[1].ravel()
        sizes = np.bincount(strata)
        drawn = np.concatenate(
            [
                rng.choice(np.flatnonzero(strata == one), count, replace=False)
                for one, count in enumerate(allocate(sizes.tolist(), looks))
            ]
        )
        said = np.full(len(strata), -1)
        said[drawn] = self.holds.ravel()[drawn]
        seen, yes = np.bincount(strata[drawn]), np.bincount(strata[drawn], said[drawn])
        sampled = Sampled(images, ranks, strata, said, said >= 0, np.stack([seen, yes], axis=1).astype(np.float64))
        return known_at(sampled, self.first(k).ravel().astype(np.float64), len(self.holds))


def world(rng: np.random.Generator, pictures: int = 200) -> World:
    """Captions hold the more often the better they rank; the classifier finds 60 % of them, and calls 5 % of the others."""
    share = np.clip(0.85 * np.exp(-np.arange(MINED) / 8) * rng.uniform(0.4, 1.6, (pictures, 1)), 0, 1)
    holds = rng.random((pictures, MINED)) < share
    called = rng.random(holds.shape) < np.where(holds, 0.6, 0.05)
    probability = np.where(called, 0.5, 0.0) + 0.5 * rng.random(holds.shape)
    return World(holds, probability, np.sort(rng.integers(0, 8, (pictures, GIVEN)), axis=1))


def studies(count: int = 400, looks: int = 200) -> dict[str, tuple[float, float, float]]:
    """By figure: the mean error, the share of intervals that hold the Entail@K of endlessly many such pictures, their width."""
    rng = np.random.default_rng(0)
    many = world(rng, 200_000)
    found = {}
    for k in (10, 30):
        truth = float(many.entailed(k).mean() / k)
        rows = []
        for _ in range(count):
            one = world(rng)
            clusters = Clusters(np.arange(len(one.holds)), rng, 400)
            told = entailed_share(one.written(k), one.known(k, looks, rng), k, clusters, rng)
            if told.value is not None and told.low is not None and told.high is not None:
                rows.append((told.value - truth, told.low <= truth <= told.high, told.high - told.low))
        error, covered, width = np.array(rows, np.float64).mean(axis=0).tolist()
        found[f"E@{k}"] = (error, covered, width)
    return found


if __name__ == "__main__":
    for name, (error, covered, width) in studies().items():
        told = f"{covered:.1%} of intervals of 95 % hold the truth, width {100 * width:.1f} points"
        print(f"{name}: mean error {100 * error:+.2f} points, {told}")

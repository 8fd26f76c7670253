"""How often intervals of an audit by strata hold the truth of a gallery whose best captions hold most often: Entail@K, precision,
recall; and how often those that allow for people's errors do, with how many answers fewer than by simple random sampling.

python -m bench.poststratified
python -m bench.poststratified votes [studies]
"""

import sys
from collections.abc import Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from itertools import product

import numpy as np
from scipy.special import betainccinv, betaincinv, expit, logit

from ctxr.metrics.compare import Clusters, Interval
from ctxr.metrics.stratified import (
    AuditedPairs,
    PairVotes,
    Reliability,
    SampledPairs,
    Stratum,
    allocate,
    audited_pairs,
    entailed_share,
    reliability,
)
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

    def known(self, k: int, looks: int, rng: np.random.Generator) -> AuditedPairs:
        """What an audit of so many looks says of the first k."""
        images, ranks = (one.ravel() for one in np.indices(self.holds.shape))
        strata, drawn = self.drawn(looks, rng)
        said = np.full(len(strata), -1)
        said[drawn] = self.holds.ravel()[drawn]
        seen, yes = np.bincount(strata[drawn]), np.bincount(strata[drawn], said[drawn])
        sampled = SampledPairs(images, ranks, strata, said, said >= 0, np.stack([seen, yes], axis=1).astype(np.float64))
        return audited_pairs(sampled, self.first(k).ravel().astype(np.float64), len(self.holds))

    def drawn(self, looks: int, rng: np.random.Generator) -> tuple[Codes, Codes]:
        """The stratum of each pair, by band and rank, and the pairs that people look at."""
        ranks = np.indices(self.holds.shape)[1].ravel()
        band = np.searchsorted(BANDS, self.probability.ravel(), side="right")
        strata = np.unique(2 * band + (ranks >= CUT), return_inverse=True)[1].ravel()
        counts = allocate(np.bincount(strata).tolist(), looks)
        held = (rng.choice(np.flatnonzero(strata == one), count, replace=False) for one, count in enumerate(counts))
        return strata, np.concatenate(list(held))

    def audit(self, looks: int, rng: np.random.Generator, errors: float = 0.0) -> tuple[Reliability, dict[str, float]]:
        """What so many looks, a share of which err, say of the classifier, whose calls begin at 0.5, and what is so."""
        strata, drawn = self.drawn(looks, rng)
        holds, called = self.holds.ravel(), self.probability.ravel() >= 0.5
        said = holds ^ (rng.random(len(holds)) < errors) if errors else holds
        parts = []
        for held in (strata == one for one in range(strata.max() + 1)):
            population, sampled, positive = (int(one.sum()) for one in (held, held[drawn], held[drawn] & said[drawn]))
            parts.append(Stratum(population, sampled, positive, bool(called[held][0])))
        true = float((called & holds).sum())
        return reliability(parts), {"precision": true / called.sum(), "recall": true / holds.sum()}


@dataclass(frozen=True)
class Kind:
    """How often the best caption holds, and how many of those that hold and of the others the classifier calls so, 0..1."""

    share: float = 0.85
    found: float = 0.6
    wrong: float = 0.05


KINDS = {
    "many hold": Kind(),
    "many hold, a better classifier": Kind(found=0.9, wrong=0.01),
    "few hold": Kind(0.2),
    "few hold, a better classifier": Kind(0.2, 0.9, 0.01),
}


def world(rng: np.random.Generator, pictures: int = 200, kind: Kind = KINDS["many hold"]) -> World:
    """Captions hold the more often the better they rank, and more of some pictures than of others."""
    share = np.clip(kind.share * np.exp(-np.arange(MINED) / 8) * rng.uniform(0.4, 1.6, (pictures, 1)), 0, 1)
    holds = rng.random((pictures, MINED)) < share
    called = rng.random(holds.shape) < np.where(holds, kind.found, kind.wrong)
    probability = np.where(called, 0.5, 0.0) + 0.5 * rng.random(holds.shape)
    return World(holds, probability, np.sort(rng.integers(0, 8, (pictures, GIVEN)), axis=1))


@dataclass(frozen=True)
class Covered:
    """Mean error of the figure; shares of studies in which the truth lies below and above the interval; its mean width; all 0..1."""

    error: float
    below: float
    above: float
    width: float

    def told(self) -> str:
        """In words, percent and points."""
        return (
            f"mean error {100 * self.error:+.2f} points, {1 - self.below - self.above:.1%} of intervals of 95 % hold the truth "
            f"(below it lies {self.below:.1%}, above {self.above:.1%}), width {100 * self.width:.1f} points"
        )


def studies(kind: Kind, looks: int, count: int = 400) -> dict[str, Covered]:
    """By figure: how intervals fare against the Entail@K of endlessly many such pictures."""
    rng = np.random.default_rng(0)
    many = world(rng, 50_000, kind)
    truths = {k: float(many.entailed(k).mean() / k) for k in (10, 30)}
    rows: dict[int, list[tuple[float, bool, bool, float]]] = {k: [] for k in truths}
    for _ in range(count):
        one = world(rng, kind=kind)
        clusters = Clusters(np.arange(len(one.holds)), rng, 400)
        for k, truth in truths.items():
            told = entailed_share(one.written(k), one.known(k, looks, rng), k, clusters)
            if told.value is not None and told.low is not None and told.high is not None:
                rows[k].append((told.value - truth, truth < told.low, truth > told.high, told.high - told.low))
    return {f"E@{k}": Covered(*np.array(held, np.float64).mean(axis=0).tolist()) for k, held in rows.items()}


def audits(kind: Kind, looks: int, count: int = 400, errors: float = 0.0) -> dict[str, Covered]:
    """By figure: how intervals of precision and recall fare against those of the very pairs that were sampled, where people err."""
    rng = np.random.default_rng(1)
    rows: dict[str, list[tuple[float, bool, bool, float]]] = {"precision": [], "recall": []}
    for _ in range(count):
        found, truths = world(rng, kind=kind).audit(looks, rng, errors)
        for name, truth in truths.items():
            told = found.precision if name == "precision" else found.recall
            if told.value is not None and told.low is not None and told.high is not None:
                rows[name].append((told.value - truth, truth < told.low, truth > told.high, told.high - told.low))
    return {name: Covered(*np.array(held, np.float64).mean(axis=0).tolist()) for name, held in rows.items()}


@dataclass(frozen=True)
class Judge:
    """Evidence of a pair is normal, `apart` deviations apart for entailed pairs and others; `sharp` multiplies the log odds of the
    probability made of it, which is calibrated at 1 with `fair` and takes half of all pairs for entailed without."""

    apart: float
    sharp: float = 1.0
    fair: bool = True


JUDGES = {"good": Judge(4), "mediocre": Judge(2), "miscalibrated": Judge(3, 2.0, fair=False)}
PREVALENCES = (0.05, 0.1, 0.2, 0.4)
ERRORS = ((0.0, 0.0), (0.02, 0.02), (0.05, 0.05), (0.1, 0.1), (0.02, 0.1), (0.1, 0.02))
"""The chance of a vote to say yes of a pair that is not entailed, and no of one that is."""

FIGURES = ("precision", "recall", "entailed")


def judged(judge: Judge, prevalence: float, rng: np.random.Generator, pictures: int = 200) -> World:
    """Candidates of which a share holds, and what the judge says of them."""
    holds = rng.random((pictures, MINED)) < prevalence
    evidence = judge.apart * (rng.normal(size=holds.shape) + judge.apart * np.where(holds, 0.5, -0.5))
    probability = expit(judge.sharp * (evidence + (logit(prevalence) if judge.fair else 0.0)))
    return World(holds, probability, np.full((pictures, GIVEN), MINED))


def voted(
    one: World, strata: Codes, drawn: Codes, errors: tuple[float, float], rng: np.random.Generator
) -> tuple[Reliability, Reliability]:
    """Three votes on each pair of an audit: their majority taken as right, and allowing for errors."""
    holds, called = one.holds.ravel(), one.probability.ravel() >= 0.5
    yes = rng.binomial(3, np.where(holds[drawn], 1 - errors[1], errors[0]))
    parts = []
    for stratum in range(strata.max() + 1):
        held, inside = strata == stratum, strata[drawn] == stratum
        parts.append(Stratum(int(held.sum()), int(inside.sum()), int((yes[inside] > 1).sum()), bool(called[held][0])))
    return reliability(parts), reliability(parts, PairVotes(strata[drawn], np.full(len(drawn), 3), yes))


def simple(one: World, figure: str, width: float, rng: np.random.Generator, draws: int = 300) -> int:
    """The least simple random sample, answered without an error, whose exact interval of a figure is as narrow on average, the pool being
    finite."""
    holds, called = one.holds.ravel(), one.probability.ravel() >= 0.5
    order = np.argsort(rng.random((draws, len(holds))).astype(np.float32), axis=1)
    trial = {"precision": called, "recall": holds, "entailed": np.ones_like(holds)}[figure]
    hit = holds if figure == "entailed" else holds & called
    trials, hits = (np.cumsum(column[order], axis=1) for column in (trial, hit))

    def narrow(size: int) -> bool:
        of, count = trials[:, size - 1], hits[:, size - 1]
        low = np.where(count > 0, betaincinv(np.maximum(count, 1), of - count + 1, 0.025), 0.0)
        high = np.where(count < of, betainccinv(count + 1, np.maximum(of - count, 1), 0.025), 1.0)
        return float((high - low).mean() * np.sqrt(1 - size / len(holds))) <= width

    least, most = 0, len(holds)
    while most - least > 1:
        middle = (least + most) // 2
        least, most = (least, middle) if narrow(middle) else (middle, most)
    return most


def width_of(told: Reliability, figure: str) -> float:
    """How wide the interval of a figure is, as a share; 1 without one."""
    interval: Interval = getattr(told, figure)
    if interval.low is None or interval.high is None:
        return 1.0
    return (interval.high - interval.low) / (told.pairs if figure == "entailed" else 1)


SIZES = (75, 110, 160, 240, 350, 520, 770, 1150, 1700, 2600)


def erring(name: str, prevalence: float, errors: tuple[float, float], draws: int = 40) -> dict[str, Doubles]:
    """By figure: the mean width, allowing for errors, from simple random samples of `SIZES` on which people err as often, with three
    votes a pair too; the judge's calls divide the sample afterwards."""
    rng, widths = np.random.default_rng(3), np.ones((draws, len(SIZES), len(FIGURES)))
    for draw in range(draws):
        one = judged(JUDGES[name], prevalence, rng)
        for place, size in enumerate(SIZES):
            drawn = rng.choice(one.holds.size, size, replace=False)
            told = voted(one, (one.probability.ravel() >= 0.5).astype(int), drawn, errors, rng)[1]
            widths[draw, place] = [width_of(told, figure) for figure in FIGURES]
    return dict(zip(FIGURES, widths.mean(axis=0).T, strict=True))


def voted_studies(
    name: str, prevalence: float, errors: tuple[float, float], count: int = 1000, looks: int = 200, *, seed: int = 2
) -> dict[str, tuple[float, float, float]]:
    """By figure: shares of studies whose interval holds the truth, taking the majority as right and allowing for errors; and the mean
    width of the latter."""
    rng = np.random.default_rng(seed)
    rows: dict[str, list[tuple[bool, bool, float]]] = {figure: [] for figure in FIGURES}
    for _ in range(count):
        one = judged(JUDGES[name], prevalence, rng)
        called = one.probability >= 0.5
        true = (called & one.holds).sum()
        truths = (true / called.sum(), true / one.holds.sum(), one.holds.sum())
        plain, corrected = voted(one, *one.drawn(looks, rng), errors, rng)
        for figure, truth in zip(FIGURES, truths, strict=True):
            ends = [getattr(told, figure) for told in (plain, corrected)]
            held = [told.low - 1e-9 <= truth <= told.high + 1e-9 for told in ends]
            rows[figure].append((held[0], held[1], width_of(corrected, figure)))
    return {figure: tuple(np.array(held, np.float64).mean(axis=0).tolist()) for figure, held in rows.items()}


def samples(
    name: str, prevalence: float, errors: tuple[float, float], widths: Mapping[str, float]
) -> dict[str, tuple[float, float]]:
    """By figure: the simple random samples that give these widths, where people never err, and where they err as often."""
    rng, others = np.random.default_rng(4), erring(name, prevalence, errors)
    one = judged(JUDGES[name], prevalence, rng)
    return {
        figure: (
            float(simple(one, figure, width, rng)),
            float(np.exp(np.interp(-np.log(width), -np.log(others[figure]), np.log(SIZES)))),
        )
        for figure, width in widths.items()
    }


def rows_of(scenario: tuple[str, float, tuple[float, float], int]) -> Iterator[str]:
    """The table of one scenario, a row per figure."""
    name, prevalence, (yes, no), count = scenario
    studies = voted_studies(name, prevalence, (yes, no), count)
    sizes = samples(name, prevalence, (yes, no), {figure: width for figure, (_, _, width) in studies.items()})
    for figure, (plain, told, width) in studies.items():
        yield (
            f"{name:13} {prevalence:5.0%} {yes:5.0%} {no:5.0%} {figure:9} {plain:7.1%} {told:7.1%} {100 * width:6.1f}"
            + "".join(f" {size:5.0f} {1 - 200 / size:6.0%}" for size in sizes[figure])
        )


def table(scenario: tuple[str, float, tuple[float, float], int]) -> str:
    """The rows of a scenario."""
    return "\n".join(rows_of(scenario))


def votes(count: int) -> None:
    """Print coverage by majority and allowing for errors, and answers saved, of 200 pairs with three votes each."""
    print(
        "judge         holds  yes*  no*   figure    majority corr.  width right  saved  errs  saved   (* share of votes that err)"
    )
    scenarios = [(*scenario, count) for scenario in product(JUDGES, PREVALENCES, ERRORS)]
    with ProcessPoolExecutor(2) as pool:
        for text in pool.map(table, scenarios):
            print(text, flush=True)


def main() -> None:
    """Print how the intervals of audits without errors fare."""
    for name, kind in KINDS.items():
        for looks in (100, 200, 600):
            for figure, covered in (studies(kind, looks) | audits(kind, looks)).items():
                print(f"{name}, {looks} looks, {figure}: {covered.told()}")
        for errors in (0.02, 0.05):
            for figure, covered in audits(kind, 200, errors=errors).items():
                print(f"{name}, 200 looks, {errors:.0%} of them wrong, {figure}: {covered.told()}")


if __name__ == "__main__":
    if sys.argv[1:2] == ["votes"]:
        votes(int(sys.argv[2]) if len(sys.argv) > 2 else 1000)
    else:
        main()

"""Whether votes that go where they decide something give the same intervals for fewer votes: all votes, the published protocol, fewer
votes for everybody, and routed votes, on simulated studies of 600 descriptions and 40 people, of four kinds, separated by slashes.

python -m bench.routing [studies]

Whether a unit goes on after a vote is a chance, which depends on its votes so far and on how many of the other first votes on its set
are wrong. `designed` finds the unbiased figures of least variance, whatever units are like, and `fewest` the chances, knowing how units
of that kind are distributed, which a real rule must learn. Widths are 3.92 deviations over studies, in points; those by ctxr are means
of the intervals of 60 studies. Biases are differences from all votes, in thousandths; decisions are those of all votes, in percent.
"""

import sys
from concurrent.futures import ProcessPoolExecutor
from typing import NamedTuple

import numpy as np
from scipy.optimize import minimize

from ctxr.metrics.agreement import alpha, by_units
from ctxr.metrics.votes import Codes, Doubles, Flags, Votes, gather
from ctxr.metrics.workers import decision_on, human_accuracy

SETS, IMAGES, EACH, MOST, CROWD = 200, 10, 3, 3, 40
UNITS = SETS * EACH
FULL_SHARE, GOLD_EVERY, SAVED, LEAST, DRAWN = 0.1, 10, 0.3, 0.02, 60
TUNING, REPORTING = 1, 2
"""Seeds."""


class Kind(NamedTuple):
    """Beta parameters of the ease of sets; the share of bad workers, who look at three units of ten and guess the others; whether careless
    workers come first."""

    easy: float
    hard: float
    bad: float = 0.0
    early: bool = False


KINDS = {
    "good people": Kind(9, 0.6),
    "one bad in five": Kind(9, 0.6, 0.2),
    "hard sets": Kind(3, 1.1),
    "one bad in five, who come early": Kind(9, 0.6, 0.2, early=True),
}


class Types(NamedTuple):
    """Of units: the chance of a right pick, and that two and three wrong ones are one image, by workers drawn at random, [U] each."""

    right: Doubles
    two: Doubles
    three: Doubles


class Study(NamedTuple):
    """Picks and workers [U, 3] of all votes that could be given, as images 0..9, of which 0 is the target; what those who look pick
    [U, 10]; how often each worker looks [W]; the types of units."""

    picks: Codes
    workers: Codes
    looking: Doubles
    care: Doubles
    types: Types


def picked(looking: Doubles, care: Doubles, rng: np.random.Generator) -> Codes:
    """What workers with this care [U, M] pick."""
    chance = care[:, :, None] * looking[:, None] + (1 - care)[:, :, None] / IMAGES
    return np.asarray((rng.random((*care.shape, 1)) > np.cumsum(chance, axis=2)).sum(axis=2).clip(max=IMAGES - 1))


def study(kind: Kind, rng: np.random.Generator) -> Study:
    """One study: nine people judge a set, three each of its descriptions; some people do far more than others. Wrong picks of those who
    look are mostly one or two neighbours of the target."""
    ease = np.clip(rng.beta(kind.easy, kind.hard, (SETS, 1)), 0.02, 0.98)
    found = rng.beta(6 * ease, 6 * (1 - ease), (SETS, EACH)).reshape(UNITS)
    shares = np.full((UNITS, IMAGES - 1), 0.1 / (IMAGES - 3))
    shares[:, 0] = rng.uniform(0.5, 0.9, UNITS)
    shares[:, 1] = 0.9 - shares[:, 0]
    looking = np.concatenate([found[:, None], (1 - found)[:, None] * shares], axis=1)
    care = np.where(rng.random(CROWD) < kind.bad, 0.3, rng.beta(30, 1.5, CROWD))
    eager = rng.normal(0, 0.7, CROWD) + rng.gumbel(size=(SETS, CROWD))
    people = rng.permuted(np.argsort(-eager, axis=1)[:, : EACH * MOST], axis=1).reshape(UNITS, MOST)
    if kind.early:
        people = np.take_along_axis(people, np.argsort(care[people] + rng.normal(0, 0.3, people.shape), axis=1), axis=1)
    mean = kind.bad * 0.3 + (1 - kind.bad) * 30 / 31.5
    crowd = mean * looking + (1 - mean) / IMAGES
    wrong = crowd[:, 1:] / crowd[:, 1:].sum(axis=1, keepdims=True)
    types = Types(crowd[:, 0], (wrong**2).sum(axis=1), (wrong**3).sum(axis=1))
    return Study(picked(looking, care[people], rng), people, looking, care, types)


ENDS = (
    (1, 0, 0), (0, 1, 1), (2, 0, 0), (1, 1, 1), (0, 2, 1), (0, 2, 2), (3, 0, 0), (2, 1, 1), (1, 2, 1), (1, 2, 2), (0, 3, 1), (0, 3, 2),
    (0, 3, 3),
)  # fmt: skip
"""What a unit can end with: right votes, wrong votes, images that were picked wrongly."""


def likelihood(types: Types, go: Doubles) -> Doubles:
    """The chance of each end [U, 13] under the chances of a further vote `go` [6] after: right; wrong; two right; one of each; two wrong,
    of one image; two wrong, of two images."""
    p, two, three = types
    q, (r, w, rr, rw, same, apart) = 1 - p, go
    split, mixed = two - three, (r + w) * rw
    return np.stack(
        [
            p * (1 - r), q * (1 - w), p * p * r * (1 - rr), p * q * (r + w) * (1 - rw),
            q * q * two * w * (1 - same), q * q * (1 - two) * w * (1 - apart), p**3 * r * rr, p * p * q * (r * rr + mixed),
            p * q * q * two * (mixed + w * same), p * q * q * (1 - two) * (mixed + w * apart),
            q**3 * w * same * three, q**3 * w * split * (same + 2 * apart), q**3 * w * apart * (1 - 3 * two + 2 * three),
        ],
        axis=1,
    )  # fmt: skip


def aims(types: Types) -> Doubles:
    """Accuracy, and how often two votes differ, of each unit [U, 2]."""
    p, q = types.right, 1 - types.right
    return np.stack([p, 2 * p * q + q * q * (1 - types.two)], axis=1)


_shares = np.random.default_rng(0).dirichlet(np.full(IMAGES - 1, 0.3), 80)
ALL_SORTS = Types(np.linspace(0.01, 0.99, 80), (_shares**2).sum(axis=1), (_shares**3).sum(axis=1))
"""Units on which an estimator has to be unbiased."""


class Strata(NamedTuple):
    """Units of a kind, and their chance to have 0, 1, 2 wrong first votes among the others of their set [3, U]."""

    types: Types
    weights: Doubles


class Design(NamedTuple):
    """Of a unit on average: its votes; the variance within units of both figures [2]. By stratum, what each end counts for [3, 13, 2]."""

    votes: float
    within: Doubles
    counts: Doubles


def strata_of(kind: Kind) -> Strata:
    """From four studies on the seeds of tuning."""
    rng = np.random.default_rng(TUNING)
    types = Types(*(np.concatenate(part) for part in zip(*(study(kind, rng).types for _ in range(4)), strict=True)))
    wrong = 1 - types.right.reshape(-1, EACH)
    one, other = (np.roll(wrong, shift, axis=1).reshape(-1) for shift in (1, 2))
    return Strata(types, np.stack([(1 - one) * (1 - other), one + other - 2 * one * other, one * other]))


def designed(strata: Strata, go: Doubles) -> Design:
    """Under the chances [3, 6], figures that are unbiased for units of any type and vary least for these: least squares under L f = aim."""
    votes, within, counts = 0.0, np.zeros(2), np.zeros((3, len(ENDS), 2))
    for stratum, (weights, chances) in enumerate(zip(strata.weights / strata.weights.sum(), go, strict=True)):
        share, ends = weights @ likelihood(strata.types, chances), likelihood(ALL_SORTS, chances)
        used = share > 1e-12
        root = np.sqrt(share[used])
        solved, *_ = np.linalg.lstsq(ends[:, used] / root, aims(ALL_SORTS), rcond=1e-10)
        counts[stratum, used] = solved / root[:, None]
        if np.abs(ends @ counts[stratum] - aims(ALL_SORTS)).max() > 1e-6:
            within += np.inf  # as with alpha of single votes
        within += share @ counts[stratum] ** 2 - weights @ aims(strata.types) ** 2
        votes += float(share @ np.array(ENDS)[:, :2].sum(axis=1))
    return Design(votes, within, counts)


def fewest(strata: Strata, floor: Doubles, wanted: Doubles) -> Doubles:
    """The chances [3, 6] with the fewest votes, of three searches, whose variances, on top of a floor that votes do not change, are as
    `wanted` [2]."""

    def spare(flat: Doubles) -> Doubles:
        design = designed(strata, flat[:-1].reshape(3, -1).clip(LEAST, 1))
        return np.append(np.log(wanted / (floor + design.within)), flat[-1] - design.votes)

    found = []
    for right in (0.2, 0.5, 0.9):
        start = np.append(np.tile((right, 0.95, 0.1, 0.5, 0.1, 0.1), 3), 3.0)  # the last number is the votes
        found += [
            minimize(
                lambda flat: float(flat[-1]), start, method="SLSQP", bounds=[(LEAST, 1.0)] * 18 + [(1.0, 3.0)],
                constraints=[{"type": "ineq", "fun": spare}], options={"maxiter": 80, "ftol": 1e-5},
            ).x
        ]  # fmt: skip
    least = min((x for x in found if spare(x).min() > -1e-3), key=lambda x: float(x[-1]))
    return np.asarray(least[:-1].reshape(3, -1).clip(LEAST, 1))


PLACE = np.zeros((4, 4, 4), np.int64)
PLACE[tuple(np.array(ENDS).T)] = np.arange(len(ENDS))


class Course(NamedTuple):
    """Of each unit [U]: its votes; what it ends with, as a row of `ENDS`; its stratum."""

    votes: Codes
    ends: Codes
    strata: Codes


def ended(picks: Codes, votes: Codes) -> Codes:
    """What units end with after so many votes."""
    taken = np.arange(MOST) < votes[:, None]
    right = (taken & (picks == 0)).sum(axis=1)
    wrong = np.sort(np.where(taken & (picks > 0), picks, 0), axis=1)
    images = ((np.diff(wrong, axis=1, prepend=0) > 0) & (wrong > 0)).sum(axis=1)
    return np.asarray(PLACE[right, votes - right, images])


def course(picks: Codes, go: Doubles, chance: Doubles) -> Course:
    """What becomes of units under `go` [3, 6], with coins [U, 2]."""
    wrong = (picks[:, 0] > 0).reshape(-1, EACH)
    strata = (wrong.sum(axis=1, keepdims=True) - wrong).reshape(-1)
    votes = np.where(chance[:, 0] < go[strata, ended(picks, np.ones(UNITS, np.int64))], 2, 1)
    again = (votes == 2) & (chance[:, 1] < go[strata, ended(picks, votes)])
    votes = votes + again
    return Course(votes, ended(picks, votes), strata)


def kept(course: Course) -> Flags:
    """Descriptions that two found; without a third vote, those that one did."""
    right, wrong, _ = np.array(ENDS)[course.ends].T
    return np.asarray((right >= 2) | ((right == 1) & (wrong + right < MOST)))


class Told(NamedTuple):
    """What a study says: votes of a unit; accuracy; alpha; the share of decisions that are those of all votes."""

    votes: float
    accuracy: float
    alpha: float
    same: float = 1.0


def given(one: Study, taken: Flags) -> Votes:
    """The votes at `taken` [U, 3] on the ids of images."""
    units, slots = np.nonzero(taken)
    ids = units // EACH * IMAGES + (units + one.picks[taken]) % IMAGES
    return gather(units, one.workers[units, slots], ids)


def plain(one: Study, taken: Flags) -> Told:
    """All votes at `taken` [U, 3] counted alike, as ctxr does."""
    value = alpha(given(one, taken)).value
    return Told(float(taken.sum() / UNITS), float((one.picks[taken] == 0).mean()), np.nan if value is None else value)


def first(votes: Codes | int) -> Flags:
    """The first so many votes of each unit."""
    return np.asarray(np.arange(MOST) < np.broadcast_to(votes, UNITS)[:, None])


def blocked(one: Study, rng: np.random.Generator) -> tuple[Flags, Codes]:
    """Workers whom gold questions block [W], and how many each answers; a gold question is easy."""
    work = np.bincount(one.workers[:, :2].ravel(), minlength=len(one.care))
    out, asked = np.zeros(len(work), bool), work // GOLD_EVERY
    for worker, (care, most) in enumerate(zip(one.care, asked, strict=True)):
        right = np.cumsum(rng.random(most) < 0.97 * care + (1 - care) / IMAGES)
        for number, hits in enumerate(right.tolist(), 1):
            if decision_on(hits, number, 0.99, 0.5) == "block":
                out[worker], asked[worker] = True, number
                break
    return out, asked


def screened(one: Study, coins: Doubles, rng: np.random.Generator) -> tuple[Study, float]:
    """The study with votes of others in place of those of blocked workers; gold answers and votes that were cast in vain, by unit."""
    out, asked = blocked(one, rng)
    taken = first(course(one.picks, STOP, coins).votes)
    lost = np.minimum(np.bincount(one.workers[taken], minlength=len(out)), asked * GOLD_EVERY)[out].sum()
    replaced = out[one.workers]
    people = np.where(replaced, rng.choice(np.flatnonzero(~out), one.workers.shape), one.workers)
    picks = np.where(replaced, picked(one.looking, one.care[people], rng), one.picks)
    return one._replace(picks=picks), float(asked.sum() + lost) / UNITS


ALL, STOP, FULL, TWO, ONE, EARLY = (
    np.tile(np.array(row, np.float64), (3, 1))
    for row in (
        (1, 1, 1, 1, 1, 1), (1, 1, 0, 1, 0, 0), (1, 1, FULL_SHARE, 1, FULL_SHARE, FULL_SHARE), (1, 1, 0, 0, 0, 0),
        (0, 0, 0, 0, 0, 0), (0, 1, 0, 1, 0, 0),
    )
)  # fmt: skip


def uniform(votes: float) -> Doubles:
    """So many votes of everybody: who gets one more is drawn."""
    second, third = min(1.0, votes - 1), max(0.0, votes - 2)
    return np.tile(np.array([second, second, *[third] * 4]), (3, 1))


def fits(strata: Strata, votes: float, within: Doubles) -> bool:
    """Whether so many votes of everybody give variances within units [2] of at most these."""
    return bool((designed(strata, uniform(votes)).within <= within + 1e-6).all())


CLOSE, ROUTED = "close at first right, unbiased", "routed, 1.05 x widths of first two"


class Plan(NamedTuple):
    """What is chosen on the seeds of tuning: designs, by the chances [3, 6], and chances of a second vote after right and wrong [3, 2];
    and lines on bounds, by name."""

    designs: dict[str, tuple[Doubles, Design]]
    neyman: Doubles
    bounds: dict[str, str]


def planned(kind: Kind, studies: int) -> Plan:
    """Designs and bounds for a kind of studies."""
    strata, rng = strata_of(kind), np.random.default_rng(TUNING + 10)
    told, differ = [], np.zeros((2, 3, 2))
    for _ in range(studies):
        one = study(kind, rng)
        told.append(plain(one, first(3))[1:3])
        place = course(one.picks, ALL, np.zeros((UNITS, 2))).strata, (one.picks[:, 0] > 0).astype(int)
        np.add.at(differ[0], place, one.picks[:, 0] != one.picks[:, 1])
        np.add.at(differ[1], place, 1)
    three, two, full, early = (designed(strata, go) for go in (ALL, TWO, FULL, EARLY))
    spread, share, roots = np.var(told, axis=0) * UNITS, differ[1] / differ[1].sum(), np.sqrt(differ[0] / differ[1])
    floor, budget = spread - three.within, (1 - SAVED) * full.votes
    scale = next(x for x in np.arange(0, 9, 0.005) if 1 + (share * np.minimum(1, x * roots)).sum() >= budget)
    bounds = {"variance x units that votes leave, and within of three": f"{floor.round(3)}, {three.within.round(3)}"}
    bounds["votes of the published rule without a full share"] = f"{designed(strata, STOP).votes:.2f}"
    now = floor + two.within
    for name, votes, wanted in (("all votes", 3.0, spread), ("published, first two votes", full.votes, now)):
        for margin in (1.0, 1.05):
            routed = fewest(strata, floor, wanted * margin**2)
            sizes = (size for size in np.arange(1.02, 2.999, 0.02) if fits(strata, size, margin**2 * wanted - floor))
            each = designed(strata, routed).votes, next(sizes, 3.0)
            told_of = ", ".join(f"{x:.2f} ({max(0, 1 - x / votes):.0%})" for x in each)
            bounds[f"votes (fewer) for {margin:.2f} x widths of {name}: routed, uniform"] = told_of
    bounds["votes without limit for accuracy as of all, units known"] = f"{without_limit(strata.types):.2f}"
    chosen = {CLOSE: EARLY, "uniform, as many": uniform(early.votes), ROUTED: routed}
    chosen["uniform, 30 % below published"] = uniform(budget)
    return Plan({name: (go, designed(strata, go)) for name, go in chosen.items()}, np.minimum(1, scale * roots), bounds)


def without_limit(types: Types) -> float:
    """Wolfowitz's bound: however many votes, an unbiased accuracy of a unit varies by at least p (1 - p) / its expected votes."""
    spread = types.right * (1 - types.right)
    votes = (np.maximum(1, scale * np.sqrt(spread)) for scale in np.arange(0, 30, 0.01))
    return float(next(some for some in votes if (spread / some).mean() <= spread.mean() / MOST).mean())


def of_study(one: Study, plan: Plan, coins: Doubles, rng: np.random.Generator) -> dict[str, Told]:
    """What each policy says of a study."""
    ids = np.unique(given(one, first(1)).values, return_counts=True)[1]
    chance, truth = 1 - (ids * (ids - 1)).sum() / (UNITS * (UNITS - 1)), kept(course(one.picks, ALL, coins))

    def row(run: Course, right: float = 0.0, apart: float = np.nan) -> Told:
        same = float((kept(run) == truth).mean())
        return Told(float(run.votes.mean()), float(right), float(1 - apart / chance), same)

    stopped, early, pairs, single = (course(one.picks, go, coins) for go in (FULL, EARLY, TWO, ONE))
    published, two, hits = plain(one, first(stopped.votes)), plain(one, first(2)), one.picks == 0
    full = first(3) & (coins[:, 1:] < FULL_SHARE)
    rows = {
        "all votes": plain(one, first(3)),
        "published, as reported": published._replace(accuracy=hits[:, 0].mean(), alpha=plain(one, full).alpha),
        "published, every vote counted": published,
        "published, first two votes": two._replace(votes=published.votes),
        "one vote": row(single, hits[:, 0].mean()),
        "two votes": two._replace(same=row(pairs).same),
        "close at first right, every vote counted": plain(one, first(early.votes))._replace(same=row(early).same),
    }
    for name, (go, design) in plan.designs.items():
        run = course(one.picks, go, coins)
        rows[name] = row(run, *design.counts[run.strata, run.ends].mean(axis=0))
    run = course(one.picks, np.concatenate([plan.neyman, np.zeros((3, 4))], axis=1), coins)
    weight = (run.votes > 1) / plan.neyman[run.strata, (~hits[:, 0]).astype(int)]
    right = hits[:, 0] + weight * (hits[:, 1] * 1.0 - hits[:, 0]) / 2
    apart = weight * (one.picks[:, 0] != one.picks[:, 1])
    rows["Neyman, 30 % below published"] = row(run, right.mean(), apart.mean())
    other, extra = screened(one, coins, rng)
    told, judged = row(course(other.picks, STOP, coins)), plain(other, first(2))
    rows["gold, blocked replaced, first two"] = judged._replace(votes=told.votes + extra, same=told.same)
    return rows


def drawn(one: Study, coins: Doubles, rng: np.random.Generator) -> dict[str, tuple[float, float]]:
    """Widths of the intervals of ctxr, of accuracy and of alpha."""
    full, result = first(3) & (coins[:, 1:] < FULL_SHARE), {}
    parts = {"all votes": (first(3),) * 2, "published, as reported": (first(1), full), "two votes": (first(2),) * 2}
    for name, (some, others) in parts.items():
        right = human_accuracy(given(one, some), one.picks[some] == 0, rng, 400)
        agreed = by_units(given(one, others), "nominal", rng, 400, workers=True)
        result[name] = ((right.crowd_high or 1) - (right.crowd_low or 0), (agreed.high or 1) - (agreed.low or 0))
    return result


def figures_of(name: str, studies: int) -> dict[str, list[str]]:
    """The cells of each row for a kind of studies."""
    kind = KINDS[name]
    plan, rng = planned(kind, studies), np.random.default_rng(REPORTING)
    rows: dict[str, list[Told]] = {}
    widths: dict[str, list[tuple[float, float]]] = {}
    for number in range(studies):
        one, coins = study(kind, rng), rng.random((UNITS, 2))
        for row, told in of_study(one, plan, coins, rng).items():
            rows.setdefault(row, []).append(told)
        for row, pair in (drawn(one, coins, rng) if number < DRAWN else {}).items():
            widths.setdefault(row, []).append(pair)
    cells, every = {}, np.array(rows["all votes"])
    for row, found in rows.items():
        figures = np.array(found)
        off, (votes, *_, same) = 1000 * (figures - every)[:, 1:3], figures.mean(axis=0)
        wide = [f"{392 * spread:.1f}" for spread in figures[:, 1:3].std(axis=0)]
        errors = 1.96 * off.std(axis=0) / studies**0.5
        bias = [f"{mean:+.1f}±{error:.1f}" for mean, error in zip(off.mean(axis=0), errors, strict=True)]
        drawn_widths = [f"{100 * width:.1f}" for width in np.mean(widths[row], axis=0)] if row in widths else ["", ""]
        cells[row] = [f"{votes:.2f}", *wide, *bias, f"{100 * same:.1f}", *drawn_widths]
    return cells | {row: [line] for row, line in plan.bounds.items()}


def main() -> None:
    """Print a row per policy, then bounds."""
    studies = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    with ProcessPoolExecutor(2) as pool:
        found = list(pool.map(figures_of, KINDS, [studies] * len(KINDS)))
    heads = "votes | width, accuracy | width, alpha | bias, accuracy | bias, alpha | decisions | by ctxr, accuracy | by ctxr, alpha"
    print(f"| {' / '.join(KINDS)} | {heads} |")
    for row in found[0]:
        columns = zip(*(one[row] for one in found), strict=True)
        print(f"| {row} | {' | '.join(' / '.join(filter(None, parts)) for parts in columns)} |")


if __name__ == "__main__":
    main()

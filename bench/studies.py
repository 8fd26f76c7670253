"""`ctxr plan --target-ci` and `--resolve`: what studies of the planned size reach, by the intervals and the test that ctxr reports.

python -m bench studies

Widths and powers are of simulated studies with seeds that the planner does not use. In the last rows the planner knows a world of
another kind by a pilot alone: descriptions are hard by a Beta distribution, and one worker in five guesses.
"""

import time
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from bench.table import Row
from ctxr.engine.progress import SILENT
from ctxr.metrics import studies
from ctxr.metrics.compare import mean_interval, sign_flip
from ctxr.metrics.proportions import LEVEL
from ctxr.metrics.studies import SimulatedVotes, VoteModel, model_of_votes, resolved_by, simulate, simulate_runs
from ctxr.metrics.votes import gather
from ctxr.metrics.workers import human_accuracy
from ctxr.pipelines.crowd.config import Plan, StudySize
from ctxr.pipelines.crowd.frontier import Frontier, Price, model_of

STUDIES, COMPARED, SEED = 200, 1000, 1_000_000
"""Simulated studies of which widths and powers are measured; of 200, a power has a standard deviation of 0.03."""

PILOT = 500, 3, 2
"""Sets, descriptions of each, and votes on each."""

Draw = Callable[[int, int, int, np.random.Generator], SimulatedVotes]
"""Votes by numbers of sets, descriptions of each and votes on each."""


def measure() -> list[Row]:
    """Planned sizes in worlds of the planner's own kind, and of another."""
    rows = []
    for right, agreement, wanted in ((0.735, 0.8, 5.0), (0.9, 0.9, 4.0), (0.6, 0.7, 10.0)):
        config = Plan(right=right, agreement=agreement, target_ci=wanted)
        rows.append(realised_width(config, model_of(config, right, (), []), f"right {right}, agreement {agreement}"))
    for accuracy, agreement, wanted in ((0.3, 0.8, 3.0), (0.3, 0.7, 6.0), (0.6, 0.9, 10.0)):
        config = Plan(right=0.735, agreement=agreement, model_accuracy=accuracy, resolve=wanted)
        rows.append(
            realised_power(config, model_of(config, 0.735, (), []), f"models at {accuracy}, agreement {agreement}")
        )
    for hard in ((8, 2), (1.5, 0.5), (2, 2)):
        draw = other_world(*hard)
        pilot = draw(*PILOT, np.random.default_rng(SEED - 1))
        units = np.arange(pilot.right.size) // PILOT[2]
        model = model_of_votes(pilot.right.ravel(), units, units // PILOT[1], pilot.workers.ravel())
        assert model is not None
        config = Plan(target_ci=6.0)
        name = f"another world, Beta{hard}, known by {pilot.right.size} votes"
        rows.append(realised_width(config, replace(model, right=float(pilot.right[..., 0].mean())), name, draw))
    return rows


def planned(config: Plan, model: VoteModel) -> tuple[Frontier, StudySize]:
    """The size with the protocol's three descriptions of a set."""
    frontier = Frontier(config, model, lambda _: Price(0, 0.0))
    return frontier, next(size for size in frontier.sizes(SILENT) if size.targets == config.targets)


def realised_width(config: Plan, model: VoteModel, name: str, draw: Draw | None = None) -> Row:
    """Of the interval over workers that `ctxr aggregate` reports, of first votes."""
    start, (frontier, size) = time.perf_counter(), planned(config, model)

    def own(sets: int, targets: int, votes: int, rng: np.random.Generator) -> SimulatedVotes:
        return simulate(model, sets, targets, votes, each=frontier.each, rng=rng)

    widths, held, draw = [], list[tuple[float, float]](), draw or own
    values = []
    for number in range(STUDIES):
        rng = np.random.default_rng(SEED + number)
        study = draw(size.sets, size.targets, 1, rng)
        right, workers = study.right.ravel(), study.workers.ravel()
        found = human_accuracy(gather(np.arange(right.size), workers, right), right, rng)
        widths.append(100 * ((found.crowd_high or 1) - (found.crowd_low or 0)))
        held.append((found.crowd_low or 0, found.crowd_high or 1))
        values.append(float(right.mean()))
    truth, wanted = float(np.mean(values)), config.target_ci or 0
    off = np.mean(widths) / wanted - 1
    holding = sum(low <= truth <= high for low, high in held)
    note = f"{name}: {size.sets:,} sets; width {np.mean(widths):.2f} of {wanted:g} points; {holding} hold the truth"
    took = time.perf_counter() - start
    return Row(
        f"{STUDIES} studies, width",
        took,
        target="within 10 %",
        met=bool(abs(off) <= 0.1),
        note=f"{note}; off by {off:+.1%}",
    )


def realised_power(config: Plan, model: VoteModel, name: str) -> Row:
    """Share of studies in which sign flips over sets find the difference, and what the interval of `ctxr eval` says is resolved."""
    start, (frontier, size) = time.perf_counter(), planned(config, model)
    wanted, (needed, most) = (config.resolve or 0) / 100, config.votes("test")
    shares = (config.model_accuracy, config.model_accuracy + wanted)
    found, said = 0, []
    for number in range(COMPARED):
        rng = np.random.default_rng(SEED + number)
        votes = simulate(model, size.sets, size.targets, most, each=frontier.each, rng=rng)
        kept = votes.right.sum(axis=-1) >= needed
        one, other = simulate_runs(model, shares, (size.sets, size.targets), rng)
        gains, sets = (other.astype(float) - one)[kept], np.nonzero(kept)[0]
        found += sign_flip(gains, sets, rng, 2000) < 1 - LEVEL
        said.append(resolved_by(mean_interval(gains, sets, rng, 1000)) or 1.0)
    power = found / COMPARED
    note = f"{name}: {size.sets:,} sets; power {power:.3f} at {100 * wanted:g} points; by eval's intervals {100 * np.mean(said):.2f} points"
    took = time.perf_counter() - start
    met = bool(abs(power - studies.POWER) <= 0.05)
    return Row(f"{COMPARED:,} studies, power", took, target="0.8 within 0.05", met=met, note=note)


def other_world(easy: float, hard: float) -> Draw:
    """Descriptions are found with a probability that is Beta; one worker in five finds one in ten."""

    def draw(sets: int, targets: int, votes: int, rng: np.random.Generator) -> SimulatedVotes:
        seats = simulate(VoteModel(0.5, 0.0, 0.0, 0.0), sets, targets, votes, each=20, rng=rng).workers
        guesses = rng.random(seats.max() + 1) < 0.2
        chances = rng.beta(easy, hard, (sets, targets, 1))
        return SimulatedVotes(rng.random(seats.shape) < np.where(guesses[seats], 0.1, chances), seats)

    return draw

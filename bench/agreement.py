"""Numbers of the crowd: alpha, its intervals, and Dawid and Skene, on votes of simulated workers.

python -m bench agreement
"""

import csv
import time
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from bench.table import Row, median_seconds
from ctxr.metrics.agreement import Level, alpha, by_units
from ctxr.metrics.consensus import dawid_skene
from ctxr.metrics.votes import Votes, gather
from ctxr.pipelines.inspection.agreement import run
from ctxr.pipelines.inspection.config import AgreementConfig

LEVELS: tuple[Level, ...] = ("nominal", "interval")


def measure() -> list[Row]:
    """Votes on one of ten images, nine of ten right."""
    rows = []
    units, workers, values = columns(np.random.default_rng(0), 1_000_000, 5)
    rows.append(Row("code 1,000,000 units x 5 votes", median_seconds(partial(gather, units, workers, values))))
    votes = gather(units, workers, values)
    for level in LEVELS:
        seconds = median_seconds(partial(alpha, votes, level))
        note = f"alpha {alpha(votes, level).value:.4f}"
        rows.append(Row(f"{level} alpha of these", seconds, target="<= 10 s", met=seconds <= 10, note=note))
    many = gather(units, workers, np.random.default_rng(1).random(len(units)))
    for level in LEVELS:
        seconds = median_seconds(partial(alpha, many, level), 1)
        rows.append(Row(f"{level} alpha, all 5,000,000 values different", seconds))
    for size in (600, 20_000):
        rows += intervals(gather(*columns(np.random.default_rng(2), size, 3)), size)
    rows += [command(different) for different in (False, True)]
    rows += consensus(gather(*columns(np.random.default_rng(3), 100_000, 3)))
    return rows + [coverage(*case) for case in ((30, 1000, False), (30, 1000, True), (30, 200, True), (10, 200, True))]


def command(different: bool) -> Row:
    """`ctxr agreement` of a million votes in a file, on one of ten values or all different."""
    with TemporaryDirectory() as folder:
        file, rng = Path(folder) / "votes.csv", np.random.default_rng(5)
        units, workers, values = columns(rng, 200_000, 5)
        values = rng.random(len(values)) if different else values
        with file.open("w", encoding="utf-8", newline="") as stream:
            writer = csv.writer(stream)
            writer.writerow(("item", "worker", "value"))
            writer.writerows(zip(units.tolist(), workers.tolist(), values.tolist(), strict=True))
        seconds = median_seconds(partial(run, AgreementConfig(votes=file)), 1)
    name = f"ctxr agreement: 200,000 items x 5 votes of a CSV{', all values different' if different else ''}"
    return Row(name, seconds, target="< 10 s", met=seconds < 10)


def intervals(votes: Votes, size: int) -> list[Row]:
    """1,000 resamples, over units and over both."""
    rows = []
    for workers in (False, True):
        for level in LEVELS:
            found = by_units(votes, level, np.random.default_rng(4), workers=workers)
            again = partial(by_units, votes, level, np.random.default_rng(4), workers=workers)
            seconds = median_seconds(again, 3 if size < 1000 else 1)
            target, met = ("< 1 s", seconds < 1) if size == 600 else ("", None)
            name = f"1,000 resamples {'by_units_and_workers' if workers else 'by_units'}, {size:,} units x 3, {level}"
            rows.append(Row(name, seconds, target=target, met=met, note=f"{found.low:.4f} to {found.high:.4f}"))
    return rows


def consensus(votes: Votes) -> list[Row]:
    """EM until it stops."""
    tables = dawid_skene(votes)
    return [
        Row(
            "Dawid-Skene, 100,000 units x 3, 40 workers, 10 labels",
            median_seconds(partial(dawid_skene, votes), 1),
            note=f"{len(tables.history)} rounds",
        ),
    ]


def columns(rng: np.random.Generator, units: int, each: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Units, workers and values [units x each]; a crowd of 40, and a wrong pick is any of the ten."""
    truth = np.repeat(rng.integers(0, 10, units), each)
    workers = (rng.integers(0, 40, units)[:, None] + np.arange(each)) % 40
    said = np.where(rng.random(len(truth)) < 0.9, truth, rng.integers(0, 10, len(truth)))
    return np.repeat(np.arange(units), each), workers.reshape(-1), said


def coverage(crowd: int, units: int, uneven: bool, rounds: int = 200) -> Row:
    """How many 95 % intervals hold the alpha of an endless crowd whose skills are Beta(4, 1), or all its mean, 0.8."""
    rng, held, start = np.random.default_rng(6), np.zeros(2, int), time.perf_counter()
    agreeing = 0.8**2 + 0.2**2 / 9
    truth = 1 - (1 - agreeing) / 0.9
    for _ in range(rounds):
        skill = rng.beta(4, 1, crowd) if uneven else np.full(crowd, 0.8)
        right = np.repeat(rng.integers(0, 10, units), 3)
        workers = rng.permuted(np.tile(np.arange(crowd), (units, 1)), axis=1)[:, :3].reshape(-1)
        wrong = (right + rng.integers(1, 10, right.size)) % 10
        said = np.where(rng.random(right.size) < skill[workers], right, wrong)
        votes = gather(np.repeat(np.arange(units), 3), workers, said)
        for both in (False, True):
            found = by_units(votes, "nominal", rng, 300, workers=both)
            held[both] += (found.low or 0) <= truth <= (found.high or 0)
    kind = "uneven" if uneven else "equal"
    name = f"{rounds} crowds of {crowd} {kind} workers, {units:,} units x 3"
    return Row(name, time.perf_counter() - start, note=f"intervals hold: units {held[0]}, both {held[1]}")

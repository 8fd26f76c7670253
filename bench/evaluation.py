"""`ctxr eval` at the size of ImageCoDe's test: 2,306 descriptions of 1,046 sets, 10,000 resamples, five runs compared.

python -m bench evaluation
"""

import json
import tempfile
import time
from functools import partial
from pathlib import Path

import numpy as np

from bench.table import Row, in_turns, median_seconds
from ctxr.datasets.open import read_dataset
from ctxr.metrics.compare import RESAMPLES, mcnemar, mean_interval, sign_flip
from ctxr.metrics.ranking import accuracy, count_ranks, recall, reciprocal_rank
from ctxr.pipelines.modelling.config import Eval
from ctxr.pipelines.modelling.eval import run

PER_SET = {3: 432, 2: 396, 1: 218}
"""Sets of the published test split by number of descriptions."""

RUNS = 5


def measure() -> list[Row]:
    """Parts of an evaluation, and the whole command."""
    rng = np.random.default_rng(0)
    groups = np.repeat(np.arange(sum(PER_SET.values())), np.repeat(list(PER_SET), list(PER_SET.values())))
    right = (rng.random(len(groups)) < 0.3).astype(np.float64)
    gains = right - (rng.random(len(groups)) < 0.3)
    copied = literal(right, groups, np.random.default_rng(1))
    found = mean_interval(right, groups, np.random.default_rng(1))
    interval = partial(mean_interval, right, groups, np.random.default_rng(1))
    seconds, against = in_turns(interval, lambda: literal(right, groups, np.random.default_rng(1)))
    note = f"{found.low:.4f} to {found.high:.4f}; literal {copied[0]:.4f} to {copied[1]:.4f}"
    rows = [
        Row(
            f"{RESAMPLES:,} resamples of {len(groups):,} queries in sets",
            seconds,
            "rows copied for each resample",
            against,
            note=note,
        ),
        Row("10,000 flips of the same", median_seconds(partial(sign_flip, gains, groups, rng))),
    ]
    gallery, target = rng.random((5000, 5000), np.float32), rng.integers(0, 5000, 5000)
    rows.append(Row("places of 5,000 queries among 5,000", median_seconds(partial(ranked, gallery, target))))
    with tempfile.TemporaryDirectory() as folder:
        compared = whole(Path(folder))
    rows.append(Row(f"ctxr eval --compare, {RUNS} runs", compared, target="<= 30 s", met=compared <= 30))
    return rows + [trust(sets) for sets in (5, 10, 20, 50, 200)]


def trust(sets: int, rounds: int = 1000) -> Row:
    """How often intervals of 95 % hold the truth, and tests at 5 % part two equally good runs, over sets and over queries.

    Sets have one to three queries, of which a run has three in ten right; nine times in ten its luck is that of the set.
    """
    rng, start = np.random.default_rng(3), time.perf_counter()
    held, fired = np.zeros(2, int), np.zeros(2, int)
    for _ in range(rounds):
        groups = np.repeat(np.arange(sets), rng.integers(1, 4, sets))
        left, right = (
            np.where(rng.random(len(groups)) < 0.9, rng.random(sets)[groups], rng.random(len(groups))) < 0.3
            for _ in range(2)
        )
        for place, clusters in enumerate((groups, np.arange(len(groups)))):
            found = mean_interval(left.astype(np.float64), clusters, rng, 500)
            held[place] += (found.low or 0) <= 0.3 <= (found.high or 0)
        gains = left.astype(np.float64) - right.astype(np.float64)
        fired += np.array([sign_flip(gains, groups, rng, 500), mcnemar(left, right)]) <= 0.05
    note = (
        f"intervals that hold it: {held[0] / rounds:.1%}, over queries {held[1] / rounds:.1%}; "
        f"false alarms: {fired[0] / rounds:.1%}, McNemar {fired[1] / rounds:.1%}"
    )
    return Row(f"{rounds:,} simulated benchmarks of {sets} sets", time.perf_counter() - start, note=note)


def ranked(gallery: np.ndarray, target: np.ndarray) -> None:
    """Every figure of a gallery."""
    found = count_ranks(gallery, target)
    for figure in (accuracy, reciprocal_rank, partial(recall, k=10)):
        figure(found)


def literal(values: np.ndarray, groups: np.ndarray, rng: np.random.Generator) -> tuple[float, float]:
    """The interval by the book: sets are drawn, their rows copied, their mean taken, again and again."""
    rows = [np.flatnonzero(groups == name) for name in np.unique(groups)]
    means = [
        values[np.concatenate([rows[place] for place in rng.integers(0, len(rows), len(rows))])].mean()
        for _ in range(RESAMPLES)
    ]
    low, high = np.quantile(means, [0.025, 0.975])
    return float(low), float(high)


def whole(folder: Path) -> float:
    """Seconds of the command on a made release and files of scores."""
    sizes = np.repeat(list(PER_SET), list(PER_SET.values()))
    rng = np.random.default_rng(2)
    valid = {
        f"MSR-VTT-videoTest_video{number // 3}-shot{number % 3}_0" if number % 5 else f"open-images-{number}_a": {
            str(target): f"Text {number} {'word ' * int(rng.integers(3, 40))}"
            for target in rng.choice(10, size, replace=False).tolist()
        }
        for number, size in enumerate(sizes.tolist())
    }
    release = folder / "release"
    release.mkdir()
    (release / "valid_data.json").write_text(json.dumps(valid))
    dataset = read_dataset(release)
    sets = {one.id: one.images for one in dataset.sets}
    files = []
    for place in range(RUNS):
        lines = [
            json.dumps({"query": query.id, "candidate": name, "value": float(rng.random())})
            for query in dataset.queries.values()
            for name in sets[query.image_set]
        ]
        files.append(folder / f"run{place}.jsonl")
        files[-1].write_text("\n".join(lines))
    start = time.perf_counter()
    run(Eval(runs=tuple(map(str, files)), dataset=release, workdir=folder / "work", compare=True, tokenizer="regex"))
    return time.perf_counter() - start

"""Whether a text branch from a small real encoder beats always saying the commoner answer, on published pairs of texts:
`python -m scripts.text_branch_proof FOLDER --model DIR --rows DIR [--seeds 1] [--branch late] [--each] [--tune] [--set KEY=VALUE]`.

Rows are cut into folds by a hash of their group, so that pairs with one premise stay together. Each fold is judged once, by
classifiers that `ctxr train --recipe entailment` made of the other folds: one part of those chooses epoch and threshold, the rest is
learned from. The commoner answer is that of the other folds, for each data set. A stopped proof goes on.

The features of `late:` were chosen on the first 400 rows of each train file: figures on those are in-sample.

`--tune` trains the first fold alone and says what its dev comes to, without a look at its test: so TRAINING was chosen.
"""

import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path

import numpy as np
from msgspec.structs import replace

from ctxr.datasets.pairs import EntailmentPair
from ctxr.datasets.readers.entailment import read_pairs
from ctxr.errors import DataError
from ctxr.metrics.compare import Interval, mcnemar, mean_interval
from ctxr.metrics.entailment import quality
from ctxr.pipelines.modelling import train
from ctxr.pipelines.modelling.config import Eval, Train
from ctxr.pipelines.modelling.eval import run as evaluate
from ctxr.problems.entailment.pairs import PAIRS, PROBABILITIES
from ctxr.problems.entailment.question import JudgedPair
from ctxr.store.tables import read_table, write_table
from scripts.ending import exit_code
from scripts.weak_positive_proof import Spoken

SOURCES = ("mrpc", "rte", "sts-b")
FOLDS, DEV = 5, 8
"""Folds, and into how many parts what is left of a fold is cut, the first of which is dev."""

HALF = 0.5
TRAINING = (
    "image=", "frozen_text=true", "lr=1e-4", "batch=16", "epochs=10", "patience=0", "warmup=0.1", "clip=1", "precision=fp32"
)  # fmt: skip


def read_rows(folder: Path) -> list[EntailmentPair]:
    """The pairs of texts in the published files of a folder. Raises DataError where there is none."""
    tables = [file for file in sorted(folder.iterdir()) if file.suffix in (".tsv", ".txt", ".csv")]
    readings = [read_pairs(file) for file in tables]
    found = [pair for reading in readings for pair in reading.pairs if reading.source in SOURCES]
    if not found:
        raise DataError(f"{folder} holds no rows of {', '.join(SOURCES)}", hint="--rows FOLDER with their files")
    return found


def number(group: str, salt: str, parts: int) -> int:
    """The part of a group, by its hash.

    >>> number("rte/1", "fold", 5) == number("rte/1", "fold", 5)
    True
    """
    return int(sha256(f"{salt} {group}".encode()).hexdigest()[:12], 16) % parts


def with_sides(rows: Sequence[EntailmentPair], fold: int) -> list[EntailmentPair]:
    """The rows as train, valid and test of one fold."""
    sided = []
    for row in rows:
        held, first = number(row.group, "fold", FOLDS) == fold, number(row.group, "dev", DEV) == 0
        sided.append(replace(row, split="test" if held else "valid" if first else "train"))
    return sided


def judge_fold(options: Namespace, rows: Sequence[EntailmentPair], name: str, fold: int) -> list[JudgedPair]:
    """What classifiers that never saw a fold say of it; nothing with `--tune`, which prints what dev says."""
    folder, progress = options.folder / name / f"fold{fold}", Spoken()
    run, work = f"{name}-{fold}", options.folder
    write_table(folder / "pairs" / PAIRS, with_sides(rows, fold))
    changes = (*TRAINING, f"text={options.branch}:{options.model}", *options.changes)
    asks = Train("entailment", folder / "pairs", run, options.seeds, changes=changes, workdir=work, device="cpu")
    report = train.run(asks, progress)
    if options.tune:
        epochs = ", ".join(str(one.epoch) for one in report.seeds)
        print(f"{name}: {report.queries}, accuracy on dev {report.valid or 0:.3f}, epoch {epochs}", flush=True)
        return []
    found = evaluate(Eval((run,), folder / "pairs", work, split="test", resamples=1), progress)
    return read_table(found.results / PROBABILITIES, JudgedPair)


def commoner(rows: Sequence[EntailmentPair]) -> dict[tuple[str, int], bool]:
    """What is commoner outside a fold, by (data set, fold)."""
    found = {}
    for source in {row.source for row in rows}:
        for fold in range(FOLDS):
            labels = [row.label for row in rows if row.source == source and number(row.group, "fold", FOLDS) != fold]
            found[source, fold] = 2 * sum(labels) > len(labels)
    return found


def told(interval: Interval, signed: bool = False) -> str:
    """Percent with its interval; – for none."""
    if interval.value is None or interval.low is None or interval.high is None:
        return "–"
    sign = "+" if signed else ""
    low, value, high = (f"{100 * one:{sign}.1f}" for one in (interval.low, interval.value, interval.high))
    return f"{value} ({low} to {high})"


def compare(rows: Sequence[EntailmentPair], said: Sequence[JudgedPair], title: str) -> None:
    """Print a line of the table: accuracy and F0.5 at 0.5 and at the threshold of dev, against the commoner answer."""
    by_pair, usual = {row.id: row for row in rows}, commoner(rows)
    label = np.array([one.label == 1 for one in said])
    groups = [one.group for one in said]
    majority = np.array([usual[by_pair[one.pair].source, number(one.group, "fold", FOLDS)] for one in said])
    called = {
        "0.5": np.array([one.probability >= HALF for one in said]),
        "dev": np.array([one.entailed for one in said]),
    }
    kinds = np.unique(groups, return_inverse=True)[1].astype(np.int64)
    found = {name: quality(label, answer, kinds, np.random.default_rng(0)) for name, answer in called.items()}
    base = quality(label, majority, kinds, np.random.default_rng(0))
    ours, theirs = called["0.5"] == label, majority == label
    gain = mean_interval(ours.astype(np.float64) - theirs, groups, np.random.default_rng(0))
    print(
        f"| {title} | {len(said)} | {100 * (base.accuracy.value or 0):.1f} | {told(found['0.5'].accuracy)} | {told(gain, True)} "
        f"| {mcnemar(ours, theirs):.2g} | {told(base.f)} | {told(found['0.5'].f)} | {told(found['dev'].f)} |",
        flush=True,
    )


def prove(options: Namespace) -> None:
    """Train, judge, print."""
    rows = read_rows(options.rows)
    parts = [(source, [row for row in rows if row.source == source]) for source in SOURCES] if options.each else []
    for name, own in parts or [("together", rows)]:
        said = [one for fold in range(1 if options.tune else FOLDS) for one in judge_fold(options, own, name, fold)]
        if not said:
            continue
        print(
            "| pairs, seed | n | commoner | accuracy | more | McNemar | F0.5 commoner | F0.5 at 0.5 | F0.5 at dev's |"
        )
        print("| --- |" + " ---: |" * 8)
        for seed in range(options.seeds):
            each = [one for one in said if int(one.run.partition("/seed")[2] or 0) == seed]
            for source in sorted({row.source for row in own}):
                names = {row.id for row in own if row.source == source}
                compare(own, [one for one in each if one.pair in names], f"{source}, {seed}")
            if not options.each:
                compare(own, each, f"all, {seed}")


def main(arguments: list[str]) -> int:
    """Prove and print."""
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--model", type=Path, required=True, help="folder of an encoder as transformers writes it")
    parser.add_argument("--rows", type=Path, required=True, help="folder with published files of MRPC, RTE, STS-B")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--branch", choices=("late", "bert"), default="late")
    parser.add_argument("--each", action="store_true", help="a classifier for each data set instead of one for all")
    parser.add_argument("--tune", action="store_true")
    parser.add_argument("--set", dest="changes", action="append", default=[])
    options = parser.parse_args(arguments)
    return exit_code(lambda: prove(options))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""The work of `ctxr eval` for entailment classifiers: accuracy, precision, recall, F0.5 and calibration, by kind of pair."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import msgspec
import numpy as np
import numpy.typing as npt

from ctxr.datasets.lineage import common_dataset
from ctxr.datasets.pairs import EntailmentPair
from ctxr.engine.progress import Progress
from ctxr.engine.report import Table
from ctxr.errors import DataError, UsageError
from ctxr.metrics.entailment import calibration, quality
from ctxr.models.entailment.training import probabilities
from ctxr.pipelines.modelling.config import Eval, EvalReport
from ctxr.problems.entailment.classifiers import claim_table, judged, open_classifier
from ctxr.problems.entailment.pairs import (
    KINDS,
    PROBABILITIES,
    TABLES,
    EntailmentPairs,
    is_classifier,
    open_pairs,
    refuse_seen,
)
from ctxr.problems.results import RESULTS, record, results_name
from ctxr.problems.runs import check_name
from ctxr.store.artifacts import Content, Parent, open_artifact
from ctxr.store.atomic import write_bytes
from ctxr.store.kinds import CLASSIFIER, CLASSIFIER_RESULTS, CLASSIFIERS
from ctxr.store.records import Record, SplitName
from ctxr.store.tables import write_table

AT_ONCE = 64


class JudgedPair(Record, frozen=True):
    """What one classifier said of one pair: the probability that it is entailed 0..1, and whether it counts as entailed."""

    KEY: ClassVar[tuple[str, ...]] = ("run", "pair")

    run: str
    pair: str
    kind: str
    group: str
    label: int
    probability: float
    entailed: bool


@dataclass(frozen=True)
class _Run:
    """A classifier's answers [N] to the same pairs."""

    name: str
    threshold: float
    origin: Parent
    said: npt.NDArray[np.float32]


def classifiers_of(config: Eval) -> list[Path]:
    """Folders of the runs where they are classifiers; empty where none is. Raises UsageError where only some are, or where one is
    nothing at all."""
    folders, others = [], []
    for named in config.runs:
        inside = config.workdir / CLASSIFIERS / named
        found = [folder for folder in (inside, Path(named)) if named and is_classifier(folder)][:1]
        folders += found
        others += [] if found else [named]
    if folders and others:
        for named in others:
            check_name(named, config.workdir)
        raise UsageError("classifiers and models that retrieve answer different questions", hint="evaluate them apart")
    return folders


def evaluate_classifiers(config: Eval, folders: Sequence[Path], progress: Progress) -> EvalReport:
    """Ask every seed of every classifier about the pairs of one side, measure, and write the artifact.

    Raises DataError for pairs about pictures that a classifier was trained on, and where a side has no pair.
    """
    pairs = open_pairs(config.dataset or common_dataset(folders, progress), config.workdir, progress)
    there: list[SplitName] = [side for side in ("test", "valid", "train") if pairs.side(side)]
    split = config.split or next(iter(there), "test")
    rows = pairs.side(split)
    if not rows:
        raise DataError(f"{pairs.name} has no pair on the side {split!r}", hint=f"--split {' or '.join(there)}")
    notes: list[str] = []
    runs = [run for folder in folders for run in _answers(config, folder, pairs, rows, split, notes, progress)]
    tables = dict(_tables(config, runs, rows, split))
    out = config.out or config.workdir / RESULTS / results_name([folder.resolve().name for folder in folders])
    parents = [pairs.origin, *{run.origin.sha256: run.origin for run in runs}.values()]
    settings = {
        "split": split, "resamples": config.resamples, "seed": config.seed, "runs": [run.name for run in runs]
    }  # fmt: skip
    if config.compare:
        notes.append("classifiers are not tested against each other: --compare is of runs that retrieve")
    up_to_date = record(out, CLASSIFIER_RESULTS, settings, parents, lambda: _write(out, runs, rows, tables), progress)
    return EvalReport(out, pairs.name, tuple(run.name for run in runs), up_to_date, tables, tuple(notes))


def _answers(
    config: Eval,
    folder: Path,
    pairs: EntailmentPairs,
    rows: list[EntailmentPair],
    split: str,
    notes: list[str],
    progress: Progress,
) -> list[_Run]:
    """What each seed of a classifier says."""
    artifact = open_artifact(folder, CLASSIFIER)
    seeds = sorted(folder.glob("seed*"), key=lambda seed: int(seed.name[4:]))
    origin = Parent(folder.resolve().name, CLASSIFIER, artifact.sha256)
    same = any(parent.sha256 == pairs.origin.sha256 for parent in artifact.manifest.parents)
    if same and split == "train":
        raise DataError(
            f"{origin.name} was trained on these very pairs: what it says of them says nothing of others",
            hint="--split valid or test, or other pairs",
        )
    chosen_by = split == "valid" and same
    if chosen_by:
        notes.append(f"{origin.name}: these pairs chose its epoch and its threshold, so they flatter it")
    runs = []
    for seed in seeds:
        judge = open_classifier(seed, config.device)
        if not chosen_by:
            refuse_seen(pairs, rows, judge.trained_on, judge.name)
        told = judged(rows, judge.recipe)
        table = claim_table(told, pairs, judge.branches, config.workdir, judge.device, progress)
        with progress.task(f"asking {judge.name}", len(table)) as task:
            said = probabilities(judge.model, table, AT_ONCE, judge.device, advance=task.advance)
        runs.append(_Run(judge.name if len(seeds) > 1 else origin.name, judge.threshold, origin, said))
    return runs


def _tables(config: Eval, runs: Sequence[_Run], rows: list[EntailmentPair], split: str) -> list[tuple[str, Table]]:
    kinds = np.array([pair.kind for pair in rows])
    label = np.array([pair.label == 1 for pair in rows])
    there = sorted(set(kinds.tolist()))
    groups = np.unique([pair.group for pair in rows], return_inverse=True)[1].astype(np.int64)
    figures: list[tuple[Any, ...]] = []
    sure: list[tuple[Any, ...]] = []
    bins: list[tuple[Any, ...]] = []
    for run in runs:
        called = run.said >= np.float32(run.threshold)
        for kind in ("all", *there) if len(there) > 1 else ("all",):
            own = np.ones(len(rows), bool) if kind == "all" else kinds == kind
            rng = np.random.default_rng(config.seed)
            found = quality(label[own], called[own], groups[own], rng, resamples=config.resamples)
            for name, one in (
                ("accuracy", found.accuracy), ("precision", found.precision), ("recall", found.recall), ("F0.5", found.f),
            ):  # fmt: skip
                figures.append((run.name, kind, name, one.value, one.low, one.high, found.pairs))
            figures.append((run.name, kind, "majority", found.majority, None, None, found.pairs))
            told = calibration(label[own], run.said[own].astype(np.float64))
            sure.append((run.name, kind, told.error, told.largest, told.brier, run.threshold))
            if kind == "all":
                bins += [
                    (run.name, bin_.low, bin_.high, bin_.pairs, bin_.probability, bin_.entailed, bin_.entailed_low, bin_.entailed_high)
                    for bin_ in told.bins
                ]  # fmt: skip
    drawn = "intervals of 95 % over whole pictures and premises; majority always says the commoner label"
    if len(there) == 1:
        drawn += f"; all pairs are about {KINDS[there[0]]}"
    meant = "ECE: mean distance of share and probability over 15 bins"
    in_figures = ("run", "pairs", "figure", "value", "low", "high", "of")
    in_sure = ("run", "pairs", "ECE", "largest", "Brier", "threshold")
    in_bins = ("run", "from", "to", "pairs", "said", "entailed", "low", "high")
    return [
        (f"{split}/quality", Table(f"{split}: entailed or not", in_figures, tuple(figures), drawn)),
        (f"{split}/calibration", Table(f"{split}: calibration", in_sure, tuple(sure), meant)),
        (f"{split}/reliability", Table(f"{split}: reliability, all pairs", in_bins, tuple(bins))),
    ]


def _write(out: Path, runs: Sequence[_Run], rows: list[EntailmentPair], tables: dict[str, Table]) -> Content:
    write_table(
        out / PROBABILITIES,
        [
            JudgedPair(run.name, pair.id, pair.kind, pair.group, pair.label, said, bool(np.float32(said) >= np.float32(run.threshold)))
            for run in runs
            for pair, said in zip(rows, run.said.tolist(), strict=True)
        ],
    )  # fmt: skip
    write_bytes(out / TABLES, msgspec.json.format(msgspec.json.encode(tables), indent=1) + b"\n")
    return Content([PROBABILITIES, TABLES], {"pairs": len(rows), "runs": len(runs)}, {})

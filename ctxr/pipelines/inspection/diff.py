"""`ctxr diff`: what came, went and changed between two artifacts of image sets, two datasets, or two evaluations."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence, Set
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from ctxr.datasets.dataset import Dataset
from ctxr.datasets.open import read_dataset
from ctxr.engine.options import path_of
from ctxr.engine.progress import SILENT, Progress
from ctxr.engine.report import Table
from ctxr.engine.state import artifacts
from ctxr.errors import UnfinishedError, UsageError, did_you_mean, plural, some
from ctxr.metrics.compare import RESAMPLES, Interval, RatioColumn
from ctxr.metrics.proportions import LEVEL
from ctxr.metrics.ranking import ALL_OF_SET, all_right
from ctxr.pipelines.inspection.config import Diff, DiffReport
from ctxr.problems.evaluation import ALL_SPLITS
from ctxr.problems.figures import (
    RunDifference,
    Summariser,
    correct_together,
    corrected_note,
    difference,
    p_value,
    percent,
)
from ctxr.problems.registry import find_question
from ctxr.problems.results import PER_QUERY, RESULTS, QueryResult, read_findings
from ctxr.store.artifacts import Artifact, open_artifact
from ctxr.store.kinds import DATASET, EVALUATION, IMAGE_SETS, SET_KINDS
from ctxr.store.records import Failure
from ctxr.store.tables import grouped, read_table
from ctxr.store.units import ids_in_ledger, read_unit, unit_sources

OF_QUERIES = {
    "accuracy": "accuracy", "R@1": "accuracy", "IR@1": "accuracy", ALL_OF_SET: "accuracy", "MRR": "reciprocal_rank"
}  # fmt: skip
"""Headlines that can be computed from the results of queries, each with its column there; the others get no interval."""

Answers = Mapping[tuple[str, str, str, str, tuple[str, ...]], Sequence[QueryResult]]
"""What the seeds did by run, split, query, text and targets: what both evaluations have was asked alike in both."""


def run(config: Diff, progress: Progress = SILENT) -> DiffReport:
    """Compare. Raises UsageError for what cannot be compared, and what `open_artifact` raises; DataError for a changed table."""
    first, second = both = [_open(name, config.workdir) for name in config.check().artifacts]
    kind, other = (one.manifest.kind for one in both)
    if kind != other:
        raise UsageError(f"{first.path} holds {kind}, and {second.path} {other}", hint="compare two of one kind")
    for one in both:
        one.refuse_changed()
    with progress.task("comparing", None):
        tables = evaluations(first, second) if kind == EVALUATION else builds(first, second)
    differ = any(any(row[4:]) for row in tables["counts"].rows)
    return DiffReport(first.path, second.path, kind, differ, tables, config.exit_code)


def _open(name: str, workdir: Path) -> Artifact:
    """An artifact by its path, or by its name in the project."""
    places = [path_of("an artifact", name), workdir / name, workdir / RESULTS / name]
    if not (found := next(filter(Path.exists, places), None)):
        known = [path.name for path in artifacts(workdir)]
        if name in known:
            raise UsageError(
                f"{name} is not an evaluation", hint="ctxr eval A B --compare compares runs; then diff their results"
            )
        raise UnfinishedError(f"{name} does not exist", hint=did_you_mean(name, known, "check the path"))
    return open_artifact(found, (IMAGE_SETS, DATASET, EVALUATION))


def changes(
    things: Mapping[str, Sequence[Mapping[str, Any]]], cells: Sequence[Callable[[int, str], str]]
) -> dict[str, Table]:
    """How many things of each name are the same, came, went, changed; and the others, with what A (0) and B (1) say."""
    counts, tables = list[tuple[Any, ...]](), dict[str, Table]()
    for (what, (first, second)), cell in zip(things.items(), cells, strict=True):
        if not first and not second:
            continue
        fates = {name: "came" if name in second else "went" for name in first.keys() ^ second.keys()}
        fates |= {name: "changed" for name in first.keys() & second.keys() if first[name] != second[name]}
        number = Counter(fates.values())
        same = len(first) - number["went"] - number["changed"]
        counts.append((what, len(first), len(second), same, number["came"], number["went"], number["changed"]))
        rows = tuple((name, fates[name], cell(0, name), cell(1, name)) for name in sorted(fates))
        tables[what] = Table(f"{what} that differ", (what, "", "in A", "in B"), rows)
    return {"counts": Table("B next to A", ("", "A", "B", "same", "came", "went", "changed"), tuple(counts)), **tables}


def builds(first: Artifact, second: Artifact) -> dict[str, Table]:
    """Sets, images and queries of two artifacts, and what ledgers say of images in no set."""
    data = [read_dataset(one.path) for one in (first, second)]
    sets = [{one.id: (one.images, each.split_of(one) or "") for one in each.sets} for each in data]
    wanted = data[0].images.keys() | data[1].images.keys()
    fates = [_fates(one.path, each, wanted) for one, each in zip((first, second), data, strict=True)]
    queries = [_queries(each) for each in data]

    def of_set(at: int, name: str) -> str:
        images, split = sets[at].get(name, ((), ""))
        others, _ = sets[1 - at].get(name, ((), ""))
        if not images:
            why = Counter(fates[at].get(image, "–") for image in others)
            return ", ".join(f"{reason} {count}" for reason, count in why.most_common())
        if not others:
            return f"{plural(len(images), 'image')} {split}"
        return some(image for image in images if image not in others) or split

    def of_query(at: int, name: str) -> str:
        text, targets = queries[at].get(name, ("–", ()))
        return text if queries[1 - at].get(name, ("", ()))[0] != text else some(targets)

    images = [{name: row.sha256 for name, row in each.images.items()} for each in data]
    things: dict[str, list[Any]] = {"sets": sets, "images": images, "queries": queries}
    return changes(things, [of_set, lambda at, name: fates[at].get(name, "–"), of_query])


def _fates(folder: Path, dataset: Dataset, wanted: Set[str]) -> dict[str, str]:
    """The set of each image, or why the ledger says that it is in none."""
    fates, failures = dict[str, str](), folder / "failures.jsonl"
    for failure in read_table(failures, Failure) if failures.is_file() else ():
        lost = (name for name in wanted if name.startswith(f"{failure.source}/"))
        fates |= dict.fromkeys(lost, f"source failed: {failure.reason.replace('_', ' ')}")
    for source in unit_sources(folder):
        unit = read_unit(folder, source.name)
        for name, row in zip(ids_in_ledger(unit), unit.ledger, strict=True):
            if name in wanted and row.reason:
                fates[name] = row.reason.replace("_", " ") + (f" ({row.because}, {row.person})" if row.because else "")
    return fates | {name: one.id for one in dataset.sets for name in one.images}


def _queries(dataset: Dataset) -> dict[str, tuple[str, tuple[str, ...]]]:
    """The text and the targets of each query for an image."""
    targets = grouped((query.id, one.images[place]) for query, one, place in dataset.targets())
    asked = (query for query in dataset.queries.values() if query.labels is None)
    return {query.id: (dataset.text_of(query), tuple(sorted(targets[query.id]))) for query in asked}


def evaluations(first: Artifact, second: Artifact) -> dict[str, Table]:
    """Headline figures of the runs that both evaluate, or the only one of each, and how they differ on queries that both ask alike.

    Raises UsageError for different problems, and where it cannot be told which run to compare with which.
    """
    counts = first.manifest.counts, second.manifest.counts
    (problem, mine), (other, theirs) = ((one["problem"], one["names"]) for one in counts)
    if problem != other:
        sentence = f"{first.path} evaluates {problem}, and {second.path} {other}"
        raise UsageError(sentence, hint="compare two of one problem")
    pairs = {name: name for name in mine if name in theirs}
    if not pairs and len(mine) == len(theirs) == 1:
        pairs = {mine[0]: theirs[0]}
    if not pairs:
        sentence = f"no run is in both: {first.path} has {some(mine)}, and {second.path} {some(theirs)}"
        raise UsageError(sentence, hint="compare evaluations of one run each, or of the same runs")
    names = {pair: ", ".join(dict.fromkeys(pair)) for pair in pairs.items()}
    firsts, seconds = ({pair[at]: name for pair, name in names.items()} for at in (0, 1))
    before, after = _figures(first.path, firsts), _figures(second.path, seconds)
    answers, others = _answers(first.path, firsts), _answers(second.path, seconds)
    headline = [measure for measure, *_ in find_question(problem).evaluation.HEADLINE]
    known = [key for key in product(names.values(), ALL_SPLITS, headline) if key in before and key in after]
    tested = [row for key in known for row in _differences(key, answers, others, problem == "contextual")]
    compared = {(row.run, row.split, row.part): row for row in correct_together(tested)}
    rows = list[tuple[object, ...]]()
    for key in known:
        told: tuple[object, ...] = None, percent(Interval(after[key] - before[key]), signed=True), None
        if row := compared.get(key):
            told = row.queries, difference(row), p_value(row.corrected)
        rows.append((*key, f"{100 * before[key]:.1f}", f"{100 * after[key]:.1f}", *told))
    drawn = f"in brackets the {100 * LEVEL:g} % bootstrap interval over sets, or over targets of a gallery"
    note = f"B − A in points, on n queries with the same text and targets, {drawn}; {corrected_note(tested)}"
    heads = ("run", "split", "measure", "A %", "B %", "n", "B − A", "Holm")
    by_query = [
        grouped((row.query, (row.text, row.targets, row.accuracy)) for seeds in one.values() for row in seeds)
        for one in (answers, others)
    ]

    def of_query(at: int, query: str) -> str:
        own, other = by_query[at].get(query), by_query[1 - at].get(query)
        if own is None:
            return "–"
        alike = other and own[0][0] == other[0][0]
        return ", ".join(f"{accuracy:.2f}" for *_, accuracy in own) if alike else own[0][0]

    tables = changes({"queries": by_query}, [of_query])
    return {"counts": tables["counts"], "figures": Table("figures to report", heads, tuple(rows), note), **tables}


def _figures(folder: Path, names: Mapping[str, str]) -> dict[tuple[str, str, str], float]:
    """Figures over all queries of these runs, by the names that they are given, split and measure."""
    overall = [row for row in read_findings(folder).figures if (row.view, row.part) == ("overall", "all")]
    found = {(names[row.run], row.split, row.measure): row.interval.value for row in overall if row.run in names}
    return {key: value for key, value in found.items() if value is not None}


def _answers(folder: Path, names: Mapping[str, str]) -> Answers:
    """Results of the queries of these runs, by the names that they are given and what was asked."""
    rows = read_table(folder / PER_QUERY, QueryResult)
    of_runs = ((row, run) for row in rows for run in (row.run, row.run.rpartition("/seed")[0]) if run in names)
    return grouped(((names[run], row.split, row.query, row.text, row.targets), row) for row, run in of_runs)


def _differences(key: tuple[str, str, str], answers: Answers, others: Answers, sets: bool) -> list[RunDifference]:
    """By how much B is above A in a measure, with an interval over what is drawn again: sets where `sets` are asked about, or stand in
    the order of time; else targets. None for a measure that the results of queries do not give."""
    run, split, measure = key
    alike = sorted(asked for asked in answers.keys() & others.keys() if asked[:2] == (run, split))
    if not alike or measure not in OF_QUERIES:
        return []
    rows, columns = [answers[asked][0] for asked in alike], dict[str, RatioColumn]()
    groups = [
        row.image_set if SET_KINDS[row.kind].ordered or (sets and row.candidates) else " ".join(row.targets)
        for row in rows
    ]
    _, places, codes = np.unique([row.image_set for row in rows], return_index=True, return_inverse=True)
    for name, seeds in (("", answers), (run, others)):
        values = np.array([[getattr(row, OF_QUERIES[measure]) for row in seeds[asked]] for asked in alike])
        if measure == ALL_OF_SET:
            values = np.stack([all_right(seed, codes) for seed in values.T], axis=1)
        else:
            places = np.arange(len(alike))
        columns[name] = RatioColumn(places, values.mean(axis=1), np.ones(len(places)))
    draws = Summariser(split, groups, (0, ALL_SPLITS.index(split)), RESAMPLES, RESAMPLES, together=True)
    return draws.differences({measure: columns})

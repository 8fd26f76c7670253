"""`ctxr diff`: builds, datasets and evaluations next to each other, against what was counted by hand or by `ctxr eval --compare`."""

import json
import re
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from ctxr.cli import views
from ctxr.cli.app import app
from ctxr.cli.render import Summary
from ctxr.engine.report import Table
from ctxr.errors import DataError, UnfinishedError, UsageError
from ctxr.metrics.compare import Interval
from ctxr.pipelines.inspection.config import Diff, DiffReport
from ctxr.pipelines.inspection.diff import run
from ctxr.problems.figures import Figure
from ctxr.problems.results import Findings, QueryResult, read_findings
from ctxr.store.artifacts import finish
from ctxr.store.kinds import EVALUATION
from ctxr.store.records import ImageSet
from ctxr.store.tables import read_table
from tests.pipelines.evaluated import at_random, describe_sets, evaluate, release, right_on, write_scores
from tests.pipelines.world_dataset import write_world_dataset

runner = CliRunner()


def diff(first: Path | str, second: Path | str, **options: object) -> DiffReport:
    return run(Diff(artifacts=(str(first), str(second)), **options))  # type: ignore[arg-type]


def counts(report: DiffReport) -> dict[str, tuple[int, ...]]:
    return {row[0]: row[1:] for row in report.tables["counts"].rows}


def rows(table: Table) -> dict[str, tuple[str, ...]]:
    return {row[0]: row[1:] for row in table.rows}


def test_a_misspelt_name_is_told_the_nearest_artifact(project: Path) -> None:
    with pytest.raises(UnfinishedError) as refused:
        diff("sets", "filterd", workdir=project)
    assert refused.value.hint.endswith("mean filtered?")


def test_a_run_is_told_what_compares_runs(project: Path) -> None:
    shutil.copytree(project / "sets", project / "runs" / "mine")
    try:
        with pytest.raises(UsageError, match="mine") as refused:
            diff("sets", "mine", workdir=project)
    finally:
        shutil.rmtree(project / "runs")
    assert "--compare" in refused.value.hint


def test_two_builds_differ_by_what_the_ledger_says(project: Path) -> None:
    report = diff("sets", "filtered", workdir=project)
    before, after = (
        {one.id: one.images for one in read_table(project / name / "sets.jsonl", ImageSet)}
        for name in ("sets", "filtered")
    )
    came, went = after.keys() - before.keys(), before.keys() - after.keys()
    changed = {name for name in before.keys() & after.keys() if before[name] != after[name]}
    same = len(before) - len(went) - len(changed)
    assert counts(report)["sets"] == (len(before), len(after), same, len(came), len(went), len(changed))
    assert report.differ
    images = rows(report.tables["images"])
    gone = {image for one in before.values() for image in one} - {image for one in after.values() for image in one}
    assert gone == {name for name, (what, *_) in images.items() if what == "went"}
    assert {images[name][2] for name in gone} >= {"low quality"}
    assert all(images[name][1] in before for name in gone)
    assert "queries" not in counts(report)
    same_again = diff(project / "sets", project / "sets")
    assert not same_again.differ
    assert same_again.tables["sets"].rows == ()


def test_two_datasets_differ_by_texts_and_targets(tmp_path: Path) -> None:
    first = write_world_dataset(tmp_path / "a")
    shutil.copytree(first, tmp_path / "b")
    report = diff(first, tmp_path / "b")
    assert not report.differ
    assert counts(report)["queries"][0] > 0


def evaluations(tmp_path: Path) -> tuple[Path, Path, Path]:
    """Two evaluations of one run each, and one of both with --compare."""
    dataset = release(tmp_path / "release")
    good = write_scores(
        tmp_path / "good.jsonl", dataset, right_on(dataset, lambda query: "car" not in query), ("valid",)
    )
    poor = write_scores(tmp_path / "poor.jsonl", dataset, at_random(1), ("valid",))
    settings = {"resamples": 10_000, "permutations": 10_000}
    alone = [evaluate(dataset, one, split="valid", **settings).results for one in (poor, good)]
    both = evaluate(dataset, poor, good, split="valid", compare=True, **settings).results
    return alone[0], alone[1], both


def test_a_long_table_keeps_its_note_and_the_sides_are_named(tmp_path: Path) -> None:
    poor, good, _ = evaluations(tmp_path)
    report = diff(poor, good)
    figures = report.tables["figures"]
    summary, *shown = views.artifact_diff(replace(report, tables={"figures": replace(figures, rows=figures.rows * 30)}))
    assert isinstance(summary, Summary)
    assert summary.rows == {"A": poor, "B": good}
    (table,) = shown
    assert isinstance(table, Table)
    assert len(table.rows) == 20
    assert f"{30 * len(figures.rows) - 20} more" in table.note
    assert table.note.endswith(figures.note)
    assert "B − A" in table.columns
    # A and B are as they were typed
    turned = [row[6] for row in diff(good, poor).tables["figures"].rows]
    assert [row[6][0] for row in figures.rows] == ["+" if cell.startswith("-") else "-" for cell in turned]


def test_figures_of_two_evaluations_differ_as_compare_says(tmp_path: Path) -> None:
    poor, good, both = evaluations(tmp_path)
    report = diff(poor, good)
    (known,) = [row for row in read_findings(both).differences if row.part == "all"]
    (row,) = [row for row in report.tables["figures"].rows if row[2] == "accuracy"]
    assert row[:3] == ("poor, good", "valid", "accuracy")
    assert row[5] == known.queries
    assert row[6].startswith(f"{100 * (known.interval.value or 0):+.1f}")
    assert report.differ
    assert diff(good, good).differ is False


def test_intervals_are_those_of_compare(tmp_path: Path) -> None:
    dataset = write_world_dataset(tmp_path / "world")
    files = [
        write_scores(tmp_path / f"run{seed}.jsonl", dataset, at_random(seed), ("test", "valid", "train"))
        for seed in (1, 2)
    ]
    settings = {"resamples": 10_000, "permutations": 10_000}
    alone = [evaluate(dataset, one, **settings).results for one in files]
    both = evaluate(dataset, *files, compare=True, **settings).results
    figures = {row[1]: row for row in diff(*alone).tables["figures"].rows if row[2] == "accuracy"}
    known = [row for row in read_findings(both).differences if row.part == "all"]
    assert len(known) == len(figures) > 0
    for row in known:
        interval = row.interval
        told = f"{100 * (interval.value or 0):+.1f}"
        told += (
            f" ({100 * interval.low:+.1f} to {100 * (interval.high or 0):+.1f})" if interval.low is not None else " (–)"
        )
        assert figures[row.split][6].rstrip("*") == told


def made(folder: Path, problem: str, answers: dict[str, dict[str, float]], **figures: float) -> Path:
    """An evaluation whose runs answered queries of a gallery so; each query has a target of its own."""
    rows = [
        QueryResult(name, query, "test", "gallery", "photos", query, (f"p/{query}",), (), right, right, 0, 1, 1)
        for name, said in answers.items()
        for query, right in said.items()
    ]
    runs = dict.fromkeys(name.rpartition("/seed")[0] or name for name in answers)
    found = [
        Figure("test", run, "overall", "all", measure, len(rows), Interval(value))
        for run in runs
        for measure, value in figures.items()
    ]
    folder.mkdir()
    content = Findings(found, results=rows).write(folder)
    counts = {**content.counts, "problem": problem, "names": [*runs]}
    finish(folder, kind=EVALUATION, verb="eval", config={}, parents=[], content=content._replace(counts=counts))
    return folder


def test_galleries_are_drawn_by_target_seeds_are_averaged_and_what_queries_do_not_give_has_no_interval(
    tmp_path: Path,
) -> None:
    before = {f"q{number}": float(number % 2) for number in range(40)}
    after = {query: float(number % 4 != 0) for number, query in enumerate(before)}
    first = made(tmp_path / "a", "gallery", {"run": before}, **{"IR@1": 0.5, "TR@1": 0.5})
    second = made(
        tmp_path / "b",
        "gallery",
        {"run/seed0": after, "run/seed1": before, "run/seed2": after},
        **{"IR@1": 0.67, "TR@1": 0.4},
    )
    table = {row[2]: row for row in diff(first, second).tables["figures"].rows}
    assert table["IR@1"][3:6] == ("50.0", "67.0", 40)
    share = re.fullmatch(r"\+16\.7 \(\+(.*) to \+(.*)\)\*", table["IR@1"][6])
    assert share
    assert 6 < float(share[1]) < 16.7 < float(share[2]) < 28
    assert table["TR@1"][3:] == ("50.0", "40.0", None, "-10.0 (–)", None)
    other = made(tmp_path / "c", "links", {"run": before}, AUC=0.5)
    with pytest.raises(UsageError, match="links"):
        diff(first, other)


def test_mistakes_are_told(project: Path, tmp_path: Path) -> None:
    for given in ((), ("sets",), ("a", "b", "c")):
        with pytest.raises(UsageError, match=str(len(given))):
            run(Diff(artifacts=given))
    with pytest.raises(UnfinishedError, match="nowhere"):
        diff(project / "sets", "../nowhere")
    for name, told in (("", "empty"), ("s3://bucket/sets", "URL")):
        with pytest.raises(UsageError, match=told):
            diff(project / "sets", name)
    with pytest.raises(UsageError, match="dataset"):
        diff(project / "sets", describe_sets(project))
    (project / "sets" / "sets.jsonl").write_text("")
    with pytest.raises(DataError, match="changed"):
        diff(project / "sets", project / "filtered")


def test_runs_that_cannot_be_paired_are_named(tmp_path: Path) -> None:
    poor, _, both = evaluations(tmp_path)
    three = evaluate(
        tmp_path / "release", *(write_scores(tmp_path / f"{name}.jsonl", tmp_path / "release", at_random(3), ("valid",)) for name in "xy"),
        split="valid",
    )  # fmt: skip
    assert [row[0] for row in diff(both, poor).tables["figures"].rows][:1] == ["poor"]
    with pytest.raises(UsageError, match="poor"):
        diff(poor, three.results)


def test_the_view_fits_eighty_columns_and_a_script_gets_a_code(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    words = ["diff", "sets", "filtered", "-w", str(project)]
    done = runner.invoke(app, words)
    assert done.exit_code == 0
    assert max(map(len, done.stdout.splitlines())) <= 80 or str(project) in done.stdout
    assert runner.invoke(app, [*words, "--exit-code"]).exit_code == 5
    assert runner.invoke(app, ["diff", "sets", "sets", "-w", str(project), "--exit-code"]).exit_code == 0
    document = json.loads(runner.invoke(app, [*words, "--json"]).stdout)
    assert document["differ"] is True
    assert len(document["tables"]["images"]["rows"]) > 20

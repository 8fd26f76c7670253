"""What a result says of a run, and to do next."""

from dataclasses import replace
from pathlib import Path

import pytest
from rich.table import Table as Grid

from ctxr.cli import views
from ctxr.cli.render import Summary
from ctxr.engine.report import Table
from ctxr.pipelines.inspection.config import Check, DoctorReport
from ctxr.pipelines.modelling.config import SeedResult, TrainReport


def test_a_problem_that_the_doctor_found_has_its_cure_below_it() -> None:
    (grid,) = views.checks(DoctorReport((Check("disk", "problem", "full", "free space"), Check("torch", "ok", "")), 1))
    assert isinstance(grid, Grid)
    assert grid.row_count == 3


def test_a_run_shows_only_the_sides_that_were_judged_and_what_chose_its_epochs() -> None:
    seeds = (SeedResult(0, 2, 3, 0.5, None), SeedResult(1, 3, 3, 0.75, None))
    report = TrainReport(
        "e", Path("e"), "entailment", "x", "d", {"train": 7, "valid": 4}, seeds, 0.625, None, unit="pairs", judged_on=""
    )
    summary, table = views.training(report)
    assert isinstance(summary, Summary)
    assert isinstance(table, Table)
    assert (summary.rows["pairs"], "queries" in summary.rows) == ("7 train, 4 valid", False)
    assert (table.columns, table.note) == (("seed", "epoch", "of", "valid"), "")
    assert [row[3] for row in table.rows] == [50.0, 75.0, 62.5, pytest.approx(100 * 2**-0.5 / 4)]
    tested = tuple(replace(seed, test=0.5) for seed in seeds)
    summary, table = views.training(replace(report, unit="queries", seeds=tested, test=0.5, judged_on="test"))
    assert isinstance(summary, Summary)
    assert isinstance(table, Table)
    assert summary.rows["queries"] == "7 train, 4 valid"
    assert table.columns == ("seed", "epoch", "of", "valid", "test")
    assert table.note.startswith("test chooses")

"""What a result says of a run, and to do next."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rich.table import Table as Grid

from ctxr.annotation.config import ExportTasksReport
from ctxr.annotation.cost import Offer
from ctxr.cli import views
from ctxr.cli.render import Summary
from ctxr.engine.report import Table
from ctxr.pipelines.curation.config import RebuildReport, VerifyReport
from ctxr.pipelines.inspection.config import Check, DoctorReport
from ctxr.pipelines.modelling.config import ListenReport, RegionsReport, SeedResult, TrainReport
from ctxr.pipelines.sharing.config import ExportReport

MADE = {"sets": 3, "images": 30, "queries": 9, "splits": {"train": 3}, "equal": 30, "different": 0, "failed": 0}


def exported(to: str) -> ExportReport:
    return ExportReport(Path("work/export"), Path("work/dataset"), to, False, MADE, [], [])


def verified(kind: str, differences: list[dict[str, Any]]) -> VerifyReport:
    return VerifyReport(Path("my sets"), kind, 30, 30, differences, [], {}, "")


def listened(complete: bool) -> ListenReport:
    return ListenReport(Path("p/runs/m"), "d", "m", 9, 9, 9, complete, False, False, {}, 1, 1, 0.0, 0, 0.5)


DIFFERENT = {"id": "a", "what": "pixels", "message": "other", "distance": None}


@pytest.mark.parametrize(
    ("view", "report", "wanted"),
    [
        (views.export, exported("recipe"), "ctxr rebuild work/export --videos DIR"),
        (views.export, exported("hf"), "complete the card"),
        (
            views.rebuilt,
            RebuildReport(Path("work/rebuilt"), Path("r"), False, MADE, [], []),
            "ctxr report --input work/rebuilt",
        ),
        (views.verified, verified("image_sets", []), "ctxr export --to recipe --input 'my sets'"),
        (views.verified, verified("recipe", []), "ctxr rebuild 'my sets' --videos DIR"),
        (views.verified, verified("recipe", [DIFFERENT]), None),
        (
            views.regions,
            RegionsReport(Path("work/regions/grid"), "d", "grid:ctxr-tiny", 30, 37, 64),
            "ctxr train --recipe uniter-batch --set regions=grid",
        ),
        (views.listening, listened(True), "ctxr eval m -w p"),
        (views.listening, listened(False), None),
    ],
)
def test_a_result_ends_with_the_next_command_unless_something_is_wrong(
    view: Any, report: Any, wanted: str | None
) -> None:
    (summary,) = [block for block in view(report) if isinstance(block, Summary)]
    step = summary.rows["next"]
    assert step == wanted or str(step).startswith(f"{wanted},")
    assert bool(report.finding) is (wanted is None)


@pytest.mark.parametrize(
    ("backend", "launched", "offer", "after"),
    [
        ("label-studio", 0, None, "ctxr import-answers FILE --from label-studio "),
        ("prolific", 0, Offer(3, 10, 150, "GBP", 450), "the same command"),
        ("prolific", 1, None, "ctxr serve"),
    ],
)
def test_tasks_lead_on_by_their_backend(backend: str, launched: int, offer: Offer | None, after: str) -> None:
    report = ExportTasksReport(Path("work/tasks/tag"), "tag", backend, False, 9, 18, 2, [], launched, [], offer)
    (summary,) = views.tasks(report)
    assert isinstance(summary, Summary)
    assert str(summary.rows["next"]).startswith(after)
    assert (summary.rows["offered"] is None) == (offer is None)


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

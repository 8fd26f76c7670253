"""What a result says to do next."""

from pathlib import Path
from typing import Any

import pytest

from ctxr.cli import views
from ctxr.cli.render import Summary
from ctxr.pipelines.curation.config import RebuildReport, VerifyReport
from ctxr.pipelines.modelling.config import ListenReport, RegionsReport
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
    assert bool(report.exit_code) is (wanted is None)

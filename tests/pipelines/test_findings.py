"""Exit codes are decided in the reports, so that callers from Python see what the command line shows."""

from pathlib import Path
from typing import get_type_hints

import pytest

from ctxr.cli.commands import COMMANDS
from ctxr.cli.verbs import Command, named
from ctxr.engine.report import VerbReport
from ctxr.errors import CtxrError, FindingsError, PartialError
from ctxr.metrics.shortcuts import Verdict
from ctxr.pipelines.crowd.config import AggregateReport
from ctxr.pipelines.curation.config import RebuildReport, VerifyReport
from ctxr.pipelines.inspection.config import Check, DoctorReport, ShortcutsReport
from ctxr.pipelines.modelling.config import ListenReport

HERE = Path("work/x")


def aggregated(*violations: str) -> VerbReport:
    return AggregateReport(HERE, HERE, False, {}, {}, not violations, violations, {}, {}, ())


def rebuilt(**left_out: int) -> VerbReport:
    return RebuildReport(HERE, HERE, False, {"sets": 3, "images": 30} | left_out, [], [])


def verified(differences: int, unproven: tuple[str, ...] = ()) -> VerbReport:
    return VerifyReport(HERE, "recipe", 30, 30, [{"id": "a"}] * differences, [*unproven], {}, "")


def audited(*flagged: bool) -> VerbReport:
    verdicts = [Verdict("first", "all", 9, 0.5, 0.4, 0.6, 0.1, 0.01, flagged=one) for one in flagged]
    return ShortcutsReport("d", 9, tuple(verdicts), ())


def listened(complete: bool, dry_run: bool = False) -> VerbReport:
    return ListenReport(HERE, "d", "m", 9, 9, 5, complete, dry_run, False, {}, 1, 1, 0.0, 0, 0.5)


def checked(*states: str) -> VerbReport:
    return DoctorReport(tuple(Check(state, state, "", f"mend {state}") for state in states), states.count("problem"))


@pytest.mark.parametrize(
    ("report", "code", "kind", "words"),
    [
        (aggregated(), 0, None, ""),
        (aggregated("w-1 met its images", "w-2 too"), 5, FindingsError, "2 violations .*: w-1 met its images"),
        (rebuilt(), 0, None, ""),
        (rebuilt(sets_left_out=0, images_left_out=2), 0, None, ""),
        (rebuilt(sets_left_out=2), 4, PartialError, "2 of 5 sets"),
        (verified(0), 0, None, ""),
        (verified(1), 5, FindingsError, "1 image changed, 0 could"),
        (verified(0, ("b", "c")), 5, FindingsError, "0 images changed, 2 could"),
        (audited(False, False), 0, None, ""),
        (audited(True, False), 5, FindingsError, "1 shortcut .*: first on all"),
        (listened(complete=True), 0, None, ""),
        (listened(complete=False), 4, PartialError, "--max-cost.*: 5 of 9 requests"),
        (listened(complete=False, dry_run=True), 0, None, ""),
        (checked("ok", "note"), 0, None, ""),
        (checked("ok", "problem"), 5, FindingsError, "1 problem"),
    ],
)
def test_a_report_says_what_its_run_found(
    report: VerbReport, code: int, kind: type[CtxrError] | None, words: str
) -> None:
    assert (report.finding.exit_code if report.finding else 0) == code
    if kind is None:
        assert report.finding is None
    else:
        with pytest.raises(kind, match=words) as raised:
            raise report.finding or AssertionError
        assert raised.value.hint


@pytest.mark.parametrize("command", COMMANDS.values(), ids=COMMANDS)
def test_every_command_returns_a_report(command: Command) -> None:
    assert issubclass(get_type_hints(named(f"{command.module}:run"))["return"], VerbReport)

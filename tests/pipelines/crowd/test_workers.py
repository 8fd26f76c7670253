import json
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from typer.testing import CliRunner

from ctxr.annotation.cost import Offer
from ctxr.annotation.journal.identities import Identities, Visit
from ctxr.annotation.journal.journal import open_journal
from ctxr.annotation.journal.results import UnpaidWait
from ctxr.annotation.owed import owed_table
from ctxr.annotation.project_journal import journal_of, project_journal, remember
from ctxr.annotation.protocol import Protocol
from ctxr.annotation.pseudonyms import PRIVATE, pseudonym, read_key
from ctxr.annotation.records import Answer
from ctxr.cli.app import app
from ctxr.engine.history import recorded
from ctxr.errors import DryRun, UnfinishedError, UsageError
from ctxr.pipelines.crowd.config import Plan, Workers
from ctxr.pipelines.crowd.plan import run as plan
from ctxr.pipelines.crowd.workers import run
from tests.annotation.crowd_units import unit
from tests.pipelines.crowd.answered import crowd, write
from tests.pipelines.report_artifacts import project

NOW = datetime(2026, 1, 2, tzinfo=UTC)


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project whose answers were imported already; its journal knows the workers and holds no answer."""
    work = project(tmp_path_factory.mktemp("project") / "work", videos=3, sets=4, photos=12)
    answered = crowd(work / "filtered", Protocol())
    write(work, answered)
    return work


@pytest.fixture
def known(work: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The same with a fresh journal, and no import before the workers are shown."""
    monkeypatch.setattr("ctxr.pipelines.crowd.workers.merge_journal", lambda workdir, *_: workdir / "judgments")
    file = work / "crowd" / "answers.sqlite"
    file.unlink(missing_ok=True)
    journal = open_journal(file)
    for name in ("w-spammer", "w-hasty"):
        journal.enrol(name, "local", NOW)
    journal.close()
    return work


def test_blocking_has_a_reason_is_seen_and_can_be_taken_back(known: Path) -> None:
    blocked = run(Workers(workdir=known, block=("w-spammer",), reason="picks at random"))
    assert {row.worker for row in blocked.workers if row.blocked} == {"w-spammer"}
    assert blocked.changed == ("blocked w-spammer: now blocked",)
    assert [(one.after, one.reason, one.undone) for one in blocked.changes] == [("blocked", "picks at random", False)]
    back = run(Workers(workdir=known, undo=("w-spammer",), reason="looked again"))
    assert not any(row.blocked for row in back.workers)
    assert back.changes[0].undone


def test_the_list_says_how_many_agreed_to_which_version_of_the_consent(known: Path) -> None:
    assert run(Workers(workdir=known)).consents.rows == ()
    with project_journal(known, read_only=False) as journal:
        assert journal is not None
        for worker, version, language in (("w-spammer", "0a", "en"), ("w-hasty", "0a", "ar"), ("w-hasty", "1b", "ar")):
            journal.agree(worker, version, language, NOW + timedelta(days=version == "1b"))
    assert run(Workers(workdir=known)).consents.rows == (("0a", "ar", 1), ("0a", "en", 1), ("1b", "ar", 1))
    shown = CliRunner().invoke(app, ["workers", "-w", str(known)])
    assert "Consent" in shown.output
    assert shown.output.count("0a") == 2


def test_a_dry_run_names_who_would_be_blocked_and_changes_nothing(known: Path) -> None:
    config = Workers(workdir=known, block=("w-spam",), reason="x")
    with recorded(config, dry_run=True), pytest.raises(DryRun) as ended:
        run(config)
    assert ended.value.plan == {"w-spammer": "blocked"}
    assert run(Workers(workdir=known)).changes == ()


def test_a_change_without_a_reason_or_of_a_stranger_changes_nothing(known: Path) -> None:
    with pytest.raises(UsageError, match="need a reason"):
        run(Workers(workdir=known, block=("w-spammer",)))
    with pytest.raises(UsageError, match="called 'w-nobody'"):
        run(Workers(workdir=known, block=("w-spammer", "w-nobody"), reason="both"))
    assert run(Workers(workdir=known)).changes == ()


def test_a_worker_can_be_named_by_a_beginning_or_by_an_invitation(known: Path) -> None:
    bob = pseudonym(read_key(known / "crowd" / PRIVATE), "local", "team/Bob")
    with project_journal(known, read_only=False) as journal:
        assert journal is not None
        journal.enrol(bob, "local", NOW)
    assert run(Workers(workdir=known, block=("w-spam",), reason="x")).changed == ("blocked w-spammer: now blocked",)
    assert run(Workers(workdir=known, block=("Bob",), reason="x")).changed == (f"blocked {bob}: now blocked",)
    with pytest.raises(UsageError, match="in two ways"):
        run(Workers(workdir=known, block=("Bob",), allow=("Bob",), reason="x"))


def test_the_list_reads_well_as_text_and_as_json(known: Path) -> None:
    shown = CliRunner().invoke(app, ["workers", "-w", str(known), "--block", "w-hasty", "--reason", "a trial"])
    assert shown.exit_code == 0, shown.output
    assert "blocked w-hasty: now blocked" in shown.stdout
    assert "active → blocked by requester: a trial" in shown.stdout
    told = json.loads(CliRunner().invoke(app, ["workers", "-w", str(known), "--json"]).stdout)
    assert {row["worker"] for row in told["workers"] if row["suggestion"] == "block"} == {"w-spammer"}


def test_what_each_worker_is_owed_is_a_table_in_a_currency(tmp_path: Path) -> None:
    plan(Plan(workdir=project(tmp_path), retrieve_reward=12))
    studied = tmp_path / "tasks" / "describe" / "prolific"
    studied.mkdir(parents=True)
    (studied / "offer.json").write_text(json.dumps(asdict(Offer(3, 5, 375, "GBP", 1125))))
    # one ended with all, one with few, one with none; one was stopped, one goes on, one was returned after its code
    people = Identities(tmp_path / "crowd" / "private", bytes(32))
    for worker, ending in zip("bcdefg", ("complete",) * 3 + ("stopped", "", "complete"), strict=True):
        visit = Visit(f"s-{worker}", worker, "study", f"w-{worker}", "describe", 0, NOW)
        people.come(visit, timedelta(hours=1))
        people.end(visit.submission, ending)
    people.close()
    units = {task: unit(task, id=task) for task in ("describe", "retrieve", "tag")}

    def given(worker: str, task: str, backend: str) -> Answer:
        return Answer(task, worker, {}, (), 0, "2026-01-01T00:00:00Z", 9.0, backend)

    answers = [given("w-a", task, "local") for task in units] + [given("w-b", "describe", "prolific")] * 20
    answers += [given("w-c", "describe", "prolific")] * 7 + [given("w-f", "describe", "prolific")]
    waits = [UnpaidWait(worker, "talk", "nobody_came", 90.0, "") for worker in ("w-a", "w-b", "w-h")]
    platforms = {"w-a": "local", "w-b": "prolific", "w-h": "local"}
    table = owed_table(tmp_path, units, answers, waits, platforms, unpaid=("w-g",))
    assert table.columns == ("worker", "platform", "answers", "minutes waited", "owed", "currency")
    assert table.rows == (
        ("w-a", "local", 3, 1.5, 0.67, "USD"),
        ("w-b", "prolific", 20, 1.5, 3.98, "GBP"),  # the reward, and 1.5 minutes at 9 pounds an hour
        ("w-c", "prolific", 7, 0.0, 3.75, "GBP"),
        ("w-d", "prolific", 0, 0.0, 3.75, "GBP"),
        ("w-e", "prolific", 0, 0.0, 3.75, "GBP"),
        ("w-f", "prolific", 1, 0.0, 0.0, "GBP"),
        ("w-h", "local", 0, 1.5, 0.20, "USD"),
    )


def test_an_answer_that_no_plan_prices_earns_at_least_the_minimum_for_its_time(tmp_path: Path) -> None:
    units = {task: unit(task, id=task) for task in ("dialogue", "retrieve", "tag")}
    times = {"dialogue": 300.0, "retrieve": 20.0, "tag": None}
    answers = [Answer(task, "w-a", {}, (), 0, "2026-01-01T00:00:00Z", times[task], "local") for task in units]
    cents = [owed_table(tmp_path, units, answers[:count], (), {}).rows[0][4] for count in (1, 2, 3)]
    assert cents == [0.67, 0.77, 0.87]  # 8 dollars an hour for 5 minutes, then 10 cents each


def test_before_anybody_answered_there_is_nobody(tmp_path: Path) -> None:
    with pytest.raises(UnfinishedError, match="no finished tasks") as caught:
        run(Workers(workdir=tmp_path))
    assert caught.value.hint.startswith("ctxr export-tasks describe")
    with pytest.raises(UnfinishedError, match="no journal"):
        run(Workers(workdir=tmp_path, block=("w",), reason="x"))


def test_a_database_that_was_served_once_is_never_passed_over(tmp_path: Path) -> None:
    elsewhere = f"sqlite:///{tmp_path / 'elsewhere.sqlite'}"
    open_journal(elsewhere).close()
    remember(tmp_path, elsewhere)
    assert journal_of(tmp_path) == elsewhere
    remember(tmp_path, "postgresql://me:secret@host/crowd")
    assert "secret" not in (tmp_path / "crowd" / "database").read_text()
    with pytest.raises(UsageError, match=r"are in postgresql\S*://me:\*\*\*@host/crowd") as caught:
        run(Workers(workdir=tmp_path))
    assert "PASSWORD@host/crowd" in caught.value.hint
    with pytest.raises(UsageError, match="not an address"):
        journal_of(tmp_path, "foo")

"""People whom Prolific does not confirm: what they did is given to others, and everybody is told."""

from dataclasses import replace
from pathlib import Path

import pytest

from ctxr.annotation.answers import run
from ctxr.annotation.artifacts import read_judgments
from ctxr.annotation.config import ExportTasks
from ctxr.annotation.confirmation import readmit, unconfirmed
from ctxr.annotation.platforms.prolific import Submission, standings
from ctxr.engine.progress import Silent
from ctxr.pipelines.crowd.aggregate import run as aggregate
from ctxr.pipelines.crowd.config import Aggregate, Plan, Serve, Workers
from ctxr.pipelines.crowd.export_tasks import run as export_tasks
from ctxr.pipelines.crowd.plan import run as plan
from ctxr.pipelines.crowd.serve import open_site
from ctxr.pipelines.crowd.workers import run as workers
from tests.annotation.journal.study import START, after, state_of
from tests.annotation.platforms.participants import came, give, listing, participant, served
from tests.pipelines.report_artifacts import project

STATES = {"AWAITING REVIEW": "paid", "RETURNED": "over", "REJECTED": "over", "TIMED-OUT": "over", "ACTIVE": "yet"}


@pytest.mark.parametrize(("status", "kind"), STATES.items())
def test_a_submission_is_paid_over_or_not_yet_either(status: str, kind: str) -> None:
    told = standings({"s": Submission("s", status, "p")}, [came("s", "p")], after(9))
    assert told == {"paid": {"w-p": ""}, "over": {"w-p": f"The submission is {status.lower()}."}, "yet": {}}[kind]


def test_only_a_list_that_should_have_a_submission_can_lack_it() -> None:
    listed = {"s": Submission("s", "APPROVED", "p")}
    visits = [came("s", "p"), came("x", "invented", 5), came("y", "late", 9), replace(came("z", "q"), door="review")]
    told = standings(listed, visits, after(7))
    assert (set(told), told["w-p"]) == ({"w-p", "w-invented"}, "")
    assert " not list " in told["w-invented"]


def test_one_of_several_submissions_suffices_and_one_that_goes_on_is_waited_for() -> None:
    visits = [came("s1", "p"), came("s2", "p", 5)]
    for states, told in (
        (("RETURNED", "APPROVED"), [""]),
        (("APPROVED", "RETURNED"), [""]),
        (("RETURNED", "ACTIVE"), []),
        (("RETURNED", "TIMED-OUT"), ["timed-out."]),
    ):
        rows = {f"s{number}": Submission(f"s{number}", state, "p") for number, state in enumerate(states, 1)}
        assert [problem.split(" ")[-1] for problem in standings(rows, visits, after(9)).values()] == told


@pytest.fixture
def work(tmp_path: Path) -> Path:
    """A study of descriptions on Prolific."""
    work = project(tmp_path / "work", videos=2, sets=2, photos=0)
    config = ExportTasks(task="describe", workdir=work, targets=2, disjoint="none", backend="prolific")
    export_tasks(replace(config, server="https://crowd.example.org", reward=300))
    return work


def test_what_is_not_confirmed_is_asked_of_others_and_what_was_built_on_it_no_more(
    work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal = served(work)
    good, gone, invented, voter, late = (participant(work, journal, name) for name in ("a", "b", "c", "d", "e"))
    kept = give(journal, good, "describe", 2)
    freed = give(journal, gone, "describe", 3) + give(journal, invented, "describe")
    assert len(kept + freed) == journal.progress()["describe"].units
    assert not give(journal, late, "describe")
    first = give(journal, voter, "retrieve", 1)
    journal.close()

    report = run(listing(work, a="APPROVED", b="RETURNED", d="APPROVED", e="APPROVED"))
    journal = served(work)
    assert report.unconfirmed.startswith(f"{len(freed)} answers of 2 workers ")
    assert f" {len(freed)} describe" in report.unconfirmed
    assert {state.worker for state in unconfirmed(journal)} == {gone, invented}
    (reason,) = {row.reason for row in journal.changes(gone)}
    assert reason.endswith(" returned.")
    assert {answer.unit for answer in read_judgments(work / "judgments").answers} <= {*kept, *first}

    # others are told before they are asked
    (work / "study").mkdir()
    (work / "study" / "consent.md").write_text("# Consent\n\nada@example.org\n")
    said: list[str] = []
    progress = Silent()
    monkeypatch.setattr(progress, "warn", said.append)
    site = open_site(Serve(workdir=work, languages="en"), "http://x", progress).site
    site.journal.close()
    site.identities.close()
    assert said == [report.unconfirmed]
    assert report.unconfirmed in plan(Plan(workdir=work)).notes
    assert report.unconfirmed in aggregate(Aggregate(workdir=work, resamples=20)).notes

    # whoever votes now votes on what was confirmed
    voted = give(journal, participant(work, journal, "f"), "retrieve")
    written = {answer.unit: answer.worker for answer in journal.answers()}
    with journal._reading() as tx:
        authors: dict[str, str] = dict(
            tx.connection.exec_driver_sql("SELECT unit, worker FROM crowd_author").fetchall()
        )
    assert voted
    assert {authors[name] for name in voted} == {good}
    assert sorted(give(journal, late, "describe")) == sorted(freed)
    assert written.keys() >= {*kept, *freed}
    journal.close()
    again = run(listing(work, a="APPROVED", b="RETURNED", d="APPROVED", e="APPROVED", f="APPROVED"))
    assert again.unconfirmed
    taken = {(row.unit, row.worker) for row in read_judgments(work / "judgments").answers}
    assert taken >= {(name, late) for name in freed} | {(name, good) for name in kept}


def test_a_later_list_or_another_submission_ends_it_and_a_person_decides_last(work: Path) -> None:
    journal = served(work)
    one, two, three = (participant(work, journal, name) for name in ("a", "b", "c"))
    given = give(journal, one, "describe", 3)
    journal.change(three, "allowed", "a colleague", "lead", START)
    run(listing(work, a="REJECTED", b="RETURNED", c="RETURNED"))
    assert [state_of(journal, worker).state for worker in (one, two, three)] == ["blocked", "blocked", "active"]
    readmit(journal, two, after(61))
    readmit(journal, three, after(61))
    assert [state.worker for state in unconfirmed(journal)] == [one]
    report = run(listing(work, a="APPROVED", b="ACTIVE", c="RETURNED"))
    assert (report.new, report.unconfirmed) == (3, "")
    assert state_of(journal, one).state == "active"
    assert journal.progress()["describe"].open == journal.progress()["describe"].units - len(given)
    workers(Workers(workdir=work, block=(one,), reason="copies"))
    run(listing(work, a="APPROVED", b="ACTIVE", c="RETURNED"))
    assert state_of(journal, one).state == "blocked"  # a person's word is no list's to undo
    assert unconfirmed(journal) == []
    journal.close()


def test_what_was_taken_before_counts_no_more_once_it_is_rejected(work: Path) -> None:
    journal = served(work)
    worker = participant(work, journal, "a")
    give(journal, worker, "describe", 2)
    assert run(listing(work, a="AWAITING REVIEW")).new == 2
    report = run(listing(work, a="REJECTED"))
    assert report.reasons == {"rejected_since": 2}
    assert journal.blocked() == (worker,)
    assert aggregate(Aggregate(workdir=work, resamples=20)).counts["dropped"] == {"writer_blocked": 2}
    journal.close()

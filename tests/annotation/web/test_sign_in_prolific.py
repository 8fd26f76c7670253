"""People from Prolific: in by a submission, out by the code that pays it, each once."""

import sqlite3
from datetime import timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest
from starlette.testclient import TestClient

from ctxr.annotation.confirmation import apply_standings, ask_to_withdraw
from ctxr.annotation.web.site import Study
from tests.annotation.web.conftest import MakeCrowd
from tests.annotation.web.crowd import UNITS, Crowd
from tests.annotation.web.reading import HtmlReader, read

PERSON, OTHER = "5f0c1e2d3a4b5c6d7e8f9012", "5f0c1e2d3a4b5c6d7e8f9099"
STUDY = "66aa0e2d3a4b5c6d7e8f9012"
ENTAIL = [msgspec.structs.replace(UNITS["entail"], id=f"u-entail-{number}") for number in range(6)]
RETURN = "https://app.prolific.com/submissions/complete?cc="


def pays(code: str = "C1DONE", bundle: int = 2, tasks: tuple[str, ...] = ("entail",), **more: Any) -> Study:
    return Study(lambda: {"COMPLETED": code, "FAILED_ATTENTION_CHECK": f"{code}BAD"}, bundle, tasks, **more)


def entry(door: str = "pilot", person: str = PERSON, visit: str = "a") -> str:
    return f"/p/{door}?PROLIFIC_PID={person}&STUDY_ID={STUDY}&SESSION_ID=77bb0e2d3a4b{visit}"


def sent(visitor: TestClient, page: Any, count: int = 1) -> Any:
    """The page after so many answers."""
    for _ in range(count):
        page = read(page).form().send(visitor, verdict="neutral")
    return page


def code_of(page: Any) -> str:
    """The completion code that a page shows; empty for none."""
    found = [link.removeprefix(RETURN) for link in read(page).links if link.startswith(RETURN)]
    assert all(f"<code>{one}</code>" in page.text for one in found)
    return "".join(found)


def test_a_participant_gets_the_code_after_the_commit_and_never_before(make_crowd: MakeCrowd, tmp_path: Path) -> None:
    crowd = make_crowd(*ENTAIL, studies={"pilot": pays()})
    visitor = crowd.visitor()
    pages = [visitor.get(entry())]
    for _ in range(2):
        pages.append(sent(visitor, pages[-1]))
    assert [code_of(page) for page in pages] == ["", "", "C1DONE"]
    assert ["C1DONE" in page.text for page in pages] == [False, False, True]
    assert code_of(crowd.visitor().get(entry())) == "C1DONE"
    assert {answer.backend for answer in crowd.site.journal.answers()} == {"prolific"}
    assert PERSON.encode() not in b"".join(file.read_bytes() for file in tmp_path.glob("*/answers.sqlite*"))
    (private,) = tmp_path.glob("*/private/identities.sqlite")
    worker = crowd.site.pseudonym("prolific", PERSON)
    assert sqlite3.connect(private).execute("SELECT * FROM identity").fetchall() == [(worker, "prolific", PERSON)]


def test_each_study_pays_for_answers_of_its_own(make_crowd: MakeCrowd) -> None:
    crowd = make_crowd(*ENTAIL, studies={"a": pays("CODEA"), "b": pays("CODEB")})
    visitor = crowd.visitor()
    assert code_of(sent(visitor, visitor.get(entry("a")), 2)) == "CODEA"
    again = crowd.visitor()
    page = again.get(entry("b", visit="b"))
    assert code_of(page) == ""
    assert HtmlReader(page.text).form().offered["verdict"]
    assert code_of(sent(again, page)) == ""
    assert code_of(again.get(entry("a"))) == "CODEA"
    assert code_of(sent(again, again.get(entry("b", visit="b")))) == "CODEB"


def test_a_study_gives_its_own_tasks_and_asks_its_own_bundle(make_crowd: MakeCrowd) -> None:
    studies = {"entail": pays(bundle=1), "review": pays(bundle=1, tasks=("review",))}
    crowd = make_crowd(*ENTAIL, UNITS["review"], UNITS["describe"], studies=studies)
    for door in ("entail", "review"):
        for number in range(3 if door == "entail" else 1):
            visitor = crowd.visitor()
            visitor.get(entry(door, f"{PERSON}{door}{number}", f"{door}{number}"))
    assert {task: one.leases for task, one in crowd.site.journal.progress().items()} == {
        "describe": 0,
        "entail": 3,
        "review": 1,
    }
    visitor = crowd.visitor()
    page = visitor.get(entry("entail"))
    assert "0 of 1" in " ".join(page.text.split())
    assert code_of(sent(visitor, page)) == "C1DONE"


def test_who_comes_when_nothing_is_left_is_paid_for_coming(make_crowd: MakeCrowd) -> None:
    crowd = make_crowd(ENTAIL[0], studies={"pilot": pays(bundle=1)})
    early, late = crowd.visitor(), crowd.visitor()
    page = early.get(entry())
    assert read(late.get(entry(person=OTHER, visit="b"))).headline == "A short wait"
    sent(early, page)
    assert code_of(late.get("/next")) == "C1DONE"
    assert crowd.site.journal.done_by(crowd.site.pseudonym("prolific", OTHER)) == 0


def test_who_is_stopped_gets_the_code_for_that(make_crowd: MakeCrowd) -> None:
    crowd = make_crowd(*ENTAIL, studies={"pilot": pays()})
    visitor = crowd.visitor()
    sent(visitor, visitor.get(entry()))
    crowd.site.journal.change(crowd.site.pseudonym("prolific", PERSON), "blocked", "spam", "lead", crowd.clock.now)
    assert code_of(visitor.get("/next")) == "C1DONEBAD"


def test_who_withdrew_is_paid_and_then_never_stored_again(make_crowd: MakeCrowd, tmp_path: Path) -> None:
    crowd = make_crowd(*ENTAIL, studies={"pilot": pays(bundle=9)})
    visitor = crowd.visitor()
    sent(visitor, visitor.get(entry()))
    worker = crowd.site.pseudonym("prolific", PERSON)
    ask_to_withdraw(crowd.site.journal, worker, crowd.clock.now)
    another = crowd.visitor().get(entry(visit="b"))
    assert ("return your submission" in another.text, [visit.ending for visit in crowd.visits()]) == (True, [""])
    assert code_of(crowd.visitor().get(entry())) == "C1DONE"
    crowd.site.journal.withdraw(worker, "lead", crowd.clock.now, lambda _: None, paid=True)
    crowd.site.identities.forget(worker, paid=True)
    for guest in (crowd.visitor(), visitor):
        assert read(guest.get(entry())).headline.startswith("You have withdrawn ")
    assert (crowd.visits(), crowd.site.identities.knows(worker)) == ([], False)
    assert PERSON.encode() not in b"".join(file.read_bytes() for file in tmp_path.glob("*/private/*"))


def test_who_was_not_confirmed_may_come_with_another_submission(make_crowd: MakeCrowd) -> None:
    crowd = make_crowd(*ENTAIL, studies={"pilot": pays()})
    visitor = crowd.visitor()
    sent(visitor, visitor.get(entry()))
    apply_standings(crowd.site.journal, {crowd.site.pseudonym("prolific", PERSON): "It was returned."}, crowd.clock.now)
    assert code_of(crowd.visitor().get(entry())) == "C1DONEBAD"
    assert read(crowd.visitor().get(entry(visit="b"))).form().offered["verdict"]


def test_a_code_that_nobody_knows_yet_is_waited_for_and_not_made_up(make_crowd: MakeCrowd) -> None:
    codes: dict[str, str] = {}
    crowd = make_crowd(*ENTAIL, studies={"pilot": Study(lambda: codes, 1, ("entail",))})
    visitor = crowd.visitor()
    page = sent(visitor, visitor.get(entry()))
    assert "not available yet" in page.text
    assert "<code>" not in page.text
    codes["COMPLETED"] = "C2LATE"
    assert code_of(visitor.get("/next")) == "C2LATE"


def test_a_visit_is_recorded_before_anything_is_shown(make_crowd: MakeCrowd) -> None:
    crowd = make_crowd(*ENTAIL, studies={"pilot": pays()})
    crowd.visitor().get(entry(), follow_redirects=False)
    (visit,) = crowd.visits()
    assert (visit.participant, visit.study, visit.door) == (PERSON, STUDY, "pilot")
    assert crowd.site.journal.progress()["entail"].leases == 0


def leased(crowd: Crowd) -> int:
    return crowd.site.journal.progress()["entail"].leases


def test_a_participants_id_alone_does_not_open_their_unit(make_crowd: MakeCrowd) -> None:
    crowd = make_crowd(*ENTAIL, studies={"pilot": pays(lasts=timedelta(hours=1))})
    owner, thief = crowd.visitor(), crowd.visitor()
    page = owner.get(entry())
    refused = thief.get(entry(visit="z"))
    assert (refused.status_code, read(refused).headline.endswith("be opened")) == (403, True)
    assert thief.get(entry(person=OTHER)).status_code == 403
    assert "a personal link" in thief.get("/next").text
    assert len(crowd.visits()) == leased(crowd) == 1
    assert crowd.visitor().get(entry()).url == page.url  # the same submission, in another browser of theirs
    assert read(owner.get(entry(visit="b"))).form()  # who gave the first one back on Prolific has a new one
    old = crowd.visitor()
    assert old.get(entry()).status_code == 403
    crowd.clock.pass_by(61)
    assert thief.get(entry(visit="c")).status_code == 200


def test_new_submissions_of_one_address_are_counted(make_crowd: MakeCrowd) -> None:
    crowd = make_crowd(*ENTAIL, studies={"pilot": pays()}, rate=1000)
    crowd.site.newcomers.take("testclient", 38)
    said = [
        crowd.visitor().get(entry(person=f"{PERSON}{number}", visit=f"{number}"), follow_redirects=False).status_code
        for number in range(4)
    ]
    assert (said[0], said[-1]) == (303, 429)
    assert len(crowd.visits()) == len(crowd.site.journal.workers()) == said.count(303) == 2
    assert crowd.visitor().get(entry(person=f"{PERSON}0", visit="0"), follow_redirects=False).status_code == 303


@pytest.mark.parametrize(
    "query", ["", f"?PROLIFIC_PID=a/b&SESSION_ID={STUDY}&STUDY_ID={STUDY}", f"?PROLIFIC_PID={PERSON}&STUDY_ID={STUDY}"]
)
def test_an_entry_without_a_participant_is_refused(make_crowd: MakeCrowd, query: str) -> None:
    crowd = make_crowd(studies={"pilot": pays()})
    assert crowd.visitor().get(f"/p/pilot{query}").status_code == 400
    assert crowd.visitor().get(f"/p/other{query}").status_code == 404
    assert crowd.site.journal.workers() == []

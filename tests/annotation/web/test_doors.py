"""Ways in: names, invitations, Prolific; and what each shows once the answers are stored."""

import sqlite3
from pathlib import Path

import pytest

from tests.annotation.web.conftest import MakeCrowd
from tests.annotation.web.crowd import UNITS
from tests.annotation.web.reading import read
from tests.annotation.web.test_forms import GOOD

PERSON = "5f0c1e2d3a4b5c6d7e8f9012"
STUDY, VISIT = "66aa0e2d3a4b5c6d7e8f9012", "77bb0e2d3a4b5c6d7e8f9012"
ENTRY = f"/p/pilot?PROLIFIC_PID={PERSON}&STUDY_ID={STUDY}&SESSION_ID={VISIT}"


def test_anybody_may_come_in_with_a_name_where_the_door_is_open(make_crowd: MakeCrowd) -> None:
    crowd = make_crowd(UNITS["describe"], anybody=True)
    visitor = crowd.visitor()
    welcome = read(read(visitor.get("/")).form("/enter").send(visitor, name="  Ada   L "))
    assert welcome.headline == "Welcome, Ada L"
    assert read(visitor.get(welcome.links[0])).headline == "Describe the marked image"
    again = crowd.visitor()
    assert read(again.get(welcome.links[1])).headline == "Describe the marked image"


def test_a_name_that_is_taken_is_not_lent_to_a_stranger(make_crowd: MakeCrowd) -> None:
    crowd = make_crowd(anybody=True)
    for expected in (200, 422):
        visitor = crowd.visitor()
        sent = read(visitor.get("/")).form("/enter").send(visitor, name="Ada")
        assert sent.status_code == expected
    assert "Somebody has come in with this name" in read(sent).problems[0]


@pytest.mark.parametrize("name", ["", "   ", "a" * 61, "a\x00b"])
def test_a_name_that_is_none_is_asked_for_again(make_crowd: MakeCrowd, name: str) -> None:
    visitor = make_crowd(anybody=True).visitor()
    sent = read(visitor.get("/")).form("/enter").send(visitor, name=name)
    assert (sent.status_code, read(sent).problems) == (422, ["Please write a name of one to sixty characters."])


def test_a_closed_door_lets_nobody_enrol(make_crowd: MakeCrowd) -> None:
    visitor = make_crowd().visitor()
    assert read(visitor.get("/")).headline == "You need a personal link"
    assert visitor.post("/enter", data={"name": "Ada"}).status_code == 404
    assert visitor.get("/p/pilot").status_code == 404
    assert visitor.get("/mturk").status_code == 404
    assert visitor.get("/i/forged").status_code == 403


def test_newcomers_of_one_address_are_counted(make_crowd: MakeCrowd) -> None:
    visitor = make_crowd(anybody=True, rate=1000).visitor()
    form = read(visitor.get("/")).form("/enter")
    said = []
    for number in range(42):
        visitor.cookies.clear()
        form = read(visitor.get("/")).form("/enter")
        said.append(form.send(visitor, name=f"name {number}").status_code)
    assert (said[0], said[-1]) == (200, 429)


def test_a_prolific_participant_gets_the_code_after_the_commit_and_never_before(
    make_crowd: MakeCrowd, tmp_path: Path
) -> None:
    crowd = make_crowd(UNITS["describe"], UNITS["verify"], studies={"pilot": ""}, bundle=2)
    visitor = crowd.visitor()
    pages = [visitor.get(ENTRY)]
    for _ in range(2):
        form = read(pages[-1]).form()
        values = {name: given[0] for name, given in form.offered.items()}
        pages.append(form.send(visitor, **(values or {"description": GOOD})))
    worker = crowd.site.pseudonym("prolific", PERSON)
    code = crowd.site.journal.completion_code(worker, crowd.site.now())
    assert code
    assert [code in page.text for page in pages] == [False, False, True]
    assert read(pages[-1]).links == [f"https://app.prolific.com/submissions/complete?cc={code}"]
    assert code in visitor.get(ENTRY).text
    assert {answer.backend for answer in crowd.site.journal.answers()} == {"prolific"}
    assert PERSON.encode() not in b"".join(file.read_bytes() for file in tmp_path.glob("*/answers.sqlite*"))
    (private,) = tmp_path.glob("*/private/identities.sqlite")
    assert sqlite3.connect(private).execute("SELECT * FROM identity").fetchall() == [(worker, "prolific", PERSON)]


def test_a_study_with_a_code_of_its_own_shows_that(make_crowd: MakeCrowd) -> None:
    crowd = make_crowd(UNITS["describe"], studies={"pilot": "C1FIXED"}, bundle=1)
    visitor = crowd.visitor()
    first = visitor.get(ENTRY)
    assert "C1FIXED" not in first.text
    assert "C1FIXED" in read(first).form().send(visitor, description=GOOD).text


def test_a_visit_is_told_before_anything_is_shown(make_crowd: MakeCrowd) -> None:
    seen: list[tuple[str, str, str]] = []
    crowd = make_crowd(UNITS["describe"], studies={"pilot": ""}, visited=lambda *told: seen.append(told))
    crowd.visitor().get(ENTRY, follow_redirects=False)
    assert seen == [(VISIT, PERSON, STUDY)]
    assert crowd.site.journal.progress()["describe"].leases == 0


@pytest.mark.parametrize(
    "query", ["", f"?PROLIFIC_PID=a/b&SESSION_ID={VISIT}&STUDY_ID={STUDY}", f"?PROLIFIC_PID={PERSON}&STUDY_ID={STUDY}"]
)
def test_an_entry_without_a_participant_is_refused(make_crowd: MakeCrowd, query: str) -> None:
    crowd = make_crowd(studies={"pilot": ""})
    assert crowd.visitor().get(f"/p/pilot{query}").status_code == 400
    assert crowd.visitor().get(f"/p/other{query}").status_code == 404
    assert crowd.site.journal.standings() == []

"""The pages as a browser without a script sees them: every task from the link to the stored answer."""

import logging
import re
import socket

import pytest

from ctxr.annotation.records import Unit
from ctxr.errors import CtxrError
from tests.annotation.crowd_units import OWN_ANSWER
from tests.annotation.web.conftest import MakeCrowd
from tests.annotation.web.crowd import IMAGES, UNITS, Crowd, opened
from tests.annotation.web.reading import read
from tests.annotation.web.serving import serving

GOOD = "A red dog sleeps to the left of the house."


@pytest.mark.parametrize(
    ("task", "field", "stored"),
    [
        ("review", "verdict", ("keep",)),
        ("tag", "tags", ("context",)),
        ("entail", "verdict", ("entailment",)),
        ("retrieve", "pick", (IMAGES[0],)),
        ("repeat", "pick", (IMAGES[0],)),
    ],
)
def test_a_choice_is_made_without_a_script_and_stored(
    make_crowd: MakeCrowd, task: str, field: str, stored: tuple[str, ...]
) -> None:
    crowd, visitor, page = opened(make_crowd, UNITS[task])
    form = page.form()
    sent = form.send(visitor, **{field: form.offered[field][0]})
    (answer,) = crowd.site.journal.answers()
    assert (answer.unit, answer.worker, answer.values[field]) == (UNITS[task].id, crowd.worker("ada"), stored)
    assert read(sent).headline == "Done for now, thank you"


def test_fields_of_every_kind_are_filled_in_without_a_script_and_stored(make_crowd: MakeCrowd) -> None:
    crowd, visitor, page = opened(make_crowd, UNITS["own"])
    form, text = page.form(), visitor.get(page.form().action).text
    assert not [image for image in IMAGES if image in text]
    keys = list(dict.fromkeys(form.offered["shown"]))[1:]
    filled: dict[str, str | list[str]] = {
        "look": "b", "many": ["a", "c"], "good": "-1", "spot": ["25", "100"], "area": ["33.33", "0", "66.67", "100"],
        "rank": ["c", "a", "b"], "shown": keys[::-1], "why": "it\r\nsits",
    }  # fmt: skip
    refused = form.send(
        visitor, **{**filled, "spot": ["25.5", ""], "area": ["50", "0", "60", "100"], "rank": ["c", "a", "a"]}
    )
    assert (refused.status_code, crowd.site.journal.answers(), len(read(refused).problems)) == (422, [], 3)
    again = read(refused).form()
    assert [again.fields[name] for name in ("spot", "area", "rank")] == [
        ["25.5", ""],
        ["50", "0", "60", "100"],
        ["c", "a", "a"],
    ]
    assert again.fields["shown"] == keys[::-1]
    sent = again.send(visitor, **filled)
    (answer,) = crowd.site.journal.answers()
    assert answer.values == {**OWN_ANSWER, "shown": IMAGES[::-1], "why": ("it\nsits",)}
    assert read(sent).headline == "Done for now, thank you"
    given = visitor.get("/answers").text
    assert all(words in given for words in ("Beta", "Alpha, Gamma", "Gamma, Alpha, Beta", "Image 10, Image 9"))


@pytest.mark.parametrize("task", UNITS)
def test_a_problem_is_told_without_a_script_and_nothing_else_is_asked_or_kept(make_crowd: MakeCrowd, task: str) -> None:
    crowd, visitor, page = opened(make_crowd, UNITS[task])
    assert " required" not in visitor.get(page.form().action).text
    form = next(form for form in page.forms if "problem" in form.offered)
    assert form.fields["problem"] == [""]
    sent = form.send(
        visitor, problem="broken", comment="<b>grey</b>", **{"description": "a dog"} if task == "describe" else {}
    )
    (answer,) = crowd.site.journal.answers()
    assert answer.values == {"problem": ("broken",), "comment": ("<b>grey</b>",)}
    assert read(sent).headline == "Done for now, thank you"
    assert read(crowd.invited("ben").get("/next")).headline != "Done for now, thank you"


def test_a_problem_that_is_refused_stays_as_it_was_told(make_crowd: MakeCrowd) -> None:
    crowd, visitor, page = opened(make_crowd, UNITS["tag"])
    comment = "<script>alert(1)</script>"
    sent = page.form().send(visitor, problem=["broken", "cannot_tell"], comment=comment)
    assert (sent.status_code, crowd.site.journal.answers()) == (422, [])
    assert comment not in sent.text
    assert read(sent).form().fields["comment"] == [comment]
    assert '<details class="report" open>' in sent.text


def test_a_description_is_written_without_a_script_and_its_retrieval_waits_for_somebody_else(
    make_crowd: MakeCrowd,
) -> None:
    crowd = make_crowd(UNITS["describe"])
    ada, ben = crowd.invited("ada"), crowd.invited("ben")
    read(ada.get("/next")).form().send(ada, description=GOOD)
    assert read(ada.get("/next")).headline == "Done for now, thank you"
    assert GOOD in ben.get("/next").text


def test_what_is_wrong_stands_beside_the_field_and_what_was_typed_stays(make_crowd: MakeCrowd) -> None:
    crowd = make_crowd(UNITS["describe"])
    visitor = crowd.invited("ada")
    sent = read(visitor.get("/next")).form().send(visitor, description="the cat on the next image")
    page = read(sent)
    assert sent.status_code == 422
    assert "other images" in page.problems[0]
    assert page.form().fields["description"] == ["the cat on the next image"]
    assert crowd.site.journal.answers() == []
    assert read(page.form().send(visitor, description="...", reason="it is right")).problems
    page.form().send(visitor, description=GOOD, reason=" ")
    assert crowd.site.journal.answers()[0].values == {"description": (GOOD,)}


def test_a_reason_is_asked_for_where_a_rule_is_broken_and_never_before(make_crowd: MakeCrowd) -> None:
    crowd, visitor, page = opened(make_crowd, UNITS["describe"])
    asked = 'id="exception">'
    form = page.form()
    assert asked not in visitor.get(form.action).text
    link = {"link": [form.action.rsplit("/", 1)[1]]}
    for text, may_stand in (("...", False), ("a\u202eb", False), (GOOD, False), ("the cat on the next image", True)):
        told = visitor.post("/check", data=form.fields | link | {"description": [text]}).json()
        assert (bool(told["problems"]), told["may_stand"]) == (text != GOOD, may_stand)
        if text != GOOD:
            assert (asked in form.send(visitor, description=text).text) is may_stand
    sent = form.send(visitor, description="...", reason="it is right")
    assert (sent.status_code, asked in sent.text) == (422, True)
    form.send(visitor, description="the cat on the next image", reason="a sign")
    assert crowd.site.journal.answers()[0].values["reason"] == ("a sign",)


def test_a_choice_that_is_wrong_stays_ticked_and_says_why(make_crowd: MakeCrowd) -> None:
    visitor = make_crowd(UNITS["review"]).invited("ada")
    page = read(read(visitor.get("/next")).form().send(visitor, verdict=["keep", "typos"]))
    (problem,) = page.problems
    assert "untick" in problem
    assert page.form().fields["verdict"] == ["keep", "typos"]
    assert "Please answer" in read(page.form().send(visitor, verdict=[])).problems[0]


def test_a_draft_is_kept_and_there_again_on_the_next_visit(make_crowd: MakeCrowd) -> None:
    for task, field in (("describe", "description"), ("retrieve", "pick")):
        _, visitor, page = opened(make_crowd, UNITS[task])
        form = page.form()
        value = form.offered["pick"][6] if task == "retrieve" else "the third frame, a dog"
        body = form.fields | {"link": [form.action.rsplit("/", 1)[1]], field: [value]}
        problems = visitor.post("/check", data=body).json()["problems"]
        assert ["at other images" in one for one in problems] == [True] * (task == "describe")
        assert read(visitor.get("/next")).form().fields[field] == [value]


def test_a_round_is_counted_and_ends_with_thanks(make_crowd: MakeCrowd) -> None:
    crowd = make_crowd(UNITS["review"], UNITS["entail"], UNITS["tag"], bundle=2)
    visitor = crowd.invited("ada")
    for count in range(2):
        page = visitor.get("/next")
        assert f"{count} of 2" in page.text
        form = read(page).form()
        sent = form.send(visitor, **{name: given[0] for name, given in form.offered.items()})
    assert read(sent).headline.endswith("a round")
    assert "0 of 2" in visitor.get(read(sent).links[-1]).text


@pytest.mark.parametrize(("task", "where"), [("tag", True), ("entail", False)])
def test_who_reports_a_problem_is_asked_which_image_where_there_are_several(
    make_crowd: MakeCrowd, task: str, where: bool
) -> None:
    _, _, page = opened(make_crowd, UNITS[task])
    assert ("Which image, and" in page.text, "What is wrong?" in page.text) == (where, not where)


def test_who_takes_a_break_gives_the_page_to_somebody_else(make_crowd: MakeCrowd) -> None:
    crowd = make_crowd(UNITS["describe"])
    ada, ben = crowd.invited("ada"), crowd.invited("ben")
    page = read(ada.get("/next"))
    assert read(ben.get("/next")).headline == "A short wait"
    assert read(page.form("/stop").send(ada)).headline == "See you later"
    assert read(ben.get("/next")).headline.endswith("marked image")


def test_who_is_blocked_is_told_kindly(make_crowd: MakeCrowd) -> None:
    crowd = make_crowd(UNITS["describe"])
    visitor = crowd.invited("ada")
    visitor.get("/")
    crowd.site.journal.change(crowd.worker("ada"), "blocked", "too fast", "lead", crowd.site.now())
    assert read(visitor.get("/next")).headline.startswith("Thank you")


def test_the_open_page_of_who_is_blocked_says_so(make_crowd: MakeCrowd) -> None:
    crowd = make_crowd(UNITS["describe"])
    visitor = crowd.invited("ada")
    page = read(visitor.get("/next"))
    form = page.form("/stop") if page.form().action.endswith("/stop") else page.form()
    crowd.site.journal.change(crowd.worker("ada"), "blocked", "too fast", "lead", crowd.site.now())
    body = form.fields | {"link": [form.action.rsplit("/", 1)[1]], "description": [GOOD]}
    title = read(visitor.get("/next")).headline
    assert title.startswith("Thank you")
    checked = visitor.post("/check", data=body)
    assert checked.status_code == 403
    assert [line.split(".")[0] for line in checked.json()["problems"]] == [title]
    late = form.send(visitor, description=GOOD)
    assert (late.status_code, read(late).headline) == (403, title)
    assert GOOD in late.text
    shown = visitor.get(form.action)
    assert (shown.status_code, read(shown).headline) == (403, title)
    crowd.site.journal.change(crowd.worker("ada"), "undone", "a mistake", "lead", crowd.site.now())
    assert read(visitor.get("/next")).headline.endswith("marked image")


def test_what_was_typed_after_the_time_was_over_is_shown_back(make_crowd: MakeCrowd) -> None:
    crowd = make_crowd(UNITS["describe"])
    ada, ben = crowd.invited("ada"), crowd.invited("ben")
    page = read(ada.get("/next"))
    crowd.clock.pass_by(31)
    assert read(ben.get("/next")).headline.endswith("marked image")
    late = page.form().send(ada, description=GOOD)
    assert (late.status_code, read(late).headline.startswith("Your time")) == (410, True)
    assert GOOD in late.text
    assert ada.get(page.form().action).status_code == 410


def test_the_same_answer_twice_is_stored_once_and_another_is_refused_but_not_lost(make_crowd: MakeCrowd) -> None:
    crowd, visitor, page = opened(make_crowd, UNITS["describe"])
    form = page.form()
    for _ in range(3):
        assert form.send(visitor, description=GOOD).status_code == 200
    other = form.send(visitor, description="A blue cat sits to the right of it.")
    assert (other.status_code, read(other).headline.endswith("already sent")) == (409, True)
    assert "A blue cat" in other.text
    assert len(crowd.site.journal.answers()) == 1


def test_markup_and_sql_are_stored_as_typed_and_shown_as_text(make_crowd: MakeCrowd) -> None:
    hostile = "<script>alert('x')</script> Robert'); DROP TABLE answer;-- {{ 7*7 }} <b>dog</b>"
    crowd = make_crowd(UNITS["describe"])
    ada, ben = crowd.invited("ada"), crowd.invited("ben")
    read(ada.get("/next")).form().send(ada, description=hostile)
    assert crowd.site.journal.answers()[0].values["description"] == (hostile,)
    page = ben.get("/next").text
    assert "<script>alert" not in page
    assert "&lt;script&gt;alert(&#39;x&#39;)&lt;/script&gt; Robert&#39;); DROP TABLE answer;-- {{ 7*7 }}" in page


def test_a_page_tells_the_sizes_of_pictures_and_no_image_id_no_target_and_no_truth(make_crowd: MakeCrowd) -> None:
    unit = UNITS["retrieve"]
    truth = Unit(**{name: getattr(unit, name) for name in unit.__struct_fields__} | {"truth": (IMAGES[4],)})
    visitor = make_crowd(truth).invited("ada")
    text = visitor.get("/next").text
    assert not [word for word in (*IMAGES, unit.id, unit.image_set, "truth") if word in text]
    assert text.count('width="96" height="64"') == len(IMAGES)


def test_a_unit_without_pictures_is_a_page_too(make_crowd: MakeCrowd) -> None:
    unit = UNITS["entail"]
    bare = Unit(**{name: getattr(unit, name) for name in unit.__struct_fields__} | {"images": ()})
    crowd: Crowd = make_crowd(bare)
    visitor = crowd.invited("ada")
    page = visitor.get("/next")
    assert (page.status_code, read(page).images) == (200, [])


def test_what_cannot_be_stored_is_shown_back_and_the_operator_told(
    make_crowd: MakeCrowd, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    crowd, visitor, page = opened(make_crowd, UNITS["describe"])
    form = page.form()

    def full(*_: object) -> None:
        raise CtxrError("the disk is full: answers.sqlite could not be written", hint="free some space")

    monkeypatch.setattr(crowd.site.journal, "submit", full)
    monkeypatch.setattr(crowd.site.journal, "save_draft", full)
    told = form.send(visitor, description=GOOD)
    assert (told.status_code, GOOD in told.text, "disk" in told.text) == (503, True, False)
    assert re.match(r"[a-z ]+: answers\.sqlite .*: free some space\n$", capsys.readouterr().err)
    link = form.action.rsplit("/", 1)[1]
    checked = visitor.post("/check", data=form.fields | {"link": [link], "description": [GOOD]})
    assert (checked.status_code, len(checked.json()["problems"])) == (503, 1)


def test_an_answer_that_is_stored_is_never_said_to_be_lost(
    make_crowd: MakeCrowd, monkeypatch: pytest.MonkeyPatch
) -> None:
    crowd, visitor, page = opened(make_crowd, UNITS["describe"], UNITS["entail"])

    def full(*_: object) -> None:
        raise CtxrError("the disk is full: answers.sqlite could not be written", hint="free some space")

    monkeypatch.setattr(crowd.site.journal, "lease", full)
    form = page.form()
    sent = visitor.post(form.action, data=form.fields | {"description": [GOOD]}, follow_redirects=False)
    assert (sent.status_code, sent.headers["location"], len(crowd.site.journal.answers())) == (303, "/next", 1)


def test_a_connection_that_drops_in_the_middle_of_a_form_says_nothing(
    make_crowd: MakeCrowd, caplog: pytest.LogCaptureFixture
) -> None:
    crowd, visitor, page = opened(make_crowd, UNITS["describe"])
    form = page.form()
    cookies = "; ".join(f"{name}={value}" for name, value in visitor.cookies.items())
    with serving(crowd) as server:
        for length in (10, 10_000):
            with socket.create_connection(("127.0.0.1", server.port)) as half:
                head = f"POST {form.action} HTTP/1.1\r\nHost: testserver\r\nCookie: {cookies}\r\nContent-Length: {length}\r\n"
                half.sendall(f"{head}\r\ncsrf".encode())
        with socket.create_connection(("127.0.0.1", server.port)) as whole:
            whole.sendall(b"GET / HTTP/1.1\r\nHost: testserver\r\nConnection: close\r\n\r\n")
            assert whole.makefile("rb").read().startswith(b"HTTP/1.1 200")
    assert [record.message for record in caplog.records if record.levelno >= logging.WARNING] == []

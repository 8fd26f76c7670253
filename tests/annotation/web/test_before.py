"""Consent before anything is shown, instructions before the first page of a task, and practice that says what was right."""

from pathlib import Path
from typing import Any

import msgspec
import pytest
from starlette.testclient import TestClient

from ctxr.annotation.journal.results import Lease
from ctxr.annotation.study import StudyTexts, read_texts
from ctxr.annotation.web.site import Invitation
from tests.annotation.test_study import CONSENT, EXIT, HOSTILE, folder_of
from tests.annotation.web.conftest import MakeCrowd
from tests.annotation.web.crowd import IMAGES, LANGUAGES, START, UNITS, Crowd
from tests.annotation.web.crowd import crowd as crowd_of
from tests.annotation.web.reading import HtmlReader, read
from tests.annotation.web.test_run import runner
from tests.annotation.web.test_sign_in_prolific import ENTAIL, entry, pays
from tests.annotation.web.test_work import GOOD

TITLE = "About the study"
PAIRS = [IMAGES[start : start + 2] for start in range(0, 10, 2)]
QUESTIONS = [
    msgspec.structs.replace(
        UNITS["retrieve"], id=f"u-known-{number}", images=PAIRS[number], query=None, truth=PAIRS[number][1:], purpose=purpose,
        most=9, full=True,
    )
    for number, purpose in enumerate(("qualification", "qualification", "gold"))
]  # fmt: skip
"""Retrievals with a known answer, the second picture of two that no other one shows."""

WORK = [msgspec.structs.replace(UNITS["retrieve"], id=f"u-{pair[0]}", images=pair) for pair in PAIRS[3:]]


def consent_of(folder: Path, more: str = "", **texts: str) -> StudyTexts:
    return read_texts(folder_of(folder, consent=CONSENT + more, **texts))


def plain(texts: StudyTexts) -> StudyTexts:
    """The consent without instructions, for tests of the one without the other."""
    return StudyTexts({"consent": texts.pages["consent"]}, texts.version, texts.contact)


def asked(crowd: Crowd, name: str = "ada") -> tuple[TestClient, HtmlReader]:
    """A browser that came in, and the page that asks for consent."""
    visitor = crowd.invited(name)
    page = read(visitor.get("/next"))
    assert page.headline == TITLE
    return visitor, page


def agree(visitor: TestClient) -> HtmlReader:
    """The page after agreeing."""
    return read(read(visitor.get("/consent")).form("/agree").send(visitor, agree="yes"))


def test_nothing_of_the_study_is_shown_before_consent_and_a_changed_one_is_asked_again(
    make_crowd: MakeCrowd, tmp_path: Path
) -> None:
    units = [UNITS["describe"]]
    before = make_crowd(*units, texts=plain(consent_of(tmp_path / "one")))
    ada, _ = asked(before)
    page = agree(ada)
    link, picture = page.form().action, page.images[0]
    texts = consent_of(tmp_path / "two", "More.")
    later = crowd_of(before.folder, units, texts=texts)
    try:
        visitor = later.visitor()
        visitor.cookies.update(ada.cookies)
        body = page.form().fields | {"description": [GOOD], "link": [link.rsplit("/", 1)[1]]}
        refused = [visitor.get(f"{link}{more}") for more in ("", "/talk", "/talk/events")]
        refused += [visitor.get(picture), visitor.post("/check", data=body)]
        refused += [visitor.post(f"{link}{more}", data=page.form("/stop").fields) for more in ("/stop", "/talk/say")]
        assert [one.status_code for one in refused] == [403] * len(refused)
        assert not [one for one in refused if "marked image" in one.text or "/picture/" in one.text]
        for path in ("/next", "/next?more=1", "/consent", "/instructions/describe"):
            assert read(visitor.get(path)).headline == TITLE
        notices = ['class="prose notice"' in one.text for one in (ada.get("/consent"), visitor.get("/consent"))]
        assert (notices, "completion code" in visitor.get("/consent").text) == ([False, True], False)
        # who declines is shown to the researcher until they agree
        declining = read(visitor.get("/consent"))
        assert "you have earned" in declining.form("/refuse").send(visitor).text
        visitor.cookies.update(ada.cookies)
        declining.form("/refuse").send(visitor)
        visitor.cookies.update(ada.cookies)
        (change,) = later.site.journal.changes()
        assert (change.worker, change.before, change.after) == (later.worker("ada"), "active", "declined")
        assert read(runner(later).get("/run")).text.count("the changed consent") == 1
        # what was typed before waits until they agree
        assert read(visitor.post(link, data=body)).headline == TITLE
        lease = later.site.journal.lease(later.worker("ada"), later.site.now())
        assert isinstance(lease, Lease)
        assert (later.site.journal.answers(), lease.draft["description"]) == ([], (GOOD,))
        assert agree(visitor).headline.startswith("How to describe")
        assert visitor.get(picture).status_code == 200
        versions = [before.site.texts.version, texts.version]
        assert later.site.journal.consents() == [(version, "en", 1) for version in versions]
        assert (later.site.journal.declined(), later.site.journal.changes()[0].undone) == (set(), True)
    finally:
        later.close()


def test_who_agrees_ticks_a_box_that_was_empty_and_is_enrolled_then(make_crowd: MakeCrowd, tmp_path: Path) -> None:
    crowd = make_crowd(UNITS["describe"], texts=plain(consent_of(tmp_path / "study")))
    visitor, page = asked(crowd)
    form = page.form("/agree")
    assert (form.offered, "agree" in form.fields) == ({"agree": ["yes"]}, False)
    unticked = form.send(visitor)
    assert (unticked.status_code, read(unticked).headline, len(read(unticked).problems)) == (422, TITLE, 1)
    assert crowd.site.journal.workers() == []
    assert form.send(visitor, agree="yes").status_code == 200
    assert [one.worker for one in crowd.site.journal.workers()] == [crowd.worker("ada")]
    again = crowd.invited("ada")
    assert read(again.get("/next")).headline.endswith("marked image")
    shown = read(again.get("/consent"))
    assert (shown.headline, [form.action for form in shown.forms]) == (TITLE, ["/consent/withdraw"])
    assert crowd.site.journal.consents() == [(crowd.site.texts.version, "en", 1)]


def test_the_journal_is_asked_once_about_who_agreed(
    make_crowd: MakeCrowd, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    crowd = make_crowd(UNITS["describe"], texts=plain(consent_of(tmp_path / "study")))
    visitor, _ = asked(crowd)
    page = agree(visitor)
    monkeypatch.setattr(crowd.site.journal, "agreed", None)
    assert visitor.get(page.images[0]).status_code == 200
    assert read(page.form().send(visitor, description=GOOD)).headline == "Done for now, thank you"


def test_who_refuses_is_signed_out_and_no_record_is_made(make_crowd: MakeCrowd, tmp_path: Path) -> None:
    studies = {"pilot": pays()}
    crowd = make_crowd(*ENTAIL, texts=plain(consent_of(tmp_path / "study")), studies=studies)
    visitor, page = asked(crowd)
    assert read(page.form("/refuse").send(visitor)).headline.endswith("for reading")
    assert read(visitor.get("/next")).headline.endswith("personal link")
    guest = crowd.visitor()
    arrived, elsewhere = read(guest.get(entry())), crowd.visitor()
    assert arrived.headline == read(elsewhere.get(entry())).headline == TITLE
    told = arrived.form("/refuse").send(guest)
    assert "submission on Prolific" in told.text
    assert read(guest.get("/next")).headline.endswith("personal link")
    assert ([one.ending for one in crowd.visits()], elsewhere.get("/next").status_code) == (["declined"], 403)
    assert read(crowd.visitor().get(entry(visit="b"))).headline == TITLE  # nothing of theirs is running
    crowd.clock.pass_by(90)
    assert (crowd.site.journal.workers(), crowd.site.journal.consents()) == ([], [])
    # a change of mind
    assert read(crowd.visitor().get(entry())).headline == TITLE
    back = crowd.visitor()
    sent = read(back.get(entry())).form("/agree").send(back, agree="yes")
    page = read(sent)
    assert page.form().offered["verdict"]
    assert [(one.ending, one.began) for one in crowd.visits()] == [("", crowd.clock.now), ("left", START)]
    # who has answered and declines a changed text gets the code
    page.form().send(back, verdict="neutral")
    later = crowd_of(crowd.folder, ENTAIL, texts=plain(consent_of(tmp_path / "two", "More.")), studies=studies)
    try:
        changed = later.visitor()
        changed.cookies.update(back.cookies)
        read(changed.get("/next")).form("/refuse").send(changed)
        assert [one.ending for one in later.visits()] == ["complete", "left"]
    finally:
        later.close()


@pytest.mark.parametrize("attack", ["no token", "another act", "another session", "another version", "elsewhere"])
def test_nobody_agrees_for_another_or_to_what_they_did_not_read(
    make_crowd: MakeCrowd, tmp_path: Path, attack: str
) -> None:
    texts = consent_of(tmp_path / "study")
    crowd = make_crowd(UNITS["describe"], texts=texts)
    visitor, page = asked(crowd)
    other = read(crowd.invited("ben").get("/next"))
    old = crowd.site.signer.form_token("nonce of another page", "agree 0123456789ab")
    csrf: dict[str, Any] = {
        "no token": [],
        "another act": page.form("/refuse").fields["csrf"],
        "another session": other.form("/agree").fields["csrf"],
        "another version": old,
        "elsewhere": page.form("/agree").fields["csrf"],
    }
    headers = {"sec-fetch-site": "cross-site" if attack == "elsewhere" else "same-origin"}
    body = {"csrf": csrf[attack], "agree": "yes"}
    assert visitor.post("/consent/agree", data=body, headers=headers).status_code == 403
    assert crowd.visitor().post("/consent/agree", data=body).status_code == 403
    assert crowd.site.journal.workers() == []
    agree(visitor)
    own = read(visitor.get("/consent")).form("/withdraw").fields["csrf"]
    forged = csrf | {"another act": page.form("/agree").fields["csrf"], "elsewhere": own}
    leaving = {"csrf": forged[attack], "sure": "yes"}
    assert visitor.post("/consent/withdraw", data=leaving, headers=headers).status_code == 403
    assert crowd.visitor().post("/consent/withdraw", data=leaving).status_code == 403
    assert crowd.site.journal.changes(crowd.worker("ada")) == []
    assert visitor.post("/consent/whatever", data=page.form("/agree").fields).status_code == 404


def withdraw(visitor: TestClient) -> HtmlReader:
    """The page after asking to withdraw, and saying so once more."""
    asked_again = read(read(visitor.get("/consent")).form("/withdraw").send(visitor))
    return read(asked_again.form("/withdraw").send(visitor))


def test_who_withdraws_is_asked_once_more_and_gets_no_more_work(make_crowd: MakeCrowd, tmp_path: Path) -> None:
    crowd = make_crowd(UNITS["describe"], UNITS["entail"], texts=plain(consent_of(tmp_path / "study")), bundle=1)
    visitor, page = asked(crowd)
    assert [form for form in page.forms if form.action.endswith("/withdraw")] == []
    page = agree(visitor)
    once = read(read(visitor.get("/consent")).form("/withdraw").send(visitor))
    assert once.headline.endswith("withdraw?")
    assert (crowd.site.journal.changes(crowd.worker("ada")), "/next" in once.links) == ([], True)
    left = read(once.form("/withdraw").send(visitor))
    assert left.headline.startswith("You have withdrawn ")
    (change,) = crowd.site.journal.changes(crowd.worker("ada"))
    assert (change.after, change.by) == ("blocked", "worker")
    for path in ("/next", "/consent", "/next?more=1"):
        assert read(visitor.get(path)).headline == left.headline
    values = {"description": GOOD} if "description" in page.form().fields else {"verdict": "neutral"}
    late = page.form().send(visitor, **values)
    assert (late.status_code, read(late).headline) == (403, left.headline)
    assert once.form("/withdraw").send(visitor).status_code == 200
    assert len(crowd.site.journal.changes(crowd.worker("ada"))) == 1


def test_who_withdrew_is_not_recorded_again(make_crowd: MakeCrowd, tmp_path: Path) -> None:
    crowd = make_crowd(UNITS["describe"], texts=plain(consent_of(tmp_path / "study")))
    visitor, page = asked(crowd)
    form = page.form("/agree")
    agree(visitor)
    worker, now = crowd.worker("ada"), crowd.site.now()
    crowd.site.journal.withdraw(worker, "lead", now, lambda _: None)
    crowd.site.identities.forget(worker, paid=True)
    again = crowd.invited("ada")
    assert read(again.get("/next")).headline.startswith("You have withdrawn ")
    assert read(form.send(visitor, agree="yes")).headline.startswith("You have withdrawn ")
    assert (crowd.site.identities.knows(worker), crowd.site.journal.consents()) == (False, [])


@pytest.mark.parametrize(("worked", "told"), [(True, "to be paid"), (False, "return your submission")])
def test_a_participant_who_withdraws_is_paid_for_what_they_gave_and_else_returns(
    make_crowd: MakeCrowd, tmp_path: Path, worked: bool, told: str
) -> None:
    texts = plain(consent_of(tmp_path / "study"))
    crowd = make_crowd(*ENTAIL, texts=texts, studies={"pilot": pays(bundle=9)})
    guest = crowd.visitor()
    guest.get(entry())
    page = agree(guest)
    if worked:
        page.form().send(guest, verdict="neutral")
    left = withdraw(guest)
    assert left.headline.startswith("You have withdrawn ")
    for text in (left.text, read(guest.get("/next")).text):
        assert (told in text, "C1DONE" in text) == (True, worked)
    assert crowd.visits()[0].ending == ("stopped" if worked else "")
    crowd.site.journal.withdraw(crowd.visits()[0].worker, "lead", crowd.site.now(), lambda _: None)
    assert told in read(guest.get("/next")).text


def test_who_is_blocked_and_then_withdraws_gets_no_other_code(make_crowd: MakeCrowd, tmp_path: Path) -> None:
    texts = plain(consent_of(tmp_path / "study"))
    crowd = make_crowd(*ENTAIL, texts=texts, studies={"pilot": pays(bundle=9)})
    guest = crowd.visitor()
    guest.get(entry())
    agree(guest).form().send(guest, verdict="neutral")
    worker, now = crowd.visits()[0].worker, crowd.site.now()
    crowd.site.journal.change(worker, "blocked", "spam", "lead", now)
    left = withdraw(guest)
    assert (left.headline.startswith("You have withdrawn "), "C1DONEBAD" in left.text) == (True, True)
    crowd.site.journal.withdraw(worker, "lead", now, lambda _: None)
    assert "C1DONEBAD" in read(guest.get("/next")).text
    (change,) = crowd.site.journal.changes(worker)
    assert (change.before, change.after, change.reason) == ("blocked", "withdrawn", "lead")


def test_who_is_deleted_in_the_middle_of_a_submission_gets_its_code(make_crowd: MakeCrowd) -> None:
    crowd = make_crowd(*ENTAIL, studies={"pilot": pays(bundle=9)})
    guest = crowd.visitor()
    page = read(guest.get(entry()))
    page.form().send(guest, verdict="neutral")
    crowd.site.journal.withdraw(crowd.visits()[0].worker, "lead", crowd.site.now(), lambda _: None)
    assert "C1DONE" in read(guest.get("/next")).text


@pytest.mark.parametrize(("bundle", "units", "code"), [(1, 6, True), (9, 1, True), (2, 6, False)])
def test_a_changed_consent_comes_after_the_code_of_work_that_is_done_and_before_any_more(
    make_crowd: MakeCrowd, tmp_path: Path, bundle: int, units: int, code: bool
) -> None:
    studies, more = {"pilot": pays(bundle=bundle)}, {"exit": EXIT}
    before = make_crowd(*ENTAIL[:units], texts=plain(consent_of(tmp_path / "one")), studies=studies)
    guest = before.visitor()
    guest.get(entry())
    agree(guest)
    texts = consent_of(tmp_path / "two", "Changed.", **more)
    later = crowd_of(before.folder, ENTAIL[:units], texts=texts, studies=studies | {"second": pays("C2SECOND")})
    try:
        changed = later.visitor()
        changed.cookies.update(guest.cookies)
        assert read(changed.get("/next")).headline == TITLE
        worker, now, journal = before.visits()[0].worker, before.site.now(), before.site.journal
        lease = journal.lease(worker, now)
        assert isinstance(lease, Lease)
        journal.submit(lease.token, worker, {"verdict": ("neutral",)}, now, "prolific")
        assert (journal.done_by(worker), before.visits()[0].ending) == (1, "")
        for path in ("/next", entry()):
            shown = changed.get(path)
            assert ("C1DONE" in shown.text, read(shown).headline == TITLE) == (code, not code)
        assert later.visits()[0].ending == ("complete" if code else "")
        if not code:  # who does not want to go on is paid for what they gave
            page = changed.get("/consent")
            assert ('class="prose notice"' in page.text, "completion code" in page.text) == (True, True)
            declined = read(read(page).form("/refuse").send(changed))
            assert ("C1DONE" in declined.text, later.visits()[0].ending) == (True, "complete")
            assert journal.declined() == {worker}
        if code:  # who comes again agrees before anything else, also where nothing is left
            again = read(changed.get(entry("second", visit="b")))
            assert (again.headline, "C2SECOND" in again.text) == (TITLE, False)
    finally:
        later.close()


def test_a_stranger_is_asked_to_sign_in_and_a_study_without_consent_asks_none(
    make_crowd: MakeCrowd, tmp_path: Path
) -> None:
    crowd = make_crowd(UNITS["describe"], texts=consent_of(tmp_path / "study"))
    stranger = crowd.visitor()
    for path in ("/consent", "/instructions/describe", "/next"):
        assert read(stranger.get(path)).headline.endswith("personal link")
    form = read(stranger.get("/consent")).forms
    assert form == []
    without = make_crowd(UNITS["describe"])
    visitor = without.invited("ada")
    assert read(visitor.get("/consent")).headline.endswith("marked image")
    assert visitor.post("/consent/agree", data={"agree": "yes"}).status_code == 404
    assert visitor.get("/instructions/describe").status_code == 404


def test_hostile_markdown_is_shown_as_text(make_crowd: MakeCrowd, tmp_path: Path) -> None:
    texts = read_texts(folder_of(tmp_path / "study", consent=HOSTILE))
    visitor = make_crowd(UNITS["describe"], texts=texts).invited("ada")
    text = visitor.get("/next").text
    assert "<script>alert" not in text
    assert text.count("&lt;script&gt;alert(1)") == 2  # title and heading
    assert "<iframe" not in text
    assert "<style" not in text
    assert [
        link for link in read(visitor.get("/next")).links if not link.startswith(("http", "mailto", "/consent"))
    ] == []


def test_instructions_come_before_the_first_page_of_each_task_and_can_be_read_again(make_crowd: MakeCrowd) -> None:
    crowd = make_crowd(UNITS["entail"], UNITS["review"], texts=read_texts(None))
    visitor = crowd.invited("ada")
    heads, links, page = [], set[str](), read(visitor.get("/next"))
    for _ in range(2):
        heads.append(page.headline)
        page = read(visitor.get(page.links[-1]))
        links |= {link for link in page.links if "/instructions/" in link}
        form = page.form()
        page = read(form.send(visitor, verdict=form.offered["verdict"][0]))
    assert sorted(head.split()[-1] for head in heads) == ["conversation", "sentence"]
    assert links == {"/instructions/entail", "/instructions/review"}
    assert read(visitor.get("/next")).headline == "Done for now, thank you"
    for task, status in (("entail", 200), ("nothing", 404), ("repeat", 404), ("entail.ar", 404), ("..%2fconsent", 404)):
        assert visitor.get(f"/instructions/{task}").status_code == status


@pytest.mark.parametrize(
    ("asked", "browser", "said"), [("en", "en", 0), ("en", "ar", 1), ("ar-EG", "ar", 0), ("ar", "de", 1)]
)
def test_the_language_of_the_work_is_named_where_it_is_not_that_of_the_page(
    make_crowd: MakeCrowd, tmp_path: Path, asked: str, browser: str, said: int
) -> None:
    crowd = make_crowd(UNITS["entail"], texts=consent_of(tmp_path), language=asked, languages=LANGUAGES)
    visitor = crowd.invited("ada")
    visitor.headers["accept-language"] = browser
    names = {"ar": "الإنجليزية", "de": "Arabic"}
    pages = [visitor.get("/next")]
    pages.append(read(pages[0]).form("/agree").send(visitor, agree="yes"))
    assert [page.text.count(f"{names.get(browser, 'English')}.</b>") for page in pages] == [said, said]


@pytest.mark.parametrize("attention", [False, True])
def test_texts_that_name_an_image_are_announced_where_they_come(make_crowd: MakeCrowd, attention: bool) -> None:
    visitor = make_crowd(UNITS["retrieve"], texts=read_texts(None), attention=attention).invited("ada")
    said = [visitor.get(f"/instructions/{task}").text.count("says which image") for task in ("retrieve", "tag")]
    assert said == [attention, 0]


def test_a_round_that_is_over_and_a_new_task_lead_to_work_again(make_crowd: MakeCrowd) -> None:
    crowd = make_crowd(UNITS["entail"], UNITS["review"], texts=read_texts(None), bundle=1)
    visitor = crowd.invited("ada")
    page = read(visitor.get(read(visitor.get("/next")).links[-1]))
    form = page.form()
    page = read(form.send(visitor, verdict=form.offered["verdict"][0]))
    assert page.headline.endswith("a round")
    page = read(visitor.get(page.links[-1]))
    assert page.headline.startswith("How to")
    assert read(visitor.get(page.links[-1])).form().offered["verdict"]


def test_a_second_look_has_the_instructions_of_its_task_and_the_researchers_replace_ours(
    make_crowd: MakeCrowd, tmp_path: Path
) -> None:
    texts = read_texts(folder_of(tmp_path / "study", **{"instructions-retrieve": "# Mine\n\n<b>Look.</b>"}))
    visitor = make_crowd(UNITS["repeat"], texts=texts).invited("ada")
    page = visitor.get("/next")
    assert read(page).headline == "Mine"
    assert "&lt;b&gt;Look." in page.text


def test_practice_says_what_was_right_and_marks_it_and_hidden_questions_do_not(make_crowd: MakeCrowd) -> None:
    protocol = {"qualification": 2, "qualification_pass": 0.5, "gold_every": 2}
    crowd = make_crowd(*QUESTIONS, *WORK, protocol=protocol)
    visitor = crowd.invited("ada")
    for right in (False, True):
        page = visitor.get("/next")
        assert "Practice." in page.text
        form = read(page).form()
        told = form.send(visitor, pick=form.offered["pick"][right])
        assert read(told).headline.endswith("is right" if right else "not the one")
        assert told.text.count('class="tile right"') == 1
        assert told.text.count('class="tile wrong"') == (not right)
        assert told.text.index('class="tile right"') > told.text.index('<span class="place">1</span>')
        assert {visitor.get(image).status_code for image in read(told).images} == {200}
        assert read(visitor.get(form.action)).headline == read(told).headline
        stranger = crowd.invited("ben")
        assert [stranger.get(path).status_code for path in (form.action, read(told).images[1])] == [403, 403]
    (state,) = (one for one in crowd.site.journal.workers() if one.worker == crowd.worker("ada"))
    assert (state.right, state.wrong, state.state, state.qualified) == (1, 1, "active", True)
    for _ in range(3):
        page = visitor.get("/next")
        assert "Practice." not in page.text
        form = read(page).form()
        sent = form.send(visitor, pick=form.offered["pick"][0])
        assert "tile right" not in sent.text + visitor.get(form.action).text
        assert visitor.get(read(page).images[0]).status_code == 404
    assert {answer.unit for answer in crowd.site.journal.answers()} == {one.id for one in (*QUESTIONS, *WORK)}


def test_who_gets_too_few_practice_questions_right_sees_why_and_is_thanked(make_crowd: MakeCrowd) -> None:
    crowd = make_crowd(*QUESTIONS, *WORK, protocol={"qualification": 2, "qualification_pass": 1})
    visitor = crowd.invited("ada")
    for _ in range(2):
        form = read(visitor.get("/next")).form()
        told = read(form.send(visitor, pick=form.offered["pick"][0]))
        assert told.headline.endswith("not the one")
    assert read(visitor.get(told.links[-1])).headline.endswith("for trying")


def test_practice_shows_nothing_of_a_question_that_is_not_answered(make_crowd: MakeCrowd) -> None:
    crowd = make_crowd(*QUESTIONS[:1], protocol={"qualification": 1})
    visitor = crowd.invited("ada")
    page = visitor.get("/next")
    link = read(page).form().action
    assert "tile right" not in visitor.get(link).text
    crowd.clock.pass_by(31)
    crowd.opened("ben")
    late = visitor.get(link)
    assert (late.status_code, "tile right" in late.text) == (410, False)


def test_the_contact_stands_at_the_foot_of_every_page(make_crowd: MakeCrowd, tmp_path: Path) -> None:
    crowd = make_crowd(UNITS["describe"], UNITS["dialogue"], texts=plain(consent_of(tmp_path / "study")))
    visitor, _ = asked(crowd)
    agree(visitor)
    for path in ("/next", "/", "/consent", "/nowhere", f"/i/{crowd.site.signer.sign(Invitation('ben'))}"):
        page = visitor.get(path)
        assert ("mailto:ada@example.org" in page.text, "/consent" in read(page).links) == (True, path != "/consent")
    assert "mailto:" not in make_crowd(UNITS["describe"]).invited("ada").get("/next").text

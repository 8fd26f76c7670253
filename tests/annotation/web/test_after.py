"""Questions at the end: asked once when the work is done, each may stay empty, and what is typed is hostile."""

from pathlib import Path
from typing import Any

import pytest

from ctxr.annotation.study import StudyTexts, read_texts
from tests.annotation.test_study import CONSENT, EXIT, EXIT_AR, folder_of
from tests.annotation.web.conftest import MakeCrowd
from tests.annotation.web.crowd import LANGUAGES, UNITS
from tests.annotation.web.crowd import crowd as crowd_of
from tests.annotation.web.reading import read
from tests.annotation.web.test_sign_in_prolific import ENTAIL, entry, pays

TITLE = "Before you go"
HOSTILE = "<script>alert(1)</script>\nsecond line"


def exit_of(folder: Path) -> StudyTexts:
    """The questions alone, without instructions."""
    texts = read_texts(folder_of(folder / "study", exit=EXIT, exit_ar=EXIT_AR))
    pages = {name: page for name, page in texts.pages.items() if name.startswith("exit")}
    return StudyTexts(pages, exit_version=texts.exit_version)


def done(make_crowd: MakeCrowd, folder: Path, **settings: Any) -> Any:
    """A site, and a browser that has just sent its last answer."""
    crowd = make_crowd(UNITS["entail"], texts=exit_of(folder), **settings)
    visitor, page = crowd.opened()
    assert read(visitor.get("/exit")).form().action == page.form().action  # not before the work is done
    return crowd, visitor, read(page.form().send(visitor, verdict="neutral"))


def kept(crowd: Any) -> list[tuple[str, str]]:
    return [(one.question, one.answer) for one in crowd.site.journal.exit_answers()]


def test_the_questions_come_when_the_work_is_done_and_once(make_crowd: MakeCrowd, tmp_path: Path) -> None:
    crowd, visitor, page = done(make_crowd, tmp_path)
    assert page.headline == TITLE
    form = page.form("/exit")
    assert form.offered["q0"] == ["0", "1", ""]
    after = read(form.send(visitor, q0="1", q1=HOSTILE))
    assert after.headline == "Done for now, thank you"
    assert kept(crowd) == [("Was it clear?", "Not <b>always</b>"), ("What was hard?", HOSTILE)]
    assert read(visitor.get("/exit")).headline == "Done for now, thank you"
    form.send(visitor, q0="0", q1="again")
    assert kept(crowd)[0][1] == "Not <b>always</b>"


def test_every_question_may_stay_empty_and_no_choice_is_made_up(make_crowd: MakeCrowd, tmp_path: Path) -> None:
    crowd, visitor, page = done(make_crowd, tmp_path)
    assert page.form("/exit").send(visitor, q0="7", q9="x").status_code == 200
    assert kept(crowd) == [("Was it clear?", ""), ("What was hard?", "")]
    assert read(visitor.get("/next")).headline == "Done for now, thank you"


def test_answers_are_shown_back_and_kept_also_where_the_consent_was_changed_before_they_were_sent(
    make_crowd: MakeCrowd, tmp_path: Path
) -> None:
    before, old, page = done(make_crowd, tmp_path)
    texts = read_texts(folder_of(tmp_path / "study", consent=CONSENT))
    later = crowd_of(before.folder, [UNITS["entail"]], texts=texts)
    try:
        visitor = later.visitor()
        visitor.cookies.update(old.cookies)
        key = later.site.signer.digest("exit", later.worker("ada"))[:16]
        assert read(visitor.get(f"/exit?key={key}")).headline == "About the study"
        shown = read(page.form("/exit").send(visitor, q0="0", q1="a\u202eb"))
        assert (shown.headline, kept(later)) == (TITLE, [])
        assert read(shown.form("/exit").send(visitor, q1="a")).headline == "About the study"
        assert kept(later) == [("Was it clear?", "Yes"), ("What was hard?", "a")]
    finally:
        later.close()


def test_answers_in_another_language_are_kept_under_the_same_questions(make_crowd: MakeCrowd, tmp_path: Path) -> None:
    crowd, visitor, _ = done(make_crowd, tmp_path, languages=LANGUAGES)
    page = visitor.get("/exit?lang=ar")
    assert "هل كان واضحا؟" in page.text
    read(page).form("/exit").send(visitor, q0="0", q1="لا شيء")
    assert kept(crowd) == [("Was it clear?", "Yes"), ("What was hard?", "لا شيء")]


@pytest.mark.parametrize("text", ["x" * 2001, "a\u202eb", "a\x00b"])
def test_what_cannot_be_stored_is_shown_back(make_crowd: MakeCrowd, tmp_path: Path, text: str) -> None:
    crowd, visitor, page = done(make_crowd, tmp_path)
    sent = page.form("/exit").send(visitor, q0="1", q1=text)
    assert (sent.status_code, len(read(sent).problems), kept(crowd)) == (422, 1, [])
    assert read(sent).form("/exit").send(visitor, q0="1", q1="fine").status_code == 200
    assert len(kept(crowd)) == 2


@pytest.mark.parametrize("attack", ["no token", "another form", "another session", "elsewhere"])
def test_nobody_answers_for_another(make_crowd: MakeCrowd, tmp_path: Path, attack: str) -> None:
    crowd, visitor, page = done(make_crowd, tmp_path)
    other = read(crowd.invited("ben").get("/next")).form("/exit").fields["csrf"]
    own, here = page.form("/exit").fields["csrf"], crowd.site.signer.form_token("nonce", "/next")
    csrf = {"no token": [], "another form": here, "another session": other, "elsewhere": own}[attack]
    headers = {"sec-fetch-site": "cross-site" if attack == "elsewhere" else "same-origin"}
    sent = visitor.post("/exit", data={"csrf": csrf, "q1": HOSTILE}, headers=headers)
    assert (sent.status_code, "&lt;script&gt;" in sent.text, "<script>alert" in sent.text) == (403, True, False)
    assert crowd.visitor().post("/exit", data={"csrf": own, "q1": "x"}).status_code == 403
    assert kept(crowd) == []


def test_a_stranger_and_a_study_without_questions_have_no_such_page(make_crowd: MakeCrowd, tmp_path: Path) -> None:
    crowd, *_ = done(make_crowd, tmp_path)
    assert read(crowd.visitor().get("/exit")).headline.endswith("personal link")
    without = make_crowd(UNITS["entail"])
    assert read(without.invited("ada").get("/exit")).form().offered["verdict"]


def test_a_participant_is_asked_before_the_completion_code_and_who_withdrew_is_not(
    make_crowd: MakeCrowd, tmp_path: Path
) -> None:
    crowd = make_crowd(*ENTAIL, texts=exit_of(tmp_path), studies={"pilot": pays(bundle=1)})
    guest = crowd.visitor()
    page = read(read(guest.get(entry())).form().send(guest, verdict="neutral"))
    assert (page.headline, "C1DONE" in page.text) == (TITLE, False)
    assert crowd.visits()[0].ending == ""
    assert "C1DONE" in read(page.form("/exit").send(guest)).text
    assert "C1DONE" in read(guest.get("/next")).text
    crowd.site.journal.withdraw(crowd.visits()[0].worker, "lead", crowd.site.now(), lambda _: None)
    assert crowd.site.journal.exit_answers() == []
    assert read(guest.get("/exit")).headline != TITLE

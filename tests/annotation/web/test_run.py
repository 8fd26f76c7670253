"""The pages of the researcher: figures, people, a pause, and who may not come in."""

from datetime import timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, expect
from starlette.testclient import TestClient

from ctxr.annotation.confirmation import ask_to_withdraw
from ctxr.annotation.journal.journal import read_journal
from ctxr.annotation.journal.results import Lease, Overview
from ctxr.annotation.overview import LATEST, overview
from ctxr.annotation.records import Unit
from ctxr.annotation.study import read_texts
from ctxr.annotation.web.site import RUNNER, Invitation, Session, Shown, crowd_signer, run_signer
from tests.annotation.test_study import CONSENT, EXIT, folder_of
from tests.annotation.web.conftest import MakeCrowd
from tests.annotation.web.crowd import IMAGES, KEY, UNITS, Crowd
from tests.annotation.web.reading import read
from tests.annotation.web.serving import serving
from tests.annotation.web.test_sign_in_prolific import entry, pays
from tests.annotation.web.test_work import GOOD

HOSTILE = "<script>alert(1)</script><img src=x onerror=alert(1)>"
GOLD = Unit(
    "u-check", "retrieve", images=IMAGES, query="q", texts=("A dog.",), text_ids=("t",), truth=(IMAGES[2],), purpose="qualification",
    image_set="clip-shot0_0", group="clip", ordered=True, needed=9, most=9,
)  # fmt: skip


def runner(crowd: Crowd) -> TestClient:
    """The browser of the researcher."""
    visitor = crowd.visitor()
    page = read(visitor.get(crowd.site.run_link))
    assert page.form().send(visitor).url.path == "/run"
    return visitor


def person(crowd: Crowd, name: str = "ada") -> str:
    return f"/run/person/{crowd.worker(name)}"


def described(make_crowd: MakeCrowd, text: str = GOOD, name: str = "ada", **settings: Any) -> Crowd:
    """A study with one description."""
    crowd = make_crowd(UNITS["describe"], **settings)
    visitor, page = crowd.opened(name)
    crowd.clock.pass_by(1.5)
    assert page.form().send(visitor, description=text).status_code == 200
    return crowd


def test_the_page_shows_what_is_decided_what_is_owed_who_works_and_what_was_written(make_crowd: MakeCrowd) -> None:
    crowd = described(make_crowd, name="team/Ada")
    crowd.invited("team/Ben").get("/next")
    shown = runner(crowd).get("/run")
    text = " ".join(read(shown).text.split())
    assert shown.url.path == "/run"
    assert "50 % decided" in text
    assert "1 of 2 units · 1 open · 1 in hands" in text
    assert "0.25 USD" in text
    assert GOOD in text
    assert "90 s" in text
    for name, said in (("Ada", "1 answer · pool both"), ("Ben", "0 answers")):
        assert f"{name} " in text
        assert said in text
    assert "describeany" in text
    assert "1 at workof 2" in text


def test_who_asks_to_withdraw_is_named_as_on_the_link_and_what_was_built_on_them_is_not_counted(
    make_crowd: MakeCrowd,
) -> None:
    crowd = described(make_crowd, name="team/Ada")
    worker = crowd.worker("team/Ada")
    ask_to_withdraw(crowd.site.journal, worker, crowd.site.now())
    text = " ".join(read(runner(crowd).get("/run")).text.split())
    assert "Ada asked " in text
    assert f"{worker} asked" not in text
    assert f"--withdraw {worker}" in text
    assert "0 of 1 units · 1 open" in text


def test_pictures_of_answers_are_for_the_runner_alone(make_crowd: MakeCrowd) -> None:
    crowd = described(make_crowd)
    visitor = runner(crowd)
    (picture,) = read(visitor.get("/run")).images
    found = visitor.get(picture)
    assert (found.status_code, found.headers["content-type"]) == (200, "image/jpeg")
    assert crowd.visitor().get(picture).status_code == 403
    assert crowd.invited("ada").get(picture).status_code == 403
    signed = [crowd.site.run_signer.sign(one) for one in (Shown("../private/key"), Shown("nothing"), RUNNER)]
    for key in (*signed, IMAGES[0], "..%2f..%2fprivate%2fkey", picture.rsplit("/", 1)[1][:-2], "%00"):
        assert visitor.get(f"/run/picture/{key}").status_code == 404


@pytest.mark.parametrize("kind", ["invitation", "worker session", "other key", "cut", "lease", "text"])
def test_nobody_else_signs_in_to_run_a_study(make_crowd: MakeCrowd, kind: str) -> None:
    crowd = described(make_crowd)
    good = crowd.site.run_signer
    token = {
        "invitation": crowd.site.signer.sign(RUNNER),
        "worker session": good.sign(Session("n", "requester")),
        "other key": run_signer(b"o" * 32).sign(RUNNER),
        "cut": good.sign(RUNNER)[:-4],
        "lease": good.sign(Shown("requester")),
        "text": "x",
    }[kind]
    visitor = crowd.visitor()
    assert visitor.get(f"/run/{token}").status_code == 403
    assert visitor.post(f"/run/{token}", data={"csrf": "x"}).status_code == 403
    assert visitor.get("/run").status_code == 403


def test_a_worker_runs_nothing_with_any_cookie_of_theirs(make_crowd: MakeCrowd) -> None:
    crowd = described(make_crowd)
    ada = crowd.invited("ada")
    for cookie in (ada.cookies["ctxr"], crowd_signer(KEY).sign(Session("n", "requester")), "x"):
        ada.cookies.set("ctxr-run", cookie)
        for path in ("/run", person(crowd)):
            assert ada.get(path).status_code == 403
        for path in ("/run/pause", person(crowd)):
            assert ada.post(path, data={"csrf": "x", "do": "pause", "text": "x"}).status_code == 403
    assert crowd.site.journal.paused() == ""


def test_the_link_alone_changes_no_session_and_its_token_is_in_no_later_address(make_crowd: MakeCrowd) -> None:
    crowd = described(make_crowd)
    visitor = crowd.visitor()
    assert visitor.get(crowd.site.run_link).status_code == 200
    assert visitor.get("/run").status_code == 403
    token = crowd.site.run_link.rsplit("/", 1)[1]
    own = runner(crowd)
    for path in ("/run", person(crowd)):
        assert token not in own.get(path).text
    assert own.get(crowd.site.run_link).url.path == "/run"


def test_a_pause_gives_nobody_new_work_lets_them_finish_and_outlives_a_restart(make_crowd: MakeCrowd) -> None:
    crowd = make_crowd(UNITS["describe"], UNITS["entail"])
    ada, page = crowd.opened()
    visitor = runner(crowd)
    assert read(visitor.get("/run")).form("/run/pause").send(visitor, do="pause").status_code == 200
    paid = make_crowd(UNITS["describe"], studies={"pilot": pays()})
    paid.site.journal.pause(True, paid.site.now())
    assert ["Prolific" in read(one.get("/run")).text for one in (visitor, runner(paid))] == [False, True]
    waiting = crowd.invited("ben").get("/next")
    assert (waiting.status_code, 'data-again="15"' in waiting.text) == (200, True)
    assert "short break" in read(waiting).text
    values = {"description": GOOD} if "description" in page.form().fields else {"verdict": "neutral"}
    after = page.form().send(ada, **values)
    assert read(after).headline == "A short break"
    assert len(crowd.site.journal.answers()) == 1
    again = read_journal(crowd.folder / "answers.sqlite")
    assert again.paused() == crowd.site.journal.paused() == "2026-11-21T12:00:00.000Z"
    again.close()
    crowd.clock.pass_by(5)
    crowd.site.journal.pause(True, crowd.site.now())
    assert crowd.site.journal.paused().startswith("2026-11-21T12:00")
    read(visitor.get("/run")).form("/run/pause").send(visitor, do="resume")
    assert crowd.invited("ben").get("/next").url.path.startswith("/w/")


def test_paid_work_ends_with_a_pause_that_lasts(make_crowd: MakeCrowd) -> None:
    crowd = make_crowd(UNITS["describe"], UNITS["entail"])
    crowd.invited("ada")
    journal, ada, began = crowd.site.journal, crowd.worker("ada"), crowd.site.now()
    crowd.clock.pass_by(30)
    journal.pause(True, crowd.site.now())
    endings = [journal.ending(ada, began, crowd.site.now() + timedelta(minutes=m), 5) for m in (0, 9, 10)]
    assert endings == [None, None, "complete"]


def test_a_person_is_blocked_for_a_reason_and_that_is_undone(make_crowd: MakeCrowd) -> None:
    crowd = described(make_crowd)
    visitor, worker = runner(crowd), crowd.worker("ada")
    shown = visitor.get(person(crowd)).text
    assert (shown.count("<label for="), "placeholder" in shown) == (2, False)
    form = read(visitor.get(person(crowd))).form()
    for values in ({"do": "block", "text": " "}, {"do": "erase", "text": "x"}, {"do": "allow", "text": "\u202eabc"}):
        assert form.send(visitor, **values).status_code == 422
    refused = form.send(visitor, do="undo", text="a reason that is kept")
    assert (refused.status_code, "a reason that is kept" in refused.text) == (409, True)
    done = form.send(visitor, do="block", text=HOSTILE)
    assert (done.status_code, done.url.path) == (200, person(crowd))
    assert HOSTILE not in done.text
    assert HOSTILE in read(done).text
    assert crowd.site.journal.blocked() == (worker,)
    read(visitor.get(person(crowd))).form().send(visitor, do="undo", text="by mistake")
    assert crowd.site.journal.blocked() == ()
    assert [change.by for change in crowd.site.journal.changes(worker)] == ["requester"] * 2
    for name in ("nobody", "%00", "w-" + "a" * 16):
        assert visitor.get(f"/run/person/{name}").status_code == 404
        assert form.send(visitor, do="block").status_code == 422


def test_forms_of_other_sites_and_other_pages_change_nothing(make_crowd: MakeCrowd) -> None:
    crowd = described(make_crowd)
    crowd.invited("ben")
    visitor = runner(crowd)
    pause = read(visitor.get("/run")).form("/run/pause").fields | {"do": ["pause"]}
    block = read(visitor.get(person(crowd))).form().fields | {"do": ["block"], "text": ["x"]}
    foreign = {"sec-fetch-site": "cross-site"}
    assert visitor.post("/run/pause", data=pause, headers=foreign).status_code == 403
    assert visitor.post(person(crowd), data=block, headers=foreign).status_code == 403
    assert visitor.post("/run/pause", data=pause | {"csrf": block["csrf"]}).status_code == 403
    assert visitor.post(person(crowd), data=block | {"csrf": pause["csrf"]}).status_code == 403
    assert visitor.post(person(crowd, "ben"), data=block).status_code == 403
    assert (crowd.site.journal.paused(), crowd.site.journal.blocked()) == ("", ())


def test_names_and_texts_of_workers_are_text(make_crowd: MakeCrowd) -> None:
    crowd = described(make_crowd, f"the left ear {HOSTILE}", f"team/{HOSTILE}")
    visitor = runner(crowd)
    for path in ("/run", person(crowd, f"team/{HOSTILE}")):
        shown = visitor.get(path)
        assert HOSTILE not in shown.text
        assert HOSTILE in read(shown).text


def test_a_message_stands_on_the_next_pages_of_its_worker_until_it_is_put_away(make_crowd: MakeCrowd) -> None:
    crowd = make_crowd(UNITS["describe"])
    ada, _ = crowd.opened()
    ben = crowd.invited("ben")
    visitor = runner(crowd)
    write = read(visitor.get(person(crowd))).forms[1]
    for text in ("", "\u202eabc", "x" * 1001):
        assert write.send(visitor, do="tell", text=text).status_code == 422
    assert "Not read yet" in read(write.send(visitor, do="tell", text=f"مرحبا {HOSTILE}")).text
    read(visitor.get(person(crowd, "ben"))).forms[1].send(visitor, do="tell", text="for Ben")
    page = ada.get("/next")
    assert f"مرحبا {HOSTILE}" in read(page).text
    assert HOSTILE not in page.text
    assert "for Ben" not in page.text
    assert "for Ben" in read(ben.get("/next")).text  # who has no unit
    away = read(page).form("/told/0")
    assert away.send(ben).status_code == 403
    assert ada.post("/told/0", data={"csrf": "x"}).status_code == 403
    assert ada.post("/told/0", data=away.fields, headers={"sec-fetch-site": "cross-site"}).status_code == 403
    assert ben.post(f"/told/{10**40}", data={"csrf": "x"}).status_code == 403
    crowd.site.journal.put_away(crowd.worker("ben"), 10**40, crowd.site.now())
    crowd.site.journal.put_away(crowd.worker("ben"), 0, crowd.site.now())
    assert "مرحبا" in ada.get("/next").text
    assert "مرحبا" not in away.send(ada).text
    assert "Not read yet" not in visitor.get(person(crowd)).text
    assert crowd.site.journal.unread(crowd.worker("ben")) == [(1, "for Ben")]


def test_a_message_stands_on_every_page_of_its_worker_to_the_completion_code(
    make_crowd: MakeCrowd, tmp_path: Path
) -> None:
    texts = read_texts(folder_of(tmp_path / "study", consent=CONSENT, exit=EXIT))
    crowd = make_crowd(UNITS["entail"], texts=texts, studies={"pilot": pays(bundle=1)})
    guest = crowd.visitor()
    page = read(guest.get(entry()))
    page.form("/agree").send(guest, agree="yes")
    (worker,) = (one.worker for one in crowd.site.journal.workers())
    crowd.site.journal.tell(worker, HOSTILE, "requester", crowd.site.now())
    pages = [guest.get(path) for path in ("/consent", "/instructions/entail", "/answers", "/next")]
    pages.append(read(pages[-1]).form().send(guest, verdict="neutral"))
    pages.append(read(pages[-1]).form("/exit").send(guest))
    assert "C1DONE" in pages[-1].text
    for one in pages:
        assert (read(one).text.count(HOSTILE), HOSTILE in one.text) == (1, False)
    assert "C1DONE" in read(pages[-1]).form("/told/0").send(guest).text
    assert crowd.site.journal.unread(worker) == []


def test_a_message_is_put_away_without_leaving_what_is_being_written(make_crowd: MakeCrowd, headless: Browser) -> None:
    crowd = make_crowd(UNITS["describe"])
    crowd.invited("ada")
    crowd.site.journal.tell(crowd.worker("ada"), "Please take your time. " * 10, "requester", crowd.site.now())
    with serving(crowd) as running:
        context = headless.new_context(viewport={"width": 390, "height": 800}, reduced_motion="reduce")
        tab = context.new_page()
        tab.goto(f"{running.address}/i/{crowd.site.signer.sign(Invitation('ada'))}")
        tab.get_by_role("button", name="Start").click()
        tab.locator("#f-description").fill("half a sent")
        assert Axe().run(tab).response["violations"] == []
        tab.get_by_role("button", name="I have read it").click()
        expect(tab.locator(".letter")).to_have_count(0)
        expect(tab.locator("#f-description")).to_have_value("half a sent")
        context.close()
    assert crowd.site.journal.unread(crowd.worker("ada")) == []


def test_what_is_stuck_is_named_with_its_reason(make_crowd: MakeCrowd) -> None:
    crowd = described(make_crowd)
    crowd.invited("ben").get("/next")
    crowd.clock.pass_by(31)
    visitor = runner(crowd)
    assert "1 unit held" in read(visitor.get("/run")).text
    crowd.site.journal.change(crowd.worker("ben"), "blocked", "x", "requester", crowd.site.now())
    stuck = read(visitor.get("/run")).text
    assert ("1 open unit" in stuck, "ctxr serve --invite" in stuck) == (True, True)


def test_who_comes_while_the_page_is_made_is_on_it(make_crowd: MakeCrowd, monkeypatch: pytest.MonkeyPatch) -> None:
    crowd = described(make_crowd)

    def late(*given: Any) -> Overview:
        crowd.site.journal.enrol("w-late", "local", crowd.site.now())
        return overview(*given)

    monkeypatch.setattr("ctxr.annotation.web.run.overview", late)
    assert "w-late" in read(runner(crowd).get("/run")).text


def test_what_nobody_could_do_anything_with_is_named(make_crowd: MakeCrowd) -> None:
    crowd = make_crowd(UNITS["tag"])
    for name in ("ada", "ben"):
        visitor, page = crowd.opened(name)
        assert page.form().send(visitor, problem="broken").status_code == 200
    text = read(runner(crowd).get("/run")).text
    assert "1 unit given up" in text
    assert text.count("picture is broken") == text.count("1 reported") == 2


def test_problems_are_shown_with_unit_and_comment_also_after_later_answers(make_crowd: MakeCrowd) -> None:
    units = [msgspec.structs.replace(UNITS["entail"], id=f"entail-{number}") for number in range(LATEST + 2)]
    crowd = make_crowd(*units)
    visitor, page = crowd.opened("ada")
    first = crowd.site.journal.lease(crowd.worker("ada"), crowd.site.now())
    assert isinstance(first, Lease)
    page = read(page.form().send(visitor, problem="broken", comment="half of it is <b>grey</b>"))
    for last in (False, True):
        sections = runner(crowd).get("/run").text.split("<section ")
        (place,) = [part for part in sections if "half of it is &lt;b&gt;" in part]
        assert (first.unit.id in place, place.startswith('aria-labelledby="reports"')) == (True, last)
        for _ in range(0 if last else LATEST):
            page = read(page.form().send(visitor, verdict="neutral"))


def test_a_talk_is_its_messages(make_crowd: MakeCrowd) -> None:
    crowd = make_crowd(UNITS["dialogue"])
    sides = [(visitor, page.forms[0].action) for visitor, page in (crowd.opened(name) for name in ("ada", "ben"))]
    for number in range(5):
        visitor, say = sides[number % 2]
        read(visitor.get(say.removesuffix("/say"))).form("/say").send(visitor, text=f"message {number}")
    for visitor, step in ((sides[0][0], "/share"), (sides[0][0], "/finish"), (sides[1][0], "/finish")):
        room = next(say for other, say in sides if other is visitor).removesuffix("/say")
        read(visitor.get(room)).form(step).send(visitor)
    text = read(runner(crowd).get("/run")).text
    assert [text.count(f"message {number}") for number in range(5)] == [2] * 5
    assert crowd.worker("ada") not in text


def test_checks_and_wrong_picks_are_marked(make_crowd: MakeCrowd) -> None:
    crowd = make_crowd(GOLD, protocol={"qualification": 1})
    ada, page = crowd.opened()
    page.form().send(ada, pick=page.form().offered["pick"][0])
    text = " ".join(read(runner(crowd).get("/run")).text.split())
    assert "pickedtarget A dog. wrong · retrieve (check)" in text
    assert "screened out" in text
    assert "0 of 1 checks right" in text


def test_the_link_of_a_study_is_signed_for_the_researcher(make_crowd: MakeCrowd) -> None:
    crowd = make_crowd(UNITS["describe"])
    assert crowd.site.run_signer.read(Invitation, crowd.site.run_link.rsplit("/", 1)[1]) == RUNNER

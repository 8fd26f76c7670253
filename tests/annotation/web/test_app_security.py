"""What a stranger may try: links, forms, pictures, bodies. Nothing that comes from a browser is believed."""

import re
from typing import Any

import pytest

from ctxr.annotation.web.site import Invitation, LeaseLink, Session, crowd_signer
from tests.annotation.web.conftest import MakeCrowd
from tests.annotation.web.crowd import IMAGES, KEY, UNITS, Crowd, opened
from tests.annotation.web.reading import read
from tests.annotation.web.test_work import GOOD


def lease_of(crowd: Crowd, name: str = "ada") -> Any:
    return crowd.site.journal.lease(crowd.worker(name), crowd.site.now())


@pytest.mark.parametrize("change", ["", "x", "cut", "other key", "other purpose"])
def test_a_link_that_was_not_made_here_opens_nothing(make_crowd: MakeCrowd, change: str) -> None:
    crowd, visitor, page = opened(make_crowd)
    link = page.form().action.rsplit("/", 1)[1]
    lease = lease_of(crowd)
    forged = {
        "": lease.token,
        # not its last sign, whose lowest bits are no part of the signature
        "x": f"{link[:-9]}{'A' if link[-9] != 'A' else 'B'}{link[-8:]}",
        "cut": link[:-4],
        "other key": crowd_signer(b"other" * 8).sign(LeaseLink(lease.token, lease.worker)),
        "other purpose": crowd.site.signer.sign(Invitation(lease.token)),
    }[change]
    assert visitor.get(f"/w/{forged}").status_code == 403
    assert visitor.post(f"/w/{forged}", data={"csrf": "x"}).status_code == 403
    assert visitor.get(f"/w/{forged}/talk/events").status_code == 403


def test_another_workers_unit_is_not_shown_and_not_taken(make_crowd: MakeCrowd) -> None:
    crowd, _, page = opened(make_crowd, UNITS["describe"])
    ben = crowd.invited("ben")
    assert ben.get(page.form().action).status_code == 403
    assert page.form().send(ben, description=GOOD).status_code == 403
    assert ben.get(page.images[0]).status_code == 403
    nobody = crowd.visitor()
    assert nobody.get(page.form().action).status_code == 403
    assert crowd.site.journal.answers() == []


def test_a_signed_link_lends_no_lease_of_another_worker_and_none_that_never_was(make_crowd: MakeCrowd) -> None:
    crowd = make_crowd(UNITS["describe"])
    crowd.opened()
    ben = crowd.invited("ben")
    for token in (lease_of(crowd).token, "no such lease"):
        link = crowd.site.signer.sign(LeaseLink(token, crowd.worker("ben")))
        assert ben.get(f"/w/{link}").status_code == 404


@pytest.mark.parametrize("token", [None, "", "0" * 32, "ünïcode"])
def test_a_form_without_its_token_is_not_taken_and_its_text_is_shown_back(
    make_crowd: MakeCrowd, token: str | None
) -> None:
    crowd, visitor, page = opened(make_crowd, UNITS["describe"])
    values = {"description": GOOD} | ({} if token is None else {"csrf": token})
    sent = visitor.post(page.form().action, data=values)
    assert (sent.status_code, GOOD in sent.text) == (403, True)
    assert crowd.site.journal.answers() == []


def test_a_form_sent_by_another_site_or_with_the_token_of_another_form_is_not_taken(make_crowd: MakeCrowd) -> None:
    _, visitor, page = opened(make_crowd, UNITS["describe"])
    other = {"csrf": page.form("/stop").fields["csrf"][0], "description": GOOD}
    assert visitor.post(page.form().action, data=other).status_code == 403
    body = page.form().fields | {"description": [GOOD]}
    elsewhere = visitor.post(page.form().action, data=body, headers={"sec-fetch-site": "cross-site"})
    assert elsewhere.status_code == 403
    assert visitor.post(page.form().action, data=body, headers={"sec-fetch-site": "same-origin"}).status_code == 200


@pytest.mark.parametrize(
    "name", ["..%2f..%2fprivate%2fkey", "../../private/key", "%2e%2e/answers.sqlite", "0.jpg", IMAGES[0], "", "%00"]
)
def test_a_picture_is_looked_up_by_its_name_on_the_page_and_never_by_a_path(make_crowd: MakeCrowd, name: str) -> None:
    _, visitor, page = opened(make_crowd, UNITS["describe"])
    assert visitor.get(f"{page.form().action}/picture/{name}").status_code == 404
    good = visitor.get(page.images[0])
    assert (good.status_code, good.headers["content-type"]) == (200, "image/jpeg")
    assert good.headers["cache-control"] == "private, max-age=31536000, immutable"


def test_a_picture_of_another_unit_cannot_be_fetched_with_ones_own_link(make_crowd: MakeCrowd) -> None:
    crowd, visitor, page = opened(make_crowd, UNITS["entail"])
    lease = lease_of(crowd)
    here = page.form().action
    names = [crowd.site.signer.digest("picture", lease.token, image)[:16] for image in IMAGES[:2]]
    assert [visitor.get(f"{here}/picture/{name}").status_code for name in names] == [200, 404]
    page.form().send(visitor, verdict="neutral")
    assert visitor.get(page.images[0]).status_code == 404


def test_a_partner_gets_the_photo_after_the_share_and_not_before_and_both_finish_without_a_script(
    make_crowd: MakeCrowd,
) -> None:
    crowd = make_crowd(UNITS["dialogue"])
    ada, first = crowd.opened()
    ben, second = crowd.opened("ben")
    rooms = [page.forms[0].action.removesuffix("/say") for page in (first, second)]
    lease = lease_of(crowd, "ben")
    name = crowd.site.signer.digest("picture", lease.token, IMAGES[0])[:16]
    photo = f"{rooms[1].removesuffix('/talk')}/picture/{name}"
    for number in range(4):
        read((ada, ben)[number % 2].get(rooms[number % 2])).form("/say").send((ada, ben)[number % 2], text="hello")
    assert ben.get(photo).status_code == 404
    assert "picture" not in ben.get(f"{rooms[1]}/events?after=0").text
    early = first.form("/share").send(ada)
    assert early.status_code == 422
    assert [re.findall(r"\d+", problem) for problem in read(early).problems] == [["5"]]
    assert ben.get(photo).status_code == 404
    first.form("/say").send(ada, text="look")
    stranger = ben.post(f"{rooms[1]}/share", data={"csrf": crowd.site.signer.form_token("x", "y")})
    assert stranger.status_code == 403
    first.form("/share").send(ada)
    assert ben.get(photo).status_code == 200
    first.form("/finish").send(ada)
    assert read(read(ben.get(rooms[1])).form("/finish").send(ben)).headline == "Done for now, thank you"
    assert [answer.unit for answer in crowd.site.journal.answers()] == ["u-dialogue"] * 2


def test_values_that_nobody_asked_for_are_refused(make_crowd: MakeCrowd) -> None:
    crowd, visitor, page = opened(make_crowd, UNITS["retrieve"])
    form = page.form()
    for values in ({"pick": IMAGES[3]}, {"pick": "1"}, {"pick": form.offered["pick"][0], "unit": "u-review"}):
        assert form.send(visitor, **values).status_code == 422
    assert form.send(visitor, pick=form.offered["pick"][:2]).status_code == 422
    assert crowd.site.journal.answers() == []


def test_a_post_that_is_too_long_is_refused_before_it_is_read(make_crowd: MakeCrowd) -> None:
    _, visitor, page = opened(make_crowd, UNITS["describe"])
    body = page.form().fields | {"description": ["a" * 70_000]}
    assert visitor.post(page.form().action, data=body).status_code == 413

    def endless() -> Any:
        for _ in range(100):
            yield b"description=" + b"a" * 1000 + b"&"

    told = {"content-type": "application/x-www-form-urlencoded"}
    assert visitor.post(page.form().action, content=endless(), headers=told).status_code == 413
    many = "&".join(f"f{number}=1" for number in range(1000))
    assert visitor.post(page.form().action, content=many, headers=told).status_code == 403


@pytest.mark.parametrize("content", [b"\xff\xfe", b"csrf=%ff%fe", b"{}", b"", b"--boundary"])
def test_a_body_that_is_no_form_is_refused(make_crowd: MakeCrowd, content: bytes) -> None:
    _, visitor, page = opened(make_crowd, UNITS["describe"])
    assert visitor.post(page.form().action, content=content).status_code == 403


def test_every_response_carries_its_headers(make_crowd: MakeCrowd) -> None:
    _, visitor, page = opened(make_crowd, studies={"pilot": ""}, anybody=True)
    responses = [
        visitor.get(path)
        for path in (page.form().action, page.images[0], "/", "/nowhere", "/static/x/crowd.css", "/p/pilot", "/w/x")
    ]
    responses += [visitor.post("/nowhere"), visitor.post("/", data={}), visitor.post(page.form().action, data={})]
    assert {response.status_code for response in responses} == {200, 400, 403, 404, 405}
    for response in responses:
        policy = response.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert "frame-ancestors 'none'" in policy
        assert response.headers["x-content-type-options"] == "nosniff"
        assert response.headers["referrer-policy"] == "no-referrer"
        assert response.headers["x-frame-options"] == "DENY"


def test_a_failure_of_ours_is_told_without_its_inside(make_crowd: MakeCrowd, monkeypatch: pytest.MonkeyPatch) -> None:
    crowd = make_crowd()
    visitor = crowd.invited("ada")

    def break_down(*_: object) -> None:
        raise RuntimeError("secret detail")

    monkeypatch.setattr(crowd.site.journal, "done_by", break_down)
    broken = visitor.get("/next")
    assert (broken.status_code, read(broken).headline.startswith("Something")) == (500, True)
    assert "secret" not in broken.text
    assert broken.headers["content-security-policy"]


def test_no_page_holds_inline_script_or_style(make_crowd: MakeCrowd) -> None:
    crowd, visitor, _ = opened(make_crowd, anybody=True)
    for text in (visitor.get("/next").text, visitor.get("/").text, crowd.visitor().get("/").text):
        assert not re.search(r"<script(?![^>]*\bsrc=)|\sstyle=|<style|\son\w+=", text)


def test_the_cookie_is_out_of_reach_of_scripts_and_secure_over_https(make_crowd: MakeCrowd) -> None:
    plain = make_crowd(anybody=True).visitor().get("/").headers["set-cookie"]
    assert "HttpOnly" in plain
    assert "SameSite=lax" in plain
    assert "Secure" not in plain
    crowd = make_crowd(anybody=True, base_url="https://crowd.example/study")
    secure = crowd.visitor().get("/")
    assert "Secure" in secure.headers["set-cookie"]
    assert "Path=/study" in secure.headers["set-cookie"]
    assert secure.headers["strict-transport-security"]
    assert read(secure).forms[0].action == "/study/enter"


def test_a_forged_or_old_session_is_nobody(make_crowd: MakeCrowd, monkeypatch: pytest.MonkeyPatch) -> None:
    crowd = make_crowd()
    visitor = crowd.visitor()
    visitor.cookies.set("ctxr", crowd_signer(b"other" * 8).sign(Session("n", crowd.worker("ada"))))
    assert read(visitor.get("/next")).headline.endswith("personal link")
    good = crowd.site.signer.sign(Session("n", crowd.worker("ada")))
    assert crowd_signer(KEY).read(Session, good) == Session("n", crowd.worker("ada"))
    monkeypatch.setattr("itsdangerous.timed.time.time", lambda: 4e9)
    assert crowd_signer(KEY).read(Session, good) is None


def test_who_asks_too_often_is_slowed_down_and_others_are_not(make_crowd: MakeCrowd) -> None:
    crowd = make_crowd(UNITS["review"], UNITS["entail"], rate=1.0)
    ada, ben = crowd.invited("ada"), crowd.invited("ben")
    said = [ada.get("/next", follow_redirects=False).status_code for _ in range(14)]
    assert (said[0], said[-1]) == (303, 429)
    slow = ada.get("/next")
    assert int(slow.headers["retry-after"]) >= 1
    assert slow.headers["content-security-policy"]
    assert ben.get("/next").status_code == 200


def test_an_answer_is_one_request_also_where_it_leads_to_the_next_unit(make_crowd: MakeCrowd) -> None:
    # three requests in a row: the redirect, the page, and what it sends
    _, visitor, page = opened(make_crowd, UNITS["describe"], UNITS["entail"], rate=0.3)
    form = page.form()
    sent = visitor.post(form.action, data=form.fields | {"description": [GOOD]}, follow_redirects=False)
    assert (sent.status_code, sent.headers["location"][:3]) == (303, "/w/")


def test_an_address_that_asks_too_often_is_slowed_down(make_crowd: MakeCrowd) -> None:
    crowd = make_crowd(rate=0.01)
    visitor = crowd.visitor()
    assert [visitor.get("/").status_code for _ in range(3)] == [200, 429, 429]

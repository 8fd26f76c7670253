"""The pages of a review without a script: what is decided is on the disk first, and nothing that comes from a browser is believed."""

from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from ctxr.annotation.web.review import REASONS, Review, make_review, review_signer
from ctxr.annotation.web.site import Invitation, Session, crowd_signer
from ctxr.errors import CtxrError
from tests.annotation.web.crowd import KEY
from tests.annotation.web.reading import read
from tests.annotation.web.reviewed import SETS, Reviewed, painted


def test_sets_and_single_images_are_kept_and_rejected_and_each_decision_is_on_the_disk(tmp_path: Path) -> None:
    reviewed = Reviewed(tmp_path)
    visitor = reviewed.invited()
    page = read(visitor.get("/"))
    assert page.headline == f"Set 1 of {SETS}"
    assert len(page.images) == 10
    assert all(visitor.get(image).headers["content-type"] == "image/jpeg" for image in page.images)
    assert page.form().offered["reason"] == list(REASONS)
    page = read(page.form().send(visitor, decision="keep", image=["0", "9"], reason="faces"))
    assert page.headline == f"Set 2 of {SETS}"
    rows = reviewed.rows()
    assert [(row.id, row.decision, row.reason) for row in rows] == [
        ("clip/img0", "reject", "faces"), ("clip/img9", "reject", "faces"), ("clip-shot0_0", "keep", ""),
    ]  # fmt: skip
    assert {row.person for row in rows} == {"w-ada"}
    assert rows[-1].images == {f"clip/img{number}": "ab" * 8 for number in range(10)}
    assert all(row.at and row.at.endswith("+00:00") for row in rows)
    page = read(page.form().send(visitor, decision="reject", reason="nudity"))
    page = read(page.form().send(visitor, decision="keep", reason="other"))
    assert page.headline == "All decided"
    assert reviewed.review.counts() == {"kept": 2, "rejected": 1, "open": 0, "images": 2}
    assert (reviewed.rows()[3].decision, reviewed.rows()[3].reason) == ("reject", "nudity")


def test_a_decision_is_undone_from_the_next_page_and_can_be_changed_on_its_own(tmp_path: Path) -> None:
    reviewed = Reviewed(tmp_path)
    visitor = reviewed.invited()
    page = read(read(visitor.get("/")).form().send(visitor, decision="keep", image=["3"], reason="plates"))
    page = read(page.form("/set/0").send(visitor))
    assert page.headline == f"Set 1 of {SETS}"
    assert "image" not in page.form().fields
    assert reviewed.review.counts() == {"kept": 0, "rejected": 0, "open": SETS, "images": 0}
    page.form().send(visitor, decision="reject", reason="faces")
    page = read(visitor.get("/set/0"))
    assert "rejected" in page.text
    page.form().send(visitor, decision="keep", image=["1"])
    assert reviewed.review.counts() == {"kept": 1, "rejected": 0, "open": SETS - 1, "images": 1}
    assert read(visitor.get("/set/0")).form().fields["image"] == ["1"]


def test_a_review_goes_on_where_it_was_killed_and_shows_changed_sets_again(tmp_path: Path) -> None:
    reviewed = Reviewed(tmp_path)
    visitor = reviewed.invited()
    read(visitor.get("/")).form().send(visitor, decision="keep")
    with reviewed.file.open("ab") as stream:
        stream.write(b'{"id":"clip-shot0_1","decision":"ke')
    again = Reviewed(tmp_path / "again")
    again.file.write_bytes(reviewed.file.read_bytes())
    again.review = Review(again.review.dataset, again.file, {})
    assert [again.review.decision(one.id) for one in again.review.sets] == ["keep", "", ""]
    again.review.decide(again.review.sets[1], "reject", (), "faces", "w-ben")
    assert [row.decision for row in again.rows()] == ["keep", "reject"]
    other = painted(tmp_path / "other")
    first = other.sets[0]
    swapped = (*reversed(first.images[1:]), other.sets[1].images[0])
    changed = [type(first)(first.id, first.kind, swapped, *("clip", "clip"), 0, None, None), *other.sets[1:]]
    other = type(other)(other.name, other.root, tuple(changed), other.images, sources=other.sources)
    assert [Review(other, again.file, {}).decision(one.id) for one in other.sets] == ["", "reject", ""]


def test_the_highest_scores_come_first_by_id_or_path_and_stand_beside_the_images(tmp_path: Path) -> None:
    scores = {"clip/img25": 0.9, "images/11.jpg": 0.95, "images/12.jpg": 0.2, "clip-shot0_0": -1.0, "else": 7.0}
    reviewed = Reviewed(tmp_path, scores)
    assert [one.id for one in reviewed.review.sets] == ["clip-shot0_1", "clip-shot0_2", "clip-shot0_0"]
    page = read(reviewed.invited().get("/"))
    assert "0.95" in page.text
    assert "0.2" in page.text


def test_two_people_review_together_and_one_rejection_counts(tmp_path: Path) -> None:
    reviewed = Reviewed(tmp_path)
    ada, ben = reviewed.invited("w-ada"), reviewed.invited("w-ben")
    of_ada, of_ben = read(ada.get("/")), read(ben.get("/"))
    of_ada.form().send(ada, decision="reject", reason="faces")
    of_ben.form().send(ben, decision="keep")
    assert [row.person for row in reviewed.rows()] == ["w-ada", "w-ben"]
    assert reviewed.review.decision("clip-shot0_0") == "reject"
    assert read(ben.get("/")).headline == f"Set 2 of {SETS}"


@pytest.mark.parametrize("suffix", [".bmp", ".png"])
def test_pictures_that_browsers_do_not_show_are_sent_as_jpeg(tmp_path: Path, suffix: str) -> None:
    reviewed = Reviewed(tmp_path)
    reviewed.review = Review(painted(tmp_path / suffix, suffix), tmp_path / "log.jsonl", {})
    reviewed.app = make_review(reviewed.review, "http://testserver", reviewed.signer)
    answer = reviewed.invited().get("/set/0/0")
    assert (answer.status_code, answer.headers["content-type"]) == (
        200,
        "image/png" if suffix == ".png" else "image/jpeg",
    )
    assert answer.headers["cache-control"] == "no-store"


def test_nobody_comes_in_without_a_link_of_a_reviewer(tmp_path: Path) -> None:
    reviewed = Reviewed(tmp_path)
    stranger = reviewed.visitor()
    assert not read(stranger.get("/")).images
    for path in ("/set/0", "/set/0/0"):
        assert stranger.get(path).status_code == 403
    assert stranger.post("/set/0", data={"decision": "keep"}).status_code == 403
    links = [crowd_signer(KEY).sign(Invitation("w-ada")), review_signer(b"o" * 32).sign(Invitation("w-ada"))]
    links += [reviewed.signer.sign(Session("nonce", "w-ada")), reviewed.path()[3:-4], "x", "%00"]
    for link in links:
        assert stranger.get(f"/i/{link}").status_code == 403
        assert stranger.post(f"/i/{link}", data={"csrf": "x"}).status_code == 403
    # a session of the crowd's pages
    stranger.cookies.set("ctxr-review", crowd_signer(KEY).sign(Session("nonce", "w-ada")))
    assert stranger.get("/set/0").status_code == 403
    assert reviewed.rows() == []


@pytest.mark.parametrize(
    "path",
    [
        "/set/99",
        "/set/0/99",
        "/set/-1",
        "/set/0/..%2f..%2fdecisions.jsonl",
        "/set/0/../../decisions.jsonl",
        "/set/x",
        "/static/x/..%2freview.py",
    ],
)
def test_what_is_not_there_is_not_found(tmp_path: Path, path: str) -> None:
    assert Reviewed(tmp_path).invited().get(path).status_code == 404


@pytest.mark.parametrize(
    ("values", "status"),
    [
        ({"csrf": ""}, 403),
        ({"csrf": "0" * 32}, 403),
        ({"decision": "perhaps"}, 422),
        ({"reason": "<b>"}, 422),
        ({"image": "10"}, 422),
        ({"image": "../1"}, 422),
        ({"image": "-1"}, 422),
        ({"decision": ""}, 422),
    ],
)
def test_a_form_that_is_none_of_ours_decides_nothing(tmp_path: Path, values: dict[str, Any], status: int) -> None:
    reviewed = Reviewed(tmp_path)
    visitor = reviewed.invited()
    form = read(visitor.get("/set/0")).form()
    assert form.send(visitor, **({"decision": "keep"} | values)).status_code == status
    other = read(visitor.get("/set/1")).form().fields["csrf"]
    assert form.send(visitor, decision="keep", csrf=other).status_code == 403
    body = form.fields | {"decision": ["keep"]}
    assert visitor.post(form.action, data=body, headers={"sec-fetch-site": "cross-site"}).status_code == 403
    assert reviewed.rows() == []


def test_a_disk_that_is_full_is_told_and_the_set_stays_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reviewed = Reviewed(tmp_path)
    visitor = reviewed.invited()
    form = read(visitor.get("/set/0")).form()
    monkeypatch.setattr("ctxr.annotation.web.review.append", Mock(side_effect=CtxrError("the disk is full")))
    assert form.send(visitor, decision="keep").status_code == 503
    assert reviewed.review.counts()["open"] == SETS


def test_pages_have_the_policy_of_all_pages_and_their_cookie_is_no_script_s(tmp_path: Path) -> None:
    reviewed = Reviewed(tmp_path)
    answer = reviewed.visitor().get(reviewed.path())
    assert "script-src 'self'" in answer.headers["content-security-policy"]
    cookie = answer.headers["set-cookie"].lower()
    assert "httponly" in cookie
    assert "samesite=lax" in cookie
    assert reviewed.invited().get("/?after=99999999999999999999").status_code == 200
    assert reviewed.invited().get("/set/0?after=x").status_code == 200

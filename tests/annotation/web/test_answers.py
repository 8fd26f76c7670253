"""What a worker sent last, seen again and corrected by a browser without a script, and what a stranger may try there."""

import pytest
from starlette.testclient import TestClient

from tests.annotation.web.conftest import MakeCrowd
from tests.annotation.web.crowd import IMAGES, UNITS, Crowd, opened
from tests.annotation.web.reading import HtmlReader, read
from tests.annotation.web.test_work import GOOD

BETTER = "A red dog sleeps to the left of the white house."


def sent(make_crowd: MakeCrowd, task: str = "describe", **values: str) -> tuple[Crowd, TestClient, HtmlReader]:
    """A site with one answer of ada's, and her page of answers."""
    crowd, visitor, page = opened(make_crowd, UNITS[task])
    assert "/answers" in page.links
    form = page.form()
    chosen = {name: form.offered[name][int(value)] for name, value in values.items() if value.isdigit()}
    form.send(visitor, **values | chosen)
    assert len(crowd.site.journal.answers()) == 1
    return crowd, visitor, read(visitor.get("/answers"))


def correction(page: HtmlReader) -> str:
    (link,) = [link for link in page.links if link.endswith("/correct")]
    return link


def test_an_answer_is_seen_again_and_corrected_without_a_script(make_crowd: MakeCrowd) -> None:
    crowd, visitor, page = sent(make_crowd, description=GOOD)
    assert GOOD in page.text
    assert [visitor.get(image).status_code for image in page.images] == [200]
    assert [visitor.get(image.replace("/correct", "")).status_code for image in page.images] == [404]
    correcting = read(visitor.get(correction(page)))
    form, pictures = correcting.form(), [*page.images, *dict.fromkeys(correcting.images)]
    assert [visitor.get(image).status_code for image in pictures] == [200] * 11
    assert form.fields["description"] == [GOOD]
    check = form.fields | {"link": [form.action.split("/")[-2]], "description": [f"{GOOD} Really."]}
    assert visitor.post("/check", data=check).json() == {"problems": [], "may_stand": False}
    wrong = form.send(visitor, description="the cat on the next image")
    assert (wrong.status_code, len(read(wrong).problems)) == (422, 1)
    saved = read(wrong).form().send(visitor, description=BETTER)
    shown = [one.text.count('role="status"') for one in (saved, visitor.get("/answers"))]
    page = read(saved)
    assert (BETTER in page.text, shown) == (True, [1, 0])
    (answer,) = crowd.site.journal.answers()
    assert answer.values == {"description": (BETTER,)}
    assert BETTER in crowd.invited("ben").get("/next").text
    page = read(visitor.get("/answers"))
    assert ([link for link in page.links if link.endswith("/correct")], page.images, BETTER in page.text) == (
        [],
        [],
        True,
    )
    assert [visitor.get(image).status_code for image in pictures] == [404] * 11
    late = form.send(visitor, description=GOOD)
    assert (late.status_code, GOOD in late.text, crowd.site.journal.answers()) == (409, True, [answer])
    assert visitor.get(form.action).status_code == 409


def test_what_was_picked_or_ticked_is_shown_and_filled_in_again(make_crowd: MakeCrowd) -> None:
    crowd, visitor, page = sent(make_crowd, "retrieve", pick="6")
    token = correction(page).split("/")[-2]
    (shown,) = page.images
    (lease,) = [given.lease for given in crowd.site.journal.last_answers(crowd.worker("ada"))]
    assert shown == f"/w/{token}/correct/picture/{crowd.site.signer.digest('picture', lease.token, IMAGES[6])[:16]}"
    form = read(visitor.get(correction(page))).form()
    assert form.fields["pick"] == [form.offered["pick"][6]]
    form.send(visitor, pick=form.offered["pick"][2])
    assert crowd.site.journal.answers()[0].values == {"pick": (IMAGES[2],)}
    _, _, page = sent(make_crowd, "review", verdict="1")
    assert "not associated" in page.text


def test_what_was_written_is_shown_as_text(make_crowd: MakeCrowd) -> None:
    comment = "<script>alert(1)</script>"
    _, visitor, page = sent(make_crowd, "entail", problem="cannot_tell", comment=comment)
    assert "I cannot tell" in page.text
    assert comment in page.text
    assert comment not in visitor.get("/answers").text


def test_nobody_sees_or_corrects_what_another_sent(make_crowd: MakeCrowd) -> None:
    crowd, visitor, page = sent(make_crowd, description=GOOD)
    link, form = correction(page), read(visitor.get(correction(page))).form()
    ben, stranger = crowd.invited("ben"), crowd.visitor()
    assert GOOD not in ben.get("/answers").text
    assert "personal link" in read(stranger.get("/answers")).headline
    for other in (ben, stranger):
        assert [other.get(link).status_code, form.send(other, description=BETTER).status_code] == [403, 403]
        assert other.get(page.images[0]).status_code == 403
    form.fields["csrf"] = ["forged"]
    assert form.send(visitor, description=BETTER).status_code == 403
    assert visitor.get(link.replace("/w/", "/w/x")).status_code == 403
    assert crowd.site.journal.answers()[0].values == {"description": (GOOD,)}


@pytest.mark.parametrize("method", ["get", "post"])
def test_an_open_unit_has_nothing_to_correct(make_crowd: MakeCrowd, method: str) -> None:
    crowd, visitor, page = opened(make_crowd, UNITS["describe"])
    form = page.form()
    body = {} if method == "get" else {"data": form.fields | {"description": [GOOD]}}
    assert getattr(visitor, method)(f"{form.action}/correct", **body).status_code == 409
    assert crowd.site.journal.answers() == []
    (picture, *_) = page.images
    assert visitor.get(picture.replace("/picture/", "/correct/picture/")).status_code == 404
    assert read(visitor.get("/answers")).links == ["/next?more=1"]

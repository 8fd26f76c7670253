"""Ways in: names and invitations."""

import pytest

from ctxr.annotation.web.site import Invitation
from tests.annotation.web.conftest import MakeCrowd
from tests.annotation.web.crowd import UNITS
from tests.annotation.web.reading import read


def test_anybody_may_come_in_with_a_name_where_the_door_is_open(make_crowd: MakeCrowd) -> None:
    crowd = make_crowd(UNITS["describe"], anybody=True)
    visitor = crowd.visitor()
    welcome = read(read(visitor.get("/")).form("/enter").send(visitor, name="  Ada   L "))
    assert welcome.headline == "Welcome, Ada L"
    assert read(visitor.get(welcome.links[0])).headline.endswith("marked image")
    again = crowd.visitor()
    invitation = read(again.get(welcome.links[1]))
    assert invitation.headline == "Welcome"
    assert read(invitation.form().send(again)).headline.endswith("marked image")
    assert read(again.get(welcome.links[1])).headline.endswith("marked image")


def test_a_link_puts_nobody_into_the_place_of_another(make_crowd: MakeCrowd) -> None:
    crowd = make_crowd(UNITS["describe"])
    invitation = f"/i/{crowd.site.signer.sign(Invitation('team/eve'))}"
    visitor, stranger = crowd.visitor(), crowd.visitor()
    form = read(visitor.get(invitation)).form()
    assert crowd.site.journal.workers() == []
    assert form.send(stranger).status_code == 403  # the button of another browser's page
    assert visitor.post(invitation).status_code == 403
    assert visitor.post("/i/forged", data=form.fields).status_code == 403
    assert crowd.site.journal.workers() == []
    assert form.send(visitor).status_code == 200
    assert [one.worker for one in crowd.site.journal.workers()] == [crowd.worker("team/eve")]


def test_a_name_that_is_taken_is_not_lent_to_a_stranger(make_crowd: MakeCrowd) -> None:
    crowd = make_crowd(anybody=True)
    for expected in (200, 422):
        visitor = crowd.visitor()
        sent = read(visitor.get("/")).form("/enter").send(visitor, name="Ada")
        assert sent.status_code == expected
    assert "already taken" in read(sent).problems[0]


@pytest.mark.parametrize("name", ["", "   ", "a" * 61, "a\x00b"])
def test_a_name_that_is_none_is_asked_for_again(make_crowd: MakeCrowd, name: str) -> None:
    visitor = make_crowd(anybody=True).visitor()
    sent = read(visitor.get("/")).form("/enter").send(visitor, name=name)
    assert sent.status_code == 422
    assert "one to sixty" in read(sent).problems[0]


def test_a_closed_door_lets_nobody_enrol(make_crowd: MakeCrowd) -> None:
    visitor = make_crowd().visitor()
    assert read(visitor.get("/")).headline.endswith("personal link")
    assert visitor.post("/enter", data={"name": "Ada"}).status_code == 404
    assert visitor.get("/p/pilot").status_code == 404
    assert visitor.get("/i/forged").status_code == 403


def test_newcomers_of_one_address_are_counted(make_crowd: MakeCrowd) -> None:
    crowd = make_crowd(anybody=True, rate=1000)
    visitor = crowd.visitor()
    said = []
    crowd.site.newcomers.take("testclient", 38)
    for number in range(4):
        visitor.cookies.clear()
        form = read(visitor.get("/")).form("/enter")
        said.append(form.send(visitor, name=f"name {number}").status_code)
    assert (said[0], said[-1]) == (200, 429)

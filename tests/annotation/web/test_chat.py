"""News of a talk: at once where there is some, held where there is none, and from one server to another."""

import asyncio
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from starlette.testclient import TestClient

from ctxr.annotation.dialogues import MOST_CHARACTERS
from ctxr.annotation.web import chat
from tests.annotation.web.conftest import MakeCrowd
from tests.annotation.web.crowd import UNITS, Crowd, crowd
from tests.annotation.web.reading import read


def room_of(crowd: Crowd, name: str) -> tuple[TestClient, str]:
    visitor = crowd.invited(name)
    return visitor, read(visitor.get("/next")).forms[0].action.removesuffix("/say")


def paired(make_crowd: MakeCrowd) -> tuple[Crowd, TestClient, str]:
    """A site, and the room of the first of two people who talk."""
    site = make_crowd(UNITS["dialogue"])
    visitor, room = room_of(site, "ada")
    room_of(site, "ben")
    return site, visitor, room


def say(visitor: TestClient, room: str, text: str) -> Any:
    return read(visitor.get(room)).form("/say").send(visitor, text=text)


def test_news_come_at_once_and_are_waited_for_where_there_are_none(
    make_crowd: MakeCrowd, monkeypatch: pytest.MonkeyPatch
) -> None:
    site, ada, first = paired(make_crowd)
    waits: list[float] = []

    async def wait(_unit: str, seconds: float) -> None:
        waits.append(seconds)

    loop = SimpleNamespace(time=lambda: sum(waits))
    monkeypatch.setattr(chat, "asyncio", SimpleNamespace(get_running_loop=lambda: loop))
    monkeypatch.setattr(site.bell, "wait", wait)
    news = ada.get(f"{first}/events?after=0").json()
    assert (news["partner"], news["turns"], news["may_share"]) == (True, [], False)
    assert waits == []
    assert ada.get(f"{first}/events?after={news['after']}").json() == news
    assert waits == [chat.LOOK_SECONDS] * int(chat.HELD_SECONDS / chat.LOOK_SECONDS)


def test_an_odd_cursor_is_no_error(make_crowd: MakeCrowd, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chat, "HELD_SECONDS", 0.0)
    site = make_crowd(UNITS["dialogue"])
    ada, first = room_of(site, "ada")
    for after in ("x", "-1", "9" * 30, "9" * 5000):
        assert ada.get(f"{first}/events?after={after}").json()["partner"] is False


def test_what_is_said_at_one_server_is_heard_at_another(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one, two = crowd(tmp_path, [UNITS["dialogue"]]), crowd(tmp_path, [UNITS["dialogue"]])
    ada, first = room_of(one, "ada")
    ben, second = room_of(two, "ben")
    after = ada.get(f"{first}/events?after=0").json()["after"]
    waits: list[float] = []

    async def wait(_unit: str, seconds: float) -> None:
        waits.append(seconds)
        say(ben, second, "hello from afar")

    monkeypatch.setattr(one.bell, "wait", wait)
    news = ada.get(f"{first}/events?after={after}").json()
    assert waits == [chat.LOOK_SECONDS]
    assert [turn["text"] for turn in news["turns"]] == ["hello from afar"]
    one.close()
    two.close()


def test_a_server_that_stops_lets_go_of_who_waits(make_crowd: MakeCrowd, monkeypatch: pytest.MonkeyPatch) -> None:
    site = make_crowd(UNITS["dialogue"])
    ada, first = room_of(site, "ada")
    after = ada.get(f"{first}/events?after=0").json()["after"]
    ended: list[str] = []
    patient = site.bell.wait

    async def wait(unit: str, _seconds: float) -> None:
        asyncio.get_running_loop().call_soon(site.bell.close)
        await asyncio.wait_for(patient(unit, 600), 60)
        ended.append(unit)

    monkeypatch.setattr(site.bell, "wait", wait)
    assert ada.get(f"{first}/events?after={after}").status_code == 200
    assert ended == ["u-dialogue"]


def test_an_empty_message_and_one_to_nobody_are_refused_and_kept_in_the_box(make_crowd: MakeCrowd) -> None:
    site = make_crowd(UNITS["dialogue"])
    ada, first = room_of(site, "ada")
    alone = say(ada, first, "anybody?")
    assert (alone.status_code, read(alone).form("/say").fields["text"]) == (422, ["anybody?"])
    room_of(site, "ben")
    assert "before you send" in read(say(ada, first, "  ")).problems[0]
    form = read(ada.get(first)).form("/say")
    told = ada.post(form.action, data=form.fields | {"text": [""]}, headers={"accept": "application/json"})
    assert told.status_code == 409
    assert "before you send" in told.json()["problems"][0]


def test_a_bell_forgets_who_has_gone() -> None:
    bell = chat.UnitNotifier()
    thread = threading.Thread(target=lambda: asyncio.run(bell.wait("unit", 0.01)))
    thread.start()
    thread.join()
    assert bell._waiting == {}
    bell.ring("unit")


def test_the_box_takes_as_much_as_a_message_may_be(make_crowd: MakeCrowd) -> None:
    _, ada, first = paired(make_crowd)
    assert f'name="text" rows="1" maxlength="{MOST_CHARACTERS}"' in ada.get(first).text
    assert read(say(ada, first, "x" * MOST_CHARACTERS)).problems == []
    assert "2,000 characters" in read(say(ada, first, "x" * (MOST_CHARACTERS + 1))).problems[0]


def test_a_message_that_comes_too_late_is_shown_back(make_crowd: MakeCrowd) -> None:
    site, ada, first = paired(make_crowd)
    form = read(ada.get(first)).form("/say")
    site.clock.pass_by(60)
    for _ in range(2):  # the room closes with the first
        late = form.send(ada, text="a long and careful thought")
        assert (late.status_code, "a long and careful thought" in late.text) == (409, True)
        assert "for too long" in late.text


def test_a_message_on_a_form_that_has_grown_old_is_shown_back(make_crowd: MakeCrowd) -> None:
    _, ada, first = paired(make_crowd)
    form = read(ada.get(first)).form("/say")
    form.fields["csrf"] = ["made in a session that is over"]
    old = form.send(ada, text="a long and careful thought")
    assert (old.status_code, read(old).headline.endswith("grown old")) == (403, True)
    assert "a long and careful thought" in old.text

"""A talk is its events: what may happen, and what happened."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as some

from ctxr.annotation.dialogues import MOST_CHARACTERS, Event, Kind, TalkState, refusal, replay
from ctxr.annotation.records import Answer, AnswerLimits, Unit
from ctxr.annotation.tasks import dialogue
from ctxr.annotation.tasks.values import Exposure
from ctxr.errors import DataError

TASK = dialogue.DialogueTask()
UNIT = Unit(id="u", task="dialogue", image_set="s", group="g", images=("p",), target="p")

attempts = some.lists(
    some.tuples(
        some.sampled_from(("join", "say", "say", "say", "share", "finish", "leave")),
        some.integers(0, 1),
        some.sampled_from(("hello", "how  are\nyou", " ")),
    ),
    max_size=60,
)


def log(*happenings: tuple[Kind, int, str]) -> list[Event]:
    return [
        Event(number, "r", kind, seat, text, "2026-11-21T09:00:00.000Z")
        for number, (kind, seat, text) in enumerate(happenings)
    ]


def talking(turns: int) -> list[tuple[Kind, int, str]]:
    """Both are there and have said so much in all."""
    return [("join", 0, ""), ("join", 1, ""), *[("say", place % 2, f"turn {place}") for place in range(turns)]]


def taken(tried: list[tuple[Kind, int, str]]) -> list[Event]:
    """The log of everything that was not refused."""
    events: list[Event] = []
    for kind, seat, text in tried:
        if refusal(replay(events), seat, kind, text) is None:
            events.append(Event(len(events), "r", kind, seat, text, "t"))
    return events


def code_of(talk: TalkState, seat: int, kind: Kind, text: str = "") -> str:
    """Why it may not happen; empty if it may."""
    problem = refusal(talk, seat, kind, text)
    return problem.code if problem else ""


@pytest.mark.parametrize("turns", range(7))
def test_the_photo_can_be_shared_after_five_turns_and_by_its_owner_alone(turns: int) -> None:
    progress = replay(log(*talking(turns)))
    assert code_of(progress, 0, "share") == ("" if turns >= 5 else "too_early")
    assert code_of(progress, 1, "share") == "not_yours"


def test_how_many_turns_come_before_the_share_is_said_by_the_unit() -> None:
    one = msgspec.structs.replace(UNIT, limits=AnswerLimits(turns_before_share=2))
    progress = replay(log(*talking(1)), one.limits)
    assert code_of(progress, 0, "share") == "too_early"
    progress = replay(log(*talking(2), ("share", 0, "")), one.limits)
    values = {dialogue.FIELD: (msgspec.json.encode(progress.turns).decode(),), dialogue.PAIR: ("a", "b")}
    assert TASK.validate(one, values, Exposure()) == []
    assert [problem.code for problem in TASK.validate(UNIT, values, Exposure())] == ["shared_early"]
    assert "after 2 messages" in TASK.render(one, one.images).instruction[1]


def test_both_may_go_on_after_the_share_and_finish() -> None:
    events = [*talking(5), ("share", 0, ""), ("say", 1, "oh, how nice"), ("finish", 0, "")]
    progress = replay(log(*events))
    assert (progress.shared, progress.finished, len(progress.turns)) == (True, False, 7)
    assert code_of(progress, 0, "say", "more") == "closed"
    assert code_of(progress, 1, "share") == "not_yours"
    assert replay(log(*events, ("finish", 1, ""))).finished
    assert replay(log(*events, ("leave", 1, ""))).finished


@pytest.mark.parametrize(
    ("tried", "reason"),
    [
        ((talking(0)[:1], 0, "say", "anybody?"), "alone"),
        ((talking(3), 0, "say", " \n"), "empty"),
        ((talking(3), 0, "say", "x" * (MOST_CHARACTERS + 1)), "too_long"),
        ((talking(3), 0, "say", "hello \x1b[31m"), "odd_characters"),
        ((talking(3), 0, "say", "hello \x00"), "odd_characters"),
        ((talking(3), 0, "say", "hello \u202e"), "odd_characters"),
        ((talking(4), 0, "finish", ""), "too_early"),
        ((talking(4), 0, "join", ""), "taken"),
        (([*talking(5), ("share", 0, "")], 0, "share", ""), "already_shared"),
        ((talking(0)[:1], 1, "leave", ""), "closed"),
    ],
)
def test_what_may_not_happen_is_told_with_a_reason(
    tried: tuple[list[tuple[Kind, int, str]], int, Kind, str], reason: str
) -> None:
    events, seat, kind, text = tried
    assert code_of(replay(log(*events)), seat, kind, text) == reason
    with pytest.raises(DataError, match=f"event {len(events)} of room 'r' \\({kind} by seat {seat}\\) cannot have"):
        replay(log(*events, (kind, seat, text)))


@given(attempts)
def test_every_finished_talk_is_a_valid_answer_and_no_other_is(tried: list[tuple[Kind, int, str]]) -> None:
    progress = replay(taken(tried))
    values = {"turns": (msgspec.json.encode(progress.turns).decode(),), "pair": ("w1", "w2")}
    problems = TASK.validate(UNIT, values, Exposure())
    assert bool(problems) == (not progress.shared)
    if progress.finished:
        (made,) = TASK.score(UNIT, Answer("u", "w1", values, ("p",), 0, "t", 1.0, "local")).dialogues
        assert made.turns == progress.turns
        assert made.shared_at is not None
        assert made.shared_at >= 5


@given(attempts)
def test_a_talk_is_the_same_replayed_at_once_and_piece_by_piece(tried: list[tuple[Kind, int, str]]) -> None:
    events = taken(tried)
    says = [(event.seat, " ".join(event.text.split())) for event in events if event.kind == "say"]
    progress = replay(events)
    assert [(turn.user, turn.text) for turn in progress.turns if not turn.share] == says
    assert progress.present == {event.seat for event in events if event.kind == "join"} - progress.left
    assert progress.closed == any(event.kind == "leave" for event in events) or progress.finished

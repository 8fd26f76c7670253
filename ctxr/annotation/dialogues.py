"""A dialogue of two workers as a list of events: its state, and what may happen next.

PhotoChat, section 3: the photo can be shared after five turns, by the partner who sees it, and afterwards both may continue.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Literal

import msgspec

from ctxr.annotation.records import PUBLISHED, AnswerLimits
from ctxr.annotation.tasks.dialogue import SENDER
from ctxr.annotation.tasks.values import ODD_CHARACTERS, clean, odd, shared_after, too_long
from ctxr.annotation.wording import Problem, first_problem
from ctxr.errors import DataError
from ctxr.store.records import Turn
from ctxr.web.language import _

Kind = Literal["join", "alone", "say", "share", "finish", "leave"]

MOST_CHARACTERS = 2000
"""Of one message."""


class Event(msgspec.Struct, frozen=True):
    """Something that happened in a room.

    Attributes:
        number: grows over all rooms; a reader asks for what came after the last one it knows.
        kind: `join` a seat; `alone`: this seat's partner left an earlier room, and another one is looked for; `say`; `share`
            the photo; `finish`: this seat has said everything; `leave`.
        seat: who did it, 0 or 1. at: UTC, ISO 8601 with "Z".
    """

    number: int
    room: str
    kind: Kind
    seat: int
    text: str
    at: str


@dataclass(frozen=True)
class TalkState:
    """The state of a room, by seats; `deserted`: who waits for another was left by a partner in an earlier room."""

    present: frozenset[int] = frozenset()
    left: frozenset[int] = frozenset()
    done: frozenset[int] = frozenset()
    turns: tuple[Turn, ...] = ()
    shared: bool = False
    deserted: bool = False
    limits: AnswerLimits = PUBLISHED

    @property
    def finished(self) -> bool:
        """Whether the photo was shared, and both have finished or one of them left."""
        return self.shared and (len(self.done) == 2 or bool(self.left))

    @property
    def closed(self) -> bool:
        """Whether the room accepts no more events."""
        return self.finished or bool(self.left)


def refusal(talk: TalkState, seat: int, kind: Kind, text: str = "") -> Problem | None:
    """Why something may not happen now; None if it may."""
    if kind == "alone":
        return None
    if kind == "join":
        return Problem("taken", _("This seat is taken.")) if seat in talk.present or talk.closed else None
    speaks, least = kind in ("say", "share"), talk.limits.turns_before_share
    of_kind = {
        "say": (
            (not clean(text), "empty", _("Please write something before you send it.")),
            (len(text) > MOST_CHARACTERS, "too_long", too_long(len(text), MOST_CHARACTERS)),
            (odd(text), ODD_CHARACTERS.code, _(ODD_CHARACTERS.sentence)),
        ),
        "share": (
            (seat != SENDER, "not_yours", _("Only the person who sees the photo can share it.")),
            (talk.shared, "already_shared", _("The photo has been shared.")),
            (len(talk.turns) < least, "too_early", shared_after(least)),
        ),
        "finish": (
            (
                not talk.shared,
                "too_early",
                _("Please go on until the photo has been shared, or leave the conversation."),
            ),
        ),
    }
    return first_problem(
        (seat not in talk.present or talk.closed, "closed", _("This conversation is over.")),
        (speaks and len(talk.present) < 2, "alone", _("Your partner is not here yet. Please wait a moment.")),
        (speaks and seat in talk.done, "closed", _("You have finished this conversation.")),
        *of_kind.get(kind, ()),
    )


def replay(events: Iterable[Event], limits: AnswerLimits = PUBLISHED) -> TalkState:
    """The state of a room from its events, oldest first. Raises DataError for one that may not happen then: the log was edited."""
    talk = TalkState(limits=limits)
    for event in events:
        if refusal(talk, event.seat, event.kind, event.text) is not None or event.seat not in (0, 1):
            raise DataError(
                f"event {event.number} of room {event.room!r} ({event.kind} by seat {event.seat}) cannot have happened",
                hint="restore the journal from a backup",
            )
        seat, shares = {event.seat}, event.kind == "share"
        if event.kind in ("say", "share"):
            turn = Turn(event.seat, "" if shares else clean(event.text), shares, event.at)
            talk = replace(talk, turns=(*talk.turns, turn), shared=talk.shared or shares)
        elif event.kind == "finish":
            talk = replace(talk, done=talk.done | seat)
        elif event.kind == "leave":
            talk = replace(talk, left=talk.left | seat, present=talk.present - seat)
        else:
            talk = replace(talk, present=talk.present | seat, deserted=event.kind == "alone")
    return talk

"""Two people in one room: a page, what happened since, and what each of them may do; the journal decides all of it."""

import asyncio
from contextlib import suppress
from dataclasses import dataclass, field
from typing import get_args

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from ctxr.annotation.dialogues import MOST_CHARACTERS
from ctxr.annotation.journal.journal import Step
from ctxr.annotation.journal.results import ChatRoom, NotAllowed
from ctxr.annotation.journal.storing import COUNTED
from ctxr.annotation.web.pages import Endpoints, Posted
from ctxr.annotation.web.work import LeasedUnit, Work, leased_unit
from ctxr.web.language import _, ngettext
from ctxr.web.static import HttpProblem

HELD_SECONDS = 20.0
"""How long a request for new messages stays open."""

LOOK_SECONDS = 1.0
"""Interval in which the journal is polled while a request is open, for messages from another server process."""

STEPS: tuple[Step, ...] = get_args(Step)


@dataclass(eq=False)
class UnitNotifier:
    """Notifies requests in this process that wait for news of a unit, from any thread, until it is `silent`."""

    silent: bool = False
    _waiting: dict[str, set[tuple[asyncio.AbstractEventLoop, asyncio.Event]]] = field(default_factory=dict)

    def ring(self, unit: str) -> None:
        """Something happened."""
        for loop, event in tuple(self._waiting.get(unit, ())):
            with suppress(RuntimeError):  # a loop that has ended since
                loop.call_soon_threadsafe(event.set)

    def close(self) -> None:
        """End all waiting requests, because the server stops."""
        self.silent = True
        for unit in tuple(self._waiting):
            self.ring(unit)

    async def wait(self, unit: str, seconds: float) -> None:
        """Return when something happened, or after `seconds`."""
        if self.silent:
            return
        mine = (asyncio.get_running_loop(), asyncio.Event())
        waiting = self._waiting.setdefault(unit, set())
        waiting.add(mine)
        try:
            await asyncio.wait_for(mine[1].wait(), seconds)
        except TimeoutError:
            pass
        finally:
            waiting.discard(mine)
            if not waiting and self._waiting.get(unit) is waiting:
                del self._waiting[unit]


@dataclass(frozen=True, eq=False)
class Chat(Endpoints):
    """The endpoints of a talk."""

    work: Work
    bell: UnitNotifier

    def show(self, request: Request) -> Response:
        """The room as it is now."""
        return self._page(leased_unit(self.pages, request))

    def _page(self, unit: LeasedUnit, problems: tuple[str, ...] = (), typed: str = "") -> Response:
        if not unit.is_talk or unit.lease.state != "live":
            return self.pages.go(unit.path)
        self.site.journal.here(unit.lease.token, unit.lease.worker, self.site.now())
        room = self.news(unit)
        if room["go"]:
            return self.pages.go("/next")
        return self.pages.page(
            "talk.html",
            422 if problems else 200,
            view=unit.view({}),
            room=room,
            here=f"{unit.here}/talk",
            answer_at=unit.here,
            pictures_at=f"{unit.here}/picture",
            csrf={"report": unit.form_token()} | {step: unit.form_token(f"/talk/{step}") for step in STEPS},
            problems=problems,
            typed=typed,
            most_characters=MOST_CHARACTERS,
            **self.work.around(unit),
        )

    def news(self, unit: LeasedUnit) -> dict[str, object]:
        """The room as this seat may see it, ready for a page or for JSON; `go` leads on when it is over."""
        journal = self.site.journal
        unit = unit.current()  # a new partner may have brought another unit and another seat
        after = max((event.number for event in journal.events(unit.lease.token)), default=0)
        room = journal.room(unit.lease.token)
        sees = room.seat == 0 or room.shared
        image = unit.lease.unit.images[0]
        width, height = self.site.sizes.get(image, (0, 0)) if sees else (0, 0)
        return {
            "room": f"{room.seat} {unit.key(image)}",
            "seat": room.seat,
            "turns": [
                {"user": turn.user, "mine": turn.user == room.seat, "text": turn.text, "share": turn.share}
                for turn in room.turns
            ],
            "partner": room.present,
            "presence": _presence(room),
            "gate": _gate(room, unit.lease.unit.limits.turns_before_share),
            "may_share": room.may_share,
            "shared": room.shared,
            "done": room.done,
            "photo": f"{unit.here}/picture/{unit.key(image)}" if sees else "",
            "width": width,
            "height": height,
            "after": after,
            "go": f"{self.pages.at}/next" if unit.lease.state != "live" or room.closed else "",
        }

    async def events(self, request: Request) -> Response:
        """The room once it has an event after number `after`, or when `HELD_SECONDS` are over."""
        unit = await run_in_threadpool(leased_unit, self.pages, request)
        try:
            after = int(request.query_params.get("after", "0"))
        except ValueError:
            after = 0
        deadline = asyncio.get_running_loop().time() + HELD_SECONDS
        if unit.lease.state == "live":
            await run_in_threadpool(self.site.journal.here, unit.lease.token, unit.lease.worker, self.site.now())

        def is_new() -> bool:
            return unit.current().lease.state != "live" or bool(self.site.journal.events(unit.lease.token, after))

        while not await run_in_threadpool(is_new):
            left = deadline - asyncio.get_running_loop().time()
            if left <= 0 or self.bell.silent or await request.is_disconnected():
                break
            await self.bell.wait(unit.lease.unit.id, min(left, LOOK_SECONDS))
        return JSONResponse(await run_in_threadpool(self.news, unit))

    def act(self, request: Request, posted: Posted) -> Response:
        """Take one of `STEPS`: say a text, share the photo, finish, or leave."""
        step = request.path_params["step"]
        if step not in STEPS:
            raise HttpProblem(404, _("This page does not exist"), _("Please check the address."))
        unit = leased_unit(self.pages, request)
        unit.accept(request, posted, f"/talk/{step}")
        text = (posted.get("text") or [""])[0]
        plain = "application/json" in request.headers.get("accept", "")
        lease, message = unit.lease, text if step == "say" else ""
        try:
            self.site.journal.act(
                step, lease.token, lease.worker, self.site.now(), message, counted=posted.get(COUNTED, ())
            )
        except NotAllowed as refused:
            if plain:
                return JSONResponse({"problems": [refused.message]}, 409)
            if unit.current().lease.state != "live":
                raise  # the room no longer exists
            return self._page(unit, (refused.message,), text)
        self.bell.ring(unit.lease.unit.id)
        if plain:
            return JSONResponse({"problems": []})
        if step == "leave":
            return self.pages.message(
                _("You have left the conversation"),
                [_("The time that you waited for somebody is noted, and counts.")],
                links=[(_("Go on with something else"), f"{self.pages.at}/next?more=1")],
            )
        return self.pages.go(f"{unit.path}/talk")


def _presence(room: ChatRoom) -> str:
    if room.done:
        return _("You have finished. Your partner may still be writing.")
    if room.present:
        return _("Your partner is here.")
    if room.partner_left:
        return _("Your partner has left. We are looking for another one; the time you wait counts.")
    if room.apart:
        return _(
            "Somebody else is waiting for other tasks than yours. You need another partner; you can wait, which counts, or leave."
        )
    return _("Waiting for a partner. The time you wait counts, and you can leave whenever you like.")


def _gate(room: ChatRoom, least: int) -> str:
    if room.shared:
        return _("Both of you see the photo. Go on, or finish.")
    if room.may_share:
        return _("You can share the photo now.")
    missing = least - len(room.turns)
    if room.seat != 0 or missing <= 0:
        return ""
    return ngettext(
        "The photo can be shared after {count} more message.",
        "The photo can be shared after {count} more messages.",
        missing,
    )

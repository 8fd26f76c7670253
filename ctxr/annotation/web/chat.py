"""Two people in one room: a page, what happened since, and what each of them may do; the journal decides all of it."""

import asyncio
from contextlib import suppress
from typing import Any, Literal

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from ctxr.annotation.dialogues import MOST_CHARACTERS
from ctxr.annotation.forms import Talk
from ctxr.annotation.journal.results import ChatRoom, Refused
from ctxr.annotation.web.leases import LeasedUnit, leased_unit, received
from ctxr.annotation.web.pages import Pages
from ctxr.annotation.web.work import Work
from ctxr.errors import plural

HELD_SECONDS = 20.0
"""How long a request for new messages stays open."""

LOOK_SECONDS = 1.0
"""How often the journal is polled while a request is open, for messages from another server process."""


class Bell:
    """Notifies requests in this process that wait for news of a unit, from any thread."""

    def __init__(self) -> None:
        self._waiting: dict[str, set[tuple[asyncio.AbstractEventLoop, asyncio.Event]]] = {}
        self.silent = False

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


class Chat:
    """The endpoints of a talk."""

    def __init__(self, pages: Pages, work: Work, bell: Bell) -> None:
        self.pages, self.site, self.work, self.bell = pages, pages.site, work, bell

    async def show(self, request: Request) -> Response:
        """The room as it is now."""
        one = await leased_unit(self.pages, request)
        return await run_in_threadpool(self._page, one)

    def _page(self, one: LeasedUnit, problems: tuple[str, ...] = (), typed: str = "") -> Response:
        if not one.is_talk or one.lease.state != "live":
            return self.pages.go(one.here.removeprefix(self.pages.at))
        self.site.journal.here(one.lease.token, one.lease.worker, self.site.now())
        room = self.news(one)
        if room["go"]:
            return self.pages.go(str(room["go"]).removeprefix(self.pages.at))
        return self.pages.page(
            "talk.html",
            422 if problems else 200,
            view=one.view({}),
            room=room,
            here=f"{one.here}/talk",
            pictures_at=f"{one.here}/picture",
            csrf={step: one.form_token(f"/talk/{step}") for step in ("say", "share", "finish", "leave")},
            problems=problems,
            typed=typed,
            most_characters=MOST_CHARACTERS,
            **self.work.around(one),
        )

    def news(self, one: LeasedUnit) -> dict[str, Any]:
        """The room as this seat may see it, ready for a page or for JSON; `go` leads on when it is over."""
        journal = self.site.journal
        one = one.again()  # a new partner may have brought another unit and another seat
        events = journal.events(one.lease.token)
        room = journal.room(one.lease.token)
        over = one.lease.state != "live" or room.closed
        sees = room.seat == 0 or room.shared
        image = one.lease.unit.images[0]
        width, height = self.site.sizes.get(image, (0, 0)) if sees else (0, 0)
        return {
            "room": f"{room.seat} {one.key(image)}",
            "seat": room.seat,
            "turns": [
                {"user": turn.user, "mine": turn.user == room.seat, "text": turn.text, "share": turn.share}
                for turn in room.turns
            ],
            "partner": room.present,
            "presence": _presence(room),
            "gate": _gate(room, _least(one)),
            "may_share": room.may_share,
            "shared": room.shared,
            "done": room.done,
            "photo": f"{one.here}/picture/{one.key(image)}" if sees else "",
            "width": width,
            "height": height,
            "after": max((event.number for event in events), default=0),
            "go": f"{self.pages.at}/next" if over else "",
        }

    async def events(self, request: Request) -> Response:
        """What is new after event number `after`: at once where something is, else held until it is, or for a while."""
        one = await leased_unit(self.pages, request)
        try:
            after = int(request.query_params.get("after", "0"))
        except ValueError:
            after = 0
        deadline = asyncio.get_running_loop().time() + HELD_SECONDS
        await run_in_threadpool(self._here, one)
        while not await run_in_threadpool(self._is_new, one, after):
            left = deadline - asyncio.get_running_loop().time()
            if left <= 0 or self.bell.silent or await request.is_disconnected():
                break
            await self.bell.wait(one.lease.unit.id, min(left, LOOK_SECONDS))
        return JSONResponse(await run_in_threadpool(self.news, one))

    def _here(self, one: LeasedUnit) -> None:
        if one.lease.state == "live":
            self.site.journal.here(one.lease.token, one.lease.worker, self.site.now())

    def _is_new(self, one: LeasedUnit, after: int) -> bool:
        lease = self.site.journal.find(one.lease.token)
        if lease is None or lease.state != "live":
            return True
        return any(event.number > after for event in self.site.journal.events(one.lease.token, after))

    async def say(self, request: Request) -> Response:
        """Say something."""
        return await self._act(request, "say")

    async def share(self, request: Request) -> Response:
        """Share the photo, if the journal finds it time."""
        return await self._act(request, "share")

    async def finish(self, request: Request) -> Response:
        """This side has said everything."""
        return await self._act(request, "finish")

    async def leave(self, request: Request) -> Response:
        """Go; the partner is told."""
        answer = await self._act(request, "leave")
        if answer.status_code != 303:
            return answer
        return self.pages.message(
            "You have left the conversation",
            ["The time that you waited for somebody is noted, and counts."],
            links=[("Go on with something else", f"{self.pages.at}/next?more=1")],
        )

    async def _act(self, request: Request, step: Literal["say", "share", "finish", "leave"]) -> Response:
        one = await leased_unit(self.pages, request)
        posted = await received(one, request, f"/talk/{step}")
        text = (posted.get("text") or [""])[0]
        plain = "application/json" in request.headers.get("accept", "")
        try:
            await run_in_threadpool(self._step, one, step, text)
        except Refused as refused:
            if plain:
                return JSONResponse({"problems": [refused.message]}, 409)
            if (await run_in_threadpool(one.again)).lease.state != "live":
                raise  # there is no room any more to be shown
            return await run_in_threadpool(self._page, one, (refused.message,), text)
        self.bell.ring(one.lease.unit.id)
        return (
            JSONResponse({"problems": []}) if plain else self.pages.go(f"{one.here.removeprefix(self.pages.at)}/talk")
        )

    def _step(self, one: LeasedUnit, step: str, text: str) -> None:
        journal, mine, now = self.site.journal, (one.lease.token, one.link.worker), self.site.now()
        if step == "say":
            journal.say(*mine, text, now)
        elif step == "share":
            journal.share(*mine, now)
        elif step == "finish":
            journal.finish(*mine, now)
        else:
            journal.leave(*mine, now)


def _least(one: LeasedUnit) -> int:
    return next(field.turns_before_share for field in one.form.fields if isinstance(field, Talk))


def _presence(room: ChatRoom) -> str:
    if room.done:
        return "You have finished. Your partner may still be writing."
    if room.present:
        return "Your partner is here."
    if room.partner_left:
        return "Your partner has left. We are looking for another one; the time you wait counts."
    return "Waiting for a partner. The time you wait counts, and you can leave whenever you like."


def _gate(room: ChatRoom, least: int) -> str:
    if room.shared:
        return "Both of you see the photo. Go on, or finish."
    if room.may_share:
        return "You can share the photo now."
    missing = least - len(room.turns)
    if room.seat != 0:
        return ""
    return f"The photo can be shared after {plural(missing, 'more message')}." if missing > 0 else ""

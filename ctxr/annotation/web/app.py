"""The server's routes, and the pages for what goes wrong."""

import sys
from collections.abc import Awaitable, Callable
from functools import partial
from math import ceil
from typing import Any

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp

from ctxr.annotation.journal.results import NotAllowed
from ctxr.annotation.web.chat import Chat, UnitNotifier
from ctxr.annotation.web.pages import Pages, Posted
from ctxr.annotation.web.sign_in import Prolific, SignIn
from ctxr.annotation.web.site import Site
from ctxr.annotation.web.work import Work
from ctxr.errors import CtxrError
from ctxr.web.guard import Guard, RateLimited, TooLarge, read_form
from ctxr.web.static import HttpProblem


def make_app(site: Site, bell: UnitNotifier | None = None) -> ASGIApp:
    """The application that serves `site`; `bell` wakes who waits for news of a chat."""
    pages = Pages(site)
    sign_in, prolific = SignIn(pages), Prolific(pages)
    work = Work(pages, prolific)
    chat = Chat(pages, work, bell or UnitNotifier())
    shown: dict[str, Callable[[Request], Response | Awaitable[Response]]] = {
        "/": sign_in.home,
        "/i/{token}": sign_in.invited,
        "/p/{study}": prolific.come,
        "/next": work.next,
        "/w/{link}": work.show,
        "/w/{link}/picture/{key}": work.picture,
        "/w/{link}/talk": chat.show,
        "/w/{link}/talk/events": chat.events,
        "/static/{version}/{name}": pages.static.serve,
    }
    posted: dict[str, Callable[[Request, Posted], Response]] = {
        "/enter": sign_in.enter,
        "/i/{token}": sign_in.accept,
        "/check": work.check,
        "/w/{link}": work.answer,
        "/w/{link}/stop": work.stop,
        "/w/{link}/talk/{step}": chat.act,
    }
    routes = [Route(path, act, methods=["GET"]) for path, act in shown.items()]
    routes += [Route(path, partial(_post, act), methods=["POST"]) for path, act in posted.items()]
    app = Starlette(routes=routes, exception_handlers=_handlers(pages))
    return Guard(app, site.addresses, partial(_too_many, pages), site.base_url.startswith("https://"))


async def _post(act: Callable[[Request, Posted], Response], request: Request) -> Response:
    """Read the posted form, and let `act` answer in a thread of its own, as all that touches the disk."""
    return await run_in_threadpool(act, request, await read_form(request))


def _too_many(pages: Pages, wait: float) -> Response:
    answer = pages.message(
        "That was a little fast", ["Please wait a moment and load the page again. Nothing you sent is lost."], 429
    )
    answer.headers["retry-after"] = str(ceil(wait))
    return answer


def _handlers(pages: Pages) -> dict[type[Exception] | int, Callable[[Request, Exception], Response]]:
    home = [("Go on", f"{pages.at}/next")]

    def explain(request: Request, error: Any, said: str = "") -> Response:
        plain = request.url.path.endswith(("/check", "/events"))
        if plain or "application/json" in request.headers.get("accept", ""):
            return JSONResponse({"problems": [said or " ".join((f"{error.title}.", *error.lines))]}, error.status)
        kept = error.kept or getattr(request.state, "kept", ())  # texts of the posted form; see `LeasedUnit.accept`
        return pages.message(error.title, error.lines, error.status, links=home, kept=kept)

    def failed(request: Request, error: Any) -> Response:
        sys.stderr.write(": ".join(filter(None, (error.message, error.hint))) + "\n")
        line = "We cannot store anything at the moment; it is not your fault. Please try again in a few minutes."
        return explain(request, HttpProblem(503, "Something went wrong here", line), line)

    def other(request: Request, error: Exception) -> Response:
        status = error.status_code if isinstance(error, HTTPException) else 500
        if status in (404, 405):
            return pages.message("This page does not exist", ["Please check the address."], status, links=home)
        line = "It is not your fault. What you sent before is stored; please go back and try again."
        kept = getattr(request.state, "kept", ())
        return pages.message("Something went wrong here", [line], status, links=home, kept=kept)

    long = "The text is too long for this page. Please shorten it."
    return {
        HttpProblem: explain, CtxrError: failed, HTTPException: other, 500: other,
        NotAllowed: lambda request, error: explain(request, HttpProblem(409, "This did not work", str(error)), str(error)),
        TooLarge: lambda request, error: pages.message("Too long", [long], 413, links=home),
        RateLimited: lambda request, error: _too_many(pages, error.args[0]),
        ClientDisconnect: lambda request, error: Response(status_code=400),
    }  # fmt: skip

"""The server's routes, and what people are told when something goes wrong."""

import sys
from collections.abc import Callable, Sequence
from math import ceil

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp

from ctxr.annotation.journal.results import Refused
from ctxr.annotation.web.chat import Bell, Chat
from ctxr.annotation.web.guard import Guard, RateLimited, TooLarge
from ctxr.annotation.web.pages import HttpProblem, Pages, static
from ctxr.annotation.web.sign_in import Prolific, SignIn
from ctxr.annotation.web.site import Site
from ctxr.annotation.web.work import Work
from ctxr.errors import CtxrError

_GET, _POST = ["GET"], ["POST"]


def make_app(site: Site, bell: Bell | None = None) -> ASGIApp:
    """The application that serves `site`; `bell` wakes who waits for news of a chat."""
    pages = Pages(site)
    sign_in, work = SignIn(pages), Work(pages)
    prolific = Prolific(pages)
    chat = Chat(pages, work, bell or Bell())
    routes = [
        Route("/", sign_in.home, methods=_GET),
        Route("/enter", sign_in.enter, methods=_POST),
        Route("/i/{token}", sign_in.invited, methods=_GET),
        Route("/i/{token}", sign_in.accept, methods=_POST),
        Route("/p/{study}", prolific.come, methods=_GET),
        Route("/next", work.next, methods=_GET),
        Route("/check", work.check, methods=_POST),
        Route("/w/{link}", work.show, methods=_GET),
        Route("/w/{link}", work.answer, methods=_POST),
        Route("/w/{link}/stop", work.stop, methods=_POST),
        Route("/w/{link}/picture/{key}", work.picture, methods=_GET),
        Route("/w/{link}/talk", chat.show, methods=_GET),
        Route("/w/{link}/talk/events", chat.events, methods=_GET),
        Route("/w/{link}/talk/say", chat.say, methods=_POST),
        Route("/w/{link}/talk/share", chat.share, methods=_POST),
        Route("/w/{link}/talk/finish", chat.finish, methods=_POST),
        Route("/w/{link}/talk/leave", chat.leave, methods=_POST),
        Route("/static/{version}/{name}", static, methods=_GET),
    ]
    app = Starlette(routes=routes, exception_handlers=_handlers(pages))

    def busy(wait: float) -> ASGIApp:
        return _too_many(pages, wait)

    return Guard(app, site.addresses, busy, site.access.https)


def _too_many(pages: Pages, wait: float) -> Response:
    answer = pages.message(
        "That was a little fast", ["Please wait a moment and load the page again. Nothing you sent is lost."], 429
    )
    answer.headers["retry-after"] = str(ceil(wait))
    return answer


def _handlers(pages: Pages) -> dict[type[Exception] | int, Callable[[Request, Exception], Response]]:
    home = [("Go on", f"{pages.at}/next")]

    def told(request: Request, error: Exception) -> Response:
        assert isinstance(error, HttpProblem)  # noqa: S101 - for the type checker
        if _wants_json(request):
            return JSONResponse({"problems": [" ".join((f"{error.title}.", *error.lines))]}, error.status)
        return pages.message(error.title, error.lines, error.status, links=home, kept=error.kept or _kept(request))

    def refused(request: Request, error: Exception) -> Response:
        if _wants_json(request):
            return JSONResponse({"problems": [str(error)]}, 409)
        return pages.message("This did not work", [str(error)], 409, links=home, kept=_kept(request))

    def too_large(request: Request, error: Exception) -> Response:
        line = "The text is too long for this page. Please shorten it."
        return pages.message("Too long", [line], 413, links=home)

    def too_many(request: Request, error: Exception) -> Response:
        return _too_many(pages, getattr(error, "seconds", 1.0))

    def gone(request: Request, error: Exception) -> Response:
        return Response(status_code=400)  # the client has disconnected

    def failed(request: Request, error: Exception) -> Response:
        assert isinstance(error, CtxrError)  # noqa: S101 - for the type checker
        sys.stderr.write(": ".join(filter(None, (error.message, error.hint))) + "\n")
        line = "We cannot store anything at the moment; it is not your fault. Please try again in a few minutes."
        if _wants_json(request):
            return JSONResponse({"problems": [line]}, 503)
        return pages.message("Something went wrong here", [line], 503, links=home, kept=_kept(request))

    def other(request: Request, error: Exception) -> Response:
        status = error.status_code if isinstance(error, HTTPException) else 500
        if status in (404, 405):
            return pages.message("This page is not here", ["Please check the address."], status, links=home)
        return pages.message(
            "Something went wrong here",
            ["It is not your fault. What you sent before is stored; please go back and try again."],
            status,
            links=home,
            kept=_kept(request),
        )

    return {
        HttpProblem: told, Refused: refused, TooLarge: too_large, RateLimited: too_many, ClientDisconnect: gone, CtxrError: failed,
        HTTPException: other, 500: other,
    }  # fmt: skip


def _kept(request: Request) -> Sequence[str]:
    """The texts typed into the posted form; see `leases.received`."""
    return getattr(request.state, "kept", ())


def _wants_json(request: Request) -> bool:
    return request.url.path.endswith(("/check", "/events")) or "application/json" in request.headers.get("accept", "")

"""What visitors see of a request that failed: a page or, where a script asked, JSON."""

import sys
from collections.abc import Callable
from math import ceil
from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response

from ctxr.errors import CtxrError
from ctxr.web.guard import TooLarge
from ctxr.web.language import _
from ctxr.web.static import HttpProblem

Show = Callable[[Request, HttpProblem], Response]
Handlers = dict[Any, Callable[[Request, Any], Response]]
"""What answers a request that failed, by the class of the error, or 500 for any other."""


def problem_json(problem: HttpProblem) -> JSONResponse:
    """What was said, for a script that shows it beside what it sent."""
    return JSONResponse({"problems": [problem.said]}, problem.status)


def too_fast(page: Callable[[HttpProblem], Response], wait: float) -> Response:
    """What an address sees that asks too often, and the seconds until it may again."""
    later = _("Please wait a moment and load the page again. Nothing you sent is lost.")
    answer = page(HttpProblem(429, _("That was a little fast"), later))
    answer.headers["retry-after"] = str(ceil(wait))
    return answer


def error_handlers(page: Show, explain: Show, failed: str, broken: str) -> Handlers:
    """Of all errors: `page` shows people what went wrong, `explain` scripts too; `failed`: of files, `broken`: ours."""

    def unstored(request: Request, error: CtxrError) -> Response:
        sys.stderr.write(": ".join(filter(None, (error.message, error.hint))) + "\n")
        return explain(request, HttpProblem(503, _("Something went wrong here"), _(failed), said=_(failed)))

    def other(request: Request, error: Exception) -> Response:
        status = error.status_code if isinstance(error, HTTPException) else 500
        if status in (404, 405):
            return page(request, HttpProblem(status, _("This page does not exist"), _("Please check the address.")))
        return page(request, HttpProblem(status, _("Something went wrong here"), _(broken)))

    def long(request: Request, error: TooLarge) -> Response:
        shorten = _("The text is too long for this page. Please shorten it.")
        return page(request, HttpProblem(413, _("Too long"), shorten))

    return {
        HttpProblem: explain, CtxrError: unstored, HTTPException: other, 500: other,
        TooLarge: long,
        ClientDisconnect: lambda request, error: Response(status_code=400),
    }  # fmt: skip

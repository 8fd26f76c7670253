"""The page of `ctxr search`: answers to typing and drawing, and narratives that it keeps."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, partial
from hmac import compare_digest
from math import prod
from pathlib import Path
from tempfile import NamedTemporaryFile
from threading import Lock

import msgspec
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp

from ctxr.errors import DataError
from ctxr.media.images import image_size, read_image, thumbnail
from ctxr.pipelines.finding.config import SearchAnswer, SearchQuery
from ctxr.pipelines.finding.finder import Finder
from ctxr.pipelines.finding.narratives import CollectedNarratives, Consent, NewNarrative
from ctxr.web.failures import error_handlers, problem_json, too_fast
from ctxr.web.guard import Buckets, Guard, TooLarge, from_elsewhere, read_body
from ctxr.web.static import PICTURES, HttpProblem, StaticFiles, environment

SHOWN, SIDE, LARGE = 24, 480, 1920  # results of a query; pixels of the longer side of a picture
MOST_BYTES, MOST_PICTURE = 1 << 18, 25 << 20  # of a query or narrative, and of a picture
MOST_PIXELS = 60_000_000  # of a picture that is sent: a small file can be a huge picture
_HERE = re.compile(r"(127\.0\.0\.1|localhost|\[::1\])(:\d+)?")

PROBLEMS: dict[tuple[type[Exception], ...], HttpProblem] = {
    (DataError,): HttpProblem(404, "This picture is gone or changed since it was indexed"),
    (TooLarge,): HttpProblem(413, "This is too large", "A query may have 256 kB, a picture 25 MB."),
    (msgspec.MsgspecError, UnicodeDecodeError, RecursionError): HttpProblem(422, "This is no query, or one of too many words or strokes"),
}  # fmt: skip


@dataclass(frozen=True)
class SearchSite:
    """How a finder is served.

    Attributes:
        gallery, by: names of the gallery and the model. token: admits other machines; "" = this machine alone.
        narratives: folder for what visitors describe; None = visitors describe nothing.
    """

    gallery: str
    by: str
    token: str = ""
    narratives: Path | None = None


class SearchPages:
    """What answers requests."""

    def __init__(self, finder: Finder, site: SearchSite) -> None:
        self.finder, self.site, self._one = finder, site, Lock()
        self.static, self._templates = StaticFiles(__package__), environment(__package__)
        self._jpeg = lru_cache(2000)(lambda file, changed, side: thumbnail(file, side, 80, tight=True))

    def refusal(self, request: Request) -> Response | None:
        """What is shown instead of a page: no entry, or a welcome; None where a request may pass."""
        token, given = self.site.token, request.query_params.get("token")
        cookie = f"ctxr-search-{request.url.port or 80}"  # browsers share cookies among the ports of a host
        known = request.cookies.get(cookie, "") if given is None else given
        # without a token: a site whose name was made to lead here must not read the pictures
        here = _HERE.fullmatch(request.headers.get("host", ""))
        entered = compare_digest(known.encode(), token.encode()) if token else here
        if not entered and not request.url.path.startswith("/static/"):
            how = "Open the link that ctxr search printed." if token else "Others need --host."
            return self.problem(HttpProblem(403, "You cannot enter here", how))
        if not (entered and token and given):
            return None
        # no redirect: after one from another site, such as a mail, browsers leave out strict cookies
        answer = self.problem(HttpProblem(200, "Welcome", "The page opens in a moment."))
        answer.headers["refresh"] = f"0; url={'/describe' if request.url.path == '/describe' else '/'}"
        answer.set_cookie(cookie, token, httponly=True, samesite="strict")
        return answer

    def page(self, template: str, status: int = 200, **context: object) -> HTMLResponse:
        """A template with `context`; one to `dictate` on may use the microphone."""
        steady = {"static": f"/static/{self.static.version}", "site": self.site, "finder": self.finder}
        page = HTMLResponse(self._templates.get_template(template).render({**steady, **context}), status)
        if context.get("dictate"):
            page.headers["permissions-policy"] = "camera=(), geolocation=(), microphone=(self)"
        return page

    def problem(self, problem: HttpProblem) -> HTMLResponse:
        """A page that says what went wrong."""
        return self.page("problem.html", problem.status, title=problem.title, lines=problem.lines)

    def refuse_stale(self, index: str | None) -> None:
        """Raises HttpProblem for a page of an earlier index, whose places mean other pictures."""
        if index not in (None, self.finder.version):
            raise HttpProblem(409, "The gallery was indexed again", "Load the page again.")

    def picture(self, request: Request) -> Response:
        """A picture as JPEG, small or `whole`; whole as it is where browsers show its kind."""
        self.refuse_stale(request.query_params.get("index"))
        file, large = self.finder.picture(request.path_params["place"]), request.url.path.endswith("/whole")
        kind = PICTURES.get(file.suffix.lower()) if large else None
        content = file.read_bytes() if kind else self._jpeg(file, file.stat().st_mtime_ns, LARGE if large else SIDE)
        return Response(content, media_type=kind or "image/jpeg")

    async def post(self, act: Callable[[Request, bytes], SearchAnswer], request: Request) -> Response:
        """Let `act` answer, in a thread, what our page sent. Raises HttpProblem for others, TooLarge."""
        kind = request.headers.get("content-type", "").partition(";")[0]
        self.refuse_stale(request.headers.get("x-ctxr-index"))
        if from_elsewhere(request) or kind not in ("application/json", "application/octet-stream"):
            raise HttpProblem(403, "This was not sent by the page of ctxr search")
        body = bytes(await read_body(request, MOST_PICTURE if request.url.path == "/alike" else MOST_BYTES))
        answer = await run_in_threadpool(act, request, body)
        return Response(msgspec.json.encode(answer, enc_hook=float), media_type="application/json")

    def alike(self, request: Request, body: bytes) -> SearchAnswer:
        """The pictures like one that was sent, decoded one at a time: a small file can be a huge one."""
        with self._one, NamedTemporaryFile() as file:
            file.write(body)
            file.flush()
            try:
                if prod(image_size(Path(file.name))) > MOST_PIXELS:
                    raise HttpProblem(413, "This picture is too large", "It may have 60 million pixels.")
                pixels = read_image(Path(file.name))
            except DataError as error:
                raise HttpProblem(422, "This file is not a picture that can be read") from error
        return self.finder.alike(pixels, SHOWN)

    def keep(self, narratives: CollectedNarratives, request: Request, body: bytes) -> SearchAnswer:
        """Keep a narrative with its picture. Raises HttpProblem for what is none."""
        new = msgspec.json.decode(body, type=NewNarrative)
        picture = self.finder.picture(new.place)
        narratives.add(new, self.finder.pictures[new.place].sha256, picture)
        return SearchAnswer([])

    def agree(self, narratives: CollectedNarratives, request: Request, body: bytes) -> SearchAnswer:
        """Keep that a visitor agreed."""
        narratives.agree(msgspec.json.decode(body, type=Consent))
        return SearchAnswer([])


def make_page(finder: Finder, site: SearchSite) -> ASGIApp:
    """The application that serves a finder."""
    pages = SearchPages(finder, site)
    shown: dict[str, Callable[[Request], Response]] = {
        "/": lambda request: pages.page("search.html", dictate="dictate" in request.query_params),
        "/picture/{place:int}": pages.picture,
        "/picture/{place:int}/whole": pages.picture,
        "/static/{version}/{name}": pages.static.serve,
    }
    posted: dict[str, Callable[[Request, bytes], SearchAnswer]] = {
        "/find": lambda request, body: finder.find(msgspec.json.decode(body, type=SearchQuery), SHOWN),
        "/alike/{place:int}": lambda request, body: finder.alike(request.path_params["place"], SHOWN),
        "/alike": pages.alike,
    }
    if site.narratives:
        shown["/describe"] = lambda request: pages.page("describe.html", dictate="dictate" in request.query_params)
        narratives = CollectedNarratives(site.narratives, site.gallery)
        posted["/describe"] = partial(pages.keep, narratives)
        posted["/consent"] = partial(pages.agree, narratives)
    routes = [Route(path, act, methods=["GET"]) for path, act in shown.items()]
    routes += [Route(path, partial(pages.post, act), methods=["POST"]) for path, act in posted.items()]

    def explain(request: Request, problem: HttpProblem) -> Response:
        return problem_json(problem) if request.method == "POST" else pages.problem(problem)

    failed = "This could not be read or stored; the window where ctxr search runs says why."
    handlers = error_handlers(explain, explain, failed, "Please load the page again.")
    for kinds, problem in PROBLEMS.items():
        handlers |= dict.fromkeys(kinds, partial(lambda what, request, error: explain(request, what), problem))
    app = Starlette(routes=routes, exception_handlers=handlers)

    busy = partial(too_fast, pages.problem)
    return Guard(lambda *it: (pages.refusal(Request(it[0])) or app)(*it), Buckets(200, 2000), busy, https=False)

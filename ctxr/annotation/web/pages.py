"""Pages from templates, and sessions.

A page names a picture by its position; the id would reveal a frame's number, and so the order of a shuffled set.
"""

import secrets
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from hmac import compare_digest
from typing import ClassVar
from urllib.parse import urlsplit

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp

from ctxr.annotation.forms import Form, report_fields
from ctxr.annotation.journal.dealing import WITHDRAWN
from ctxr.annotation.tasks.values import Values
from ctxr.annotation.web.site import Invitation, Session, Site
from ctxr.web.failures import Handlers, too_fast
from ctxr.web.guard import Buckets, Guard, RateLimited, from_elsewhere, read_form
from ctxr.web.language import ENGLISH, N_, PageLanguage, _, name_of_language
from ctxr.web.signing import SESSION_DAYS, Signer
from ctxr.web.static import HttpProblem, StaticFiles, environment
from ctxr.web.translations import Speaking

Posted = dict[str, list[str]]
Show = Callable[[Request], Response | Awaitable[Response]]


@dataclass(frozen=True)
class ShownPicture:
    """A picture on a page: `key` is its name there, `place` counts from 1; sides in pixels, 0 where unknown.

    `label`: the alternative text for screen readers.
    """

    key: str
    place: int
    marked: bool
    label: str
    width: int
    height: int


@dataclass(frozen=True)
class FormView:
    """A page of work: `layout` is `talk`, `pick` (a grid to choose from) or `read`; `given` are values by field, or the draft.

    `mixed`: whether the pictures have different shapes. `keys`: their names on the page by image id.
    """

    form: Form
    layout: str
    pictures: tuple[ShownPicture, ...]
    given: Values
    mixed: bool
    keys: Mapping[str, str]


class SignedPages:
    """Renders for browsers, each with a session in a cookie of this name, to which a personal link leads.

    Attributes:
        START: the page of those who signed in. GREETING: what the page of a personal link says.
        languages: of the pages; the first one is for who asks for none of them.
    """

    START: ClassVar[str] = "/"
    GREETING: ClassVar[str] = N_(
        "This is your personal link. What you answer or decide from here on is credited to you."
    )
    languages: Sequence[PageLanguage] = (ENGLISH,)
    contact = ""
    """E-mail address at the foot of every page."""

    def __init__(self, base_url: str, signer: Signer, cookie: str = "ctxr") -> None:
        self.base_url, self.signer, self._cookie = base_url, signer, cookie
        self.at = urlsplit(base_url).path  # below which everything lies; "" where that is the root
        self.static = StaticFiles("ctxr.annotation.web")
        self._templates = environment("ctxr.annotation.web")
        self._templates.globals |= {"_": _, "kind_of": lambda field: type(field).__name__.lower()}
        self._templates.globals["report_fields"] = report_fields

    def page(self, template: str, status: int = 200, **context: object) -> HTMLResponse:
        """A template with `context`."""
        steady = {
            "at": self.at,
            "static": f"{self.at}/static/{self.static.version}",
            "round": None,
            "stop": "",
            "told": None,
            "contact": self.contact,
        }
        return HTMLResponse(self._templates.get_template(template).render({**steady, **context}), status)

    def message(self, title: str, lines: Sequence[str] = (), status: int = 200, **parts: object) -> HTMLResponse:
        """A page of sentences.

        Parts: `links` (text, address); `code`, by which somebody is paid; `kept`, texts that could not be taken; `form`, a button
        that posts; `again`, seconds until the page looks again by itself.
        """
        none = {"links": (), "code": "", "kept": (), "again": 0, "form": None}
        return self.page("message.html", status, **{"title": title, "lines": lines, **none, **parts})

    def problem(self, problem: HttpProblem, **parts: object) -> HTMLResponse:
        """A page that says what went wrong; parts as those of `message`."""
        links = [(_("Go on"), self.at + self.START)]
        return self.message(problem.title, problem.lines, problem.status, links=links, **parts)

    def go(self, path: str) -> RedirectResponse:
        """To another page of ours, with GET."""
        return RedirectResponse(self.at + path, 303)

    def session(self, request: Request) -> Session:
        """Who is asking; a new session where there is none."""
        return self.signer.read(Session, request.cookies.get(self._cookie, "")) or self.nobody()

    def nobody(self) -> Session:
        """A session without a worker."""
        return Session(secrets.token_urlsafe(12))

    def remember(self, response: Response, session: Session) -> Response:
        """The response with the session's cookie."""
        response.set_cookie(
            self._cookie,
            self.signer.sign(session),
            max_age=SESSION_DAYS * 24 * 60 * 60,
            path=self.at or "/",
            secure=self.base_url.startswith("https://"),
            httponly=True,
            samesite="lax",
        )
        return response

    def worker_of(self, invited: str) -> str:
        """The pseudonym of somebody who is invited."""
        return invited

    def enrolled(self, invited: str) -> Session:
        """The session of somebody who is invited and comes in."""
        return Session(secrets.token_urlsafe(12), invited)

    def invited(self, request: Request) -> Response:
        """A personal link: a page with a button, because opening a link alone must not replace another session."""
        here, name, session = self.at + request.url.path, self._invited_name(request), self.session(request)
        if session.worker == self.worker_of(name):
            return self.go(self.START)
        form = {"action": here, "fields": [("csrf", self.signer.form_token(session.nonce, here))], "button": _("Start")}
        return self.remember(self.message(_("Welcome"), [_(self.GREETING)], form=form), session)

    def accept(self, request: Request, posted: Posted) -> Response:
        """Sign in by a personal link."""
        name = self._invited_name(request)
        if self.session(request).worker == self.worker_of(name):  # in another tab
            return self.go(self.START)
        self.check_form(request, posted, self.session(request).nonce, self.at + request.url.path)
        return self.remember(self.go(self.START), self.enrolled(name))

    def _invited_name(self, request: Request) -> str:
        """Whose personal link it is. Raises HttpProblem for a link that was not made here."""
        if (invitation := self.signer.read(Invitation, request.path_params["token"])) is None:
            again = _("Please copy all of it, to its last letter, and try again.")
            raise HttpProblem(403, _("This link is incomplete"), again)
        return invitation.name

    def check_form(self, request: Request, posted: Mapping[str, Sequence[str]], nonce: str, address: str) -> None:
        """Raises HttpProblem where the form was not made here for this person and address."""
        token = (posted.get("csrf") or ("",))[0]
        made = self.signer.form_token(nonce, address)
        if from_elsewhere(request) or not compare_digest(token.encode(), made.encode()):
            once_more = _("Please load the page again and send it once more.")
            raise HttpProblem(403, _("This form has grown old"), once_more)

    def limit(self, buckets: Buckets, name: str, cost: float = 1.0) -> None:
        """Raises RateLimited where this worker or address asks too often."""
        if wait := buckets.take(name, cost):
            raise RateLimited(wait)


def application(
    pages: SignedPages,
    shown: Mapping[str, Show],
    posted: Mapping[str, Callable[[Request, Posted], Response]],
    handlers: Handlers,
    addresses: Buckets,
) -> ASGIApp:
    """What serves pages: by path, what is `shown`, and what takes a `posted` form, in a thread of its own, as all that touches the disk."""

    async def take(act: Callable[[Request, Posted], Response], request: Request) -> Response:
        return await run_in_threadpool(act, request, await read_form(request))

    routes = [Route(path, partial(take, act), methods=["POST"]) for path, act in posted.items()]
    routes += [Route(path, act, methods=["GET"]) for path, act in shown.items()]
    app = Starlette(routes=routes, exception_handlers=handlers)
    https = pages.base_url.startswith("https://")
    guarded = Guard(app, addresses, partial(too_fast, pages.problem), https)
    return Speaking(guarded, pages.languages, pages.at or "/", https)


class Pages(SignedPages):
    """Renders for one site."""

    START = "/next"

    def __init__(self, site: Site) -> None:
        super().__init__(site.base_url, site.signer)
        self.site, self.languages, self.contact = site, site.languages, site.texts.contact
        self._templates.globals |= {"described_in": site.language, "name_of_language": name_of_language}
        self._agreed = set[str]()

    def agreed(self, worker: str) -> bool:
        """Whether a worker may see the study: they agreed, or there is no consent."""
        version = self.site.texts.version
        if version and worker not in self._agreed:
            if not self.site.journal.agreed(worker, version):
                return False
            self._agreed.add(worker)
        return True

    def has_withdrawn(self, worker: str) -> bool:
        """Whether a worker left the study, or asked to."""
        return self.site.journal.stopped(worker) == WITHDRAWN

    def asks_exit(self, worker: str) -> bool:
        """Whether the study has questions at the end that the worker has not answered."""
        return bool(self.site.texts.exit_version) and not self.site.journal.exit_answers(worker)

    def exit_key(self, worker: str) -> str:
        """What opens the questions at the end to a worker whose work is done."""
        return self.site.signer.digest("exit", worker)[:16]

    def to_exit(self, worker: str) -> RedirectResponse:
        """To the questions at the end."""
        return self.go(f"/exit?key={self.exit_key(worker)}")

    def worker_of(self, invited: str) -> str:
        """The pseudonym of a member of a local team."""
        return self.site.pseudonym("local", invited)

    def enrolled(self, invited: str) -> Session:
        """The session of a member of a local team, whose answers count from now on."""
        return self.admit("local", invited)

    def told(self, session: Session, message: tuple[int, str] | None) -> tuple[str, str, str] | None:
        """A message as the pages of this session show it: its text, where it is put away, and the token of that form."""
        here = f"{self.at}/told/{message[0]}" if message else ""
        return (message[1], here, self.signer.form_token(session.nonce, here)) if message else None

    def news(self, session: Session) -> tuple[str, str, str] | None:
        """This person's oldest message that is not put away, as pages show it, or None."""
        return self.told(session, next(iter(self.site.journal.unread(session.worker)), None))

    def admit(self, platform: str, identity: str, submission: str = "") -> Session:
        """The session of a person, enrolled now or once they agree; the private folder alone has the platform's id."""
        worker = self.site.pseudonym(platform, identity)
        if not self.has_withdrawn(worker):
            self.site.identities.worker(platform, identity)
        if not self.site.texts.version:
            self.site.journal.enrol(worker, platform, self.site.now())
        return Session(secrets.token_urlsafe(12), worker, platform, submission)


@dataclass(frozen=True, eq=False)
class Endpoints:
    """What answers requests at some addresses of a site."""

    pages: Pages

    @property
    def site(self) -> Site:
        """The site of the pages."""
        return self.pages.site

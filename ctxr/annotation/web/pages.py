"""Pages out of templates: a form as its template needs it, and who is asking for it.

What a page says about a picture is its position; its id would tell a frame's number, and so the order of a shuffled set.
"""

import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

from jinja2 import Environment
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from ctxr.annotation.forms import Form, Pick, Talk, Write, without_blanks
from ctxr.annotation.tasks.values import Values
from ctxr.annotation.web.signing import Session
from ctxr.annotation.web.site import Site
from ctxr.web.guard import RateLimited
from ctxr.web.signing import SESSION_DAYS
from ctxr.web.static import HttpProblem, StaticFiles, environment

COOKIE = "ctxr"


@dataclass(frozen=True)
class ShownPicture:
    """A picture on a page: `key` is its name there, `place` counts from 1, sides in pixels, 0 where they are not known."""

    key: str
    place: int
    marked: bool
    width: int
    height: int

    @property
    def label(self) -> str:
        """The alternative text for screen readers."""
        return f"Image {self.place}, the marked one" if self.marked else f"Image {self.place}"


@dataclass(frozen=True)
class FormView:
    """Everything on a page of work.

    Attributes:
        layout: `talk`, `pick` (a grid to choose from) or `read` (pictures beside the question).
        pictures: in the order shown. given: values by field, typed or kept as a draft.
    """

    form: Form
    layout: str
    pictures: tuple[ShownPicture, ...]
    given: Values

    @property
    def mixed(self) -> bool:
        """Whether pictures differ in shape: their grid then needs boxes of equal shape."""
        return len({round(picture.width / max(1, picture.height), 1) for picture in self.pictures}) > 1


def view_of(form: Form, key: Callable[[str], str], sizes: Mapping[str, tuple[int, int]], values: Values) -> FormView:
    """The view of a form whose pictures are called `key(image id)`; `sizes` are (width, height) by image id."""
    pictures = tuple(
        ShownPicture(key(picture.image), picture.place, picture.marked, *sizes.get(picture.image, (0, 0)))
        for picture in (form.gallery.pictures if form.gallery else ())
    )
    kinds = {type(field) for field in form.fields}
    layout = "talk" if Talk in kinds else "pick" if Pick in kinds else "read"
    picks = {field.name for field in form.fields if isinstance(field, Pick)}
    filled = {name: tuple(map(key, texts)) if name in picks else tuple(texts) for name, texts in values.items()}
    return FormView(form, layout, pictures, filled)


def values_of(form: Form, key: Callable[[str], str], posted: Values) -> dict[str, tuple[str, ...]]:
    """What was posted, as the task understands it: pictures by their ids, line ends plain.

    A name that is no picture of this page stays as it came, and the task refuses it.
    """
    images = {key(picture.image): picture.image for picture in (form.gallery.pictures if form.gallery else ())}
    picks = {field.name for field in form.fields if isinstance(field, Pick)}
    texts = {field.name for field in form.fields if isinstance(field, Write)}
    values = {name: tuple(parts) for name, parts in posted.items()}
    values |= {name: tuple(images.get(part, f"?{part}") for part in values[name]) for name in picks & values.keys()}
    values |= {name: tuple(part.replace("\r\n", "\n") for part in values[name]) for name in texts & values.keys()}
    return without_blanks(form, values)


@cache
def _templates() -> Environment:
    found = environment("ctxr.annotation.web")
    found.globals["kind_of"] = lambda field: type(field).__name__.lower()
    return found


class Pages:
    """Renders for one site."""

    def __init__(self, site: Site) -> None:
        self.site = site
        self.at = site.access.at
        self.static = StaticFiles("ctxr.annotation.web")

    def page(self, template: str, status: int = 200, **context: object) -> HTMLResponse:
        """A template with `context`."""
        steady = {"at": self.at, "static": f"{self.at}/static/{self.static.version}", "round": None, "stop": ""}
        return HTMLResponse(_templates().get_template(template).render({**steady, **context}), status)

    def message(self, title: str, lines: Sequence[str] = (), status: int = 200, **parts: object) -> HTMLResponse:
        """A page that only says something.

        Parts: `links` (text, address) to go on by; `code`, by which somebody is paid; `kept`, texts that could not be taken;
        `form`, a button that posts; `again`, seconds until the page looks again by itself.
        """
        none = {"links": (), "code": "", "kept": (), "again": 0, "form": None}
        return self.page("message.html", status, **{"title": title, "lines": lines, **none, **parts})

    def go(self, path: str) -> RedirectResponse:
        """To another page of ours, with GET."""
        return RedirectResponse(self.at + path, 303)

    def session(self, request: Request) -> Session:
        """Who is asking; a new session where there is none."""
        session = self.site.signer.read_session(request.cookies.get(COOKIE, ""))
        return session or Session(secrets.token_urlsafe(12))

    def remember(self, response: Response, session: Session) -> Response:
        """The response with the session's cookie."""
        response.set_cookie(
            COOKIE,
            self.site.signer.session(session),
            max_age=SESSION_DAYS * 24 * 60 * 60,
            path=self.at or "/",
            secure=self.site.access.https,
            httponly=True,
            samesite="lax",
        )
        return response

    def admit(self, platform: str, identity: str, submission: str = "") -> Session:
        """Enrol a person and return their session; the platform's id goes to the private folder and nowhere else."""
        worker = self.site.identities.worker(platform, identity)
        self.site.journal.enrol(worker, platform, self.site.now())
        return Session(secrets.token_urlsafe(12), worker, platform, submission)

    def check_form(self, request: Request, posted: Mapping[str, Sequence[str]], nonce: str, address: str) -> None:
        """Raises HttpProblem where the form was not made here for this person and address."""
        token = (posted.get("csrf") or ("",))[0]
        elsewhere = request.headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none")
        if elsewhere or not self.site.signer.is_form_token(token, nonce, address):
            raise HttpProblem(403, "This form has grown old", "Please load the page again and send it once more.")

    def slow_down(self, name: str, cost: float = 1.0) -> None:
        """Raises TooMany where this worker asks too often."""
        if wait := self.site.workers.take(name, cost):
            raise RateLimited(wait)

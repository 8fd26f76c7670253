"""Ways in: a name, an invitation."""

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response

from ctxr.annotation.web.guard import TooMany, read_form
from ctxr.annotation.web.pages import Pages, Told

LONGEST_NAME = 60


class Doors:
    """The endpoints by which people come in."""

    def __init__(self, pages: Pages) -> None:
        self.pages, self.site = pages, pages.site

    async def home(self, request: Request) -> Response:
        """Where the bare address leads."""
        session = self.pages.session(request)
        if session.worker:
            return await run_in_threadpool(self._welcome_back, session.worker)
        if not self.site.doors.anybody:
            return self.pages.message(
                "You need a personal link",
                ["Whoever asked you to take part can send you one.", "If you had one, please open it again."],
            )
        return self._form(request)

    async def enter(self, request: Request) -> Response:
        """Enrol with a name, where anybody may."""
        if not self.site.doors.anybody:
            raise Told(404, "This page is not here")
        posted = await read_form(request)
        self.pages.check_form(request, posted, self.pages.session(request).nonce, f"{self.pages.at}/enter")
        name = " ".join((posted.get("name") or [""])[0].split())
        if not name or len(name) > LONGEST_NAME or not name.isprintable():
            return self._form(request, name, "Please write a name of one to sixty characters.")
        if wait := self.site.newcomers.take(request.client.host if request.client else ""):
            raise TooMany(wait)
        identity = f"open/{name.casefold()}"
        known = await run_in_threadpool(self.site.identities.who, self.site.pseudonym("local", identity))
        if known is not None:
            return self._form(
                request,
                name,
                "Somebody has come in with this name. If it was you, use your personal link, or add a letter.",
            )
        session = await run_in_threadpool(self.pages.admit, "local", identity)
        personal = f"{self.site.doors.base_url}/i/{self.site.signer.invitation(identity)}"
        response = self.pages.message(
            f"Welcome, {name}",
            ["To come back from another browser, or after a month, keep this personal link. It is yours alone."],
            links=[("Begin", f"{self.pages.at}/next"), ("My personal link", personal)],
        )
        self.pages.remember(response, session)
        return response

    async def invited(self, request: Request) -> Response:
        """A personal link: a page with one button, so that a link alone puts nobody into somebody else's place."""
        identity, session = self._identity(request), self.pages.session(request)
        if session.worker == self.site.pseudonym("local", identity):
            return self.pages.go("/next")
        here = f"{self.pages.at}/i/{request.path_params['token']}"
        response = self.pages.message(
            "Welcome",
            ["This is your personal link. What you do from here on is yours."],
            form={
                "action": here,
                "fields": [("csrf", self.site.signer.form_token(session.nonce, here))],
                "button": "Come in",
            },
        )
        self.pages.remember(response, session)
        return response

    async def accept(self, request: Request) -> Response:
        """Come in by a personal link."""
        identity, session = self._identity(request), self.pages.session(request)
        here = f"{self.pages.at}/i/{request.path_params['token']}"
        self.pages.check_form(request, await read_form(request), session.nonce, here)
        session = await run_in_threadpool(self.pages.admit, "local", identity)
        response = self.pages.go("/next")
        self.pages.remember(response, session)
        return response

    def _identity(self, request: Request) -> str:
        identity = self.site.signer.read_invitation(request.path_params["token"])
        if identity is None:
            raise Told(403, "This link is not whole", "Please copy all of it, to its last letter, and try again.")
        return identity

    def _form(self, request: Request, name: str = "", problem: str = "") -> Response:
        session = self.pages.session(request)
        response = self.pages.page(
            "door.html",
            422 if problem else 200,
            title="Come in",
            csrf=self.site.signer.form_token(session.nonce, f"{self.pages.at}/enter"),
            name=name,
            problems=[problem] if problem else [],
        )
        self.pages.remember(response, session)
        return response

    def _welcome_back(self, worker: str) -> Response:
        done = self.site.journal.done_by(worker)
        line = (
            "Nothing sent yet." if not done else f"You have sent {done} {'answer' if done == 1 else 'answers'} so far."
        )
        return self.pages.message("Welcome back", [line], links=[("Go on", f"{self.pages.at}/next")])

"""The pages of the researcher: what a study has come to, what is stuck, who works; they pause it here, and block people."""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial

from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from ctxr.annotation.artifacts import AggregatedAnswers
from ctxr.annotation.forms import PROBLEM
from ctxr.annotation.journal.journal import StateChange
from ctxr.annotation.overview import LATEST, ago, overview, said, seen_workers
from ctxr.annotation.records import Answer
from ctxr.annotation.tasks import task_of
from ctxr.annotation.tasks.values import odd
from ctxr.annotation.web.pages import Posted, SignedPages
from ctxr.annotation.web.site import Session, Shown, Site
from ctxr.media.images import thumbnail
from ctxr.web.language import ENGLISH, SPOKEN
from ctxr.web.static import PICTURES, HttpProblem

SIDE = 320  # pixels of the longer side of a picture
MOST_CHARACTERS = 1000  # of a reason or a message
AGAIN_SECONDS = 30

CHANGES: dict[str, StateChange] = {"block": "blocked", "allow": "allowed", "undo": "undone"}


class RunPages(SignedPages):
    """What answers requests of the researcher, who has a cookie of their own."""

    START = "/run"
    GREETING = "This link leads to the page of the study, where you see people’s names and answers, pause the study and block people."

    def __init__(self, site: Site) -> None:
        super().__init__(site.base_url, site.run_signer, "ctxr-run")
        self.site = site

    def page(self, template: str, status: int = 200, **context: object) -> HTMLResponse:
        """A template with `context`, in English as all pages for researchers."""
        SPOKEN.set(ENGLISH)
        return super().page(template, status, ago=partial(ago, now=self.site.now()), **context)

    def overview(self, request: Request) -> Response:
        """The study at a glance."""
        session, answered = self._runner(request), self.site.journal.answered()
        names = self._names()
        found = overview(self.site.workdir, self.site.journal, answered, self.site.now(), names)
        reports = [answer for answer in answered.answers[:-LATEST] if answer.values.get(PROBLEM)]
        parts = [dict(zip(found.progress.columns, row, strict=True)) for row in found.progress.rows]
        return self.page(
            "run.html",
            again=AGAIN_SECONDS,
            now=self.site.now(),
            found=found,
            has_prolific=bool(self.site.studies),
            parts=parts,
            total={
                name: sum(part[name] for part in parts) for name in ("units", "decided", "open", "in hands", "answers")
            },
            reports=list(self._latest(answered, reports, names)),
            latest=list(self._latest(answered, answered.answers, names)),
            csrf=self.signer.form_token(session.nonce, f"{self.at}/run/pause"),
        )

    def pause(self, request: Request, posted: Posted) -> Response:
        """Pause the study, or resume it."""
        self.check_form(request, posted, self._runner(request).nonce, f"{self.at}/run/pause")
        self.site.journal.pause(posted.get("do") == ["pause"], self.site.now())
        return self.go(self.START)

    def person(self, request: Request) -> Response:
        """One worker: what they did, what was changed, and what can be done."""
        session, worker, answered = self._runner(request), request.path_params["worker"], self.site.journal.answered()
        names = self._names()
        seen = seen_workers(self.site.journal, answered, names)
        person = next((one for one in seen if one.state.worker == worker), None)
        if person is None:
            raise HttpProblem(404, "No worker has this name", "Please check the address.")
        own, here = [answer for answer in answered.answers if answer.worker == worker], f"{self.at}/run/person/{worker}"
        return self.page(
            "person.html",
            one=person,
            latest=list(self._latest(answered, own, names)),
            changes=self.site.journal.changes(worker),
            unread=self.site.journal.unread(worker),
            use=self.site.journal.page_use().get(worker),
            here=here,
            most=MOST_CHARACTERS,
            csrf=self.signer.form_token(session.nonce, here),
        )

    def act(self, request: Request, posted: Posted) -> Response:
        """Block or allow a worker, undo the last change of their state, or write to them."""
        session, worker = self._runner(request), request.path_params["worker"]
        act, text = ((posted.get(name) or [""])[0].replace("\r\n", "\n").strip() for name in ("do", "text"))
        request.state.kept = [text] if text else []
        self.check_form(request, posted, session.nonce, f"{self.at}/run/person/{worker}")
        if not text or len(text) > MOST_CHARACTERS or odd(text) or act not in (*CHANGES, "tell"):
            raise HttpProblem(422, "Please write a text", f"It has 1 to {MOST_CHARACTERS:,} visible characters.")
        if act != "tell":
            self.site.journal.change(worker, CHANGES[act], text, session.worker, self.site.now())
        elif worker in self._names():
            self.site.journal.tell(worker, text, session.worker, self.site.now())
        return self.go(f"/run/person/{worker}")

    def picture(self, request: Request) -> Response:
        """A picture of an answer, small."""
        self._runner(request)
        shown = self.signer.read(Shown, request.path_params["key"])
        file = self.site.pictures.get(shown.image) if shown else None
        if file is None or file.suffix.lower() not in PICTURES or not file.is_file():
            raise HttpProblem(404, "This picture does not exist")
        kept = {"cache-control": "private, max-age=31536000, immutable"}
        return Response(thumbnail(file, SIDE), media_type="image/jpeg", headers=kept)

    def _runner(self, request: Request) -> Session:
        if not (session := self.session(request)).worker:
            raise HttpProblem(403, "You need the link of this study", "The window where ctxr serve runs shows it.")
        SPOKEN.set(ENGLISH)
        return session

    def _names(self) -> dict[str, str]:
        """What workers are called here: by their link, or their pseudonym."""
        return {one.worker: one.worker for one in self.site.journal.workers()} | self.site.identities.names()

    def _latest(
        self, answered: AggregatedAnswers, answers: Sequence[Answer], names: Mapping[str, str]
    ) -> Iterator[dict[str, object]]:
        """The last of the answers, newest first, with their pictures and texts."""
        pictures = self.site.pictures
        for answer in answers[: -LATEST - 1 : -1]:
            unit = answered.units[answer.unit]
            given = [value for values in answer.values.values() for value in values]
            goal = next((name for name in (unit.target or "", *unit.truth) if name in pictures), "")
            shown = [name for name in dict.fromkeys((*given, goal)) if name in pictures] or unit.images[:1]
            labels = [" and ".join(["picked"] * (name in given) + ["target"] * (name == goal)) for name in shown]
            yield {
                "answer": answer,
                "unit": unit,
                "name": names.get(answer.worker, answer.worker),
                "right": task_of(unit).score(unit, answer).right,
                "wrote": list(said(unit, answer)),
                "pictures": [(self.signer.sign(Shown(name)), label) for name, label in zip(shown, labels, strict=True)],
            }

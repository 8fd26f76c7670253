"""What people are asked once, when their work is done."""

from starlette.requests import Request
from starlette.responses import Response

from ctxr.annotation.study import EXIT, StudyPage
from ctxr.annotation.tasks.values import ODD_CHARACTERS, odd, too_long
from ctxr.annotation.web.pages import Endpoints, Posted
from ctxr.annotation.web.site import Session
from ctxr.web.language import SPOKEN, _

MOST_CHARACTERS = 2000


class ExitQuestions(Endpoints):
    """The endpoints of the questions at the end."""

    def _page(self, session: Session) -> StudyPage | None:
        worker = session.worker
        if not worker or self.pages.has_withdrawn(worker):
            return None
        return self.site.texts.page(EXIT, SPOKEN.get().tag) if self.pages.asks_exit(worker) else None

    def show(self, request: Request) -> Response:
        """The questions; to work for who has none, or was not led here when it was done."""
        session = self.pages.session(request)
        key = self.pages.exit_key(session.worker)
        if request.query_params.get("key") != key or not self.pages.agreed(session.worker):
            return self.pages.go("/next?more=1")
        return self._show(session, {})

    def _show(self, session: Session, given: Posted, problem: str = "") -> Response:
        if (text := self._page(session)) is None:
            return self.pages.go("/next?more=1")
        shown = {"title": text.title, "text": text, "given": given, "problem": problem, "most": MOST_CHARACTERS}
        shown["told"] = self.pages.news(session)
        csrf = self.site.signer.form_token(session.nonce, f"{self.pages.at}/exit")
        return self.pages.page("exit.html", 422 if problem else 200, csrf=csrf, **shown)

    def answer(self, request: Request, posted: Posted) -> Response:
        """Keep the answers to `exit.md`, of which any may be empty, also where the consent was changed since."""
        session = self.pages.session(request)
        given = {name: values[0].replace("\r\n", "\n").strip() for name, values in posted.items() if values}
        request.state.kept = [value for name, value in given.items() if name != "csrf" and value]
        self.pages.check_form(request, posted, session.nonce, f"{self.pages.at}/exit")
        if self._page(session) is None or (plain := self.site.texts.page(EXIT)) is None:
            return self.pages.go("/next?more=1")
        self.pages.limit(self.site.workers, session.worker)
        answers = []
        for number, question in enumerate(plain.questions):
            value = given.get(f"q{number}", "")
            if question.choices:
                value = dict(zip(map(str, range(len(question.choices))), question.choices, strict=True)).get(value, "")
            elif odd(value) or len(value) > MOST_CHARACTERS:
                problem = _(ODD_CHARACTERS.sentence) if odd(value) else too_long(len(value), MOST_CHARACTERS)
                return self._show(session, {name: [text] for name, text in given.items()}, problem)
            answers.append((question.text, value))
        self.site.journal.answer_exit(session.worker, self.site.texts.exit_version, answers, self.site.now())
        return self.pages.go("/next?more=1")

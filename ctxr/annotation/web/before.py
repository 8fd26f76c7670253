"""What people read before they work: information and consent, and the instructions of a task."""

from starlette.requests import Request
from starlette.responses import Response

from ctxr.annotation.confirmation import ask_to_withdraw
from ctxr.annotation.journal.results import DECLINED
from ctxr.annotation.study import CONSENT, INSTRUCTIONS, StudyPage
from ctxr.annotation.tasks import NAMES
from ctxr.annotation.web.pages import Endpoints, Posted
from ctxr.annotation.web.site import Session
from ctxr.web.language import SPOKEN, _
from ctxr.web.static import HttpProblem

ACTS = ("agree", "refuse", "withdraw")


class Introduction(Endpoints):
    """The endpoints of what comes before the first page of work."""

    def _text(self, name: str) -> StudyPage | None:
        return self.site.texts.page(name, SPOKEN.get().tag)

    def consent(self, request: Request) -> Response:
        """Information about the study, and whether this worker wants to take part."""
        return self._consent(self.pages.session(request))

    def _consent(self, session: Session, *problems: str) -> Response:
        text, worker = self._text(CONSENT), session.worker
        if not worker or text is None or self.pages.has_withdrawn(worker):
            return self.pages.go("/next")
        # the version is in the token: who read another one is asked again
        form_token, version = self.site.signer.form_token, self.site.texts.version
        tokens = {act: form_token(session.nonce, f"{act} {version}") for act in ACTS}
        agreed, has_begun = self.pages.agreed(worker), self.site.journal.has_begun(worker)
        shown = {"title": text.title, "text": text, "problems": problems, "csrf": None if agreed else tokens}
        changed = has_begun and not agreed and self.site.journal.stopped(worker) is None
        shown |= {"checks": False, "changed": changed, "gets_code": self._is_owed(session)}
        leave = tokens["withdraw"] if has_begun else ""
        told = self.pages.news(session)
        return self.pages.page("text.html", 422 if problems else 200, leave=leave, told=told, **shown)

    def _is_owed(self, session: Session) -> bool:
        """Whether they gave answers in a submission on Prolific, before the consent was changed."""
        visit = self.site.identities.visit(session.submission) if session.platform == "prolific" else None
        return visit is not None and self.site.journal.done_by(session.worker) > visit.answers

    def decide(self, request: Request, posted: Posted) -> Response:
        """Enrol who agrees; sign out who refuses, with a record if they had begun; ask who withdraws once more."""
        session, act, text = self.pages.session(request), request.path_params["act"], self._text(CONSENT)
        if act not in ACTS or text is None:
            raise HttpProblem(404, _("This page does not exist"))
        self.pages.check_form(request, posted, session.nonce, f"{act} {self.site.texts.version}")
        if not session.worker or self.pages.has_withdrawn(session.worker):
            return self.pages.go("/next")
        self.pages.limit(self.site.workers, session.worker)
        if act == "withdraw":
            return self._withdraw(session, posted)
        if act == "refuse":
            self.site.journal.decline(session.worker, self.site.now())
            has_begun = self.site.journal.has_begun(session.worker) and not self.site.journal.stopped(session.worker)
            kept = _("You get no more work. Your answers so far count, and what you have earned stays owed to you.")
            refused = kept if has_begun else _("You do not take part in this study.")
            lines = [refused, _("If you change your mind, open your link again.")]
            if session.platform == "prolific":
                lines[1] = _("Please return your submission on Prolific.")
                is_owed = self._is_owed(session)
                self.site.identities.end(session.submission, "complete" if is_owed else DECLINED)
                if is_owed:
                    return self.pages.go("/next")
            return self.pages.remember(self.pages.message(_("Thank you for reading"), lines), self.pages.nobody())
        if "agree" not in posted:
            return self._consent(session, _("Please tick the box, or choose “I do not want to take part”."))
        now = self.site.now()
        self.site.journal.enrol(session.worker, session.platform, now)
        self.site.journal.agree(session.worker, self.site.texts.version, text.language, now)
        return self.pages.go("/next")

    def _withdraw(self, session: Session, posted: Posted) -> Response:
        """Ask whether they are sure; who is sure gets no more work, and the researcher is told."""
        if "sure" in posted:
            ask_to_withdraw(self.site.journal, session.worker, self.site.now())
            return self.pages.go("/next")
        action = f"{self.pages.at}/consent/withdraw"
        fields = [("csrf", posted["csrf"][0]), ("sure", "yes")]
        lines = [
            _("You get no more work, your answers no longer count, and the people who run this study delete them."),
            _("What you have earned stays owed to you. You cannot take this back here."),
        ]
        form = {"action": action, "fields": fields, "button": _("Withdraw from the study")}
        links = [(_("Stay in the study"), f"{self.pages.at}/next")]
        return self.pages.message(_("Do you want to withdraw?"), lines, links=links, form=form)

    def instructions(self, request: Request) -> Response:
        """How a task is done; the cookie says from now on that they were shown."""
        session, task = self.pages.session(request), request.path_params["task"]
        if not session.worker or not self.pages.agreed(session.worker):
            return self.pages.go("/next")
        text = self._text(INSTRUCTIONS.format(task)) if task in NAMES else None
        if text is None:
            raise HttpProblem(404, _("This page does not exist"))
        shown = {"title": text.title, "text": text, "told": self.pages.news(session)}
        checks = self.site.attention and task == "retrieve"
        page = self.pages.page("text.html", 200, csrf=None, leave="", changed=False, checks=checks, **shown)
        return self.pages.remember(page, session._replace(shown=" ".join(sorted({*session.shown.split(), task}))))

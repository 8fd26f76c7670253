"""Sign-in by a name, an invitation or a submission on Prolific, and the completion code by which that is paid."""

import re
from typing import NamedTuple
from urllib.parse import urlencode

from starlette.requests import Request
from starlette.responses import Response

from ctxr.annotation.confirmation import readmit
from ctxr.annotation.journal.identities import LEFT, Visit
from ctxr.annotation.journal.results import DECLINED, NotAllowed
from ctxr.annotation.web.pages import Endpoints, Posted
from ctxr.annotation.web.site import Invitation, Session
from ctxr.web.language import N_, _, ngettext
from ctxr.web.static import HttpProblem

LONGEST_NAME = 60

DONE = "https://app.prolific.com/submissions/complete"

WAIT_SECONDS = 15
"""After so long a page that waits for something looks again."""

_PLATFORM = "prolific"

_ID = re.compile(r"[0-9a-zA-Z]{10,64}")

_ONCE_MORE = N_("Please open the study from Prolific’s own page once more.")

_LEFT = N_("You have withdrawn from this study")

_ENDINGS = {
    "complete": ("COMPLETED", N_("Thank you, that was all"), N_("Your answers are stored.")),
    "stopped": (
        "FAILED_ATTENTION_CHECK",
        N_("Thank you for your work"),
        N_("Your answers are stored and will be reviewed."),
    ),
    "withdrawn": ("COMPLETED", _LEFT, N_("Your answers no longer count.")),
}
"""Type of the completion code, and what is said, by how the work ended."""


class WorkRound(NamedTuple):
    """How many answers of a round are given, and how many it has; a submission on Prolific is one round."""

    done: int
    size: int


class SignIn(Endpoints):
    """The endpoints for signing in."""

    def home(self, request: Request) -> Response:
        """The start page."""
        session = self.pages.session(request)
        if session.worker:
            done = self.site.journal.done_by(session.worker)
            sent = ngettext("You have sent {count} answer so far.", "You have sent {count} answers so far.", done)
            line = sent if done else _("Nothing sent yet.")
            return self.pages.message(_("Welcome back"), [line], links=[(_("Go on"), f"{self.pages.at}/next")])
        if not self.site.anybody:
            return self.pages.message(
                _("You need a personal link"),
                [
                    _("The person who invited you can send you one."),
                    _("If you already have one, please open it again."),
                ],
            )
        return self._form(request)

    def enter(self, request: Request, posted: Posted) -> Response:
        """Enrol with a name, on a server open to anyone."""
        if not self.site.anybody:
            raise HttpProblem(404, _("This page does not exist"))
        self.pages.check_form(request, posted, self.pages.session(request).nonce, f"{self.pages.at}/enter")
        name = " ".join((posted.get("name") or [""])[0].split())
        if not name or len(name) > LONGEST_NAME or not name.isprintable():
            return self._form(request, name, _("Please write a name of one to sixty characters."))
        self.pages.limit(self.site.newcomers, request.client.host if request.client else "")
        identity = f"open/{name.casefold()}"
        if self.site.identities.knows(self.site.pseudonym("local", identity)):
            taken = _("This name is already taken. If it is yours, use your personal link; otherwise add a letter.")
            return self._form(request, name, taken)
        personal = f"{self.site.base_url}/i/{self.site.signer.sign(Invitation(identity))}"
        response = self.pages.message(
            _("Welcome, {name}").format(name=name),
            [_("Keep this personal link to sign in from another browser or after a month. Do not share it.")],
            links=[(_("Start"), f"{self.pages.at}/next"), (_("My personal link"), personal)],
        )
        return self.pages.remember(response, self.pages.admit("local", identity))

    def _form(self, request: Request, name: str = "", problem: str = "") -> Response:
        session = self.pages.session(request)
        response = self.pages.page(
            "sign_in.html",
            422 if problem else 200,
            title=_("Sign in"),
            csrf=self.site.signer.form_token(session.nonce, f"{self.pages.at}/enter"),
            name=name,
            problems=[problem] if problem else [],
        )
        return self.pages.remember(response, session)


class Prolific(Endpoints):
    """Sign-in and completion codes of participants from Prolific."""

    def come(self, request: Request) -> Response:
        """A participant of a study."""
        name = request.path_params["study"]
        if name not in self.site.studies:
            raise HttpProblem(404, _("This study does not exist"), _("Please return the submission on Prolific."))
        ids = [request.query_params.get(name, "") for name in ("SESSION_ID", "PROLIFIC_PID", "STUDY_ID")]
        if not all(map(_ID.fullmatch, ids)):
            raise HttpProblem(400, _("Prolific did not say who you are"), _(_ONCE_MORE))
        # the id of a submission is what opens it: a participant's id alone is known to others
        submission, participant, study = ids
        is_new = self.site.identities.visit(submission) is None
        if is_new:
            self.pages.limit(self.site.newcomers, request.client.host if request.client else "")
        worker = self.site.pseudonym(_PLATFORM, participant)
        if is_new and self.pages.has_withdrawn(worker):  # nothing is stored about them anew
            return self.pages.message(_(_LEFT), [_("Please return your submission on Prolific.")])
        done = self.site.journal.done_by(worker)
        visit = Visit(submission, participant, study, worker, name, done, self.site.now())
        try:
            earlier = self.pages.session(request).submission
            self.site.identities.come(visit, self.site.studies[name].lasts, earlier)
        except NotAllowed as refused:
            raise HttpProblem(403, _("This submission cannot be opened"), refused.message) from refused
        session = self.pages.admit(_PLATFORM, participant, submission)
        if is_new:
            readmit(self.site.journal, worker, self.site.now())
        return self.pages.remember(self.pages.go("/next"), session)

    def visit(self, session: Session) -> Visit | None:
        """What this browser came with; None for who came another way. Raises HttpProblem where it counts no more."""
        if session.platform != _PLATFORM:
            return None
        visit = self.site.identities.visit(session.submission)
        if visit is None or visit.ending in (LEFT, DECLINED) or visit.door not in self.site.studies:
            raise HttpProblem(403, _("This submission is over"), _(_ONCE_MORE))
        return visit

    def round(self, session: Session, done: int) -> WorkRound | None:
        """The round of this submission, after `done` answers of its worker; None for somebody who came another way."""
        visit = self.site.identities.visit(session.submission) if session.platform == _PLATFORM else None
        if visit is None or visit.door not in self.site.studies:
            return None
        bundle = self.site.studies[visit.door].bundle
        return WorkRound(min(done - visit.answers, bundle), bundle)

    def ended(self, session: Session, visit: Visit) -> Response | None:
        """The page with the completion code; None while there is work to do before it."""
        study = self.site.studies[visit.door]
        ending = visit.ending or self.site.journal.ending(
            visit.worker, visit.began, self.site.now(), study.bundle, visit.answers, tasks=study.tasks
        )
        if not ending:
            return None
        has_withdrawn = self.pages.has_withdrawn(visit.worker)
        if has_withdrawn and not visit.ending and self.site.journal.given_by(visit.worker) <= visit.answers:
            return self.pages.message(_(_LEFT), [_("Please return your submission on Prolific.")])
        is_asked = ending == "complete" and not visit.ending and self.pages.agreed(visit.worker)
        if is_asked and self.pages.asks_exit(visit.worker):
            return self.pages.to_exit(visit.worker)
        by_choice = has_withdrawn and self.site.journal.block_of(visit.worker) is None
        kind = _ENDINGS["withdrawn" if by_choice else ending][0]  # who was blocked before is not paid for leaving
        title, line = map(_, _ENDINGS["withdrawn" if has_withdrawn else ending][1:])
        codes = study.codes()
        code = codes.get(kind) or codes.get("COMPLETED", "")
        if not code:
            links = [(_("Look again"), f"{self.pages.at}/next")]
            wait = _("Your completion code for Prolific is not available yet. Please leave this page open.")
            return self.pages.message(title, [line, wait], links=links, again=WAIT_SECONDS)
        self.site.identities.end(visit.submission, ending)
        return self.pages.message(
            title,
            [line, _("Please return to Prolific to be paid.")],
            code=code,
            told=self.pages.news(session),
            links=[(_("Complete on Prolific"), f"{DONE}?{urlencode({'cc': code})}")],
        )

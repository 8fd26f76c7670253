"""People from Prolific: they come in with a submission, and leave with the code by which it is paid."""

import re
from urllib.parse import urlencode

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response

from ctxr.annotation.journal import Refused, Visit
from ctxr.annotation.journal.identities import LEFT
from ctxr.annotation.web.guard import TooMany
from ctxr.annotation.web.pages import Pages, Told
from ctxr.annotation.web.signing import Session
from ctxr.annotation.web.site import Study

DONE = "https://app.prolific.com/submissions/complete"

WAIT_SECONDS = 15
"""After so long a page that waits for something looks again."""

_PLATFORM = "prolific"

_ID = re.compile(r"[0-9a-zA-Z]{10,64}")

_ENDINGS = {
    "complete": ("COMPLETED", "Thank you, that was all", "Your answers are stored."),
    "stopped": ("FAILED_ATTENTION_CHECK", "Thank you for your work", "What you did is kept and will be looked at."),
}
"""Type of the completion code, and what is said, by how the work ended."""


class Prolific:
    """The way in and the way out."""

    def __init__(self, pages: Pages) -> None:
        self.pages, self.site = pages, pages.site

    async def come(self, request: Request) -> Response:
        """A participant of a study."""
        door = request.path_params["study"]
        if door not in self.site.doors.studies:
            raise Told(404, "This study is not here", "Please return the submission on Prolific.")
        told = [request.query_params.get(name, "") for name in ("SESSION_ID", "PROLIFIC_PID", "STUDY_ID")]
        if not all(_ID.fullmatch(one) for one in told):
            raise Told(
                400, "Prolific did not say who you are", "Please open the study from Prolific’s own page once more."
            )
        address = request.client.host if request.client else ""
        session = await run_in_threadpool(self._come, door, told, address, self.pages.session(request))
        response = self.pages.go("/next")
        self.pages.remember(response, session)
        return response

    def _come(self, door: str, told: list[str], address: str, before: Session) -> Session:
        """The session of a submission. Its id is what opens it: a participant's id alone is known to others."""
        submission, participant, study = told
        if self.site.identities.visit(submission) is None and (wait := self.site.newcomers.take(address)):
            raise TooMany(wait)
        worker = self.site.pseudonym(_PLATFORM, participant)
        given, now = self.site.journal.done_by(worker), self.site.now()
        visit = Visit(submission, participant, study, worker, door, given, now)
        try:
            self.site.identities.come(visit, self.site.doors.studies[door].lasts, before.submission)
        except Refused as refused:
            raise Told(403, "This submission cannot be opened", refused.message) from refused
        return self.pages.admit(_PLATFORM, participant, submission)

    def visit(self, session: Session) -> Visit | None:
        """What this browser came with; None for who came another way. Raises Told where it counts no more."""
        if session.platform != _PLATFORM:
            return None
        visit = self.site.identities.visit(session.submission)
        if visit is None or visit.ending == LEFT or visit.door not in self.site.doors.studies:
            raise Told(403, "This submission is over", "Please open the study from Prolific’s own page once more.")
        return visit

    def tasks(self, visit: Visit) -> tuple[str, ...]:
        """What this person is given."""
        return self._study(visit).tasks

    def round(self, session: Session) -> tuple[int, int] | None:
        """Answers for this submission, and how many it is paid for; None for who came another way."""
        visit = self.site.identities.visit(session.submission) if session.platform == _PLATFORM else None
        if visit is None or visit.door not in self.site.doors.studies:
            return None
        bundle = self._study(visit).bundle
        return min(self.site.journal.done_by(visit.worker) - visit.answers, bundle), bundle

    def ended(self, visit: Visit) -> Response | None:
        """The page with the completion code; None while there is work to do before it."""
        study = self._study(visit)
        ending = visit.ending or self.site.journal.ending(
            visit.worker, visit.began, self.site.now(), study.bundle, visit.answers, self.tasks(visit)
        )
        if not ending:
            return None
        kind, title, line = _ENDINGS[ending]
        known = study.codes()
        code = known.get(kind) or known.get("COMPLETED", "")
        if not code:
            again = [("Look again", f"{self.pages.at}/next")]
            wait = "The code by which Prolific pays you is not here yet. Please leave this page open."
            return self.pages.message(title, [line, wait], links=again, again=WAIT_SECONDS)
        self.site.identities.end(visit.submission, ending)
        return self.pages.message(
            title,
            [line, "Please go back to Prolific, so that you are paid."],
            code=code,
            links=[("Complete on Prolific", f"{DONE}?{urlencode({'cc': code})}")],
        )

    def _study(self, visit: Visit) -> Study:
        return self.site.doors.studies[visit.door]

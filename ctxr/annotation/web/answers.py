"""What a worker sent last, to be seen again, and corrected while nothing is built on it."""

from dataclasses import dataclass

from starlette.requests import Request
from starlette.responses import Response

from ctxr.annotation.forms import Choice, Order, Pick
from ctxr.annotation.journal.results import GivenAnswer, NotAllowed
from ctxr.annotation.web.pages import Endpoints, Posted
from ctxr.annotation.web.site import LeaseLink
from ctxr.annotation.web.work import LeasedUnit, Work, leased_unit
from ctxr.web.language import _
from ctxr.web.static import HttpProblem


@dataclass(frozen=True, eq=False)
class OwnAnswers(Endpoints):
    """The endpoints of answers that were given."""

    work: Work

    def show(self, request: Request) -> Response:
        """The worker's last answers."""
        session = self.pages.session(request)
        agreed = session.worker and self.pages.agreed(session.worker)
        if not agreed or self.pages.has_withdrawn(session.worker):
            return self.pages.go("/next")
        self.pages.limit(self.site.workers, session.worker)
        rows = []
        for given in self.site.journal.last_answers(session.worker):
            link = self.site.signer.sign(LeaseLink(given.lease.token, session.worker))
            unit = LeasedUnit(self.pages, given.lease, session, f"{self.pages.at}/w/{link}")
            rows.append({"unit": unit, "said": _said(unit, given), "pictures": _pictures(unit, given), "given": given})
        shown = {"rows": rows, "told": self.pages.news(session), "saved": "saved" in request.query_params}
        return self.pages.page("answers.html", 200, title=_("Your last answers"), **shown)

    def edit(self, request: Request) -> Response:
        """The page of an answer as it was sent."""
        unit = leased_unit(self.pages, request)
        given = None if self.site.journal.stopped(unit.session.worker) else self.work.correctable(unit)
        if given is None:
            raise HttpProblem(409, _("This answer stays"), _("This answer can no longer be changed."))
        return self.work.form(unit, given.answer.values, step="/correct")

    def correct(self, request: Request, posted: Posted) -> Response:
        """Take the corrected answer."""
        unit = leased_unit(self.pages, request)
        unit.accept(request, posted)
        values = unit.values(posted)
        try:
            self.site.journal.correct(unit.lease.token, unit.lease.worker, values, self.site.now())
        except NotAllowed as refused:
            if refused.problems:
                return self.work.form(unit, values, refused.problems, "/correct")
            raise HttpProblem(409, _("This answer stays"), refused.message, kept=unit.texts(posted)) from refused
        return self.pages.go("/answers?saved=yes")


def _said(unit: LeasedUnit, given: GivenAnswer) -> list[tuple[str, str]]:
    """What was sent, by what was asked, in the words of the page; without pictures."""
    said = []
    for field in unit.form.asked:
        values = given.answer.values.get(field.name, ())
        if isinstance(field, Choice):
            values = tuple(option.label for option in field.options if option.value in values)
        elif isinstance(field, Order):
            labels = {option.value: option.label for option in unit.form.options(field)}
            values = tuple(map(labels.__getitem__, values))
        if values and not isinstance(field, Pick) and not unit.is_talk:
            said.append((field.legend, ", ".join(values)))
    return said


def _pictures(unit: LeasedUnit, given: GivenAnswer) -> list[str]:
    """What was chosen or marked, else the first picture, as the page names it; nothing where they may see it no more."""
    shown = unit.form.pictures if given.may_be_corrected else ()
    chosen = [
        one.image for one in shown if one.marked or any(one.image in said for said in given.answer.values.values())
    ]
    return [unit.key(image) for image in chosen or [one.image for one in shown[:1]]]

"""A unit in somebody's hands: every page of work asks here whether it is theirs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request

from ctxr.annotation.forms import Form, Talk, Write
from ctxr.annotation.journal.results import Lease
from ctxr.annotation.tasks import task_of
from ctxr.annotation.web.guard import read_form
from ctxr.annotation.web.pages import FormView, HttpProblem, Pages, view_of
from ctxr.annotation.web.signing import LeaseLink, Session


@dataclass(frozen=True)
class LeasedUnit:
    """A lease and the right to use it.

    Attributes:
        session: whose browser it is. here: path of its page.
    """

    pages: Pages
    link: LeaseLink
    lease: Lease
    session: Session
    here: str

    def current(self) -> "LeasedUnit":
        """The same as it is now."""
        lease = self.pages.site.journal.find(self.lease.token)
        return self if lease is None else replace(self, lease=lease)

    @property
    def path(self) -> str:
        """The path of its page below that of the site."""
        return self.here.removeprefix(self.pages.at)

    @property
    def form(self) -> Form:
        """What is asked, as this seat sees it."""
        return task_of(self.lease.unit).render(self.lease.unit, self.lease.order, self.lease.seat)

    @property
    def is_talk(self) -> bool:
        """Whether it is done by two people together."""
        return any(isinstance(field, Talk) for field in self.form.fields)

    def key(self, image: str) -> str:
        """What a picture is called on this lease's pages."""
        return self.pages.site.signer.picture(self.lease.token, image)

    def view(self, filled: Mapping[str, Sequence[str]]) -> FormView:
        """The form as its template needs it."""
        return view_of(self.form, self.key, self.pages.site.sizes, filled)

    def form_token(self, step: str = "") -> str:
        """What a form that posts to `here + step` must bring back."""
        return self.pages.site.signer.form_token(self.session.nonce, self.here + step)

    def texts(self, posted: Mapping[str, Sequence[str]]) -> list[str]:
        """The typed texts, to be shown again if they cannot be accepted."""
        names = [field.name for field in self.form.fields if isinstance(field, Write)] + ["text"]
        return [text for name in names for text in posted.get(name, ()) if text.strip()]

    def visible(self) -> dict[str, str]:
        """Image ids by the names that this worker may ask for now; the photo of a talk only once it is theirs to see."""
        shown = {picture.image for picture in self.form.gallery.pictures} if self.form.gallery else set()
        if self.is_talk and not shown and self.pages.site.journal.room(self.lease.token).shared:
            shown = set(self.lease.unit.images)
        return {self.key(image): image for image in shown}


async def leased_unit(pages: Pages, request: Request, text: str = "", cost: float = 1.0) -> LeasedUnit:
    """The unit that the link in the address (or `text`) stands for.

    Raises HttpProblem for a link that was not made here, another worker's, or a lease that is not there; TooMany for too many of them.
    """
    text = text or request.path_params["link"]
    link = pages.site.signer.read_link(text)
    if link is None:
        raise HttpProblem(403, "This link is incomplete", "Please go back and open the page again.")
    session = pages.session(request)
    if session.worker != link.worker:
        reason = "It belongs to another person." if session.worker else "Your session has ended."
        raise HttpProblem(403, "This page is not open to you", reason, "Please sign in with your own link.")
    pages.slow_down(link.worker, cost)
    lease = await run_in_threadpool(pages.site.journal.find, link.lease)
    if lease is None or lease.worker != link.worker:
        raise HttpProblem(404, "This page no longer exists", "Please continue with the next one.")
    return LeasedUnit(pages, link, lease, session, f"{pages.at}/w/{text}")


async def received(unit: LeasedUnit, request: Request, step: str = "") -> dict[str, list[str]]:
    """The fields of a form that was posted to `here + step`; typed texts are shown again if anything fails after this.

    Raises HttpProblem for a form that was not made here, TooLarge for a long one.
    """
    posted = await read_form(request)
    request.state.kept = unit.texts(posted)
    unit.pages.check_form(request, posted, unit.session.nonce, unit.here + step)
    return posted

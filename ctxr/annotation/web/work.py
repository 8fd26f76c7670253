"""Pages of work: the next unit, its form, its pictures, and the answer that is stored before anything else is shown."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response

from ctxr.annotation.forms import Form, Mark, Order, Pick, Talk, Write, mark_place, percents_of
from ctxr.annotation.journal.results import GivenAnswer, Lease, NotAllowed, NoWork
from ctxr.annotation.journal.storing import COUNTED
from ctxr.annotation.study import INSTRUCTIONS
from ctxr.annotation.tasks import task_of
from ctxr.annotation.tasks.values import Values
from ctxr.annotation.web.pages import Endpoints, FormView, Pages, Posted, ShownPicture
from ctxr.annotation.web.sign_in import WAIT_SECONDS, Prolific, WorkRound
from ctxr.annotation.web.site import LeaseLink, Session
from ctxr.annotation.wording import RULES, Problem
from ctxr.errors import CtxrError
from ctxr.web.language import N_, _, ngettext, number
from ctxr.web.static import PICTURES, HttpProblem


@dataclass(frozen=True)
class LeasedUnit:
    """A lease and the right to use it: `session` is that of its browser, `here` the path of its page."""

    pages: Pages
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

    @property
    def task(self) -> str:
        """The task whose instructions apply."""
        return self.lease.unit.like or self.lease.unit.task

    @property
    def instructions(self) -> bool:
        """Whether the task has instructions."""
        return self.pages.site.texts.page(INSTRUCTIONS.format(self.task)) is not None

    @property
    def is_practice(self) -> bool:
        """Whether the worker is told if the answer was right."""
        return self.lease.unit.purpose == "qualification"

    def key(self, image: str) -> str:
        """What a picture is called on this lease's pages, which reveals nothing of it."""
        return self.pages.site.signer.digest("picture", self.lease.token, image)[:16]

    def view(self, values: Mapping[str, Sequence[str]]) -> FormView:
        """The form as its template needs it."""
        form, sizes = self.form, self.pages.site.sizes
        pictures = []
        for one in form.pictures:
            named = _("Image {place}, the marked one") if one.marked else _("Image {place}")
            label = named.format(place=number(one.place))
            size = sizes.get(one.image, (0, 0))
            pictures.append(ShownPicture(self.key(one.image), one.place, one.marked, label, *size))
        kinds = {type(field) for field in form.fields}
        layout = "talk" if Talk in kinds else "pick" if Pick in kinds else "read"
        keys = {picture.image: self.key(picture.image) for picture in form.pictures}
        given = dict(values)
        for field in form.fields:
            if isinstance(field, Pick | Order):
                given[field.name] = tuple(keys.get(part, part) for part in values.get(field.name, ()))
            elif isinstance(field, Mark):
                given[field.name] = percents_of(",".join(values.get(field.name, ())))
        shapes = {round(picture.width / max(1, picture.height), 1) for picture in pictures}
        return FormView(form, layout, tuple(pictures), given, len(shapes) > 1, keys)

    def values(self, posted: Values) -> dict[str, tuple[str, ...]]:
        """What was posted: pictures by their ids, or marked with "?" where they are not on this page, line ends plain."""
        form = self.form
        images = {self.key(picture.image): picture.image for picture in form.pictures}
        kinds = {field.name: type(field) for field in form.asked}
        values: dict[str, tuple[str, ...]] = {}
        for name, parts in posted.items():
            if kinds.get(name) is Pick:
                values[name] = tuple(images.get(part, f"?{part}") for part in parts)
            elif kinds.get(name) is Order:
                values[name] = tuple(images.get(part, part) for part in parts)
            elif kinds.get(name) is Mark:
                values[name] = (mark_place(parts),) if any(parts) else ()
            elif kinds.get(name) is Write:
                values[name] = tuple(part.replace("\r\n", "\n") for part in parts)
            elif name != "csrf":
                values[name] = tuple(parts)
        return form.without_blanks(values)

    def form_token(self, step: str = "") -> str:
        """What a form that posts to `here + step` must bring back."""
        return self.pages.site.signer.form_token(self.session.nonce, self.here + step)

    def texts(self, posted: Mapping[str, Sequence[str]]) -> list[str]:
        """The typed texts, to be shown again if they cannot be accepted."""
        names = {field.name: None for field in self.form.asked if isinstance(field, Write)} | {"text": None}
        return [text for name in names for text in posted.get(name, ()) if text.strip()]

    def accept(self, request: Request, posted: Mapping[str, Sequence[str]], step: str = "") -> None:
        """Accept a form posted to `here + step`; its texts are shown again if anything fails. Raises HttpProblem for a foreign one."""
        request.state.kept = self.texts(posted)
        self.pages.check_form(request, posted, self.session.nonce, self.here + step)

    def expired(self, texts: Mapping[str, Sequence[str]]) -> HttpProblem:
        """What is said when the time is over, or the worker was stopped, with what was typed."""
        if stopped := self.pages.site.journal.stopped(self.lease.worker):
            return HttpProblem(403, _(_TITLES[stopped.reason]), _(stopped.sentence), kept=self.texts(texts))
        return HttpProblem(
            410,
            _("Your time for this one is over"),
            _("Somebody else has it now. What you sent before is stored, and there may be more to do."),
            kept=self.texts(texts),
        )


def leased_unit(
    pages: Pages, request: Request, text: str = "", cost: float = 1.0, *, asks_consent: bool = True
) -> LeasedUnit:
    """The unit that the link in the address (or `text`) stands for. Raises HttpProblem where it is not theirs, or their consent is
    missing, RateLimited."""
    text = text or request.path_params["link"]
    link = pages.site.signer.read(LeaseLink, text)
    if link is None:
        raise HttpProblem(403, _("This link is incomplete"), _("Please go back and open the page again."))
    session = pages.session(request)
    if session.worker != link.worker:
        reason = _("It belongs to another person.") if session.worker else _("Your session has ended.")
        raise HttpProblem(403, _("This page is not open to you"), reason, _("Please sign in with your own link."))
    pages.limit(pages.site.workers, link.worker, cost)
    if asks_consent and not pages.agreed(link.worker):
        raise HttpProblem(403, _("Your consent comes first"), _("Please read about the study before you go on."))
    lease = pages.site.journal.find(link.lease)
    if lease is None or lease.worker != link.worker:
        raise HttpProblem(404, _("This page no longer exists"), _("Please continue with the next one."))
    return LeasedUnit(pages, lease, session, f"{pages.at}/w/{text}")


_TITLES = {
    "nothing_left": N_("Done for now, thank you"),
    "blocked": N_("Thank you for your work"),
    "screened_out": N_("Thank you for trying"),
    "withdrawn": N_("You have withdrawn from this study"),
    "wait": N_("A short wait"),
    "paused": N_("A short break"),
}


def _told(problems: Sequence[Problem]) -> dict[str, object]:
    """What a page says of an answer, and whether it may stand for a reason, for which nobody is asked before."""
    return {"problems": [one.sentence for one in problems], "may_stand": any(one.code in RULES for one in problems)}


@dataclass(frozen=True, eq=False)
class Work(Endpoints):
    """The endpoints of work."""

    prolific: Prolific

    def next(self, request: Request) -> Response:
        """To the unit that this worker holds, or to a new one."""
        session = self.pages.session(request)
        if not session.worker:
            return self.pages.go("/")
        self.pages.limit(self.site.workers, session.worker)
        return self._go_on(session, 0 if "more" in request.query_params else None)

    def _go_on(self, session: Session, done: int | None) -> Response:
        """To the next unit, after `done` answers; 0 where no round ends here, None where they are not counted yet."""
        visit, answers_of = self.prolific.visit(session), self.site.journal.done_by
        agrees = self.pages.agreed(session.worker) or self.pages.has_withdrawn(session.worker)
        # a consent that has changed since keeps nobody from the code that they have earned
        if (
            visit is not None
            and (agrees or visit.ending or answers_of(session.worker) > visit.answers)
            and (ended := self.prolific.ended(session, visit))
        ):
            return ended
        if not agrees:
            return self.pages.go("/consent")
        if visit is None and done is None:
            done = answers_of(session.worker)
        if visit is None and done and done % self.site.bundle == 0 and not self.pages.has_withdrawn(session.worker):
            thanks = ngettext(
                "You have sent {count} answer, and it helps. Rest a little, or go on.",
                "You have sent {count} answers, and each of them helps. Rest a little, or go on.",
                done,
            )
            return self.pages.message(
                _("Thank you, that was a round"),
                [thanks],
                links=[(_("Start another round"), f"{self.pages.at}/next?more=1")],
                told=self.pages.news(session),
            )
        tasks = self.site.tasks if visit is None else self.site.studies[visit.door].tasks
        lease = self.site.journal.lease(session.worker, self.site.now(), tasks)
        if not isinstance(lease, NoWork):
            return self.pages.go(f"/w/{self.site.signer.sign(LeaseLink(lease.token, session.worker))}")
        # looking for work may have ended the qualification round
        if visit is not None and (ended := self.prolific.ended(session, visit)):
            return ended
        if lease.reason == "nothing_left" and self.pages.asks_exit(session.worker):
            return self.pages.to_exit(session.worker)
        waits = lease.reason in ("wait", "paused")
        return self.pages.message(
            _(_TITLES[lease.reason]),
            [_(lease.sentence)],
            links=[(_("Look again"), f"{self.pages.at}/next?more=1")] if waits else (),
            again=WAIT_SECONDS if waits else 0,
            told=self.pages.news(session),
        )

    def put_away(self, request: Request, posted: Posted) -> Response:
        """Show a message to this worker no more."""
        session, number = self.pages.session(request), request.path_params["number"]
        self.pages.limit(self.site.workers, session.worker)
        self.pages.check_form(request, posted, session.nonce, f"{self.pages.at}/told/{number}")
        self.site.journal.put_away(session.worker, number, self.site.now())
        return self.pages.go("/next?more=1")

    def show(self, request: Request) -> Response:
        """The page of a unit."""
        unit = leased_unit(self.pages, request)
        if unit.lease.state == "answered":
            return self._practised(unit) if unit.is_practice else self.pages.go("/next")
        if unit.lease.state != "live":
            raise unit.expired(unit.lease.draft)
        if unit.instructions and unit.task not in unit.session.shown.split():
            return self.pages.go(f"/instructions/{unit.task}")
        return self.pages.go(f"{unit.path}/talk") if unit.is_talk else self.form(unit, unit.lease.draft)

    def _practised(self, unit: LeasedUnit) -> Response:
        """Whether an answer for practice was right, and which one is."""
        answer = self.site.journal.answer(unit.lease.unit.id, unit.lease.worker)
        view = unit.view(answer.values if answer else {})
        return self.pages.page(
            "practice.html",
            200,
            view=view,
            right=set(map(unit.key, unit.lease.unit.truth)),
            chosen={
                key for field in unit.form.fields if isinstance(field, Pick) for key in view.given.get(field.name, ())
            },
            pictures_at=f"{unit.here}/picture",
            **self.around(unit),
        )

    def form(self, unit: LeasedUnit, filled: Values, problems: Sequence[Problem] = (), step: str = "") -> Response:
        """The page of a unit with values filled in, which posts to its address and `step`."""
        view = unit.view(filled)
        first = next((one.key for one in sorted(view.pictures, key=lambda picture: not picture.marked)), "")
        return self.pages.page(
            "work.html",
            422 if problems else 200,
            view=view,
            first=first,
            here=unit.here,
            action=unit.here + step,
            link=unit.here.rsplit("/", 1)[1],
            pictures_at=f"{unit.here}{step}/picture",
            csrf=unit.form_token(),
            **_told(problems),
            **self.around(unit),
        )

    def around(self, unit: LeasedUnit) -> dict[str, object]:
        """What stands at the top of a page of work: how far the round is, and a way out of it."""
        return {
            "round": self.prolific.round(unit.session, unit.lease.done)
            or WorkRound(unit.lease.done % self.site.bundle, self.site.bundle),
            "told": self.pages.told(unit.session, unit.lease.message),
            "stop": "" if unit.is_talk or unit.lease.state != "live" else f"{unit.here}/stop",
            "stop_csrf": unit.form_token("/stop"),
            "instructions": f"{self.pages.at}/instructions/{unit.task}" if unit.instructions else "",
            "practice": unit.is_practice,
        }

    def answer(self, request: Request, posted: Posted) -> Response:
        """Take an answer: it is on the disk before the worker is sent on. The same one twice is stored once."""
        unit = leased_unit(self.pages, request, asks_consent=False)
        unit.accept(request, posted)
        values, lease = unit.values(posted), unit.lease
        if not self.pages.agreed(lease.worker):  # its text was changed in between: what was typed waits for them
            with suppress(NotAllowed):
                self.site.journal.save_draft(lease.token, lease.worker, values, self.site.now())
            return self.pages.go("/consent")
        try:
            self.site.journal.submit(lease.token, lease.worker, values, self.site.now(), unit.session.platform)
        except NotAllowed as refused:
            if refused.reason == "invalid":
                return self.form(unit, values, refused.problems or [Problem("", refused.message)])
            if refused.reason == "expired":
                raise unit.expired(posted) from refused
            sent = refused.reason == "already_answered"
            title = _("This one is already sent") if sent else _("This could not be taken")
            raise HttpProblem(409, title, refused.message) from refused
        if unit.is_practice:
            return self.pages.go(unit.path)
        try:
            # at once: a worker's browser would only come back to ask for it; what was sent before is counted already
            step = self._go_on(unit.session, lease.done + (lease.state == "live"))
        except CtxrError:  # the answer is stored all the same
            return self.pages.go("/next")
        return step if isinstance(step, RedirectResponse) else self.pages.go("/next")

    def stop(self, request: Request, posted: Posted) -> Response:
        """Put the unit back for others."""
        unit = leased_unit(self.pages, request)
        unit.accept(request, posted, "/stop")
        self.site.journal.give_back(unit.lease.token, self.site.now())
        return self.pages.message(
            _("See you later"),
            [_("Everything you sent is stored. The page you had open goes to somebody else.")],
            links=[(_("Go on after all"), f"{self.pages.at}/next?more=1")],
        )

    def check(self, request: Request, posted: Posted) -> Response:
        """What is wrong with the wording so far; keeps the draft."""
        unit = leased_unit(self.pages, request, (posted.pop("link", None) or [""])[0], cost=0.5)
        self.pages.check_form(request, posted, unit.session.nonce, unit.here)
        values, lease, problems = unit.values(posted), unit.lease, list[Problem]()
        if lease.state not in ("live", "answered"):
            raise unit.expired({})
        if lease.state == "live":
            self.site.journal.save_draft(lease.token, lease.worker, values, self.site.now())
        values.pop(COUNTED, None)
        checked = [field.name for field in unit.form.fields if isinstance(field, Write) and field.checked]
        if any(text.strip() for name in checked for text in values.get(name, ())):
            exposure = self.site.journal.exposure(lease)
            problems = task_of(lease.unit).validate(lease.unit, values, exposure)
        return JSONResponse(_told(problems))

    def correctable(self, unit: LeasedUnit) -> GivenAnswer | None:
        """The answer to a unit, as long as it may be corrected."""
        last = self.site.journal.last_answers(unit.lease.worker)
        return next((one for one in last if one.lease.token == unit.lease.token and one.may_be_corrected), None)

    def picture(self, request: Request) -> Response:
        """A picture of the unit that this worker holds, or corrects, by the name that it has on this lease's pages."""
        unit = leased_unit(self.pages, request, cost=0.1)
        images = [picture.image for picture in unit.form.pictures]
        if unit.is_talk and not images and self.site.journal.room(unit.lease.token).shared:
            images = list(unit.lease.unit.images)  # the photo of a talk, once it is theirs to see
        image = next((image for image in images if unit.key(image) == request.path_params["key"]), "")
        file = self.site.pictures.get(image)
        media = PICTURES.get(file.suffix.lower()) if file else None
        if request.url.path.startswith(f"{unit.path}/correct/"):
            is_theirs = self.correctable(unit) is not None
        else:
            is_theirs = unit.lease.state == "live" or (unit.lease.state == "answered" and unit.is_practice)
        if not is_theirs or file is None or media is None or not file.is_file():
            raise HttpProblem(404, _("This picture does not exist"))
        # at once: a response that streams a file changes threads for each of its ten steps
        content, kept = file.read_bytes(), {"cache-control": "private, max-age=31536000, immutable"}
        return Response(content, media_type=media, headers=kept)

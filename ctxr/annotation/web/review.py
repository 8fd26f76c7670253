"""The pages of `ctxr serve --review`: a person keeps or rejects sets and single images before others see them."""

import secrets
from collections.abc import Collection, Mapping
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from threading import Lock
from typing import get_args, get_type_hints

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp

from ctxr.annotation.web.pages import Posted, SignedPages, application
from ctxr.annotation.web.site import Invitation, Session
from ctxr.datasets.dataset import Dataset
from ctxr.datasets.decisions import counted, footage_of, matter
from ctxr.media.images import thumbnail
from ctxr.store.records import Decision, ImageSet
from ctxr.store.tables import append, read_appended
from ctxr.web.failures import error_handlers
from ctxr.web.guard import Buckets
from ctxr.web.signing import Signer
from ctxr.web.static import PICTURES, HttpProblem

REASONS = tuple(filter(None, get_args(get_type_hints(Decision)["reason"])))
SIDE = 1600  # pixels of the longer side of a picture that browsers cannot show as it is

review_signer = partial(Signer, pages="ctxr review pages", purposes={Invitation: "invitation", Session: "session"})
"""Signs what reviewers are given; what workers were given is refused."""


class Review:
    """Image sets in the order in which they are shown, and the log `file` of decisions, to which several threads may add.

    Attributes:
        scores: the highest of each image and set that has one, given by ids, or paths of images; what has the highest comes first.
        new: how many sets were decided about since.
    """

    def __init__(self, dataset: Dataset, file: Path, scores: Mapping[str, float]) -> None:
        self.dataset, self._file, self._lock = dataset, file, Lock()
        sources = {row.name: row for row in dataset.sources}
        contents = {name: footage_of(row, sources.get(row.source)) for name, row in dataset.images.items()}
        self._images = {name: {name: content} for name, content in contents.items()}
        self._images |= {one.id: {name: contents[name] for name in one.images} for one in dataset.sets}
        self._matters = {name: matter(Decision(name, images=images)) for name, images in self._images.items()}
        names = {name: {name, row.path} for name, row in dataset.images.items()}
        names |= {one.id: {one.id}.union(*(names[name] for name in one.images)) for one in dataset.sets}
        known = {name: [scores[word] for word in words & scores.keys()] for name, words in names.items()}
        self.scores = {name: max(values) for name, values in known.items() if values}
        self.sets = sorted(dataset.sets, key=lambda one: (-self.scores.get(one.id, float("-inf")), one.id))
        self._rows, self.new = read_appended(file, Decision), 0
        self._counted = counted(self._rows)

    def decision(self, name: str) -> str:
        """What counts about an image or a set as it is now: `keep`, `reject`, or "" before anybody decided."""
        found = self._counted.get(self._matters[name])
        return found.decision if found else ""

    def decide(self, one: ImageSet, decision: str, rejected: Collection[str], reason: str, person: str) -> None:
        """Add what a person decided about a set and single images of it; it is on the disk before this returns."""
        at = datetime.now(UTC).isoformat(timespec="seconds")
        with self._lock:
            said = {name: "reject" if name in rejected else "open" for name in one.images}
            said = {name: word for name, word in said.items() if word == "reject" or self.decision(name)}
            rows = [
                Decision(name, word, reason if word == "reject" else "", person, at, self._images[name])  # type: ignore[arg-type]
                for name, word in {**said, one.id: decision}.items()
            ]
            append(self._file, *rows)
            self._rows += rows
            self.new += 1
            self._counted = counted(self._rows)

    def counts(self) -> dict[str, int]:
        """How many sets are kept, rejected and open, and how many single images are rejected."""
        sets, images = [self.decision(one.id) for one in self.sets], map(self.decision, self.dataset.images)
        named = {"kept": "keep", "rejected": "reject", "open": ""}
        return {name: sets.count(word) for name, word in named.items()} | {"images": [*images].count("reject")}

    def following(self, after: int) -> int | None:
        """The place of the first open set behind a place, from the end on around; None where none is open."""
        places = [*range(after + 1, len(self.sets)), *range(min(after + 1, len(self.sets)))]
        return next((place for place in places if not self.decision(self.sets[place].id)), None)


class ReviewPages(SignedPages):
    """What answers requests."""

    def __init__(self, review: Review, base_url: str, signer: Signer) -> None:
        super().__init__(base_url, signer, "ctxr-review")
        self.review = review

    def invited(self, request: Request) -> Response:
        """A personal link: a page with a button, because opening a link alone must not replace another session."""
        (here, _), session = self._invitation(request), self.session(request)
        form = {"action": here, "fields": [("csrf", self.signer.form_token(session.nonce, here))], "button": "Start"}
        lines = ["You decide which sets and images others will see. Your decisions are credited to you."]
        return self.remember(self.message("Review", lines, form=form), session)

    def accept(self, request: Request, posted: Posted) -> Response:
        """Sign in by a personal link."""
        (here, person), session = self._invitation(request), self.session(request)
        self.check_form(request, posted, session.nonce, here)
        return self.remember(self.go("/"), Session(secrets.token_urlsafe(12), person))

    def home(self, request: Request) -> Response:
        """To the next open set, or to the end."""
        if not self.session(request).worker:
            return self.message("You need a personal link", ["The window where ctxr serve runs shows yours."])
        review, after = self.review, self._after(request)
        if (place := review.following(after)) is not None:
            return self.go(f"/set/{place}" + (f"?after={after}" if after >= 0 else ""))
        found = "{kept} kept, {rejected} rejected; single images rejected: {images}.".format(**review.counts())
        end = "You can close this page. Ctrl-C in the window of ctxr serve ends the review, and says what comes next."
        last = min(after, len(review.sets) - 1) if after >= 0 else len(review.sets) - 1
        links = [("Back to the last set", f"{self.at}/set/{last}")]
        return self.message("All decided", [found, end], links=links)

    def show(self, request: Request) -> Response:
        """A set."""
        place, one, here, session = self._set(request)
        review, after, last = self.review, self._after(request), len(self.review.sets) - 1
        decision, images = review.decision(one.id), [review.dataset.images[name] for name in one.images]
        back = after if 0 <= after <= last else place if decision else None
        undo = "" if back is None else f"{self.at}/set/{back}"
        return self.page(
            "review.html",
            title=f"Set {place + 1} of {last + 1}",
            set=one,
            here=here,
            decision=decision,
            images=[(image, review.decision(image.id) == "reject", review.scores.get(image.id)) for image in images],
            mixed=len({round(image.width / max(1, image.height), 1) for image in images}) > 1,
            reasons=REASONS,
            csrf=self.signer.form_token(session.nonce, here),
            sides=[
                ("Before", place and f"{self.at}/set/{place - 1}"),
                ("Next", place < last and f"{self.at}/set/{place + 1}"),
            ],
            undo=undo,
            undo_csrf=self.signer.form_token(session.nonce, undo),
            person=session.worker,
            done=last + 1 - review.counts()["open"],
            total=last + 1,
        )

    def decide(self, request: Request, posted: Posted) -> Response:
        """Take a decision; it is on the disk before the next set is shown."""
        place, one, here, session = self._set(request)
        self.check_form(request, posted, session.nonce, here)
        decision, reason = ((posted.get(name) or [""])[0] for name in ("decision", "reason"))
        numbers = {str(number): name for number, name in enumerate(one.images)}
        marked = {numbers.get(number, "") for number in posted.get("image", ())}
        if decision not in ("keep", "reject", "open") or reason not in ("", *REASONS) or "" in marked:
            raise HttpProblem(422, "This form is not one of ours", "Please load the page again.")
        self.review.decide(one, decision, marked, reason or "other", session.worker)
        return self.go(f"/set/{place}" if decision == "open" else f"/?after={place}")

    def picture(self, request: Request) -> Response:
        """A picture of a set, by its number there."""
        one, number = self._set(request)[1], request.path_params["number"]
        image = self.review.dataset.images[one.images[number]] if number < len(one.images) else None
        file = self.review.dataset.picture(image) if image else None
        if file is None or not file.is_file():
            raise HttpProblem(404, "This picture does not exist")
        kind = PICTURES.get(file.suffix.lower())
        return Response(file.read_bytes() if kind else thumbnail(file, SIDE), media_type=kind or "image/jpeg")

    def _invitation(self, request: Request) -> tuple[str, str]:
        """The address of a personal link, and whose it is."""
        token = request.path_params["token"]
        if (invitation := self.signer.read(Invitation, token)) is None:
            raise HttpProblem(403, "This link is incomplete", "Please copy all of it, to its last letter.")
        return f"{self.at}/i/{token}", invitation.name

    def _reviewer(self, request: Request) -> Session:
        if not (session := self.session(request)).worker:
            raise HttpProblem(403, "You need a personal link", "The window where ctxr serve runs shows yours.")
        return session

    def _set(self, request: Request) -> tuple[int, ImageSet, str, Session]:
        """The place in the address, the set there, the address of its page, and who asks."""
        session, place = self._reviewer(request), request.path_params["place"]
        if place >= len(self.review.sets):
            raise HttpProblem(404, "This page does not exist", "Please check the address.")
        return place, self.review.sets[place], f"{self.at}/set/{place}", session

    def _after(self, request: Request) -> int:
        """The place of the set that was decided last; -1 where there is none."""
        text = request.query_params.get("after", "")[:9]
        return int(text) if text.isdecimal() else -1


def make_review(review: Review, base_url: str, signer: Signer) -> ASGIApp:
    """The application that serves a review."""
    pages = ReviewPages(review, base_url, signer)

    def problem(_: Request, error: HttpProblem) -> Response:
        return pages.problem(error, links=[("Go on", f"{pages.at}/")])

    shown = {"/": pages.home, "/i/{token}": pages.invited, "/set/{place:int}": pages.show}
    shown |= {"/set/{place:int}/{number:int}": pages.picture, "/static/{version}/{name}": pages.static.serve}
    failed = "This could not be read or stored; the window where ctxr serve runs says why."
    handlers = error_handlers(
        problem, problem, failed, "What you decided before is stored; please load the page again."
    )
    posted = {"/i/{token}": pages.accept, "/set/{place:int}": pages.decide}
    return application(pages, shown, posted, handlers, Buckets(200, 2000))

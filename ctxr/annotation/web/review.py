"""The pages of `ctxr serve --review`: a person keeps or rejects sets and single images before others see them."""

from collections import Counter
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
from ctxr.datasets.decisions import counted, footage_of
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
        self.dataset, self._file, self._lock, self.new = dataset, file, Lock(), 0
        sources = {row.name: row for row in dataset.sources}
        contents = {name: footage_of(row, sources.get(row.source)) for name, row in dataset.images.items()}
        members = {name: (name,) for name in contents} | {one.id: one.images for one in dataset.sets}
        self._about = {name: {image: contents[image] for image in images} for name, images in members.items()}
        words = {
            name: {name, *images, *(dataset.images[one].path for one in images)} for name, images in members.items()
        }
        known = {name: [scores[word] for word in own & scores.keys()] for name, own in words.items()}
        self.scores = {name: max(values) for name, values in known.items() if values}
        self.sets = sorted(dataset.sets, key=lambda one: (-self.scores.get(one.id, float("-inf")), one.id))
        self._rows = read_appended(file, Decision)
        self._said = self._current()

    def _current(self) -> dict[str, str]:
        """What counts about images and sets as they are now."""
        rows = counted(self._rows).values()
        return {row.id: row.decision for row in rows if row.images == self._about.get(row.id)}

    def decision(self, name: str) -> str:
        """What counts about an image or a set: `keep`, `reject`, or "" before anybody decided."""
        return self._said.get(name, "")

    def decide(self, one: ImageSet, decision: str, rejected: Collection[str], reason: str, person: str) -> None:
        """Add what a person decided about a set and single images of it; it is on the disk before this returns."""
        at = datetime.now(UTC).isoformat(timespec="seconds")
        with self._lock:
            said = {name: "reject" if name in rejected else "open" for name in one.images}
            said = {name: word for name, word in said.items() if word == "reject" or self.decision(name)}
            rows = [
                Decision(name, word, reason if word == "reject" else "", person, at, self._about[name])  # type: ignore[arg-type]
                for name, word in {**said, one.id: decision}.items()
            ]
            append(self._file, *rows)
            self._rows += rows
            self.new += 1
            self._said = self._current()

    def counts(self) -> dict[str, int]:
        """How many sets are kept, rejected and open, and how many single images are rejected."""
        sets = Counter(self.decision(one.id) for one in self.sets)
        images = Counter(map(self.decision, self.dataset.images))
        return {"kept": sets["keep"], "rejected": sets["reject"], "open": sets[""], "images": images["reject"]}

    def last(self, person: str) -> int:
        """The place of the set that a person decided about last; -1 where there is none."""
        places = {one.id: place for place, one in enumerate(self.sets)}
        return next((places[row.id] for row in reversed(self._rows) if row.person == person and row.id in places), -1)

    def following(self, last: int) -> int | None:
        """The place of the next open set after a place, cyclically; None where none is open."""
        places = [*range(last + 1, len(self.sets)), *range(last + 1)]
        return next((place for place in places if not self.decision(self.sets[place].id)), None)


class ReviewPages(SignedPages):
    """What answers requests."""

    def __init__(self, review: Review, base_url: str, signer: Signer) -> None:
        super().__init__(base_url, signer, "ctxr-review")
        self.review = review

    def home(self, request: Request) -> Response:
        """To the next open set, or to the end."""
        last = self.review.last(self._reviewer(request).worker)
        if (place := self.review.following(last)) is not None:
            return self.go(f"/set/{place}")
        found = "{kept} kept, {rejected} rejected; single images rejected: {images}.".format(**self.review.counts())
        end = "You can close this page. Ctrl-C in the window of ctxr serve ends the review, and says what comes next."
        links = [("Back to the last set", f"{self.at}/set/{last % len(self.review.sets)}")]
        return self.message("All decided", [found, end], links=links)

    def show(self, request: Request) -> Response:
        """A set."""
        session, one, place = self._reviewer(request), self._set(request), request.path_params["place"]
        here, review, total = f"{self.at}/set/{place}", self.review, len(self.review.sets)
        decision, images = review.decision(one.id), [review.dataset.images[name] for name in one.images]
        back = place if decision else review.last(session.worker)
        undo = f"{self.at}/set/{back}" if back >= 0 and review.decision(review.sets[back].id) else ""
        return self.page(
            "review.html",
            title=f"Set {place + 1} of {total}",
            set=one,
            here=here,
            decision=decision,
            images=[(image, review.decision(image.id) == "reject", review.scores.get(image.id)) for image in images],
            mixed=len({round(image.width / max(1, image.height), 1) for image in images}) > 1,
            reasons=REASONS,
            csrf=self.signer.form_token(session.nonce, here),
            sides=[("Before", place > 0, place - 1), ("Next", place + 1 < total, place + 1)],
            undo=undo,
            undo_csrf=self.signer.form_token(session.nonce, undo),
            person=session.worker,
            done=total - review.counts()["open"],
            total=total,
        )

    def decide(self, request: Request, posted: Posted) -> Response:
        """Take a decision; it is on the disk before the next set is shown."""
        session, one, place = self._reviewer(request), self._set(request), request.path_params["place"]
        self.check_form(request, posted, session.nonce, f"{self.at}/set/{place}")
        decision, reason = ((posted.get(name) or [""])[0] for name in ("decision", "reason"))
        numbers = {str(number): name for number, name in enumerate(one.images)}
        marked = {numbers.get(number, "") for number in posted.get("image", ())}
        if decision not in ("keep", "reject", "open") or reason not in ("", *REASONS) or "" in marked:
            raise HttpProblem(422, "This form is not one of ours", "Please load the page again.")
        self.review.decide(one, decision, marked, reason or "other", session.worker)
        return self.go(f"/set/{place}" if decision == "open" else "/")

    def picture(self, request: Request) -> Response:
        """A picture of a set, by its number there."""
        one, number = self._set(request), request.path_params["number"]
        image = self.review.dataset.images[one.images[number]] if number < len(one.images) else None
        file = self.review.dataset.picture(image) if image else None
        if file is None or not file.is_file():
            raise HttpProblem(404, "This picture does not exist")
        kind = PICTURES.get(file.suffix.lower())
        return Response(file.read_bytes() if kind else thumbnail(file, SIDE), media_type=kind or "image/jpeg")

    def _reviewer(self, request: Request) -> Session:
        if not (session := self.session(request)).worker:
            raise HttpProblem(403, "You need a personal link", "The window where ctxr serve runs shows yours.")
        return session

    def _set(self, request: Request) -> ImageSet:
        """The set at the place in the address."""
        self._reviewer(request)
        place: int = request.path_params["place"]
        if place >= len(self.review.sets):
            raise HttpProblem(404, "This page does not exist", "Please check the address.")
        return self.review.sets[place]


def make_review(review: Review, base_url: str, signer: Signer) -> ASGIApp:
    """The application that serves a review."""
    pages = ReviewPages(review, base_url, signer)

    def problem(_: Request, error: HttpProblem) -> Response:
        return pages.problem(error)

    shown = {"/": pages.home, "/i/{token}": pages.invited, "/set/{place:int}": pages.show}
    shown |= {"/set/{place:int}/{number:int}": pages.picture, "/static/{version}/{name}": pages.static.serve}
    failed = "This could not be read or stored; the window where ctxr serve runs says why."
    broken = "What you decided before is stored; please load the page again."
    handlers = error_handlers(problem, problem, failed, broken)
    posted = {"/i/{token}": pages.accept, "/set/{place:int}": pages.decide}
    return application(pages, shown, posted, handlers, Buckets(200, 2000))

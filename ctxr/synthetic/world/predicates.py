"""What can be said of one scene: kinds of figures, and predicates about them.

Truth has three values: True, False, and None where annotators would disagree (an actor that is shown by a tenth, one that
is barely to the left of another). A description must be True of its target and False, never None, of the others.
"""

from collections.abc import Iterable, Iterator
from typing import Any, get_args

import msgspec

from ctxr.synthetic.world.scenes import Actor
from ctxr.synthetic.world.sights import SceneView, Sight

Verdict = bool | None
"""True, False, or None where it is too close to call."""


def every(verdicts: Iterable[Verdict]) -> Verdict:
    """Return False if any is False, else None if any is None, else True."""
    return negated(any_known(map(negated, verdicts)))


def any_known(verdicts: Iterable[Verdict]) -> Verdict:
    """Return True if any is True, else None if any is None, else False."""
    doubtful = False
    for verdict in verdicts:
        if verdict:
            return True
        doubtful |= verdict is None
    return None if doubtful else False


def negated(verdict: Verdict) -> Verdict:
    """Return the opposite; what is too close to call stays so."""
    return None if verdict is None else not verdict


class Kind(msgspec.Struct, frozen=True):
    """A noun phrase: the attributes it names; an empty one is left open."""

    shape: str = ""
    colour: str = ""
    size: str = ""
    texture: str = ""
    face: str = ""

    def fits(self, actor: Actor) -> bool:
        """Return whether the actor has all the named attributes."""
        return all(getattr(self, name) in ("", getattr(actor, name)) for name in self.__struct_fields__)


class OfKind(msgspec.Struct, frozen=True, tag=True):
    """What is said of figures of a kind."""

    kind: Kind


class Shows(OfKind, frozen=True):
    """At least one of the kind is there."""

    def verdict(self, view: SceneView) -> Verdict:
        """Return whether it holds of the view's scene."""
        if any(self.kind.fits(actor) for actor in view.clear):
            return True
        return None if any(self.kind.fits(actor) for actor in view.doubtful) else False


class Lacks(OfKind, frozen=True):
    """None of the kind is there."""

    def verdict(self, view: SceneView) -> Verdict:
        """Return whether it holds of the view's scene."""
        return negated(Shows(self.kind).verdict(view))


class Counts(OfKind, frozen=True):
    """Exactly `number` of the kind are there."""

    number: int

    def verdict(self, view: SceneView) -> Verdict:
        """Return whether it holds of the view's scene."""
        sure = sum(self.kind.fits(actor) for actor in view.clear)
        perhaps = sum(self.kind.fits(actor) for actor in view.doubtful)
        if not sure <= self.number <= sure + perhaps:
            return False
        return None if perhaps else True


class AllAre(OfKind, frozen=True):
    """There are several figures and every one is of the kind."""

    def verdict(self, view: SceneView) -> Verdict:
        """Return whether it holds of the view's scene."""
        if any(not self.kind.fits(actor) for actor in view.clear):
            return False
        several = True if len(view.clear) > 1 else (None if len(view.present) > 1 else False)
        return every([several, None if any(not self.kind.fits(actor) for actor in view.doubtful) else True])


class Before(msgspec.Struct, frozen=True, tag=True):
    """The backdrop is the named one."""

    backdrop: str

    def verdict(self, view: SceneView) -> Verdict:
        """Return whether it holds of the view's scene."""
        return view.scene.backdrop.name == self.backdrop


def sights_of(kind: Kind, view: SceneView) -> Iterator[Sight]:
    """Return what can be seen of every actor of a kind."""
    return (view.sights[actor.name] for actor in view.scene.actors if kind.fits(actor))


def actor_pairs(kind: Kind, other: Kind, actors: Iterable[Actor]) -> Iterator[tuple[Actor, Actor]]:
    """Return every (actor of the first kind, another actor of the second kind)."""
    actors = tuple(actors)
    return ((a, b) for a in actors if kind.fits(a) for b in actors if b is not a and other.fits(b))


def middle(view: SceneView, name: str) -> tuple[float, float]:
    """Return the middle of an actor's box inside the frame, as shares of width and height."""
    left, top, right, bottom = view.sights[name].box
    return (left + right) / 2, (top + bottom) / 2


class RelativePosition(OfKind, frozen=True, tag="Beside"):
    """One of the first kind is left of, right of, above or below another one of the second kind."""

    side: str
    other: Kind

    def verdict(self, view: SceneView) -> Verdict:
        """Return whether it holds of the view's scene, judged by the middles of what is drawn inside the frame."""
        return any_known(self._pair(view, a, b) for a, b in actor_pairs(self.kind, self.other, view.present))

    def _pair(self, view: SceneView, a: Actor, b: Actor) -> Verdict:
        (x, y), (u, v) = middle(view, a.name), middle(view, b.name)
        across, down = x - u, y - v
        along, athwart = {"left": (-across, down), "right": (across, down), "above": (-down, across)}.get(
            self.side, (down, across)
        )
        # further along than a tenth of the frame, and not mostly in the other direction
        if along >= 0.12 and along >= 0.6 * abs(athwart):
            return view.unless_doubtful(True, a, b)
        return False if along <= 0.04 else None


class Within(OfKind, frozen=True):
    """One of the kind is in a region: left, right, top, bottom, middle, or a corner such as "top left"."""

    region: str

    def verdict(self, view: SceneView) -> Verdict:
        """Return whether it holds of the view's scene."""
        actors = (actor for actor in view.present if self.kind.fits(actor))
        return any_known(view.unless_doubtful(self._one(*middle(view, actor.name)), actor) for actor in actors)

    def _one(self, x: float, y: float) -> Verdict:
        if self.region == "middle":
            far = max(abs(x - 0.5), abs(y - 0.5))
            return True if far <= 0.13 else (False if far >= 0.2 else None)
        parts = {"left": 1 - x, "right": x, "top": 1 - y, "bottom": y}
        # a corner asks for both sides, but less of each
        sure, never = (0.62, 0.52) if " " in self.region else (0.68, 0.58)
        reached = min(parts[word] for word in self.region.split())
        return True if reached >= sure else (False if reached <= never else None)


class Bigger(OfKind, frozen=True):
    """One of the first kind is bigger than one of the second kind."""

    other: Kind

    def verdict(self, view: SceneView) -> Verdict:
        """Return whether it holds of the view's scene: sizes of one name are too close to call."""
        couples = actor_pairs(self.kind, self.other, view.present)
        return any_known(
            view.unless_doubtful(None if a.size == b.size else a.radius > b.radius, a, b) for a, b in couples
        )


class Outermost(OfKind, frozen=True):
    """Of several figures, the one farthest to a side (left, right, top, bottom) is of the kind."""

    side: str

    def verdict(self, view: SceneView) -> Verdict:
        """Return whether it holds of the view's scene: a lead below 4 % of the frame is too close to call."""
        if len(view.clear) < 2:
            return None if len(view.present) >= 2 else False
        ranked = sorted(view.clear, key=lambda actor: self._out(view, actor), reverse=True)
        lead = self._out(view, ranked[0])
        rivals = [actor for actor in (*ranked, *view.doubtful) if lead - self._out(view, actor) < 0.04]
        fits = {self.kind.fits(actor) for actor in rivals}
        return fits.pop() if len(fits) == 1 else None

    def _out(self, view: SceneView, actor: Actor) -> float:
        x, y = middle(view, actor.name)
        return {"left": -x, "right": x, "top": -y}.get(self.side, y)


AMOUNTS: dict[str, tuple[float, float]] = {"little": (0.08, 0.3), "half": (0.42, 0.58), "most": (0.7, 0.92)}
"""Words for how much of a figure is hidden, as ranges of the hidden share; the gaps between them are too close to call."""


class Behind(OfKind, frozen=True):
    """One of the first kind is partly hidden behind one of the second kind."""

    other: Kind

    def verdict(self, view: SceneView) -> Verdict:
        """Return whether it holds of the view's scene: from a tenth covered on it does, below a fiftieth it does not."""
        return any_known(self._pair(view, a, b) for a, b in actor_pairs(self.kind, self.other, view.scene.actors))

    def _pair(self, view: SceneView, a: Actor, b: Actor) -> Verdict:
        share, sight = view.sights[a.name].behind.get(b.name, 0.0), view.sights[a.name]
        if share < 0.02:
            return False
        seen = sight.shown >= 0.15 and view.sights[b.name].shown >= 1 / 3
        return True if share >= 0.1 and seen else None


class CutOff(OfKind, frozen=True):
    """One of the kind is cut by an edge of the frame: left, top, right, bottom, or any of them if `edge` is empty."""

    edge: str = ""

    def verdict(self, view: SceneView) -> Verdict:
        """Return whether it holds of the view's scene."""
        return any_known(self._cut(sight) for sight in sights_of(self.kind, view))

    def _cut(self, sight: Sight) -> Verdict:
        edges = dict(zip(("left", "top", "right", "bottom"), sight.edges, strict=True))
        share = edges[self.edge] if self.edge else max(sight.edges)
        if share < 0.02 or sight.shown <= 0.02:
            return False
        return True if share >= 0.12 and sight.shown >= 0.2 else None


class Entire(OfKind, frozen=True):
    """One of the kind can be seen as a whole: nothing covers it and no edge cuts it."""

    def verdict(self, view: SceneView) -> Verdict:
        """Return whether it holds of the view's scene."""
        shares = (sight.shown for sight in sights_of(self.kind, view))
        return any_known(True if shown >= 0.98 else None if shown > 0.92 else False for shown in shares)


class NoOverlap(msgspec.Struct, frozen=True, tag="Apart"):
    """There are several figures and none covers any of another."""

    def verdict(self, view: SceneView) -> Verdict:
        """Return whether it holds of the view's scene."""
        covered = max((sight.covered for sight in view.sights.values()), default=0.0)
        if covered >= 0.05 or len(view.present) < 2:
            return False
        return None if covered > 0 or len(view.clear) < 2 else True


class Hidden(OfKind, frozen=True):
    """A little, half or most of one of the kind is hidden: covered or outside the frame."""

    amount: str

    def verdict(self, view: SceneView) -> Verdict:
        """Return whether it holds of the view's scene."""
        return any_known(self._amount(sight.hidden) for sight in sights_of(self.kind, view))

    def _amount(self, hidden: float) -> Verdict:
        for amount, (low, high) in AMOUNTS.items():
            if low <= hidden <= high:
                return amount == self.amount
        return False if hidden < 0.02 or hidden > 0.98 else None


Predicate = (
    Shows | Lacks | Counts | AllAre | Before | RelativePosition | Within | Bigger | Outermost
    | Behind | CutOff | Entire | NoOverlap | Hidden
)  # fmt: skip
"""Anything that can be said of one scene."""


def name_of(predicate: msgspec.Struct | type[msgspec.Struct]) -> str:
    """Return the name of what a predicate says, by which templates are found and captions are configured."""
    return str(predicate.__struct_config__.tag)


BY_NAME: dict[str, Any] = {name_of(predicate): predicate for predicate in get_args(Predicate)}
"""Every predicate by its name."""

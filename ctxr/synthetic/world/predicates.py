"""What can be said of one scene: kinds of figures, and predicates about them.

Truth has three values: True, False, and None where annotators would disagree (an actor that is shown by a tenth, one that
is barely to the left of another). A description must be True of its target and False, never None, of the others.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, get_args

import msgspec

from ctxr.synthetic.world.scenes import Actor, Point
from ctxr.synthetic.world.sights import SceneView, Sight

Verdict = bool | None
"""True, False, or None where it is too close to call."""


def conjunction(verdicts: Iterable[Verdict]) -> Verdict:
    """Return False if any is False, else None if any is None, else True."""
    return negation(disjunction(map(negation, verdicts)))


def disjunction(verdicts: Iterable[Verdict]) -> Verdict:
    """Return True if any is True, else None if any is None, else False."""
    doubtful = False
    for verdict in verdicts:
        if verdict:
            return True
        doubtful |= verdict is None
    return None if doubtful else False


def negation(verdict: Verdict) -> Verdict:
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


class ScenePredicate(msgspec.Struct, frozen=True, tag=True):
    """What is said of a scene."""

    def verdict(self, view: SceneView) -> Verdict:
        """Return whether it holds of the view's scene: whether it does of any figure that it may be about."""
        return disjunction(self._verdicts(view))

    def _verdicts(self, view: SceneView) -> Iterable[Verdict]:
        """One of each figure, or pair of figures, that it may be about; or one of the whole scene."""
        raise NotImplementedError


class OfKind(ScenePredicate, frozen=True):
    """What is said of figures of a kind."""

    kind: Kind


class Shows(OfKind, frozen=True):
    """At least one of the kind is there."""

    def _verdicts(self, view: SceneView) -> Iterable[Verdict]:
        return (view.unless_doubtful(True, actor) for actor in view.present if self.kind.fits(actor))


class Lacks(OfKind, frozen=True):
    """None of the kind is there."""

    def _verdicts(self, view: SceneView) -> Iterable[Verdict]:
        return [negation(Shows(self.kind).verdict(view))]


class Counts(OfKind, frozen=True):
    """Exactly `number` of the kind are there."""

    number: int

    def _verdicts(self, view: SceneView) -> Iterable[Verdict]:
        sure = sum(self.kind.fits(actor) for actor in view.clear)
        perhaps = sum(self.kind.fits(actor) for actor in view.doubtful)
        if not sure <= self.number <= sure + perhaps:
            return [False]
        return [None if perhaps else True]


class AllAre(OfKind, frozen=True):
    """There are several figures and every one is of the kind."""

    def _verdicts(self, view: SceneView) -> Iterable[Verdict]:
        if any(not self.kind.fits(actor) for actor in view.clear):
            return [False]
        several = True if len(view.clear) > 1 else (None if len(view.present) > 1 else False)
        others = any(not self.kind.fits(actor) for actor in view.doubtful)
        return [conjunction([several, None if others else True])]


class Before(ScenePredicate, frozen=True):
    """The backdrop is the named one."""

    backdrop: str

    def _verdicts(self, view: SceneView) -> Iterable[Verdict]:
        return [view.scene.backdrop.name == self.backdrop]


def actor_pairs(kind: Kind, other: Kind, actors: Sequence[Actor]) -> Iterator[tuple[Actor, Actor]]:
    """Return every (actor of the first kind, another actor of the second kind)."""
    return ((a, b) for a in actors if kind.fits(a) for b in actors if b is not a and other.fits(b))


def middle(view: SceneView, name: str) -> Point:
    """Return the middle of an actor's box inside the frame."""
    left, top, right, bottom = view.sights[name].box
    return Point((left + right) / 2, (top + bottom) / 2)


CORNER = Point(0.0, 0.0)


def step_towards(direction: str, end: Point, start: Point = CORNER) -> float:
    """Return how far a step leads to the left, to the right, or up ("above", "top", "up"), else down; negative for the opposite."""
    across, down = end.x - start.x, end.y - start.y
    return {"left": -across, "right": across, "above": -down, "top": -down, "up": -down}.get(direction, down)


class RelativePosition(OfKind, frozen=True, tag="Beside"):
    """One of the first kind is left of, right of, above or below one of the second, by the middles of what is shown."""

    side: str
    other: Kind

    def _verdicts(self, view: SceneView) -> Iterable[Verdict]:
        for a, b in actor_pairs(self.kind, self.other, view.present):
            here, there = middle(view, a.name), middle(view, b.name)
            along = step_towards(self.side, here, there)
            athwart = here.y - there.y if self.side in ("left", "right") else here.x - there.x
            # further along than a tenth of the frame, and not mostly in the other direction
            clearly = along >= 0.12 and along >= 0.6 * abs(athwart)
            yield view.unless_doubtful(True, a, b) if clearly else False if along <= 0.04 else None


class Within(OfKind, frozen=True):
    """One of the kind is in a region: left, right, top, bottom, middle, or a corner such as "top left"."""

    region: str

    def _verdicts(self, view: SceneView) -> Iterable[Verdict]:
        # a corner asks for both sides, but less of each
        sure, never = (0.62, 0.52) if " " in self.region else (0.68, 0.58)
        for actor in view.present:
            if self.kind.fits(actor):
                x, y = middle(view, actor.name)
                if self.region == "middle":
                    far = max(abs(x - 0.5), abs(y - 0.5))
                    verdict = True if far <= 0.13 else False if far >= 0.2 else None
                else:
                    parts = {"left": 1 - x, "right": x, "top": 1 - y, "bottom": y}
                    reached = min(parts[word] for word in self.region.split())
                    verdict = True if reached >= sure else False if reached <= never else None
                yield view.unless_doubtful(verdict, actor)


class Bigger(OfKind, frozen=True):
    """One of the first kind is bigger than one of the second kind; sizes of one name are too close to call."""

    other: Kind

    def _verdicts(self, view: SceneView) -> Iterable[Verdict]:
        for a, b in actor_pairs(self.kind, self.other, view.present):
            yield view.unless_doubtful(None if a.size == b.size else a.radius > b.radius, a, b)


class Outermost(OfKind, frozen=True):
    """Of several figures, the one farthest left, right, top or bottom, by at least 4 % of the frame, is of the kind."""

    side: str

    def _verdicts(self, view: SceneView) -> Iterable[Verdict]:
        if len(view.clear) < 2:
            return [None if len(view.present) >= 2 else False]
        reached = [step_towards(self.side, middle(view, actor.name)) for actor in view.present]
        lead = max(reached[: len(view.clear)])
        fits = {self.kind.fits(actor) for actor, far in zip(view.present, reached, strict=True) if lead - far < 0.04}
        return fits if len(fits) == 1 else [None]


AMOUNTS: dict[str, tuple[float, float]] = {"little": (0.08, 0.3), "half": (0.42, 0.58), "most": (0.7, 0.92)}
"""Words for how much of a figure is hidden, as ranges of the hidden share; the gaps between them are too close to call."""


class Behind(OfKind, frozen=True):
    """One of the first kind is hidden behind one of the second kind: from a tenth on it is, below a fiftieth it is not."""

    other: Kind

    def _verdicts(self, view: SceneView) -> Iterable[Verdict]:
        for a, b in actor_pairs(self.kind, self.other, view.scene.actors):
            share = view.sights[a.name].behind.get(b.name, 0.0)
            clearly = share >= 0.1 and view.shown(a.name) >= 0.15 and view.shown(b.name) >= 1 / 3
            yield False if share < 0.02 else True if clearly else None


class CutOff(OfKind, frozen=True):
    """One of the kind is cut by an edge of the frame: left, top, right, bottom, or any of them if `edge` is empty."""

    edge: str = ""

    def _verdicts(self, view: SceneView) -> Iterable[Verdict]:
        for sight in sights_of(self.kind, view):
            share = sight.edges[self.edge] if self.edge else max(sight.edges.values())
            clearly = share >= 0.12 and sight.shown >= 0.2
            yield False if share < 0.02 or sight.shown <= 0.02 else True if clearly else None


class Entire(OfKind, frozen=True):
    """One of the kind can be seen as a whole: nothing covers it and no edge cuts it."""

    def _verdicts(self, view: SceneView) -> Iterable[Verdict]:
        for sight in sights_of(self.kind, view):
            yield True if sight.shown >= 0.98 else None if sight.shown > 0.92 else False


class NoOverlap(ScenePredicate, frozen=True, tag="Apart"):
    """There are several figures and none covers any of another."""

    def _verdicts(self, view: SceneView) -> Iterable[Verdict]:
        covered = max((sight.covered for sight in view.sights.values()), default=0.0)
        if covered >= 0.05 or len(view.present) < 2:
            return [False]
        return [None if covered > 0 or len(view.clear) < 2 else True]


class Hidden(OfKind, frozen=True):
    """A little, half or most of one of the kind is hidden: covered or outside the frame."""

    amount: str

    def _verdicts(self, view: SceneView) -> Iterable[Verdict]:
        for sight in sights_of(self.kind, view):
            words = [amount for amount, (low, high) in AMOUNTS.items() if low <= sight.hidden <= high]
            unclear = None if 0.02 <= sight.hidden <= 0.98 else False
            yield words == [self.amount] if words else unclear


def sights_of(kind: Kind, view: SceneView) -> list[Sight]:
    """Return what can be seen of every actor of a kind."""
    return [view.sights[actor.name] for actor in view.scene.actors if kind.fits(actor)]


Predicate = (
    Shows | Lacks | Counts | AllAre | Before | RelativePosition | Within | Bigger | Outermost
    | Behind | CutOff | Entire | NoOverlap | Hidden
)  # fmt: skip


def name_of(predicate: msgspec.Struct | type[msgspec.Struct]) -> str:
    """Return the name of what a predicate says, by which templates are found and captions are configured."""
    return str(predicate.__struct_config__.tag)


BY_NAME: dict[str, Any] = {name_of(predicate): predicate for predicate in get_args(Predicate)}

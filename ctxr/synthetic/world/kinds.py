"""Kinds of figures, and predicates about them.

Truth has three values: True, False, and None where annotators would disagree (an actor that is shown by a tenth, one that
is barely to the left of another). A description must be True of its target and False, never None, of the others.
"""

from collections.abc import Iterable, Iterator

import msgspec

from ctxr.synthetic.world.scenes import Actor
from ctxr.synthetic.world.sights import SceneView

Verdict = bool | None
"""True, False, or None where it is too close to call."""


def every(verdicts: Iterable[Verdict]) -> Verdict:
    """Return False if any is False, else None if any is None, else True."""
    return _unless(verdicts, decisive=False)


def some(verdicts: Iterable[Verdict]) -> Verdict:
    """Return True if any is True, else None if any is None, else False."""
    return _unless(verdicts, decisive=True)


def _unless(verdicts: Iterable[Verdict], decisive: bool) -> Verdict:
    doubtful = False
    for verdict in verdicts:
        if verdict is decisive:
            return decisive
        doubtful |= verdict is None
    return None if doubtful else not decisive


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


class Shows(msgspec.Struct, frozen=True, tag=True):
    """At least one of the kind is there."""

    kind: Kind

    def verdict(self, view: SceneView) -> Verdict:
        """Return whether it holds of the view's scene."""
        if any(self.kind.fits(actor) for actor in view.clear):
            return True
        return None if any(self.kind.fits(actor) for actor in view.doubtful) else False


class Lacks(msgspec.Struct, frozen=True, tag=True):
    """None of the kind is there."""

    kind: Kind

    def verdict(self, view: SceneView) -> Verdict:
        """Return whether it holds of the view's scene."""
        return negated(Shows(self.kind).verdict(view))


class Counts(msgspec.Struct, frozen=True, tag=True):
    """Exactly `number` of the kind are there."""

    kind: Kind
    number: int

    def verdict(self, view: SceneView) -> Verdict:
        """Return whether it holds of the view's scene."""
        sure = sum(self.kind.fits(actor) for actor in view.clear)
        perhaps = sum(self.kind.fits(actor) for actor in view.doubtful)
        if not sure <= self.number <= sure + perhaps:
            return False
        return None if perhaps else True


class AllAre(msgspec.Struct, frozen=True, tag=True):
    """There are several figures and every one is of the kind."""

    kind: Kind

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


class Existential(msgspec.Struct, frozen=True, tag=True):
    """What holds where it holds of any one of the kind."""

    kind: Kind

    def verdict(self, view: SceneView) -> Verdict:
        """Return whether it holds of the view's scene."""
        return some(self._of(view, actor) for actor in view.scene.actors if self.kind.fits(actor))

    def _of(self, view: SceneView, actor: Actor) -> Verdict:
        raise NotImplementedError


def pairs(kind: Kind, other: Kind, actors: Iterable[Actor]) -> Iterator[tuple[Actor, Actor]]:
    """Return every (actor of the first kind, another actor of the second kind)."""
    actors = tuple(actors)
    return ((a, b) for a in actors if kind.fits(a) for b in actors if b is not a and other.fits(b))

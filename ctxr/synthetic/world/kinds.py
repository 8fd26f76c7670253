"""Kinds of figures, and predicates about them.

Truth has three values: True, False, and None where annotators would disagree (an actor of which a tenth is shown, one that
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
    answer: Verdict = True
    for verdict in verdicts:
        if verdict is False:
            return False
        if verdict is None:
            answer = None
    return answer


def some(verdicts: Iterable[Verdict]) -> Verdict:
    """Return True if any is True, else None if any is None, else False."""
    answer: Verdict = False
    for verdict in verdicts:
        if verdict is True:
            return True
        if verdict is None:
            answer = None
    return answer


class Kind(msgspec.Struct, frozen=True):
    """A noun phrase: the attributes it names; an empty one is left open."""

    shape: str = ""
    colour: str = ""
    size: str = ""
    texture: str = ""
    face: str = ""

    def fits(self, actor: Actor) -> bool:
        """Return whether the actor has all the named attributes."""
        return (
            self.shape in ("", actor.shape)
            and self.colour in ("", actor.colour)
            and self.size in ("", actor.size)
            and self.texture in ("", actor.texture)
            and self.face in ("", actor.face)
        )


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
        shows = Shows(self.kind).verdict(view)
        return None if shows is None else not shows


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
        several = True if len(view.clear) > 1 else (None if len(view.clear) + len(view.doubtful) > 1 else False)
        return every([several, None if any(not self.kind.fits(actor) for actor in view.doubtful) else True])


class Before(msgspec.Struct, frozen=True, tag=True):
    """The backdrop is the named one."""

    backdrop: str

    def verdict(self, view: SceneView) -> Verdict:
        """Return whether it holds of the view's scene."""
        return view.scene.backdrop.name == self.backdrop


def pairs(kind: Kind, other: Kind, actors: Iterable[Actor]) -> Iterator[tuple[Actor, Actor]]:
    """Return every (actor of the first kind, another actor of the second kind)."""
    actors = tuple(actors)
    return ((a, b) for a in actors if kind.fits(a) for b in actors if b is not a and other.fits(b))

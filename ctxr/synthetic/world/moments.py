"""What can be said of one scene of a sequence, in the light of those before and after it."""

import msgspec

from ctxr.synthetic.world.kinds import Kind, Lacks, Shows, Verdict, every, some
from ctxr.synthetic.world.places import middle
from ctxr.synthetic.world.predicates import Predicate
from ctxr.synthetic.world.sights import SceneView

GONE = 0.02
"""A share shown up to this counts as not there."""
CLEAR = 1 / 3
"""A share shown from this on counts as clearly there."""


def _shown(view: SceneView, name: str) -> float:
    sight = view.sights.get(name)
    return 0.0 if sight is None else sight.shown


class Appears(msgspec.Struct, frozen=True, tag=True):
    """One of the kind just begins to appear: it was not there in the scene before, and now it is there in part."""

    kind: Kind

    def verdict(self, views: list[SceneView], index: int) -> Verdict:
        """Return whether it holds of the scene at `index`; never of the first one."""
        if index == 0:
            return False
        now, before = views[index], views[index - 1]
        return some(self._one(now, before, actor.name) for actor in now.scene.actors if self.kind.fits(actor))

    def _one(self, now: SceneView, before: SceneView, name: str) -> Verdict:
        shown, was = _shown(now, name), _shown(before, name)
        if shown <= GONE or was >= CLEAR:
            return False
        return True if 0.08 <= shown <= 0.8 and was <= GONE and now.sights[name].hidden >= 0.12 else None


class Leaves(msgspec.Struct, frozen=True, tag=True):
    """One of the kind is about to leave: an edge cuts it now, and in the next scene it is gone."""

    kind: Kind

    def verdict(self, views: list[SceneView], index: int) -> Verdict:
        """Return whether it holds of the scene at `index`; never of the last one."""
        if index + 1 == len(views):
            return False
        now, after = views[index], views[index + 1]
        return some(self._one(now, after, actor.name) for actor in now.scene.actors if self.kind.fits(actor))

    def _one(self, now: SceneView, after: SceneView, name: str) -> Verdict:
        shown, will = _shown(now, name), _shown(after, name)
        if shown <= GONE or will >= CLEAR:
            return False
        return True if shown >= 0.08 and will <= GONE and now.sights[name].beyond >= 0.12 else None


class NoLonger(msgspec.Struct, frozen=True, tag=True):
    """None of the kind is there any more: there was one in an earlier scene."""

    kind: Kind

    def verdict(self, views: list[SceneView], index: int) -> Verdict:
        """Return whether it holds of the scene at `index`; never of the first one."""
        return every(
            [Lacks(self.kind).verdict(views[index]), some(Shows(self.kind).verdict(view) for view in views[:index])]
        )


class NotYet(msgspec.Struct, frozen=True, tag=True):
    """None of the kind is there yet: there is none in the scenes before either, and one comes later."""

    kind: Kind

    def verdict(self, views: list[SceneView], index: int) -> Verdict:
        """Return whether it holds of the scene at `index`; never of the last one."""
        until = every(Lacks(self.kind).verdict(view) for view in views[: index + 1])
        return every([until, some(Shows(self.kind).verdict(view) for view in views[index + 1 :])])


class FirstTime(msgspec.Struct, frozen=True, tag=True):
    """A predicate is true for the first time: in no scene before it was."""

    predicate: Predicate

    def verdict(self, views: list[SceneView], index: int) -> Verdict:
        """Return whether it holds of the scene at `index`; never of the first one."""
        if index == 0:
            return False
        before = some(self.predicate.verdict(view) for view in views[:index])
        return every([self.predicate.verdict(views[index]), None if before is None else not before])


class LastTime(msgspec.Struct, frozen=True, tag=True):
    """A predicate is true for the last time: in no scene after it is."""

    predicate: Predicate

    def verdict(self, views: list[SceneView], index: int) -> Verdict:
        """Return whether it holds of the scene at `index`; never of the last one."""
        if index + 1 == len(views):
            return False
        after = some(self.predicate.verdict(view) for view in views[index + 1 :])
        return every([self.predicate.verdict(views[index]), None if after is None else not after])


class Now(msgspec.Struct, frozen=True, tag=True):
    """A predicate is true now and was not in the scene before."""

    predicate: Predicate

    def verdict(self, views: list[SceneView], index: int) -> Verdict:
        """Return whether it holds of the scene at `index`; never of the first one."""
        if index == 0:
            return False
        before = self.predicate.verdict(views[index - 1])
        return every([self.predicate.verdict(views[index]), None if before is None else not before])


class Moved(msgspec.Struct, frozen=True, tag=True):
    """One of the kind is further left, right, up or down than in the scene before."""

    kind: Kind
    way: str

    def verdict(self, views: list[SceneView], index: int) -> Verdict:
        """Return whether it holds of the scene at `index`: from 8 % of the frame on it does, up to 3 % it does not."""
        if index == 0:
            return False
        now, before = views[index], views[index - 1]
        here = {actor.name for actor in now.scene.actors if self.kind.fits(actor) and _shown(now, actor.name) > GONE}
        there = {a.name for a in before.scene.actors if self.kind.fits(a) and _shown(before, a.name) > GONE}
        verdict = some(self._one(now, before, name) for name in sorted(here & there))
        # one that left and another of its kind that came look like one that moved
        return None if verdict is False and here - there and there - here else verdict

    def _one(self, now: SceneView, before: SceneView, name: str) -> Verdict:
        (x, y), (u, v) = middle(now, name), middle(before, name)
        step = {"left": u - x, "right": x - u, "up": v - y}.get(self.way, y - v)
        if step <= 0.03:
            return False
        return True if step >= 0.08 and min(_shown(now, name), _shown(before, name)) >= CLEAR else None


Temporal = Appears | Leaves | NoLonger | NotYet | FirstTime | LastTime | Now | Moved
"""Anything that can be said of a scene in its sequence only."""
TEMPORAL = (Appears, Leaves, NoLonger, NotYet, FirstTime, LastTime, Now, Moved)


def judge(predicate: Predicate | Temporal, views: list[SceneView], index: int) -> Verdict:
    """Return whether a predicate holds of the scene at `index` of a sequence."""
    if isinstance(predicate, TEMPORAL):
        return predicate.verdict(views, index)
    return predicate.verdict(views[index])

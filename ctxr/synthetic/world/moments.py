"""What can be said of one scene of a sequence, in the light of those before and after it."""

from typing import ClassVar

import msgspec

from ctxr.synthetic.world.kinds import Kind, Lacks, Shows, Verdict, every, negated, some
from ctxr.synthetic.world.positions import middle
from ctxr.synthetic.world.predicates import Predicate
from ctxr.synthetic.world.sights import SceneView, Sight

GONE = 0.02
"""A share shown up to this counts as not there."""
CLEAR = 1 / 3
"""A share shown from this on counts as clearly there."""


def _shown(view: SceneView, name: str) -> float:
    sight = view.sights.get(name)
    return 0.0 if sight is None else sight.shown


class _Passing(msgspec.Struct, frozen=True, tag=True):
    """One of the kind is partly there, and not there at all in the scene `STEP` further on."""

    kind: Kind

    STEP: ClassVar[int]

    def verdict(self, views: list[SceneView], index: int) -> Verdict:
        """Return whether it holds of the scene at `index`; never of one without a scene `STEP` further on."""
        if not 0 <= index + self.STEP < len(views):
            return False
        now, other = views[index], views[index + self.STEP]
        return some(self._one(now, other, actor.name) for actor in now.scene.actors if self.kind.fits(actor))

    def _one(self, now: SceneView, other: SceneView, name: str) -> Verdict:
        elsewhere = _shown(other, name)
        if _shown(now, name) <= GONE or elsewhere >= CLEAR:
            return False
        return True if elsewhere <= GONE and self._partly(now.sights[name]) else None

    def _partly(self, sight: Sight) -> bool:
        raise NotImplementedError


class Appears(_Passing, frozen=True, tag=True):
    """One of the kind just begins to appear: it was not there in the scene before, and now it is there in part."""

    STEP = -1

    def _partly(self, sight: Sight) -> bool:
        return 0.08 <= sight.shown <= 0.8 and sight.hidden >= 0.12


class Leaves(_Passing, frozen=True, tag=True):
    """One of the kind is about to leave: an edge cuts it now, and in the next scene it is gone."""

    STEP = 1

    def _partly(self, sight: Sight) -> bool:
        return sight.shown >= 0.08 and sight.beyond >= 0.12


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


class _OnlyNow(msgspec.Struct, frozen=True, tag=True):
    """A predicate is true, and in none of certain other scenes."""

    predicate: Predicate

    def verdict(self, views: list[SceneView], index: int) -> Verdict:
        """Return whether it holds of the scene at `index`; never where there is no other scene to compare with."""
        if not (others := self._others(views, index)):
            return False
        elsewhere = some(self.predicate.verdict(view) for view in others)
        return every([self.predicate.verdict(views[index]), negated(elsewhere)])

    def _others(self, views: list[SceneView], index: int) -> list[SceneView]:
        raise NotImplementedError


class FirstTime(_OnlyNow, frozen=True, tag=True):
    """A predicate is true for the first time: in no scene before it was."""

    def _others(self, views: list[SceneView], index: int) -> list[SceneView]:
        return views[:index]


class LastTime(_OnlyNow, frozen=True, tag=True):
    """A predicate is true for the last time: in no scene after it is."""

    def _others(self, views: list[SceneView], index: int) -> list[SceneView]:
        return views[index + 1 :]


class Now(_OnlyNow, frozen=True, tag=True):
    """A predicate is true now and was not in the scene before."""

    def _others(self, views: list[SceneView], index: int) -> list[SceneView]:
        return views[max(0, index - 1) : index]


class Moved(msgspec.Struct, frozen=True, tag=True):
    """One of the kind is further left, right, up or down than in the scene before."""

    kind: Kind
    direction: str

    def verdict(self, views: list[SceneView], index: int) -> Verdict:
        """Return whether it holds of the scene at `index`: from 8 % of the frame on it does, up to 3 % it does not."""
        if index == 0:
            return False
        now, before = views[index], views[index - 1]
        present, earlier = (
            {actor.name for actor in view.scene.actors if self.kind.fits(actor) and _shown(view, actor.name) > GONE}
            for view in (now, before)
        )
        verdict = some(self._one(now, before, name) for name in sorted(present & earlier))
        # one that left and another of its kind that came look like one that moved
        return None if verdict is False and present - earlier and earlier - present else verdict

    def _one(self, now: SceneView, before: SceneView, name: str) -> Verdict:
        (x, y), (u, v) = middle(now, name), middle(before, name)
        step = {"left": u - x, "right": x - u, "up": v - y}.get(self.direction, y - v)
        if step <= 0.03:
            return False
        return True if step >= 0.08 and min(_shown(now, name), _shown(before, name)) >= CLEAR else None


Temporal = Appears | Leaves | NoLonger | NotYet | FirstTime | LastTime | Now | Moved
"""Anything that can be said of a scene in its sequence only."""


def judge(predicate: Predicate | Temporal, views: list[SceneView], index: int) -> Verdict:
    """Return whether a predicate holds of the scene at `index` of a sequence."""
    if isinstance(predicate, Temporal):
        return predicate.verdict(views, index)
    return predicate.verdict(views[index])

"""What can be said of one scene of a sequence, in the light of those before and after it."""

from collections.abc import Callable
from typing import get_args

import msgspec

from ctxr.synthetic.world.predicates import (
    Kind,
    Lacks,
    OfKind,
    Predicate,
    Shows,
    Verdict,
    any_known,
    every,
    middle,
    name_of,
    negated,
)
from ctxr.synthetic.world.sights import SceneView, Sight

GONE = 0.02
"""A share shown up to this counts as not there."""
CLEAR = 1 / 3
"""A share shown from this on counts as clearly there."""


def _shown(view: SceneView, name: str) -> float:
    sight = view.sights.get(name)
    return 0.0 if sight is None else sight.shown


def _passing(kind: Kind, views: list[SceneView], index: int, step: int, partly: Callable[[Sight], bool]) -> Verdict:
    """Return whether one of the kind is `partly` there, and not there at all in the scene `step` further on."""
    if not 0 <= index + step < len(views):
        return False
    now, other = views[index], views[index + step]

    def passes(name: str) -> Verdict:
        elsewhere = _shown(other, name)
        if _shown(now, name) <= GONE or elsewhere >= CLEAR:
            return False
        return True if elsewhere <= GONE and partly(now.sights[name]) else None

    return any_known(passes(actor.name) for actor in now.scene.actors if kind.fits(actor))


class Appears(OfKind, frozen=True):
    """One of the kind just begins to appear: it was not there in the scene before, and now it is there in part."""

    def verdict(self, views: list[SceneView], index: int) -> Verdict:
        """Return whether it holds of the scene at `index`; never of the first one."""
        return _passing(self.kind, views, index, -1, lambda sight: 0.08 <= sight.shown <= 0.8 and sight.hidden >= 0.12)


class Leaves(OfKind, frozen=True):
    """One of the kind is about to leave: an edge cuts it now, and in the next scene it is gone."""

    def verdict(self, views: list[SceneView], index: int) -> Verdict:
        """Return whether it holds of the scene at `index`; never of the last one."""
        return _passing(self.kind, views, index, 1, lambda sight: sight.shown >= 0.08 and sight.beyond >= 0.12)


class NoLonger(OfKind, frozen=True):
    """None of the kind is there any more: there was one in an earlier scene."""

    def verdict(self, views: list[SceneView], index: int) -> Verdict:
        """Return whether it holds of the scene at `index`; never of the first one."""
        return every(
            [
                Lacks(self.kind).verdict(views[index]),
                any_known(Shows(self.kind).verdict(view) for view in views[:index]),
            ]
        )


class NotYet(OfKind, frozen=True):
    """None of the kind is there yet: there is none in the scenes before either, and one comes later."""

    def verdict(self, views: list[SceneView], index: int) -> Verdict:
        """Return whether it holds of the scene at `index`; never of the last one."""
        until = every(Lacks(self.kind).verdict(view) for view in views[: index + 1])
        return every([until, any_known(Shows(self.kind).verdict(view) for view in views[index + 1 :])])


def _only_now(predicate: Predicate, view: SceneView, others: list[SceneView]) -> Verdict:
    """Return whether a predicate holds of a scene and of none of the others; never where there are none to compare with."""
    if not others:
        return False
    return every([predicate.verdict(view), negated(any_known(predicate.verdict(other) for other in others))])


class FirstTime(msgspec.Struct, frozen=True, tag=True):
    """A predicate is true for the first time: in no scene before it was."""

    predicate: Predicate

    def verdict(self, views: list[SceneView], index: int) -> Verdict:
        """Return whether it holds of the scene at `index`; never of the first one."""
        return _only_now(self.predicate, views[index], views[:index])


class LastTime(msgspec.Struct, frozen=True, tag=True):
    """A predicate is true for the last time: in no scene after it is."""

    predicate: Predicate

    def verdict(self, views: list[SceneView], index: int) -> Verdict:
        """Return whether it holds of the scene at `index`; never of the last one."""
        return _only_now(self.predicate, views[index], views[index + 1 :])


class Now(msgspec.Struct, frozen=True, tag=True):
    """A predicate is true now and was not in the scene before."""

    predicate: Predicate

    def verdict(self, views: list[SceneView], index: int) -> Verdict:
        """Return whether it holds of the scene at `index`; never of the first one."""
        return _only_now(self.predicate, views[index], views[max(0, index - 1) : index])


class Moved(OfKind, frozen=True):
    """One of the kind is further left, right, up or down than in the scene before."""

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
        verdict = any_known(self._one(now, before, name) for name in sorted(present & earlier))
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
TEMPORAL_BY_NAME: dict[str, Callable[..., Temporal]] = {
    name_of(predicate): predicate for predicate in get_args(Temporal)
}
"""Each of them by its name."""


def judge(predicate: Predicate | Temporal, views: list[SceneView], index: int) -> Verdict:
    """Return whether a predicate holds of the scene at `index` of a sequence."""
    if isinstance(predicate, Temporal):
        return predicate.verdict(views, index)
    return predicate.verdict(views[index])

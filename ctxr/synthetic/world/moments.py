"""What can be said of one scene of a sequence, in the light of those before and after it."""

from collections.abc import Callable
from typing import Any, get_args

import msgspec

from ctxr.synthetic.world.predicates import (
    Kind,
    Lacks,
    OfKind,
    Predicate,
    Shows,
    Verdict,
    conjunction,
    disjunction,
    middle,
    name_of,
    negation,
    step_towards,
)
from ctxr.synthetic.world.sights import SceneView, Sight

GONE = 0.02
"""A share shown up to this counts as not there."""
CLEAR = 1 / 3
"""A share shown from this on counts as clearly there."""


def _passing(kind: Kind, views: list[SceneView], index: int, step: int, partly: Callable[[Sight], bool]) -> Verdict:
    """Return whether one of the kind is `partly` there, and not there at all in the scene `step` further on."""
    if not 0 <= index + step < len(views):
        return False
    now, verdicts = views[index], list[Verdict]()
    for name in (actor.name for actor in now.scene.actors if kind.fits(actor)):
        elsewhere = views[index + step].shown(name)
        clearly = elsewhere <= GONE and partly(now.sights[name])
        verdicts.append(False if now.shown(name) <= GONE or elsewhere >= CLEAR else True if clearly else None)
    return disjunction(verdicts)


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
        earlier = disjunction(Shows(self.kind).verdict(view) for view in views[:index])
        return conjunction([Lacks(self.kind).verdict(views[index]), earlier])


class NotYet(OfKind, frozen=True):
    """None of the kind is there yet: there is none in the scenes before either, and one comes later."""

    def verdict(self, views: list[SceneView], index: int) -> Verdict:
        """Return whether it holds of the scene at `index`; never of the last one."""
        until = conjunction(Lacks(self.kind).verdict(view) for view in views[: index + 1])
        return conjunction([until, disjunction(Shows(self.kind).verdict(view) for view in views[index + 1 :])])


def _only_now(predicate: Predicate, view: SceneView, others: list[SceneView]) -> Verdict:
    """Return whether a predicate holds of a scene and of none of the others; never where there are none to compare with."""
    if not others:
        return False
    elsewhere = disjunction(predicate.verdict(other) for other in others)
    return conjunction([predicate.verdict(view), negation(elsewhere)])


class OfPredicate(msgspec.Struct, frozen=True, tag=True):
    """What is said of a predicate in the light of other scenes."""

    predicate: Predicate


class FirstTime(OfPredicate, frozen=True):
    """A predicate is true for the first time: in no scene before it was."""

    def verdict(self, views: list[SceneView], index: int) -> Verdict:
        """Return whether it holds of the scene at `index`; never of the first one."""
        return _only_now(self.predicate, views[index], views[:index])


class LastTime(OfPredicate, frozen=True):
    """A predicate is true for the last time: in no scene after it is."""

    def verdict(self, views: list[SceneView], index: int) -> Verdict:
        """Return whether it holds of the scene at `index`; never of the last one."""
        return _only_now(self.predicate, views[index], views[index + 1 :])


class Now(OfPredicate, frozen=True):
    """A predicate is true now and was not in the scene before."""

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
            {actor.name for actor in view.scene.actors if self.kind.fits(actor) and view.shown(actor.name) > GONE}
            for view in (now, before)
        )
        verdicts: list[Verdict] = []
        for name in present & earlier:
            step = step_towards(self.direction, middle(now, name), middle(before, name))
            clearly = step >= 0.08 and min(now.shown(name), before.shown(name)) >= CLEAR
            verdicts.append(False if step <= 0.03 else True if clearly else None)
        verdict = disjunction(verdicts)
        # one that left and another of its kind that came look like one that moved
        return None if verdict is False and present - earlier and earlier - present else verdict


Temporal = Appears | Leaves | NoLonger | NotYet | FirstTime | LastTime | Now | Moved
"""Anything that can be said of a scene in its sequence only."""
TEMPORAL_BY_NAME: dict[str, type[Any]] = {name_of(predicate): predicate for predicate in get_args(Temporal)}
"""Each of them by its name."""


def judge(predicate: Predicate | Temporal, views: list[SceneView], index: int) -> Verdict:
    """Return whether a predicate holds of the scene at `index` of a sequence."""
    if isinstance(predicate, Temporal):
        return predicate.verdict(views, index)
    return predicate.verdict(views[index])

"""What can be said of one scene of a sequence, in the light of those before and after it."""

from collections.abc import Iterable, Sequence
from typing import Any, get_args

import msgspec

from ctxr.synthetic.world.predicates import (
    Kind,
    Lacks,
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
from ctxr.synthetic.world.sights import SceneView

GONE = 0.02
"""A share shown up to this counts as not there."""
CLEAR = 1 / 3
"""A share shown from this on counts as clearly there."""


class MomentPredicate(msgspec.Struct, frozen=True, tag=True):
    """What is said of a scene in the light of others."""

    def verdict(self, views: Sequence[SceneView], index: int) -> Verdict:
        """Whether it holds of the scene at `index`; never where there is none to compare with."""
        return disjunction(self._verdicts(views, index))

    def _verdicts(self, views: Sequence[SceneView], index: int) -> Iterable[Verdict]:
        """One of each figure that it may be about, or one of the whole scene."""
        raise NotImplementedError


class Passing(MomentPredicate, frozen=True):
    """One of the kind is there in part, and not at all in the scene before or after."""

    kind: Kind

    def _verdicts(self, views: Sequence[SceneView], index: int) -> Iterable[Verdict]:
        comes = isinstance(self, Appears)
        other, now = index - 1 if comes else index + 1, views[index]
        if not 0 <= other < len(views):
            return
        for name in (actor.name for actor in now.scene.actors if self.kind.fits(actor)):
            elsewhere, sight = views[other].shown(name), now.sights[name]
            partly = sight.shown <= 0.8 and sight.hidden >= 0.12 if comes else sight.beyond >= 0.12
            clearly = elsewhere <= GONE and sight.shown >= 0.08 and partly
            yield False if sight.shown <= GONE or elsewhere >= CLEAR else True if clearly else None


class Appears(Passing, frozen=True):
    """One of the kind just begins to appear: it was not there in the scene before, and now it is there in part."""


class Leaves(Passing, frozen=True):
    """One of the kind is about to leave: an edge cuts it now, and in the next scene it is gone."""


class Absent(MomentPredicate, frozen=True):
    """None of the kind is there, and one is in an earlier scene or only in a later one."""

    kind: Kind

    def _verdicts(self, views: Sequence[SceneView], index: int) -> Iterable[Verdict]:
        lacking, having = views[: index + 1], views[index + 1 :]
        if isinstance(self, NoLonger):
            lacking, having = [views[index]], views[:index]
        shown = disjunction(map(Shows(self.kind).verdict, having))
        return [conjunction([*map(Lacks(self.kind).verdict, lacking), shown])]


class NoLonger(Absent, frozen=True):
    """None of the kind is there any more: there was one in an earlier scene."""


class NotYet(Absent, frozen=True):
    """None of the kind is there yet, nor in the scenes before, and one comes later."""


class OfPredicate(MomentPredicate, frozen=True):
    """A predicate is true of a scene and of none of some others."""

    predicate: Predicate

    def _verdicts(self, views: Sequence[SceneView], index: int) -> Iterable[Verdict]:
        before, after = views[:index], views[index + 1 :]
        others = after if isinstance(self, LastTime) else before[-1:] if isinstance(self, Now) else before
        elsewhere = disjunction(map(self.predicate.verdict, others))
        return [conjunction([self.predicate.verdict(views[index]), negation(elsewhere)])] if others else []


class FirstTime(OfPredicate, frozen=True):
    """A predicate is true for the first time: in no scene before it was."""


class LastTime(OfPredicate, frozen=True):
    """A predicate is true for the last time: in no scene after it is."""


class Now(OfPredicate, frozen=True):
    """A predicate is true now and was not in the scene before."""


class Moved(MomentPredicate, frozen=True):
    """One of the kind is further left, right, up or down than in the scene before: from 8 % of the frame on, and not up to 3 %."""

    kind: Kind
    direction: str

    def _verdicts(self, views: Sequence[SceneView], index: int) -> Iterable[Verdict]:
        if index == 0:
            return
        now, before = views[index], views[index - 1]
        present, earlier = (
            {actor.name for actor in view.scene.actors if self.kind.fits(actor) and view.shown(actor.name) > GONE}
            for view in (now, before)
        )
        for name in present & earlier:
            step = step_towards(self.direction, middle(now, name), middle(before, name))
            clearly = step >= 0.08 and min(now.shown(name), before.shown(name)) >= CLEAR
            yield False if step <= 0.03 else True if clearly else None
        if present - earlier and earlier - present:
            yield None  # one that left and another of its kind that came look like one that moved


Temporal = Appears | Leaves | NoLonger | NotYet | FirstTime | LastTime | Now | Moved
TEMPORAL_BY_NAME: dict[str, type[Any]] = {name_of(predicate): predicate for predicate in get_args(Temporal)}


def judge(predicate: Predicate | Temporal, views: Sequence[SceneView], index: int) -> Verdict:
    """Return whether a predicate holds of the scene at `index` of a sequence."""
    if isinstance(predicate, Temporal):
        return predicate.verdict(views, index)
    return predicate.verdict(views[index])

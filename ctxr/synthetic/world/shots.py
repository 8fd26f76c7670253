"""Shots: actors on their courses before a panning backdrop, as a function from time to scene."""

import bisect
import math

import msgspec
import numpy as np

from ctxr.synthetic.world.outlines import FACED, REACH
from ctxr.synthetic.world.scenes import (
    FACES,
    Actor,
    Backdrop,
    Overlay,
    Point,
    Scene,
    at_edge,
    choose,
    positioned,
    reach_of,
    sample_actor,
    sample_backdrop,
)

RAMP = 0.36
"""Seconds in which a blur or an overlay comes and goes; at once, either would look like a cut."""


class Course(msgspec.Struct, frozen=True):
    """Where an actor is over time.

    Attributes:
        stops: (seconds, x, y) in order of time; between two of them the actor moves, slowly at first and at the end.
        moods: (seconds, face) from which on the actor has another face.
    """

    stops: tuple[tuple[float, float, float], ...]
    moods: tuple[tuple[float, str], ...] = ()

    def at(self, time: float) -> Point:
        """Return the actor's centre at a time."""
        index = bisect.bisect_right([stop[0] for stop in self.stops], time)
        if index in (0, len(self.stops)):
            return Point(*self.stops[min(index, len(self.stops) - 1)][1:])
        (t0, x0, y0), (t1, x1, y1) = self.stops[index - 1], self.stops[index]
        share = (time - t0) / (t1 - t0)
        # a smooth step mixed with a steady pace, so that a slow start is still a motion
        eased = 0.5 * share + 0.5 * share * share * (3 - 2 * share)
        return Point(x0 + (x1 - x0) * eased, y0 + (y1 - y0) * eased)


class SceneShot(msgspec.Struct, frozen=True):
    """A continuous take.

    Attributes:
        cast: the actors, farthest first, as they look at the beginning. courses: one for each actor of the cast.
        pan: change of the backdrop's x, y and zoom per second. aspect, light: as in `Scene`.
        holds: (begin, end) in seconds: stretches in which the world stands still.
        blurs: (begin, end, blur) in seconds and in shares of the shorter side; overlays: (begin, end, overlay) in seconds; both
            come and go over `RAMP`.
    """

    seconds: float
    cast: tuple[Actor, ...]
    courses: tuple[Course, ...]
    backdrop: Backdrop
    pan: tuple[float, float, float] = (0.0, 0.0, 0.0)
    aspect: float = 1.0
    light: float = 1.0
    holds: tuple[tuple[float, float], ...] = ()
    blurs: tuple[tuple[float, float, float], ...] = ()
    overlays: tuple[tuple[float, float, Overlay], ...] = ()

    def at(self, seconds: float) -> Scene:
        """Return the scene at a time from the shot's beginning, without actors far outside."""
        time = seconds - sum(max(0.0, min(seconds, end) - begin) for begin, end in self.holds)
        reach = reach_of(self.aspect)
        actors = []
        for actor, course in zip(self.cast, self.courses, strict=True):
            x, y = course.at(time)
            far = REACH * actor.radius
            if -far * reach.x < x < 1 + far * reach.x and -far * reach.y < y < 1 + far * reach.y:
                face = next((mood for begin, mood in reversed(course.moods) if time >= begin), actor.face)
                actors.append(msgspec.structs.replace(actor, x=round(x, 5), y=round(y, 5), face=face))
        dx, dy, dz = (change * time for change in self.pan)
        behind = self.backdrop.moved(dx, dy, dz, 5)
        blur, words = 0.0, None
        for begin, end, amount in self.blurs:
            blur = max(blur, round(amount * _presence(seconds, begin, end), 5))
        for begin, end, overlay in self.overlays:
            shown = round(_presence(seconds, begin, end), 4)
            words = msgspec.structs.replace(overlay, shown=shown) if shown > 0 else words
        return Scene(tuple(actors), behind, self.aspect, self.light, blur, words)


def _presence(seconds: float, begin: float, end: float) -> float:
    """Return how far a stretch has come in, 0..1: it takes `RAMP` to come and as long to go."""
    return max(0.0, min(1.0, (seconds - begin) / RAMP, (end - seconds) / RAMP))


def _outside(rng: np.random.Generator, actor: Actor, reach: Point, edge: int) -> Point:
    """Return a point just outside an edge, as `at_edge` numbers them."""
    return at_edge(edge, float(rng.uniform(0.22, 0.78)), -REACH * actor.radius, reach)


def _course(
    rng: np.random.Generator,
    actor: Actor,
    others: list[Actor],
    seconds: float,
    reach: Point,
    *,
    still: bool,
) -> Course:
    """Return a course of random character: staying, wandering, crossing, visiting, entering, leaving or passing another."""
    home = (actor.x, actor.y)
    edge = int(rng.integers(4))
    begin, end = float(rng.uniform(0.0, 0.4)) * seconds, float(rng.uniform(0.65, 1.0)) * seconds
    style = "stay" if still else choose(
        rng, ("stay", "wander", "cross", "visit", "enter", "leave", "pass"), (1, 3, 2, 1.5, 2, 2, 2 if others else 0)
    )  # fmt: skip
    if style == "stay":
        points = [(0.0, *home)]
    elif style == "cross":
        points = [(begin, *_outside(rng, actor, reach, edge)), (end, *_outside(rng, actor, reach, edge ^ 1))]
    elif style == "visit":
        came, went = (_outside(rng, actor, reach, edge) for _ in range(2))
        points = [(begin, *came), ((begin + end) / 2, *home), (end, *went)]
    elif style == "enter":
        points = [(begin, *_outside(rng, actor, reach, edge)), (end, *home)]
    elif style == "leave":
        points = [(begin, *home), (end, *_outside(rng, actor, reach, edge))]
    elif style == "pass":
        other = choose(rng, others)
        points = [(begin, *home), (end, 2 * other.x - home[0], 2 * other.y - home[1])]
    else:
        legs = np.linspace(0.0, seconds, int(rng.integers(3, 6)))
        low = np.minimum(1.15 * actor.radius * np.array(reach), 0.5)
        points = [(0.0, *home), *((float(leg), *rng.uniform(low, 1 - low).tolist()) for leg in legs[1:])]
    stops = tuple((round(t, 3), round(x, 4), round(y, 4)) for t, x, y in points)
    moods: tuple[tuple[float, str], ...] = ()
    if actor.face and not still and rng.random() < 0.5:
        change = round(float(rng.uniform(0.25, 0.75)) * seconds, 3)
        moods = ((change, choose(rng, [face for face in FACES if face != actor.face])),)
    return Course(stops, moods)


def sample_shot(rng: np.random.Generator, seconds: float, aspect: float = 1.0, still: bool = False) -> SceneShot:
    """Return a random shot of two to five actors, `aspect` = width / height; in a `still` one not even the backdrop moves."""
    reach = reach_of(aspect)
    cast: list[Actor] = []
    courses: list[Course] = []
    for index in range(2 + int(np.searchsorted((0.1, 0.4, 0.78), rng.random()))):
        like = choose(rng, cast) if cast and rng.random() < 0.35 else None
        actor = sample_actor(rng, f"a{index}", like)
        if actor.shape in FACED and actor.size != "small" and not actor.face and rng.random() < 0.3:
            actor = msgspec.structs.replace(actor, face=choose(rng, FACES), texture="plain")
        actor = positioned(rng, actor, cast, reach)
        at = int(rng.integers(len(cast) + 1))
        courses.insert(at, _course(rng, actor, cast, seconds, reach, still=still))
        cast.insert(at, actor)
    pan = (0.0, 0.0, 0.0)
    if not still and rng.random() < 0.75:
        angle, pace = float(rng.uniform(0, 2 * math.pi)), float(rng.uniform(0.03, 0.12))
        zoom = float(rng.choice((0.0, 0.0, 0.03, -0.02)))
        pan = (round(pace * math.cos(angle), 4), round(pace * math.sin(angle), 4), zoom)
    return SceneShot(
        round(seconds, 4),
        tuple(cast),
        tuple(courses),
        msgspec.structs.replace(sample_backdrop(rng), zoom=round(float(rng.uniform(1.1, 1.4)), 4)),
        pan,
        aspect,
        round(float(rng.uniform(0.9, 1.06)), 3),
    )

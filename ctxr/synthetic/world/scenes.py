"""Scenes: who stands where, in which order of depth, before which backdrop."""

import math
from collections.abc import Sequence
from typing import NamedTuple, TypeVar

import msgspec
import numpy as np

from ctxr.synthetic.world.backdrops import BACKDROPS
from ctxr.synthetic.world.outlines import FACED, SHAPES

T = TypeVar("T")

COLOURS: dict[str, tuple[int, int, int]] = {
    "red": (214, 40, 40),
    "orange": (244, 132, 28),
    "yellow": (250, 214, 50),
    "green": (52, 158, 72),
    "turquoise": (42, 190, 190),
    "blue": (40, 96, 212),
    "purple": (128, 62, 176),
    "pink": (246, 132, 178),
    "brown": (128, 80, 44),
    "white": (246, 244, 238),
    "black": (34, 34, 40),
    "gray": (140, 144, 150),
}
"""Colour name to RGB in 0..255."""

SIZES: dict[str, tuple[float, float]] = {"small": (0.085, 0.1), "medium": (0.14, 0.165), "large": (0.215, 0.25)}
"""Size name to the range of an actor's radius, as a share of the frame's shorter side. The gaps keep the words apart."""

TEXTURES = ("plain", "striped", "dotted", "checkered")
FACES = ("smiling", "sad", "sleeping")
"""Expressions of actors that have a face; an actor without one has the empty string."""


class Point(NamedTuple):
    """A place, a step or a size, as shares of the frame's width and height, y downwards."""

    x: float
    y: float


class Actor(msgspec.Struct, frozen=True):
    """One drawn figure.

    Attributes:
        name: identifies it through the scenes of a sequence. radius: half its extent as a share of the frame's shorter side.
        x, y: its centre, as in `Point`; outside 0..1 it is off the frame. angle: in degrees, clockwise on the screen.
    """

    name: str
    shape: str
    colour: str
    radius: float
    x: float
    y: float
    texture: str = "plain"
    face: str = ""
    angle: float = 0.0

    @property
    def size(self) -> str:
        """The size word: small, medium or large; between two ranges the nearer one."""
        return "small" if self.radius < 0.12 else "medium" if self.radius < 0.19 else "large"

    def moved(self, x: float, y: float) -> "Actor":
        """Return the actor with its centre at (x, y)."""
        return msgspec.structs.replace(self, x=x, y=y)


class Backdrop(msgspec.Struct, frozen=True):
    """The window of a photograph or texture of `BACKDROPS` that lies behind the actors, as in `backdrops.window`."""

    name: str
    x: float = 0.5
    y: float = 0.5
    zoom: float = 1.2
    mirrored: bool = False

    def moved(self, dx: float, dy: float, dz: float, digits: int) -> "Backdrop":
        """Return the window panned and zoomed as far as there is room."""
        x, y = (round(min(1.0, max(0.0, value)), digits) for value in (self.x + dx, self.y + dy))
        return msgspec.structs.replace(self, x=x, y=y, zoom=round(max(1.0, self.zoom + dz), digits))


class Overlay(msgspec.Struct, frozen=True):
    """One to four lines on a light panel at the "bottom" or "top" edge; `shown`: the share that has slid in, 0..1."""

    lines: tuple[str, ...]
    edge: str = "bottom"
    shown: float = 1.0


class Scene(msgspec.Struct, frozen=True):
    """One moment of the toy world: everything that `render` draws.

    Attributes:
        actors: from the farthest to the nearest; a later one covers an earlier one.
        aspect: width / height for which statements about the scene are computed. light: brightness factor, 1 is neutral.
        blur: standard deviation of a Gaussian blur over the whole picture, as a share of the shorter side; 0 is sharp.
    """

    actors: tuple[Actor, ...]
    backdrop: Backdrop
    aspect: float = 1.0
    light: float = 1.0
    blur: float = 0.0
    overlay: Overlay | None = None


def reach_of(aspect: float) -> Point:
    """Return the shorter side as shares of a frame of that width / height."""
    return Point(min(1.0, 1.0 / aspect), min(1.0, aspect))


def choose(rng: np.random.Generator, things: Sequence[T], weights: Sequence[float] | None = None) -> T:
    """Return one of the things, by weight if weights are given."""
    if weights is None:
        return things[int(rng.integers(len(things)))]
    total = np.cumsum(np.asarray(weights, dtype=np.float64))
    return things[int(np.searchsorted(total, rng.random() * total[-1], side="right"))]


def sample_backdrop(rng: np.random.Generator) -> Backdrop:
    """Return a backdrop with a random window."""
    x, y, zoom = (round(float(v), 4) for v in rng.uniform((0, 0, 1.0), (1, 1, 1.45)))
    return Backdrop(choose(rng, tuple(BACKDROPS)), x, y, zoom, bool(rng.random() < 0.5))


def sample_actor(rng: np.random.Generator, name: str, like: Actor | None = None) -> Actor:
    """Return a random actor at the middle of the frame, which shares some attributes with the actor `like`, if one is given."""
    shape, colour = choose(rng, SHAPES), choose(rng, tuple(COLOURS))
    texture = choose(rng, TEXTURES, (6, 2, 2, 1))
    size = choose(rng, tuple(SIZES), (3, 4, 3))
    if like is not None:
        shape = like.shape if rng.random() < 0.5 else shape
        colour = like.colour if rng.random() < 0.5 else colour
        texture = like.texture if rng.random() < 0.5 else texture
    radius = round(float(rng.uniform(*SIZES[size])), 4)
    face = choose(rng, FACES) if shape in FACED and size != "small" and rng.random() < 0.4 else ""
    angle = 0.0 if rng.random() < 0.6 else round(float(rng.uniform(-20, 20)), 1)
    return Actor(name, shape, colour, radius, 0.5, 0.5, texture if not face else "plain", face, angle)


def gap(a: Actor, b: Actor, reach: Point) -> float:
    """Return the distance of two actors' discs, in shorter sides (`reach_of`); negative where they overlap."""
    return math.hypot((a.x - b.x) / reach.x, (a.y - b.y) / reach.y) - a.radius - b.radius


def positioned(rng: np.random.Generator, actor: Actor, others: Sequence[Actor], reach: Point) -> Actor:
    """Return the actor at a free place: inside the frame and 0.02 away from the others where thirty tries find one."""
    best, widest = actor, -math.inf
    for _ in range(30):
        margin_x, margin_y = actor.radius * 1.05 * reach.x, actor.radius * 1.05 * reach.y
        x, y = rng.uniform((margin_x, margin_y), (1 - margin_x, 1 - margin_y))
        moved = actor.moved(round(float(x), 4), round(float(y), 4))
        room = min((gap(moved, other, reach) for other in others), default=math.inf)
        if room > widest:
            best, widest = moved, room
        if room >= 0.02:
            break
    return best


def placed(
    rng: np.random.Generator, actor: Actor, others: Sequence[Actor], reach: Point, *, overlap: float, edge: float
) -> Actor:
    """Return the actor where it overlaps another by a third to two thirds of the smaller radius, else
    half over an edge of the frame, both by chance, else at a free place."""
    if others and rng.random() < overlap:
        other, angle = choose(rng, others), float(rng.uniform(0, 2 * math.pi))
        distance = actor.radius + other.radius - float(rng.uniform(0.7, 1.3)) * min(actor.radius, other.radius)
        x = other.x + distance * math.cos(angle) * reach.x
        y = other.y + distance * math.sin(angle) * reach.y
    elif rng.random() < edge:
        along, inwards = float(rng.uniform(0.2, 0.8)), float(rng.uniform(-0.35, 0.35)) * actor.radius
        x, y = at_edge(int(rng.integers(4)), along, inwards, reach)
    else:
        return positioned(rng, actor, others, reach)
    return actor.moved(round(x, 4), round(y, 4))


def at_edge(edge: int, along: float, inwards: float, reach: Point) -> Point:
    """Return a point by an edge (0 left, 1 right, 2 top, 3 bottom), `inwards` shorter sides inside the frame."""
    across = inwards * reach[edge // 2]
    across = 1 - across if edge % 2 else across
    return Point(across, along) if edge < 2 else Point(along, across)


def sample_scene(rng: np.random.Generator, aspect: float = 1.0) -> Scene:
    """A random scene of one to five actors; with occlusion, a quarter overlap another, and a tenth are cut."""
    backdrop = sample_backdrop(rng)
    reach = reach_of(aspect)
    actors: list[Actor] = []
    for index in range(1 + int(np.searchsorted((0.14, 0.4, 0.68, 0.88), rng.random()))):
        like = choose(rng, actors) if actors and rng.random() < 0.4 else None
        actor = sample_actor(rng, f"a{index}", like)
        actor = placed(rng, actor, actors, reach, overlap=0.25, edge=0.1)
        actors.insert(int(rng.integers(len(actors) + 1)), actor)
    return Scene(tuple(actors), backdrop, aspect, round(float(rng.uniform(0.88, 1.08)), 3))

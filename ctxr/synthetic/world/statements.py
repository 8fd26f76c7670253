"""Statements: words together with the structure that decides whether they are true."""

from collections.abc import Container, Sequence

import msgspec
import numpy as np

from ctxr.synthetic.world.language import a, noun, say, sentence
from ctxr.synthetic.world.moments import Temporal
from ctxr.synthetic.world.outlines import SHAPES
from ctxr.synthetic.world.predicates import (
    AMOUNTS,
    BY_NAME,
    AllAre,
    Before,
    Counts,
    Kind,
    Lacks,
    Predicate,
    Shows,
    Verdict,
    every,
    name_of,
)
from ctxr.synthetic.world.scenes import COLOURS, SIZES, TEXTURES, Actor, Scene, choose
from ctxr.synthetic.world.sights import SceneView
from ctxr.synthetic.world.words import BACKDROP_PHRASES, PLACE_PHRASES, SIDE_PHRASES

_FIELDS = (
    ("shape",), ("colour",), ("shape", "colour"), ("shape", "colour"), ("shape", "colour"), ("size", "shape"),
    ("size", "colour", "shape"), ("texture", "shape"), ("texture", "colour", "shape"), ("face", "shape"),
    ("face", "colour", "shape"), ("size", "texture", "colour", "shape"), ("texture", "colour"), ("size", "colour"),
)  # fmt: skip


POOLS: dict[str, tuple[str, ...]] = {
    "shape": SHAPES, "colour": tuple(COLOURS), "size": tuple(SIZES), "texture": TEXTURES[1:],
}  # fmt: skip
"""What can be named of each attribute of a kind, but for its face."""

_WEIGHTS = {
    "Before": 6, "Shows": 20, "Lacks": 10, "Counts": 12, "Beside": 16, "Within": 11, "Outermost": 3, "Behind": 8,
    "CutOff": 5, "Hidden": 4, "Entire": 3, "Bigger": 3, "AllAre": 3, "Apart": 2,
}  # fmt: skip

_DETAILS: dict[str, tuple[str, tuple[str, ...]]] = {
    "Beside": ("side", tuple(SIDE_PHRASES)),
    "Within": ("region", tuple(PLACE_PHRASES)),
    "Outermost": ("side", ("left", "right", "top", "bottom")),
    "CutOff": ("edge", ("left", "top", "right", "bottom", "")),
    "Hidden": ("amount", tuple(AMOUNTS)),
}
"""What is drawn for a predicate beside its kinds: the field, and what it may be."""


class Statement(msgspec.Struct, frozen=True):
    """Words and the predicates they stand for; the words are true if all the predicates are."""

    text: str
    predicates: tuple[Predicate, ...]

    def verdict(self, view: SceneView) -> Verdict:
        """Return True, False, or None where it is too close to call."""
        return every(predicate.verdict(view) for predicate in self.predicates)


def kind_of(rng: np.random.Generator, actor: Actor) -> Kind:
    """Return a kind that fits the actor, of random detail."""
    named = {field: getattr(actor, field) for field in choose(rng, _FIELDS)}
    if named.get("texture") == "plain" and rng.random() < 0.8:  # few people mention that something has no pattern
        named["texture"] = ""
    return Kind(**named)


def full_kind(actor: Actor) -> Kind:
    """Return the kind that names all that can be seen of an actor's looks."""
    texture = "" if actor.texture == "plain" else actor.texture
    return Kind(actor.shape, actor.colour, actor.size, texture, actor.face)


def propose(rng: np.random.Generator, view: SceneView) -> Predicate:
    """Return a predicate about a scene that may well be true, or false by a little."""
    scene = view.scene
    if not scene.actors:
        return (Before(scene.backdrop.name), Lacks(Kind()), Lacks(Kind(choose(rng, SHAPES))))[int(rng.integers(3))]
    actor, other = choose(rng, scene.actors), choose(rng, scene.actors)
    kind, second = kind_of(rng, actor), kind_of(rng, other)
    what = choose(rng, tuple(_WEIGHTS), tuple(_WEIGHTS.values()))
    if what == "Counts":
        kind = kind if rng.random() < 0.6 else Kind()
        return Counts(kind, sum(kind.fits(actor) for actor in view.clear))
    if what == "AllAre":
        field = choose(rng, ("shape", "colour", "size", "texture"))
        return AllAre(Kind(**{field: getattr(actor, field)}))
    if what == "Lacks":
        return Lacks(_absent(rng, kind))
    values = {"kind": kind, "other": second, "backdrop": scene.backdrop.name}
    if what in _DETAILS:
        field, choices = _DETAILS[what]
        values[field] = choose(rng, choices)
    kind_of_predicate = BY_NAME[what]
    predicate: Predicate = kind_of_predicate(**{field: values[field] for field in kind_of_predicate.__struct_fields__})
    return predicate


def _absent(rng: np.random.Generator, kind: Kind) -> Kind:
    """Return the kind with one attribute exchanged: an absent kind differs little from a present one."""
    named = [field for field in POOLS if getattr(kind, field)] or ["shape"]
    field = choose(rng, named)
    return msgspec.structs.replace(kind, face="", **{field: choose(rng, POOLS[field])})


def true_predicates(
    rng: np.random.Generator, view: SceneView, count: int, names: Container[str] = BY_NAME, tries: int = 25
) -> list[Predicate]:
    """Return up to `count` different predicates, of these names, that hold of a scene, in the order they came up."""
    predicates: list[Predicate] = []
    for _ in range(tries * count):
        predicate = propose(rng, view)
        if name_of(predicate) in names and predicate not in predicates and predicate.verdict(view) is True:
            predicates.append(predicate)
            if len(predicates) == count:
                break
    return predicates


def compose(rng: np.random.Generator, predicates: Sequence[Predicate | Temporal]) -> str:
    """Return text that says the predicates in their order, in one or more sentences."""
    text = sentence(say(rng, predicates[0]))
    for predicate in predicates[1:]:
        joined = rng.random() < 0.6
        clause = say(rng, predicate, whole=joined)
        if joined:
            text = f"{text[:-1]}{choose(rng, (' and ', ', and ', ', '))}{clause}."
        else:
            text = f"{text} {sentence(clause)}"
    return text


def state(rng: np.random.Generator, predicates: Sequence[Predicate]) -> Statement:
    """Return a statement that says the predicates, in their order."""
    return Statement(compose(rng, predicates), tuple(predicates))


def _tableau(rng: np.random.Generator, view: SceneView) -> Statement | None:
    """Return a statement that lists the figures and the backdrop, as a caption of a photograph does."""
    if not view.clear:
        return None
    seen = [view.clear[i] for i in rng.permutation(len(view.clear))][: int(rng.integers(1, 5))]
    detailed = rng.random() < 0.3
    kinds = [full_kind(actor) if detailed else kind_of(rng, actor) for actor in seen]
    things = [a(noun(rng, kind)) for kind in kinds]
    text = things[0] if len(things) == 1 else f"{', '.join(things[:-1])} and {things[-1]}"
    predicates: list[Predicate] = [Shows(kind) for kind in kinds]
    if rng.random() < 0.6:
        text = f"{text} {choose(rng, BACKDROP_PHRASES[view.scene.backdrop.name])}"
        predicates.append(Before(view.scene.backdrop.name))
    return Statement(sentence(text), tuple(predicates))


def true_statements(scene: Scene, rng: np.random.Generator, count: int) -> list[Statement]:
    """Return `count` statements of different detail that are true of a scene; two may be alike if it has little to say.

    Some name one figure only, some all of them with the backdrop; others count, relate, place, compare, say what hides
    what, or say what is not there.
    """
    view = SceneView(scene)
    statements: list[Statement] = []
    while len(statements) < count:
        statement = _tableau(rng, view) if rng.random() < 0.35 else None
        if statement is None:
            details = 1 + int(np.searchsorted((0.5, 0.82), rng.random()))
            statement = state(rng, true_predicates(rng, view, details) or [Before(scene.backdrop.name)])
        statements.append(statement)
    return statements

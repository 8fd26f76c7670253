"""Statements: words together with the structure that decides whether they are true, of one scene or of one scene of a set alone."""

from collections.abc import Container, Iterable, Sequence

import msgspec
import numpy as np

from ctxr.synthetic.world.language import a, noun, say, sentence
from ctxr.synthetic.world.moments import TEMPORAL_BY_NAME, Moved, OfPredicate, Temporal, judge
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
    conjunction,
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
        return conjunction(predicate.verdict(view) for predicate in self.predicates)


def kind_of(rng: np.random.Generator, actor: Actor) -> Kind:
    """Return a kind that fits the actor, of random detail."""
    named = {field: getattr(actor, field) for field in choose(rng, _FIELDS)}
    if named.get("texture") == "plain" and rng.random() < 0.8:  # few people mention that something has no pattern
        named["texture"] = ""
    return Kind(**named)


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
        # an absent kind differs little from a present one
        field = choose(rng, [field for field in POOLS if getattr(kind, field)] or ["shape"])
        return Lacks(msgspec.structs.replace(kind, face="", **{field: choose(rng, POOLS[field])}))
    values = {"kind": kind, "other": second, "backdrop": scene.backdrop.name}
    if what in _DETAILS:
        field, choices = _DETAILS[what]
        values[field] = choose(rng, choices)
    kind_of_predicate = BY_NAME[what]
    predicate: Predicate = kind_of_predicate(**{field: values[field] for field in kind_of_predicate.__struct_fields__})
    return predicate


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


def _listing(rng: np.random.Generator, view: SceneView) -> Statement | None:
    """Return a statement that lists the figures and the backdrop, as captions of photos do."""
    if not view.clear:
        return None
    seen = [view.clear[i] for i in rng.permutation(len(view.clear))][: int(rng.integers(1, 5))]
    if rng.random() < 0.3:  # all of their looks
        textures = ["" if actor.texture == "plain" else actor.texture for actor in seen]
        looks = zip(seen, textures, strict=True)
        kinds = [Kind(actor.shape, actor.colour, actor.size, texture, actor.face) for actor, texture in looks]
    else:
        kinds = [kind_of(rng, actor) for actor in seen]
    things = [a(noun(rng, kind)) for kind in kinds]
    text = things[0] if len(things) == 1 else f"{', '.join(things[:-1])} and {things[-1]}"
    predicates: list[Predicate] = [Shows(kind) for kind in kinds]
    if rng.random() < 0.6:
        text = f"{text} {choose(rng, BACKDROP_PHRASES[view.scene.backdrop.name])}"
        predicates.append(Before(view.scene.backdrop.name))
    return Statement(sentence(text), tuple(predicates))


def true_statements(scene: Scene, rng: np.random.Generator, count: int) -> list[Statement]:
    """Return `count` statements of different detail that are true of a scene; two may be alike if it has little to say."""
    view = SceneView(scene)
    statements: list[Statement] = []
    while len(statements) < count:
        statement = _listing(rng, view) if rng.random() < 0.35 else None
        if statement is None:
            details = 1 + int(np.searchsorted((0.5, 0.82), rng.random()))
            statement = state(rng, true_predicates(rng, view, details) or [Before(scene.backdrop.name)])
        statements.append(statement)
    return statements


TAGS = ("context", "temporal", "quantities", "spatial", "negation", "visibility", "nuances")
"""Phenomena of descriptions, in the order of the benchmark's table (ImageCoDe, Table 2)."""

_SHOWN_BY = {
    "quantities": {"Counts", "AllAre"},
    "spatial": {"Beside", "Within", "Outermost", "Behind"},
    "negation": {"Lacks", "Apart", "NoLonger", "NotYet"},
    "visibility": {"Apart", "Behind", "CutOff", "Entire", "Hidden", "Appears", "Leaves", "NoLonger", "NotYet"},
    "nuances": {"Hidden", "Bigger"},
}
"""Names of the predicates that show a phenomenon."""

_CONTEXTUAL_WEIGHTS = {
    "Appears": 2, "Leaves": 2, "NoLonger": 1.5, "NotYet": 1, "FirstTime": 2, "LastTime": 1, "Now": 3, "Moved": 2,
}  # fmt: skip
_ROUNDS = 5  # of searching before a target is given up
_TRIES = 300  # predicates proposed in a round


def tags_of(predicates: Iterable[Predicate | Temporal]) -> tuple[str, ...]:
    """Return the phenomena of the predicates, in the order of `TAGS`."""
    tags: set[str] = set()
    for predicate in predicates:
        tags.update(tag for tag, names in _SHOWN_BY.items() if name_of(predicate) in names)
        if isinstance(predicate, Temporal):
            tags |= {"context", "temporal"}
        if isinstance(predicate, Counts) and predicate.number == 0:
            tags.add("negation")
        if isinstance(predicate, OfPredicate):
            tags.update(tags_of((predicate.predicate,)))
        if getattr(getattr(predicate, "kind", None), "face", ""):
            tags.add("nuances")
    return tuple(tag for tag in TAGS if tag in tags)


class Description(msgspec.Struct, frozen=True):
    """One or more English sentences about one scene of a set, the predicates that must all hold, and the phenomena (`TAGS`)."""

    text: str
    predicates: tuple[Predicate | Temporal, ...]
    tags: tuple[str, ...]

    def verdict(self, views: list[SceneView], index: int) -> Verdict:
        """Return True, False, or None where it is too close to call, of the scene at `index` of the set."""
        return conjunction(judge(predicate, views, index) for predicate in self.predicates)


def _temporal(rng: np.random.Generator, seen: list[SceneView], target: int) -> Temporal | None:
    """Return something that may be true of the target in the light of the scenes around it."""
    actors = [actor for view in seen[max(0, target - 2) : target + 3] for actor in view.scene.actors]
    if not actors:
        return None
    kind = kind_of(rng, choose(rng, actors))
    what = TEMPORAL_BY_NAME[choose(rng, tuple(_CONTEXTUAL_WEIGHTS), tuple(_CONTEXTUAL_WEIGHTS.values()))]
    if what is Moved:
        return Moved(kind, choose(rng, ("left", "right", "up", "down")))
    predicate: Temporal = what(propose(rng, seen[target]) if issubclass(what, OfPredicate) else kind)
    return predicate


def _gather(
    rng: np.random.Generator, seen: list[SceneView], target: int, ordered: bool, tried: set[Predicate | Temporal]
) -> list[tuple[Predicate | Temporal, int]]:
    """Return new predicates that hold for the target, each with the scenes for which it is false, as bits."""
    pool: list[tuple[Predicate | Temporal, int]] = []
    for _ in range(_TRIES):
        predicate: Predicate | Temporal | None
        if ordered and rng.random() < 0.4:
            predicate = _temporal(rng, seen, target)
        else:  # now and then that it lacks a kind seen in some scene
            actors = choose(rng, seen).scene.actors
            lacks = bool(actors) and rng.random() >= 0.7
            predicate = Lacks(kind_of(rng, choose(rng, actors))) if lacks else propose(rng, seen[target])
        if predicate is None or predicate in tried:
            continue
        tried.add(predicate)
        if judge(predicate, seen, target) is not True:
            continue
        out = sum(1 << i for i in range(len(seen)) if i != target and judge(predicate, seen, i) is False)
        if out:
            pool.append((predicate, out))
    return pool


def _covers(rng: np.random.Generator, pool: list[tuple[Predicate | Temporal, int]], goal: int) -> list[list[int]]:
    """Return selections of one to three of the pool that together rule out every other scene, shortest first."""
    order = [int(i) for i in rng.permutation(len(pool))]
    selections = [[i] for i in order if pool[i][1] == goal]
    for size in (2, 3):
        if len(selections) >= 12:
            break
        for first in order[:16]:
            chosen, left = [first], goal & ~pool[first][1]
            while left and len(chosen) < size:
                best = max(order, key=lambda i: (left & pool[i][1]).bit_count())
                if not left & pool[best][1]:
                    break
                chosen.append(best)
                left &= ~pool[best][1]
            if not left and len(chosen) == size:
                selections.append(chosen)
    return selections


def contextual_description(
    scenes: Sequence[Scene], target: int, rng: np.random.Generator, ordered: bool = False
) -> Description | None:
    """Text that holds for the target and no other scene of the set; None if none was found.

    One to three predicates, each ruling out some of the others, tell the target from them (ImageCoDe, section 3.2).
    """
    seen = [SceneView(scene) for scene in scenes]
    goal = (1 << len(seen)) - 1 - (1 << target)
    pool: list[tuple[Predicate | Temporal, int]] = []
    tried: set[Predicate | Temporal] = set()
    for _ in range(_ROUNDS):
        pool += _gather(rng, seen, target, ordered, tried)
        if selections := _covers(rng, pool, goal):
            break
    else:
        return None
    # prefer those that show many phenomena, but let chance have its say
    wanted = choose(rng, TAGS)
    scores = [
        (wanted in tags_of(pool[i][0] for i in chosen)) - 0.35 * len(chosen) + float(rng.random())
        for chosen in selections
    ]
    predicates = [pool[i][0] for i in selections[int(np.argmax(scores))]]
    if rng.random() < 0.25:
        extra: list[Predicate] = [Before(seen[target].scene.backdrop.name)]
        extra += true_predicates(rng, seen[target], 1)
        predicates.insert(0, choose(rng, extra))
    return Description(compose(rng, predicates), tuple(predicates), tags_of(predicates))

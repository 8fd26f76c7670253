"""Contextual descriptions: text that is true of one scene of a set and of no other."""

from collections.abc import Iterable, Sequence

import msgspec
import numpy as np

from ctxr.synthetic.world.moments import BY_NAME, FirstTime, LastTime, Moved, Now, Temporal, judge
from ctxr.synthetic.world.predicates import Before, Counts, Lacks, Predicate, Verdict, every, name_of
from ctxr.synthetic.world.scenes import Scene, choose
from ctxr.synthetic.world.sights import SceneView
from ctxr.synthetic.world.statements import compose, kind_of, propose, true_predicates

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

_WEIGHTS = {
    "Appears": 2, "Leaves": 2, "NoLonger": 1.5, "NotYet": 1, "FirstTime": 2, "LastTime": 1, "Now": 3, "Moved": 2,
}  # fmt: skip
_ROUNDS = 5  # of searching before a target is given up
_TRIES = 300  # predicates proposed in a round


def tags_of(predicates: Iterable[Predicate | Temporal]) -> tuple[str, ...]:
    """Return the phenomena of the predicates, in the order of `TAGS`.

    What is said in the light of other scenes is temporal and needs context; a face is a nuance.
    """
    tags: set[str] = set()
    for predicate in predicates:
        tags.update(tag for tag, names in _SHOWN_BY.items() if name_of(predicate) in names)
        if isinstance(predicate, Temporal):
            tags |= {"context", "temporal"}
        if isinstance(predicate, Counts) and predicate.number == 0:
            tags.add("negation")
        if isinstance(predicate, FirstTime | LastTime | Now):
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
        return every(judge(predicate, views, index) for predicate in self.predicates)


def _temporal(rng: np.random.Generator, seen: list[SceneView], target: int) -> Temporal | None:
    """Return something that may be true of the target in the light of the scenes around it."""
    actors = [actor for view in seen[max(0, target - 2) : target + 3] for actor in view.scene.actors]
    if not actors:
        return None
    kind = kind_of(rng, choose(rng, actors))
    name = choose(rng, tuple(_WEIGHTS), tuple(_WEIGHTS.values()))
    if name == "Moved":
        return Moved(kind, choose(rng, ("left", "right", "up", "down")))
    return BY_NAME[name](propose(rng, seen[target]) if name in ("FirstTime", "LastTime", "Now") else kind)


def _from_neighbour(rng: np.random.Generator, seen: list[SceneView], target: int) -> Predicate:
    """Return something that may be true of the target because it is not of another scene: a kind only seen there."""
    actors = choose(rng, seen).scene.actors
    if not actors or rng.random() < 0.7:
        return propose(rng, seen[target])
    return Lacks(kind_of(rng, choose(rng, actors)))


def _gather(
    rng: np.random.Generator, seen: list[SceneView], target: int, ordered: bool, tried: set[Predicate | Temporal]
) -> list[tuple[Predicate | Temporal, int]]:
    """Return new predicates that hold for the target, each with the scenes for which it is false, as bits."""
    pool: list[tuple[Predicate | Temporal, int]] = []
    for _ in range(_TRIES):
        temporal = ordered and rng.random() < 0.4
        predicate = _temporal(rng, seen, target) if temporal else _from_neighbour(rng, seen, target)
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
    """Return text that holds for the target and for no other scene of the set, or None if none was found.

    It says enough to tell the target from the others, not all that differs (ImageCoDe, section 3.2): one to three
    predicates, each of them ruling out some of the others.
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

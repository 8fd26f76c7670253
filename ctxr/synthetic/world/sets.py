"""Sets of ten scenes without an encoder: a shot sampled in time, or neighbours of one scene."""

from collections.abc import Iterator
from typing import Literal

import msgspec
import numpy as np

from ctxr.synthetic.world.outlines import FACED, SHAPES
from ctxr.synthetic.world.scenes import (
    COLOURS,
    FACES,
    SIZES,
    TEXTURES,
    Actor,
    Scene,
    choose,
    gap,
    placed,
    positioned,
    reach_of,
    sample_actor,
    sample_scene,
)
from ctxr.synthetic.world.shots import sample_shot

SIZE = 10


class SceneSet(msgspec.Struct, frozen=True):
    """Ten scenes considered together; `ordered` where they follow each other in time."""

    scenes: tuple[Scene, ...]
    ordered: bool


def _recoloured(rng: np.random.Generator, actor: Actor) -> Actor:
    what = choose(rng, ("colour", "texture", "shape", "size", "face"))
    pools = {
        "colour": COLOURS,
        "texture": () if actor.face else TEXTURES,
        "face": FACES if actor.face else (),
    }
    if pool := pools.get(what):
        other = choose(rng, [name for name in pool if name != getattr(actor, what)])
        return msgspec.structs.replace(actor, **{what: other})
    if what == "size":
        size = choose(rng, [s for s in SIZES if s != actor.size])
        return msgspec.structs.replace(actor, radius=round(float(rng.uniform(*SIZES[size])), 4))
    shape = choose(rng, [s for s in SHAPES if s != actor.shape])
    return msgspec.structs.replace(actor, shape=shape, face=actor.face if shape in FACED else "")


def neighbour(rng: np.random.Generator, scene: Scene) -> Scene:
    """Return the scene with one small change: an actor moved, changed, added, removed, or the order of depth turned."""
    actors = list(scene.actors)
    reach = reach_of(scene.aspect)
    edit = choose(rng, ("move", "change", "add", "remove", "depth"), (4, 3, 1.5, 1.5, 1.5))
    if not actors or (edit == "add" and len(actors) < 6):
        like = choose(rng, actors) if actors and rng.random() < 0.5 else None
        name = next(f"a{i}" for i in range(len(actors) + 1) if all(actor.name != f"a{i}" for actor in actors))
        added = positioned(rng, sample_actor(rng, name, like), actors, reach)
        actors.insert(int(rng.integers(len(actors) + 1)), added)
        return msgspec.structs.replace(scene, actors=tuple(actors))
    index = int(rng.integers(len(actors)))
    others = actors[:index] + actors[index + 1 :]
    if edit == "remove" and others:
        actors = others
    elif edit == "depth" and any(gap(actors[index], other, reach) < -0.03 for other in others):
        actors = [*others, actors[index]] if index + 1 < len(actors) else [actors[index], *others]
    elif edit == "change":
        actors[index] = _recoloured(rng, actors[index])
    else:
        actors[index] = placed(rng, actors[index], others, reach, overlap=0.4, edge=0.2)
    return msgspec.structs.replace(scene, actors=tuple(actors))


def neighbours(rng: np.random.Generator, base: Scene, count: int) -> list[Scene]:
    """`count` different scenes, each one or two small changes and a slightly different stand away from the base."""
    scenes: list[Scene] = []
    while len(scenes) < count:
        scene = neighbour(rng, base)
        if rng.random() < 0.5:
            scene = neighbour(rng, scene)
        if all(scene.actors != other.actors for other in (base, *scenes)):
            dx, dy, dz = (float(v) for v in rng.uniform(-0.06, 0.06, 3))
            light = round(scene.light * float(rng.uniform(0.97, 1.03)), 3)
            behind = scene.backdrop.moved(dx, dy, dz, 4)
            scenes.append(msgspec.structs.replace(scene, backdrop=behind, light=light))
    return scenes


def unlike(a: Scene, b: Scene) -> float:
    """Return how far two scenes of one shot are apart: 0 for equal ones; an actor's coming or going counts as 1."""
    first, second = ({actor.name: actor for actor in scene.actors} for scene in (a, b))
    total = 0.0
    for name in {**first, **second}:
        if name in first and name in second:
            one, two = first[name], second[name]
            total += min(1.0, abs(one.x - two.x) + abs(one.y - two.y)) + 0.3 * (one.face != two.face)
        else:
            total += 1.0
    return total + abs(a.backdrop.x - b.backdrop.x) + abs(a.backdrop.y - b.backdrop.y)


def sample_sets(
    rng: np.random.Generator, count: int, kind: Literal["video", "photos"] = "video", aspect: float = 1.0
) -> Iterator[SceneSet]:
    """Yield `count` sets of ten scenes: ten moments of one shot, or a scene and nine near neighbours. `aspect` is width / height."""
    for _ in range(count):
        if kind == "video":
            shot = sample_shot(rng, float(rng.uniform(3.0, 9.0)), aspect)
            # unlike each other as the build's selection does: the first by chance, each next one the farthest from all chosen ones
            scenes = [shot.at(float(time)) for time in np.sort(rng.uniform(0.0, shot.seconds, 4 * SIZE))]
            chosen = [int(rng.integers(len(scenes)))]
            nearest = [unlike(scenes[chosen[0]], scene) for scene in scenes]
            while len(chosen) < SIZE:
                chosen.append(int(np.argmax(nearest)))
                nearest = [min(old, unlike(scenes[chosen[-1]], one)) for old, one in zip(nearest, scenes, strict=True)]
                for index in chosen:
                    nearest[index] = -1.0
            yield SceneSet(tuple(scenes[index] for index in sorted(chosen)), ordered=True)
        else:
            base = sample_scene(rng, aspect)
            scenes = [base, *neighbours(rng, base, SIZE - 1)]
            yield SceneSet(tuple(scenes[i] for i in rng.permutation(SIZE)), ordered=False)

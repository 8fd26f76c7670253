"""What ctxr-tiny learns from: pictures of the toy world with captions, in pairs of near neighbours."""

import math
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context

import msgspec
import numpy as np

from ctxr.synthetic.world.backdrops import BACKDROPS, window
from ctxr.synthetic.world.drawing import render
from ctxr.synthetic.world.outlines import FACED, SHAPES
from ctxr.synthetic.world.scenes import COLOURS, SIZES, TEXTURES, Scene, choose, sample_scene
from ctxr.synthetic.world.statements import true_statements

ASPECTS = (1.0, 4 / 3, 16 / 9, 16 / 9, 3 / 4)
"""Width / height of the scenes: the encoder squashes every picture to a square, so it has to see squashed ones."""

CHUNK = 500  # pictures per task of a worker: a chunk has its own seed, so the number of workers changes nothing


@dataclass(frozen=True)
class Pool:
    """Pictures in pairs: 2n and 2n+1 differ by one visible change.

    Attributes:
        pictures: uint8 RGB [N, size, size, 3].
        texts: C captions for each picture; empty for photographs.
    """

    pictures: np.ndarray
    texts: list[list[str]]


def vary(rng: np.random.Generator, scene: Scene) -> Scene:
    """The scene after one change that people would see.

    An actor has moved by more than half its size, has left, has come, has become another, has other looks, or the
    backdrop has panned by a fifth.
    """
    actors = list(scene.actors)
    index = int(rng.integers(len(actors)))
    actor = actors[index]
    others = actors[:index] + actors[index + 1 :]
    reach = reaches(scene)
    change = choose(
        rng, ("move", "leave", "come", "colour", "shape", "texture", "size", "pan"), (5, 2, 2, 2, 2, 1, 1, 1)
    )
    if change == "leave" and others:
        return msgspec.structs.replace(scene, actors=tuple(others))
    if change == "come":
        newcomer = msgspec.structs.replace(sample_scene(rng, scene.aspect).actors[0], name="newcomer")
        return msgspec.structs.replace(scene, actors=(*actors, newcomer))
    if change == "pan":
        backdrop = scene.backdrop
        moved = msgspec.structs.replace(backdrop, x=(backdrop.x + 0.5) % 1.0, zoom=max(backdrop.zoom, 1.3))
        return msgspec.structs.replace(scene, backdrop=moved)
    if change == "colour":
        actor = msgspec.structs.replace(actor, colour=choose(rng, tuple(COLOURS)))
    elif change == "shape":
        shape = choose(rng, SHAPES)
        actor = msgspec.structs.replace(actor, shape=shape, face=actor.face if shape in FACED else "")
    elif change == "texture" and not actor.face:
        actor = msgspec.structs.replace(actor, texture=choose(rng, TEXTURES))
    elif change == "size":
        low, high = SIZES[choose(rng, tuple(SIZES))]
        actor = msgspec.structs.replace(actor, radius=round(float(rng.uniform(low, high)), 4))
    if actor == actors[index]:
        while True:
            x, y = (float(v) for v in rng.uniform((0.05, 0.05), (0.95, 0.95)))
            if math.hypot((x - actor.x) / reach[0], (y - actor.y) / reach[1]) > actor.radius:
                break
        actor = actor.moved(round(x, 4), round(y, 4))
    return msgspec.structs.replace(scene, actors=(*actors[:index], actor, *actors[index + 1 :]))


def reaches(scene: Scene) -> tuple[float, float]:
    """The shorter side of the frame as a share of (width, height)."""
    return min(1.0, 1.0 / scene.aspect), min(1.0, scene.aspect)


def drawn(rng: np.random.Generator, scene: Scene, size: int) -> np.ndarray:
    """The scene drawn at a random size and squashed to a square as the encoder does it, uint8 [size, size, 3]."""
    short = int(rng.integers(size + size // 4, 3 * size))
    width, height = round(short * max(1.0, scene.aspect)), round(short * max(1.0, 1 / scene.aspect))
    return squashed(render(scene, width, height), size)


def squashed(picture: np.ndarray, size: int) -> np.ndarray:
    """The picture as a square, resized like `ctxr.models.preprocess` does it."""
    import torch

    tensor = torch.from_numpy(picture).permute(2, 0, 1).unsqueeze(0)
    resized = torch.nn.functional.interpolate(tensor, size=(size, size), mode="bicubic", antialias=True)
    return np.asarray(resized[0].permute(1, 2, 0).numpy())


def _photo_pair(rng: np.random.Generator, size: int) -> Iterator[np.ndarray]:
    """Two windows of one photograph that show visibly different parts, in random colours."""
    name = choose(rng, tuple(BACKDROPS))
    x, y, zoom = (float(v) for v in rng.uniform((0, 0, 1.0), (1, 1, 3.0)))
    mirrored = bool(rng.random() < 0.5)
    gain, lift = rng.uniform(0.7, 1.2, 3), rng.uniform(-20, 20, 3)
    mix = np.eye(3)[rng.permutation(3)] if rng.random() < 0.5 else np.eye(3)
    side = int(rng.integers(size + size // 4, 3 * size))
    turned = float(rng.uniform(0, 2 * math.pi))
    step = float(rng.uniform(0.12, 0.4)) / zoom
    windows = (
        (x, y, zoom),
        (x + step * math.cos(turned), y + step * math.sin(turned), zoom * float(rng.uniform(0.8, 1.25))),
    )
    for across, down, near in windows:
        inside = (min(max(across, 0.0), 1.0), min(max(down, 0.0), 1.0), max(1.0, near))
        picture = window(name, *inside, mirrored, width=side * 4 // 3, height=side)
        coloured = (picture.astype(np.float32) @ mix.astype(np.float32)) * gain.astype(np.float32) + lift.astype(
            np.float32
        )
        yield squashed(coloured.clip(0, 255).astype(np.uint8), size)


def _chunk(seed: int, index: int, size: int, count: int, texts: int) -> Pool:
    """One chunk of a pool; `texts` = 0 gives photographs."""
    import torch

    torch.set_num_threads(1)
    rng = np.random.default_rng((seed, index, texts))
    pictures: list[np.ndarray] = []
    said: list[list[str]] = []
    while len(pictures) < count:
        if not texts:
            pictures.extend(_photo_pair(rng, size))
            continue
        scene = sample_scene(rng, ASPECTS[int(rng.integers(len(ASPECTS)))])
        for one in (scene, vary(rng, scene)):
            pictures.append(drawn(rng, one, size))
            said.append([statement.text for statement in true_statements(one, rng, texts)])
    return Pool(np.stack(pictures), said)


def make_pool(seed: int, size: int, count: int, texts: int, workers: int = 2) -> Pool:
    """`count` pictures (rounded up to whole chunks) of `size` pixels, the same for the same seed.

    Args:
        seed: the pool's seed: another seed gives other pictures.
        size: side of the square pictures in pixels.
        count: how many.
        texts: captions for each; 0 for windows of photographs.
        workers: processes that draw.
    """
    chunk = min(CHUNK, count + count % 2)
    tasks = [(seed, index, size, chunk, texts) for index in range(math.ceil(count / chunk))]
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as executor:
        parts = list(executor.map(_chunk, *zip(*tasks, strict=True)))
    return Pool(np.concatenate([part.pictures for part in parts]), [said for part in parts for said in part.texts])

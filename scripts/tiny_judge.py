"""What ctxr-tiny is worth on scenes it has not seen, and the distance at which two frames count as different."""

from collections.abc import Iterator
from typing import Literal

import cv2
import msgspec
import numpy as np

from ctxr.models.encoders import Encoder
from ctxr.synthetic.world.drawing import render
from ctxr.synthetic.world.scenes import Scene, sample_scene
from ctxr.synthetic.world.sets import sample_sets
from ctxr.synthetic.world.statements import contextual_description, true_statements
from scripts.tiny_pool import reaches, vary

HELD_OUT = 1_000_003  # added to the seed: these scenes are in no pool


def retrieval(encoder: Encoder, seed: int, scenes: int = 1000, texts: int = 5) -> dict[str, float]:
    """Share of captions whose picture is among the first K of `scenes` pictures, and in pairs of near neighbours.

    Args:
        encoder: what is judged.
        seed: of training; the scenes are others.
        scenes: how many pictures there are to choose from.
        texts: captions for each.
    """
    rng = np.random.default_rng(seed + HELD_OUT)
    drawn = [sample_scene(rng, 4 / 3) for _ in range(scenes)]
    said = [one.text for scene in drawn for one in true_statements(scene, rng, texts)]
    pictures = encoder.encode_images([render(scene, 320, 240) for scene in drawn])
    neighbours = encoder.encode_images([render(vary(rng, scene), 320, 240) for scene in drawn])
    vectors = encoder.encode_texts(said)
    own = np.repeat(np.arange(scenes), texts)
    scores = vectors @ pictures.T
    rightly = scores[np.arange(len(said)), own]
    rank = (scores > rightly[:, None]).sum(1)
    figures = {f"text to image R@{k} of {scenes}": float((rank < k).mean()) for k in (1, 5, 10)}
    backwards = np.argsort(-scores.T, axis=1)[:, :10]
    figures[f"image to text R@1 of {len(said)}"] = float((own[backwards[:, 0]] == np.arange(scenes)).mean())
    against = np.einsum("td,td->t", vectors, neighbours[own])
    figures["above its near neighbour"] = float((rightly > against).mean())
    return figures


def accuracy_in_sets(encoder: Encoder, seed: int, sets: int = 150) -> dict[str, float]:
    """Share of contextual descriptions whose target scores highest among the ten scenes of its set; by chance 10 %.

    Args:
        encoder: what is judged.
        seed: of training; the sets are others.
        sets: of each kind, with up to three described targets each (ImageCoDe, section 3.2).
    """
    figures = {}
    kinds: tuple[Literal["video", "photos"], ...] = ("video", "photos")
    for kind in kinds:
        rng = np.random.default_rng((seed + HELD_OUT, len(kind)))
        right = []
        for image_set in sample_sets(rng, sets, kind, 4 / 3):
            vectors = encoder.encode_images([render(scene, 320, 240) for scene in image_set.scenes])
            targets = rng.choice(10, 3, replace=False)
            told = [contextual_description(image_set.scenes, int(t), rng, image_set.ordered) for t in targets]
            pairs = [(int(target), one.text) for target, one in zip(targets, told, strict=True) if one is not None]
            if pairs:
                best = (encoder.encode_texts([text for _, text in pairs]) @ vectors.T).argmax(1)
                right += [int(pick) == target for pick, (target, _) in zip(best, pairs, strict=True)]
        figures[f"right of ten, {kind} sets ({len(right)} descriptions)"] = float(np.mean(right))
    return figures


def calibrate(encoder: Encoder, seed: int, pairs: int = 1000) -> dict[str, object]:
    """The threshold at which as many visible changes are missed as mere re-takes are taken for changes.

    CLIP's 0.35 keeps frames apart that people can tell apart; here the same is made of pairs of frames whose difference
    is known: a visible change (`tiny_pool.vary`: an actor moved by more than half its size, came, left, or looks
    different) against a re-take (compressed again, shifted by a pixel or two, slightly lighter, an actor almost still).

    Args:
        encoder: whose distances are meant.
        seed: of training; the scenes are others.
        pairs: of each kind.
    """
    rng = np.random.default_rng(seed + HELD_OUT + 1)
    first, changed, retaken = zip(*(_triple(rng) for _ in range(pairs)), strict=True)
    base, *others = (encoder.encode_images(list(frames)) for frames in (first, changed, retaken))
    visible, sensor = (np.linalg.norm(base - other, axis=1) for other in others)
    levels = np.sort(np.concatenate([visible, sensor]))
    missed = np.searchsorted(np.sort(visible), levels) / pairs
    false = 1 - np.searchsorted(np.sort(sensor), levels) / pairs
    equal = int(np.argmin(np.abs(missed - false)))
    return {
        "threshold": round(float(levels[equal]), 4),
        "calibration": "equal-error point between visible changes and re-takes of drawn frames",
        "error": round(float(max(missed[equal], false[equal])), 4),
        "visible": _quantiles(visible),
        "retaken": _quantiles(sensor),
    }


def _quantiles(distances: np.ndarray) -> dict[str, float]:
    return {f"{q}%": round(float(np.percentile(distances, q)), 4) for q in (5, 25, 50, 75, 95)}


def _triple(rng: np.random.Generator) -> Iterator[np.ndarray]:
    """A frame, the frame after a visible change, and the frame taken again: uint8 [360, 640, 3]."""
    scene = sample_scene(rng, 16 / 9)
    yield render(scene, 640, 360)
    yield _compressed(rng, render(vary(rng, scene), 640, 360))
    yield _retaken(rng, scene)


def _retaken(rng: np.random.Generator, scene: Scene) -> np.ndarray:
    """The scene again with nothing in it that people would call a change."""
    index = int(rng.integers(len(scene.actors)))
    actor = scene.actors[index]
    reach = reaches(scene)
    step = rng.uniform(-0.1, 0.1, 2) * actor.radius
    still = actor.moved(actor.x + float(step[0]) * reach[0], actor.y + float(step[1]) * reach[1])
    actors = (*scene.actors[:index], still, *scene.actors[index + 1 :])
    light = round(scene.light * float(rng.uniform(0.98, 1.02)), 4)
    picture = render(msgspec.structs.replace(scene, actors=actors, light=light), 640, 360)
    shift = np.array([[1, 0, rng.uniform(-2, 2)], [0, 1, rng.uniform(-2, 2)]], np.float32)
    picture = np.asarray(cv2.warpAffine(picture, shift, (640, 360), borderMode=cv2.BORDER_REPLICATE))
    return _compressed(rng, picture)


def _compressed(rng: np.random.Generator, picture: np.ndarray) -> np.ndarray:
    """The picture after a trip through JPEG."""
    quality = int(rng.integers(50, 96))
    done, coded = cv2.imencode(".jpg", picture, (cv2.IMWRITE_JPEG_QUALITY, quality))
    if not done:
        raise RuntimeError("OpenCV could not write a JPEG")
    return np.asarray(cv2.imdecode(coded, cv2.IMREAD_COLOR))

"""Drawn pictures that show the same and differ in where it stands, as Localized Narratives: said word by word while a mouse points."""

from collections.abc import Mapping
from itertools import permutations, product
from pathlib import Path

import numpy as np

from ctxr.media.images import encode_jpeg
from ctxr.store.atomic import write_bytes
from ctxr.store.tables import encode_row
from ctxr.synthetic.world.drawing import render
from ctxr.synthetic.world.language import a
from ctxr.synthetic.world.scenes import COLOURS, Actor, Backdrop, Scene

ACTORS, PLACES = 3, tuple(product((1 / 6, 1 / 2, 5 / 6), (1 / 4, 3 / 4)))
"""What a picture shows, and where it may stand: x and y as shares of the picture."""

_SHAPES = ("circle", "star", "heart", "house", "tree", "boat", "car", "mushroom", "umbrella", "cup")
_WORD, _STEP, _SLIP = 0.3, 0.02, 0.03
"""Seconds of a word and between two points; how far a hand misses, as a standard deviation."""


def write_narratives(folder: Path, counts: Mapping[str, int], seed: int, same: int = 8) -> None:
    """Write `drawn_SPLIT_localized_narratives.jsonl` and its pictures, unless it exists.

    Args:
        counts: pictures of each split. same: pictures in a row with the same things, each in another place.
    """
    for split, count in counts.items():
        file = folder / f"drawn_{split}_localized_narratives.jsonl"
        rng, rows = np.random.default_rng((seed, *split.encode())), []
        arrangements = [*permutations(range(len(PLACES)), ACTORS)]
        for picture in range(0 if file.is_file() else count):
            if picture % same == 0:
                shapes, colours = (rng.choice(names, ACTORS, replace=False).tolist() for names in (_SHAPES, [*COLOURS]))
                layouts = rng.permutation(len(arrangements))
            centres = [PLACES[place] for place in arrangements[layouts[picture % same]]]
            shown = list(zip(colours, shapes, centres, strict=True))
            rows.append(_narrative(rng, folder, f"{split}-{picture:05}", shown))
        if rows:
            write_bytes(file, b"".join(map(encode_row, rows)))


def _narrative(
    rng: np.random.Generator, folder: Path, name: str, shown: list[tuple[str, str, tuple[float, float]]]
) -> dict[str, object]:
    """Draw a picture; its line of the file."""
    actors = [
        Actor(shape, shape, colour, 0.19, *(np.array(centre) + rng.normal(0, 0.01, 2)).tolist())
        for colour, shape, centre in shown
    ]
    picture = render(Scene(tuple(actors), Backdrop("stone"), 1.5), 240, 160)
    write_bytes(folder / f"{name}.jpg", encode_jpeg(picture), durable=False)
    utterances, strokes, time = list[dict[str, object]](), [], 0.0
    for actor in (actors[place] for place in rng.permutation(ACTORS)):
        words = [*(["and"] if utterances else []), *a(f"{actor.colour} {actor.shape}").split()]
        turns = np.linspace(0, 2 * np.pi, round(len(words) * _WORD / _STEP))
        x, y = (np.array([actor.x, actor.y]) + rng.normal(0, _SLIP, 2)).tolist()
        circle = zip(
            x + 0.1 * np.cos(turns), y + 0.15 * np.sin(turns), time + _STEP * np.arange(len(turns)), strict=True
        )
        strokes.append([dict(zip("xyt", map(float, point), strict=True)) for point in circle])
        for word in words:
            utterances.append({"utterance": word, "start_time": time, "end_time": time + _WORD})
            time += _WORD
    caption = " ".join(str(one["utterance"]) for one in utterances)
    return {
        "dataset_id": f"drawn_{name.partition('-')[0]}", "image_id": name, "annotator_id": 0, "caption": caption,
        "timed_caption": utterances, "traces": strokes, "voice_recording": "",
    }  # fmt: skip

"""Descriptions by simulated workers, and the images for which they are true, from the scenes of the synthetic footage."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ctxr.datasets.dataset import Dataset
from ctxr.errors import DataError
from ctxr.store.records import ImageSet
from ctxr.synthetic.world.describing import contextual_description
from ctxr.synthetic.world.footage import World
from ctxr.synthetic.world.predicates import Verdict
from ctxr.synthetic.world.scenes import Scene
from ctxr.synthetic.world.sights import SceneView
from ctxr.synthetic.world.statements import true_statements

EMPTY = (
    ("nice", "good", "clear", "pretty", "normal", "lovely", "simple", "great", "plain", "fine"),
    ("view", "scene", "look", "place", "moment", "composition", "impression", "atmosphere", "background", "mood"),
    ("colours", "shapes", "things", "objects", "details", "parts", "forms", "tones", "elements", "lines"),
)
"""Words of a spammer, whose texts are long enough to be taken and true of everything."""


@dataclass(frozen=True)
class Saying:
    """A text and whether it is true of each image of its set, by image id; None if undecidable."""

    text: str
    verdicts: Mapping[str, Verdict]


class Scenes:
    """The scenes behind the images of sets that were built from a drawn world."""

    def __init__(self, world: World, dataset: Dataset) -> None:
        self._dataset = dataset
        self._frames = {(row.video, row.frame): row for row in world.frames}
        self._photos = {f"{row.album}/{row.photo}": row.scene for row in world.photos}
        self._world = world

    def of(self, image: str) -> Scene:
        """The scene that an image shows. Raises DataError for an image that is not of this world."""
        record = self._dataset.images.get(image)
        if record is not None and record.index is not None:
            row = self._frames.get((image.rpartition("/")[0], record.index))
            if row is not None:
                return self._world.scene(row)
        if image in self._photos:
            return self._photos[image]
        raise DataError(f"{image!r} is no image of the drawn world in {self._world.folder}")

    def describe(self, image_set: ImageSet, target: str, truly: bool, rng: np.random.Generator) -> Saying:
        """A text about `target`: one that picks it out, where one is found, else a true one; or, not `truly`, an empty one."""
        if not truly:
            return Saying(_nothing(rng), dict.fromkeys(image_set.images, None))
        scenes = [self.of(image) for image in image_set.images]
        seen = [SceneView(scene) for scene in scenes]
        position = image_set.images.index(target)
        description = contextual_description(scenes, position, rng, ordered=image_set.kind == "video")
        if description is not None:
            return Saying(
                description.text, _named(image_set.images, [description.verdict(seen, at) for at in range(len(seen))])
            )
        (statement, *_) = true_statements(scenes[position], rng, 1)
        return Saying(statement.text, _named(image_set.images, [statement.verdict(view) for view in seen]))


def _named(images: Sequence[str], verdicts: Sequence[Verdict]) -> dict[str, Verdict]:
    return dict(zip(images, verdicts, strict=True))


def _nothing(rng: np.random.Generator) -> str:
    quality, other = rng.choice(EMPTY[0], 2, replace=False)
    thing, part = rng.choice(EMPTY[1]), rng.choice(EMPTY[2])
    return f"A {quality} {thing} and some {other} {part} can be seen"

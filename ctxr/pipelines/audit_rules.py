"""The rules of `ctxr audit`: what each looks at, and the credit it gives every query."""

from collections.abc import Callable, Container, Iterator, Mapping

import numpy as np
import numpy.typing as npt

from ctxr.data.dataset import Dataset
from ctxr.data.records import Image
from ctxr.metrics.shortcuts import Asked, extreme_credits, learnt_credits, place_credits
from ctxr.models.looks import sharpness
from ctxr.pipelines.picture_vectors import open_pictures
from ctxr.pipelines.talk import Talk

Doubles = npt.NDArray[np.float64]
Rule = tuple[str, Doubles]

SEVERAL_CHOICES = ("position by length",)
"""Rules that may choose different images of one set for different descriptions."""


def asked_of(dataset: Dataset, worker: str) -> list[Asked]:
    """Each query with its target, in the order of judgments; sets of one image are left out: nobody can miss there."""
    found = []
    for query, image_set, target in dataset.targets(worker):
        if query.labels is None and len(image_set.images) > 1:
            words = sum(len(dataset.texts[name].text.split()) for name in query.texts)
            split = dataset.split_of(image_set)
            found.append(Asked(image_set.id, image_set.kind, split, len(image_set.images), target, words))
    return found


def rules(dataset: Dataset, asked: list[Asked], skip_pictures: bool, talk: Talk) -> Iterator[Rule | str]:
    """Each rule with its credits [Q], or the sentence that says why it cannot be tried."""
    yield "first image", place_credits(asked, last=False)
    yield "last image", place_credits(asked, last=True)
    for name, by_length in (("commonest position", False), ("position by length", True)):
        credits = learnt_credits(asked, by_length)
        yield (name, credits) if (~np.isnan(credits)).any() else f"{name}: there is no other set to learn from"
    wanted = {query.image_set for query in asked}
    brisque = _measure(dataset, wanted, lambda image: _brisque(dataset, image))
    yield from _both_ends(
        ("least", "most"), "distorted (BRISQUE)", asked, brisque, "nobody measured BRISQUE (ctxr filter does)"
    )
    if skip_pictures:
        yield "sharpness and file size: pictures were not opened"
        return
    why = "no set has all its pictures at hand"
    sizes = _measure(dataset, wanted, lambda image: _bytes(dataset, image))
    yield from _both_ends(("smallest", "largest"), "file", asked, sizes, why)
    wanted_images = {name for one in dataset.sets if one.id in sizes for name in one.images}
    files = {name: file for name in wanted_images if (file := dataset.picture(dataset.images[name])) is not None}
    with open_pictures(files, "sharpness", talk) as opened:
        seen = {name: sharpness(pixels) for name, pixels in opened}
    sharpnesses = _measure(dataset, sizes.keys(), lambda image: seen.get(image.id, np.nan))
    yield from _both_ends(("blurriest", "sharpest"), "image (Laplacian)", asked, sharpnesses, why)


def _both_ends(
    ends: tuple[str, str], what: str, asked: list[Asked], values: Mapping[str, Doubles], why: str
) -> Iterator[Rule | str]:
    if not values:
        yield f"{ends[0]} and {ends[1]} {what}: {why}"
        return
    for end, largest in zip(ends, (False, True), strict=True):
        yield f"{end} {what}", extreme_credits(asked, values, largest)
    without = len({query.image_set for query in asked} - values.keys())
    if without:
        yield f"{ends[0]} and {ends[1]} {what}: {without} sets are left out (not every image has a value)"


def _measure(dataset: Dataset, wanted: Container[str], value: Callable[[Image], float]) -> dict[str, Doubles]:
    """A value for each image of each set whose images all have one."""
    found: dict[str, Doubles] = {}
    for one in dataset.sets:
        if one.id in wanted:
            numbers = np.array([value(dataset.images[name]) for name in one.images])
            if not np.isnan(numbers).any():
                found[one.id] = numbers
    return found


def _brisque(dataset: Dataset, image: Image) -> float:
    facts = dataset.facts.get(image.id)
    return np.nan if facts is None or facts.brisque is None else facts.brisque


def _bytes(dataset: Dataset, image: Image) -> float:
    file = dataset.picture(image)
    try:
        return np.nan if file is None else float(file.stat().st_size)
    except OSError:
        return np.nan

"""Whether the images of sets stand in the order that targets count in: what `ctxr doctor DATASET` says about order.

A public copy of ImageCoDe was made with frames sorted by their names as text, img10 before img2, so that targets pointed at
other frames; every figure measured on it is wrong (specs A0.1). Numbers and names tell it without a model; where a copy was
numbered anew, only the scores of a model whose accuracy is known still do.
"""

import re
from collections.abc import Iterator
from pathlib import Path

from ctxr.data.artifacts import MANIFEST
from ctxr.data.dataset import Dataset
from ctxr.data.readers.frames import frame_number, in_string_order
from ctxr.data.readers.imagecode import DESCRIPTIONS
from ctxr.data.records import Image, ImageSet
from ctxr.pipelines.check_artifact import Check

KINDS = ("image_sets", "dataset")
"""Kinds of artifacts that hold sets."""

SURE = 0.05
"""Level of the tests."""

CURE = "sort the pictures of each set by the number in their names, img2 before img10, and make the dataset again"


def holds_sets(path: Path) -> bool:
    """Whether a folder is an artifact with sets, or a published release."""
    from ctxr.data.artifacts import open_artifact

    if not path.is_dir():
        return bool(DESCRIPTIONS.fullmatch(path.name))
    if any(DESCRIPTIONS.fullmatch(file.name) for file in path.iterdir()):
        return True
    return (path / MANIFEST).is_file() and open_artifact(path).manifest.kind in KINDS


def check_order(dataset: Dataset) -> Iterator[Check]:
    """Frame numbers and target positions."""
    numbers = {one.id: found for one in dataset.sets if (found := numbers_of(dataset, one)) is not None}
    yield _check_numbers(dataset, numbers)
    yield from _check_targets(dataset, numbers)


def numbers_of(dataset: Dataset, image_set: ImageSet) -> list[int] | None:
    """The numbers of a set's frames in its order, from their names, else as recorded; None where they have none of both."""
    images = [dataset.images[name] for name in image_set.images]
    named = [_named(image) for image in images]
    found = named if None not in named else [image.index for image in images]
    known = [number for number in found if number is not None]
    return known if len(known) == len(images) == len(set(known)) else None


def _named(image: Image) -> int | None:
    """The number in `img37.jpg`, the last part of an image's path or id."""
    last = (image.path or image.id).rpartition("/")[2]
    return frame_number(last if "." in last else f"{last}.jpg")


def _check_numbers(dataset: Dataset, numbers: dict[str, list[int]]) -> Check:
    videos = {one.id for one in dataset.sets if one.kind == "video"}
    falling = {name: found for name, found in numbers.items() if name in videos and found != sorted(found)}
    as_text = [name for name, found in falling.items() if in_string_order(found)]
    mixed = [name for name in falling if name not in as_text]
    if as_text:
        first = as_text[0]
        detail = (
            f"{len(as_text)} of {len(videos)} sets of video are sorted by name as text, "
            f"{_listed(numbers[first])} in {first}: targets that count by number point at other images"
        )
        return Check("order of frames", "problem", detail, CURE)
    if mixed:
        detail = f"{len(mixed)} sets of video have frames whose numbers do not ascend, {_listed(numbers[mixed[0]])} in {mixed[0]}"
        return Check("order of frames", "problem", detail, CURE)
    known = len(videos & numbers.keys())
    if videos and not known:
        return Check("order of frames", "note", f"none of {len(videos)} sets of video says the numbers of its frames")
    return Check("order of frames", "ok", f"numbers ascend in {known} of {len(videos)} sets of video")


def _listed(numbers: list[int]) -> str:
    """The numbers around the first place where they fall."""
    falls = next(place for place in range(1, len(numbers)) if numbers[place] < numbers[place - 1])
    return f"{numbers[falls - 1]} before {numbers[falls]}"


def _check_targets(dataset: Dataset, numbers: dict[str, list[int]]) -> Iterator[Check]:
    """Ids of queries that end in a position, as those of the release do, against the places of their targets."""
    named, as_set, by_number = 0, 0, 0
    for query, image_set, place in dataset.targets():
        found = re.fullmatch(re.escape(image_set.id) + r"/(\d{1,6})", query.id)
        if found is None or image_set.id not in numbers:
            continue
        own = numbers[image_set.id]
        named += 1
        as_set += int(found[1]) == place
        by_number += int(found[1]) == sorted(own).index(own[place])
    if not named:
        return
    if as_set < named and by_number == named:
        detail = (
            f"{named - as_set} of {named} targets have the position of their id by number and another one in their set"
        )
        yield Check("targets", "problem", detail, CURE)
    elif as_set == named:
        yield Check("targets", "ok", f"{named} targets stand at the position that their query names")

"""Whether the images of sets stand in the order that targets count in: what `ctxr doctor DATASET` says about order.

A public copy of ImageCoDe was made with frames sorted by their names as text, img10 before img2, so that targets pointed at
other frames; every figure measured on it is wrong (specs A0.1). Numbers and names tell it without a model; where a copy was
numbered anew, only the pictures themselves, or the scores of a model whose accuracy is known, still do.
"""

import math
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ctxr.data.artifacts import MANIFEST
from ctxr.data.dataset import Dataset
from ctxr.data.embeddings import pairwise_distances
from ctxr.data.readers.frames import frame_number, in_string_order
from ctxr.data.readers.imagecode import DESCRIPTIONS
from ctxr.data.records import Image, ImageSet
from ctxr.metrics.orders import Neighbours, arch_test, displaced, neighbour_test, seam_test, tear
from ctxr.metrics.votes import Doubles
from ctxr.pipelines.check_artifact import Check
from ctxr.pipelines.picture_vectors import PictureVectors, vectors_of
from ctxr.pipelines.talk import Talk

if TYPE_CHECKING:
    from ctxr.models.encode import Encoder

KINDS = ("image_sets", "dataset")
"""Kinds of artifacts that hold sets."""

MOST_SETS = 400
"""Sets of video that are embedded where the artifact holds no vectors; more would make p-values smaller and nothing clearer."""

LEAST_SETS = 20
"""With fewer sets of video nothing is said against an order from the looks of its pictures."""

MANY = 0.2
"""Share of sets that look out of order from which it is worth a look; sets in which little moves look so as well."""

SURE = 0.05

PROVED = 0.01
"""Level at which pictures lie along a curve: only then does it accuse an order that it does not follow them."""

TORN = 0.2
"""A `tear` from which sets were cut: pictures in no order at all have 0.15, drawn films that were cut 0.26, a steady drift 0.6."""

OTHERWISE = "ctxr doctor --scores FILE tells whether targets fit another order better"
CURE = "sort the pictures of each set by the number in their names, img2 before img10, and make the dataset again"


def holds_sets(path: Path) -> bool:
    """Whether a folder is an artifact with sets, or a published release."""
    from ctxr.data.artifacts import open_artifact

    if not path.is_dir():
        return bool(DESCRIPTIONS.fullmatch(path.name))
    if any(DESCRIPTIONS.fullmatch(file.name) for file in path.iterdir()):
        return True
    return (path / MANIFEST).is_file() and open_artifact(path).manifest.kind in KINDS


def check_order(dataset: Dataset, encoder: str, device: str, workdir: Path, seed: int, talk: Talk) -> Iterator[Check]:
    """Frame numbers, target positions, and whether neighbouring frames are the ones that look alike.

    Args:
        encoder: embeds frames where the artifact holds no vectors; "" leaves their looks out.
        workdir: folder whose cache keeps the vectors, where it can. seed: of random orders.
    """
    numbers = {one.id: found for one in dataset.sets if (found := numbers_of(dataset, one)) is not None}
    yield _check_numbers(dataset, numbers)
    yield from _check_targets(dataset, numbers)
    videos = [one for one in dataset.sets if one.kind == "video" and len(one.images) > 2]
    if not videos:
        return
    if not any(dataset.picture(dataset.images[name]) for one in videos for name in one.images):
        yield Check("frames in time", "note", "no pictures here: only numbers and targets could be looked at")
    elif encoder:
        yield _check_looks(dataset, videos, encoder, device, workdir, seed, talk)


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


def _check_looks(
    dataset: Dataset, videos: list[ImageSet], encoder: str, device: str, workdir: Path, seed: int, talk: Talk
) -> Check:
    rng = np.random.default_rng(seed)
    chosen = sorted(rng.permutation(len(videos))[:MOST_SETS].tolist())
    sample = [videos[place] for place in chosen]
    vectors = vectors_of(dataset, None, device, talk) or _embedded(dataset, sample, encoder, device, workdir, talk)
    distances: list[Doubles] = []
    for one in sample:
        if all(name in vectors.rows for name in one.images):
            rows = vectors.matrix[[vectors.rows[name] for name in one.images]]
            distances.append(np.asarray(pairwise_distances(rows), np.float64))
    return judged(distances, vectors.encoder, rng)


def judged(distances: list[Doubles], encoder: str, rng: np.random.Generator) -> Check:
    """What the distances [K, K] within sets of video, in their order, say about that order."""
    name, count = "frames in time", len(distances)
    if not count:
        return Check(name, "note", "no set of video has all of its pictures here: their looks say nothing")
    neighbours, seam = neighbour_test(distances, rng), seam_test(distances, rng)
    lost = displaced(distances)
    told = f"{_told(neighbours, count, encoder)}; about {lost} look shuffled or cut"
    if count < LEAST_SETS:
        return Check(name, "ok", f"{told}; {count} sets are too few to say more")
    if neighbours.p > SURE:
        if arch_test(distances, rng) > PROVED:
            return Check(name, "note", f"{told}: their pictures show no drift, in this order or another", OTHERWISE)
        return Check(name, "problem", f"{told}, though they drift: their order looks shuffled", CURE)
    if seam > SURE:
        detail = f"{told}, but the last frame is no farther from the first than neighbours are (p {seam:.2g})"
        if tear(distances) <= TORN:
            return Check(name, "note", f"{detail}, as in scenes that come back", OTHERWISE)
        return Check(name, "problem", f"{detail}: sets look cut in two and put together the wrong way round", CURE)
    if lost > MANY * count:
        return Check(name, "note", told, OTHERWISE)
    return Check(name, "ok", told)


def _told(neighbours: Neighbours, count: int, encoder: str) -> str:
    share = 100 * (1 - neighbours.ratio)
    like = f"neighbours are {abs(share):.0f} % {'closer' if share >= 0 else 'farther apart'} than random pairs"
    return f"{like} of {count} sets ({encoder}, p {neighbours.p:.2g})"


def _embedded(
    dataset: Dataset, sets: list[ImageSet], encoder: str, device: str, workdir: Path, talk: Talk
) -> PictureVectors:
    """Vectors of the frames of some sets, from the cache or kept in it; sets that lack a picture are left out."""
    from ctxr.models.encode import load_encoder
    from ctxr.pipelines.training.asked import contents_of
    from ctxr.pipelines.training.encoded import PictureFiles, embedded_pictures

    files: dict[str, Path] = {}
    for one in sets:
        own = {name: dataset.picture(dataset.images[name]) for name in one.images}
        there = {name: file for name, file in own.items() if file is not None and file.is_file()}
        if len(there) == len(own):
            files |= there
    model: Encoder = load_encoder(encoder, device, warn=talk.warn)
    names = sorted(files)
    files = {name: files[name] for name in names}
    matrix = embedded_pictures(PictureFiles(files, contents_of(dataset, files), workdir), model, talk, keep=False)
    threshold = model.threshold if math.isfinite(model.threshold) else 0.0
    return PictureVectors(model.name, threshold, {name: row for row, name in enumerate(names)}, matrix)

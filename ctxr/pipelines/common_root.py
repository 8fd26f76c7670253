"""Pictures of several artifacts under one root, so that a table names each by one path."""

import os
from collections.abc import Iterable
from pathlib import Path

import msgspec

from ctxr.data.records import Image
from ctxr.errors import DataError


def under_one_root(parts: Iterable[tuple[Path, Iterable[Image]]]) -> tuple[Path, dict[str, Image]]:
    """The lowest folder that holds all roots, and the images by id with paths relative to it.

    The first of several equal pictures counts. Raises DataError for two pictures of one id, or for no root at all.
    """
    listed = [(root.resolve(), list(images)) for root, images in parts]
    if not listed:
        raise DataError("there are no pictures")
    common = Path(os.path.commonpath([root for root, _ in listed]))
    found: dict[str, Image] = {}
    for root, images in listed:
        way = root.relative_to(common)
        for image in images:
            moved = msgspec.structs.replace(image, path=(way / image.path).as_posix())
            if found.setdefault(image.id, moved).sha256 != image.sha256:
                raise DataError(
                    f"the image {image.id!r} is one picture in {found[image.id].path} and another in {moved.path}",
                    hint="ask about one version of the sets only",
                )
    return common, found

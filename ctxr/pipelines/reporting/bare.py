"""Units out of an artifact's own tables, where there are none on disk: an artifact that was rebuilt has no other."""

from collections import defaultdict
from pathlib import Path

import numpy as np

from ctxr.data.records import Facts, Image, ImageSet, Shot, Source
from ctxr.data.tables import read_table
from ctxr.data.units import Stamp, Unit
from ctxr.errors import DataError


def bare_units(path: Path) -> tuple[Unit, ...]:
    """A unit for each source, by name, without ledger and without embeddings: neither is told by the tables.

    Raises DataError naming the file for a damaged table, and for a set of a source or an image that is in no table.
    """
    images = {image.id: image for image in read_table(path / "images.jsonl", Image)}
    sources = {source.name: source for source in read_table(path / "sources.jsonl", Source)}
    sets: dict[str, list[ImageSet]] = defaultdict(list)
    for image_set in read_table(path / "sets.jsonl", ImageSet):
        missing = next((name for name in image_set.images if name not in images), None)
        if image_set.source not in sources or missing is not None:
            what = f"the source {image_set.source!r}" if missing is None else f"the image {missing!r}"
            raise DataError(
                f"{path / 'sets.jsonl'}: the set {image_set.id} names {what}, which no table has",
                hint=f"restore {path}, or make it again",
            )
        sets[image_set.source].append(image_set)
    facts: dict[str, list[Facts]] = defaultdict(list)
    for row in read_table(path / "facts.jsonl", Facts):
        facts[row.source].append(row)
    shots: dict[str, list[Shot]] = defaultdict(list)
    for shot in read_table(path / "shots.jsonl", Shot):
        shots[shot.source].append(shot)
    none = np.zeros((0, 1), np.float32)
    return tuple(
        Unit(
            stamp=Stamp("", "", {}),
            source=source,
            shots=shots[name],
            ledger=[],
            facts=facts[name],
            sets=sets[name],
            images=[images[one] for one in sorted({one for row in sets[name] for one in row.images})],
            vectors=none,
            exact=none,
        )
        for name, source in sorted(sources.items())
    )

"""Units out of a dataset's own tables, where there are none on disk: of what was rebuilt, described or published by others."""

from collections import defaultdict

import numpy as np

from ctxr.data.dataset import Dataset
from ctxr.data.records import Facts, Image, ImageSet, Source
from ctxr.data.units import SourceUnit, Stamp


def bare_units(dataset: Dataset) -> tuple[SourceUnit, ...]:
    """A unit for each source, by name, without ledger and without embeddings: neither is told by the tables.

    A source that no table describes is known by its name alone; its kind is that of its first set.
    """
    sets: dict[str, list[ImageSet]] = defaultdict(list)
    for image_set in dataset.sets:
        sets[image_set.source].append(image_set)
    facts: dict[str, list[Facts]] = defaultdict(list)
    for row in dataset.facts.values():
        facts[row.source].append(row)
    images = {name: _images(dataset, held) for name, held in sets.items()}
    sources = {name: Source(name, held[0].kind, "", "", 0, frames=len(images[name])) for name, held in sets.items()}
    sources |= {source.name: source for source in dataset.sources}
    none = np.zeros((0, 1), np.float32)
    return tuple(
        SourceUnit(
            stamp=Stamp("", "", {}),
            source=source,
            shots=[],
            ledger=[],
            facts=facts[name],
            sets=sets[name],
            images=images.get(name, []),
            vectors=none,
            exact=none,
        )
        for name, source in sorted(sources.items())
    )


def _images(dataset: Dataset, sets: list[ImageSet]) -> list[Image]:
    return [dataset.images[one] for one in sorted({one for row in sets for one in row.images})]

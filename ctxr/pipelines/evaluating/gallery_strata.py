"""The strata of an audit: of every pair of a side that a round in force judged, and of all pairs that its samples stand for."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from ctxr.data.tables import read_table
from ctxr.data.weak_positives import Pair
from ctxr.metrics.finite_population import Stratum
from ctxr.metrics.poststratified import Sampled
from ctxr.metrics.stratified import Part
from ctxr.pipelines.evaluating.gallery_audit import HumanLabels, rounds_in_force
from ctxr.pipelines.revising.records import CandidateRow
from ctxr.pipelines.revising.rounds import LEDGER, STRATA
from ctxr.pipelines.revising.sampling import stratum_of
from ctxr.pipelines.training.gallery_sides import GallerySplit


def strata_of(roots: Sequence[Path]) -> dict[Pair, str]:
    """The stratum of each pair (caption, image) that a sampled round in force judged, the latest one where several did."""
    return {
        (link.caption, link.image): f"{folder.name} {stratum_of(link)}"
        for folder in rounds_in_force(roots)
        if (folder / LEDGER).is_file() and (folder / STRATA).is_file()
        for link in read_table(folder / LEDGER, CandidateRow)
    }


def sampled_of(
    side: GallerySplit, strata: Mapping[Pair, str], known: Mapping[Pair, bool], people: HumanLabels
) -> Sampled | None:
    """The judged pairs of the side with what people decided of them; None where no stratum of theirs was looked at."""
    images = {image: place for place, image in enumerate(side.images)}
    captions = {caption: place for place, caption in enumerate(side.captions)}
    written = {(side.captions[caption], side.images[image]) for caption, image in side.written}
    pairs = [pair for pair in strata if pair[0] in captions and pair[1] in images and pair not in written]
    code = {name: number for number, name in enumerate(sorted({strata[pair] for pair in pairs}))}
    looks = np.zeros((len(code), 2))
    for pair, entailed in known.items():
        drawn = people.strata.get(pair)
        if drawn is not None and drawn.name in code and strata.get(pair) == drawn.name:
            looks[code[drawn.name]] += (1, entailed)
    if not looks.any():
        return None
    return Sampled(
        np.array([images[image] for _, image in pairs], np.int64),
        np.array([captions[caption] for caption, _ in pairs], np.int64),
        np.array([code[strata[pair]] for pair in pairs], np.int64),
        np.array([int(known.get(pair, -1)) for pair in pairs], np.int64),
        np.array([pair in people.strata and people.strata[pair].name == strata[pair] for pair in pairs], bool),
        looks,
    )


def parts_of(known: Mapping[Pair, bool], people: HumanLabels) -> tuple[Part, ...]:
    """All strata of the rounds that people looked at, with what they decided of the pairs drawn there; none where they decided
    nothing. What a cap left out is not among the judged pairs."""
    seen: dict[str, list[bool]] = {}
    for pair, entailed in known.items():
        if pair in people.strata:
            seen.setdefault(people.strata[pair].name, []).append(entailed)
    rounds = {name.partition(" ")[0] for name in seen}
    every = {one.name: one for one in people.strata.values() if one.name.partition(" ")[0] in rounds and one.judged}
    return tuple(
        Part(Stratum(one.population, len(seen.get(name, [])), sum(seen.get(name, []))), one.called)
        for name, one in sorted(every.items())
    )

"""CxC's similarities beside a model's scores: captions with pictures, pictures, captions (`ctxr.metrics.similarity`)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np

from ctxr.data.readers.entailment import Rated, read_similarities
from ctxr.metrics.compare import Interval
from ctxr.metrics.retrieval import Matrix, Vectors
from ctxr.metrics.similarity import DRAWS, SampledRho, sampled_spearman
from ctxr.metrics.votes import Codes, Doubles
from ctxr.pipelines.evaluating.gallery_truth import coco_places
from ctxr.pipelines.evaluating.measuring import Figure
from ctxr.pipelines.result_tables import Table
from ctxr.pipelines.talk import Talk
from ctxr.pipelines.training.gallery_sides import GallerySplit

LEAST = 10
"""Queries below which a correlation of half of them says nothing."""


@dataclass(frozen=True, eq=False)
class Ratings:
    """Rated pairs whose both ends are on a side: places of first and second, and ratings, [N] each."""

    kind: str
    first: Codes
    second: Codes
    rated: Doubles


def read_ratings(folder: Path, talk: Talk) -> list[Rated]:
    """CxC's tables in a folder (`*.csv`), one or several of a kind; what was left out of them is said."""
    found = []
    for file in sorted(folder.glob("*.csv")):
        read = read_similarities(file)
        left = sum(not one.kept for one in read.oddities)
        if left:
            talk.warn(f"{file.name}: {left} rows were left out, the first at {read.oddities[0].where}")
        found.append(read)
    return found


def ratings_of(side: GallerySplit, read: Sequence[Rated]) -> list[Ratings]:
    """The rated pairs that are about pictures and captions of a side, by kind; kinds with next to none are left out."""
    images, captions = coco_places(side)
    found = []
    for kind, ends in (("SITS", (captions, images)), ("SIS", (images, images)), ("STS", (captions, captions))):
        pairs = [one for file in read if file.kind == kind for one in file.pairs]
        known = [(ends[0][a], ends[1][b], rated) for a, b, rated in pairs if a in ends[0] and b in ends[1]]
        if len({first for first, _, _ in known}) >= LEAST:
            first, second, rated = zip(*known, strict=True)
            found.append(Ratings(kind, np.array(first), np.array(second), np.array(rated, np.float64)))
    return found


def correlated(
    ratings: Sequence[Ratings], scorers: Sequence[Vectors | Matrix], seed: tuple[int, int]
) -> dict[str, SampledRho]:
    """Spearman's rho of ratings and scores by kind, the mean over the seeds of a run; every scorer sees the same draws.

    An encoder of pairs says nothing of two pictures or of two captions.
    """
    found = {}
    for one in ratings:
        scored = [_scored(one, scorer) for scorer in scorers]
        rng = partial(np.random.default_rng, seed)
        if each := [sampled_spearman(one.first, one.rated, values, rng()) for values in scored if values is not None]:
            found[one.kind] = _mean(each)
    return found


def _scored(one: Ratings, scorer: Vectors | Matrix) -> Doubles | None:
    if isinstance(scorer, Matrix):
        return scorer.values[one.second, one.first].astype(np.float64) if one.kind == "SITS" else None
    left, right = (scorer.candidates if kind == "c" else scorer.queries for kind in _ENDS[one.kind])
    cosines: Doubles = np.einsum("nd,nd->n", left[one.first], right[one.second], dtype=np.float64)
    return cosines


def _mean(each: Sequence[SampledRho]) -> SampledRho:
    defined = [rho for rho in each if rho.value is not None]
    if not defined:
        return each[0]
    value, spread, low, high = (
        float(np.mean([getattr(rho, name) for rho in defined])) for name in ("value", "spread", "low", "high")
    )
    return replace(each[0], value=value, spread=spread, low=low, high=high)


_ENDS = {"SITS": "ci", "SIS": "ii", "STS": "cc"}
"""Of each kind whether its ends are captions or images."""


def figures(side: GallerySplit, runs: Mapping[str, Mapping[str, SampledRho]]) -> list[Figure]:
    """As measures `rho SITS` and so on, between which 95 % of the draws lie in place of an interval."""
    return [
        Figure(
            side.name, run, "overall", "all", f"rho {kind}", rho.pairs,
            Interval(rho.value, rho.low, rho.high, rho.queries, DRAWS),
        )
        for run, each in runs.items() for kind, rho in each.items()
    ]  # fmt: skip


def table(side: GallerySplit, runs: Mapping[str, Mapping[str, SampledRho]]) -> Table | None:
    """Rho times 100, as CxC prints it."""
    kinds = list(dict.fromkeys(kind for each in runs.values() for kind in each))
    if not kinds:
        return None
    rows = tuple((run, *(_told(each.get(kind)) for kind in kinds)) for run, each in runs.items())
    of = {kind: rho for each in runs.values() for kind, rho in each.items()}
    sizes = ", ".join(f"{kind} {rho.pairs:,} pairs of {rho.queries:,} queries" for kind, rho in of.items())
    note = (
        f"{sizes}; mean and standard deviation over {DRAWS:,} draws of half of the queries, one pair of each (Parekh et al. 2021); "
        "SITS: captions with pictures, SIS: pictures, STS: captions"
    )
    return Table(f"{side.name}: Spearman's rho with CxC's similarities, x 100", ("run", *kinds), rows, note)


def _told(rho: SampledRho | None) -> str:
    return (
        "–"
        if rho is None or rho.value is None or rho.spread is None
        else f"{100 * rho.value:.1f} ± {100 * rho.spread:.1f}"
    )

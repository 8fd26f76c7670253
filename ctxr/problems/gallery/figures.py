"""Figures of galleries by published truths and rated similarity, Entail@K, and their tables."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from ctxr.datasets.readers.relevance import RatedPairs, read_similarities
from ctxr.engine.progress import Progress
from ctxr.engine.report import Table
from ctxr.metrics.compare import DRAWS, Clusters, Interval, SampledRho, sampled_spearman
from ctxr.metrics.entail_at import KS, EntailAt, ExpectedCounts, Way, count, entail_at
from ctxr.metrics.retrieval import Matrix, QueryScores, Vectors, retrieved
from ctxr.metrics.stratified import audited_pairs, chances, rates
from ctxr.metrics.votes import Codes, Doubles
from ctxr.problems.figures import Figure, percent
from ctxr.problems.galleries import GallerySplit, Recalls, even_column, recall_columns
from ctxr.problems.gallery.truth import PUBLISHED, GroundTruth, Labels, coco_indices
from ctxr.store.tables import grouped


@dataclass(frozen=True, eq=False)
class EntailFigure:
    """Entail@K of a run by one source of labels.

    Attributes:
        by: short name of the source, `gold` for the drawn truth. pictures: that were counted.
        most: the upper bound, with all unjudged captions entailed; `found.value` is the lower bound with none, 0..1.
        of_judged: share of entailed ones among the judged, 0..1; None without any, or where only positives are published.
        complete: pictures whose first K were all judged; where these are all, the value is the paper's E@M.
    """

    run: str
    split: str
    source: str
    found: EntailAt
    by: str
    pictures: int
    most: float
    of_judged: float | None
    complete: int


def gallery_columns(
    split: GallerySplit,
    scores: Vectors | Matrix,
    truths: Mapping[str, GroundTruth],
    recalls: Sequence[int],
    trec: bool = False,
) -> Recalls:
    """Recall both ways, and what the ground truths say: R@k by CxC; R@1, R-Precision and mAP@R by ECCV."""
    columns = recall_columns(split, scores, recalls, trec)
    for name, truth in truths.items():
        for direction, scored, right, images in (
            ("TR", scores, truth.captions, np.arange(len(split.images))),
            ("IR", scores.turned(), truth.images, split.first_owners),
        ):
            ranked = retrieved(scored, right)
            measures = {f"{direction}@{k}": ranked.recalls[:, index] for index, k in enumerate(ranked.ks)}
            if name == "eccv":
                measures = {
                    f"{direction} R@1": ranked.recalls[:, ranked.ks.index(1)],
                    f"{direction} R-Precision": ranked.r_precision,
                    f"{direction} mAP@R": ranked.map_at_r,
                }
            of = images[ranked.queries]
            columns |= {f"{PUBLISHED[name]} {measure}": even_column(of, values) for measure, values in measures.items()}
    return columns


def entailed(split: GallerySplit, scorers: Sequence[Vectors | Matrix], labels: Labels) -> ExpectedCounts | None:
    """The first captions of each picture, and what an audit says of them, mean over seeds; None with fewer than K."""
    least = min(len(part.captions) for part in split.parts)
    ks = [k for k in KS if k <= least]
    if not ks:
        return None
    inside: list[QueryScores] = [_within(scorer, split) for scorer in scorers]
    if labels.entailed.labels == "classifier":  # what others say of a pair counts, however unsure the judge is
        inside = [split.condensed(_within(scorer, split)) for scorer in scorers]
    counts = [count(one, labels.entailed, labels.asked, ks) for one in inside]
    written, extra, judged = (
        np.mean([getattr(one, name) for one in counts], axis=0) for name in ("written", "extra", "judged")
    )
    found, sampled = ExpectedCounts(written, extra, judged, tuple(ks)), labels.sampled
    if sampled is None:
        return found
    shares = np.mean([chances(one, sampled, ks) for one in inside], axis=0)
    return replace(found, known=tuple(audited_pairs(sampled, chance, len(split.images)) for chance in shares.T))


def entailments(
    run: str, split: GallerySplit, counted: ExpectedCounts, labels: Labels, seed: tuple[int, int], *, clusters: Clusters
) -> list[EntailFigure]:
    """Entail@K of a run with intervals over the clusters that all figures are drawn by."""
    rng = np.random.default_rng(seed)
    leaked = labels.leaked if labels.leaked is None or labels.asked is None else labels.leaked[labels.asked]
    errs = rates(labels.audit, rng) if labels.audit else None
    if labels.asked is not None:  # of some pictures, the clusters that they are in
        clusters = Clusters(clusters.codes[labels.asked], rng, clusters.resamples)
    figures = entail_at(counted, labels.entailed.labels, rng, leaked, errs, clusters=clusters)
    rows = []
    for index, one in enumerate(figures):
        hits = counted.written[:, index] + counted.extra[:, index]
        judged = counted.judged[:, index]
        rows.append(
            EntailFigure(
                run, split.name, labels.source, one, labels.by or one.labels, len(judged),
                most=float(np.mean(1 - (judged - hits) / one.k)),
                of_judged=float(hits.sum() / judged.sum()) if judged.sum() and not labels.only_right else None,
                complete=int(np.isclose(judged, one.k).sum()),
            )
        )  # fmt: skip
    return rows


def entail_columns(counted: ExpectedCounts, labels: Labels) -> Recalls:
    """Entail@K of every picture as measures like any other: `E@K` by the drawn truth, `auto E@K` by the classifier's labels,
    and by published or human labels (`people E@K`) where all pairs were judged: elsewhere differences would depend on coverage."""
    images = np.arange(len(counted.written)) if labels.asked is None else labels.asked
    shares = (counted.written + counted.extra) / np.array(counted.ks)
    name = f"{labels.by} " if labels.by else "" if labels.entailed.labels == "gold" else "auto "
    return {
        f"{name}E@{k}": even_column(images, share)
        for k, share, judged in zip(counted.ks, shares.T, counted.judged.T, strict=True)
        if not labels.by or np.isclose(judged, k).all()
    }


def _within(scores: Vectors | Matrix, split: GallerySplit) -> Vectors | Matrix:
    """The same scores, with captions of other galleries below all of a picture's own."""
    if isinstance(scores, Matrix) or len(split.galleries) == 1:
        return scores  # a table has them there already
    # one more number for each gallery: 4 where both are in it, more than two cosines can differ
    mark = np.eye(len(split.galleries), dtype=np.float32) * 2
    return Vectors(
        np.concatenate([scores.queries, mark[list(split.image_galleries)]], axis=1),
        np.concatenate([scores.candidates, mark[list(split.caption_galleries)]], axis=1),
    )


_ENDS = {"SITS": ("captions", "images"), "SIS": ("images", "images"), "STS": ("captions", "captions")}
LEAST = 10
"""Queries below which a correlation of half of them says nothing."""


@dataclass(frozen=True, eq=False)
class Ratings:
    """Rated pairs with both ends in a split: places of first and second, and ratings, [N]."""

    kind: str
    first: Codes
    second: Codes
    rated: Doubles


def read_ratings(folder: Path, progress: Progress) -> list[RatedPairs]:
    """CxC's tables in a folder (`*.csv`), one or several of a kind; a note reports omitted rows."""
    tables = []
    for file in sorted(folder.glob("*.csv")):
        read = read_similarities(file)
        left = sum(not issue.kept for issue in read.issues)
        if left:
            progress.warn(f"{file.name}: {left} rows were left out, the first at {read.issues[0].where}")
        tables.append(read)
    return tables


def ratings_of(split: GallerySplit, read: Sequence[RatedPairs]) -> list[Ratings]:
    """The rated pairs of pictures and captions of a split, by kind; rare kinds are left out."""
    coco, ratings = coco_indices(split), []
    for kind, (one, other) in _ENDS.items():
        firsts, seconds = getattr(coco, one), getattr(coco, other)
        pairs = [pair for file in read if file.kind == kind for pair in file.pairs]
        inside = [(firsts[a], seconds[b], rated) for a, b, rated in pairs if a in firsts and b in seconds]
        if len({first for first, _, _ in inside}) >= LEAST:
            first, second, rated = zip(*inside, strict=True)
            ratings.append(Ratings(kind, np.array(first), np.array(second), np.array(rated, np.float64)))
    return ratings


def correlated(
    ratings: Sequence[Ratings], scorers: Sequence[Vectors | Matrix], seed: tuple[int, int]
) -> dict[str, SampledRho]:
    """Spearman's rho of ratings and scores by kind, the mean over the seeds of a run; every scorer sees the same draws.

    An encoder of pairs says nothing of two pictures or of two captions.
    """
    rhos = {}
    for rating in ratings:
        samples = []
        for scorer in scorers:
            if isinstance(scorer, Vectors):
                rows_of = {"captions": scorer.candidates, "images": scorer.queries}
                first, second = (rows_of[end] for end in _ENDS[rating.kind])
                values = np.einsum("nd,nd->n", first[rating.first], second[rating.second], dtype=np.float64)
            elif rating.kind == "SITS":
                values = scorer.values[rating.second, rating.first].astype(np.float64)
            else:
                continue
            samples.append(sampled_spearman(rating.first, rating.rated, values, np.random.default_rng(seed)))
        defined = [rho for rho in samples if rho.value is not None]
        if defined:
            names = ("value", "spread", "low", "high")
            value, spread, low, high = (float(np.mean([getattr(rho, name) for rho in defined])) for name in names)
            rhos[rating.kind] = replace(samples[0], value=value, spread=spread, low=low, high=high)
        elif samples:
            rhos[rating.kind] = samples[0]
    return rhos


def similarity_figures(split: GallerySplit, runs: Mapping[str, Mapping[str, SampledRho]]) -> list[Figure]:
    """As measures `rho SITS` and so on, with the middle 95 % of the draws as interval."""
    return [
        Figure(
            split.name, run, "overall", "all", f"rho {kind}", rho.pairs,
            Interval(rho.value, rho.low, rho.high, rho.queries, DRAWS),
        )
        for run, rhos in runs.items() for kind, rho in rhos.items()
    ]  # fmt: skip


def similarity_table(split: GallerySplit, runs: Mapping[str, Mapping[str, SampledRho]]) -> Table | None:
    """Rho times 100, as CxC prints it."""
    of = {kind: rho for rhos in runs.values() for kind, rho in rhos.items()}
    if not of:
        return None
    rows = []
    for run, rhos in runs.items():
        cells = {
            kind: f"{100 * rho.value:.1f} ± {100 * rho.spread:.1f}"
            for kind, rho in rhos.items()
            if rho.value is not None and rho.spread is not None
        }
        rows.append((run, *(cells.get(kind, "–") for kind in of)))
    sizes = ", ".join(f"{kind} {rho.pairs:,} pairs of {rho.queries:,} queries" for kind, rho in of.items())
    note = (
        f"{sizes}; mean and standard deviation over {DRAWS:,} draws of half of the queries, one pair of each (Parekh et al. 2021); "
        "SITS: captions with pictures, SIS: pictures, STS: captions"
    )
    return Table(f"{split.name}: Spearman's rho with CxC's similarities, x 100", ("run", *of), tuple(rows), note)


_WAYS: dict[Way, str] = {
    "strata": "stratum by stratum, so ranks are told apart",
    "weighed_rates": "by sensitivity and specificity of another audit, its strata weighed by their sizes, as far as the judge "
    "errs here as there",
}


def entailment_table(split: str, rows: Sequence[EntailFigure]) -> Table | None:
    """Entail@K, source of labels, share judged, leaked pictures of the classifier; without columns that are empty."""
    own = [one for one in rows if one.split == split]
    if not own:
        return None
    unseen = any(one.found.judged < 1 for one in own)
    audited = any(one.found.corrected.value is not None for one in own)
    leaked = any(one.found.leaked for one in own)
    silent = ([] if unseen else ["at most", "of judged"]) + ([] if audited else ["corrected"])
    silent += [] if leaked else ["leaked %", "without leaked"]
    cells = [{name: cell for name, cell in _cells(one).items() if name not in silent} for one in own]
    heads, shown = tuple(cells[0]), tuple(tuple(row.values()) for row in cells)
    # the meaning of the shown columns, which depend on unjudged pairs, corrected figures and leaked pictures
    sources = "; ".join(f"{by}: {source}" for by, source in dict.fromkeys((one.by, one.source) for one in own))
    sentences = [f"{sources}. share of the first K captions of a picture that hold for it, %"]
    if unseen:
        sentences.append(
            "unjudged pairs count as not entailed in E@K, which is a lower bound, and as entailed in “at most”; of judged: share of the "
            "judged pairs, including captions that were written for the picture; where people judged all of them, E@K is E@M"
        )
    else:
        sentences.append("all pairs were judged: where by people, E@K is E@M")
    if audited:
        by_way = grouped((one.found.way, f"{one.run} E@{one.found.k}") for one in own)
        by_way.pop("", None)
        ways = "; ".join(
            says if len(by_way) == 1 else f"{says} ({', '.join(by_way[method])})"
            for method, says in _WAYS.items()
            if method in by_way
        )
        sentences.append(
            f"corrected: for errors of the judge by the audit, not for those of people{ways and f', {ways}'}"
        )
    if leaked:
        sentences.append("leaked: pictures that the judge was trained on, – where unknown")
    elif any(one.found.leaked is not None for one in own):
        sentences.append("the judge was not trained on any of these pictures, as far as is known")
    return Table(f"{split}: Entail@K", heads, shown, "; ".join(sentences))


def _cells(row: EntailFigure) -> dict[str, str | int]:
    figure = row.found
    return {
        "run": row.run,
        "K": figure.k,
        "labels": row.by,
        "E@K": percent(figure.value),
        "corrected": percent(figure.corrected),
        "judged %": f"{100 * figure.judged:.1f}",
        "at most": f"{100 * row.most:.1f}",
        "of judged": "–" if row.of_judged is None else f"{100 * row.of_judged:.1f}",
        "pictures": row.pictures,
        "leaked %": "–" if figure.leaked is None else f"{100 * figure.leaked:.1f}",
        "without leaked": "–" if figure.leaked is None else percent(figure.without_leaked),
    }

"""Figures of a round: what was found in which band, and Entail@K by the classifier, with and without pictures it was trained on."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from ctxr.metrics.entail_at import KS, Counted, EntailAt, entail_at
from ctxr.metrics.poststratified import Sampled, known_at
from ctxr.metrics.votes import Doubles, Flags
from ctxr.pipelines.result_tables import Table
from ctxr.pipelines.revising.mining import Candidates
from ctxr.pipelines.revising.records import AuditVerdict, CandidateRow
from ctxr.pipelines.revising.sampling import stratum_of

RESAMPLES = 1000

FOR_CAPTION = 2
"""Direction of a pair that was found for its caption alone: it stands behind all that were found for the picture."""

MANY = np.iinfo(np.int64).max


def counted(pools: Sequence[Candidates], entailed: Sequence[Flags], top_k: int) -> Counted | None:
    """Among the first K captions of every picture: how many were written for it, how many more are entailed, by this round or by one
    before it. None where a gallery has too few captions, or fewer were mined, than the least K."""
    ks = tuple(k for k in KS if k <= top_k and all(k <= len(pool.gallery.captions) for pool in pools))
    if not ks or not pools:
        return None
    written, extra, earlier, _ = _columns(pools, entailed, ks)
    return Counted(written, extra + earlier, np.tile(np.array(ks, np.float64), (len(written), 1)), ks)


def earlier_among(pools: Sequence[Candidates], ks: Sequence[int]) -> Doubles:
    """Captions among the first K of every picture that a round before this one added, [I, len(ks)]."""
    return _columns(pools, [np.zeros(len(pool), bool) for pool in pools], ks)[2]


def rejected_among(pools: Sequence[Candidates], ks: Sequence[int]) -> Doubles:
    """Captions among the first K of every picture that a round before this one rejected and this one left out, [I, len(ks)]."""
    return _columns(pools, [np.zeros(len(pool), bool) for pool in pools], ks)[3]


def _columns(pools: Sequence[Candidates], entailed: Sequence[Flags], ks: Sequence[int]) -> list[Doubles]:
    parts = [_first(pool, flags, ks) for pool, flags in zip(pools, entailed, strict=True)]
    return [np.concatenate(column) for column in zip(*parts, strict=True)]


def _first(pool: Candidates, entailed: Flags, ks: Sequence[int]) -> tuple[Doubles, Doubles, Doubles, Doubles]:
    """Captions among the first K of each picture, [I, len(ks)] each: written for it, found to be entailed, and added and rejected by
    earlier rounds.

    What was mined are the best captions that were not known, so both together hold the first K of all. Equal ones stand as they
    were mined, behind known ones.
    """
    known = pool.gallery.known
    images = np.concatenate([known[:, 0], pool.images])
    scores = np.concatenate([pool.known_scores, pool.scores])
    before = [3 * (pair in pool.gallery.earlier) for pair in pool.gallery.given] + [4] * len(pool.gallery.rejected)
    kinds = np.concatenate([np.array(before, np.int64), np.where(entailed, 1, 2)])
    ranks = np.concatenate([np.zeros(len(known), np.int64), np.where(pool.directions == FOR_CAPTION, MANY, pool.ranks)])
    order = np.lexsort((ranks, -scores, images))
    images, kinds = images[order], kinds[order]
    rank = np.arange(len(images)) - np.searchsorted(images, images)
    count = len(pool.gallery.images)
    found = [[np.bincount(images[(kinds == kind) & (rank < k)], minlength=count) for k in ks] for kind in (0, 1, 3, 4)]
    written, extra, added, rejected = (np.stack(one, axis=1).astype(np.float64) for one in found)
    return written, extra, added, rejected


def looked_at(
    columns: Mapping[str, Any], ks: Sequence[int], links: Sequence[CandidateRow], looked: Sequence[AuditVerdict]
) -> Counted | None:
    """The counts of a round with what people said of its strata; None where its figures do not tell which pairs they count, and where
    earlier rounds added or rejected some of these: what people said of this round's sample tells nothing of them.

    Args:
        columns: `counted` of the figures. links: every candidate of the round.
    """
    if not ks or "images" not in columns or np.any(columns.get("earlier", 1)) or np.any(columns.get("rejected", 0)):
        return None
    written, extra = (np.array(columns[name], np.float64) for name in ("written", "extra"))
    places = {image: place for place, image in enumerate(columns["images"])}
    held = [link for link in links if link.direction != "caption" and link.image in places]
    said = {(one.image, one.caption): one for one in looked}
    strata = sorted({stratum_of(link) for link in links})
    code = {name: number for number, name in enumerate(strata)}
    looks = np.zeros((len(strata), 2))
    for one in looked:
        looks[code[one.stratum]] += (1, one.entailed)
    decided = [said.get((link.image, link.caption)) for link in held]
    sampled = Sampled(
        np.array([places[link.image] for link in held], np.int64),
        np.zeros(len(held), np.int64),
        np.array([code[stratum_of(link)] for link in held], np.int64),
        np.array([-1 if one is None else int(one.entailed) for one in decided], np.int64),
        np.ones(len(held), bool),
        looks,
    )
    ranks = np.array([link.rank for link in held], np.int64)
    # the first K are those that were given and the best of the others
    room = np.array(ks) - written
    first = (ranks[:, None] <= room[sampled.images]).astype(np.float64)
    there = np.stack([np.bincount(sampled.images, first[:, place], len(written)) for place in range(len(ks))], axis=1)
    if not np.array_equal(there, room):  # a picture of several galleries stands in the ledger once
        return None
    known = tuple(known_at(sampled, first[:, place], len(written)) for place in range(len(ks)))
    return Counted(written, extra, np.tile(np.array(ks, np.float64), (len(written), 1)), tuple(ks), known)


def entail_figures(found: Counted, leaked: Flags, rng: np.random.Generator) -> list[EntailAt]:
    """Entail@K by the classifier's labels; corrected where an audit of these candidates is at hand (`looked_at`)."""
    return entail_at(found, "classifier", rng, leaked, resamples=RESAMPLES)


def entail_table(rows: Sequence[Mapping[str, Any]], by: str) -> Table:
    """Entail@K, as `as_records` gives it, as a table: labels of the classifier, never of people. What says nothing is left out."""
    leaked, audited = any(row["leaked"] for row in rows), any(row["corrected"]["value"] is not None for row in rows)
    heads = ["figure", "by the classifier %"]
    heads += (
        (["without leaked %"] if leaked else []) + (["corrected %"] if audited else []) + (["leaked"] if leaked else [])
    )
    columns = ["value"] + (["without_leaked"] if leaked else []) + (["corrected"] if audited else [])
    shown = tuple(
        (f"E@{row['k']}", *(told(row[name]) for name in columns), *([row["leaked"]] if leaked else [])) for row in rows
    )
    note = (
        f"of the first K captions of a picture by {by}, the share that was written for it or that the classifier calls entailed, "
        "also in rounds before this one; "
    )
    note += (
        "leaked: share of the pictures that it was trained on; "
        if leaked
        else "it was trained on none of the pictures; "
    )
    note += (
        "corrected: for its errors, by what people said (--audit)"
        if audited
        else "nothing corrects it for its errors yet (--audit)"
    )
    return Table("Entail@K, automatic labels", tuple(heads), shown, note)


def told(interval: Mapping[str, Any]) -> str:
    """A share with its interval, in percent."""
    value, low, high = interval["value"], interval["low"], interval["high"]
    if value is None:
        return "–"
    return (
        f"{100 * value:.1f}" if low is None or high is None else f"{100 * value:.1f} ({100 * low:.1f}–{100 * high:.1f})"
    )


def bands(links: Sequence[CandidateRow]) -> list[dict[str, Any]]:
    """Candidates of each stratum of the audit, with their mean probability."""
    held: dict[str, list[float]] = {}
    for link in links:
        held.setdefault(stratum_of(link), []).append(link.probability)
    return [
        {"stratum": name, "pairs": len(values), "probability": float(np.mean(values))}
        for name, values in sorted(held.items())
    ]


def bands_table(rows: Sequence[dict[str, Any]], threshold: float) -> Table:
    """Strata as a table; a band may hold the threshold, which parts what was added from what was rejected."""
    shown = tuple((row["stratum"], row["pairs"], row["probability"]) for row in rows)
    note = f"p: bands of probability; from the threshold {threshold:.3g} on a candidate counts as entailed; rank: among the candidates"
    return Table("What became of the candidates", ("stratum", "pairs", "mean probability"), shown, note)


def as_records(rows: Sequence[EntailAt]) -> list[dict[str, Any]]:
    """Plain values for `figures.json`."""
    return [asdict(row) for row in rows]

"""Sections on the sets, hardest first, on what is in no set, and on failed sources."""

import base64
from collections import Counter
from collections.abc import Mapping
from typing import Any

import numpy as np

from ctxr.datasets.readers.imagecode import collection_of
from ctxr.datasets.splits import SPLITS
from ctxr.pipelines.inspection.pages.chain import ALONE, Distances
from ctxr.pipelines.inspection.pages.edition import REASONS, PageBuilder, time_code
from ctxr.store.records import Failure, ImageSet, LedgerReason
from ctxr.store.tables import grouped

STEP = 1e-4
"""Distances travel as 16-bit multiples of this: finer than what is shown, and 2.0 fits."""

MOST_IN_MATRIX = 30
"""Maximum size of a set whose distance matrix is drawn; a larger one is unreadable."""


def make_sets(edition: PageBuilder) -> Mapping[str, object] | None:
    """Fills `data["images"]` and `data["sets"]`; the template gets what the filters offer. None where there are results alone."""
    chain = edition.chain
    if chain.last.kind == ALONE:
        return None
    texts = grouped((one.image_set, one) for one in chain.descriptions.values())
    voted = any(one.votes for one in chain.descriptions.values())
    known, rows = chain.images, list[dict[str, Any]]()
    names = dict.fromkeys(name for unit in chain.units for one in unit.sets for name in one.images if name in known)
    numbers = {name: number for number, name in enumerate(names)}
    nearest, farthest, unknown = 2.0, 0.0, 0
    for image_set, distances in chain.distances():
        own = texts.get(image_set.id)
        told: dict[str, object] = {"texts": [(one.targets, one.text) for one in own] if own else None}
        if voted:  # author, votes and why it was dropped, of each text
            told["people"] = [(one.author, one.votes, one.dropped.replace("_", " ")) for one in own or ()] or None
        rows.append(_row(edition, numbers, image_set, distances) | told)
        if distances is None:
            unknown += 1
        elif len(distances):
            nearest, farthest = min(nearest, float(distances.min())), max(farthest, float(distances.max()))
    images = [(known[name], edition.facts_by_path.get(known[name].path)) for name in names]
    # name, time, exact time, picture, place, BRISQUE, text share, width, height
    edition.data["images"] = [
        (
            image.id.removeprefix(f"{image.group}/") if image.index is None else f"#{image.index}",
            None if image.time is None else time_code(image.time),
            None if image.time is None else f"{image.time} s",
            edition.pictures.number(image.path),
            image.path,
            facts and facts.brisque,
            facts and facts.text_share,
            image.width,
            image.height,
        )
        for image, facts in images
    ]
    edition.data["sets"] = rows
    edition.data["span"] = span = [round(nearest, 4), round(farthest, 4)] if farthest > 0 else [0, 2]
    subject = edition.subject
    edition.data["subject"] = {"similar": subject.similar, "unknown": subject.unknown, "unit": subject.unit}
    return {
        "count": len(rows),
        "kinds": sorted({row["kind"] for row in rows}),
        "sources": sorted({row["collection"] for row in rows}) if subject.similar else [],
        "splits": [name for name in SPLITS if any(row["split"] == name for row in rows)],
        "span": span,
        "legend": subject.legend,
        "unknown": 0 if chain.without_ledger else unknown,
        "described": bool(texts),
        "subject": subject,
        "voted": voted,
        "missed": sorted({worker for one in chain.descriptions.values() for worker in one.missed}),
        "example": next((f"#{one.index}" for one, _ in images if subject.similar and one.index is not None), ""),
        "measured": any(row["mean"] is not None for row in rows),
        "squares": unknown < len(rows),
        "threshold": chain.threshold,
        "why_none": _why_none(edition),
    }


def _row(
    edition: PageBuilder, numbers: Mapping[str, int], image_set: ImageSet, distances: Distances | None
) -> dict[str, Any]:
    """What scripts know of a set: its images as numbers in `data["images"]`, -1 for one that no table has; the positions of the two
    nearest images; the distances of its pairs, packed."""
    values = (image_set.closest, image_set.mean_distance)
    closest, mean = (value if edition.subject.similar else None for value in values)
    nearest, packed = None, None
    if distances is not None and len(distances):
        nearest = np.transpose(np.triu_indices(len(image_set.images), 1))[distances.argmin()].tolist()
        if len(image_set.images) <= MOST_IN_MATRIX:
            steps = np.rint(np.minimum(distances, 2) / STEP).astype("<u2")
            packed = base64.b64encode(steps.tobytes()).decode()
    return {
        "id": image_set.id,
        "kind": image_set.kind,
        "source": image_set.source,
        "collection": collection_of(image_set),
        "split": edition.chain.splits.get(image_set.group),
        "shot": image_set.shot,
        "closest": closest,
        "mean": mean,
        "images": [numbers.get(name, -1) for name in image_set.images],
        "nearest": nearest,
        "distances": packed,
    }


def make_people(edition: PageBuilder) -> Mapping[str, object] | None:
    """Of each worker how many descriptions they wrote, how many of those were kept, and what they found and missed. None without a vote."""
    every = edition.chain.descriptions.values()
    votes = Counter(worker for one in every for worker, _ in one.votes)
    missed = Counter(worker for one in every for worker in one.missed)
    wrote, kept = Counter(one.author for one in every), Counter(one.author for one in every if not one.dropped)
    names = sorted({*votes, *wrote} - {""}, key=lambda name: (-missed[name] / (votes[name] or 1), -votes[name], name))
    rows = [(name, votes[name], missed[name], wrote[name], kept[name]) for name in names]
    shown = {"rows": rows, "votes": votes.total(), "found": votes.total() - missed.total()}
    return shown | {"blocked": edition.chain.last.counts.get("blocked")} if votes else None


def _why_none(edition: PageBuilder) -> str:
    if edition.chain.built is None:
        return "The dataset is empty."
    if not edition.chain.units:
        return "No source gave anything; the failures below say why."
    reasons = edition.chain.built.reasons
    most = max(reasons, key=lambda name: reasons[name], default="")
    if not reasons.get(most):
        return "Nothing was considered."
    return f"Most of what was considered fell out as {most.replace('_', ' ')} ({reasons[most]}); see below."


def make_dropped(edition: PageBuilder) -> Mapping[str, object] | None:
    """Reasons in the order of the checks, with their limits. None without a ledger."""
    if edition.chain.without_ledger:
        return None
    counts = Counter(row.reason for unit in edition.chain.units for row in unit.ledger if row.reason)
    limits: dict[LedgerReason, float | None] = {
        "near_still": edition.chain.limit("still_below"),
        "too_close": edition.chain.threshold,
        "low_quality": edition.chain.limit("brisque"),
        "too_much_text": edition.chain.limit("max_text"),
        "too_small": edition.chain.limit("min_size"),
    }
    reasons = [
        {"number": edition.reason_numbers[reason], "key": reason, "name": name, "means": meaning}
        | {"count": counts[reason], "limit": limits.get(reason)}
        for reason, (name, meaning, _) in REASONS.items()
        if counts[reason]
    ]
    edition.data["ledger"] = edition.ledger
    shown = {row.fate for rows in edition.ledger for row in rows if row.picture >= 0}
    first = next((row["number"] for row in reasons if row["number"] in shown), reasons[0]["number"] if reasons else 0)
    edition.data["limits"] = {row["number"]: row["limit"] for row in reasons}
    sources = [unit.source.name for unit in edition.chain.units if any(row.reason for row in unit.ledger)]
    found = {"considered": any(unit.ledger for unit in edition.chain.units), "reasons": reasons, "first": first}
    return found | {"sources": sources, "total": sum(counts.values())}


def make_failures(edition: PageBuilder) -> Mapping[str, object] | None:
    """Failures of all artifacts, each once, with the artifact it is from; and sources without a set. None where nothing failed and
    whether anything could have is not known: of a dataset, and of results alone."""
    failures: dict[tuple[str, str, str], tuple[str, Failure]] = {}
    for stage in edition.chain.stages:
        for row in stage.failures:
            failures.setdefault((row.source, row.path, row.reason), (stage.name, row))
    # read well, and still without a set: what became of most of it
    barren = []
    for unit in edition.chain.units:
        if not unit.sets:
            counts = Counter(
                REASONS[row.reason][0] if row.reason else "in a set of another source" for row in unit.ledger
            )
            most = ", ".join(f"{name} {number}" for name, number in counts.most_common(3))
            fates = most or "nothing was considered"
            barren.append({"name": unit.source.name, "considered": len(unit.ledger), "fates": fates})
    damaged = [unit.source for unit in edition.chain.units if unit.source.damage]
    if edition.chain.built is None and not (failures or barren or damaged):
        return None
    return {"failures": list(failures.values()), "barren": barren, "damaged": damaged}

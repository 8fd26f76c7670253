"""What was considered and is in no set: by reason, with the figure behind it, and its picture where one was saved."""

from collections import Counter
from collections.abc import Mapping
from typing import Any

from ctxr.pipelines.reporting import ledger
from ctxr.pipelines.reporting.edition import REASONS, Edition, Section


def make(edition: Edition) -> Mapping[str, Any] | None:
    """The reasons that occur, in the order in which they are asked, with the limit in force. None where nobody wrote it down."""
    if edition.chain.bare:
        return None
    ledger.fill(edition)
    counts = Counter(row.reason for unit in edition.chain.units for row in unit.ledger if row.reason)
    order = [*REASONS, *sorted(counts.keys() - REASONS.keys())]
    limits = {
        "near_still": edition.chain.limit("gate"),
        "too_close": edition.chain.threshold,
        "blurry": edition.chain.limit("brisque"),
        "too_much_text": edition.chain.limit("max_text"),
        "too_small": edition.chain.limit("min_size"),
    }
    reasons = [
        {
            "number": edition.reason_number(reason),
            "key": reason if reason in REASONS else "other",
            "name": edition.data["reasons"][edition.reason_number(reason)]["name"],
            "means": REASONS[reason][1] if reason in REASONS else "",
            "count": counts[reason],
            "limit": limits.get(reason),
        }
        for reason in order
        if counts[reason]
    ]
    shown = {row[ledger.FATE] for rows in edition.data["ledger"] for row in rows if row[ledger.PICTURE] >= 0}
    first = next((one["number"] for one in reasons if one["number"] in shown), reasons[0]["number"] if reasons else 0)
    edition.data["limits"] = {one["number"]: one["limit"] for one in reasons}
    considered = any(unit.ledger for unit in edition.chain.units)
    return {"considered": considered, "reasons": reasons, "first": first, "total": sum(counts.values())}


SECTION = Section("dropped", "Left out", make)

"""Which descriptions are kept: the paper's k of n, or the consensus of the votes (ImageCoDe, section 3.3)."""

from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np

from ctxr.annotation.voting import verdict
from ctxr.metrics.consensus import TIE, majority, one_coin
from ctxr.pipelines.aggregating.ballots import Pick, votes_on_images

RULES = ("paper", "majority", "one-coin", "mace")

CONFIDENT = 0.5
"""Posterior probability above which a modelled consensus counts: likelier than all else together."""


@dataclass(frozen=True)
class Decision:
    """What became of one description.

    Attributes:
        reason: None when it is kept; `not_found` (votes were against it), `tie`, `too_few_votes`, `writer_blocked`.
        right, wrong: votes that count, those of blocked workers left out.
    """

    query: str
    unit: str
    right: int
    wrong: int
    reason: str | None


def decide(picks: Sequence[Pick], rule: str, blocked: Collection[str], seed: int = 0) -> dict[str, Decision]:
    """A decision for each unit with a pick, by unit id.

    `paper`: as many right votes as the unit needs. The others keep a description whose target is the consensus of the votes,
    by majority or weighed by how far each worker can be trusted; a tie keeps nothing. Votes of `blocked` workers do not
    count, and what they wrote is dropped.
    """
    counted = [one for one in picks if one.worker not in blocked]
    winners = {} if rule == "paper" else consensus(counted, rule, seed)
    hits: dict[str, list[bool]] = defaultdict(list)
    for one in counted:
        hits[one.unit.id].append(one.right)
    decisions = {}
    for unit in {one.unit.id: one.unit for one in picks}.values():
        votes = hits[unit.id]
        right, wrong = sum(votes), len(votes) - sum(votes)
        reason = _paper(right, wrong, unit.needed, unit.most) if rule == "paper" else None
        if rule != "paper":
            winner = winners.get(unit.id, "")
            reason = "too_few_votes" if not votes else "tie" if winner is None else None
            if reason is None and winner not in unit.truth:
                reason = "not_found"
        if unit.authors and unit.authors[0] in blocked:
            reason = "writer_blocked"
        decisions[unit.id] = Decision(unit.query or "", unit.id, right, wrong, reason)
    return decisions


def consensus(picks: Sequence[Pick], rule: str, seed: int = 0) -> dict[str, str | None]:
    """The image that the votes on each unit name together, by unit id; None where they name none."""
    if not picks:
        return {}
    votes = votes_on_images(picks)
    sizes = {one.unit.id: len(one.unit.images) for one in picks}
    candidates = np.array([sizes[str(name)] for name in votes.unit_names])
    if rule == "majority":
        values = majority(votes).value
    elif rule == "one-coin":
        model = one_coin(votes, candidates)
        values = np.where(model.confidence > CONFIDENT, model.value, TIE)
    else:
        from ctxr.metrics.mace import mace

        slots = np.array([one.place for one in picks])
        found = mace(votes, np.random.default_rng(seed), candidates, slots)
        values = np.where(found.confidence > CONFIDENT, found.value, TIE)
    return {
        str(name): None if value == TIE else str(votes.labels[value])
        for name, value in zip(votes.unit_names, values.tolist(), strict=True)
    }


def _paper(right: int, wrong: int, needed: int, most: int) -> str | None:
    said = verdict(right, wrong, needed, most)
    return None if said == "accepted" else "not_found" if said == "dropped" else "too_few_votes"

"""Which descriptions are kept: the paper's k of n, or the majority of the votes (ImageCoDe, section 3.3)."""

from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from ctxr.annotation.voting import verdict
from ctxr.metrics.consensus import TIE, majority
from ctxr.pipelines.aggregating.ballots import RetrieverPick, votes_on_images

RULES = ("paper", "majority")


@dataclass(frozen=True)
class Acceptance:
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


def decide(picks: Sequence[RetrieverPick], rule: str, blocked: Collection[str]) -> dict[str, Acceptance]:
    """A decision for each unit with a pick, by unit id.

    `paper`: as many right votes as the unit needs. `majority`: the target is what most votes name; a tie keeps nothing. Votes
    of `blocked` workers do not count, and what they wrote is dropped.
    """
    counted = [one for one in picks if one.worker not in blocked]
    winners = consensus(counted) if rule == "majority" else {}
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
        decisions[unit.id] = Acceptance(unit.query or "", unit.id, right, wrong, reason)
    return decisions


def consensus(picks: Sequence[RetrieverPick]) -> dict[str, str | None]:
    """The image that most votes on each unit name, by unit id; None for a tie."""
    votes = votes_on_images(picks)
    return {
        str(name): None if value == TIE else str(votes.labels[value])
        for name, value in zip(votes.unit_names, majority(votes).tolist(), strict=True)
    }


def _paper(right: int, wrong: int, needed: int, most: int) -> str | None:
    said = verdict(right, wrong, needed, most)
    return None if said == "accepted" else "not_found" if said == "dropped" else "too_few_votes"

"""Votes and the decisions made from them: kept descriptions (ImageCoDe, section 3.3) and labels."""

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from ctxr.annotation.artifacts import AggregatedAnswers
from ctxr.annotation.forms import BROKEN, CANNOT_TELL, PROBLEM
from ctxr.annotation.protocol import Verdict, verdict
from ctxr.annotation.records import GIVEN_UP, Unit
from ctxr.annotation.tasks import retrieve
from ctxr.metrics.consensus import TIE, dawid_skene, majority
from ctxr.metrics.votes import Votes, gather
from ctxr.store.records import Judgment
from ctxr.store.tables import grouped


@dataclass(frozen=True)
class RetrieverPick:
    """The pick of a worker who retrieves.

    Attributes:
        picked: image id, or `cannot_tell`. right: whether it is the target. position: in the set's own order, from 0.
        shown: its position as shown, from 0; both -1 where they could not tell. target: that of the target.
        first: the first vote on its unit.
        kind: `video` or `photos`. describer: who wrote the description.
    """

    unit: Unit
    worker: str
    picked: str
    right: bool
    position: int
    shown: int
    target: int
    first: bool
    kind: str
    describer: str


def picks_of(answered: AggregatedAnswers) -> list[RetrieverPick]:
    """Every pick on a description whose target is known, by unit and time, without checks and broken pictures."""
    picks: list[RetrieverPick] = []
    seen: set[str] = set()
    for answer in sorted(answered.answers, key=lambda row: (row.unit, row.at, row.worker)):
        unit = answered.units[answer.unit]
        if unit.task != "retrieve" or unit.purpose != "work" or not unit.truth:
            continue
        said, (target,) = answer.values.get(PROBLEM) or answer.values[retrieve.FIELD], unit.truth
        if BROKEN in said:
            continue
        (picked,) = said
        picks.append(
            RetrieverPick(
                unit=unit,
                worker=answer.worker,
                picked=picked,
                right=picked == target,
                position=-1 if picked == CANNOT_TELL else unit.images.index(picked),
                shown=-1 if picked == CANNOT_TELL else answer.order.index(picked),
                target=answer.order.index(target),
                first=unit.id not in seen,
                kind=answered.sets[unit.image_set].kind,
                describer=unit.authors[0] if unit.authors else "",
            )
        )
        seen.add(unit.id)
    return picks


def votes_on(field: str, picks: Sequence[RetrieverPick]) -> Votes:
    """Picks as votes for image ids (`picked`), or for positions in the set, 0..K-1 (`position`)."""
    values = [getattr(pick, field) for pick in picks]
    return gather([pick.unit.id for pick in picks], [pick.worker for pick in picks], values)


def by_kind(picks: Sequence[RetrieverPick]) -> dict[str, list[RetrieverPick]]:
    """The picks on each kind of set, videos first."""
    return dict(sorted(grouped((pick.kind, pick) for pick in picks).items(), reverse=True))


@dataclass(frozen=True)
class Acceptance:
    """The decision on one description, with the votes that count, those of blocked workers left out. The reason is None when it is kept,
    else `not_found` (votes were against it), `tie`, `too_few_votes`, `broken` (too few, because of a picture) or `writer_blocked`."""

    query: str
    unit: str
    right: int
    wrong: int
    reason: str | None


def broken_units(answered: AggregatedAnswers, blocked: Collection[str]) -> set[str]:
    """Units in which as many workers as end one say that a picture is broken."""
    told = (row.unit for row in answered.answers if BROKEN in row.values.get(PROBLEM, ()) and row.worker not in blocked)
    return {unit for unit, count in Counter(told).items() if count >= GIVEN_UP}


def decide_picks(
    picks: Sequence[RetrieverPick], rule: str, blocked: Collection[str], broken: Collection[str] = ()
) -> dict[str, Acceptance]:
    """A decision for each unit with a pick, by unit id.

    `paper`: as many right votes as the unit needs. `majority`: the target is what most votes name; a tie keeps nothing. Votes
    of `blocked` workers do not count, and what they wrote is dropped. `broken`: see `broken_units`.
    """
    counted = [pick for pick in picks if pick.worker not in blocked]
    votes = votes_on("picked", counted)
    # the image that most votes name, TIE where there are several
    winners = dict(zip(votes.unit_names.tolist(), majority(votes).tolist(), strict=True))
    hits = grouped((pick.unit.id, pick.right) for pick in counted)
    decisions = {}
    for unit in {pick.unit.id: pick.unit for pick in picks}.values():
        right, wrong = sum(hits[unit.id]), len(hits[unit.id]) - sum(hits[unit.id])
        reason: str | None = None
        if unit.authors and unit.authors[0] in blocked:
            reason = "writer_blocked"
        elif rule == "paper":
            reason = _REASONS[verdict(right, wrong, unit.needed, unit.most)]
        elif unit.id not in winners:
            reason = "too_few_votes"
        elif winners[unit.id] == TIE:
            reason = "tie"
        elif votes.labels[winners[unit.id]] not in unit.truth:
            reason = "not_found"
        if reason == "too_few_votes" and unit.id in broken:
            reason = "broken"
        decisions[unit.id] = Acceptance(unit.query or "", unit.id, right, wrong, reason)
    return decisions


_REASONS: dict[Verdict, str | None] = {"accepted": None, "dropped": "not_found", "open": "too_few_votes"}


def label_consensus(answered: AggregatedAnswers, rule: str, blocked: Collection[str]) -> list[Judgment]:
    """One judgment for each label of each query that the votes decide, by worker `aggregate:<rule>`; a tie has none.

    Only judgments of the first round count; later rounds are second looks.
    """
    counted = ((task, row) for task, row in first_round(answered) if row.worker not in blocked)
    columns = grouped(((task, row.candidate), row) for task, row in counted)
    decided = list[Judgment]()
    for (_, label), rows in sorted(columns.items()):
        votes = gather([row.query for row in rows], [row.worker for row in rows], [int(row.value > 0) for row in rows])
        if rule == "majority":
            values = majority(votes)
        else:
            posterior = dawid_skene(votes, smoothing=1.0).posterior
            values = np.where(posterior.max(axis=1) > 0.5, posterior.argmax(axis=1), TIE)
        decided += [
            Judgment(str(name), label, f"aggregate:{rule}", float(votes.labels[value]))
            for name, value in zip(votes.unit_names, values.tolist(), strict=True)
            if value != TIE
        ]
    return decided


def first_round(answered: AggregatedAnswers) -> Iterator[tuple[str, Judgment]]:
    """Judgments on labels in the first round, with the task, which begins the id of their query."""
    labelled = {query.id for query in answered.queries if query.labels is not None}
    for row in answered.judgments:
        if row.query in labelled and not row.round:
            yield row.query.partition("/")[0], row

"""Votes and the decisions made from them: kept descriptions (ImageCoDe, section 3.3) and labels."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from ctxr.annotation.artifacts import Answered
from ctxr.annotation.protocol import verdict
from ctxr.annotation.records import Answer, Unit
from ctxr.annotation.tasks import retrieve
from ctxr.engine.report import Table
from ctxr.metrics.agreement import TagAgreement, masi_alpha, tag_alphas
from ctxr.metrics.consensus import TIE, dawid_skene, majority
from ctxr.metrics.votes import Votes, gather
from ctxr.store.records import Judgment


@dataclass(frozen=True)
class RetrieverPick:
    """One retriever's pick.

    Attributes:
        picked: image id. right: whether it is the target. position: in the set's own order, from 0.
        place: where it was shown, from 0. target: where the target was shown. first: the first vote on its unit.
        kind: `video` or `photos`. describer: who wrote the description.
    """

    unit: Unit
    answer: Answer
    picked: str
    right: bool
    position: int
    place: int
    target: int
    first: bool
    kind: str
    describer: str

    @property
    def worker(self) -> str:
        """Who picked."""
        return self.answer.worker


def picks_of(answered: Answered) -> list[RetrieverPick]:
    """Every pick on a description whose target is known, by unit and time; checks of the workers are none."""
    found: list[RetrieverPick] = []
    seen: set[str] = set()
    for answer in sorted(answered.answers, key=lambda one: (one.unit, one.at, one.worker)):
        unit = answered.units[answer.unit]
        if unit.task != "retrieve" or unit.purpose != "work" or not unit.truth:
            continue
        (picked,), (target,) = answer.values[retrieve.FIELD], unit.truth
        found.append(
            RetrieverPick(
                unit=unit,
                answer=answer,
                picked=picked,
                right=picked == target,
                position=unit.images.index(picked),
                place=answer.order.index(picked),
                target=answer.order.index(target),
                first=unit.id not in seen,
                kind=answered.sets[unit.image_set].kind,
                describer=unit.authors[0] if unit.authors else "",
            )
        )
        seen.add(unit.id)
    return found


def votes_on_images(picks: Sequence[RetrieverPick]) -> Votes:
    """Picks as votes for image ids."""
    return gather([one.unit.id for one in picks], [one.worker for one in picks], [one.picked for one in picks])


def votes_on_positions(picks: Sequence[RetrieverPick]) -> Votes:
    """Picks as votes for positions in the set, 0..K-1."""
    return gather([one.unit.id for one in picks], [one.worker for one in picks], [one.position for one in picks])


def of_kind(picks: Iterable[RetrieverPick], kind: str) -> list[RetrieverPick]:
    """The picks on one kind of set; `all` keeps them all."""
    return [one for one in picks if kind in ("all", one.kind)]


@dataclass(frozen=True)
class Acceptance:
    """The decision on one description.

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


@dataclass(frozen=True)
class LabelRow:
    """Agreement on one label of one task. `agreement.value` is nominal alpha of chosen or not chosen."""

    task: str
    label: TagAgreement

    def record(self) -> dict[str, Any]:
        """As plain values."""
        return {"task": self.task, "label": self.label.tag, "prevalence": self.label.prevalence} | asdict(
            self.label.agreement
        )


def label_consensus(answered: Answered, rule: str, blocked: Collection[str]) -> list[Judgment]:
    """One judgment for each label of each query that the votes decide, by worker `aggregate:<rule>`; a tie has none.

    Only judgments of the first round count; later rounds are second looks.
    """
    asked = _labelled(answered)
    columns: dict[tuple[str, str], list[Judgment]] = defaultdict(list)
    for row in answered.judgments:
        task = _task(row.query)
        if row.query in asked and row.round == 0 and row.worker not in blocked:
            columns[task, row.candidate].append(row)
    found = []
    for (_, label), rows in sorted(columns.items()):
        votes = gather([row.query for row in rows], [row.worker for row in rows], [int(row.value > 0) for row in rows])
        if rule == "majority":
            values = majority(votes)
        else:
            posterior = dawid_skene(votes, smoothing=1.0).posterior
            values = np.where(posterior.max(axis=1) > 0.5, posterior.argmax(axis=1), TIE)
        for name, value in zip(votes.unit_names, values.tolist(), strict=True):
            if value != TIE:
                found.append(Judgment(str(name), label, f"aggregate:{rule}", float(votes.labels[value])))
    return found


def agreements(answered: Answered) -> list[LabelRow]:
    """Alpha of each label of each labelling task; `all labels` is alpha over whole sets of labels with MASI's distance."""
    asked = _labelled(answered)
    sets: dict[str, dict[tuple[str, str], list[str]]] = defaultdict(dict)
    for row in answered.judgments:
        if row.query not in asked or row.round:
            continue
        chosen = sets[_task(row.query)].setdefault((row.query, row.worker), [])
        if row.value > 0:
            chosen.append(row.candidate)
    rows = []
    for task, votes in sorted(sets.items()):
        units, workers = [query for query, _ in votes], [worker for _, worker in votes]
        chosen_sets = list(votes.values())
        rows += [LabelRow(task, one) for one in tag_alphas(units, workers, chosen_sets)]
        rows.append(LabelRow(task, TagAgreement("all labels", masi_alpha(units, workers, chosen_sets), 1.0)))
    return rows


def table(rows: Sequence[LabelRow]) -> Table:
    """Agreement on labels as a table for people."""
    shown = tuple(
        (
            row.task,
            row.label.tag,
            row.label.agreement.units,
            row.label.agreement.votes,
            row.label.prevalence,
            row.label.agreement.value if row.label.agreement.value is not None else row.label.agreement.reason,
        )
        for row in rows
    )
    note = "alpha of a rare label depends on few votes; all labels: sets of labels with MASI's distance"
    return Table("Agreement on labels", ("task", "label", "units", "votes", "share", "alpha"), shown, note)


def _labelled(answered: Answered) -> set[str]:
    return {query.id for query in answered.queries if query.labels is not None}


def _task(query: str) -> str:
    """The task of a query for labels, with which its id begins."""
    return query.partition("/")[0]

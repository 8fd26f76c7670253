"""Votes and the decisions made from them: kept descriptions (ImageCoDe, section 3.3) and labels."""

from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Generic, TypeVar

import numpy as np

from ctxr.annotation.artifacts import Answered
from ctxr.annotation.protocol import Verdict, verdict
from ctxr.annotation.records import Answer, Unit
from ctxr.annotation.tasks import retrieve
from ctxr.engine.report import Table
from ctxr.metrics.agreement import Agreement, masi_alpha, tag_alphas
from ctxr.metrics.consensus import TIE, dawid_skene, majority
from ctxr.metrics.votes import Votes, gather
from ctxr.metrics.workers import HumanAccuracy
from ctxr.store.records import Judgment

F = TypeVar("F", Agreement, HumanAccuracy)


@dataclass(frozen=True)
class RetrieverPick:
    """One retriever's pick.

    Attributes:
        picked: image id. right: whether it is the target. position: in the set's own order, from 0.
        shown: its position as shown, from 0. target: that of the target. first: the first vote on its unit.
        kind: `video` or `photos`. describer: who wrote the description.
    """

    unit: Unit
    answer: Answer
    picked: str
    right: bool
    position: int
    shown: int
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
    picks: list[RetrieverPick] = []
    seen: set[str] = set()
    for answer in sorted(answered.answers, key=lambda row: (row.unit, row.at, row.worker)):
        unit = answered.units[answer.unit]
        if unit.task != "retrieve" or unit.purpose != "work" or not unit.truth:
            continue
        (picked,), (target,) = answer.values[retrieve.FIELD], unit.truth
        picks.append(
            RetrieverPick(
                unit=unit,
                answer=answer,
                picked=picked,
                right=picked == target,
                position=unit.images.index(picked),
                shown=answer.order.index(picked),
                target=answer.order.index(target),
                first=unit.id not in seen,
                kind=answered.sets[unit.image_set].kind,
                describer=unit.authors[0] if unit.authors else "",
            )
        )
        seen.add(unit.id)
    return picks


def votes_on_images(picks: Sequence[RetrieverPick]) -> Votes:
    """Picks as votes for image ids."""
    return _gather(picks, [pick.picked for pick in picks])


def votes_on_positions(picks: Sequence[RetrieverPick]) -> Votes:
    """Picks as votes for positions in the set, 0..K-1."""
    return _gather(picks, [pick.position for pick in picks])


def _gather(picks: Sequence[RetrieverPick], labels: Sequence[str] | Sequence[int]) -> Votes:
    return gather([pick.unit.id for pick in picks], [pick.worker for pick in picks], labels)


def by_kind(picks: Sequence[RetrieverPick]) -> dict[str, list[RetrieverPick]]:
    """The picks on each kind of set, videos first."""
    kinds = sorted({pick.kind for pick in picks}, reverse=True)
    return {kind: [pick for pick in picks if pick.kind == kind] for kind in kinds}


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


def decide_picks(picks: Sequence[RetrieverPick], rule: str, blocked: Collection[str]) -> dict[str, Acceptance]:
    """A decision for each unit with a pick, by unit id.

    `paper`: as many right votes as the unit needs. `majority`: the target is what most votes name; a tie keeps nothing. Votes
    of `blocked` workers do not count, and what they wrote is dropped.
    """
    counted = [pick for pick in picks if pick.worker not in blocked]
    winners = consensus(counted) if rule == "majority" else {}
    hits: dict[str, list[bool]] = defaultdict(list)
    for pick in counted:
        hits[pick.unit.id].append(pick.right)
    decisions = {}
    for unit in {pick.unit.id: pick.unit for pick in picks}.values():
        votes, winner = hits[unit.id], winners.get(unit.id, "")
        right, wrong = sum(votes), len(votes) - sum(votes)
        if unit.authors and unit.authors[0] in blocked:
            reason: str | None = "writer_blocked"
        elif rule == "paper":
            reason = _REASONS[verdict(right, wrong, unit.needed, unit.most)]
        elif not votes:
            reason = "too_few_votes"
        else:
            reason = "tie" if winner is None else None if winner in unit.truth else "not_found"
        decisions[unit.id] = Acceptance(unit.query or "", unit.id, right, wrong, reason)
    return decisions


_REASONS: dict[Verdict, str | None] = {"accepted": None, "dropped": "not_found", "open": "too_few_votes"}


def consensus(picks: Sequence[RetrieverPick]) -> dict[str, str | None]:
    """The image that most votes on each unit name, by unit id; None for a tie."""
    votes = votes_on_images(picks)
    return {
        str(name): None if value == TIE else str(votes.labels[value])
        for name, value in zip(votes.unit_names, majority(votes).tolist(), strict=True)
    }


@dataclass(frozen=True)
class Measurement(Generic[F]):
    """A figure of the answers: `of` says what it is of, `more` what it is recorded with."""

    of: dict[str, Any]
    figure: F
    more: dict[str, object] = field(default_factory=dict)

    def record(self) -> dict[str, object]:
        """As plain values."""
        return self.of | asdict(self.figure) | self.more


def agreement_cells(agreement: Agreement) -> tuple[int, int, float | str | None]:
    """Units, votes, and the value or the reason why there is none."""
    return agreement.units, agreement.votes, agreement.reason if agreement.value is None else agreement.value


def label_consensus(answered: Answered, rule: str, blocked: Collection[str]) -> list[Judgment]:
    """One judgment for each label of each query that the votes decide, by worker `aggregate:<rule>`; a tie has none.

    Only judgments of the first round count; later rounds are second looks.
    """
    columns: dict[tuple[str, str], list[Judgment]] = defaultdict(list)
    for task, row in _first_round(answered):
        if row.worker not in blocked:
            columns[task, row.candidate].append(row)
    decided = []
    for (_, label), rows in sorted(columns.items()):
        votes = gather([row.query for row in rows], [row.worker for row in rows], [int(row.value > 0) for row in rows])
        if rule == "majority":
            values = majority(votes)
        else:
            posterior = dawid_skene(votes, smoothing=1.0).posterior
            values = np.where(posterior.max(axis=1) > 0.5, posterior.argmax(axis=1), TIE)
        for name, value in zip(votes.unit_names, values.tolist(), strict=True):
            if value != TIE:
                decided.append(Judgment(str(name), label, f"aggregate:{rule}", float(votes.labels[value])))
    return decided


def label_agreements(answered: Answered) -> list[Measurement[Agreement]]:
    """Nominal alpha of each label of each labelling task, chosen or not chosen; `all labels` is alpha over whole sets of labels
    with MASI's distance."""
    sets: dict[str, dict[tuple[str, str], list[str]]] = defaultdict(dict)
    for task, row in _first_round(answered):
        chosen = sets[task].setdefault((row.query, row.worker), [])
        if row.value > 0:
            chosen.append(row.candidate)
    rows = []
    for task, votes in sorted(sets.items()):
        units, workers = [query for query, _ in votes], [worker for _, worker in votes]
        chosen_sets = list(votes.values())
        whole = ("all labels", 1.0, masi_alpha(units, workers, chosen_sets))
        for label, prevalence, alpha in (*tag_alphas(units, workers, chosen_sets), whole):
            rows.append(Measurement({"task": task, "label": label, "prevalence": prevalence}, alpha))
    return rows


def label_agreement_table(rows: Sequence[Measurement[Agreement]]) -> Table:
    """Agreement on labels as a table for people."""
    shown = []
    for row in rows:
        units, votes, alpha = agreement_cells(row.figure)
        shown.append((row.of["task"], row.of["label"], units, votes, row.of["prevalence"], alpha))
    note = "alpha of a rare label depends on few votes; all labels: sets of labels with MASI's distance"
    return Table("Agreement on labels", ("task", "label", "units", "votes", "share", "alpha"), tuple(shown), note)


def _first_round(answered: Answered) -> Iterator[tuple[str, Judgment]]:
    """Judgments on labels in the first round, with the task, with which the id of their query begins."""
    labelled = {query.id for query in answered.queries if query.labels is not None}
    for row in answered.judgments:
        if row.query in labelled and not row.round:
            yield row.query.partition("/")[0], row

"""Tags, verdicts on dialogues and on entailment: label by label, what the votes say together and how far they agree."""

from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from ctxr.data.records import Judgment
from ctxr.metrics.consensus import TIE, majority
from ctxr.metrics.dawid_skene import dawid_skene
from ctxr.metrics.tags import TagAgreement, masi_alpha, tag_alphas
from ctxr.metrics.votes import gather
from ctxr.pipelines.result_tables import Table
from ctxr.pipelines.tasks_artifact import Answered

RULES = ("majority", "dawid-skene")


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


def consensus(answered: Answered, rule: str, blocked: Collection[str]) -> list[Judgment]:
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
    note = "alpha of a label that hardly anyone gives rests on those few votes; all labels: sets with MASI's distance"
    return Table("Agreement on labels", ("task", "label", "units", "votes", "share", "alpha"), shown, note)


def _labelled(answered: Answered) -> set[str]:
    return {query.id for query in answered.queries if query.labels is not None}


def _task(query: str) -> str:
    """The task of a query for labels, with which its id begins."""
    return query.partition("/")[0]

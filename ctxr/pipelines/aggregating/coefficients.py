"""Other coefficients of agreement beside alpha, and how far a second look agrees with the first."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from ctxr.annotation.records import Answer
from ctxr.metrics.agreement import Agreement
from ctxr.metrics.kappa import cohen, fleiss, gwet
from ctxr.metrics.votes import gather
from ctxr.pipelines.aggregating.ballots import RetrieverPick, of_kind, votes_on_positions
from ctxr.pipelines.result_tables import Table
from ctxr.pipelines.tasks_artifact import Answered


@dataclass(frozen=True)
class Coefficient:
    """One coefficient on one kind of votes."""

    of: str
    name: str
    agreement: Agreement

    def record(self) -> dict[str, Any]:
        """As plain values."""
        return {"of": self.of, "name": self.name} | asdict(self.agreement)


def coefficients(answered: Answered, picks: Sequence[RetrieverPick]) -> list[Coefficient]:
    """Fleiss' kappa and Gwet's AC1 of places by kind of set, and Cohen's kappa of first and second looks by task."""
    rows = []
    for kind in sorted({one.kind for one in picks}, reverse=True):
        some = of_kind(picks, kind)
        votes = votes_on_positions(some)
        most = max(len(one.unit.images) for one in some)
        rows += [Coefficient(kind, "Fleiss' kappa", fleiss(votes)), Coefficient(kind, "Gwet's AC1", gwet(votes, most))]
    return rows + [Coefficient(f"second looks, {task}", "Cohen's kappa", kappa) for task, kappa in _looks(answered)]


def table(rows: Sequence[Coefficient]) -> Table:
    """Coefficients as a table for people."""
    shown = tuple(
        (
            row.of,
            row.name,
            row.agreement.units,
            row.agreement.votes,
            row.agreement.value if row.agreement.value is not None else row.agreement.reason,
        )
        for row in rows
    )
    return Table("Other coefficients, on all votes", ("votes of", "coefficient", "units", "votes", "value"), shown)


def _looks(answered: Answered) -> list[tuple[str, Agreement]]:
    """The first answer to a unit against each answer to its audit, as if first and second look were two workers."""
    first: dict[str, Answer] = {}
    for answer in sorted(answered.answers, key=lambda one: (one.at, one.worker)):
        first.setdefault(answer.unit, answer)
    pairs: dict[str, list[tuple[str, str]]] = defaultdict(list)
    for answer in answered.answers:
        unit = answered.units[answer.unit]
        if unit.task == "audit" and unit.like is not None and unit.of in first:
            pairs[unit.like].append((_said(first[unit.of]), _said(answer)))
    found = []
    for task, both in sorted(pairs.items()):
        units = [place for place in range(len(both)) for _ in range(2)]
        votes = gather(units, ["first", "second"] * len(both), [said for pair in both for said in pair])
        found.append((task, cohen(votes)))
    return found


def _said(answer: Answer) -> str:
    return " ".join(sorted(value for given in answer.values.values() for value in given))

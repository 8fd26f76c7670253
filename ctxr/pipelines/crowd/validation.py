"""Metrics of a validation: accuracy, agreement and position bias, each on several subsets of the votes.

Krippendorff's alpha of the ImageCoDe release was computed on accepted votes, which is optimistic: votes that were kept because
they name the target agree by selection. Alpha is reported on both, and on the random share of units that gets all votes.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from ctxr.annotation.artifacts import Answered
from ctxr.annotation.records import Answer
from ctxr.datasets.splits import SPLITS
from ctxr.engine.report import Table
from ctxr.metrics.agreement import Agreement, Level, by_units, cohen, fleiss, gwet
from ctxr.metrics.positions import Confusion, PositionBias, errors_by_distance, neighbour_confusion, position_bias
from ctxr.metrics.proportions import wilson_interval
from ctxr.metrics.votes import Votes, gather
from ctxr.metrics.workers import HumanAccuracy, human_accuracy
from ctxr.pipelines.crowd.votes import Acceptance, RetrieverPick, of_kind, votes_on_images, votes_on_positions


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


def coefficients_table(rows: Sequence[Coefficient]) -> Table:
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


@dataclass(frozen=True)
class Habit:
    """Picks on sets of one kind and size.

    Attributes:
        bias: picks by shown position, compared with those expected from accuracy and the positions of the targets.
        confusion: wrong picks by their distance from the target; None for sets without an order.
    """

    kind: str
    size: int
    bias: PositionBias
    confusion: Confusion | None

    def record(self) -> dict[str, Any]:
        """As plain values."""
        return asdict(self)


def habits(picks: Sequence[RetrieverPick], rng: np.random.Generator) -> list[Habit]:
    """One row for each kind and size of set, over all workers."""
    rows = []
    for kind in sorted({one.kind for one in picks}, reverse=True):
        for size in sorted({len(one.unit.images) for one in of_kind(picks, kind)}):
            some = [one for one in of_kind(picks, kind) if len(one.unit.images) == size]
            shown, target = np.array([one.place for one in some]), np.array([one.target for one in some])
            ordered = all(one.unit.ordered for one in some)
            confusion = neighbour_confusion(shown, target, size) if ordered else None
            errors = errors_by_distance(confusion) if confusion else None
            rows.append(Habit(kind, size, position_bias(shown, target, size, errors, rng), confusion))
    return rows


def habits_table(rows: Sequence[Habit]) -> Table:
    """Position bias as a table."""
    shown = tuple(
        (
            f"{row.kind}, sets of {row.size}",
            row.bias.votes,
            row.bias.wrong,
            row.bias.p_value,
            f"{row.confusion.observed[0]} ({row.confusion.expected[0]:.1f})" if row.confusion else None,
        )
        for row in rows
    )
    note = (
        "p: p-value of the picks without position bias; neighbours: wrong picks next to the target, and in brackets the number "
        "expected if wrong picks were spread evenly"
    )
    return Table("Position bias", ("picks on", "votes", "wrong", "p", "neighbours"), shown, note)


ALL, ACCEPTED, FULL, FIRST, TRUSTED = "all votes", "accepted only", "full share", "first votes", "blocked left out"


@dataclass(frozen=True)
class AgreementRow:
    """Alpha on one basis. `item` is its interval over units, `both` the one over units and workers."""

    kind: str
    level: str
    on: str
    basis: str
    both: Agreement
    item: Agreement

    def record(self) -> dict[str, Any]:
        """As plain values."""
        named = {"kind": self.kind, "level": self.level, "on": self.on, "basis": self.basis}
        return named | asdict(self.both) | {"item_low": self.item.low, "item_high": self.item.high}


@dataclass(frozen=True)
class AccuracyRow:
    """Human accuracy on one basis."""

    kind: str
    basis: str
    accuracy: HumanAccuracy

    def record(self) -> dict[str, Any]:
        """As plain values."""
        return {"kind": self.kind, "basis": self.basis} | asdict(self.accuracy)


def kinds_of(picks: Sequence[RetrieverPick]) -> list[str]:
    """`all`, and the kinds of sets apart where there are several."""
    kinds = sorted({one.kind for one in picks}, reverse=True)
    return ["all", *kinds] if len(kinds) > 1 else kinds


def agreements(
    picks: Sequence[RetrieverPick],
    decisions: Mapping[str, Acceptance],
    blocked: Collection[str],
    rng: np.random.Generator,
    resamples: int,
) -> list[AgreementRow]:
    """Alpha by kind of set and basis: nominal on image ids and on positions, interval on positions of videos alone."""
    rows = []
    for kind in [one for one in kinds_of(picks) if one != "all"]:
        levels: list[tuple[Level, str, Callable[[Sequence[RetrieverPick]], Votes]]] = [
            ("nominal", "image ids", votes_on_images),
            ("nominal", "positions", votes_on_positions),
        ]
        if kind == "video":  # positions of a set without an order are names, not numbers
            levels.append(("interval", "positions", votes_on_positions))
        for basis, chosen in _bases(of_kind(picks, kind), decisions, blocked).items():
            for level, on, votes in levels:
                if chosen:
                    both = by_units(votes(chosen), level, rng, resamples, workers=True)
                    item = by_units(votes(chosen), level, rng, resamples)
                    rows.append(AgreementRow(kind, level, on, basis, both, item))
    return rows


def accuracies(
    picks: Sequence[RetrieverPick],
    decisions: Mapping[str, Acceptance],
    blocked: Collection[str],
    rng: np.random.Generator,
    resamples: int,
) -> list[AccuracyRow]:
    """Human accuracy: of all votes, of first votes, without blocked workers, and of accepted ones."""
    rows = []
    for kind, some in _parts(picks).items():
        bases = {
            ALL: some,
            FIRST: [one for one in some if one.first],
            TRUSTED: [one for one in some if one.worker not in blocked] if blocked else [],
            ACCEPTED: _accepted(some, decisions, blocked),
        }
        rows += [
            AccuracyRow(kind, basis, accuracy_of(chosen, rng, resamples)) for basis, chosen in bases.items() if chosen
        ]
    return rows


def _parts(picks: Sequence[RetrieverPick]) -> dict[str, list[RetrieverPick]]:
    """All picks, those on each kind of set, and those on each side of the benchmark, where there are several."""
    parts = {kind: of_kind(picks, kind) for kind in kinds_of(picks)}
    sides = [side for side in SPLITS if any(one.unit.split == side for one in picks)]
    if len(sides) > 1:
        parts |= {side: [one for one in picks if one.unit.split == side] for side in sides}
    return parts


def accuracy_of(picks: Sequence[RetrieverPick], rng: np.random.Generator, resamples: int) -> HumanAccuracy:
    """Share of these picks that are right."""
    return human_accuracy(votes_on_images(picks), np.array([one.right for one in picks]), rng, resamples)


def kept_table(decisions: Mapping[str, Acceptance], picks: Sequence[RetrieverPick]) -> Table:
    """Descriptions by split: voted on, kept, and dropped by reason."""
    side = {one.unit.id: one.unit.split or "none" for one in picks}
    order = ("train", "valid", "test", "none")
    rows = []
    for name in ("all", *sorted(set(side.values()), key=order.index)):
        some = [one for unit, one in decisions.items() if name in ("all", side[unit])]
        reasons = Counter(one.reason for one in some)
        kept, decided = reasons[None], len(some) - reasons["too_few_votes"]
        low, high = wilson_interval(kept, decided, 0.95)
        fell = ", ".join(f"{count} {reason}" for reason, count in sorted(reasons.items(), key=str) if reason)
        votes = sum(one.right + one.wrong for one in some)
        share = f"{kept / decided:.3f} ({low:.3f}–{high:.3f})" if decided else None
        rows.append((name, len(some), votes, kept, share, fell))
    heads = ("split", "descriptions", "votes", "kept", "share of decided", "dropped")
    note = "in brackets Wilson's interval; the published share is 0.735 of all descriptions (ImageCoDe, section 3.3)"
    return Table("Kept descriptions", heads, tuple(rows), note)


def accuracy_table(rows: Sequence[AccuracyRow]) -> Table:
    """Human accuracy as a table for people."""
    shown = tuple(
        (
            f"{row.kind}, {row.basis}" + (" (optimistic)" if row.basis == ACCEPTED else ""),
            row.accuracy.votes,
            row.accuracy.workers,
            row.accuracy.value,
            f"{row.accuracy.low:.3f}–{row.accuracy.high:.3f}",
            "–" if row.accuracy.crowd_low is None else f"{row.accuracy.crowd_low:.3f}–{row.accuracy.crowd_high:.3f}",
        )
        for row in rows
    )
    note = (
        "over workers: bootstrap over whole workers, the interval to report; Wilson's assumes independent votes. "
        "Accepted descriptions were kept because workers were right, so that row is optimistic. The paper reports 90.8 on test"
    )
    return Table("Human accuracy", ("of", "votes", "workers", "accuracy", "Wilson", "over workers"), shown, note)


def agreement_table(rows: Sequence[AgreementRow]) -> Table:
    """Alpha as a table for people, with intervals over units and workers; `figures.json` has those over units too."""
    columns = {
        "nominal on image ids": "on images",
        "nominal on positions": "on positions",
        "interval on positions": "interval",
    }
    lines: dict[tuple[str, str], dict[str, AgreementRow]] = {}
    for row in rows:
        lines.setdefault((row.kind, row.basis), {})[f"{row.level} on {row.on}"] = row
    shown = tuple(
        (
            f"{kind}, {basis}" + (" (optimistic)" if basis == ACCEPTED else ""),
            next(iter(found.values())).both.units,
            next(iter(found.values())).both.votes,
            *(_alpha(found.get(name)) for name in columns),
        )
        for (kind, basis), found in lines.items()
    )
    note = (
        "nominal alpha of image ids and of positions in the set; interval alpha of positions for frames in temporal order. "
        "In brackets the 95 % interval over units and workers. The released script computes accepted only, where votes agree "
        "by selection. The full share got all votes and is unbiased"
    )
    return Table("Krippendorff's alpha", ("votes of", "units", "votes", *columns.values()), shown, note)


def _alpha(row: AgreementRow | None) -> str | None:
    if row is None or row.both.value is None:
        return row.both.reason if row else None
    span = "" if row.both.low is None else f" ({row.both.low:.2f}–{row.both.high:.2f})"
    return f"{row.both.value:.2f}{span}"


def _accepted(
    picks: Sequence[RetrieverPick], decisions: Mapping[str, Acceptance], out: Collection[str]
) -> list[RetrieverPick]:
    """Votes that count, on what was kept."""
    return [one for one in picks if decisions[one.unit.id].reason is None and one.worker not in out]


def _bases(
    picks: Sequence[RetrieverPick], decisions: Mapping[str, Acceptance], out: Collection[str]
) -> dict[str, list[RetrieverPick]]:
    return {
        ALL: list(picks),
        FULL: [one for one in picks if one.unit.full],
        # as the released script does: units with fewer than two right votes are gone, wrong votes on the others stay
        ACCEPTED: [one for one in _accepted(picks, decisions, out) if decisions[one.unit.id].right >= 2],
    }

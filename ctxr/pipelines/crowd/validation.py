"""Metrics of a validation: accuracy, agreement and position bias, each on several subsets of the votes.

Krippendorff's alpha of the ImageCoDe release was computed on accepted votes, which is optimistic: votes that were kept because
they name the target agree by selection. Alpha is reported on both, and on the random share of units that gets all votes.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ctxr.annotation.artifacts import Answered
from ctxr.annotation.records import Answer
from ctxr.annotation.tasks.values import query_of
from ctxr.datasets.splits import SPLITS
from ctxr.engine.report import Table
from ctxr.metrics.agreement import Agreement, Level, by_units, cohen, fleiss, gwet
from ctxr.metrics.positions import Confusion, PositionBias, errors_by_distance, neighbour_confusion, position_bias
from ctxr.metrics.proportions import exact_interval
from ctxr.metrics.votes import Votes, gather
from ctxr.metrics.workers import HumanAccuracy, human_accuracy
from ctxr.pipelines.crowd.votes import (
    Acceptance,
    Measurement,
    RetrieverPick,
    agreement_cells,
    by_kind,
    votes_on_images,
    votes_on_positions,
)
from ctxr.store.kinds import SET_KINDS


def coefficients(answered: Answered, picks: Sequence[RetrieverPick]) -> list[Measurement[Agreement]]:
    """Fleiss' kappa and Gwet's AC1 of positions by kind of set, and Cohen's kappa of first and second looks by task."""
    rows = []
    for kind, chosen in by_kind(picks).items():
        votes, most = votes_on_positions(chosen), max(len(pick.unit.images) for pick in chosen)
        rows += [Measurement({"of": kind, "name": "Fleiss' kappa"}, fleiss(votes))]
        rows += [Measurement({"of": kind, "name": "Gwet's AC1"}, gwet(votes, most))]
    # the first answer to a unit against each answer to its audit, as if both looks were two workers
    first: dict[str, Answer] = {}
    for answer in sorted(answered.answers, key=lambda row: (row.at, row.worker)):
        first.setdefault(answer.unit, answer)
    pairs: dict[str, list[str]] = defaultdict(list)
    for answer in answered.answers:
        unit = answered.units[answer.unit]
        if unit.task == "audit" and unit.like is not None and unit.of in first:
            pairs[unit.like] += [_values(first[unit.of]), _values(answer)]
    for task, values in sorted(pairs.items()):
        votes = gather([row // 2 for row in range(len(values))], ["first", "second"] * (len(values) // 2), values)
        rows.append(Measurement({"of": f"second looks, {task}", "name": "Cohen's kappa"}, cohen(votes)))
    return rows


def coefficients_table(rows: Sequence[Measurement[Agreement]]) -> Table:
    """Coefficients as a table for people."""
    shown = tuple((row.of["of"], row.of["name"], *agreement_cells(row.figure)) for row in rows)
    return Table("Other coefficients, on all votes", ("votes of", "coefficient", "units", "votes", "value"), shown)


def _values(answer: Answer) -> str:
    return " ".join(sorted(value for values in answer.values.values() for value in values))


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


def habits(picks: Sequence[RetrieverPick], rng: np.random.Generator) -> list[Habit]:
    """One row for each kind and size of set, over all workers."""
    rows = []
    for kind, of_kind in by_kind(picks).items():
        for size in sorted({len(pick.unit.images) for pick in of_kind}):
            chosen = [pick for pick in of_kind if len(pick.unit.images) == size]
            shown, target = np.array([pick.shown for pick in chosen]), np.array([pick.target for pick in chosen])
            ordered = all(pick.unit.ordered for pick in chosen)
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


def agreements(
    picks: Sequence[RetrieverPick],
    decisions: Mapping[str, Acceptance],
    blocked: Collection[str],
    rng: np.random.Generator,
    resamples: int,
) -> list[Measurement[Agreement]]:
    """Alpha by kind of set and basis: nominal on image ids and on positions, interval on positions of videos alone.

    Its interval is over units and workers; `item_low` and `item_high` are over units.
    """
    rows = []
    for kind, of_kind in by_kind(picks).items():
        levels: list[tuple[Level, str, Callable[[Sequence[RetrieverPick]], Votes]]] = [
            ("nominal", "image ids", votes_on_images),
            ("nominal", "positions", votes_on_positions),
        ]
        if SET_KINDS[kind].ordered:  # positions of a set without an order are names, not numbers
            levels.append(("interval", "positions", votes_on_positions))
        bases = {
            ALL: of_kind,
            FULL: [pick for pick in of_kind if pick.unit.full],
            # as the released script does: units with fewer than two right votes are gone, wrong votes on the others stay
            ACCEPTED: [pick for pick in _accepted(of_kind, decisions, blocked) if decisions[pick.unit.id].right >= 2],
        }
        for basis, chosen in bases.items():
            for level, on, votes in levels if chosen else ():
                both = by_units(votes(chosen), level, rng, resamples, workers=True)
                item = by_units(votes(chosen), level, rng, resamples)
                of = {"kind": kind, "level": level, "on": on, "basis": basis}
                rows.append(Measurement(of, both, {"item_low": item.low, "item_high": item.high}))
    return rows


def accuracies(
    picks: Sequence[RetrieverPick],
    decisions: Mapping[str, Acceptance],
    blocked: Collection[str],
    rng: np.random.Generator,
    resamples: int,
) -> list[Measurement[HumanAccuracy]]:
    """Human accuracy: of all votes, of first votes, without blocked workers, and of accepted ones."""
    rows = []
    # all picks, those on each kind of set where there are several, and those on each split where there are several
    kinds = by_kind(picks)
    parts = {"all": list(picks), **kinds} if len(kinds) > 1 else kinds
    splits = {str(split): [pick for pick in picks if pick.unit.split == split] for split in SPLITS}
    splits = {split: chosen for split, chosen in splits.items() if chosen}
    for part, votes in ({**parts, **splits} if len(splits) > 1 else parts).items():
        bases = {
            ALL: votes,
            FIRST: [pick for pick in votes if pick.first],
            TRUSTED: [pick for pick in votes if pick.worker not in blocked] if blocked else [],
            ACCEPTED: _accepted(votes, decisions, blocked),
        }
        for basis, chosen in bases.items():
            if chosen:
                hits = np.array([pick.right for pick in chosen])
                accuracy = human_accuracy(votes_on_images(chosen), hits, rng, resamples)
                rows.append(Measurement({"kind": part, "basis": basis}, accuracy))
    return rows


def kept_table(decisions: Mapping[str, Acceptance], picks: Sequence[RetrieverPick]) -> Table:
    """Descriptions by split: voted on, kept, and dropped by reason."""
    split_of = {pick.unit.id: pick.unit.split or "none" for pick in picks}
    order = ("train", "valid", "test", "none")
    rows = []
    for name in ("all", *sorted(set(split_of.values()), key=order.index)):
        chosen = [decision for unit, decision in decisions.items() if name in ("all", split_of[unit])]
        reasons = Counter(decision.reason for decision in chosen)
        kept, decided = reasons[None], len(chosen) - reasons["too_few_votes"]
        low, high = exact_interval(kept, decided)
        dropped = ", ".join(f"{count} {reason}" for reason, count in sorted(reasons.items(), key=str) if reason)
        votes = sum(decision.right + decision.wrong for decision in chosen)
        share = f"{kept / decided:.3f} ({low:.3f}–{high:.3f})" if decided else None
        rows.append((name, len(chosen), votes, kept, share, dropped))
    heads = ("split", "descriptions", "votes", "kept", "share of decided", "dropped")
    note = "in brackets the exact interval; the published share is 0.735 of all descriptions (ImageCoDe, section 3.3)"
    return Table("Kept descriptions", heads, tuple(rows), note)


def _basis(part: str, basis: str) -> str:
    return f"{part}, {basis}" + (" (optimistic)" if basis == ACCEPTED else "")


def human_accuracy_table(rows: Sequence[Measurement[HumanAccuracy]]) -> Table:
    """Human accuracy as a table for people."""
    shown = []
    for row in rows:
        accuracy = row.figure
        exact = f"{accuracy.low:.3f}–{accuracy.high:.3f}"
        crowd = "–" if accuracy.crowd_low is None else f"{accuracy.crowd_low:.3f}–{accuracy.crowd_high:.3f}"
        of = _basis(row.of["kind"], row.of["basis"])
        shown.append((of, accuracy.votes, accuracy.workers, accuracy.value, exact, crowd))
    note = (
        "over workers: bootstrap over whole workers, the interval to report; the exact one assumes independent votes. "
        "Accepted descriptions were kept because workers were right, which makes that row optimistic. The paper reports 90.8 on test"
    )
    return Table("Human accuracy", ("of", "votes", "workers", "accuracy", "exact", "over workers"), tuple(shown), note)


def is_full_share_complete(answered: Answered, picks: Sequence[RetrieverPick], blocked: Collection[str]) -> bool:
    """Whether every description was voted on, and those of the full share got all votes; what `blocked` workers wrote aside."""
    votes = Counter(pick.unit.id for pick in picks if pick.worker not in blocked)
    texts = (
        row for row in answered.answers if answered.units[row.unit].task == "describe" and row.worker not in blocked
    )
    voted = {pick.unit.query for pick in picks} >= {query_of(row.unit, row.worker) for row in texts}
    full = [pick for pick in picks if pick.unit.full and pick.describer not in blocked]
    return voted and bool(full) and all(votes[pick.unit.id] >= pick.unit.most for pick in full)


def agreement_table(rows: Sequence[Measurement[Agreement]], full_share_complete: bool) -> Table:
    """Alpha as a table for people, with intervals over units and workers; `figures.json` has those over units too."""
    columns = {
        "nominal on image ids": "on images",
        "nominal on positions": "on positions",
        "interval on positions": "interval",
    }
    lines: dict[tuple[str, str], dict[str, Agreement]] = {}
    for row in rows:
        of = row.of
        lines.setdefault((of["kind"], of["basis"]), {})[f"{of['level']} on {of['on']}"] = row.figure
    shown = []
    for (kind, basis), alphas in lines.items():
        first = next(iter(alphas.values()))
        shown.append((_basis(kind, basis), first.units, first.votes, *(_alpha(alphas.get(name)) for name in columns)))
    note = (
        "nominal alpha of image ids and of positions in the set; interval alpha of positions for frames in temporal order. "
        "In brackets the 95 % interval over units and workers. The released script computes accepted only, where votes agree "
        "by selection" + (". The full share got all votes and is unbiased" if full_share_complete else "")
    )
    return Table("Krippendorff's alpha", ("votes of", "units", "votes", *columns.values()), tuple(shown), note)


def _alpha(agreement: Agreement | None) -> str | None:
    if agreement is None or agreement.value is None:
        return agreement.reason if agreement else None
    span = "" if agreement.low is None else f" ({agreement.low:.2f}–{agreement.high:.2f})"
    return f"{agreement.value:.2f}{span}"


def _accepted(
    picks: Sequence[RetrieverPick], decisions: Mapping[str, Acceptance], blocked: Collection[str]
) -> list[RetrieverPick]:
    """Votes that count, on what was kept."""
    return [pick for pick in picks if decisions[pick.unit.id].reason is None and pick.worker not in blocked]

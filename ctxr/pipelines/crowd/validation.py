"""Metrics of a validation: accuracy, agreement and position bias, on several sets of votes.

Krippendorff's alpha of the ImageCoDe release was computed on accepted votes, which is optimistic: votes that were kept because
they name the target agree by selection. Alpha is reported on both, and on the random share of units that gets all votes.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from ctxr.annotation.artifacts import AggregatedAnswers
from ctxr.annotation.forms import BROKEN, CANNOT_TELL, COMMENT, PROBLEM
from ctxr.annotation.records import Answer
from ctxr.annotation.tasks import counts
from ctxr.annotation.tasks.values import query_of
from ctxr.annotation.votes import Acceptance, RetrieverPick, by_kind, first_round, votes_on
from ctxr.datasets.splits import SPLITS
from ctxr.engine.report import SUMMARY, Table, share_with_interval
from ctxr.metrics.agreement import Level, by_units, cohen, fleiss, gwet, masi_alpha, tag_alphas
from ctxr.metrics.compare import Interval, mean_interval
from ctxr.metrics.positions import errors_by_distance, neighbour_confusion, position_bias
from ctxr.metrics.proportions import exact_interval
from ctxr.metrics.ranking import ALL_OF_SET, all_right
from ctxr.metrics.votes import FIRST_VOTES, gather
from ctxr.metrics.workers import human_accuracy
from ctxr.store.kinds import SET_KINDS

Row = dict[str, Any]
"""What a figure is of, and the figure, by name, as `figures.json` has it."""


ALL, ACCEPTED, FULL, TRUSTED = "all votes", "accepted only", "full share", "blocked left out"


@dataclass(frozen=True)
class Validation:
    """What the picks on descriptions, the decisions on these, and the labels are measured by; `resamples` and `seed` are of the
    intervals, and figures of each kind have a generator of their own."""

    answered: AggregatedAnswers
    picks: Sequence[RetrieverPick]
    decisions: Mapping[str, Acceptance]
    blocked: Collection[str] = ()
    resamples: int = 1000
    seed: int = 0

    def figures(self) -> dict[str, list[Row]]:
        """Accuracy, agreement and position bias of the picks, and agreement on labels."""
        return {
            "accuracy": self.accuracies(),
            "agreement": self.agreements(),
            "coefficients": self.coefficients(),
            "habits": self.habits(),
            "labels": self.label_agreements(),
        }

    def tables(self, figures: Mapping[str, list[Row]]) -> dict[str, Table]:
        """The figures for people."""
        tables = {}
        if self.picks:
            tables["kept"] = self.kept_table()
            accuracies = tuple(
                (
                    _basis(row["kind"], row["basis"]),
                    *(row[name] for name in ("votes", "workers", "value")),
                    f"{row['low']:.3f}–{row['high']:.3f}",
                    "–" if row["crowd_low"] is None else f"{row['crowd_low']:.3f}–{row['crowd_high']:.3f}",
                    share_with_interval(row["sets"]),
                )
                for row in figures["accuracy"]
            )
            tables["accuracy"] = Table(
                "Human accuracy",
                ("of", "votes", "workers", "accuracy", "exact", "over workers", f"{ALL_OF_SET}, %"),
                accuracies,
                "over workers: bootstrap over whole workers, the interval to report; the exact one assumes independent votes. "
                "Accepted descriptions were kept because workers were right, which makes that row optimistic. All of a set: sets where "
                "the first vote on each description is right, with an interval over sets. "
                "The paper reports 90.8 on test",
            )
            tables["agreement"] = agreement_table(figures["agreement"], self.is_full_share_complete())
            columns = ("of", "name", "units", "votes")
            tables["coefficients"] = Table(
                "Other coefficients, on all votes",
                ("votes of", "coefficient", "units", "votes", "value"),
                tuple((*(row[name] for name in columns), _value(row)) for row in figures["coefficients"]),
            )
            habits = tuple(
                (
                    f"{row['kind']}, sets of {row['size']}",
                    *(row["bias"][name] for name in ("votes", "wrong", "p_value")),
                    f"{row['confusion']['observed'][0]} ({row['confusion']['expected'][0]:.1f})"
                    if row["confusion"]
                    else None,
                )
                for row in figures["habits"]
            )
            note = (
                "p: p-value of the picks without position bias; neighbours: wrong picks next to the target, and in brackets the number "
                "expected if wrong picks were spread evenly"
            )
            tables["habits"] = Table("Position bias", ("picks on", "votes", "wrong", "p", "neighbours"), habits, note)
        if figures["labels"]:
            names = ("task", "label", "units", "votes", "prevalence")
            tables["labels"] = Table(
                "Agreement on labels",
                ("task", "label", "units", "votes", "share", "alpha"),
                tuple((*(row[name] for name in names), _value(row)) for row in figures["labels"]),
                "alpha of a rare label depends on few votes; all labels: sets of labels with MASI's distance",
            )
        if summary := self.summary(figures):
            note = f"95 % bootstrap over workers, of sets over sets; {FIRST_VOTES}: one for each description; {ALL_OF_SET}: sets all right"
            heads = ("figure", "value", "of")
            tables = {SUMMARY: Table("The figures to report", heads, tuple(summary), note), **tables}
        return tables

    def summary(self, figures: Mapping[str, list[Row]]) -> list[tuple[object, ...]]:
        """Rows of name, value and basis: first votes on test, or on the split furthest from training; chance; kept."""
        rows, first = [], {row["kind"]: row for row in figures["accuracy"] if row["basis"] == FIRST_VOTES}
        for part in [name for name in ("test", "valid", "train", *first) if name in first][:1]:
            row, (_, count, _, kept, *_) = first[part], self.kept_table().rows[0]
            own = [pick for pick in self.picks if pick.first and part in ("all", pick.unit.split, pick.kind)]
            crowd = {"value": row["value"], "low": row["crowd_low"], "high": row["crowd_high"]}
            rows += [
                (f"accuracy, {part}", share_with_interval(crowd), f"% of {row['votes']:,} {FIRST_VOTES}"),
                (f"{ALL_OF_SET}, {part}", share_with_interval(row["sets"]), f"% of {row['sets']['clusters']:,} sets"),
                ("chance", f"{100 * np.mean([1 / len(pick.unit.images) for pick in own]):.1f}", "%"),
                ("kept", f"{kept:,}", f"of {count:,} descriptions"),
            ]
        alphas = {row["kind"]: row for row in figures["agreement"] if (row["basis"], row["on"]) == (ALL, "image ids")}
        alphas |= {row["task"]: row for row in figures["labels"] if row["label"] == "all labels"}
        return rows + [(f"agreement, {name}", _value(row), "Krippendorff's alpha") for name, row in alphas.items()]

    def accuracies(self) -> list[Row]:
        """Human accuracy: of all votes, first votes, votes of trusted workers, and accepted ones."""
        rows, rng = [], np.random.default_rng(self.seed)
        # all picks, those on each kind of set where there are several, and those on each split where there are several
        kinds = by_kind(self.picks)
        parts = {"all": list(self.picks), **kinds} if len(kinds) > 1 else kinds
        splits = {str(split): [pick for pick in self.picks if pick.unit.split == split] for split in SPLITS}
        splits = {split: chosen for split, chosen in splits.items() if chosen}
        for part, votes in ({**parts, **splits} if len(splits) > 1 else parts).items():
            bases = {
                ALL: votes,
                FIRST_VOTES: [pick for pick in votes if pick.first],
                TRUSTED: [pick for pick in votes if pick.worker not in self.blocked] if self.blocked else [],
                ACCEPTED: self._accepted(votes),
            }
            for basis, chosen in bases.items():
                if chosen:
                    hits = np.array([pick.right for pick in chosen])
                    accuracy = human_accuracy(votes_on("picked", chosen), hits, rng, self.resamples)
                    sets = asdict(self._all_of_set(chosen) if basis == FIRST_VOTES else Interval(None))
                    rows.append({"kind": part, "basis": basis, **asdict(accuracy), "sets": sets})
        return rows

    def _all_of_set(self, picks: Sequence[RetrieverPick]) -> Interval:
        """The share of sets in which every description with a vote was picked right, by one vote each, with an interval over sets. Our
        server shows each person a set once, so these votes are by different people."""
        sets, codes = np.unique([pick.unit.image_set for pick in picks], return_inverse=True)
        found = all_right(np.array([float(pick.right) for pick in picks]), codes)
        return mean_interval(found, sets, np.random.default_rng(self.seed), self.resamples)

    def agreements(self) -> list[Row]:
        """Alpha by kind of set and basis: nominal on image ids and on positions, interval on positions of videos alone.

        Its interval is over units and workers; `item_low` and `item_high` are over units.
        """
        rows, rng = [], np.random.default_rng(self.seed)
        for kind, of_kind in by_kind(self.picks).items():
            levels: list[tuple[Level, str]] = [("nominal", "image ids"), ("nominal", "positions")]
            if SET_KINDS[kind].ordered:  # positions of a set without an order are names, not numbers
                levels.append(("interval", "positions"))
            bases = {
                ALL: of_kind,
                FULL: [pick for pick in of_kind if pick.unit.full],
                # as the released script does: units with fewer than two right votes are gone, wrong votes on the others stay
                ACCEPTED: [pick for pick in self._accepted(of_kind) if self.decisions[pick.unit.id].right >= 2],
            }
            for basis, chosen in bases.items():
                for level, on in levels:
                    # who cannot tell is a category of its own, without a distance to others
                    placed = [pick for pick in chosen if level == "nominal" or pick.picked != CANNOT_TELL]
                    if not placed:
                        continue
                    votes = votes_on("picked" if on == "image ids" else "position", placed)
                    both = asdict(by_units(votes, level, rng, self.resamples, workers=True))
                    item = by_units(votes, level, rng, self.resamples)
                    of = {"kind": kind, "level": level, "on": on, "basis": basis}
                    rows.append(of | both | {"item_low": item.low, "item_high": item.high})
        return rows

    def _accepted(self, picks: Sequence[RetrieverPick]) -> list[RetrieverPick]:
        """Votes that count, on what was kept."""
        kept = {unit for unit, decision in self.decisions.items() if decision.reason is None}
        return [pick for pick in picks if pick.unit.id in kept and pick.worker not in self.blocked]

    def coefficients(self) -> list[Row]:
        """Fleiss' kappa and Gwet's AC1 of positions by kind of set, and Cohen's kappa of first and second looks by task."""
        rows = []
        for kind, chosen in by_kind(self.picks).items():
            votes, most = votes_on("position", chosen), max(len(pick.unit.images) for pick in chosen)
            most += any(pick.picked == CANNOT_TELL for pick in chosen)
            rows.append({"of": kind, "name": "Fleiss' kappa", **asdict(fleiss(votes))})
            rows.append({"of": kind, "name": "Gwet's AC1", **asdict(gwet(votes, most))})
        # the first answer to a unit against each answer to its repetition, as if both looks were two workers
        first: dict[str, Answer] = {}
        for answer in sorted(self.answered.answers, key=lambda row: (row.at, row.worker)):
            first.setdefault(answer.unit, answer)
        pairs: dict[str, list[str]] = defaultdict(list)
        for answer in self.answered.answers:
            unit = self.answered.units[answer.unit]
            looks = [first[unit.of], answer] if unit.task == "repeat" and unit.of in first else []
            if unit.like is not None and not any(BROKEN in look.values.get(PROBLEM, ()) for look in looks):
                for look in looks:
                    said = (values for name, values in look.values.items() if name != COMMENT)
                    pairs[unit.like].append(" ".join(sorted(value for values in said for value in values)))
        for task, values in sorted(pairs.items()):
            votes = gather([row // 2 for row in range(len(values))], ["first", "second"] * (len(values) // 2), values)
            rows.append({"of": f"second looks, {task}", "name": "Cohen's kappa", **asdict(cohen(votes))})
        return rows

    def label_agreements(self) -> list[Row]:
        """Nominal alpha of each label of each task; `all labels`: over whole sets of labels, with MASI's distance."""
        sets: dict[str, dict[tuple[str, str], list[str]]] = defaultdict(dict)
        for task, row in first_round(self.answered):
            chosen = sets[task].setdefault((row.query, row.worker), [])
            if row.value > 0:
                chosen.append(row.candidate)
        rows = []
        unsure: dict[str, dict[tuple[str, str], list[str]]] = defaultdict(dict)
        for answer in self.answered.answers:
            unit = self.answered.units[answer.unit]
            if CANNOT_TELL in answer.values.get(PROBLEM, ()) and unit.labels and unit.query and not unit.round:
                unsure[unit.query.partition("/")[0]][unit.query, answer.worker] = [CANNOT_TELL]
        for task, votes in sorted(sets.items()):
            units, workers = [query for query, _ in votes], [worker for _, worker in votes]
            chosen_sets = list(votes.values())
            every = votes | unsure[task]  # a set of its own
            whole_sets = [query for query, _ in every], [worker for _, worker in every], list(every.values())
            whole = ("all labels", 1.0, masi_alpha(*whole_sets))
            for label, prevalence, alpha in (*tag_alphas(units, workers, chosen_sets), whole):
                rows.append({"task": task, "label": label, "prevalence": prevalence, **asdict(alpha)})
        return rows

    def habits(self) -> list[Row]:
        """Picks on sets of each kind and size: by shown position, compared with those expected from accuracy and the positions of the
        targets; and wrong picks by their distance from the target, None for sets without an order."""
        rows, rng = [], np.random.default_rng(self.seed)
        for kind, of_kind in by_kind([pick for pick in self.picks if pick.picked != CANNOT_TELL]).items():
            for size in sorted({len(pick.unit.images) for pick in of_kind}):
                chosen = [pick for pick in of_kind if len(pick.unit.images) == size]
                shown, target = np.array([pick.shown for pick in chosen]), np.array([pick.target for pick in chosen])
                ordered = all(pick.unit.ordered for pick in chosen)
                confusion = neighbour_confusion(shown, target, size) if ordered else None
                errors = errors_by_distance(confusion) if confusion else None
                bias = asdict(position_bias(shown, target, size, errors, rng))
                rows.append(
                    {"kind": kind, "size": size, "bias": bias, "confusion": asdict(confusion) if confusion else None}
                )
        return rows

    def kept_table(self) -> Table:
        """Descriptions by split: voted on, kept, and dropped by reason."""
        split_of = {pick.unit.id: pick.unit.split or "none" for pick in self.picks}
        order = ("train", "valid", "test", "none")
        rows = []
        for name in ("all", *sorted(set(split_of.values()), key=order.index)):
            chosen = [decision for unit, decision in self.decisions.items() if name in ("all", split_of[unit])]
            reasons = Counter(decision.reason for decision in chosen)
            kept, decided = reasons[None], reasons[None] + reasons["not_found"] + reasons["tie"]
            low, high = exact_interval(kept, decided)
            dropped = ", ".join(f"{count} {reason}" for reason, count in sorted(reasons.items(), key=str) if reason)
            votes = sum(decision.right + decision.wrong for decision in chosen)
            share = f"{kept / decided:.3f} ({low:.3f}–{high:.3f})" if decided else None
            rows.append((name, len(chosen), votes, kept, share, dropped))
        heads = ("split", "descriptions", "votes", "kept", "share of decided", "dropped")
        note = (
            "decided: descriptions with enough votes, by writers who are not blocked; in brackets the exact interval; "
            "the published share is 0.735 of all "
            "descriptions (ImageCoDe, section 3.3)"
        )
        return Table("Kept descriptions", heads, tuple(rows), note)

    def is_full_share_complete(self) -> bool:
        """Whether every description was voted on, and those of the full share got all votes; what blocked workers wrote aside."""
        votes = Counter(pick.unit.id for pick in self.picks if pick.worker not in self.blocked)
        described = {
            query_of(row.unit, row.worker)
            for row in self.answered.answers
            if self.answered.units[row.unit].task == "describe"
            and counts(self.answered.units[row.unit], row, self.blocked)
        }
        voted = {pick.unit.query for pick in self.picks} >= described
        full = [pick for pick in self.picks if pick.unit.full and pick.describer not in self.blocked]
        return voted and bool(full) and all(votes[pick.unit.id] >= pick.unit.most for pick in full)


def _value(row: Row) -> float | str | None:
    """An agreement coefficient, or the reason why it is undefined."""
    return row["reason"] if row["value"] is None else row["value"]  # type: ignore[no-any-return]


def _basis(part: str, basis: str) -> str:
    return f"{part}, {basis}" + (" (optimistic)" if basis == ACCEPTED else "")


def agreement_table(rows: Sequence[Row], full_share_complete: bool) -> Table:
    """Alpha as a table for people, with intervals over units and workers; `figures.json` has those over units too."""
    columns = {
        ("nominal", "image ids"): "on images",
        ("nominal", "positions"): "on positions",
        ("interval", "positions"): "interval",
    }
    lines: dict[tuple[str, str], dict[tuple[str, str], Row]] = {}
    for row in rows:
        lines.setdefault((row["kind"], row["basis"]), {})[row["level"], row["on"]] = row
    shown = []
    for (kind, basis), alphas in lines.items():
        cells = []
        for name in columns:
            alpha = alphas.get(name, {"value": None, "reason": None})
            span = "" if alpha.get("low") is None else f" ({alpha['low']:.2f}–{alpha['high']:.2f})"
            cells.append(alpha["reason"] if alpha["value"] is None else f"{alpha['value']:.2f}{span}")
        first = next(iter(alphas.values()))
        shown.append((_basis(kind, basis), first["units"], first["votes"], *cells))
    note = (
        "nominal alpha of image ids and of positions in the set; interval alpha of positions for frames in temporal order. "
        "In brackets the 95 % interval over units and workers. The released script computes accepted only, where votes agree "
        f"by selection; {FULL}: descriptions that get every vote, even after they are decided"
        + ("; all their votes are in, so this alpha is unbiased" if full_share_complete else "")
    )
    return Table("Krippendorff's alpha", ("votes of", "units", "votes", *columns.values()), tuple(shown), note)

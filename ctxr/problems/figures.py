"""Figures of an evaluation with intervals over whole sets, and comparisons between runs.

All figures of a side see the same draws, so the interval of a difference is that of pairs.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import numpy.typing as npt

from ctxr.datasets.readers.phenomena import PHENOMENA
from ctxr.metrics.compare import Clusters, Interval, mcnemar_of_shares, pearson_interval, sign_flip
from ctxr.metrics.proportions import exact_interval, holm
from ctxr.metrics.ranking import accuracy, best, chance, recall, reciprocal_rank
from ctxr.metrics.shortcuts import length_bins
from ctxr.metrics.votes import Doubles, Flags
from ctxr.problems.questions import WRITERS, BenchmarkQuery, EvalSplit

PARTS = ("all", "video", "photos")
"""What the paper calls static is called photos in tables of records."""

MOST_SOURCES = 12
"""Sources that are named; the rest is summed up."""

MOST_POSITIONS = 20
"""Larger sets are galleries, in which a position means nothing."""

Part = tuple[str, str, Flags]
"""View, name of a part in it, and which questions belong to it [B]."""


@dataclass(frozen=True)
class Figure:
    """One measure of one run on one part of a side.

    Attributes:
        view: the grouping: overall, phenomena, writers, source, length, distance.
        part: name of the part; in `phenomena` with the number of annotated questions. measure: accuracy, mrr, recall@k, chance.
        queries: in the part. interval: with its clusters.
    """

    side: str
    run: str
    view: str
    part: str
    measure: str
    queries: int
    interval: Interval


@dataclass(frozen=True)
class Correlation:
    """Pearson's r between accuracy and a covariate, over the questions of a split where it is known."""

    side: str
    run: str
    of: str
    queries: int
    interval: Interval


@dataclass(frozen=True)
class Error:
    """Wrong picks of a run in ordered sets by their distance from the target: their share, and that of random wrong guesses."""

    side: str
    run: str
    distance: int
    share: float
    blind: float


@dataclass(frozen=True)
class Seeds:
    """Accuracy of the seeds of one run on a side: each, their mean and standard deviation (n - 1)."""

    side: str
    run: str
    accuracies: dict[str, float]
    mean: float
    deviation: float


def seeds_of(side: str, run: str, each: Mapping[str, float]) -> list[Seeds]:
    """The row of a run with several seeds; none for a single one."""
    values = list(each.values())
    if len(values) < 2:
        return []
    return [Seeds(side, run, dict(each), float(np.mean(values)), float(np.std(values, ddof=1)))]


def seeds(side: EvalSplit) -> list[Seeds]:
    """A row for each run with several seeds."""
    return [
        row
        for run in side.runs
        if side.questions
        for row in seeds_of(
            side.name, run, {name: float(accuracy(side.places(name)).mean()) for name in side.seeds[run]}
        )
    ]


def telling(sides: Sequence[EvalSplit], recalls: Sequence[int]) -> tuple[list[int], list[str]]:
    """The ks at which recall can be anything but 1, and a sentence about those at which it cannot."""
    widest = max((len(one.candidates) for side in sides for one in side.questions), default=max(recalls, default=0) + 1)
    told = [k for k in recalls if k < widest]
    vain = ", ".join(f"R@{k}" for k in recalls if k >= widest)
    most = "1 image" if widest == 1 else f"{widest} images"
    return told, [f"{vain} is left out: no set has more than {most}, so it would be 100.0"] if vain else []


def unit_of(side: EvalSplit, by: str) -> str:
    """What is drawn again: `set`, `group` (video, album), or in galleries, where all share one set, `target`."""
    galleries = any(len(one.candidates) > MOST_POSITIONS for one in side.questions)
    return "target" if by == "set" and galleries else by


def clusters_of(side: EvalSplit, by: str, seed: tuple[int, int], resamples: int) -> Clusters:
    """The clusters of a side's questions, each drawn as a whole; `by` is what `unit_of` says."""
    names: dict[str, Callable[[BenchmarkQuery], str]] = {
        "set": lambda one: one.image_set.id,
        "group": lambda one: one.image_set.group,
        "target": lambda one: f"{one.image_set.id} {one.right}",
    }
    return Clusters([names[by](one) for one in side.questions], np.random.default_rng(seed), resamples)


def kinds_of(questions: Sequence[BenchmarkQuery]) -> list[str]:
    """`all`, and where there are both kinds of sets, each of them."""
    kinds = {one.image_set.kind for one in questions}
    return list(PARTS) if len(kinds) > 1 else ["all"]


def credits_of(side: EvalSplit) -> dict[str, Doubles]:
    """Expected accuracy of each run on each question, [B] by run, the mean over its seeds."""
    return {run: side.mean(run, accuracy) for run in side.runs}


def figures(side: EvalSplit, clusters: Clusters, recalls: Sequence[int]) -> list[Figure]:
    """Every measure of every run, overall and by view; parts without a question are left out."""
    parts = list(parts_of(side.questions))
    columns: list[tuple[str, Part, str, Doubles]] = []
    for run in side.runs:
        measures = {"accuracy": accuracy, "mrr": reciprocal_rank, "chance": chance}
        measures |= {f"recall@{k}": partial(recall, k=k) for k in recalls}
        values = {name: side.mean(run, measure) for name, measure in measures.items()}
        for part in parts:
            told = values if part[0] == "overall" else {"accuracy": values["accuracy"]}
            columns += [(run, part, name, column) for name, column in told.items()]
    if not columns:
        return []
    intervals = clusters.means(
        np.stack([column for *_, column in columns], axis=1),
        np.stack([part[2] for _, part, _, _ in columns], axis=1),
    )
    return [
        Figure(side.name, run, part[0], part[1], measure, int(part[2].sum()), _opened(interval))
        for (run, part, measure, _), interval in zip(columns, intervals, strict=True)
    ]


def parts_of(questions: Sequence[BenchmarkQuery]) -> list[Part]:
    """How a side is parted: overall by kind, then by every view that there is something known for."""
    found: list[Part] = []

    def add(view: str, name: str, chosen: Sequence[bool]) -> None:
        flags = np.array(chosen, bool)
        if flags.any():
            found.append((view, name, flags))

    for part in kinds_of(questions):
        add("overall", part, [part in ("all", one.image_set.kind) for one in questions])
    for looked in _looked(questions):
        for phenomenon in PHENOMENA:
            held = [looked(one, phenomenon) for one in questions]
            label = f"{phenomenon}, of {sum(held)}"
            add("phenomena", label, [ok and phenomenon in one.found for ok, one in zip(held, questions, strict=True)])
            without = [ok and phenomenon not in one.found for ok, one in zip(held, questions, strict=True)]
            add("phenomena", f"no {label}", without)
    for writer in WRITERS.values():
        add("writers", writer, [one.writer == writer for one in questions])
    sources = sorted(
        {one.source for one in questions}, key=lambda name: (-sum(o.source == name for o in questions), name)
    )
    if len(sources) > 1:
        for source in sources[:MOST_SOURCES]:
            add("source", source, [one.source == source for one in questions])
        rest = set(sources[MOST_SOURCES:])
        add("source", f"{len(rest)} others", [one.source in rest for one in questions])
    _add_fifths(add, "length", "tokens", [float(one.tokens) for one in questions], 0)
    _add_fifths(add, "distance", "", [np.nan if one.distance is None else one.distance for one in questions], 3)
    return found


def correlations(side: EvalSplit, clusters: Clusters) -> list[Correlation]:
    """r of being right with the number of tokens, and with the mean distance of the set (the paper: -0.11 and 0.22)."""
    known = {
        "tokens": np.array([float(one.tokens) for one in side.questions]),
        "set distance": np.array([np.nan if one.distance is None else one.distance for one in side.questions]),
    }
    rows = []
    for run, credit in credits_of(side).items():
        for name, values in known.items():
            within = ~np.isnan(values)
            if within.sum() > 1:
                interval = pearson_interval(credit, values, clusters, within)
                rows.append(Correlation(side.name, run, name, int(within.sum()), interval))
    return rows


def errors(side: EvalSplit) -> list[Error]:
    """How far wrong picks lie from the target in sets of a video; what is picked in a tie counts in parts."""
    rows = [
        row
        for row, one in enumerate(side.questions)
        if one.image_set.kind == "video" and len(one.right) == 1 and 1 < len(one.candidates) <= MOST_POSITIONS
    ]
    if not rows:
        return []
    target = side.right[rows].argmax(axis=1)
    apart = np.abs(np.arange(side.right.shape[1]) - target[:, None])
    found = []
    for run in side.runs:
        picks = np.mean([best(side.scores[name][rows]) for name in side.seeds[run]], axis=0)
        picked = np.where(apart > 0, picks, 0.0)
        there = (side.scores[side.seeds[run][0]][rows] > -np.inf) & (apart > 0)
        missed = picked.sum(axis=1, keepdims=True)
        blind = missed * there / there.sum(axis=1, keepdims=True)
        total = float(missed.sum())
        for distance in range(1, int(apart[there].max()) + 1):
            at = apart == distance
            if total:
                found.append(
                    Error(side.name, run, distance, float(picked[at].sum()) / total, float(blind[at].sum()) / total)
                )
    return found


def _opened(interval: Interval) -> Interval:
    """An interval of a share that is 0 or 1: drawing again never leaves it, so it is that of as many trials as clusters."""
    if interval.value not in (0.0, 1.0) or interval.clusters < 2:
        return interval
    low, high = exact_interval(interval.value * interval.clusters, interval.clusters)
    return replace(interval, low=low, high=high)


def _looked(questions: Sequence[BenchmarkQuery]) -> list[Callable[[BenchmarkQuery, str], bool]]:
    """The bases of phenomena: the questions with every tag (200 in the release), and where there are more those with one tag
    (1,002 for four of them)."""
    every = frozenset().union(*(one.looked for one in questions)) if questions else frozenset()
    more = {name for one in questions if one.looked != every for name in one.looked}

    def full(one: BenchmarkQuery, phenomenon: str) -> bool:
        return phenomenon in one.looked and one.looked == every

    def each(one: BenchmarkQuery, phenomenon: str) -> bool:
        return phenomenon in one.looked and phenomenon in more

    return [full, each] if more else [full]


def _add_fifths(
    add: Callable[[str, str, Sequence[bool]], None], view: str, unit: str, values: Sequence[float], digits: int
) -> None:
    """A part for each fifth of what is known, named by its ends."""
    known = np.array(values)
    there = ~np.isnan(known)
    if len(set(known[there].tolist())) < 2:
        return
    fifth = np.full(len(known), -1)
    fifth[there] = length_bins(known[there].tolist())
    for number in sorted(set(fifth[there].tolist())):
        inside = fifth == number
        low, high = known[inside].min(), known[inside].max()
        ends = dict.fromkeys(f"{end:.{digits}f}" for end in (low, high))
        add(view, f"{' to '.join(ends)} {unit}".strip(), inside.tolist())


@dataclass(frozen=True)
class RunDifference:
    """Accuracy of a run less that of the first, on one part of a side.

    Attributes:
        permutation: p-value of flipping clusters. corrected: the same after Holm's correction over the runs.
        mcnemar: exact, on queries that both runs have right or wrong outright, as if they were independent; None for runs of
            several seeds, which are neither right nor wrong, and where every query has a tie.
        mcnemar_corrected: after Holm's correction over the runs.
        tied: queries that McNemar leaves out, as the target shares the highest score of one of the two runs.
    """

    side: str
    part: str
    run: str
    against: str
    queries: int
    interval: Interval
    permutation: float
    corrected: float
    mcnemar: float | None
    mcnemar_corrected: float | None
    tied: int | None = None


def differences(side: EvalSplit, clusters: Clusters, seed: tuple[int, int], draws: int) -> list[RunDifference]:
    """Every run but the first against the first, overall, by kind, and on what shows a phenomenon; each part is one family of tests."""
    if len(side.runs) < 2 or not side.questions:
        return []
    credits = credits_of(side)
    first, *others = side.runs
    rows: list[RunDifference] = []
    for part, within in _parts(side.questions).items():
        gains = np.stack([credits[run] - credits[first] for run in others], axis=1)
        intervals = clusters.means(gains, np.repeat(within[:, None], len(others), axis=1))
        flips = [
            sign_flip(gains[within, place], clusters.codes[within], np.random.default_rng(seed), draws)
            for place in range(len(others))
        ]
        counted = {
            run: mcnemar_of_shares(credits[run][within], credits[first][within])
            for run in others
            if len(side.seeds[run]) == len(side.seeds[first]) == 1
        }
        exact = {run: p for run, (p, _) in counted.items() if p is not None}
        known = dict(zip(exact, holm(list(exact.values())), strict=True))
        tied = {run: left_out for run, (_, left_out) in counted.items()}
        found = (map(one.get, others) for one in (exact, known, tied))
        columns = zip(others, intervals, flips, holm(flips), *found, strict=True)
        rows += [RunDifference(side.name, part, run, first, int(within.sum()), *told) for run, *told in columns]
    return rows


def _parts(questions: Sequence[BenchmarkQuery]) -> dict[str, npt.NDArray[np.bool_]]:
    """Which questions belong to each part: all, those of a kind of set, those in whose text a phenomenon was found."""
    kinds = {part: [part in ("all", one.image_set.kind) for one in questions] for part in kinds_of(questions)}
    shown = {phenomenon: [phenomenon in one.found for one in questions] for phenomenon in PHENOMENA}
    return {part: np.array(held) for part, held in (kinds | shown).items() if any(held)}

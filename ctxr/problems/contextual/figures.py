"""What is measured of runs over sets of images: accuracy and ranks by view, correlations, and how far wrong picks lie."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from ctxr.datasets.readers.phenomena import PHENOMENA
from ctxr.metrics.columns import RatioColumn
from ctxr.metrics.compare import Clusters, Interval, pearson_interval
from ctxr.metrics.positions import MOST_POSITIONS
from ctxr.metrics.ranking import accuracy, best, chance, recall, reciprocal_rank
from ctxr.metrics.retrieval import trec_figures
from ctxr.metrics.shortcuts import length_bins
from ctxr.metrics.votes import Doubles, Flags
from ctxr.problems.contextual.examples import WRITERS, BenchmarkQuery, EvalSplit
from ctxr.problems.figures import PARTS, Columns, Measure, Seeds, seeds_of

MOST_SOURCES = 12
"""Sources that are named; the rest is summed up."""

Part = tuple[str, str, Flags]
"""View, name of a part in it, and which questions belong to it [B]."""


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


def seeds(split: EvalSplit) -> list[Seeds]:
    """A row for each run with several seeds."""
    rows: list[Seeds] = []
    for run in split.runs if split.questions else ():
        means = {name: float(accuracy(split.rank_counts(name)).mean()) for name in split.seeds[run]}
        rows += seeds_of(split.name, run, means)
    return rows


def telling(splits: Sequence[EvalSplit], recalls: Sequence[int]) -> tuple[list[int], list[str]]:
    """The ks at which recall can be anything but 1, and a sentence about those at which it cannot."""
    widest = max(
        (len(question.candidates) for split in splits for question in split.questions),
        default=max(recalls, default=0) + 1,
    )
    ks = [k for k in recalls if k < widest]
    vain = ", ".join(f"R@{k}" for k in recalls if k >= widest)
    most = "1 image" if widest == 1 else f"{widest} images"
    return ks, [f"{vain} is left out: no set has more than {most}, so it would be 100.0"] if vain else []


def resampling_unit(split: EvalSplit, by: str) -> str:
    """What is drawn again: `set`, `group` (video, album), or in galleries, where all share one set, `target`."""
    galleries = any(len(question.candidates) > MOST_POSITIONS for question in split.questions)
    return "target" if by == "set" and galleries else by


def groups_of(split: EvalSplit, by: str) -> list[str]:
    """The cluster of each question, drawn as a whole; `by` is what `resampling_unit` says."""
    names: dict[str, Callable[[BenchmarkQuery], str]] = {
        "set": lambda one: one.image_set.id,
        "group": lambda one: one.image_set.group,
        "target": lambda one: f"{one.image_set.id} {one.right}",
    }
    return [names[by](question) for question in split.questions]


def kinds_of(questions: Sequence[BenchmarkQuery]) -> dict[str, list[bool]]:
    """Which questions are of `all`, and where there are both kinds of sets, of each of them."""
    kinds = [question.image_set.kind for question in questions]
    return {part: [part in ("all", kind) for kind in kinds] for part in (PARTS if len({*kinds}) > 1 else ("all",))}


def credits_of(split: EvalSplit) -> dict[str, Doubles]:
    """Expected accuracy of each run on each question, [B] by run, the mean over its seeds."""
    return {run: split.mean(run, accuracy) for run in split.runs}


def columns_of(split: EvalSplit, run: str, recalls: Sequence[int], trec: bool) -> Columns:
    """Every measure of a run overall, with `trec` those of trec_eval too, and accuracy by view; parts without a question are left out."""
    measures = {"accuracy": accuracy, "mrr": reciprocal_rank, "chance": chance}
    measures |= {f"recall@{k}": partial(recall, k=k) for k in recalls}
    values = {name: split.mean(run, measure) for name, measure in measures.items()}
    if trec:
        scorers = [trec_figures(split.ranked(name), split.right, recalls) for name in split.seeds[run]]
        values |= {name: np.mean([one[name] for one in scorers], axis=0) for name in scorers[0]}
    columns: list[tuple[Measure, RatioColumn]] = []
    for view, part, within in parts_of(split.questions):
        shown = values if view == "overall" else {"accuracy": values["accuracy"]}
        columns += [((view, part, name), _column(column, within)) for name, column in shown.items()]
    return columns


def compared(split: EvalSplit) -> dict[str, dict[str, RatioColumn]]:
    """The accuracy of runs by part: all, those of a kind of set, those in whose text a phenomenon was found."""
    shown = {phenomenon: [phenomenon in question.found for question in split.questions] for phenomenon in PHENOMENA}
    credits = credits_of(split)
    return {
        part: {run: _column(credit, np.array(within)) for run, credit in credits.items()}
        for part, within in (kinds_of(split.questions) | shown).items()
        if any(within)
    }


def _column(values: Doubles, within: Flags) -> RatioColumn:
    return RatioColumn(np.arange(len(values)), np.where(within, values, 0.0), within.astype(np.float64))


def parts_of(questions: Sequence[BenchmarkQuery]) -> list[Part]:
    """How a side is parted: overall by kind, then by every view that there is something known for."""
    parts: list[Part] = []

    def add(view: str, name: str, chosen: Sequence[bool]) -> None:
        flags = np.array(chosen, bool)
        if flags.any():
            parts.append((view, name, flags))

    for part, within in kinds_of(questions).items():
        add("overall", part, within)
    # the bases of each phenomenon: the questions with every tag (200 in the release), and where there are
    # more those with one tag (1,002 for four of them)
    every = frozenset().union(*(question.looked for question in questions)) if questions else frozenset()
    more = {name for question in questions if question.looked != every for name in question.looked}
    full = {name: [name in one.looked and one.looked == every for one in questions] for name in PHENOMENA}
    single = {name: [name in one.looked and name in more for one in questions] for name in PHENOMENA}
    for examined in [full, single] if more else [full]:
        for phenomenon, within in examined.items():
            label = f"{phenomenon}, of {sum(within)}"
            add("phenomena", label, [ok and phenomenon in one.found for ok, one in zip(within, questions, strict=True)])
            without = [ok and phenomenon not in one.found for ok, one in zip(within, questions, strict=True)]
            add("phenomena", f"no {label}", without)
    for writer in WRITERS.values():
        add("writers", writer, [question.writer == writer for question in questions])
    counts = Counter(question.source for question in questions)
    sources = sorted(counts, key=lambda name: (-counts[name], name))
    if len(sources) > 1:
        for source in sources[:MOST_SOURCES]:
            add("source", source, [question.source == source for question in questions])
        others = set(sources[MOST_SOURCES:])
        add("source", f"{len(others)} others", [question.source in others for question in questions])
    _add_fifths(add, "length", "tokens", [question.tokens for question in questions], 0)
    _add_fifths(add, "distance", "", [question.distance for question in questions], 3)
    return parts


def correlations(split: EvalSplit, clusters: Clusters) -> list[Correlation]:
    """r of being right with the number of tokens, and with the mean distance of the set (the paper: -0.11 and 0.22)."""
    columns = {
        "tokens": np.array([question.tokens for question in split.questions], np.float64),
        "set distance": np.array([question.distance for question in split.questions], np.float64),
    }
    rows = []
    for run, credit in credits_of(split).items():
        for name, values in columns.items():
            within = ~np.isnan(values)
            if within.sum() > 1:
                interval = pearson_interval(credit, values, clusters, within)
                rows.append(Correlation(split.name, run, name, int(within.sum()), interval))
    return rows


def errors(split: EvalSplit) -> list[Error]:
    """How far wrong picks lie from the target in sets of a video; what is picked in a tie counts in parts."""
    rows = [
        row
        for row, one in enumerate(split.questions)
        if one.image_set.ordered and len(one.right) == 1 and 1 < len(one.candidates) <= MOST_POSITIONS
    ]
    if not rows:
        return []
    target = split.right[rows].argmax(axis=1)
    distances = np.abs(np.arange(split.right.shape[1]) - target[:, None])
    shares = []
    for run in split.runs:
        picks = np.mean([best(split.ranked(name)[rows]) for name in split.seeds[run]], axis=0)
        picked = np.where(distances > 0, picks, 0.0)
        wrong = (split.ranked(split.seeds[run][0])[rows] > -np.inf) & (distances > 0)
        missed = picked.sum(axis=1, keepdims=True)
        blind = missed * wrong / wrong.sum(axis=1, keepdims=True)
        total = float(missed.sum())
        for distance in range(1, int(distances[wrong].max()) + 1):
            at = distances == distance
            if total:
                shares.append(
                    Error(split.name, run, distance, float(picked[at].sum()) / total, float(blind[at].sum()) / total)
                )
    return shares


def _add_fifths(
    add: Callable[[str, str, Sequence[bool]], None], view: str, unit: str, values: Sequence[float | None], digits: int
) -> None:
    """A part for each fifth of what is known, named by its ends."""
    column = np.array(values, np.float64)
    defined = ~np.isnan(column)
    if len(set(column[defined].tolist())) < 2:
        return
    fifth = np.full(len(column), -1)
    fifth[defined] = length_bins(column[defined].tolist())
    for number in sorted(set(fifth[defined].tolist())):
        inside = fifth == number
        low, high = column[inside].min(), column[inside].max()
        ends = dict.fromkeys(f"{end:.{digits}f}" for end in (low, high))
        add(view, f"{' to '.join(ends)} {unit}".strip(), inside.tolist())

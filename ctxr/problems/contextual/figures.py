"""What is measured of runs over sets of images: accuracy and ranks by view, correlations, how far wrong picks lie; and the tables.

Tables have accuracy in percent, as the paper prints it.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ctxr.datasets.readers.phenomena import PHENOMENA
from ctxr.engine.report import Table
from ctxr.metrics.compare import FEW_CLUSTERS, Clusters, Interval, RatioColumn, pearson_interval
from ctxr.metrics.positions import MOST_POSITIONS
from ctxr.metrics.proportions import LEVEL
from ctxr.metrics.ranking import ALL_OF_SET, accuracy, all_right, best, chance
from ctxr.metrics.shortcuts import length_bins
from ctxr.metrics.votes import Doubles, Flags
from ctxr.problems.contextual.examples import WRITERS, BenchmarkQuery, EvalSplit
from ctxr.problems.figures import (
    STATIC,
    Columns,
    Figure,
    RunDifference,
    corrected_note,
    difference,
    none_had,
    p_value,
    percent,
)
from ctxr.store.kinds import SET_KINDS

TIED = {"expected": "ties share it", "first": "right images first in ties", "last": "right images last in ties"}
MOST_SOURCES = 12
"""Sources that are named; the rest is summed up."""


@dataclass(frozen=True)
class QuestionGroup:
    """Questions evaluated together, by view and name; `within`: flags [B], at least one True."""

    view: str
    name: str
    within: Flags


@dataclass(frozen=True)
class Correlation:
    """Pearson's r of accuracy and a covariate over questions of a split where it is known."""

    split: str
    run: str
    of: str
    queries: int
    interval: Interval


@dataclass(frozen=True)
class Error:
    """Share of wrong picks in ordered sets at a distance from the target, and of blind guesses."""

    split: str
    run: str
    distance: int
    share: float
    blind: float


def resampling_unit(split: EvalSplit, by: str) -> str:
    """What is drawn again: `set`, `group` (video, album), or in galleries, where all share one set, `target`."""
    galleries = any(len(question.candidates) > MOST_POSITIONS for question in split.questions)
    return "target" if by == "set" and galleries else by


def kinds_of(questions: Sequence[BenchmarkQuery]) -> dict[str, list[bool]]:
    """Which questions are of `all`, and where there are several kinds of sets, of each of them."""
    kinds = [question.image_set.kind for question in questions]
    parts = ["all", *(kind for kind in SET_KINDS if kind in kinds and len({*kinds}) > 1)]
    return {part: [part in ("all", kind) for kind in kinds] for part in parts}


def accuracy_column(values: Doubles, within: Flags) -> RatioColumn:
    """The mean of values [B] over a part of the questions."""
    return RatioColumn(np.arange(len(values)), np.where(within, values, 0.0), within.astype(np.float64))


def set_columns(split: EvalSplit, run: str) -> Columns:
    """All-of-set accuracy by kind of set, and that of a blind guess: a set counts when each of its queries is right."""
    _, first, codes = np.unique([one.image_set.id for one in split.questions], return_index=True, return_inverse=True)
    measures = {ALL_OF_SET: accuracy, f"{ALL_OF_SET} chance": chance}
    counts = [split.rank_counts(one.name) for one in split.scorers[run]]
    found = {name: np.mean([all_right(of(one), codes) for one in counts], axis=0) for name, of in measures.items()}
    return [
        (("overall", part, name), RatioColumn(first, np.where(own, values, 0.0), own.astype(np.float64)))
        for part, within in kinds_of(split.questions).items()
        for own in [np.array(within, bool)[first]]
        for name, values in found.items()
        if own.any()
    ]


def question_parts(questions: Sequence[BenchmarkQuery]) -> list[QuestionGroup]:
    """The groups of a split: overall by kind, then by each view for which annotations exist."""
    views: list[tuple[str, str, Sequence[bool]]] = [
        ("overall", part, within) for part, within in kinds_of(questions).items()
    ]
    # the bases of each phenomenon: the questions with every tag (200 in the release), and where there are
    # more those with one tag (1,002 for four of them)
    every = frozenset().union(*(question.looked for question in questions)) if questions else frozenset()
    more = {name for question in questions if question.looked != every for name in question.looked}
    full = {name: [name in one.looked and one.looked == every for one in questions] for name in PHENOMENA}
    single = {name: [name in one.looked and name in more for one in questions] for name in PHENOMENA}
    for examined in [full, single] if more else [full]:
        for name, within in examined.items():
            for label, present in ((f"{name}, of {sum(within)}", True), (f"no {name}, of {sum(within)}", False)):
                tagged = [ok and (name in one.found) == present for ok, one in zip(within, questions, strict=True)]
                views.append(("phenomena", label, tagged))
    views += [("writers", name, [question.writer == name for question in questions]) for name in WRITERS.values()]
    counts = Counter(question.source for question in questions)
    sources = sorted(counts, key=lambda name: (-counts[name], name))
    if len(sources) > 1:
        named = sources[:MOST_SOURCES]
        views += [("source", name, [question.source == name for question in questions]) for name in named]
        others = set(sources[MOST_SOURCES:])
        views.append(("source", f"{len(others)} others", [question.source in others for question in questions]))
    parts = [QuestionGroup(view, name, np.array(within, bool)) for view, name, within in views if any(within)]
    places = [
        one.right[0] if len(one.right) == 1 and len(one.candidates) <= MOST_POSITIONS else None for one in questions
    ]
    asked = sorted({place for place in places if place is not None})
    if len(asked) > 1:
        parts += [QuestionGroup("position", str(place), np.array([one == place for one in places])) for place in asked]
    parts += _fifths("length", "tokens", [one.tokens for one in questions], 0)
    return parts + _fifths("distance", "", [one.distance for one in questions], 3)


def _fifths(view: str, unit: str, values: Sequence[float | None], digits: int) -> list[QuestionGroup]:
    """A part for each fifth of what is known, named by its ends."""
    column = np.array(values, np.float64)
    defined = ~np.isnan(column)
    if len(set(column[defined].tolist())) < 2:
        return []
    fifth = np.full(len(column), -1)
    fifth[defined] = length_bins(column[defined].tolist())
    parts = []
    for number in sorted(set(fifth[defined].tolist())):
        inside = fifth == number
        ends = dict.fromkeys(f"{end:.{digits}f}" for end in (column[inside].min(), column[inside].max()))
        parts.append(QuestionGroup(view, f"{' to '.join(ends)} {unit}".strip(), inside))
    return parts


def correlations(split: EvalSplit, clusters: Clusters) -> list[Correlation]:
    """r of being right with tokens, and with the set's mean distance (paper: -0.11 and 0.22)."""
    columns = {
        "tokens": np.array([question.tokens for question in split.questions], np.float64),
        "set distance": np.array([question.distance for question in split.questions], np.float64),
    }
    rows = []
    for run in split.scorers:
        for name, values in columns.items():
            within = ~np.isnan(values)
            if within.sum() > 1:
                interval = pearson_interval(split.mean(run, accuracy), values, clusters, within)
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
    target = split.targets[rows].argmax(axis=1)
    distances = np.abs(np.arange(split.targets.shape[1]) - target[:, None])
    shares = []
    for run, scorers in split.scorers.items():
        picks = np.mean([best(split.ranked[one.name][rows]) for one in scorers], axis=0)
        picked = np.where(distances > 0, picks, 0.0)
        wrong = (split.ranked[scorers[0].name][rows] > -np.inf) & (distances > 0)
        missed = picked.sum(axis=1, keepdims=True)
        blind = missed * wrong / wrong.sum(axis=1, keepdims=True)
        total = float(missed.sum())
        for distance in range(1, int(distances[wrong].max()) + 1) if total else ():
            at = distances == distance
            share, guessed = float(picked[at].sum()) / total, float(blind[at].sum()) / total
            shares.append(Error(split.name, run, distance, share, guessed))
    return shares


VIEWS = {
    "writers": ("by writer", "whether the writer of the description was seen in train"),
    "source": ("by source", "corpus, video or album"),
    "position": ("by position of the target", "its place among the images of the set, from 0"),
    "length": ("by length of the text", "fifths of the queries"),
    "distance": ("by mean distance of the set", "fifths of the queries; smaller is harder"),
}


def accuracy_table(split: EvalSplit, figures: Sequence[Figure], clusters: str) -> Table:
    """A row for each run: accuracy all, video and static, ranks, as the paper's Table 5."""
    own = [figure for figure in figures if figure.split == split.name and figure.view == "overall"]
    cells = {(figure.run, figure.part, figure.measure): figure for figure in own}
    parts = [part for part in ("all", *SET_KINDS) if any(figure.part == part for figure in own)]
    others = [name for name in dict.fromkeys(one.measure for one in own) if name != "accuracy" and "chance" not in name]
    rows, first = list[tuple[object, ...]](), next(iter(split.scorers))
    for run in split.scorers:
        shown = list[object]()
        for name in others:
            share = cells[run, "all", name].interval
            plain = share.value if name == "mrr" or share.value is None else f"{100 * share.value:.1f}"
            shown.append(percent(share) if name == ALL_OF_SET else plain)
        rows.append((run, *(percent(cells[run, part, "accuracy"].interval) for part in parts), *shown))
    sizes = []
    for part in parts:
        overall = cells[first, part, "accuracy"]
        blind = cells[first, part, "chance"].interval.value
        sizes.append(
            f"{STATIC.get(part, part)}: {overall.queries:,} queries in {overall.interval.clusters:,} {clusters}s, "
            f"chance {100 * (blind or 0):.1f} %"
        )
    note = (
        f"{'; '.join(sizes)}. Accuracy in %, {TIED[split.ties]}; in brackets the {100 * LEVEL:g} % bootstrap interval over {clusters}s"
        f"{_caution([figure.interval for figure in own if figure.measure == 'accuracy'])}"
    )
    note += f"; {ALL_OF_SET}: sets whose every query is right" if ALL_OF_SET in others else ""
    names = ("MRR" if name == "mrr" else name.replace("recall@", "R@") for name in others)
    heads = ("run", *(STATIC.get(part, part) for part in parts), *names)
    return Table(f"{split.name}: accuracy", heads, tuple(rows), note)


def part_differences(
    split: EvalSplit, figures: Sequence[Figure], rows: Sequence[RunDifference], clusters: str
) -> Table | None:
    """Each run and how it differs from every one before it, part by part."""
    own = [row for row in rows if row.split == split.name]
    if not own:
        return None
    # of a phenomenon's two bases the wider one comes last: all questions whose text has it
    accuracies = {
        (figure.part.split(",")[0], figure.run): percent(figure.interval)
        for figure in figures
        if (figure.split, figure.measure) == (split.name, "accuracy") and figure.view in ("overall", "phenomena")
    }
    shown: list[tuple[object, ...]] = []
    for part in dict.fromkeys(row.part for row in own):
        inside, name = [row for row in own if row.part == part], STATIC.get(part, part)
        first = own[0].against
        shown.append((first, name, None, inside[0].queries, accuracies[part, first], *[None] * 5))
        for row in inside:
            tests = map(p_value, (row.permutation, row.corrected, row.mcnemar, row.mcnemar_corrected))
            shown.append((row.run, name, row.against, row.queries, accuracies[part, row.run], difference(row), *tests))
    ties = ", ".join(
        f"{row.run} and {row.against} {row.tied} of {row.queries:,}" for row in own if row.part == "all" and row.tied
    )
    note = (
        f"run minus against, in points of accuracy; p: two-sided, signs of whole {clusters}s are flipped; "
        f"McNemar assumes independent queries, so its p is too small if a {clusters} has several, and leaves out queries whose target is "
        "tied for a run's highest score"
        f"{f' ({ties})' if ties else ''}; {corrected_note(rows)}{none_had([row.interval for row in own])}"
    )
    heads = ("run", "on", "against", "queries", "accuracy", "difference", "p flips", "Holm", "McNemar", "Holm McNemar")
    return Table(f"{split.name}: differences", heads, tuple(shown), note)


def view_tables(split: EvalSplit, figures: Sequence[Figure]) -> dict[str, Table]:
    """A table for each way in which a split was parted, by name of the view."""
    tables: dict[str, Table] = {}
    own = [figure for figure in figures if figure.split == split.name and figure.measure == "accuracy"]
    if tagged := [figure for figure in own if figure.view == "phenomena"]:
        # one run with and without each phenomenon; several runs side by side with it
        by_part = {(figure.part, figure.run): figure for figure in tagged}
        runs, found = list(split.scorers), list[tuple[object, ...]]()
        for part in dict.fromkeys(figure.part for figure in tagged if not figure.part.startswith("no ")):
            name, _, examined = part.rpartition(", of ")
            present: list[str | None] = [percent(by_part[part, run].interval) for run in runs]
            without = by_part.get((f"no {part}", runs[0]))
            if len(runs) == 1:
                present += [percent(without.interval) if without else None]
            found.append((name, int(examined), by_part[part, runs[0]].queries, *present))
        heads = ("phenomenon", "examined", "found", *(("with it", "without") if len(runs) == 1 else runs))
        note = "examined: descriptions that somebody examined for it; a phenomenon is listed twice where it was searched for in more"
        note += _caution([figure.interval for figure in tagged])
        tables["phenomena"] = Table(f"{split.name}: accuracy by phenomenon", heads, tuple(found), note)
    for view, (title, note) in VIEWS.items():
        cells = {(figure.part, figure.run): figure for figure in own if figure.view == view}
        rows = []
        for part in dict.fromkeys(part for part, _ in cells):
            shown = [cells[part, run] for run in split.scorers]
            intervals = (percent(figure.interval) for figure in shown)
            rows.append((part, shown[0].queries, shown[0].interval.clusters, *intervals))
        if rows:
            fewer = f" (only {len(rows)}: equal values are not parted)" if "fifths" in note and len(rows) < 5 else ""
            caption = note + fewer + _caution([cell.interval for cell in cells.values()])
            heads = (view, "queries", "clusters", *split.scorers)
            tables[view] = Table(f"{split.name}: accuracy {title}", heads, tuple(rows), caption)
    return tables


def _caution(intervals: Sequence[Interval]) -> str:
    """What to add where intervals rest on few clusters, and where there are none."""
    lacking = none_had(intervals)
    if all(interval.low is None or interval.clusters >= FEW_CLUSTERS for interval in intervals):
        return lacking
    return (
        f"; intervals over fewer than {FEW_CLUSTERS} clusters are too narrow (of those over 5, four in five hold the truth)"
        f"{lacking}"
    )


def correlation_table(split: EvalSplit, rows: Sequence[Correlation]) -> Table | None:
    """Pearson's r of being right with length and with the distance of the set."""
    cells: dict[tuple[str, str], str] = {}
    own = [row for row in rows if row.split == split.name]
    for row in own:
        r = row.interval
        span = "(–)" if r.low is None else f"({r.low:+.2f} to {r.high:+.2f})"
        cells[row.run, row.of] = "–" if r.value is None else f"{r.value:+.2f} {span}"
    names = list(dict.fromkeys(row.of for row in own))
    if not names:
        return None
    shown = tuple((run, *(cells[run, of] for of in names)) for run in split.scorers)
    note = (
        "Pearson's r; the paper has -0.11 with tokens and 0.22 with set distance (target to the others, ViT-B/32)"
        f"{none_had([row.interval for row in own])}"
    )
    return Table(f"{split.name}: being right goes with", ("run", *names), shown, note)


def error_table(split: EvalSplit, rows: Sequence[Error]) -> Table | None:
    """How far wrong picks lie from the target in video sets."""
    own = {(row.run, row.distance): row for row in rows if row.split == split.name}
    if not own:
        return None
    distances = sorted({distance for _, distance in own})
    runs = [run for run in split.scorers if (run, distances[0]) in own]
    shown = tuple(
        (distance, 100 * own[runs[0], distance].blind, *(100 * own[run, distance].share for run in runs))
        for distance in distances
    )
    note = "% of the wrong picks in video sets; blind: as far if wrong picks fell evenly on the other frames (of the first run)"
    heads = ("frames", "blind", *runs)
    return Table(f"{split.name}: wrong picks by frames from the target", heads, shown, note, digits=1)

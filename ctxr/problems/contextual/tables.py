"""The figures of an evaluation as tables for people; accuracy is in percent, as the paper prints it."""

from collections.abc import Sequence

from ctxr.engine.report import Table
from ctxr.metrics.compare import FEW_CLUSTERS, Interval
from ctxr.metrics.proportions import LEVEL
from ctxr.problems.contextual.examples import EvalSplit
from ctxr.problems.contextual.figures import Correlation, Error, resampling_unit
from ctxr.problems.figures import PARTS, Figure, RunDifference
from ctxr.problems.results import Findings
from ctxr.problems.tables import STATIC, corrected_note, difference, none_had, p_value, percent, seed_table

VIEWS = {
    "writers": ("by writer", "whether the writer of the description was seen in train"),
    "source": ("by source", "corpus, video or album"),
    "length": ("by length of the text", "fifths of the queries"),
    "distance": ("by mean distance of the set", "fifths of the queries; smaller is harder"),
}


def accuracy_table(split: EvalSplit, figures: Sequence[Figure], clusters: str) -> Table:
    """A row for each run: accuracy all, video and static, ranks, as the paper's Table 5."""
    own = [figure for figure in figures if figure.side == split.name and figure.view == "overall"]
    cells = {(question.run, question.part, question.measure): question for question in own}
    parts = [part for part in PARTS if any(question.part == part for question in own)]
    ranks = [name for name in dict.fromkeys(question.measure for question in own) if name not in ("accuracy", "chance")]
    rows = [
        (
            run,
            *(percent(cells[run, part, "accuracy"].interval) for part in parts),
            *(_rank(name, cells[run, "all", name].interval) for name in ranks),
        )
        for run in split.runs
    ]
    sizes = []
    for part in parts:
        overall = cells[split.runs[0], part, "accuracy"]
        blind = cells[split.runs[0], part, "chance"].interval.value
        sizes.append(
            f"{STATIC.get(part, part)}: {overall.queries:,} queries in {overall.interval.clusters:,} {clusters}s, "
            f"chance {100 * (blind or 0):.1f} %"
        )
    note = (
        f"{'; '.join(sizes)}. Accuracy in %, ties share it; in brackets {100 * LEVEL:g} % over {clusters}s drawn again"
        f"{_caution([question.interval for question in own if question.measure == 'accuracy'])}"
    )
    names = ("MRR" if name == "mrr" else name.replace("recall@", "R@") for name in ranks)
    heads = ("run", *(STATIC.get(part, part) for part in parts), *names)
    return Table(f"{split.name}: accuracy", heads, tuple(rows), note)


def part_differences(
    split: EvalSplit, figures: Sequence[Figure], rows: Sequence[RunDifference], clusters: str
) -> Table | None:
    """Each run and how it differs from every one before it, part by part."""
    own = [row for row in rows if row.side == split.name]
    if not own:
        return None
    # of the two bases of a phenomenon the wider one comes last: all questions in whose text it was found
    accuracies = {
        (figure.part.split(",")[0], figure.run): percent(figure.interval)
        for figure in figures
        if (figure.side, figure.measure) == (split.name, "accuracy") and figure.view in ("overall", "phenomena")
    }
    shown: list[tuple[object, ...]] = []
    for part in dict.fromkeys(question.part for question in own):
        first, name = own[0].against, STATIC.get(part, part)
        queries = next(question.queries for question in own if question.part == part)
        shown.append((first, name, None, queries, accuracies[part, first], *[None] * 5))
        shown += [
            (
                question.run,
                name,
                question.against,
                question.queries,
                accuracies[part, question.run],
                difference(question),
                *map(p_value, (question.permutation, question.corrected, question.mcnemar, question.mcnemar_corrected)),
            )
            for question in own
            if question.part == part
        ]
    ties = ", ".join(
        f"{row.run} and {row.against} {row.tied} of {row.queries:,}" for row in own if row.part == "all" and row.tied
    )
    note = (
        f"points of accuracy; p: two-sided, {clusters}s flipped whole; McNemar takes queries for independent, so its p is too "
        f"small where a {clusters} has several, and leaves out queries whose target is tied for a run's highest score"
        f"{f' ({ties})' if ties else ''}; {corrected_note(rows)}{none_had([question.interval for question in own])}"
    )
    heads = ("run", "on", "against", "queries", "accuracy", "difference", "p flips", "Holm", "McNemar", "Holm ")
    return Table(f"{split.name}: differences", heads, tuple(shown), note)


def view_tables(split: EvalSplit, figures: Sequence[Figure]) -> dict[str, Table]:
    """A table for each way in which a side was parted, by name of the view."""
    tables: dict[str, Table] = {}
    own = [figure for figure in figures if figure.side == split.name and figure.measure == "accuracy"]
    tagged = [question for question in own if question.view == "phenomena"]
    if tagged:
        tables["phenomena"] = _phenomena(split, tagged)
    for view, (title, note) in VIEWS.items():
        cells = {(question.part, question.run): question for question in own if question.view == view}
        parts = list(dict.fromkeys(part for part, _ in cells))
        rows = tuple(
            (
                part,
                cells[part, split.runs[0]].queries,
                cells[part, split.runs[0]].interval.clusters,
                *(percent(cells[part, run].interval) for run in split.runs),
            )
            for part in parts
        )
        if rows:
            heads = (view, "queries", "clusters", *split.runs)
            fewer = f" (only {len(parts)}: equal values are not parted)" if "fifths" in note and len(parts) < 5 else ""
            caption = note + fewer + _caution([cell.interval for cell in cells.values()])
            tables[view] = Table(f"{split.name}: accuracy {title}", heads, rows, caption)
    return tables


def _phenomena(split: EvalSplit, figures: Sequence[Figure]) -> Table:
    """One run with and without each phenomenon; several runs side by side with it."""
    cells = {(figure.part, figure.run): figure for figure in figures}
    parts = [part for part in dict.fromkeys(figure.part for figure in figures) if not part.startswith("no ")]
    single = len(split.runs) == 1
    rows = []
    for part in parts:
        name, _, examined = part.rpartition(", of ")
        row = [name, int(examined), cells[part, split.runs[0]].queries]
        row += [percent(cells[part, run].interval) for run in split.runs]
        if single:
            without = cells.get((f"no {part}", split.runs[0]))
            row.append(None if without is None else percent(without.interval))
        rows.append(tuple(row))
    heads = ("phenomenon", "examined", "found", *(("with it", "without") if single else split.runs))
    note = "examined: descriptions that somebody examined for it; a phenomenon is listed twice where it was searched for in more"
    note += _caution([figure.interval for figure in figures])
    return Table(f"{split.name}: accuracy by phenomenon", heads, tuple(rows), note)


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
    own = {(row.run, row.of): row for row in rows if row.side == split.name}
    names = list(dict.fromkeys(of for _, of in own))
    if not names:
        return None
    shown = tuple((run, *(_r(own[run, of].interval) for of in names)) for run in split.runs)
    note = (
        "Pearson's r; the paper has -0.11 with tokens and 0.22 with set distance (target to the others, ViT-B/32)"
        f"{none_had([question.interval for question in own.values()])}"
    )
    return Table(f"{split.name}: being right goes with", ("run", *names), shown, note)


def error_table(split: EvalSplit, rows: Sequence[Error]) -> Table | None:
    """How far wrong picks lie from the target in video sets."""
    own = {(row.run, row.distance): row for row in rows if row.side == split.name}
    if not own:
        return None
    distances = sorted({distance for _, distance in own})
    runs = [run for run in split.runs if (run, distances[0]) in own]
    shown = tuple(
        (distance, 100 * own[runs[0], distance].blind, *(100 * own[run, distance].share for run in runs))
        for distance in distances
    )
    note = "% of the wrong picks in video sets; blind: as far if wrong picks fell evenly on the other frames (of the first run)"
    heads = ("frames", "blind", *runs)
    return Table(f"{split.name}: wrong picks by frames from the target", heads, shown, note, digits=1)


def tables_of(split: EvalSplit, findings: Findings, by: str) -> dict[str, Table]:
    """Every table of a side that there is something for, by name `<side>/<table>`, in the order of reading."""
    if not split.questions:
        return {}
    clusters = resampling_unit(split, by)
    tables: dict[str, Table | None] = {
        "accuracy": accuracy_table(split, findings.figures, clusters),
        "seeds": seed_table(
            split.name,
            findings.rows["seeds"],
            "accuracy %",
            "mean and standard deviation over seeds; every other figure of such a run is the mean over its seeds, query by query",
        ),
        "differences": part_differences(split, findings.figures, findings.differences, clusters),
        **view_tables(split, findings.figures),
        "correlations": correlation_table(split, findings.rows["correlations"]),
        "errors": error_table(split, findings.rows["errors"]),
    }
    return {f"{split.name}/{name}": table for name, table in tables.items() if table is not None}


def _r(interval: Interval) -> str:
    if interval.value is None:
        return "–"
    span = " (–)" if interval.low is None else f" ({interval.low:+.2f} to {interval.high:+.2f})"
    return f"{interval.value:+.2f}{span}"


def _rank(name: str, interval: Interval) -> str | float | None:
    return interval.value if name == "mrr" else None if interval.value is None else f"{100 * interval.value:.1f}"

"""How runs do: accuracy with intervals, against people and chance, and every query with its images, scores and picks."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ctxr.errors import plural
from ctxr.metrics.compare import LEAST_CLUSTERS, Interval
from ctxr.pipelines.evaluating.measuring import PARTS
from ctxr.pipelines.evaluating.results import QueryResult
from ctxr.pipelines.evaluating.tables import STATIC, p_value, percent
from ctxr.pipelines.reporting.attention import Attended, attended
from ctxr.pipelines.reporting.edition import Edition, Section
from ctxr.pipelines.reporting.plots import ticks
from ctxr.pipelines.reporting.scored import EvaluationRows, find_scored
from ctxr.pipelines.reporting.stages import ALONE

MOST_QUERIES = 3000
"""Queries that a page holds; the hardest of them."""

MOST_LEFT, LETTER, RIGHT, TOP, ROW, GAP, BOTTOM = 190, 7, 18, 12, 17, 11, 44
WIDTH = 720
"""Box of the plot in SVG units: room for names (so much a letter) and axis, height of a row, room between runs."""

DIGITS = 4
"""Digits of a score that are kept for its bar."""


@dataclass(frozen=True)
class Whisker:
    """One figure of the plot in SVG units: dot at `x`, interval from `low` to `high` (None where there is none), at height `y`."""

    y: float
    x: float
    low: float | None
    high: float | None
    part: str
    title: str


@dataclass(frozen=True)
class Panel:
    """One side of the benchmark: the plot and its table.

    Attributes:
        left: where the axis starts. names: (height, run) of each group. whiskers: its rows. x_ticks: (position, label).
        chance: position of the dashed line, and what it is.
        parts: colour and name of each part with its queries. rows: of the table, cells as text; heads: of its columns.
        says: the plot in a sentence. notes: what does not stand on the same queries, or has no interval.
    """

    side: str
    left: int
    height: int
    names: list[tuple[float, str]]
    whiskers: list[Whisker]
    x_ticks: list[tuple[float, str]]
    chance: tuple[float, str] | None
    parts: list[tuple[str, str]]
    heads: list[str]
    rows: list[list[str]]
    says: str
    notes: list[str]


def make(edition: Edition) -> Mapping[str, Any] | None:
    """Fills `data["results"]`; None where nothing was evaluated."""
    chain = edition.chain
    scored = find_scored(chain.project, None if chain.last.kind == ALONE else chain.evaluated)
    if scored is None or not scored.runs:
        return None
    edition.evaluations += scored.artifacts
    ranked = _ranked(scored)
    known = chain.dataset if scored.dataset == chain.evaluated else None
    shares, unseen = attended(chain.project, scored, list(ranked), edition.talk, known)
    edition.data["results"] = data = _data(edition, scored, ranked, shares)
    sides = list(dict.fromkeys(row["side"] for row in scored.figures))
    data["asked"] = asked = len({row.query for row in scored.rows})
    return {
        "panels": [_panel(scored, side) for side in sides],
        "people": scored.people,
        "tables": scored.tables,
        "notes": [*scored.notes, *unseen],
        "attended": sorted({name for name, _ in shares}),
        "runs": scored.scorers,
        "asked": asked,
        "shown": len(data["queries"]),
        "sides": sides,
        "kinds": sorted({row.kind for row in scored.rows}),
        "tags": sorted({tag for row in scored.rows for tag in row.tags}),
        "plot": {"right": WIDTH - RIGHT, "top": TOP, "width": WIDTH},
    }


def _panel(scored: EvaluationRows, side: str) -> Panel:
    found = {
        (row["run"], row["part"], row["measure"]): row
        for row in scored.figures
        if row["side"] == side and row["view"] == "overall"
    }
    sizes = {run: found[run, "all", "accuracy"]["queries"] for run in scored.runs if (run, "all", "accuracy") in found}
    asked = max(sizes.values())
    # what was scored in part stands last, under its own number
    runs = sorted(sizes, key=lambda run: sizes[run] < asked)
    called = {run: run if sizes[run] == asked else f"{run} ({sizes[run]:,} of {asked:,})" for run in runs}
    parts = [part for part in PARTS if (runs[0], part, "accuracy") in found]
    # one kind alone says the same twice
    parts = ["all"] if len(parts) == 2 else parts
    ends = [row for run in runs for part in parts if (row := found.get((run, part, "accuracy"))) is not None]
    most = max(min(1.0, max(row["value"] if row["high"] is None else row["high"] for row in ends) + 0.03), 0.2)

    left = min(MOST_LEFT, 20 + LETTER * max(map(len, called.values())))

    def across(value: float) -> float:
        return round(float(left + value / most * (WIDTH - left - RIGHT)), 1)

    names, whiskers, y = [], [], float(TOP + ROW / 2)
    for run in runs:
        names.append((round(y + (len(parts) - 1) * ROW / 2, 1), called[run]))
        for part in (part for part in parts if (run, part, "accuracy") in found):
            whiskers.append(_whisker(found[run, part, "accuracy"], run, part, y, across))
            y += ROW
        y += GAP
    blind = found.get((runs[0], "all", "chance"))
    chance = None if blind is None else (across(blind["value"]), f"chance {100 * blind['value']:.3g} %")
    whole = [run for run in runs if sizes[run] == asked]
    best = max(whole, key=lambda run: found[run, "all", "accuracy"]["value"])
    top = _interval(found[best, "all", "accuracy"])
    return Panel(
        side,
        left,
        round(y - GAP - ROW / 2) + BOTTOM,
        names,
        whiskers,
        [(across(value), f"{100 * value:.0f}") for value in ticks(0, most, 8)],
        chance,
        [
            (
                part,
                f"{STATIC.get(part, part)}, {plural(found[runs[0], part, 'accuracy']['queries'], 'query', 'queries', ',')}",
            )
            for part in parts
        ],
        *_table(scored, side, found, runs, parts),
        f"Accuracy of {plural(len(whole), 'run', 'runs', ',')} on {side}: the best is {best} with {percent(top)} %.",
        _notes(called, len(whole), asked, ends),
    )


def _notes(called: Mapping[str, str], whole: int, asked: int, ends: Sequence[Mapping[str, Any]]) -> list[str]:
    """What keeps figures of a panel from being compared, and why some have no whisker."""
    partly = [shown for run, shown in called.items() if shown != run]
    lacking = sum(row["low"] is None for row in ends)
    notes = []
    if partly:
        others = "the others" if whole > 1 else "the other"
        told = f"Scored on a part of the {asked:,} queries, so not to be compared with {others}"
        notes.append(f"{told}: {', '.join(partly)}.")
    if lacking:
        dots = "A dot" if lacking == 1 else f"{lacking} dots"
        notes.append(
            f"{dots} without a whisker, (–) in the table: no interval, as the figure rests on fewer than {LEAST_CLUSTERS} sets "
            "or all draws are alike."
        )
    return notes


def _whisker(row: Mapping[str, Any], run: str, part: str, y: float, across: Any) -> Whisker:
    low, high = (None if row[name] is None else across(row[name]) for name in ("low", "high"))
    title = f"{run}, {STATIC.get(part, part)}: {percent(_interval(row))} % of {plural(row['queries'], 'query', 'queries', ',')}"
    title += f" in {plural(row['clusters'], 'cluster', 'clusters', ',')}"
    return Whisker(y, across(row["value"]), low, high, part, title)


def _table(
    scored: EvaluationRows, side: str, found: Mapping[Any, Any], runs: Sequence[str], parts: Sequence[str]
) -> tuple[list[str], list[list[str]]]:
    """Heads and rows of the table below the plot; differences where they were tested."""
    tested = {row["run"]: row for row in scored.differences if row["side"] == side and row["part"] == "all"}
    ranked = any((run, "all", "mrr") in found for run in runs)  # galleries have recalls instead
    sizes = {run: found[run, "all", "accuracy"]["queries"] for run in runs}
    counted = len(set(sizes.values())) > 1
    heads = [
        "run",
        *(["queries"] if counted else []),
        *(STATIC.get(part, part) for part in parts),
        *(["MRR"] if ranked else []),
    ]
    if tested:
        against = next(iter(tested.values()))["against"]
        heads += [f"against {against}", "p, Holm"]
    rows = []
    for run in runs:
        told = [found.get((run, part, "accuracy")) for part in parts]
        cells = [run, *([f"{sizes[run]:,}"] if counted else [])]
        cells += ["–" if row is None else percent(_interval(row)) for row in told]
        if ranked:
            mrr = found.get((run, "all", "mrr"))
            cells.append("–" if mrr is None else f"{mrr['value']:.3f}")
        if tested:
            one = tested.get(run)
            cells += ["–", "–"] if one is None else [percent(_interval(one), signed=True), p_value(one["corrected"])]
        rows.append(cells)
    return heads, rows


def _interval(row: Mapping[str, Any]) -> Interval:
    return Interval(row["value"], row["low"], row["high"])


def _ranked(scored: EvaluationRows) -> dict[str, dict[str, QueryResult]]:
    """The queries that the page holds, hardest first, with the row of each run."""
    by_query: dict[str, dict[str, QueryResult]] = {}
    for row in scored.rows:
        by_query.setdefault(row.query, {})[row.run] = row
    names = sorted(by_query, key=lambda name: (_ease(by_query[name].values()), name))
    return {name: by_query[name] for name in names[:MOST_QUERIES]}


def _data(
    edition: Edition, scored: EvaluationRows, ranked: Mapping[str, Mapping[str, QueryResult]], shares: Attended
) -> dict[str, Any]:
    """What the error browser shows: queries with the images of their sets, and scores and attention of every run."""
    sets: dict[str, list[list[Any]]] = {}
    queries = []
    for name, rows in ranked.items():
        row = next(iter(rows.values()))
        if row.image_set not in sets:
            sets[row.image_set] = list(_pictures(edition, row))
        place = {image: at for at, image in enumerate(row.candidates)}
        queries.append({
            "id": name, "set": row.image_set, "kind": row.kind, "side": row.side, "text": row.text, "tags": row.tags,
            "targets": [place[image] for image in row.targets if image in place],
            "runs": [_scores(rows.get(run), place, shares.get((run, name))) for run in scored.scorers],
        })  # fmt: skip
    return {"runs": list(scored.scorers), "sets": sets, "queries": queries}


def _ease(rows: "Sequence[QueryResult] | Any") -> tuple[float, float]:
    """Small where runs fail: mean accuracy, then how few candidates stand above the target."""
    held = list(rows)
    return sum(row.accuracy for row in held) / len(held), -sum(row.above for row in held) / len(held)


def _pictures(edition: Edition, row: QueryResult) -> Iterator[list[Any]]:
    """(name, picture, width, height) of each candidate; a picture that the chain does not have is None."""
    for name in row.candidates:
        image = edition.chain.images.get(name)
        index = None if image is None else image.index
        short = f"#{index}" if index is not None else name.rpartition("/")[2]
        known = (None, 0, 0) if image is None else (edition.pictures.number(image.path), image.width, image.height)
        yield [short, *known]


def _scores(
    row: QueryResult | None, place: Mapping[str, int], attention: list[list[int]] | None
) -> dict[str, Any] | None:
    if row is None:
        return None
    return {
        "accuracy": round(row.accuracy, 4),
        "above": row.above,
        "picks": [place[image] for image in row.picks if image in place],
        "scores": [float(f"{value:.{DIGITS}g}") for value in row.scores],
        **({} if attention is None else {"attention": attention}),
    }


SECTION = Section("results", "Results", make)

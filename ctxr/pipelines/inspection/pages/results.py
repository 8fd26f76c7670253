"""The section on runs: accuracy with intervals, errors, attention."""

import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ctxr.datasets.dataset import Dataset
from ctxr.datasets.open import read_dataset
from ctxr.engine.progress import Progress
from ctxr.errors import CtxrError, DataError, plural
from ctxr.metrics.compare import LEAST_CLUSTERS, Interval
from ctxr.pipelines.inspection.pages.chain import ALONE, artifacts_in, runs_as_evaluated
from ctxr.pipelines.inspection.pages.edition import Edition
from ctxr.pipelines.inspection.pages.plots import ticks
from ctxr.problems import open_run, problem_of, problems
from ctxr.problems.figures import PARTS
from ctxr.problems.protocols import ScoringOptions
from ctxr.problems.results import FIGURES, PER_QUERY, RESULTS, QueryResult
from ctxr.problems.tables import STATIC, p_value, percent
from ctxr.store.artifacts import Artifact, Parent
from ctxr.store.kinds import EVALUATION
from ctxr.store.tables import read_table


@dataclass
class EvaluationRows:
    """The evaluations of one dataset, each run once.

    Attributes:
        dataset: SHA-256 of what was evaluated on. notes: warnings. artifacts: the evaluations.
        runs: in the order of the tables. rows: by run and query. figures, differences: rows of `figures.json`.
        tables: as the evaluations printed them. people: a table of human accuracy, or None. origins: the runs, by name.
    """

    dataset: str
    notes: list[str]
    artifacts: list[Artifact] = field(default_factory=list)
    runs: list[str] = field(default_factory=list)
    rows: list[QueryResult] = field(default_factory=list)
    figures: list[dict[str, Any]] = field(default_factory=list)
    differences: list[dict[str, Any]] = field(default_factory=list)
    tables: list[dict[str, Any]] = field(default_factory=list)
    people: dict[str, Any] | None = None
    origins: dict[str, Parent] = field(default_factory=dict)

    @property
    def scorers(self) -> list[str]:
        """Names in `rows`: the runs, or their seeds where there are several."""
        names = dict.fromkeys(row.run for row in self.rows)
        return [name for run in self.runs for name in names if _is_of(name, run)]


def find_scored(project: Path, about: str | None = "") -> EvaluationRows | None:
    """The evaluations in `results` of a project; None without any.

    Of several datasets, `about` (SHA-256, see `origin_of`) counts, else the one that lies in the project, else the one
    with most rows; `about` is None without a dataset, which is then not noted again. Of a run that was evaluated
    twice, the evaluation with most runs counts. Raises DataError for a damaged table.
    """
    by_dataset: dict[str, list[Artifact]] = {}
    for one in artifacts_in(project / RESULTS):
        if one.manifest.kind == EVALUATION:
            dataset = next((parent.sha256 for parent in one.manifest.parents if parent.name == "dataset"), "")
            by_dataset.setdefault(dataset, []).append(one)
    if not by_dataset:
        return None
    here = {artifact.sha256 for artifact in artifacts_in(project)}
    chosen = max(by_dataset, key=lambda sha256: (sha256 == about, sha256 in here, _rows(by_dataset[sha256]), sha256))
    notes = []
    if len(by_dataset) > 1:
        others = sum(len(evaluations) for sha256, evaluations in by_dataset.items() if sha256 != chosen)
        notes.append(f"{others} evaluations on other datasets are in {RESULTS}/ and are not shown")
    if about and chosen != about:
        before = "or of what it was before it was changed"
        notes.append(f"these results are of another dataset than the sets above, {before}")
    elif about is not None and chosen not in {about, *here}:
        notes.append("the evaluated dataset is not in this project, or was rebuilt since")
    scored = EvaluationRows(chosen, notes)
    for one in sorted(by_dataset[chosen], key=lambda one: (-_runs(one), one.path.name)):
        _add(scored, one)
    return scored


def _add(scored: EvaluationRows, evaluation: Artifact) -> None:
    """Add the runs of an evaluation that are not there yet."""
    if edited := evaluation.changed_files():
        scored.notes.append(f"{RESULTS}/{evaluation.path.name}/{edited[0]} was changed since it was written")
    content = _figures(evaluation.path / FIGURES)
    new = list(dict.fromkeys(row["run"] for row in content["figures"] if row["run"] not in scored.runs))
    scored.people = scored.people or content.get("people")
    scored.origins = {origin.name: origin for origin in evaluation.manifest.parents} | scored.origins
    if new:
        scored.artifacts.append(evaluation)
        scored.tables += content.get("tables", [])
        scored.runs += new
        scored.figures += [row for row in content["figures"] if row["run"] in new]
        scored.differences += [row for row in content["differences"] if row["run"] in new]
        rows = read_table(evaluation.path / PER_QUERY, QueryResult)
        scored.rows += [row for row in rows if any(_is_of(row.run, run) for run in new)]


def _is_of(scorer: str, run: str) -> bool:
    """Whether a scorer is a run, or one of its seeds."""
    return scorer == run or scorer.rpartition("/")[0] == run


def _figures(file: Path) -> dict[str, Any]:
    try:
        told: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
        wanted = ("side", "run", "view", "part", "measure", "value", "low", "high", "queries", "clusters")
        if not all(name in row for row in told["figures"] for name in wanted):
            raise KeyError(wanted)
        told.setdefault("differences", [])
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise DataError(f"{file} is damaged", hint="run ctxr eval again") from error
    return told


def _runs(artifact: Artifact) -> int:
    runs = artifact.manifest.config.get("runs")
    return len(runs) if isinstance(runs, list) else 0


def _rows(artifacts: list[Artifact]) -> int:
    counts = [artifact.manifest.counts.get("rows") for artifact in artifacts]
    return sum(count for count in counts if isinstance(count, int))


Attended = dict[tuple[str, str], list[list[int]]]
"""By scorer and query: percent 0..100 that each candidate looks at each, rows and columns in the order of the set."""


def attended(
    project: Path, scored: EvaluationRows, shown: Collection[str], progress: Progress, current: Dataset | None = None
) -> tuple[Attended, list[str]]:
    """Attention of the last layer, averaged over heads, of every evaluated trained head; and notes on what is missing.

    Runs that are files of scores or have no head, and runs that are gone or were trained again since, have none.
    Vectors and shares are kept in the project's cache. `shown` are ids of queries; `current` is the dataset that was evaluated,
    where it is given, else it is searched for in the project.
    """
    shares, notes = Attended(), list[str]()
    origins = runs_as_evaluated(project, [scored.origins[run] for run in scored.runs if run in scored.origins])
    runs = [run for run in origins if problem_of(run.manifest.config).explains(run.manifest.config)]
    if not runs or not shown:
        return shares, notes
    folder = next((artifact.path for artifact in artifacts_in(project) if artifact.sha256 == scored.dataset), None)
    dataset = read_dataset(folder) if current is None and folder is not None else current
    if dataset is None:
        return shares, ["attention is not shown: the dataset that was evaluated is not in this project"]
    for run in runs:
        try:
            shares |= open_run(run.path, ScoringOptions(project), progress).explain((dataset, shown))
        except CtxrError as error:
            notes.append(f"attention of {run.path.name} is not shown: {error.message}")
    return shares, notes


MOST_QUERIES = 3000
"""Queries that a page holds; the hardest of them."""

MOST_LEFT, LETTER, RIGHT, TOP, ROW, GAP, BOTTOM = 190, 7, 18, 12, 17, 11, 44
WIDTH = 720
"""Box of the plot in SVG units: room for names (so much a letter) and axis, height of a row, room between runs."""

DIGITS = 4
"""Digits of a score that are kept for its bar."""


def make_results(edition: Edition) -> Mapping[str, Any] | None:
    """Fills `data["results"]`; None where nothing was evaluated."""
    chain = edition.chain
    scored = find_scored(chain.project, None if chain.last.kind == ALONE else chain.evaluated)
    if scored is None or not scored.runs:
        return None
    edition.evaluations += tuple(scored.artifacts)
    edition.documents = tuple(row for row in scored.rows if row.kind == "document")
    ranked = _ranked(scored)
    dataset = chain.dataset if scored.dataset == chain.evaluated else None
    shares, unseen = attended(chain.project, scored, list(ranked), edition.progress, dataset)
    edition.data["results"] = data = _data(edition, scored, ranked, shares)
    splits = list(dict.fromkeys(row["side"] for row in scored.figures))
    plotted = {row["side"] for row in scored.figures if (row["part"], row["measure"]) == ("all", "accuracy")}
    data["asked"] = len({row.query for row in scored.rows if row.kind != "document"})
    return {
        "panels": [_panel(scored, split) for split in splits if split in plotted],
        "people": scored.people,
        "tables": scored.tables,
        "notes": [*scored.notes, *unseen],
        "attended": sorted({name for name, _ in shares}),
        "runs": scored.scorers,
        "asked": data["asked"],
        "shown": len(data["queries"]),
        "sides": splits,
        "kinds": sorted({row.kind for row in scored.rows} - {"document"}),
        "tags": sorted({tag for row in scored.rows for tag in row.tags}),
        "plot": {"right": WIDTH - RIGHT, "top": TOP, "width": WIDTH},
    }


def _panel(scored: EvaluationRows, split: str) -> dict[str, Any]:
    """One side of the benchmark: the plot, in SVG units, and its table, as cells of text.

    `names` are (height, run) of each group of whiskers, `x_ticks` (position, label), `chance` the position of the dashed line and what
    it is, `parts` colour and name of each part of the queries, `says` the plot in a sentence.
    """
    overall = [row for row in scored.figures if row["side"] == split and row["view"] == "overall"]
    figures = {(row["run"], row["part"], row["measure"]): row for row in overall}
    shown = [run for run in scored.runs if (run, "all", "accuracy") in figures]
    sizes = {run: figures[run, "all", "accuracy"]["queries"] for run in shown}
    total = max(sizes.values())
    # what was scored in part stands last, under its own number
    runs = sorted(sizes, key=lambda run: sizes[run] < total)
    called = {run: run if sizes[run] == total else f"{run} ({sizes[run]:,} of {total:,})" for run in runs}
    parts = [part for part in PARTS if (runs[0], part, "accuracy") in figures]
    # one kind alone says the same twice
    parts = ["all"] if len(parts) == 2 else parts
    ends = [row for run in runs for part in parts if (row := figures.get((run, part, "accuracy"))) is not None]
    most = max(min(1.0, max(row["value"] if row["high"] is None else row["high"] for row in ends) + 0.03), 0.2)

    left = min(MOST_LEFT, 20 + LETTER * max(map(len, called.values())))

    def across(value: float) -> float:
        return round(float(left + value / most * (WIDTH - left - RIGHT)), 1)

    names, whiskers, y = [], [], float(TOP + ROW / 2)
    for run in runs:
        names.append((round(y + (len(parts) - 1) * ROW / 2, 1), called[run]))
        for part in (part for part in parts if (run, part, "accuracy") in figures):
            whiskers.append(_whisker(figures[run, part, "accuracy"], run, part, y, across))
            y += ROW
        y += GAP
    blind = figures.get((runs[0], "all", "chance"))
    whole = [run for run in runs if sizes[run] == total]
    best = max(whole, key=lambda run: figures[run, "all", "accuracy"]["value"])
    top = percent(_interval(figures[best, "all", "accuracy"]))
    heads, rows = _table(scored, split, figures, sizes, parts)
    counts = {part: plural(figures[runs[0], part, "accuracy"]["queries"], "query", "queries", ",") for part in parts}
    return {
        "side": split,
        "left": left,
        "height": round(y - GAP - ROW / 2) + BOTTOM,
        "names": names,
        "whiskers": whiskers,
        "x_ticks": [(across(value), f"{100 * value:.0f}") for value in ticks(0, most, 8)],
        "chance": None if blind is None else (across(blind["value"]), f"chance {100 * blind['value']:.3g} %"),
        "parts": [(part, f"{STATIC.get(part, part)}, {count}") for part, count in counts.items()],
        "heads": heads,
        "rows": rows,
        "says": f"Accuracy of {plural(len(whole), 'run', 'runs', ',')} on {split}: the best is {best} with {top} %.",
        "notes": _notes(called, len(whole), total, ends),
    }


def _notes(called: Mapping[str, str], whole: int, total: int, ends: Sequence[Mapping[str, Any]]) -> list[str]:
    """What keeps figures of a panel from being compared, and why some have no whisker."""
    partly = [shown for run, shown in called.items() if shown != run]
    lacking = sum(row["low"] is None for row in ends)
    others = "the others" if whole > 1 else "the other"
    sentence = f"Scored on a part of the {total:,} queries, so not to be compared with {others}"
    start = (
        f"{plural(lacking, 'dot')} without a whisker, (–) in the table: no interval, as the figure rests on fewer than"
    )
    alike = f"{start} {LEAST_CLUSTERS} sets or all draws are alike."
    return [f"{sentence}: {', '.join(partly)}."] * bool(partly) + [alike] * bool(lacking)


def _whisker(row: Mapping[str, Any], run: str, part: str, y: float, across: Callable[[float], float]) -> dict[str, Any]:
    """A dot at `x` and its interval from `low` to `high`, None where there is none, at height `y`."""
    low, high = (None if row[name] is None else across(row[name]) for name in ("low", "high"))
    title = f"{run}, {STATIC.get(part, part)}: {percent(_interval(row))} % of {plural(row['queries'], 'query', 'queries', ',')}"
    title += f" in {plural(row['clusters'], 'cluster', 'clusters', ',')}"
    return {"y": y, "x": across(row["value"]), "low": low, "high": high, "part": part, "title": title}


def _table(
    scored: EvaluationRows, split: str, figures: Mapping[Any, Any], sizes: Mapping[str, int], parts: Sequence[str]
) -> tuple[list[str], list[list[str]]]:
    """Heads and rows of the table below the plot, a row for each run with its number of queries; differences where they were tested."""
    own = [row for row in scored.differences if row["side"] == split and row["part"] == "all"]
    tested = {row["run"]: row for row in own if row["against"] == own[0]["against"]}
    runs = sorted(sizes, key=lambda run: sizes[run] < max(sizes.values()))

    def cells(part: str, measure: str, shown: Callable[[Mapping[str, Any]], str]) -> list[str]:
        rows = [figures.get((run, part, measure)) for run in runs]
        return ["–" if row is None else shown(row) for row in rows]

    columns = [("run", runs)]
    if len(set(sizes.values())) > 1:
        columns.append(("queries", [f"{sizes[run]:,}" for run in runs]))
    accuracies = (cells(part, "accuracy", lambda row: percent(_interval(row))) for part in parts)
    columns += zip((STATIC.get(part, part) for part in parts), accuracies, strict=True)
    if any((run, "all", "mrr") in figures for run in runs):
        columns.append(("MRR", cells("all", "mrr", lambda row: f"{row['value']:.3f}")))
    if tested:
        differences = [tested.get(run) for run in runs]
        shares = ["–" if row is None else percent(_interval(row), signed=True) for row in differences]
        columns.append((f"against {next(iter(tested.values()))['against']}", shares))
        columns.append(("p, Holm", ["–" if row is None else p_value(row["corrected"]) for row in differences]))
    return [head for head, _ in columns], [list(row) for row in zip(*(column for _, column in columns), strict=True)]


def _interval(row: Mapping[str, Any]) -> Interval:
    return Interval(row["value"], row["low"], row["high"])


def _ranked(scored: EvaluationRows) -> dict[str, dict[str, QueryResult]]:
    """The queries for one image that the page holds, hardest first, with the row of each run."""
    by_query: dict[str, dict[str, QueryResult]] = {}
    for row in (row for row in scored.rows if row.kind != "document"):
        by_query.setdefault(row.query, {})[row.run] = row
    names = sorted(by_query, key=lambda name: (_ease([*by_query[name].values()]), name))
    return {name: by_query[name] for name in names[:MOST_QUERIES]}


def _data(
    edition: Edition, scored: EvaluationRows, ranked: Mapping[str, Mapping[str, QueryResult]], shares: Attended
) -> dict[str, Any]:
    """What the error browser shows: queries with the images of their sets, and scores and attention of every run."""
    sets: dict[str, list[list[Any]]] = {}
    queries, scorers = [], scored.scorers
    for name, rows in ranked.items():
        row = next(iter(rows.values()))
        if row.image_set not in sets:
            sets[row.image_set] = list(_pictures(edition, row))
        position = {image: at for at, image in enumerate(row.candidates)}
        queries.append({
            "id": name, "set": row.image_set, "kind": row.kind, "side": row.side, "text": row.text, "tags": row.tags,
            "targets": [position[image] for image in row.targets if image in position],
            "runs": [
                _scores(rows[run], position, shares.get((run, name))) if run in rows else None for run in scorers
            ],
        })  # fmt: skip
    return {"runs": scorers, "sets": sets, "queries": queries}


def _ease(rows: Sequence[QueryResult]) -> tuple[float, float]:
    """Small where runs fail: mean accuracy, then how few candidates stand above the target."""
    return sum(row.accuracy for row in rows) / len(rows), -sum(row.above for row in rows) / len(rows)


def _pictures(edition: Edition, row: QueryResult) -> Iterator[list[Any]]:
    """(name, picture, width, height) of each candidate; a picture that the chain does not have is None."""
    for name in row.candidates:
        image = edition.chain.images.get(name)
        index = None if image is None else image.index
        short = f"#{index}" if index is not None else name.rpartition("/")[2]
        picture = (None, 0, 0) if image is None else (edition.pictures.number(image.path), image.width, image.height)
        yield [short, *picture]


def _scores(row: QueryResult, position: Mapping[str, int], attention: list[list[int]] | None) -> dict[str, Any]:
    return {
        "accuracy": round(row.accuracy, 4),
        "above": row.above,
        "picks": [position[image] for image in row.picks if image in position],
        "scores": [float(f"{value:.{DIGITS}g}") for value in row.scores],
        **({} if attention is None else {"attention": attention}),
    }


def make_tables(edition: Edition) -> Mapping[str, Any] | None:
    """The tables of evaluations that have no queries to show; None without any."""
    kinds = {problem.evaluation.KIND: problem for problem in problems()}
    results = artifacts_in(edition.chain.project / RESULTS)
    artifacts = [artifact for artifact in results if artifact.manifest.kind in kinds.keys() - {EVALUATION}]
    if not artifacts:
        return None
    edition.evaluations += tuple(artifacts)
    edited = [f"{RESULTS}/{one.path.name}/{names[0]}" for one in artifacts if (names := one.changed_files())]
    return {"cards": [card for one in artifacts for card in kinds[one.manifest.kind].cards(one)], "edited": edited}

"""The section on runs: accuracy with intervals, errors, attention."""

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ctxr.datasets.dataset import Dataset
from ctxr.datasets.open import read_dataset
from ctxr.engine.progress import Progress
from ctxr.errors import CtxrError, DataError, plural
from ctxr.metrics.compare import LEAST_CLUSTERS, Interval
from ctxr.pipelines.inspection.pages.chain import ALONE
from ctxr.pipelines.inspection.pages.edition import Edition, Section
from ctxr.pipelines.inspection.pages.plots import ticks
from ctxr.problems import open_run, problem_of, problems
from ctxr.problems.figures import PARTS
from ctxr.problems.protocols import ScoringOptions
from ctxr.problems.results import FIGURES, PER_QUERY, RESULTS, QueryResult
from ctxr.problems.tables import STATIC, p_value, percent
from ctxr.store.artifacts import MANIFEST, Artifact, Parent, open_artifact
from ctxr.store.hashing import sha256_file
from ctxr.store.kinds import EVALUATION, RUN, RUNS
from ctxr.store.tables import read_table


@dataclass(frozen=True)
class EvaluationRows:
    """The evaluations of one dataset, each run once.

    Attributes:
        names: folders of the evaluations. runs: in the order of the tables. rows: by run and query.
        figures, differences: rows of `figures.json`. people: a table of human accuracy, or None.
        tables: as the evaluations printed them. artifacts: the evaluations that `names` names.
        notes: warnings. dataset: SHA-256 of what was evaluated on. origins: the runs, by content.
    """

    names: tuple[str, ...]
    runs: tuple[str, ...]
    rows: tuple[QueryResult, ...]
    figures: tuple[dict[str, Any], ...]
    differences: tuple[dict[str, Any], ...]
    people: dict[str, Any] | None
    notes: tuple[str, ...]
    dataset: str = ""
    origins: tuple[Parent, ...] = ()
    tables: tuple[dict[str, Any], ...] = ()
    artifacts: tuple[Artifact, ...] = ()

    @property
    def scorers(self) -> tuple[str, ...]:
        """Names in `rows`: the runs, or their seeds where there are several."""
        names = dict.fromkeys(row.run for row in self.rows)
        return tuple(name for run in self.runs for name in names if _is_of(name, run))


def find_scored(project: Path, about: str | None = "") -> EvaluationRows | None:
    """The evaluations in `results` of a project; None without any.

    Of several datasets, `about` (SHA-256, see `inputs.origin_of`) counts, else the one that lies in the project, else the one
    with most rows; `about` is None without a dataset, which is then not noted again. Of a run that was evaluated
    twice, the evaluation with most runs counts. Raises DataError for a damaged table.
    """
    artifacts = [one for one in _evaluations(project) if one.manifest.kind == EVALUATION]
    if not artifacts:
        return None
    here = {open_artifact(file.parent).sha256 for file in sorted(project.glob(f"*/{MANIFEST}"))}
    by_dataset: dict[str, list[Artifact]] = {}
    for one in artifacts:
        by_dataset.setdefault(_dataset(one), []).append(one)
    chosen = max(by_dataset, key=lambda sha256: (sha256 == about, sha256 in here, _rows(by_dataset[sha256]), sha256))
    notes = []
    if len(by_dataset) > 1:
        others = sum(len(evaluations) for sha256, evaluations in by_dataset.items() if sha256 != chosen)
        notes.append(f"{others} evaluations on other datasets are in {RESULTS}/ and are not shown")
    if about and chosen != about:
        notes.append(
            "these results are of another dataset than the sets above, or of what it was before it was changed"
        )
    elif about is not None and chosen not in {about, *here}:
        notes.append("the evaluated dataset is not in this project, or was rebuilt since")
    return _merge(sorted(by_dataset[chosen], key=lambda one: (-_runs(one), one.path.name)), notes)


def _merge(artifacts: list[Artifact], notes: list[str]) -> EvaluationRows:
    rows: list[QueryResult] = []
    figures: list[dict[str, Any]] = []
    differences: list[dict[str, Any]] = []
    people: dict[str, Any] | None = None
    runs: list[str] = []
    shown: list[Artifact] = []
    tables: list[dict[str, Any]] = []
    for one in artifacts:
        if edited := one.changed_files():
            notes.append(f"{RESULTS}/{one.path.name}/{edited[0]} was changed since it was written")
        content = _figures(one.path / FIGURES)
        unseen = list(dict.fromkeys(row["run"] for row in content["figures"] if row["run"] not in runs))
        people = people or content.get("people")
        if not unseen:
            continue
        shown.append(one)
        tables += content.get("tables", [])
        runs += unseen
        figures += [row for row in content["figures"] if row["run"] in unseen]
        differences += [row for row in content["differences"] if row["run"] in unseen]
        rows += [
            row for row in read_table(one.path / PER_QUERY, QueryResult) if any(_is_of(row.run, run) for run in unseen)
        ]
    origins = {origin.name: origin for one in reversed(artifacts) for origin in one.manifest.parents}
    return EvaluationRows(
        tuple(one.path.name for one in shown), tuple(runs), tuple(rows), tuple(figures), tuple(differences), people, tuple(notes),
        _dataset(artifacts[0]), tuple(origins[run] for run in runs if run in origins), tuple(tables),
        tuple(shown),
    )  # fmt: skip


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
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise DataError(f"{file} is damaged", hint="run ctxr eval again") from error
    return told


def _dataset(artifact: Artifact) -> str:
    return next((one.sha256 for one in artifact.manifest.parents if one.name == "dataset"), "")


def _runs(artifact: Artifact) -> int:
    runs = artifact.manifest.config.get("runs")
    return len(runs) if isinstance(runs, list) else 0


def _rows(artifacts: list[Artifact]) -> int:
    counts = [one.manifest.counts.get("rows") for one in artifacts]
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
    runs = list(_attended_runs(project, scored))
    runs = [run for run in runs if problem_of(run.manifest.config).explains(run.manifest.config)]
    if not runs or not shown:
        return shares, notes
    dataset = current or _attended_dataset(project, scored.dataset)
    if dataset is None:
        return shares, ["attention is not shown: the dataset that was evaluated is not in this project"]
    for run in runs:
        try:
            shares |= open_run(run.path, ScoringOptions(project), progress).explain((dataset, shown))
        except CtxrError as error:
            notes.append(f"attention of {run.path.name} is not shown: {error.message}")
    return shares, notes


def _attended_runs(project: Path, scored: EvaluationRows) -> Iterator[Artifact]:
    """The trained runs that were evaluated, as they were then."""
    for origin in scored.origins:
        folder = project / RUNS / origin.name
        if origin.kind == RUN and (folder / MANIFEST).is_file():
            artifact = open_artifact(folder)
            if artifact.sha256 == origin.sha256:
                yield artifact


def _attended_dataset(project: Path, sha256: str) -> Dataset | None:
    for file in sorted(project.glob(f"*/{MANIFEST}")):
        if sha256_file(file) == sha256:
            return read_dataset(file.parent)
    return None


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


def make_results(edition: Edition) -> Mapping[str, Any] | None:
    """Fills `data["results"]`; None where nothing was evaluated."""
    chain = edition.chain
    scored = find_scored(chain.project, None if chain.last.kind == ALONE else chain.evaluated)
    if scored is None or not scored.runs:
        return None
    edition.evaluations += scored.artifacts
    ranked = _ranked(scored)
    dataset = chain.dataset if scored.dataset == chain.evaluated else None
    shares, unseen = attended(chain.project, scored, list(ranked), edition.progress, dataset)
    edition.data["results"] = data = _data(edition, scored, ranked, shares)
    splits = list(dict.fromkeys(row["side"] for row in scored.figures))
    plotted = {row["side"] for row in scored.figures if (row["part"], row["measure"]) == ("all", "accuracy")}
    data["asked"] = total = len({row.query for row in scored.rows})
    return {
        "panels": [_panel(scored, split) for split in splits if split in plotted],
        "people": scored.people,
        "tables": scored.tables,
        "notes": [*scored.notes, *unseen],
        "attended": sorted({name for name, _ in shares}),
        "runs": scored.scorers,
        "asked": total,
        "shown": len(data["queries"]),
        "sides": splits,
        "kinds": sorted({row.kind for row in scored.rows}),
        "tags": sorted({tag for row in scored.rows for tag in row.tags}),
        "plot": {"right": WIDTH - RIGHT, "top": TOP, "width": WIDTH},
    }


def _panel(scored: EvaluationRows, split: str) -> Panel:
    figures = {
        (row["run"], row["part"], row["measure"]): row
        for row in scored.figures
        if row["side"] == split and row["view"] == "overall"
    }
    sizes = {
        run: figures[run, "all", "accuracy"]["queries"] for run in scored.runs if (run, "all", "accuracy") in figures
    }
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
    chance = None if blind is None else (across(blind["value"]), f"chance {100 * blind['value']:.3g} %")
    whole = [run for run in runs if sizes[run] == total]
    best = max(whole, key=lambda run: figures[run, "all", "accuracy"]["value"])
    top = _interval(figures[best, "all", "accuracy"])
    return Panel(
        split,
        left,
        round(y - GAP - ROW / 2) + BOTTOM,
        names,
        whiskers,
        [(across(value), f"{100 * value:.0f}") for value in ticks(0, most, 8)],
        chance,
        [
            (
                part,
                f"{STATIC.get(part, part)}, {plural(figures[runs[0], part, 'accuracy']['queries'], 'query', 'queries', ',')}",
            )
            for part in parts
        ],
        *_table(scored, split, figures, runs, parts),
        f"Accuracy of {plural(len(whole), 'run', 'runs', ',')} on {split}: the best is {best} with {percent(top)} %.",
        _notes(called, len(whole), total, ends),
    )


def _notes(called: Mapping[str, str], whole: int, total: int, ends: Sequence[Mapping[str, Any]]) -> list[str]:
    """What keeps figures of a panel from being compared, and why some have no whisker."""
    partly = [shown for run, shown in called.items() if shown != run]
    lacking = sum(row["low"] is None for row in ends)
    notes = []
    if partly:
        others = "the others" if whole > 1 else "the other"
        sentence = f"Scored on a part of the {total:,} queries, so not to be compared with {others}"
        notes.append(f"{sentence}: {', '.join(partly)}.")
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
    scored: EvaluationRows, split: str, figures: Mapping[Any, Any], runs: Sequence[str], parts: Sequence[str]
) -> tuple[list[str], list[list[str]]]:
    """Heads and rows of the table below the plot; differences where they were tested."""
    tested = {row["run"]: row for row in scored.differences if row["side"] == split and row["part"] == "all"}
    ranked = any((run, "all", "mrr") in figures for run in runs)
    sizes = {run: figures[run, "all", "accuracy"]["queries"] for run in runs}
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
        accuracies = [figures.get((run, part, "accuracy")) for part in parts]
        cells = [run, *([f"{sizes[run]:,}"] if counted else [])]
        cells += ["–" if row is None else percent(_interval(row)) for row in accuracies]
        if ranked:
            mrr = figures.get((run, "all", "mrr"))
            cells.append("–" if mrr is None else f"{mrr['value']:.3f}")
        if tested:
            difference = tested.get(run)
            cells += (
                ["–", "–"]
                if difference is None
                else [percent(_interval(difference), signed=True), p_value(difference["corrected"])]
            )
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
        position = {image: at for at, image in enumerate(row.candidates)}
        queries.append({
            "id": name, "set": row.image_set, "kind": row.kind, "side": row.side, "text": row.text, "tags": row.tags,
            "targets": [position[image] for image in row.targets if image in position],
            "runs": [_scores(rows.get(run), position, shares.get((run, name))) for run in scored.scorers],
        })  # fmt: skip
    return {"runs": list(scored.scorers), "sets": sets, "queries": queries}


def _ease(rows: "Sequence[QueryResult] | Any") -> tuple[float, float]:
    """Small where runs fail: mean accuracy, then how few candidates stand above the target."""
    results = list(rows)
    return sum(row.accuracy for row in results) / len(results), -sum(row.above for row in results) / len(results)


def _pictures(edition: Edition, row: QueryResult) -> Iterator[list[Any]]:
    """(name, picture, width, height) of each candidate; a picture that the chain does not have is None."""
    for name in row.candidates:
        image = edition.chain.images.get(name)
        index = None if image is None else image.index
        short = f"#{index}" if index is not None else name.rpartition("/")[2]
        picture = (None, 0, 0) if image is None else (edition.pictures.number(image.path), image.width, image.height)
        yield [short, *picture]


def _scores(
    row: QueryResult | None, position: Mapping[str, int], attention: list[list[int]] | None
) -> dict[str, Any] | None:
    if row is None:
        return None
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
    artifacts = [one for one in _evaluations(edition.chain.project) if one.manifest.kind in kinds.keys() - {EVALUATION}]
    if not artifacts:
        return None
    edition.evaluations += tuple(artifacts)
    edited = [f"{RESULTS}/{one.path.name}/{names[0]}" for one in artifacts if (names := one.changed_files())]
    return {"cards": [card for one in artifacts for card in kinds[one.manifest.kind].cards(one)], "edited": edited}


def _evaluations(project: Path) -> list[Artifact]:
    return [open_artifact(file.parent) for file in sorted((project / RESULTS).glob(f"*/{MANIFEST}"))]


RESULTS_SECTION = Section("results", "Results", make_results)
TABLES_SECTION = Section("tables", "Tables", make_tables)

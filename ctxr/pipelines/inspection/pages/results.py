"""The section on runs: accuracy with intervals, errors, attention."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ctxr.datasets.dataset import Dataset
from ctxr.datasets.open import read_dataset
from ctxr.engine.progress import Progress
from ctxr.engine.report import Table, share_with_interval
from ctxr.errors import CtxrError, plural
from ctxr.metrics.compare import LEAST_CLUSTERS, Interval
from ctxr.metrics.ranking import ALL_OF_SET
from ctxr.pipelines.inspection.pages.chain import ALONE, artifacts_in, runs_as_evaluated
from ctxr.pipelines.inspection.pages.edition import PageBuilder
from ctxr.pipelines.inspection.pages.plots import Axis, ticks
from ctxr.problems.figures import STATIC, Figure, People, RunDifference, p_value, people_on, percent
from ctxr.problems.question import DIGITS, ProblemResults
from ctxr.problems.registry import find_question, open_run, problem_of
from ctxr.problems.results import PER_QUERY, RESULTS, QueryResult, read_findings
from ctxr.problems.runs import ScoringOptions
from ctxr.store.artifacts import Artifact, Parent
from ctxr.store.kinds import EVALUATION, SET_KINDS
from ctxr.store.tables import grouped, read_table


@dataclass(frozen=True)
class EvaluationRows:
    """The evaluations of one problem on one dataset, each run once.

    Attributes:
        problem: its name. dataset: SHA-256 of what was evaluated on. notes: warnings. artifacts: the evaluations.
        runs: in the order of the tables. rows: by run and query. figures, differences: of these runs.
        tables: as the evaluations printed them. people: human accuracy, or None. crowd: the same as numbers.
        origins: the runs, by name. scorers: names in `rows`: the runs, or their seeds where there are several.
    """

    problem: str
    dataset: str
    notes: list[str]
    artifacts: list[Artifact]
    runs: list[str]
    rows: list[QueryResult]
    figures: list[Figure]
    differences: list[RunDifference]
    tables: list[Table]
    people: Table | None
    crowd: Mapping[str, People]
    origins: dict[str, Parent]
    scorers: list[str]

    def people_on(self, split: str) -> dict[str, Interval]:
        """The accuracy of people to compare runs with, by what it is called."""
        return {name: reached["accuracy"] for name, reached in people_on(self.crowd, split).items()}


def _evaluation_rows(problem: str, dataset: str, evaluations: Iterable[Artifact]) -> EvaluationRows:
    """What the evaluations found, of each run once. Raises DataError for a damaged file."""
    scored = EvaluationRows(problem, dataset, [], [], [], [], [], [], [], None, {}, {}, [])
    people, crowd, origins = None, dict[str, People](), dict[str, Parent]()
    for evaluation in evaluations:
        if edited := evaluation.changed_files():
            scored.notes.append(f"{RESULTS}/{evaluation.path.name}/{edited[0]} was changed since it was written")
        findings = read_findings(evaluation.path)
        people = people or findings.tables.get("people")
        crowd |= findings.people
        origins = {origin.name: origin for origin in evaluation.manifest.parents} | origins
        if new := list(dict.fromkeys(row.run for row in findings.figures if row.run not in scored.runs)):
            scored.artifacts.append(evaluation)
            scored.tables.extend(table for name, table in findings.tables.items() if name != "people")
            scored.runs.extend(new)
            scored.figures.extend(row for row in findings.figures if row.run in new)
            scored.differences.extend(row for row in findings.differences if row.run in new)
            rows = read_table(evaluation.path / PER_QUERY, QueryResult)
            scored.rows.extend(row for row in rows if row.run in new or row.run.rpartition("/")[0] in new)
    names = dict.fromkeys(row.run for row in scored.rows)
    scorers = [name for run in scored.runs for name in names if run in (name, name.rpartition("/")[0])]
    return replace(scored, people=people, crowd=crowd, origins=origins, scorers=scorers)


def find_scored(project: Path, about: str | None = "") -> list[EvaluationRows]:
    """The evaluations in `results` of a project, by problem, the one of the largest evaluation first; empty without any.

    Of several datasets, `about` (SHA-256, see `identity_of`) counts, else the one that lies in the project, else the one
    with most rows; `about` is None without a dataset, which is then not noted again. Of a run that was evaluated
    twice, the evaluation with most runs counts. Raises DataError for a damaged table.
    """
    every = (one for one in artifacts_in(project / RESULTS) if one.manifest.kind == EVALUATION)
    by_dataset = grouped(
        (next((parent.sha256 for parent in one.manifest.parents if parent.name == "dataset"), ""), one) for one in every
    )
    if not by_dataset:
        return []
    here = {artifact.sha256 for artifact in artifacts_in(project)}
    sizes = {sha256: sum(one.manifest.counts["rows"] for one in group) for sha256, group in by_dataset.items()}
    chosen = max(by_dataset, key=lambda sha256: (sha256 == about, sha256 in here, sizes[sha256], sha256))
    largest = sorted(by_dataset[chosen], key=lambda one: (-len(one.manifest.config["runs"]), one.path.name))
    by_problem = grouped((str(one.manifest.counts.get("problem")), one) for one in largest)
    scored = [_evaluation_rows(problem, chosen, evaluations) for problem, evaluations in by_problem.items()]
    notes = []
    if others := sum(map(len, by_dataset.values())) - len(by_dataset[chosen]):
        notes.append(f"{others} evaluations on other datasets are in {RESULTS}/ and are not shown")
    if about and chosen != about:
        before = "or for an earlier state of it"
        notes.append(f"these results are for another dataset than the sets above, {before}")
    elif about is not None and chosen not in {about, *here}:
        notes.append("the evaluated dataset is not in this project, or was rebuilt since")
    scored[0].notes[:0] = notes
    return scored


Attention = dict[tuple[str, str], list[list[int]]]
"""By scorer and query: percent 0..100 that each candidate looks at each, rows and columns in the order of the set."""


def attention_shares(
    project: Path, scored: EvaluationRows, shown: Collection[str], progress: Progress, current: Dataset | None = None
) -> Attention:
    """Attention of the last layer, averaged over heads, of every evaluated trained head; what is missing is added to the notes of
    `scored`.

    Runs that are files of scores or have no head, and runs that are gone or were trained again since, have none.
    Vectors and shares are kept in the project's cache. `shown` are ids of queries; `current` is the dataset that was evaluated,
    where it is given, else it is searched for in the project.
    """
    shares = Attention()
    origins = runs_as_evaluated(project, [scored.origins[run] for run in scored.runs if run in scored.origins])
    runs = [run for run in origins if problem_of(run.manifest.config).explains(run.manifest.config)]
    if not runs or not shown:
        return shares
    folder = next((artifact.path for artifact in artifacts_in(project) if artifact.sha256 == scored.dataset), None)
    dataset = read_dataset(folder) if current is None and folder is not None else current
    if dataset is None:
        scored.notes.append("attention is not shown: the dataset that was evaluated is not in this project")
        return shares
    for run in runs:
        try:
            shares |= open_run(run.path, ScoringOptions(project), progress).explain((dataset, shown))
        except CtxrError as error:
            scored.notes.append(f"attention of {run.path.name} is not shown: {error.message}")
    return shares


MOST_QUERIES = 3000
"""Queries that a page holds; the hardest of them."""

ACCURACY = "accuracy %"
"""What the table of a split calls that of all queries."""

MOST_LEFT, LETTER, RIGHT, TOP, ROW, GAP, BOTTOM = 190, 7, 18, 12, 17, 11, 44
WIDTH = 720
"""Box of the plot in SVG units: room for names (so much a letter) and axis, height of a row, room between runs."""


def make_results(edition: PageBuilder) -> Mapping[str, object] | None:
    """Fills `data["results"]` and the views of problems; None where nothing was evaluated."""
    chain = edition.chain
    every = [
        one for one in find_scored(chain.project, None if chain.last.kind == ALONE else chain.evaluated) if one.runs
    ]
    if not every:
        return None
    browsed, panels = None, []
    for one in every:
        plotted = {row.split for row in one.figures if (row.part, row.measure) == ("all", "accuracy")}
        splits = [split for split in dict.fromkeys(row.split for row in one.figures) if split in plotted]
        most = max((_reach(one, split) for split in splits), default=1.0)  # one axis for all splits
        panels += [_panel(one, split, most) for split in splits]
        edition.evaluations += tuple(one.artifacts)
        shown = ProblemResults(one.artifacts, one.rows, one.scorers, chain.dataset, edition.picture)
        if view := find_question(one.problem).view(shown):
            edition.views += (view,)
            edition.evaluated = edition.evaluated or view.counted
        else:
            browsed = browsed or one
    context = {"queries": 0} if browsed is None else _browser(edition, browsed)
    return {
        "panels": panels,
        "people": next((one.people for one in every if one.people), None),
        "tables": [table for one in every for table in one.tables],
        "plot": {"right": WIDTH - RIGHT, "top": TOP, "width": WIDTH},
        **context,
        "notes": [note for one in every for note in one.notes],
    }


def _browser(edition: PageBuilder, scored: EvaluationRows) -> dict[str, object]:
    """The queries that the page shows one by one, in `data["results"]`, and what they can be chosen by."""
    chain, scorers, by_query = edition.chain, scored.scorers, dict[str, dict[str, QueryResult]]()
    for row in scored.rows:
        by_query.setdefault(row.query, {})[row.run] = row
    # hardest first: least mean accuracy, then most candidates above the target
    ease = {
        name: (sum(row.accuracy for row in rows) / len(rows), -sum(row.above for row in rows) / len(rows), name)
        for name, rows in ((name, by_query[name].values()) for name in by_query)
    }
    ranked = {name: by_query[name] for name in sorted(by_query, key=ease.__getitem__)[:MOST_QUERIES]}
    dataset = chain.dataset if scored.dataset == chain.evaluated else None
    shares = attention_shares(chain.project, scored, list(ranked), edition.progress, dataset)
    sets: dict[str, list[list[object]]] = {}
    queries: list[dict[str, object]] = []
    for name, rows in ranked.items():
        first = next(iter(rows.values()))
        if first.image_set not in sets:
            sets[first.image_set] = pictures = []
            for candidate in first.candidates:  # one that the chain does not have has no picture
                image = chain.images.get(candidate)
                short = candidate.rpartition("/")[2] if image is None or image.index is None else f"#{image.index}"
                size = (0, 0) if image is None else (image.width, image.height)
                pictures.append([short, None if image is None else edition.pictures.number(image.path), *size])
        position = {image: at for at, image in enumerate(first.candidates)}
        runs: list[dict[str, object] | None] = []
        for run in scorers:
            if (found := rows.get(run)) is None:
                runs.append(None)
                continue
            scores = [float(f"{value:.{DIGITS}g}") for value in found.scores]
            picks = [position[image] for image in found.picks if image in position]
            shown = {"accuracy": round(found.accuracy, 4), "above": found.above, "picks": picks, "scores": scores}
            runs.append(shown | ({"attention": shares[run, name]} if (run, name) in shares else {}))
        queries.append({
            "id": name, "set": first.image_set, "kind": first.kind, "split": first.split, "text": first.text,
            "tags": first.tags, "targets": [position[image] for image in first.targets if image in position], "runs": runs,
            "people": chain.descriptions[name].votes if dataset and name in chain.descriptions else (),
        })  # fmt: skip
    edition.data["results"] = {"runs": scorers, "sets": sets, "queries": queries}
    edition.evaluated = edition.evaluated or plural(len(by_query), "query", "queries", ",")
    return {
        "runs": scorers,
        "queries": len(by_query),
        "shown": len(ranked),
        "splits": list(dict.fromkeys(row.split for row in scored.figures)),
        "kinds": sorted({row.kind for row in scored.rows}),
        "tags": sorted({tag for row in scored.rows for tag in row.tags}),
        "voted": any(query["people"] for query in queries),
    }


def _reach(scored: EvaluationRows, split: str) -> float:
    """The end of the axis on which all of a split can be plotted, 0..1."""
    shown = [row for row in scored.figures if row.split == split and row.view == "overall"]
    rows = [row for row in shown if row.measure == "accuracy" or (row.part, row.measure) == ("all", "chance")]
    shares = [*(row.interval for row in rows), *scored.people_on(split).values()]
    return max(min(1.0, max((one.high or one.value or 0.0 for one in shares), default=0) + 0.03), 0.2)


def _panel(scored: EvaluationRows, split: str, most: float = 1.0) -> dict[str, Any]:
    """One split: the plot, in SVG units up to `most`, with intervals of runs, parts and people; and its table."""
    overall = [row for row in scored.figures if row.split == split and row.view == "overall"]
    figures = {(row.run, row.part, row.measure): row for row in overall}
    shown = [run for run in scored.runs if (run, "all", "accuracy") in figures]
    sizes = {run: figures[run, "all", "accuracy"].queries for run in shown}
    total = max(sizes.values())
    # what was scored in part stands last, under its own number
    runs = sorted(sizes, key=lambda run: sizes[run] < total)
    called = {run: run if sizes[run] == total else f"{run} ({sizes[run]:,} of {total:,})" for run in runs}
    parts = [part for part in ("all", *SET_KINDS) if (runs[0], part, "accuracy") in figures]
    # one kind alone says the same twice
    parts = ["all"] if len(parts) == 2 else parts
    ends = [row for run in runs for part in parts if (row := figures.get((run, part, "accuracy"))) is not None]
    blind = figures.get((runs[0], "all", "chance"))
    people = scored.people_on(split)
    left = min(MOST_LEFT, 20 + LETTER * max(map(len, [*called.values(), *people])))
    axis = Axis(0, most, left, WIDTH - RIGHT, ticks(0, most, 8), digits=1)
    names, whiskers, y = [], list[dict[str, object]](), float(TOP + ROW / 2)
    lines = [(called[run], [(row.part, row.interval, _title(row)) for row in ends if row.run == run]) for run in runs]
    lines += [(name, [("people", one, f"{name}: {share_with_interval(vars(one))} %")]) for name, one in people.items()]
    for name, dots in lines:
        names.append((round(y + (len(dots) - 1) * ROW / 2, 1), name))
        for part, share, title in dots:
            low, high = (None if value is None else axis.at(value) for value in (share.low, share.high))
            x = axis.at(share.value or 0.0)
            whiskers.append({"y": y, "x": x, "low": low, "high": high, "part": part, "title": title})
            y += ROW
        y += GAP
    chance = None if blind is None else blind.interval.value
    whole = [run for run in runs if sizes[run] == total]
    best = max(whole, key=lambda run: figures[run, "all", "accuracy"].interval.value or 0.0)
    top = percent(figures[best, "all", "accuracy"].interval)
    counts = {part: plural(figures[runs[0], part, "accuracy"].queries, "query", "queries", ",") for part in parts}
    return {
        "split": split,
        "left": left,
        "height": round(y - GAP - ROW / 2) + BOTTOM,
        "names": names,
        "whiskers": whiskers,
        "x_ticks": [(axis.at(value), f"{100 * value:.0f}") for value in axis.values],
        "chance": None if chance is None else (axis.at(chance), f"chance {100 * chance:.3g} %"),
        "parts": [(part, f"{STATIC.get(part, part)}, " * (len(parts) > 1) + count) for part, count in counts.items()],
        "people": [title for _, dots in lines[len(runs) :] for *_, title in dots],
        "table": _table(scored, split, figures, sizes, parts),
        "says": f"Accuracy of {plural(len(whole), 'run', 'runs', ',')} on {split}: the best is {best} with {top} %.",
        "notes": _notes(called, len(whole), total, ends),
    }


def _title(row: Figure) -> str:
    of = f"of {plural(row.queries, 'query', 'queries', ',')} in {plural(row.interval.clusters, 'cluster', form=',')}"
    return f"{row.run}, {STATIC.get(row.part, row.part)}: {percent(row.interval)} % {of}"


def _notes(called: Mapping[str, str], whole: int, total: int, ends: Sequence[Figure]) -> list[str]:
    """What keeps figures of a panel from being compared, and why some have no whisker."""
    partly = [shown for run, shown in called.items() if shown != run]
    lacking = sum(row.interval.low is None for row in ends)
    others = "the others" if whole > 1 else "the other"
    sentence = f"Scored on a part of the {total:,} queries, so not to be compared with {others}"
    start = (
        f"{plural(lacking, 'dot')} without a whisker, (–) in the table: no interval, as the figure rests on fewer than"
    )
    alike = f"{start} {LEAST_CLUSTERS} sets or all draws are alike."
    return [f"{sentence}: {', '.join(partly)}."] * bool(partly) + [alike] * bool(lacking)


def _table(
    scored: EvaluationRows,
    split: str,
    figures: Mapping[tuple[str, str, str], Figure],
    sizes: Mapping[str, int],
    parts: Sequence[str],
) -> Table:
    """A row for each run with its number of queries, and for people; differences where they were tested."""
    own = [row for row in scored.differences if row.split == split and row.part == "all"]
    tested = {row.run: row for row in own if row.against == own[0].against}
    runs = sorted(sizes, key=lambda run: sizes[run] < max(sizes.values()))
    columns = {"run": runs}
    if len(set(sizes.values())) > 1:
        columns["queries"] = [f"{sizes[run]:,}" for run in runs]
    shown = [(ACCURACY if part == "all" else STATIC.get(part, part), part, "accuracy") for part in parts]
    for head, part, measure in (*shown, (ALL_OF_SET, "all", ALL_OF_SET)):
        rows = [figures.get((run, part, measure)) for run in runs]
        if any(rows):
            columns[head] = ["–" if row is None else percent(row.interval) for row in rows]
    if any((run, "all", "mrr") in figures for run in runs):
        rows = [figures.get((run, "all", "mrr")) for run in runs]
        columns["MRR"] = ["–" if row is None else f"{row.interval.value:.3f}" for row in rows]
    if tested:
        differences = [tested.get(run) for run in runs]
        shares = ["–" if row is None else percent(row.interval, signed=True) for row in differences]
        columns[f"against {own[0].against}"] = shares
        columns["p, Holm"] = ["–" if row is None else p_value(row.corrected) for row in differences]
    people = [{"run": name, ACCURACY: share_with_interval(vars(one))} for name, one in scored.people_on(split).items()]
    beside = [tuple(row.get(head, "–") for head in columns) for row in people]
    return Table(split, tuple(columns), (*zip(*columns.values(), strict=True), *beside))


def make_views(edition: PageBuilder) -> None:
    """Have problems make their views of evaluations that have no queries to show."""
    every = artifacts_in(edition.chain.project / RESULTS)
    own = (one for one in every if one.manifest.verb == "eval" and one.manifest.kind != EVALUATION)
    for problem, artifacts in grouped((str(one.manifest.counts.get("problem")), one) for one in own).items():
        edition.evaluations += tuple(artifacts)
        shown = ProblemResults(artifacts, (), (), edition.chain.dataset, edition.picture)
        if view := find_question(problem).view(shown):
            edition.views += (view,)

"""The question of texts with mouse traces: which image is meant by what was said and drawn?"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np

from ctxr.datasets.dataset import Dataset
from ctxr.datasets.splits import SPLITS
from ctxr.engine.report import Table
from ctxr.errors import plural
from ctxr.metrics.compare import RatioColumn
from ctxr.metrics.ranking import recall
from ctxr.metrics.traces import segments
from ctxr.problems.evaluation import ALL_SPLITS, EvalRequest, SplitRows
from ctxr.problems.figures import Columns, Summariser
from ctxr.problems.queries import EvalQuery, queries_of
from ctxr.problems.question import ProblemResults, Question, Subject, View, find_learner
from ctxr.problems.ranked import RankedEvaluation, rank_counts
from ctxr.problems.results import QueryResult, read_findings
from ctxr.problems.runs import Run
from ctxr.problems.traces.queries import TracedQuery, traced, traced_queries
from ctxr.problems.traces.recipe import DUAL, VARIANTS, TracesRecipe
from ctxr.store.kinds import RUN
from ctxr.store.tables import grouped

NOISE = {"0": 0.0, "0.05": 0.05, "0.1": 0.1, "0.2": 0.2}
WORDS = {"25 %": 0.25, "50 %": 0.5, "75 %": 0.75, "100 %": 1.0}
"""Parts of both curves of R@1; at the first and at the last a query is what it was."""

CURVES = {
    "noise": (NOISE, "strokes are moved by normal steps with this standard deviation, a share of the image"),
    "words": (WORDS, "the first words, with what was drawn until the last of them was said"),
}

MOST_DRAWN, MOST_POINTS = 200, 600
"""Of a page: queries (the hardest), and points of a query."""


class TracesEvaluation(RankedEvaluation[TracedQuery]):
    """Runs on queries with traces."""

    PROBLEM: ClassVar[str] = "traces"
    CLUSTERS: ClassVar[str] = "videos (in galleries: relevant images)"

    def __init__(self, request: EvalRequest) -> None:
        super().__init__(request, Traces(), traced_queries(request.dataset))
        self.opened: dict[str, Any] = {}

    def flaws(self, rows: Sequence[TracedQuery]) -> dict[str, int]:
        """Queries that are text alone."""
        return {"have no trace and count by their text": sum(not one.strokes for one in rows)}

    def columns(self, split: SplitRows[TracedQuery], run: Run, summary: Summariser) -> Columns:
        """Every measure, and R@1 by noise and by share of the words."""
        whole = super().columns(split, run, summary)
        # of columns of one name the last is compared with other runs
        return [*self.curves(split, run, whole[0][1]), *whole]

    def curves(self, split: SplitRows[TracedQuery], run: Run, whole: RatioColumn) -> Columns:
        """R@1 on changed queries, of a run that can be opened; all see the same changes."""
        source = next((one for one in self.request.sources if one.name == run.name and one.looks), None)
        variant = run.artifact.manifest.config.get("variant") if run.artifact else DUAL
        if source is None or variant not in VARIANTS or not any(one.strokes for one in split.rows):
            self.notes.append(
                f"{split.name}: {run.name} has no curves: only a run or an encoder that ctxr opens can score changed traces"
            )
            return []
        if run.name not in self.opened:
            place, learner = source.place or source.name, find_learner(Traces())
            self.opened[run.name] = learner.open_run(place, self.request.scoring, self.progress)
        changed = {part: [one.first(share) for one in split.rows] for part, share in WORDS.items() if share < 1}
        for part, noise in NOISE.items():
            rng = np.random.default_rng((self.options.seed, ALL_SPLITS.index(split.name)))
            changed |= {part: [one.moved(noise, rng) for one in split.rows]} if noise else {}
        found = {}
        for part, queries in changed.items():  # one after the other: a gallery of thousands is a large table
            scorers = self.opened[run.name].rescored(self.request.dataset, queries)
            firsts = [recall(rank_counts(queries, scores, self.options.ties), 1) for scores in scorers.values()]
            found[part] = np.mean(firsts, axis=0)
        every = [(view, part) for view, (parts, _) in CURVES.items() for part in parts]
        return [((*point, "R@1"), replace(whole, values=found.get(point[1], whole.values))) for point in every]

    def views(
        self, split: SplitRows[TracedQuery], cells: Mapping[tuple[str, str, str, str], str], lacking: str
    ) -> dict[str, Table]:
        """Both curves."""
        tables = {}
        for view, (parts, what) in CURVES.items():
            runs = [run for run in self.names if (run, view) in {cell[:2] for cell in cells}]
            lines = tuple((run, *(cells[run, view, part, "R@1"] for part in parts)) for run in runs)
            tables[view] = Table(f"{split.name}: R@1 by {view}", ("run", *parts), lines, f"%; {what}{lacking}")
        return tables


def query_card(rows: Sequence[QueryResult], one: TracedQuery, results: ProblemResults) -> dict[str, object]:
    """A query as the page draws it. Lines: strokes cut where a word begins, with image, number of the word, and x and
    y in thousandths; by run what `ProblemResults.firsts` says."""
    first, lines = rows[0], []
    step = 1 + len(one.points) // MOST_POINTS
    starts = one.times[:, 0] if one.words else np.zeros(1)
    order = np.argsort(starts, kind="stable")
    for stroke, image in zip(one.strokes, one.drawn_on.tolist(), strict=True):
        points = np.concatenate([stroke[:-1:step], stroke[-1:]])
        said = order[(np.searchsorted(starts[order], points[:, 2], "right") - 1).clip(0)]
        for start, end in pairwise([0, *(1 + np.flatnonzero(np.diff(said))).tolist(), len(points)]):
            line = np.rint(1000 * points[max(0, start - 1) : end, :2]).astype(int)
            lines.append((image, int(said[start]), line.ravel().tolist()))
    runs = {row.run: results.firsts(row) for row in rows}
    images = [(name, results.picture(name)) for name in first.targets]
    return {"id": first.query, "set": first.image_set, "split": first.split, "text": first.text, "images": images,
            "words": one.words, "lines": lines, "runs": runs}  # fmt: skip


class Traces(Question):
    """Queries of text and mouse trace."""

    LEARNER: ClassVar[str] = "ctxr.problems.traces.learner"
    Recipe: ClassVar[type[TracesRecipe]] = TracesRecipe
    KIND: ClassVar[str] = RUN
    VARIANTS: ClassVar[tuple[str, ...]] = VARIANTS
    evaluation = TracesEvaluation
    subject: ClassVar[Subject] = Subject(
        text="narrative",
        sets="galleries and sets of keyframes with mouse traces",
        task="finding the image that somebody described while the mouse drew on it",
        similar=False,
    )

    def asks(self, dataset: Dataset) -> bool:
        """Whether it has traces of queries."""
        return bool(dataset.payloads.get("traces"))

    def takes(self, request: EvalRequest) -> bool:
        """Whether the dataset has traces, or a run that also reads text was trained on some."""
        return not request.variants.isdisjoint(VARIANTS) or super().takes(request)

    def tables(self, dataset: Dataset) -> Mapping[str, Table]:
        """Narratives of each split, with their images, strokes, points and words."""
        rows, narratives = [], [one for one in traced_queries(dataset) if "traces" in one.query.payload]
        for split in (*SPLITS, None, "all"):
            if part := [one for one in narratives if split in (one.query.split, "all")]:
                ends = [segments(np.sort(one.points[:, 2]), one.times, 0.0) for one in part]
                silent = sum(int((one[:, 0] == one[:, 1]).sum()) for one in ends)
                images = len({image for one in part for image in one.query.images})
                columns = zip(*((one.strokes, one.points, one.words) for one in part), strict=True)
                rows.append(
                    (split or "no split", len(part), images, *(sum(map(len, every)) for every in columns), silent)
                )
        heads = ("split", "narratives", "images", "strokes", "points", "words", "without points")
        note = "without points: words during which nothing was drawn"
        return {"narratives": Table("Narratives by split", heads, tuple(rows), note)}

    def view(self, results: ProblemResults) -> View:
        """Curves, and the hardest queries with their traces and what each run found."""
        by_query, dataset = grouped((row.query, row) for row in results.rows), results.dataset
        order = sorted(by_query, key=lambda name: (sum(row.reciprocal_rank for row in by_query[name]), name))
        shown = order[:MOST_DRAWN]
        own = queries_of(dataset, dataset.queries.keys() & {*shown}) if dataset else []
        by_id = {one.query.query: one for one in traced([EvalQuery("", "", (), (), (), False, None), *own])}
        cards = [query_card(by_query[name], by_id.get(name, by_id[""]), results) for name in shown]
        figures = [one for artifact in results.artifacts for one in read_findings(artifact.path).figures]
        curves = [
            (one.split, one.view, one.run, one.part, one.interval.value, one.interval.low, one.interval.high)
            for one in figures if one.view in CURVES or one.measure == "chance"
        ]  # fmt: skip
        context = {"runs": results.scorers, "queries": len(order), "shown": len(shown)}
        context["curves"] = any(view in CURVES for _, view, *_ in curves)
        data = {"runs": results.scorers, "rows": cards, "curves": curves}
        return View("traces", "Traces", __package__, context, data, plural(len(order), "query", "queries", ","))

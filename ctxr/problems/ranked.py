"""Evaluations of queries that look for one image among those of a set: ranks beside chance, seeds, differences, results by query."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import ClassVar, TypeVar

import numpy as np

from ctxr.engine.report import Table
from ctxr.errors import plural
from ctxr.metrics.compare import FEW_CLUSTERS, Interval, RatioColumn, mean_columns
from ctxr.metrics.proportions import LEVEL
from ctxr.metrics.ranking import RankCounts, accuracy, best_of_rows, count_ranks, recall, reciprocal_rank, untied
from ctxr.metrics.votes import Doubles
from ctxr.problems import notes
from ctxr.problems.evaluation import EvalRequest, SplitRows
from ctxr.problems.figures import Columns, Figure, Summariser, difference_table, none_had, percent, seed_table, seeds_of
from ctxr.problems.matching import ScoredEvaluation
from ctxr.problems.nothing_fits import RankedQueries, rank_queries
from ctxr.problems.queries import EvalQuery
from ctxr.problems.question import FIRST, Question
from ctxr.problems.results import MOST_SCORES, QueryResult
from ctxr.problems.runs import ModelScores, Run
from ctxr.store.kinds import SET_KINDS


@dataclass(frozen=True, eq=False)
class AskedQuery:
    """A query with its candidates, and the text that is read of it; a problem adds to it."""

    query: EvalQuery
    text: str


AskedT = TypeVar("AskedT", bound=AskedQuery)


def rank_counts(rows: Sequence[AskedQuery], scores: Sequence[Doubles], ties: str = "expected") -> RankCounts:
    """Ranks of relevant images; `scores`: of the candidates of each query; `ties`: see `untied`."""
    table = np.full((len(rows), max(map(len, scores))), -np.inf)
    right = np.zeros(table.shape, np.bool_)
    for row, (one, values) in enumerate(zip(rows, scores, strict=True)):
        table[row, : len(values)] = values
        right[row, list(one.query.targets)] = True
    return count_ranks(untied(table, right, ties), right)


def first_rate(queries: Sequence[AskedQuery], scores: Sequence[Doubles]) -> float:
    """R@1, 0..1: the share of queries that rank a relevant image first, over all orders of ties."""
    return float(recall(rank_counts(queries, scores), 1).mean())


def scores_by(scorer: ModelScores, rows: Sequence[AskedQuery]) -> list[Doubles]:
    """What a scorer says of the candidates of each query."""
    return [np.array([scorer.values[one.query.query][image] for image in one.query.images]) for one in rows]


class RankedEvaluation(ScoredEvaluation[SplitRows[AskedT]]):
    """Runs on queries of a problem. Of several relevant images the one that stands first counts.

    Attributes:
        CLUSTERS: what is drawn again by default. SUMMED: the k of the recalls whose sum is a measure of its own, where each is measured.
    """

    HEADLINE = (
        ("R@1", "chance", "share of queries with a relevant image first"),
        ("MRR", None, "mean reciprocal rank of the first relevant image"),
    )
    CLUSTERS: ClassVar[str] = "relevant images"
    SUMMED: ClassVar[Sequence[int]] = ()

    def __init__(self, request: EvalRequest, question: Question, asked: Sequence[AskedT]) -> None:
        super().__init__(request, question)
        every = {one.query.query: one for one in asked}
        self.notes, self.findings.rows["seeds"] = [*notes.first_notes(self)], []
        self.splits: list[SplitRows[AskedT]] = []
        most = max(len(image_set.images) for _, image_set in self.places.values())
        wanted = sorted({1, 5, 10, *self.options.ks()})
        self.ks = [k for k in wanted if k < most or k == 1]
        if vain := ", ".join(f"R@{k}" for k in wanted if k not in self.ks):
            self.notes.append(f"{vain} is left out, as no set has more than {plural(most, 'image')}")
        for split in self.match():
            name, rows = split.name, [every[one] for one in split.queries if one not in split.lacking]
            known = [one for one in rows if one.query.targets]
            counts = {
                "lack scores of some run and were left out of all (--partial)": len(split.lacking),
                "have hidden targets and are in no figure": len(rows) - len(known),
                **self.flaws(known),
            }
            total = plural(len(split.queries), "query", "queries", ",")
            self.notes += [f"{name}: {count:,} of {total} {what}" for what, count in counts.items() if count]
            self.splits += [SplitRows(name, known)] if known else []

    def flaws(self, rows: Sequence[AskedT]) -> dict[str, int]:
        """How many queries lack something, by a sentence that follows their number."""
        return {}

    def groups(self, split: SplitRows[AskedT]) -> list[str]:
        """Sets in the order of time, in galleries relevant images; or whole videos and albums."""
        images, found = self.request.dataset.images, []
        for one in split.rows:
            own, targets = self.places[one.query.query][1], [one.query.images[place] for place in one.query.targets]
            by_set = own.id if SET_KINDS[own.kind].ordered else " ".join(targets)
            found.append(images[targets[0]].group if self.options.cluster == "group" else by_set)
        return found

    def measures(self, counts: RankCounts) -> dict[str, RatioColumn]:
        """R@k, their sum and MRR of queries."""
        recalls = {k: recall(counts, k) for k in self.ks}
        values = {f"R@{k}": one for k, one in recalls.items()}
        if self.SUMMED and recalls.keys() >= {*self.SUMMED}:
            values["sum"] = np.sum([recalls[k] for k in self.SUMMED], axis=0)
        values["MRR"] = reciprocal_rank(counts)
        return {name: RatioColumn(np.arange(len(one)), one, np.ones(len(one))) for name, one in values.items()}

    def columns(self, split: SplitRows[AskedT], run: Run, summary: Summariser) -> Columns:
        """Every measure."""
        rows, ties = split.rows, self.options.ties
        scorers = {one.name: self.measures(rank_counts(rows, scores_by(one, rows), ties)) for one in run.scorers}
        firsts = {name: float(one["R@1"].values.mean()) for name, one in scorers.items()}
        self.findings.rows["seeds"] += seeds_of(split.name, run.name, firsts)
        return [(("overall", "all", name), column) for name, column in mean_columns([*scorers.values()]).items()]

    def ranked(self, split: SplitRows[AskedT], run: Run) -> RankedQueries | None:
        """All queries whose relevant images are known."""
        queries = enumerate(one.query for one in split.rows)
        return rank_queries(run, ((row, one.query, one.images, one.targets, ()) for row, one in queries))

    def views(
        self, split: SplitRows[AskedT], cells: Mapping[tuple[str, str, str, str], str], lacking: str
    ) -> dict[str, Table]:
        """Tables of other views than `overall`; `cells`: figures by run, view, part and measure; `lacking`: end of a note."""
        return {}

    def complete(self, split: SplitRows[AskedT], figures: list[Figure], summary: Summariser) -> None:
        """Ranks beside chance, other views, seeds and differences."""
        name, findings, rows = split.name, self.findings, split.rows
        guess = self.measures(rank_counts(rows, [np.zeros(len(one.query.images)) for one in rows]))
        blind = {measure: float(column.values.mean()) for measure, column in guess.items()}
        # R@1 once more as the accuracy, with a blind guess, which the plot of a report shows
        for own in [one for one in figures if (one.view, one.measure) == ("overall", "R@1")]:
            chance = replace(own, measure="chance", interval=Interval(blind["R@1"]))
            findings.figures += (replace(own, measure="accuracy"), chance)
        cells = {(one.run, one.view, one.part, one.measure): percent(one.interval) for one in figures}
        found = [("random", *(f"{100 * value:.1f}" for value in blind.values()))]
        found += [(run, *(cells[run, "overall", "all", measure] for measure in blind)) for run in self.names]
        lacking = none_had([one.interval for one in figures])
        note = f"%, of {plural(len(rows), 'query', 'queries', ',')}"
        if (clusters := len({*summary.groups})) < FEW_CLUSTERS:
            note += f" in {plural(clusters, 'cluster')}, too few to tell whether runs differ"
            self.notes.append(f"{name}: {note.removeprefix('%, of ')}")
        if several := sum(len(one.query.targets) > 1 for one in rows):
            note += f"; {several:,} have several relevant images, and the first one found counts"
        unit = "groups" if self.options.cluster == "group" else self.CLUSTERS
        note += f". In brackets the {100 * LEVEL:g} % bootstrap interval over {unit}{lacking}"
        ranks = Table(f"{name}: relevant images found", ("run", *blind), tuple(found), note)
        over_seeds = "mean and standard deviation over seeds; other figures are means over seeds"
        seeds = seed_table(name, findings.rows["seeds"], "R@1 %", over_seeds)
        differences = difference_table(name, findings.differences, "clusters")
        views = self.views(split, cells, lacking)
        every = {"ranks": ranks, **views, "seeds": seeds, "differences": differences}
        findings.tables |= {f"{name}/{key}": table for key, table in every.items() if table and table.rows}

    def finish(self) -> None:
        """With results by query; of a large gallery the first ones and the best relevant image."""
        super().finish()
        self.findings.rows["tables"] = list(self.findings.tables.values())
        for split, scorer in product(self.splits, self.scorers):
            scores = scores_by(scorer, split.rows)
            counts = rank_counts(split.rows, scores, self.options.ties)
            figures = np.stack([accuracy(counts), reciprocal_rank(counts), counts.above, counts.level], axis=1).tolist()
            for one, own, (credit, rank, above, level) in zip(split.rows, scores, figures, strict=True):
                asked, images, first = one.query, one.query.images, best_of_rows(own[None], FIRST)[0].tolist()
                best, few = max(asked.targets, key=own.__getitem__), len(own) <= MOST_SCORES
                kept = range(len(own)) if few else sorted({*first, best})
                self.findings.results.append(QueryResult(
                    run=scorer.name, query=asked.query, split=split.name, image_set=asked.image_set,
                    kind=self.places[asked.query][1].kind, text=one.text,
                    targets=tuple(images[place] for place in asked.targets),
                    picks=tuple(images[place] for place in np.flatnonzero(own == own.max())),
                    accuracy=credit, reciprocal_rank=rank, above=int(above), level=int(level), tokens=len(one.text.split()),
                    candidates=tuple(images[place] for place in kept), scores=tuple(own[kept].tolist()),
                ))  # fmt: skip

"""The question of links: which sentences of a document belong to which of its images?"""

from collections import Counter
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, replace
from itertools import combinations, product
from math import nan
from typing import Any, ClassVar, NamedTuple, cast

import numpy as np

from ctxr.datasets.dataset import Dataset
from ctxr.datasets.documents import GOLD, Document, documents_of, is_documents
from ctxr.datasets.splits import SPLITS
from ctxr.engine.report import Table
from ctxr.errors import DataError, UsageError, plural
from ctxr.metrics.compare import RatioColumn, mean_columns, spearman
from ctxr.metrics.links import auc, explained, precision_at, spread
from ctxr.metrics.proportions import LEVEL
from ctxr.metrics.ranking import accuracy, count_ranks, reciprocal_rank
from ctxr.metrics.votes import Doubles, Flags
from ctxr.problems.evaluation import NO_SPLIT, EvalRequest, SplitRows
from ctxr.problems.figures import Columns, Figure, Summariser, difference_table, none_had, percent, seed_table, seeds_of
from ctxr.problems.links.recipe import CURVE, VARIANTS, CurveRow, LinksRecipe
from ctxr.problems.matching import ScoredEvaluation
from ctxr.problems.nothing_fits import RankedQueries, rank_queries
from ctxr.problems.options import TrainOptions
from ctxr.problems.question import DIGITS, ProblemResults, Question, Subject, View, find_learner
from ctxr.problems.results import MOST_SCORES, QueryResult
from ctxr.problems.runs import EvaluatedRun, ModelScores, Run, checkpoints, refuse_twice
from ctxr.store.artifacts import Parent
from ctxr.store.kinds import RUN
from ctxr.store.tables import grouped, read_table

AUC, CHANCE, RANDOM = "AUC", "chance", "random"
"""Measures, and what guesses: its AUC is 0.5, its p@C the share of links."""

COMPONENTS = 20
"""Of the content of documents."""


DOCUMENTS = Subject(
    unit="document",
    of="",
    text="sentence",
    sets="documents of sentences and images",
    task="linking the sentences and images of a document",
    formats=("links", "mmc4", "hf", "webdataset"),
    similar=False,
    unknown="not judged",
    legend="The number before a sentence is the image that it is linked to: – is no image, ? is not judged.",
)

MOST_DOCUMENTS = 200
"""Documents that a page holds; the hardest of them."""

STRONGEST = 5
"""Links of a document that are drawn for a run."""


class LinkEvaluation(ScoredEvaluation[SplitRows[Document]]):
    """Runs on documents."""

    PROBLEM: ClassVar[str] = "links"
    HEADLINE = (
        (AUC, 0.5, "probability that a link scores higher than another pair of its document"),
        ("p@1", CHANCE, "share of documents whose highest score is a link"),
    )

    splits: list[SplitRows[Document]]

    def __init__(self, request: EvalRequest) -> None:
        super().__init__(request, Links())
        refuse_twice(
            [EvaluatedRun(RANDOM, Parent(RANDOM, "", "")), *self.runs], "rename the run: random is the baseline"
        )
        self.notes, self.splits = [*request.dataset.notes], []
        documents = [one for one in documents_of(request.dataset) if one.sentences]
        for split in self.match():
            name = split.name
            own = [one for one in documents if (one.split or NO_SPLIT) == name]
            whole = [one for one in own if split.lacking.isdisjoint(one.sentences)]
            if lost := len(own) - len(whole):
                lack = f"{name}: {lost} of {len(own)} documents lack scores of some run"
                self.notes.append(f"{lack} and were left out of all (--partial)")
            uses = Counter(image for one in whole for image in one.images)
            if shared := sum(any(uses[image] > 1 for image in one.images) for one in whole):
                self.notes.append(
                    f"{name}: {shared} of {len(whole)} documents share images, so intervals are too narrow"
                )
            self.splits.append(SplitRows(name, whole))
        self.ks = sorted({1, 5, *self.options.ks()})
        self.measures = [AUC, *(f"p@{k}" for k in self.ks)]
        self.aucs: dict[str, dict[str, RatioColumn]] = {split.name: {} for split in self.splits}
        self.unit = "group" if self.options.cluster == "group" else "document"
        self.findings.rows["seeds"] = []

    def groups(self, split: SplitRows[Document]) -> list[str]:
        """Documents, or groups of them."""
        sets = [self.places[one.sentences[0]][1] for one in split.rows]
        return [one.group if self.unit == "group" else one.id for one in sets]

    def columns(self, split: SplitRows[Document], run: Run, summary: Summariser) -> Columns:
        """The share of links, AUC and p@C by document; one without a link, or with nothing else, has no weight."""
        each: dict[str, dict[str, RatioColumn]] = {}
        for scorer in run.scorers:
            table = np.zeros((len(split), 2 + len(self.measures)))
            for row, one in zip(table, split.rows, strict=True):
                if (area := auc(own := _table(scorer, one), one.links)) is not None:
                    row[:3] = 1, float(np.nanmean(one.links)), area
                    row[3:] = [precision_at(own, one.links, k) for k in self.ks]
            weights, chance, *values = table.T
            pairs = zip([*self.measures, CHANCE], [*values, chance], strict=True)
            each[scorer.name] = {name: RatioColumn(np.arange(len(split)), column, weights) for name, column in pairs}
        columns = mean_columns(list(each.values()))
        self.aucs[split.name][run.name] = columns[AUC]
        figures = {name: value for name, one in each.items() if (value := one[AUC].figure) is not None}
        self.findings.rows["seeds"] += seeds_of(split.name, run.name, figures)
        return [(("overall", "all", name), column) for name, column in columns.items()]

    def ranked(self, split: SplitRows[Document], run: Run) -> RankedQueries | None:
        """Sentences with a link, each among the judged images of its document."""
        return rank_queries(run, (
            (row, sentence, one.images, np.flatnonzero(links == 1).tolist(), np.flatnonzero(np.isnan(links)).tolist())
            for row, one in enumerate(split.rows)
            for sentence, links in zip(one.sentences, one.links, strict=True) if (links == 1).any()
        ))  # fmt: skip

    def compared(
        self, split: SplitRows[Document], columns: Mapping[str, Columns]
    ) -> Mapping[str, Mapping[str, RatioColumn]]:
        """AUC and p@C of runs, and of random scores before them."""
        measures = {**super().compared(split, columns)}
        chance = next(iter(measures.pop(CHANCE).values()))
        half = replace(chance, values=chance.weights / 2)
        counts = chance.within.any()
        # flips need differences that lie evenly about 0, and those of p@C from a small share of links do not
        return {name: {**({RANDOM: half} if name == AUC else {}), **of} for name, of in measures.items() if counts}

    def complete(self, split: SplitRows[Document], figures: list[Figure], summary: Summariser) -> None:
        """Links found, seeds, differences, how alike runs are, and what explains AUC."""
        name, columns, findings = split.name, self.aucs[split.name], self.findings
        cells = {(figure.run, figure.measure): percent(figure.interval) for figure in figures}
        rows = [(RANDOM, "50.0", *[cells[self.names[0], CHANCE]] * len(self.ks))]
        rows += [(run, *(cells[run, measure] for measure in self.measures)) for run in self.names]
        counted, unjudged = figures[0].queries, sum(bool(np.isnan(one.links).all()) for one in split.rows)
        note = (
            f"%, means over {counted:,} of {plural(len(split), 'document', 'documents', ',')}, of judged pairs alone; skipped: "
            f"{len(split) - counted - unjudged:,} without a link or with nothing else, {unjudged:,} without a judged pair. In brackets the "
            f"{100 * LEVEL:g} % bootstrap interval over {self.unit}s{none_had([figure.interval for figure in figures])}. "
            "p@C: share of links among the C highest scores"
        )
        within = columns[self.names[0]].within
        aucs = {run: column.values[within] for run, column in columns.items()}
        alike = tuple((run, base, spearman(aucs[run], aucs[base])) for base, run in combinations(aucs, 2))
        rho = "Spearman's rho of the AUC of documents; –: that of a run does not vary"
        over_seeds = (
            "mean and standard deviation over seeds; every other figure is the mean over seeds, document by document"
        )
        tables = {
            "links": Table(f"{name}: links found", ("run", *self.measures), tuple(rows), note),
            "seeds": seed_table(name, findings.rows["seeds"], "AUC %", over_seeds),
            "differences": difference_table(name, findings.differences, f"{self.unit}s"),
            "spearman": Table(f"{name}: methods alike", ("run", "against", "rho"), alike, rho, digits=3),
            "explained": self._explained(split, within, aucs, encoder)
            if counted and (encoder := self.options.encoder)
            else None,
        }
        findings.tables |= {f"{name}/{key}": table for key, table in tables.items() if table and table.rows}

    def _explained(
        self, split: SplitRows[Document], within: Flags, aucs: Mapping[str, Doubles], encoder: str
    ) -> Table | None:
        """R² of AUC on spread and content; None, with a note, where the encoder cannot answer."""
        documents = [split.rows[row] for row in np.flatnonzero(within).tolist()]
        opened: Any = find_learner(Links()).open_run(encoder, self.request.scoring, self.progress)
        try:
            vectors = opened.vectors(self.request.dataset, documents)
        except DataError as error:
            self.notes.append(f"{split.name}: spread and content are not measured: {error.message}")
            return None
        spreads = np.array([[spread(one) for one in pair] for pair in vectors])
        means = np.array([np.concatenate([one.mean(axis=0) for one in pair]) for pair in vectors])
        left, sizes, _ = np.linalg.svd(means - means.mean(axis=0), full_matrices=False)
        both = np.hstack([spreads, (left * sizes)[:, :COMPONENTS]])
        rows = tuple((run, *_r2(values, spreads), *_r2(values, both)) for run, values in aucs.items())
        note = (
            f"R² in % of least squares on {plural(len(documents), 'document', 'documents', ',')}, and adjusted for the columns. "
            f"Spread: of sentences and of images; content: {both.shape[1] - 2} principal components of mean vectors of both; by "
            f"{encoder}. –: as many coefficients as documents, or AUC does not vary"
        )
        heads = ("run", "spread", "spread adjusted", "spread + content", "both adjusted")
        return Table(f"{split.name}: what explains AUC", heads, rows, note)

    def finish(self) -> None:
        """With validation loss, which chooses the epoch without a label, against AUC."""
        for run in self.runs:
            folders = [] if run.artifact is None else checkpoints(run.artifact.path)
            files = [file for folder in folders if (file := folder / CURVE).is_file()]
            curves = [(seed, row) for seed, file in enumerate(files) for row in read_table(file, CurveRow)]
            points = np.array([(seed, row.epoch, row.valid_loss, row.valid_auc) for seed, row in curves], np.float64)
            points = points[~np.isnan(points).any(axis=1)] if curves else np.zeros((0, 4))
            own = ((file.parent.name, spearman(*points[points[:, 0] == seed, 2:].T)) for seed, file in enumerate(files))
            rhos = ", ".join(f"{seed} {'–' if rho is None else f'{rho:.3f}'}" for seed, rho in own)
            note = f"of the validation documents, mean over seeds; Spearman's rho of loss and AUC over epochs: {rhos}"
            means = {int(epoch): points[points[:, 1] == epoch, 2:].mean(axis=0) for epoch in np.unique(points[:, 1])}
            if rows := tuple((epoch, *mean.tolist()) for epoch, mean in means.items()):
                title = f"{run.name}: validation loss against AUC"
                self.findings.tables[f"curve/{run.name}"] = Table(title, ("epoch", "loss", AUC), rows, note, digits=4)
        super().finish()
        self.findings.rows["tables"] = list(self.findings.tables.values())
        # each sentence is a query for its images; one without a link is neither right nor ranked, and has zeros
        for split in self.splits:
            for scorer, one in product(self.scorers, split.rows):
                scores, few, images = _table(scorer, one), len(one.images) <= MOST_SCORES, np.array(one.images)
                some = (linked := one.links == 1).any(axis=1)
                counts = count_ranks(scores, linked | ~some[:, None])
                columns = (accuracy(counts), reciprocal_rank(counts), counts.above, counts.level)
                figures = zip(*(np.where(some, column, 0).tolist() for column in columns), strict=True)
                self.findings.results += [
                    QueryResult(
                        run=scorer.name, query=one.sentences[row], split=split.name, image_set=one.id, kind="document",
                        text=one.texts[row], targets=tuple(images[linked[row]].tolist()),
                        picks=tuple(images[scores[row] == scores[row].max()].tolist()), accuracy=credit,
                        reciprocal_rank=rank, above=above, level=level, tokens=len(one.texts[row].split()),
                        candidates=one.images if few else (), scores=tuple(scores[row].tolist()) if few else (),
                    )
                    for row, (credit, rank, above, level) in enumerate(figures)
                ]  # fmt: skip


def _table(scorer: ModelScores, one: Document) -> Doubles:
    return np.array([[scorer.values[sentence][image] for image in one.images] for sentence in one.sentences])


def _r2(values: Doubles, columns: Doubles) -> Sequence[str]:
    """R² in percent, and adjusted for the number of columns."""
    if (share := explained(values, columns)) is None:
        return "–", "–"
    count, width = columns.shape
    return f"{100 * share:.1f}", f"{100 * (1 - (1 - share) * (count - 1) / (count - width - 1)):.1f}"


class Edge(NamedTuple):
    """A predicted link: places of sentence and image, score, label or None where not judged."""

    sentence: int
    image: int
    score: float
    label: float | None


@dataclass(frozen=True)
class Graph:
    """A run's AUC and p@1 of a document's judged pairs, its lowest score and strongest links."""

    auc: float | None
    p1: float | None
    low: float
    edges: Sequence[Edge]


@dataclass(frozen=True)
class DocumentGraphs:
    """A document as the page draws it; the graph of a run that scored nothing is None.

    Attributes:
        images: ids, and numbers of their pictures. links: true ones, places of sentence and image.
    """

    id: str
    split: str
    texts: Sequence[str]
    images: Sequence[tuple[str, int]]
    links: Sequence[tuple[int, int]]
    runs: Sequence[Graph | None]


def _graphs(
    rows: Sequence[QueryResult], results: ProblemResults, judged: Set[tuple[str, str]] | None
) -> DocumentGraphs:
    """A document with the graph of each run; without `judged`, all its pairs count as judged."""
    texts = {row.query: row.text for row in rows}
    images = list(dict.fromkeys(name for row in rows for name in row.candidates))
    sentence, column = ({name: at for at, name in enumerate(names)} for names in (texts, images))
    links = {(sentence[row.query], column[image]) for row in rows for image in row.targets if image in column}
    edges: dict[str, list[Edge]] = {run: [] for run in results.scorers}
    for row in rows:
        for image, score in zip(row.candidates, row.scores, strict=False):
            label = None if judged is not None and (row.query, image) not in judged else float(image in row.targets)
            edges[row.run].append(Edge(sentence[row.query], column[image], score, label))
    graphs: list[Graph | None] = []
    for run in results.scorers:
        own = sorted(edges[run], key=lambda edge: (-edge.score, edge.sentence, edge.image))
        scores, labels = [edge.score for edge in own], [nan if edge.label is None else edge.label for edge in own]
        strongest = [edge._replace(score=float(f"{edge.score:.{DIGITS}g}")) for edge in own[:STRONGEST]]
        precision = precision_at(scores, labels, 1) if any(label > 0 for label in labels) else None
        graphs.append(Graph(auc(scores, labels), precision, scores[-1], strongest) if own else None)
    numberless = [(name, 0) for name in images]
    return DocumentGraphs(rows[0].image_set, rows[0].split, [*texts.values()], numberless, sorted(links), graphs)


class Links(Question):
    """Documents with several sentences and images."""

    LEARNER: ClassVar[str] = "ctxr.problems.links.learner"
    Recipe: ClassVar[type[LinksRecipe]] = LinksRecipe
    KIND: ClassVar[str] = RUN
    VARIANTS: ClassVar[tuple[str, ...]] = VARIANTS
    evaluation = LinkEvaluation
    subject: ClassVar[Subject] = DOCUMENTS

    def adapted(self, recipe: LinksRecipe, options: TrainOptions) -> LinksRecipe:
        """See `Question`."""
        if options.judgments is not None:
            raise UsageError(f"--judgments does not apply to the variant {recipe.variant!r}", hint="leave it out")
        return cast("LinksRecipe", super().adapted(recipe, options))

    def asks(self, dataset: Dataset) -> bool:
        """Whether the dataset holds documents."""
        return is_documents(dataset)

    def tables(self, dataset: Dataset) -> Mapping[str, Table]:
        """Documents of each split, with their sentences, images and links."""
        worker = min((row.worker for row in dataset.judgments), key=lambda name: (name != GOLD, name), default=GOLD)
        documents, rows = documents_of(dataset, worker), []
        for split in (*SPLITS, None, "all"):
            if part := [one for one in documents if split in (one.split, "all")]:
                n, m = zip(*(one.links.shape for one in part), strict=True)
                linked, judged = (
                    sum(int(what(one.links).sum()) for one in part) for what in (np.nan_to_num, np.isfinite)
                )
                unlinked = sum(int((one.links == 0).all(axis).sum()) for one in part for axis in (0, 1))
                images = {image for one in part for image in one.images}
                counts = (len(part), sum(n), len(images), linked, unlinked, float(np.median(n)), float(np.median(m)))
                rows.append((split or "no split", *counts, 100 * linked / judged if judged else None))
        heads = ("split", "documents", "sentences", "images", "links", "linked to nothing",
                 "median sentences", "median images", "density %")  # fmt: skip
        note = "density: links over pairs that are labelled" + (f"; links by {worker}" if rows[-1][4] else "")
        return {"documents": Table("Documents by split", heads, tuple(rows), note, digits=1)}

    def view(self, results: ProblemResults) -> View:
        """The hardest documents, with the links that each run predicts."""
        # ids of a document's sentences end in their number, and tables are sorted as text
        ordered = sorted(results.rows, key=lambda row: (row.image_set, len(row.query), row.query))
        by_document = grouped((row.image_set, row) for row in ordered)
        runs, dataset = results.scorers, results.dataset
        judged = {(row.query, row.candidate) for row in dataset.judgments if row.worker == GOLD} if dataset else None
        documents = [_graphs(rows, results, judged) for rows in by_document.values()]
        # those first where runs fail, last those without AUC, as all pairs are links or none is
        areas = [[graph.auc if graph and graph.auc is not None else 1.0 for graph in one.runs] for one in documents]
        order = sorted(range(len(documents)), key=lambda row: sum(areas[row]))
        scored = [documents[row] for row in order if any(documents[row].runs)]
        shown = [
            replace(one, images=[(name, results.picture(name)) for name, _ in one.images])
            for one in scored[:MOST_DOCUMENTS]
        ]
        sizes = {"drawn": len(scored), "shown": len(shown), "large": len(documents) - len(scored)}
        context = {"runs": runs, "strongest": STRONGEST, "most_images": MOST_SCORES, **sizes}
        counted = plural(len(documents), DOCUMENTS.unit, form=",")
        return View("documents", "Predicted links", __package__, context, {"runs": runs, "rows": shown}, counted)

"""The question of links: which sentences of a document belong to which of its images?"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations
from typing import Any, ClassVar

import numpy as np

from ctxr.datasets.documents import Document, documents_of, is_documents
from ctxr.datasets.open import origin_of
from ctxr.engine.report import Table
from ctxr.errors import DataError, plural
from ctxr.metrics.columns import RatioColumn, mean_columns
from ctxr.metrics.links import auc, explained, precision_at, spread
from ctxr.metrics.proportions import LEVEL
from ctxr.metrics.ranking import accuracy, count_ranks, reciprocal_rank
from ctxr.metrics.similarity import spearman
from ctxr.metrics.votes import Doubles, Flags
from ctxr.problems import notes
from ctxr.problems.evaluation import NO_SPLIT, EvalRequest, Evaluation
from ctxr.problems.figures import Columns, Figure, Seeds, Summariser, seeds_of
from ctxr.problems.links.recipe import CURVE, VARIANTS, CurveRow
from ctxr.problems.matching import match_scores, queries_to_score
from ctxr.problems.protocols import Question, find_learner
from ctxr.problems.results import MOST_SCORES, QueryResult
from ctxr.problems.runs import AnyRun, Run, Scoring, checkpoints, find_runs, refuse_twice
from ctxr.problems.tables import difference_table, none_had, percent, seed_table
from ctxr.store.artifacts import Parent
from ctxr.store.kinds import RUN
from ctxr.store.tables import read_table

AUC, CHANCE, RANDOM = "AUC", "chance", "random"
"""Measures, and what guesses: its AUC is 0.5, its p@C the share of links."""

COMPONENTS = 20
"""Of the content of documents."""


@dataclass(frozen=True, eq=False)
class DocumentSplit:
    """D documents of a split, and the scores [n, m] of each by scorer."""

    name: str
    documents: tuple[Document, ...]
    scores: Mapping[str, Sequence[Doubles]]

    def __len__(self) -> int:
        return len(self.documents)

    @cached_property
    def counted(self) -> Flags:
        """[D] documents with a link and a pair that is judged to be none."""
        return np.array([bool((one.links == 1).any() and (one.links == 0).any()) for one in self.documents], bool)


def columns_of(split: DocumentSplit, scorer: str, ks: Sequence[int]) -> dict[str, RatioColumn]:
    """AUC, p@C, and the share of links among the judged pairs of each document; those that are not `counted` have no weight."""
    names = (AUC, *(f"p@{k}" for k in ks), CHANCE)
    values = np.zeros((len(split), len(names)))
    for row in np.flatnonzero(split.counted).tolist():
        scores, links = split.scores[scorer][row], split.documents[row].links
        values[row] = auc(scores, links), *(precision_at(scores, links, k) for k in ks), np.nanmean(links)
    weights = split.counted.astype(np.float64)
    return {name: RatioColumn(np.arange(len(split)), values[:, place], weights) for place, name in enumerate(names)}


class LinkEvaluation(Evaluation):
    """Runs on documents."""

    TOGETHER: ClassVar[bool] = True
    EXACT: ClassVar[bool] = True

    runs: Sequence[Run]
    splits: Sequence[DocumentSplit]

    def __init__(self, request: EvalRequest) -> None:
        super().__init__(request)
        options, dataset = self.options, request.dataset
        documents = [one for one in documents_of(dataset) if one.sentences]
        sets = {image_set.id: image_set for image_set in dataset.sets}
        places = {name: (one.split or NO_SPLIT, sets[one.id]) for one in documents for name in one.sentences}
        wanted = queries_to_score(places, options.split)
        scoring = Scoring(dataset, wanted, request.scoring, self.progress, lambda: find_learner(Links()))
        self.dataset, self.runs = dataset.name, find_runs(options.runs, scoring)
        refuse_twice([AnyRun(RANDOM, Parent(RANDOM, "", "")), *self.runs], "rename the run: random is the baseline")
        matched, self.notes = match_scores(dataset, places, self.runs, options.split, options.partial)
        self.splits = [self._split(name, documents, lacking) for name, (_, lacking) in matched.items()]
        self.unit_of = {one.id: one.group if options.cluster == "group" else one.id for one in dataset.sets}
        self.ks = sorted({1, 5, *options.ks()})
        self.parents = [origin_of(dataset), *(run.origin for run in self.runs)]
        self.aucs: dict[str, dict[str, Doubles]] = {split.name: {} for split in self.splits}
        self.seeds: list[Seeds] = []

    def _split(self, name: str, documents: Sequence[Document], lacking: frozenset[str]) -> DocumentSplit:
        own = [one for one in documents if (one.split or NO_SPLIT) == name]
        whole = tuple(one for one in own if lacking.isdisjoint(one.sentences))
        if lost := len(own) - len(whole):
            lack = f"{name}: {lost} of {len(own)} documents lack scores of some run"
            self.notes.append(f"{lack} and were left out of all (--partial)")
        scores = {
            scorer.name: [np.array([[scorer.values[s][i] for i in one.images] for s in one.sentences]) for one in whole]
            for run in self.runs
            for scorer in run.scorers
        }
        return DocumentSplit(name, whole, scores)

    def groups(self, split: DocumentSplit) -> list[str]:
        """Documents, or groups of them."""
        return [self.unit_of[one.id] for one in split.documents]

    def columns(self, split: DocumentSplit, run: Run, summary: Summariser) -> Columns:
        """AUC and p@C by document, and how dense links are."""
        each = {scorer.name: columns_of(split, scorer.name, self.ks) for scorer in run.scorers}
        columns = mean_columns(list(each.values()))
        self.aucs[split.name][run.name] = columns[AUC].values[split.counted]
        figures = {name: value for name, one in each.items() if (value := one[AUC].figure) is not None}
        self.seeds += seeds_of(split.name, run.name, figures)
        return [(("overall", "all", name), column) for name, column in columns.items()]

    def compared(self, split: DocumentSplit, columns: Mapping[str, Columns]) -> Mapping[str, Mapping[str, RatioColumn]]:
        """AUC and p@C of runs, and of random scores before them."""
        measures = {**super().compared(split, columns)}
        chance = next(iter(measures.pop(CHANCE).values()))
        expected = {name: replace(chance, values=chance.weights / 2) if name == AUC else chance for name in measures}
        counts = split.counted.any()
        return {name: {RANDOM: expected[name], **runs} for name, runs in measures.items() if counts}

    def complete(self, split: DocumentSplit, figures: list[Figure], summary: Summariser) -> None:
        """Links found, seeds, differences, how alike runs are, and what explains AUC."""
        name, units = split.name, f"{'group' if self.options.cluster == 'group' else 'document'}s"
        note = "mean and standard deviation over seeds; every other figure is the mean over seeds, document by document"
        tables = {
            "links": _links_table(split, figures, units),
            "seeds": seed_table(name, self.seeds, "AUC %", note),
            "differences": difference_table(name, self.findings.differences, units),
            "spearman": _spearman_table(name, self.aucs[name]),
            "explained": self._explained(split) if self.options.encoder and split.counted.any() else None,
        }
        self.findings.tables |= {f"{name}/{key}": table for key, table in tables.items() if table is not None}

    def finish(self) -> None:
        """Loss against AUC, and what keeps figures from being taken at their word."""
        dataset, findings = self.request.dataset, self.findings
        for run in self.runs:
            folders = [] if run.artifact is None else checkpoints(run.artifact.path)
            curves = {one.name: read_table(one / CURVE, CurveRow) for one in folders if (one / CURVE).is_file()}
            if (table := _curve_table(run.name, curves)) is not None:
                findings.tables[f"curve/{run.name}"] = table
        notes.mark_changed_runs(self)
        findings.notes += [
            *dataset.notes,
            *self.notes,
            *notes.leakage_notes(dataset, self.splits, self.progress),
            *notes.contamination_notes(dataset, self.splits, self.runs),
        ]
        findings.rows = {"seeds": self.seeds, "tables": list(findings.tables.values())}

    def rows(self) -> Iterator[QueryResult]:
        """A row for each scorer and sentence."""
        for split in self.splits:
            for scorer, scores in split.scores.items():
                for document, table in zip(split.documents, scores, strict=True):
                    yield from _query_results(scorer, split.name, document, table)

    def _explained(self, split: DocumentSplit) -> Table | None:
        """R² of AUC on spread and content; None, with a note, where the encoder cannot be asked."""
        chosen = [split.documents[row] for row in np.flatnonzero(split.counted).tolist()]
        opened: Any = find_learner(Links()).open_run(self.options.encoder, self.request.scoring, self.progress)
        try:
            vectors = opened.vectors(self.request.dataset, chosen)
        except DataError as error:
            self.notes.append(f"{split.name}: spread and content are not measured: {error.message}")
            return None
        spreads = np.array([[spread(one) for one in pair] for pair in vectors])
        content = _components(np.array([np.concatenate([one.mean(axis=0) for one in pair]) for pair in vectors]))
        both = np.hstack([spreads, content])
        rows = [(run, *_r2(values, spreads), *_r2(values, both)) for run, values in self.aucs[split.name].items()]
        note = (
            f"R² in % of least squares on {plural(len(chosen), 'document', 'documents', ',')}, and adjusted for the number of "
            f"columns. Spread: of sentences and of images, 2 columns; content: mean vectors of both, {content.shape[1]} "
            f"principal components; by {self.options.encoder}. –: as many coefficients as documents, or AUC does not vary"
        )
        heads = ("run", "spread", "adjusted", "spread + content", "adjusted ")
        return Table(f"{split.name}: what explains AUC", heads, tuple(rows), note)


def _r2(values: Doubles, columns: Doubles) -> tuple[str, str]:
    if (share := explained(values, columns)) is None:
        return "–", "–"
    count, width = columns.shape
    return f"{100 * share:.1f}", f"{100 * (1 - (1 - share) * (count - 1) / (count - width - 1)):.1f}"


def _components(table: Doubles) -> Doubles:
    """Rows [D, W] on their first principal components, `COMPONENTS` at most."""
    left, sizes, _ = np.linalg.svd(table - table.mean(axis=0), full_matrices=False)
    rank = int((sizes > 1e-6 * max(1.0, sizes.max(initial=0.0))).sum())
    return np.asarray((left * sizes)[:, : min(rank, COMPONENTS)], np.float64)


def _links_table(split: DocumentSplit, figures: Sequence[Figure], units: str) -> Table:
    """AUC and p@C of each run, below those of random scores."""
    cells = {(figure.run, figure.measure): figure.interval for figure in figures}
    runs, names = (list(dict.fromkeys(names)) for names in zip(*cells, strict=True))
    names.remove(CHANCE)
    rows = [(RANDOM, *("50.0" if name == AUC else percent(cells[runs[0], CHANCE]) for name in names))]
    rows += [(run, *(percent(cells[run, name]) for name in names)) for run in runs]
    counted, unjudged = int(split.counted.sum()), sum(bool(np.isnan(one.links).all()) for one in split.documents)
    note = (
        f"%, means over {counted:,} of {plural(len(split), 'document', 'documents', ',')}, of judged pairs alone; skipped: "
        f"{len(split) - counted - unjudged:,} without a link or with nothing else, {unjudged:,} without a judged pair. In brackets "
        f"{100 * LEVEL:g} % over {units} drawn again{none_had(list(cells.values()))}. p@C: share of links among the C highest scores, "
        "ties share their places; random: what scores without sense would give"
    )
    return Table(f"{split.name}: links found", ("run", *names), tuple(rows), note)


def _spearman_table(split: str, aucs: Mapping[str, Doubles]) -> Table | None:
    """Whether two runs find the same documents hard; None for a single run."""
    pairs = [(run, against, spearman(aucs[run], aucs[against])) for against, run in combinations(aucs, 2)]
    note = "Spearman's rho of the AUC of documents; –: that of a run does not vary"
    heads = ("run", "against", "rho")
    return Table(f"{split}: methods alike", heads, tuple(pairs), note, digits=3) if pairs else None


def _curve_table(run: str, seeds: Mapping[str, Sequence[CurveRow]]) -> Table | None:
    """Validation loss, which chooses the epoch without a label, beside AUC; None where no epoch has both."""
    points: dict[str, dict[int, tuple[float, float]]] = {}
    for seed, rows in seeds.items():
        for row in rows:
            if row.valid_loss is not None and row.valid_auc is not None:
                points.setdefault(seed, {})[row.epoch] = (row.valid_loss, row.valid_auc)
    if not points:
        return None
    rhos = {seed: spearman(*np.array([*own.values()]).T) for seed, own in points.items()}
    shown = [f"{seed} {'–' if rho is None else f'{rho:+.3f}'}" for seed, rho in rhos.items()]
    epochs = sorted({epoch for own in points.values() for epoch in own})
    cells = [(epoch, *(cell for own in points.values() for cell in own.get(epoch, (None, None)))) for epoch in epochs]
    heads = ("epoch", *(f"{what}, {seed}" for seed in points for what in ("loss", AUC)))
    note = f"of the validation documents; Spearman's rho of loss and AUC over epochs: {', '.join(shown)}"
    return Table(f"{run}: validation loss against AUC", heads, tuple(cells), note, digits=4)


def _query_results(scorer: str, split: str, document: Document, scores: Doubles) -> Iterator[QueryResult]:
    """The result of each sentence as a query for its images; one without a link is neither right nor ranked, and has zeros."""
    linked, images, few = document.links == 1, np.array(document.images), len(document.images) <= MOST_SCORES
    some = linked.any(axis=1)
    counts = count_ranks(scores, linked | ~some[:, None])
    columns = (accuracy(counts), reciprocal_rank(counts), counts.above, counts.level)
    figures = zip(*(np.where(some, column, 0).tolist() for column in columns), strict=True)
    for row, (credit, rank, above, level) in enumerate(figures):
        yield QueryResult(
            run=scorer, query=document.sentences[row], side=split, image_set=document.id, kind="document",
            text=document.texts[row], targets=tuple(images[linked[row]].tolist()),
            picks=tuple(images[scores[row] == scores[row].max()].tolist()), accuracy=credit, reciprocal_rank=rank,
            above=above, level=level, tokens=len(document.texts[row].split()),
            candidates=document.images if few else (), scores=tuple(scores[row].tolist()) if few else (),
        )  # fmt: skip


class Links(Question):
    """Documents with several sentences and images."""

    LEARNER: ClassVar[str] = "ctxr.problems.links.learner:LinksLearner"
    KIND: ClassVar[str] = RUN
    VARIANTS: ClassVar[tuple[str, ...]] = VARIANTS
    evaluation = LinkEvaluation

    def takes(self, request: EvalRequest) -> bool:
        """Whether the dataset holds documents."""
        return is_documents(request.dataset)

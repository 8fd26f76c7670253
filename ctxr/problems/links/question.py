"""The question of links: which sentences of a document belong to which of its images?"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pkgutil import resolve_name
from typing import Any, ClassVar

import numpy as np

from ctxr.datasets.documents import Document, documents_of, is_documents
from ctxr.datasets.open import origin_of
from ctxr.metrics.columns import RatioColumn, mean_columns
from ctxr.metrics.ranking import accuracy, count_ranks, reciprocal_rank
from ctxr.metrics.votes import Doubles
from ctxr.problems import notes
from ctxr.problems.evaluation import NO_SPLIT, EvalRequest, Evaluation
from ctxr.problems.figures import Columns, Figure, Seeds, Summariser, seeds_of
from ctxr.problems.links.figures import (
    AUC,
    CHANCE,
    RANDOM,
    CurveEpoch,
    DocumentSplit,
    columns_of,
    curve_table,
    explained_table,
    links_table,
    spearman_table,
)
from ctxr.problems.links.recipe import VARIANTS
from ctxr.problems.matching import SplitQueries, match_scores, queries_to_score
from ctxr.problems.protocols import Question, find_learner
from ctxr.problems.results import MOST_SCORES, QueryResult
from ctxr.problems.runs import AnyRun, Run, Scoring, find_runs, refuse_twice, scorers_in
from ctxr.problems.tables import difference_table, seed_table
from ctxr.store.artifacts import Parent
from ctxr.store.kinds import RUN
from ctxr.store.tables import read_table

VECTORS = "ctxr.problems.links.vectors:vectors_of_documents"
"""What an encoder says of documents, by dotted name: a question needs no torch."""

CURVE = "curve.jsonl"
"""Table of each seed of a run with a row for each epoch."""

WITHOUT_EFFECT = ("trec", "regions", "rerank", "rerank_by", "judgments", "positives")
"""Options of `ctxr eval` that have none on documents."""


class LinkEvaluation(Evaluation):
    """Runs on documents."""

    TOGETHER: ClassVar[bool] = True
    EXACT: ClassVar[bool] = True

    runs: Sequence[Run]
    splits: Sequence[DocumentSplit]

    def __init__(self, request: EvalRequest) -> None:
        super().__init__(request)
        options, dataset = self.options, request.dataset
        self.scoring = replace(request.scoring, regions="", rerank=None, rerank_by="")
        documents = documents_of(dataset)
        sets = {image_set.id: image_set for image_set in dataset.sets}
        places = {name: (one.split or NO_SPLIT, sets[one.id]) for one in documents for name in one.sentences}
        wanted = queries_to_score(places, options.split)
        scoring = Scoring(dataset, wanted, self.scoring, self.progress, lambda: find_learner(Links()))
        self.dataset, self.runs = dataset.name, find_runs(options.runs, scoring)
        refuse_twice([AnyRun(RANDOM, Parent(RANDOM, "", "")), *self.runs], "rename the run: random is the baseline")
        matched, self.notes = match_scores(dataset, places, self.runs, options.split, options.partial)
        self.splits = [_split_of(one, documents, self.runs) for one in matched]
        self.group_of = {one.id: one.group if options.cluster == "group" else one.id for one in dataset.sets}
        self.ks = sorted({1, 5, *options.ks()})
        self.parents = [origin_of(dataset), *(run.origin for run in self.runs)]
        self.aucs: dict[str, dict[str, Doubles]] = {split.name: {} for split in self.splits}
        self.seeds: list[Seeds] = []

    def groups(self, split: DocumentSplit) -> list[str]:
        """Documents, or groups of them."""
        return [self.group_of[one.id] for one in split.documents]

    def columns(self, split: DocumentSplit, run: Run, summary: Summariser) -> Columns:
        """AUC and p@C by document, and how dense links are."""
        each = {scorer.name: columns_of(split, scorer.name, self.ks) for scorer in run.scorers}
        columns = mean_columns(list(each.values()))
        self.aucs[split.name][run.name] = columns[AUC].values[split.counted]
        figures = {name: one[AUC].figure for name, one in each.items()}
        self.seeds += seeds_of(split.name, run.name, {name: one for name, one in figures.items() if one is not None})
        return [(("overall", "all", name), column) for name, column in columns.items()]

    def compared(self, split: DocumentSplit, columns: Mapping[str, Columns]) -> Mapping[str, Mapping[str, RatioColumn]]:
        """AUC and p@C of runs, and of random scores before them."""
        measures = {**super().compared(split, columns)} if split.counted.any() else {}
        if not measures:
            return {}
        chance = next(iter(measures.pop(CHANCE).values()))
        expected = {name: replace(chance, values=chance.weights / 2) if name == AUC else chance for name in measures}
        return {name: {RANDOM: expected[name], **runs} for name, runs in measures.items()}

    def complete(self, split: DocumentSplit, figures: list[Figure], summary: Summariser) -> None:
        """Links found, seeds, differences, how alike runs are, and what explains AUC."""
        name, units = split.name, f"{'group' if self.options.cluster == 'group' else 'document'}s"
        note = "mean and standard deviation over seeds; every other figure is the mean over seeds, document by document"
        tables = {
            "links": links_table(split, figures, units),
            "seeds": seed_table(name, self.seeds, "AUC %", note),
            "differences": difference_table(name, self.findings.differences, units),
            "spearman": spearman_table(split, self.aucs[name]),
            "explained": self._explained(split) if self.options.encoder else None,
        }
        self.findings.tables |= {f"{name}/{key}": table for key, table in tables.items() if table is not None}

    def finish(self) -> None:
        """Loss against AUC, and what keeps figures from being taken at their word."""
        dataset, findings = self.request.dataset, self.findings
        for run in self.runs:
            folders = (
                {} if run.artifact is None else {file.name: file for file in scorers_in(run.artifact.path).values()}
            )
            curves = {
                name: read_table(file, CurveEpoch) for name, one in folders.items() if (file := one / CURVE).exists()
            }
            if (table := curve_table(run.name, curves)) is not None:
                findings.tables[f"curve/{run.name}"] = table
        notes.mark_changed_runs(self)
        unused = [f"--{name.replace('_', '-')}" for name in WITHOUT_EFFECT if getattr(self.options, name)]
        findings.notes += [
            *dataset.notes,
            *self.notes,
            *([f"{', '.join(unused)}: without effect on documents"] if unused else []),
            *(
                f"{split.name}: {split.left_out} of {split.left_out + len(split)} documents lack scores of some run and were left "
                "out of all (--partial)"
                for split in self.splits
                if split.left_out
            ),
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

    def _explained(self, split: DocumentSplit) -> Any:
        """See `explained_table`; None, with a note, where no document has all its pictures."""
        dataset, documents = self.request.dataset, split.documents
        files = {one.id: dataset.picture(dataset.images[one.id]) for one in dataset.images.values()}
        present = {name for name, file in files.items() if file is not None and file.is_file()}
        counted = np.flatnonzero(split.counted)
        whole = np.array([present.issuperset(documents[row].images) for row in counted], bool)
        if not whole.any():
            self.notes.append(f"{split.name}: --encoder needs pictures, and no document that counts has all of its own")
            return None
        chosen, encoder = [documents[row] for row in counted[whole]], self.options.encoder
        vectors = resolve_name(VECTORS)(dataset, chosen, encoder, self.scoring, self.progress)
        aucs = {run: values[whole] for run, values in self.aucs[split.name].items()}
        return explained_table(split.name, aucs, vectors, encoder, int((~whole).sum()))


def _split_of(matched: SplitQueries, documents: Sequence[Document], runs: Sequence[Run]) -> DocumentSplit:
    own = [one for one in documents if (one.split or NO_SPLIT) == matched.name]
    whole = tuple(one for one in own if matched.lacking.isdisjoint(one.sentences))
    scores = {
        scorer.name: [
            np.array([[scorer.values[name][image] for image in one.images] for name in one.sentences]) for one in whole
        ]
        for run in runs
        for scorer in run.scorers
    }
    return DocumentSplit(matched.name, whole, scores, len(own) - len(whole))


def _query_results(scorer: str, split: str, document: Document, scores: Doubles) -> Iterator[QueryResult]:
    """The result of each sentence as a query for its images; without one it is neither right nor ranked, and has zeros."""
    linked, images, few = document.links == 1, np.array(document.images), len(document.images) <= MOST_SCORES
    of_row = {row: place for place, row in enumerate(np.flatnonzero(linked.any(axis=1)).tolist())}
    counts = count_ranks(scores[list(of_row)], linked[list(of_row)])
    credit, ranks = accuracy(counts), reciprocal_rank(counts)
    for row, (query, text) in enumerate(zip(document.sentences, document.texts, strict=True)):
        place = of_row.get(row)
        yield QueryResult(
            run=scorer,
            query=query,
            side=split,
            image_set=document.id,
            kind="document",
            text=text,
            targets=tuple(images[linked[row]].tolist()),
            picks=tuple(images[scores[row] == scores[row].max()].tolist()),
            accuracy=0.0 if place is None else float(credit[place]),
            reciprocal_rank=0.0 if place is None else float(ranks[place]),
            above=0 if place is None else int(counts.above[place]),
            level=0 if place is None else int(counts.level[place]),
            tokens=len(text.split()),
            candidates=document.images if few else (),
            scores=tuple(scores[row].tolist()) if few else (),
        )


class Links(Question):
    """Documents with several sentences and images."""

    LEARNER: ClassVar[str] = "ctxr.problems.links.learner:LinksLearner"
    KIND: ClassVar[str] = RUN
    VARIANTS: ClassVar[tuple[str, ...]] = VARIANTS
    evaluation = LinkEvaluation

    def takes(self, request: EvalRequest) -> bool:
        """Whether the dataset holds documents."""
        return is_documents(request.dataset)

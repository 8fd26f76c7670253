"""The contextual question: which image of a set does a text mean?"""

import json
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import chain, product
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from ctxr.datasets.dataset import Dataset
from ctxr.datasets.readers.phenomena import PHENOMENA
from ctxr.engine.report import Table
from ctxr.errors import plural
from ctxr.metrics.compare import RatioColumn
from ctxr.metrics.ranking import ALL_OF_SET, accuracy, chance, recall, reciprocal_rank
from ctxr.metrics.retrieval import trec_figures
from ctxr.models.picture_vectors import PictureVectors, distances_of
from ctxr.models.tokens import load_tokenizer
from ctxr.models.training.recipe import HEADS
from ctxr.problems import notes
from ctxr.problems.contextual import figures as measuring
from ctxr.problems.contextual.examples import EvalSplit, questions_of, values_of
from ctxr.problems.contextual.recipe import VARIANTS, ContextualRecipe
from ctxr.problems.evaluation import EvalRequest
from ctxr.problems.figures import Columns, Figure, Summariser, seed_table, seeds_of
from ctxr.problems.matching import ScoredEvaluation
from ctxr.problems.nothing_fits import RankedQueries, rank_queries
from ctxr.problems.question import Question, find_learner
from ctxr.problems.results import MOST_SCORES, QueryResult, plain_name, qrel, refuse_same_files, trec_ranking
from ctxr.problems.runs import ModelScores, Run
from ctxr.problems.verdicts import verdicts_in
from ctxr.store.artifacts import Content
from ctxr.store.kinds import RUN
from ctxr.store.tables import grouped

LEADERBOARD_SIDE = "test"


def files_for_others(splits: Sequence[EvalSplit], scorers: Sequence[ModelScores]) -> dict[str, str]:
    """Targets and rankings for trec_eval, by name, and the picks on test as ImageCoDe's leaderboard takes them: {set: [index, …]}.

    Sets and descriptions are in the order of the dataset. There are picks where test was scored as a whole. In a tie the first image
    is picked: the leaderboard knows no shares.
    """
    files = {}
    if qrels := [
        qrel(one.query, one.candidates[index]) for split in splits for one in split.questions for index in one.right
    ]:
        files["trec/qrels.txt"] = "".join(qrels)
    test = next((one for one in splits if one.name == LEADERBOARD_SIDE and not one.left_out), None)
    for scorer in scorers:
        rankings: list[Iterator[str]] = []
        for split in splits:
            for row, one in enumerate(split.questions):
                values = split.ranked[scorer.name][row, : len(one.candidates)].tolist()
                rankings.append(trec_ranking(scorer.name, one.query, one.candidates, values))
            for one in split.hidden:
                scores = enumerate(values_of(scorer, one))
                values = [-np.inf if place in one.unsure else value for place, value in scores]
                rankings.append(trec_ranking(scorer.name, one.query, one.candidates, values))
        files[f"trec/{plain_name(scorer.name)}.txt"] = "".join(chain.from_iterable(rankings))
        if test is not None:
            rows = sorted((*test.questions, *test.hidden), key=lambda one: one.number)
            picks = grouped((one.image_set.id, int(np.argmax(values_of(scorer, one)))) for one in rows)
            picked = json.dumps(picks, ensure_ascii=False, indent=1) + "\n"
            files[f"leaderboard/{plain_name(scorer.name)}.json"] = picked
    return files


class SetEvaluation(ScoredEvaluation[EvalSplit]):
    """Runs on sets of similar images."""

    PROBLEM: ClassVar[str] = "contextual"
    HEADLINE = (
        ("accuracy", "chance", "share of queries whose target scores highest"),
        (ALL_OF_SET, f"{ALL_OF_SET} chance", "share of sets whose every query is right"),
    )

    def __init__(self, request: EvalRequest) -> None:
        super().__init__(request, Contextual())
        options, dataset, places = self.options, request.dataset, self.places
        unsure = grouped(sorted(verdicts_in(dataset, None, options.workdir).unsure))
        vectors: PictureVectors | None = None
        if options.encoder:
            opened: Any = find_learner(Contextual()).open_run(options.encoder, request.scoring, self.progress)
            vectors = opened.vectors(dataset)
        self.tokenizer = load_tokenizer(options.tokenizer)
        counted = {places[name][0] for scorer in self.scorers for name in scorer.values if name in places}
        distances = distances_of(dataset, vectors)
        questions = questions_of(dataset, places, distances, unsure, self.tokenizer, counted=counted)
        refuse_same_files(self.names)
        scorers = {run.name: run.scorers for run in self.runs}
        self.splits = []
        for split in self.match():
            whole = [questions[name] for name in split.queries if name not in split.lacking]
            labelled, hidden = ([one for one in whole if bool(one.right) == known] for known in (True, False))
            self.splits.append(EvalSplit(split.name, labelled, hidden, scorers, len(split.lacking), ties=options.ties))
        self.unit = next((measuring.resampling_unit(split, options.cluster) for split in self.splits), self.unit)
        counts = [(split.name, sum(len(one.unsure) for one in split.questions)) for split in self.splits]
        self.unsure = [(split, count) for split, count in counts if count]
        self.single = [run.name for run in self.runs if len(run.scorers) == 1]
        sizes = [len(one.candidates) for split in self.splits for one in split.questions]
        self.recalls = [k for k in options.ks() if not sizes or k < max(sizes)]
        self.findings.rows = {"correlations": [], "errors": [], "seeds": []}
        self.findings.people = notes.crowd_figures(request.dataset)
        self.notes = [*notes.first_notes(self), *notes.picker_notes(request, self.runs), *self.notes]
        if vain := ", ".join(f"R@{k}" for k in options.ks() if k not in self.recalls):
            most = plural(max(sizes), "image")
            self.notes.append(f"{vain} is left out: no set has more than {most}, so it would be 100.0")
        self.notes += self._omissions()

    def _omissions(self) -> Iterator[str]:
        """Notes on queries that are left out of all figures, and on hidden targets."""
        for split in self.splits:
            if split.left_out:
                total = split.left_out + len(split.questions) + len(split.hidden)
                lack = f"{split.name}: {split.left_out} of {total} queries lack scores of some run"
                yield f"{lack} and were left out of all (--partial)"
            if split.hidden:
                targets = f"the targets of {len(split.hidden)} queries are hidden"
                yield f"{split.name}: {targets}; leaderboard/ has the picks"
        queries = self.request.dataset.queries.values()
        asked = {(query.image_set, query.texts) for query in queries if query.labels is None}
        if lost := sum(query.labels is not None and (query.image_set, query.texts) not in asked for query in queries):
            yield f"{plural(lost, 'description')} with labels in no query here: counted for no phenomenon"

    def groups(self, split: EvalSplit) -> list[str]:
        """Sets, or whole videos and albums; in galleries, where all queries share a set, their targets."""
        unit = measuring.resampling_unit(split, self.options.cluster)
        if unit == "target":
            return [f"{one.image_set.id} {one.right}" for one in split.questions]
        return [one.image_set.id if unit == "set" else one.image_set.group for one in split.questions]

    def columns(self, split: EvalSplit, run: Run, summary: Summariser) -> Columns:
        """Every measure overall, and accuracy by view; parts without a question are left out."""
        measures = {"accuracy": accuracy, "mrr": reciprocal_rank, "chance": chance}
        measures |= {f"recall@{k}": partial(recall, k=k) for k in self.recalls}
        values = {name: split.mean(run.name, measure) for name, measure in measures.items()}
        if self.options.trec:
            scorers = [trec_figures(split.ranked[one.name], split.targets, self.recalls) for one in run.scorers]
            values |= {name: np.mean([one[name] for one in scorers], axis=0) for name in scorers[0]}
        # one set of a gallery holds all queries
        of_sets = measuring.resampling_unit(split, "set") == "set"
        return [*(measuring.set_columns(split, run.name) if of_sets else ())] + [
            ((part.view, part.name, name), measuring.accuracy_column(column, part.within))
            for part in measuring.question_parts(split.questions)
            for name, column in values.items()
            if part.view == "overall" or name == "accuracy"
        ]

    def ranked(self, split: EvalSplit, run: Run) -> RankedQueries | None:
        """All questions; unsure candidates leave the ranking."""
        return rank_queries(
            run, ((row, one.query, one.candidates, one.right, one.unsure) for row, one in enumerate(split.questions))
        )

    def compared(self, split: EvalSplit, columns: Mapping[str, Columns]) -> Mapping[str, Mapping[str, RatioColumn]]:
        """Accuracy by kind of set and phenomenon."""
        found = {name: [name in question.found for question in split.questions] for name in PHENOMENA}
        credits = {run: split.mean(run, accuracy) for run in split.scorers}
        return {
            part: {run: measuring.accuracy_column(credit, np.array(within)) for run, credit in credits.items()}
            for part, within in (measuring.kinds_of(split.questions) | found).items()
            if any(within)
        }

    def complete(self, split: EvalSplit, figures: list[Figure], summary: Summariser) -> None:
        """Correlations, errors, seeds, and every table that there is something for, in the order of reading."""
        rows = self.findings.rows
        rows["correlations"] += measuring.correlations(split, summary.clusters)
        rows["errors"] += measuring.errors(split)
        if not split.questions:
            return
        for run in self.runs:
            accuracies = {one.name: float(accuracy(split.rank_counts(one.name)).mean()) for one in run.scorers}
            rows["seeds"] += seeds_of(split.name, run.name, accuracies)
        clusters, findings = measuring.resampling_unit(split, self.options.cluster), self.findings
        over_seeds = "mean and standard deviation over seeds; every other figure of such a run is the mean over its seeds, query by query"
        tables: dict[str, Table | None] = {
            "accuracy": measuring.accuracy_table(split, findings.figures, clusters),
            "seeds": seed_table(split.name, rows["seeds"], "accuracy %", over_seeds),
            "differences": measuring.part_differences(split, findings.figures, findings.differences, clusters),
            **measuring.view_tables(split, findings.figures),
            "correlations": measuring.correlation_table(split, rows["correlations"]),
            "errors": measuring.error_table(split, rows["errors"]),
        }
        findings.tables |= {f"{split.name}/{name}": table for name, table in tables.items() if table is not None}

    def finish(self) -> None:
        """The accuracy of people, and what keeps figures from being taken at their word."""
        super().finish()
        if (people := notes.crowd_table(self.request.dataset, self.findings.people)) is not None:
            self.findings.tables["people"] = people
        for split, scorer in product(self.splits, self.scorers):
            counts, ranked = split.rank_counts(scorer.name), split.ranked[scorer.name]
            credit, ranks = accuracy(counts), reciprocal_rank(counts)
            best = ranked == ranked.max(axis=1, initial=float("-inf"), keepdims=True)
            for row, one in enumerate(split.questions):
                few = len(one.candidates) <= MOST_SCORES
                result = QueryResult(
                    run=scorer.name,
                    query=one.query,
                    split=split.name,
                    image_set=one.image_set.id,
                    kind=one.image_set.kind,
                    text=one.text,
                    targets=tuple(one.candidates[index] for index in one.right),
                    picks=tuple(name for place, name in enumerate(one.candidates) if best[row, place]),
                    accuracy=float(credit[row]),
                    reciprocal_rank=float(ranks[row]),
                    above=int(counts.above[row]),
                    level=int(counts.level[row]),
                    tokens=one.tokens,
                    candidates=one.candidates if few else (),
                    scores=tuple(values_of(scorer, one)) if few else (),
                    tags=tuple(sorted(one.found)),
                    distance=one.distance,
                )
                self.findings.results.append(result)
        self.findings.files |= files_for_others(self.splits, self.scorers)

    def write(self, out: Path) -> Content:
        """With the name of the tokenizer."""
        return super().write(out)._replace(models={"tokenizer": {"name": self.tokenizer.name}})


class Contextual(Question):
    """Sets of similar images."""

    LEARNER: ClassVar[str] = "ctxr.problems.contextual.learner"
    Recipe: ClassVar[type[ContextualRecipe]] = ContextualRecipe
    KIND: ClassVar[str] = RUN
    VARIANTS: ClassVar[tuple[str, ...]] = VARIANTS
    evaluation = SetEvaluation

    def explains(self, config: Mapping[str, object]) -> bool:
        """Heads that look at the candidates of a query together."""
        return config.get("variant") in HEADS

    def asks(self, dataset: Dataset) -> bool:
        """Everything: files of scores, runs and encoders on queries for an image."""
        return True

"""The question of galleries: pictures and captions retrieve each other, each with any number of correct answers."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from ctxr.datasets.changes import contents_of
from ctxr.datasets.dataset import Dataset
from ctxr.datasets.splits import SPLITS
from ctxr.datasets.truth import read_verdicts
from ctxr.engine.report import Table
from ctxr.errors import DataError
from ctxr.metrics.compare import Interval, SampledRho, mean_columns
from ctxr.metrics.positions import MOST_POSITIONS
from ctxr.metrics.retrieval import KS, blocks_of, from_pairs
from ctxr.metrics.selective import BestScores, best_scores
from ctxr.problems import galleries, notes
from ctxr.problems.evaluation import NO_SPLIT, EvalRequest, Evaluation
from ctxr.problems.figures import Columns, Figure, Seeds, Summariser, difference_table, seed_table, seeds_of
from ctxr.problems.galleries import RANKINGS, SEED_NOTE, GallerySplit, QueryRanking, gallery_splits
from ctxr.problems.gallery import figures as measuring
from ctxr.problems.gallery.figures import EntailFigure, Ratings
from ctxr.problems.gallery.recipe import IN_BATCH, GalleryRecipe
from ctxr.problems.gallery.truth import PUBLISHED, GroundTruth, Labels, gold_of, labels_of, read_truths
from ctxr.problems.nothing_fits import RankedQueries
from ctxr.problems.queries import pictures_of
from ctxr.problems.question import Question, find_learner
from ctxr.problems.results import refuse_same_files
from ctxr.problems.runs import EvaluatedRun, checkpoints, refuse_twice
from ctxr.problems.verdicts import people_of, verdicts_in
from ctxr.store.artifacts import Content, open_artifact
from ctxr.store.kinds import RUN, SET_KINDS
from ctxr.store.records import Judgment
from ctxr.store.tables import PAYLOADS, write_table

_NONE = re.compile("^none: ")  # what titles and notes begin with where photos have no split


@dataclass(frozen=True)
class GalleryRun(EvaluatedRun):
    """A run with what scores."""

    opened: Any


@dataclass
class _Answers:
    """What was measured of a split besides columns, and what its pairs are labelled with."""

    labels: list[Labels]
    truths: Mapping[str, GroundTruth]
    ratings: list[Ratings]
    rhos: dict[str, dict[str, SampledRho]]
    seeds: list[Seeds]
    entailments: list[EntailFigure]


class GalleryEvaluation(Evaluation[GallerySplit, GalleryRun]):
    """Runs on galleries of photos."""

    PROBLEM: ClassVar[str] = "gallery"
    HEADLINE = (
        ("IR@1", "chance", "share of captions whose image comes first"),
        ("TR@1", None, "share of images with one of their captions first"),
    )

    def __init__(self, request: EvalRequest) -> None:
        super().__init__(request)
        options, dataset = self.options, request.dataset
        splits = gallery_splits(dataset, verdicts_in(dataset, options.judgments, options.workdir))
        wanted = {"valid", "test"} & splits.keys() or set(splits)
        if options.split:
            wanted = {"" if options.split == NO_SPLIT else options.split} & splits.keys()
        self.kinds = {image_set.id: image_set.kind for image_set in dataset.sets}
        self.dataset, self.splits = dataset.name, [splits[one] for one in (*SPLITS, "") if one in wanted]
        if not self.splits:
            raise DataError(
                f"{dataset.name} has no gallery with captions of {options.split}", hint="name another --split"
            )
        self.unsure = [(split.split or "all photos", len(split.unsure)) for split in self.splits if split.unsure]
        self.files_of = pictures_of(dataset, [split.as_query() for split in self.splits])
        self.contents = contents_of(dataset, self.files_of)
        self.runs = []
        for source in request.sources:
            opened: Any = find_learner(Gallery()).open_run(
                source.place or source.name, request.scoring, request.progress
            )
            artifact = None if source.place is None else open_artifact(source.place, RUN)
            if artifact is not None:
                artifact.refuse_changed()
            self.runs.append(GalleryRun(source.name, source.origin, opened, artifact=artifact))
        refuse_twice(self.runs, "rename one of the folders")
        self.ks = sorted({*KS, *options.ks()})
        table = options.judgments  # its folder may hold rounds
        self.rounds = table.parent if table is not None and table.is_file() else table
        self.people = people_of([one for one in (self.rounds, dataset.root) if one is not None], options.workdir)
        self.findings.notes += notes.first_notes(self)
        self.entailments: list[EntailFigure] = []
        self.rankings: list[QueryRanking] = []
        self.answers: dict[str, _Answers] = {}

    @cached_property
    def shortlists(self) -> dict[str, dict[str, object]]:
        """What each cross-encoder rescores, with the weights of its retriever."""
        return {run.name: one for run in self.runs if (one := run.opened.shortlist) is not None}

    def groups(self, split: GallerySplit) -> list[str]:
        """Pictures, or whole albums."""
        images = self.request.dataset.images
        by_group = self.options.cluster == "group"
        return [images[image].group if by_group else image for image in split.images]

    def columns(self, split: GallerySplit, run: GalleryRun, summary: Summariser) -> Columns:
        """Recall both ways, and Entail@K by each source of labels."""
        answers = self._answers(split)
        scored = self.scored = run.opened.score((split, self.files_of, self.contents))
        scored = {scorer: replace(one, ties=self.options.ties) for scorer, one in scored.items()}
        measured = {
            scorer: measuring.gallery_columns(split, one, answers.truths, self.ks, self.options.trec)
            for scorer, one in scored.items()
        }
        columns = mean_columns(list(measured.values()))
        printed = {
            scorer: [one.values.mean() for name, one in by_name.items() if name[:3] in ("TR@", "IR@")]
            for scorer, by_name in measured.items()
        }
        means = {scorer: float(np.mean(values)) for scorer, values in printed.items()}
        answers.seeds += seeds_of(split.name, run.name, means)
        answers.rhos[run.name] = measuring.correlated(answers.ratings, list(scored.values()), summary.seed)
        for label in answers.labels:
            counted = measuring.entailed(split, list(scored.values()), label)
            if counted is not None:
                answers.entailments += measuring.entailments(
                    run.name, split, counted, label, summary.seed, clusters=summary.clusters
                )
                columns |= measuring.entail_columns(counted, label)
        for scorer, one in scored.items():
            self.rankings += galleries.rankings_of(split, one, scorer)
            self.findings.results += galleries.caption_results(split, one, scorer, self.kinds)
        return [(("overall", "all", name), column) for name, column in columns.items()]

    def ranked(self, split: GallerySplit, run: GalleryRun) -> RankedQueries:
        """Captions, each among the pictures of its gallery, where those that it was written for are right."""
        written = from_pairs(*np.array(split.written, np.int64).T)
        parts, best = [(one.captions, one.images) for one in split.parts], list[BestScores]()
        for scored in self.scored.values():
            asked = split.condensed(scored).turned()
            blocks = (one for at in parts for one in blocks_of(asked.part(*at), written.part(*at)))
            best.append(best_scores(one[1:] for one in blocks))
        return RankedQueries(split.captions, split.first_owners, best)

    def complete(self, split: GallerySplit, figures: list[Figure], summary: Summariser) -> None:
        """Accuracy as sets have it, correlations with rated similarity, Entail@K."""
        answers, findings, name = self.answers[split.name], self.findings, split.name
        own = answers.entailments
        corrected = {figure.source for figure in own if figure.found.corrected.value is not None}
        for label in answers.labels:
            if label.audit and label.source in corrected:
                where = ", all of another split" if label.elsewhere else ""
                said = f"what people said of {label.audited} pairs with a judge's verdict{where}"
                findings.notes.append(f"{name}: Entail@K is corrected by {said}")
        # IR@1 once more as the accuracy of a caption that asks for its picture, and a blind guess, as sets have them
        guess = Interval(float(np.mean(1 / np.bincount(split.image_galleries)[list(split.caption_galleries)])))
        for row in (replace(row, measure="accuracy") for row in figures if row.measure == "IR@1"):
            findings.figures += (row, replace(row, measure="chance", interval=guess))
        findings.figures += measuring.similarity_figures(split, answers.rhos)
        self.entailments += own
        by = "group" if self.options.cluster == "group" else "picture"
        tables: dict[str, Table | None] = {
            **galleries.recall_tables(split, figures, by, PUBLISHED),
            "similarity": measuring.similarity_table(split, answers.rhos),
            "entailed": measuring.entailment_table(name, own),
            "seeds": seed_table(name, answers.seeds, "mean recall %", SEED_NOTE),
            "differences": difference_table(name, findings.differences, "pictures"),
        }
        findings.tables |= {f"{name}/{key}": table for key, table in tables.items() if table is not None}

    def finish(self) -> None:
        """What keeps figures from being taken at their word."""
        refuse_same_files({row.scorer: None for row in self.rankings})
        notes.add_cautions(self)
        findings = self.findings
        for name, table in findings.tables.items():
            findings.tables[name] = replace(table, title=_NONE.sub("all photos: ", table.title))
        used = {run.name: self.shortlists.get(run.name, {}) for run in self.runs}
        listed = [
            f"{name} rescores the {one['most']} candidates of each query that {one['by']} ranks highest, in both directions; "
            "the others rank below, in that order"
            for name, one in used.items()
            if one.get("most")
        ]
        findings.notes += listed
        different = {(one["most"], one["by"]) if one.get("most") else None for one in used.values()}
        if self.options.compare and listed and len(different) > 1:
            findings.notes.append(
                "runs behind different shortlists, or behind none, are compared: a difference may come from the retrievers"
            )
        findings.notes = [_NONE.sub("all photos: ", note) for note in findings.notes]
        if self.options.rerank and not self.shortlists:
            findings.notes.append("--rerank has no effect: every run compares the vectors of all pairs")
        findings.rows = {"entailed": self.entailments, "tables": list(findings.tables.values())}
        findings.rows |= {"correlations": [], "errors": [], "seeds": []}
        findings.files |= galleries.trec_files(self.splits, self.rankings)

    def write(self, out: Path) -> Content:
        """With the rankings as a table."""
        write_table(out / RANKINGS, self.rankings)
        content = super().write(out)
        shortlists = {"looked_at": self.shortlists} if self.shortlists else {}
        return content._replace(files=[*content.files, RANKINGS], counts=content.counts | shortlists)

    def _answers(self, split: GallerySplit) -> _Answers:
        """The labels of a split's pairs, which of them were published as right, and how alike people rated some."""
        if split.name in self.answers:
            return self.answers[split.name]
        options, dataset, people = self.options, self.request.dataset, self.people
        self.findings.notes += galleries.pointless_note(split, self.ks)
        more: list[Judgment] = [] if options.judgments is None else read_verdicts(options.judgments)
        labels = labels_of(dataset, split, more, self.rounds, people)
        truths = {} if options.positives is None else read_truths(options.positives, split)
        rated = [] if options.positives is None else measuring.read_ratings(options.positives, self.progress)
        ratings = measuring.ratings_of(split, rated)
        if options.positives is not None and not truths and not ratings:
            self.findings.notes.append(
                f"{split.name}: nothing in {options.positives} is about its pictures, which are known by "
                "COCO's names, such as COCO_val2014_000000000042.jpg"
            )
        labels += gold_of(dataset, split, truths, rated, more, people=people)
        return self.answers.setdefault(split.name, _Answers(labels, truths, ratings, {}, [], []))


class Gallery(Question):
    """Galleries of photos."""

    LEARNER: ClassVar[str] = "ctxr.problems.gallery.learner"
    Recipe: ClassVar[type[GalleryRecipe]] = GalleryRecipe
    KIND: ClassVar[str] = RUN
    VARIANTS: ClassVar[tuple[str, ...]] = (IN_BATCH,)
    evaluation = GalleryEvaluation

    def asks(self, dataset: Dataset) -> bool:
        """Whether images are looked for in large sets without order."""
        wanted = {query.image_set for query in dataset.queries.values() if query.labels is None}
        sets = [image_set for image_set in dataset.sets if image_set.id in wanted]
        most = max((len(image_set.images) for image_set in sets), default=0)
        kinds = [SET_KINDS[image_set.kind] for image_set in sets]
        return most > MOST_POSITIONS and not any(kind.ordered or kind.links for kind in kinds)

    def takes(self, request: EvalRequest) -> bool:
        """Whether every source is a model, too, which also looks for captions; encoders alone are asked with all that queries carry."""
        places = [source.place for source in request.sources if source.place is not None]
        more = [PAYLOADS[name] for name in request.dataset.payloads]
        ignored = not places and any(table.of == "query" for table in more)
        return all(map(checkpoints, places)) and not ignored and super().takes(request)

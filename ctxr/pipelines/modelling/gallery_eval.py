"""Evaluation over galleries: pictures and captions retrieve each other, each with any number of correct answers."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from ctxr.datasets.dataset import Dataset
from ctxr.datasets.open import origin_of
from ctxr.datasets.truth import read_judgments
from ctxr.engine.progress import Progress
from ctxr.engine.report import Table
from ctxr.errors import DataError, UnfinishedError
from ctxr.metrics.compare import Clusters
from ctxr.metrics.ranking import accuracy, places, reciprocal_rank
from ctxr.metrics.retrieval import KS, Matrix, Numbered, Vectors, from_pairs
from ctxr.metrics.similarity import SampledRho
from ctxr.pipelines.modelling import notes as beside
from ctxr.pipelines.modelling.config import Eval, EvalReport
from ctxr.problems.embeddings import PictureFiles
from ctxr.problems.figures import Seeds, seeds_of
from ctxr.problems.gallery import figures as measuring
from ctxr.problems.gallery.figures import Columns, EntailFigure, Ratings
from ctxr.problems.gallery.scoring import (
    RANKINGS,
    GalleryRun,
    QueryRanking,
    find_gallery_runs,
    rankings_of,
    scored_runs,
    shortlist_notes,
)
from ctxr.problems.gallery.splits import GallerySplit, gallery_splits
from ctxr.problems.gallery.truth import HumanLabels, Labels, gold_of, labels_of, people_of, published
from ctxr.problems.queries import contents_of, pictures_of
from ctxr.problems.questions import SIDES
from ctxr.problems.reranking import Rerank
from ctxr.problems.results import (
    RESULTS,
    Findings,
    QueryResult,
    plain_name,
    qrel,
    record,
    refuse_same_files,
    results_name,
    trec_ranking,
    write_findings,
)
from ctxr.problems.tables import seed_table
from ctxr.store.artifacts import Content, Parent
from ctxr.store.hashing import sha256_file
from ctxr.store.kinds import EVALUATION
from ctxr.store.records import Judgment
from ctxr.store.tables import write_table

BLOCK = 4_000_000
"""Scores in memory at a time while picks are computed."""


@dataclass
class _Found(Findings):
    """Everything that was measured."""

    entailments: list[EntailFigure] = field(default_factory=list)
    rows: list[QueryResult] = field(default_factory=list)
    rankings: list[QueryRanking] = field(default_factory=list)


def evaluate(config: Eval, dataset: Dataset, recalls: Sequence[int], progress: Progress) -> EvalReport:
    """Figures of runs over the galleries of a dataset, and the artifact. Raises what `pipelines.eval.run` says."""
    sides = _sides(dataset, config.split)
    asked = [side.asked() for side in sides]
    files = pictures_of(dataset, asked)
    pictures = PictureFiles(files, contents_of(dataset, files), config.workdir)
    rerank = None if config.rerank is None else Rerank(config.rerank, config.rerank_by)
    runs = find_gallery_runs(config.runs, pictures, config.workdir, config.device, progress, rerank, config.regions)
    if not runs:
        raise UnfinishedError(
            f"{config.workdir / 'runs'} holds no finished run", hint="ctxr train --recipe retrieval-clip"
        )
    ks = sorted({*KS, *recalls})
    found = _Found(notes=[*dataset.notes, *([beside.ALONE] if config.compare and len(runs) == 1 else [])])
    people = people_of([one for one in (config.judgments, dataset.root) if one is not None], config.workdir)
    evaluation = _Evaluation(config, dataset, runs, ks, people, progress, found)
    for side in sides:
        evaluation.measure(side)
    refuse_same_files({row.scorer: None for row in found.rankings})
    found.notes += [*beside.leakage_notes(dataset, sides, progress), *beside.contamination_notes(dataset, sides, runs)]
    parents = [origin_of(dataset), *(one.origin for one in runs), *people.parents]
    for name, path in (("judgments", config.judgments), ("positives", config.positives)):
        if path is not None:
            content = [path] if path.is_file() else sorted([*path.glob("*.json*"), *path.glob("*.csv")])
            parents += [Parent(f"{name}/{one.name}", name, sha256_file(one)) for one in content]
    settings = config.key() | {"runs": [one.name for one in runs], "galleries": True}
    settings |= {"looked_at": looked} if (looked := scored_runs(runs, progress)) else {}
    found.notes += shortlist_notes(runs, config.compare)
    if config.rerank and not looked:
        found.notes.append("--rerank means nothing here: every run compares vectors, which looks at all pairs")
    out = config.out or config.workdir / RESULTS / results_name([one.name for one in runs])
    up_to_date = record(out, EVALUATION, settings, parents, lambda: _write(out, sides, runs, found), progress)
    return EvalReport(out, dataset.name, tuple(one.name for one in runs), up_to_date, found.tables, tuple(found.notes))


def _sides(dataset: Dataset, split: str) -> list[GallerySplit]:
    """The sides that are evaluated: the one that was named, else valid and test, else all."""
    sides = gallery_splits(dataset)
    wanted = {"" if split == "none" else split} if split else {"valid", "test"} & sides.keys() or set(sides)
    chosen = [sides[side] for side in ("train", "valid", "test", "") if side in wanted and side in sides]
    if not chosen:
        raise DataError(f"{dataset.name} has no gallery with captions of {split}", hint="name another --split")
    return chosen


@dataclass(frozen=True, eq=False)
class _Evaluation:
    """Runs over the galleries of a dataset, and what was found so far; `ks` are those of recall."""

    config: Eval
    dataset: Dataset
    runs: Sequence[GalleryRun]
    ks: Sequence[int]
    people: HumanLabels
    progress: Progress
    found: _Found

    def measure(self, side: GallerySplit) -> None:
        """Add the figures, rows and tables of a side."""
        config, found, name = self.config, self.found, side.name
        found.notes += measuring.pointless_note(side, self.ks)
        labels, truths, ratings = self._truth(side)
        rhos: dict[str, dict[str, SampledRho]] = {}
        seed = (config.seed, SIDES.index(name))
        groups = [self.dataset.images[image].group if config.cluster == "group" else image for image in side.images]
        clusters = Clusters(groups, np.random.default_rng(seed), config.resamples)
        columns: dict[str, Columns] = {}
        seeds: list[Seeds] = []
        with self.progress.task(f"figures of {name}", len(self.runs)) as task:
            for run in self.runs:
                scored = run.found(side)
                each = {scorer: measuring.columns_of(side, one, truths, self.ks) for scorer, one in scored.items()}
                columns[run.name] = measuring.mean_columns(list(each.values()))
                seeds += seeds_of(name, run.name, {scorer: _mean_recall(one) for scorer, one in each.items()})
                rhos[run.name] = measuring.correlated(ratings, list(scored.values()), seed)
                for label in labels:
                    counted = measuring.entailed(side, list(scored.values()), label)
                    if counted is not None:
                        found.entailments += measuring.entailments(run.name, side, counted, label, seed, clusters)
                        columns[run.name] |= measuring.entail_columns(counted, label)
                for scorer, one in scored.items():
                    found.rankings += rankings_of(side, one, scorer)
                    found.rows += _query_results(side, one, scorer)
                task.advance()
        own = [one for one in found.entailments if one.side == name]
        corrected = {one.source for one in own if one.found.corrected.value is not None}
        found.notes += [_audited(name, one) for one in labels if one.audit and one.source in corrected]
        measured = measuring.figures(side, columns, clusters)
        found.figures += [*measured, *measuring.for_accuracy(side, measured), *measuring.similarity_figures(side, rhos)]
        if config.compare:
            found.differences += measuring.differences(side, columns, clusters, seed, config.permutations)
        made: dict[str, Table | None] = {
            **measuring.recall_tables(side, measured, "group" if config.cluster == "group" else "picture"),
            "similarity": measuring.table(side, rhos),
            "entailed": measuring.entailment_table(name, own),
            "seeds": seed_table(name, seeds, "mean recall %", measuring.SEED_NOTE),
            "differences": measuring.difference_table(name, found.differences),
        }
        found.tables |= {f"{name}/{key}": table for key, table in made.items() if table is not None}

    def _truth(self, side: GallerySplit) -> tuple[list[Labels], Mapping[str, tuple[Numbered, Numbered]], list[Ratings]]:
        """What a side's pairs are labelled with, which of them were published as right, and how alike people rated some."""
        config, dataset, people = self.config, self.dataset, self.people
        more: list[Judgment] = [] if config.judgments is None else read_judgments(config.judgments)
        root = config.judgments if config.judgments is not None and config.judgments.is_dir() else None
        labels = labels_of(dataset, side, more, root, people)
        truths = {} if config.positives is None else published(config.positives, dataset, side)
        rated = [] if config.positives is None else measuring.read_ratings(config.positives, self.progress)
        ratings = measuring.ratings_of(side, rated)
        if config.positives is not None and not truths and not ratings:
            self.found.notes.append(
                f"{side.name}: nothing in {config.positives} is about its pictures, which are known by "
                "COCO's names, such as COCO_val2014_000000000042.jpg"
            )
        return labels + gold_of(dataset, side, truths, rated, more, people), truths, ratings


def _audited(side: str, labels: Labels) -> str:
    where = ", all of another split" if labels.elsewhere else ""
    return (
        f"{side}: Entail@K is corrected by what people said of {labels.audited} pairs that the classifier judged{where}"
    )


def _mean_recall(columns: Columns) -> float:
    return float(np.mean([one.values.mean() for name, one in columns.items() if name[:3] in ("TR@", "IR@")]))


def _query_results(side: GallerySplit, found: Vectors | Matrix, scorer: str) -> Iterator[QueryResult]:
    """The result of each caption as a query for its picture."""
    galleries, owners = np.array(side.image_galleries), np.array(side.caption_galleries)
    written: dict[int, list[int]] = {}
    for caption, image in side.written:
        written.setdefault(caption, []).append(image)
    pairs = np.array(side.written, np.int64)
    for gallery, name in enumerate(side.galleries):
        images, captions = np.flatnonzero(galleries == gallery), np.flatnonzero(owners == gallery)
        scored = found.part(images, captions).turned()
        inside = pairs[(owners[pairs[:, 0]] == gallery) & (galleries[pairs[:, 1]] == gallery)]
        of = from_pairs(np.searchsorted(captions, inside[:, 0]), np.searchsorted(images, inside[:, 1]))
        step = max(1, BLOCK // max(1, len(images)))
        for start in range(0, len(captions), step):
            asked = np.arange(start, min(start + step, len(captions)))
            scores = scored.rows(asked)
            right = of.among(asked, len(images))
            placed = places(scores, right)
            best = scores == scores.max(axis=1, keepdims=True)
            credit, ranks = accuracy(placed), reciprocal_rank(placed)
            for row, caption in enumerate(captions[asked].tolist()):
                yield QueryResult(
                    run=scorer, query=side.captions[caption], side=side.name, image_set=name, kind="photos",
                    text=side.texts[caption], targets=tuple(side.images[image] for image in written[caption]),
                    picks=tuple(side.images[images[one]] for one in np.flatnonzero(best[row])),
                    accuracy=float(credit[row]), reciprocal_rank=float(ranks[row]), above=int(placed.above[row]),
                    level=int(placed.level[row]), tokens=len(side.texts[caption].split()),
                )  # fmt: skip


def _write(out: Path, sides: Sequence[GallerySplit], runs: Sequence[GalleryRun], found: _Found) -> Content:
    write_table(out / RANKINGS, found.rankings)
    found.more = {"entailed": found.entailments, "tables": list(found.tables.values())}
    files, counts, models = write_findings(out, found, found.rows, _trec(sides, found.rankings))
    counts = {"runs": len(runs)} | counts | {side.name: len(side) for side in sides}
    return Content([*files, RANKINGS], counts, models)


def _trec(sides: Sequence[GallerySplit], rankings: Sequence[QueryRanking]) -> dict[str, str]:
    """Files for trec_eval: `trec/ir` where captions ask for pictures, `trec/tr` where pictures ask for captions."""
    lines: dict[str, list[str]] = {}
    for side in sides:
        for caption, image in side.written:
            ends = side.captions[caption], side.images[image]
            lines.setdefault("trec/ir/qrels.txt", []).append(qrel(*ends))
            lines.setdefault("trec/tr/qrels.txt", []).append(qrel(*ends[::-1]))
    for row in rankings:
        name = f"trec/{'ir' if row.asks == 'image' else 'tr'}/{plain_name(row.scorer)}.txt"
        lines.setdefault(name, []).extend(trec_ranking(row.scorer, row.query, row.candidates, row.scores))
    return {name: "".join(held) for name, held in lines.items()}

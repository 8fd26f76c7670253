"""Scores of the images of sets."""

from collections.abc import Collection, Sequence
from pathlib import Path

import numpy as np

from ctxr.datasets.dataset import Dataset
from ctxr.models.context import PLACES
from ctxr.models.dataset_vectors import vectors_of
from ctxr.models.picture_vectors import PictureVectors
from ctxr.models.precision import choose_device
from ctxr.models.training.checkpoint import CONFIG, HEAD, read_checkpoint
from ctxr.models.training.scoring import attend_all, score_all
from ctxr.problems.embeddings import Array, PictureFiles, cached, picture_files
from ctxr.problems.queries import EvalQuery, by_split, check_positions, queries_of
from ctxr.problems.scoring import OpenScorer, plan_scoring, source_of
from ctxr.store.hashing import sha256_file, sha256_of
from ctxr.store.records import Score


class OpenSets(OpenScorer):
    """A run or an encoder that scores the images of sets: a cosine, -1..1, or the log-odds of a match by an encoder of pairs."""

    def score(self, examples: tuple[Dataset, Collection[str] | None]) -> dict[str, dict[str, dict[str, float]]]:
        """Values by scorer, query and candidate, higher is better, of queries of a dataset, None for all but those with labels.

        Raises DataError for pictures or weights that do not exist or do not fit.
        """
        queries = queries_of(*examples)
        values: dict[str, dict[str, dict[str, float]]] = {}
        for row in self.rows(queries, self.with_regions(picture_files(examples[0], queries, self.options.workdir))):
            values.setdefault(row.scorer, {}).setdefault(row.query, {})[row.candidate] = row.value
        return values

    def rows(self, queries: Sequence[EvalQuery], pictures: PictureFiles) -> list[Score]:
        """A score for every candidate of every query, by scorer, and queries by split."""
        scores = []
        for scorer, checkpoint in self.checkpoints.items():
            notes = None if checkpoint is None else read_checkpoint(checkpoint)
            if notes is not None and notes.variant == "temporal":
                check_positions(queries, PLACES, notes.all_positions)
            device, source = choose_device(self.options.device), source_of(checkpoint, self.encoder, self.progress)
            plan = plan_scoring(checkpoint, source, pictures, device, self.options.precision, self.progress)
            chance = None if notes is None else notes.chance
            for split in by_split(queries).values():
                table = plan.prepare(split)
                with self.progress.task("scoring", len(split)) as task:
                    values = score_all(plan.ranker, table, plan.at_once, device, plan.bf16, task.advance, chance)
                scores += [
                    Score(one.query, image, scorer, value)
                    for one, row in zip(split, values.tolist(), strict=True)
                    for image, value in zip(one.images, row[: len(one.images)], strict=True)
                ]
        return scores

    def vectors(self, dataset: Dataset) -> PictureVectors | None:
        """Of all pictures, by a published encoder."""
        return vectors_of(dataset, self.encoder, self.options.device, self.progress)

    def explain(self, examples: tuple[Dataset, Collection[str]]) -> dict[tuple[str, str], list[list[int]]]:
        """Attention of the last layer, averaged over heads, of the queries that are shown; kept in the project's cache."""
        dataset, shown = examples
        attention = {}
        # whole splits, as they were asked for when the run was trained and evaluated: their vectors are in the cache
        for queries in by_split(queries_of(dataset)).values():
            rows = [row for row, one in enumerate(queries) if one.query in shown]
            if not rows:
                continue
            pictures = self.with_regions(picture_files(dataset, queries, self.options.workdir))
            for scorer, seed in self.checkpoints.items():
                if seed is None:
                    continue
                for row, table in zip(rows, self._attention(seed, queries, rows, pictures), strict=True):
                    count = len(queries[row].images)
                    percent = np.rint(100 * table[:count, :count]).astype(int).tolist()
                    attention[scorer, queries[row].query] = percent
        return attention

    def _attention(self, seed: Path, queries: Sequence[EvalQuery], rows: list[int], pictures: PictureFiles) -> Array:
        """float32 [n, K, K] of the queries at `rows`, by the checkpoint `seed`; computed once."""
        contents = [
            sha256_of([one.text, [pictures.contents[image] for image in one.images], one.ordered])
            for one in (queries[row] for row in rows)
        ]
        most = max(len(one.images) for one in queries)
        origin = {"attention": sha256_file(seed / HEAD), "config": sha256_file(seed / CONFIG), "most": most}

        def make(part: slice) -> Array:
            device, source = choose_device(self.options.device), source_of(seed, self.encoder, self.progress)
            plan = plan_scoring(seed, source, pictures, device, self.options.precision, self.progress)
            table = plan.prepare(queries)
            shares: Array = attend_all(plan.ranker.eval(), table, rows[part], plan.at_once, device).numpy()
            return shares

        with self.progress.task("attention", len(rows)) as task:
            return np.concatenate(cached(pictures.workdir, origin, contents, make, task.advance))

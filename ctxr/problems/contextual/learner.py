"""How models learn to find targets in image sets, and how they are opened to score sets."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from math import inf
from pathlib import Path
from statistics import mean
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor, nn

from ctxr.datasets.dataset import Dataset
from ctxr.errors import DataError, UsageError
from ctxr.models.dataset_vectors import picture_vectors_of
from ctxr.models.picture_vectors import PictureVectors
from ctxr.models.scorers import PLACES, Batch, ClipScorer, PairScorer
from ctxr.models.training.checkpoint import CONFIG, HEAD, Checkpoint, read_checkpoint
from ctxr.models.training.examples import (
    ExampleTable,
    by_sets,
    with_distractors,
    with_shared_distractors,
    with_weak_targets,
)
from ctxr.models.training.loop import Objective, Step, TrainingRun, Update
from ctxr.models.training.scoring import accuracy_of, attend_all, loss_of, score_all
from ctxr.models.training.state import round_to_fp16
from ctxr.problems import scorers
from ctxr.problems.contextual.recipe import ContextualRecipe
from ctxr.problems.embeddings import Array, PictureFiles, Source, cached, query_pictures
from ctxr.problems.queries import EvalQuery, by_split, check_positions, queries_of
from ctxr.problems.runs import SCORES, scorers_in
from ctxr.problems.verdicts import PairVerdicts, with_unsure, with_weak_positives
from ctxr.store.hashing import sha256_file, sha256_of
from ctxr.store.records import Score
from ctxr.store.scores import write_scores
from ctxr.store.tables import read_table


class ContextualObjective(Objective[None, tuple[Batch, Tensor]]):
    """The target of each query among its candidates, set-major; arguments as for `Objective`."""

    recipe: ContextualRecipe
    train: ExampleTable
    valid: ExampleTable | None

    def __init__(
        self, recipe: ContextualRecipe, train: ExampleTable, valid: ExampleTable | None, run: TrainingRun
    ) -> None:
        super().__init__(recipe, train, valid, run)
        self.sums, self.least = recipe.summed_gradients, recipe.batch if recipe.leaked_gradients else 0
        self.queries, self.repeats = self._repeated(train, 0)

    def batches(self, epoch: int, generator: torch.Generator) -> Sequence[Tensor]:
        """Sets in random order, whole; with the candidates and weak positives of the epoch."""
        recipe, queries = self.recipe, self.train
        contextless = recipe.variant == "none"
        order = by_sets(torch.arange(len(self.train)) if contextless else self.train.sets, generator)
        batches = torch.split(order, recipe.batch)
        if contextless and recipe.distractors:
            draw = 0 if recipe.fixed_distractors else epoch
            chance = torch.Generator().manual_seed(self.run.seed * 1_000_003 + draw + 500_009)
            if recipe.shared_distractors:
                queries = with_shared_distractors(queries, batches, recipe.distractors, chance)
            else:
                queries = with_distractors(queries, recipe.distractors, chance)
        self.queries, self.repeats = self._repeated(queries, epoch)
        return batches

    def _repeated(self, queries: ExampleTable, epoch: int) -> tuple[ExampleTable, Tensor]:
        """Queries with repetitions for a weak positive, and the row of each repetition or -1."""
        if not self.recipe.repeats_queries:
            return queries, torch.full((len(queries),), -1)
        chance = torch.Generator().manual_seed(self.run.seed * 1_000_003 + epoch + 700_001)
        return with_weak_targets(queries, chance, anywhere=self.recipe.variant == "none")

    def updates(self, rows: Tensor, apply: bool) -> Iterator[Update]:
        """The queries, and those among them that are repeated for a weak positive."""
        repeats = self.repeats[rows]
        repeats = repeats[repeats >= 0]
        second = Step((repeats,), len(repeats), None) if len(repeats) else None
        yield from scorers.weighted_updates(self.recipe, Step((rows,), len(rows), None), lambda: second, apply)

    def after_step(self, model: nn.Module) -> None:
        """Round the weights, where the recipe says so."""
        if self.recipe.fp16_masters:
            round_to_fp16(model)

    def encode(self, model: nn.Module, tower: int, rows: Tensor, facts: None) -> tuple[Batch, Tensor]:
        """The batch and its scores [B, K]."""
        batch = self.queries.batch(rows).to(self.run.device)
        return batch, model(batch)

    def loss(self, model: nn.Module, encoded: Sequence[tuple[Batch, Tensor]], step: Step[None]) -> Tensor:
        """The loss, summed over the queries."""
        (batch, scores), (rows,) = encoded[0], step.towers
        marks = (self.queries.marks(pairs, rows) for pairs in (self.queries.entailed, self.queries.unsure))
        weak, unsure = (None if one is None else one.to(self.run.device) for one in marks)
        if unsure is not None:
            scores, batch = scores.masked_fill(unsure, float("-inf")), replace(batch, mask=batch.mask & ~unsure)
        # the target share of a weak candidate relative to a positive: 0 makes it a negative, None leaves it out
        share = {"off": 0.0, "soft-label": self.recipe.alpha}.get(self.recipe.weak)
        return loss_of(scores, batch, self.recipe.loss, weak, share)

    def validate(self, model: nn.Module, epoch: int, micro_batch: int) -> float | None:
        """Accuracy of the validation queries."""
        skipped = self.recipe.unjudged_last_epoch and epoch == self.recipe.epochs
        if skipped or self.valid is None or not len(self.valid):
            # the epoch is not validated, but its weights may become the result: they must give finite scores
            few = self.train.part(torch.arange(min(len(self.train), self.recipe.batch)))
            self._score(model, few, micro_batch, f"the scores of training queries after epoch {epoch}")
            return None
        scores = self._score(model, self.valid, micro_batch, f"the validation scores after epoch {epoch}")
        if (unsure := self.valid.marks(self.valid.unsure, torch.arange(len(self.valid)))) is not None:
            scores = scores.masked_fill(unsure, float("-inf"))
        return accuracy_of(scores, self.valid.targets)

    def _score(self, model: nn.Module, questions: ExampleTable, micro_batch: int, what: str) -> Tensor:
        model.train(self.recipe.dropout_in_evaluation)
        scores = score_all(model, questions, micro_batch, self.run.device, self.run.bf16)
        if not bool(scores[questions.mask].isfinite().all()):
            raise FloatingPointError(f"{what} are not finite")
        return scores


class OpenSets(scorers.OpenScorer):
    """A run or an encoder that scores the images of sets: by cosine, or by log-odds of a match."""

    def score(self, examples: tuple[Dataset, Collection[str] | None]) -> dict[str, dict[str, dict[str, float]]]:
        """Values by scorer, query and candidate, higher is better, of queries of a dataset, None for all but those with labels.

        Raises DataError for pictures or weights that do not exist or do not fit.
        """
        queries = queries_of(*examples)
        pictures = self.with_regions(query_pictures(examples[0], queries, self.options.workdir))
        values: dict[str, dict[str, dict[str, float]]] = {}
        for row in self.rows(queries, pictures):
            values.setdefault(row.scorer, {}).setdefault(row.query, {})[row.candidate] = row.value
        return values

    def rows(self, queries: Sequence[EvalQuery], pictures: PictureFiles) -> list[Score]:
        """A score for every candidate of every query, by scorer, and queries by split."""
        scores = []
        for scorer, checkpoint in self.checkpoints.items():
            config = None if checkpoint is None else read_checkpoint(checkpoint)
            if config is not None and (head := config.shape.head) is not None and head.positions:
                check_positions(queries, PLACES, head.all_positions)
            runtime, source = self.runtime, scorers.source_of(checkpoint, self.encoder, self.progress)
            plan = scorers.plan_scoring(checkpoint, source, pictures, runtime)
            chance = None if config is None else config.seed
            for split in by_split(queries).values():
                table = plan.prepare(split)
                with self.progress.task("scoring queries", len(split)) as task:
                    values = score_all(
                        plan.ranker, table, plan.at_once, runtime.device, plan.bf16, advance=task.advance, seed=chance
                    )
                scores += [
                    Score(one.query, image, scorer, value)
                    for one, row in zip(split, values.tolist(), strict=True)
                    for image, value in zip(one.images, row[: len(one.images)], strict=True)
                ]
        return scores

    def vectors(self, dataset: Dataset) -> PictureVectors | None:
        """Vectors of all pictures, by a published encoder."""
        return picture_vectors_of(dataset, self.encoder, self.options.device, self.progress)

    def explain(self, examples: tuple[Dataset, Collection[str]]) -> dict[tuple[str, str], list[list[int]]]:
        """Attention of the last layer, mean over heads, of the shown queries; kept in the cache."""
        dataset, shown = examples
        attention = {}
        # whole splits, as they were asked for when the run was trained and evaluated: their vectors are in the cache
        for queries in by_split(queries_of(dataset)).values():
            rows = [row for row, one in enumerate(queries) if one.query in shown]
            if not rows:
                continue
            pictures = self.with_regions(query_pictures(dataset, queries, self.options.workdir))
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
        most = max(len(query.images) for query in queries)
        origin = {"attention": sha256_file(seed / HEAD), "config": sha256_file(seed / CONFIG), "most": most}

        def make(part: slice) -> Array:
            plan = scorers.plan_scoring(
                seed, scorers.source_of(seed, self.encoder, self.progress), pictures, self.runtime
            )
            table = plan.prepare(queries)
            return attend_all(plan.ranker.eval(), table, rows[part], plan.at_once, self.runtime.device).numpy()

        with self.progress.task("computing attention", len(rows)) as task:
            return np.concatenate(cached(pictures.workdir, origin, contents, make, task.advance))


class ContextualJob(scorers.ScorerJob):
    """Seeds that find the target of each query among the images of its set."""

    NOTE: ClassVar[str] = "candidates that share the highest score share the hit"

    recipe: ContextualRecipe

    def read(self, dataset: Dataset, verdicts: PairVerdicts) -> scorers.TrainingData:
        """See `ScorerJob`; the queries of each split, those for training all with targets."""
        recipe = self.recipe
        # queries of each split that the recipe is about; those for training have one target
        splits = by_split(queries_of(dataset))
        train = [query for query in splits.get("train", []) if query.target is not None] if recipe.learns else []
        if recipe.learns and not train:
            raise DataError(
                f"{dataset.name} has no query with a known target in the train split, so there is nothing to learn from",
                hint="name another --dataset; the recipe clip-zero-shot needs no training",
            )
        if recipe.learns and recipe.leaked_gradients and len(train) < recipe.batch:
            raise UsageError(
                f"with leaked_gradients a step of fewer than batch = {recipe.batch} queries is never taken, and {dataset.name} "
                f"has {len(train)} to train on: nothing would be learned",
                hint=f"--set batch={len(train)}, or --set leaked_gradients=false",
            )
        judged = {split: splits[split] for split in ("valid", "test") if split in splits}
        if not judged and not recipe.learns:
            raise DataError(
                f"{dataset.name} has no query in the valid or test split to score", hint="name another --dataset"
            )
        splits = ({"train": train} if recipe.learns else {}) | judged
        splits |= {split: with_unsure(queries, verdicts) for split, queries in splits.items() if split != "train"}
        if recipe.weak != "off":
            splits["train"] = with_weak_positives(
                splits["train"], dataset, recipe.variant == "none", verdicts, self.progress
            )
        if recipe.variant == "temporal":
            everything = [query for queries in splits.values() for query in queries]
            check_positions(everything, PLACES, recipe.all_positions)
        labelled = {split for split, queries in splits.items() if any(query.targets for query in queries)}
        choosing = (("test", "valid") if recipe.judged_on_test else ("valid",)) if recipe.learns else ()
        return scorers.TrainingData(
            splits,
            {split: len(queries) for split, queries in splits.items()},
            [(query.query, query.weak) for query in splits.get("train", []) if query.weak],
            next((split for split in choosing if split in labelled), ""),
        )

    def model(self, source: Source, seed: int) -> ClipScorer | PairScorer:
        """See `ScorerJob`; as the recipe's quirks start it."""
        scorer = super().model(source, seed)
        if self.recipe.start_at_cosine:
            if not isinstance(scorer, ClipScorer):
                raise UsageError(f"{self.encoder} scores no cosine to start at", hint="--set start_at_cosine=false")
            published: Any = source.build()
            scorer.start_at_cosine(float(published.logit_scale.exp()))
        if self.recipe.fp16_masters:
            round_to_fp16(scorer)
        return scorer

    def noted(self, config: Checkpoint) -> Checkpoint:
        """With dropout, where the recipe never switches it off."""
        return replace(config, dropout_in_evaluation=self.recipe.dropout_in_evaluation)

    def learning(self, source: Source) -> scorers.Learning:
        """The target among a query's candidates, over an encoder that learns or a frozen one."""
        prepare = scorers.prepared(source, self.pictures, not self.recipe.tunes, self.runtime)
        judged = [query for query in self.data.queries.get(self.judged_on, []) if query.target is not None]
        if self.recipe.judged_on_test:
            self.progress.warn(
                "judged_on_test: test chooses the epoch, so its accuracy is not an estimate of anything"
                if self.judged_on == "test"
                else "judged_on_test: no target of the test split is known, so valid chooses the epoch"
            )
        train, valid = prepare(self.data.queries["train"]), prepare(judged) if judged else None
        return scorers.Learning(partial(ContextualObjective, self.recipe, train, valid), len(train), bool(judged))

    def write_scores(self) -> list[str]:
        """A score for every candidate."""
        judged = [query for split in ("valid", "test") for query in self.data.queries.get(split, [])]
        opened = OpenSets(scorers_in(self.out), self.encoder, self.scoring, self.progress)
        write_scores(self.out / SCORES, opened.rows(judged, self.pictures))
        return [SCORES]

    def results(self) -> list[tuple[float | None, float | None]]:
        """Expected accuracies."""
        values = {(row.scorer, row.query, row.candidate): row.value for row in read_table(self.out / SCORES, Score)}
        valid, test = (self.data.queries.get(split, []) for split in ("valid", "test"))
        return [(_accuracy(values, name, valid), _accuracy(values, name, test)) for name in scorers_in(self.out)]


def _accuracy(values: Mapping[tuple[str, str, str], float], scorer: str, queries: Sequence[EvalQuery]) -> float | None:
    """Share 0..1 of queries whose best score is a target's, ties shared; None without targets."""
    hits = []
    for query in queries:
        if query.targets:
            # by position: a set may hold an image twice
            own = [-inf if image in query.unsure else values[scorer, query.query, image] for image in query.images]
            hits.append(sum(own[target] == max(own) for target in query.targets) / own.count(max(own)))
    return mean(hits) if hits else None


job, open_run = ContextualJob, OpenSets.open

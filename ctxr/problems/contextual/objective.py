"""The objective over queries with candidates of their own: a softmax or binary loss over each image set (specs A0.3)."""

from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from ctxr.models.scorers import Batch
from ctxr.models.training.examples import (
    ExampleTable,
    by_sets,
    with_distractors,
    with_shared_distractors,
    with_weak_targets,
)
from ctxr.models.training.loop import Objective, Step, TrainingRun, Update, weighted_updates
from ctxr.models.training.scoring import accuracy_of, loss_of, score_all
from ctxr.problems.contextual.recipe import ContextualRecipe


class ContextualObjective(Objective):
    """The target of each query among its candidates, set-major; arguments as for `Objective`."""

    recipe: ContextualRecipe

    def __init__(
        self, recipe: ContextualRecipe, train: ExampleTable, valid: ExampleTable | None, run: TrainingRun
    ) -> None:
        self.recipe, self.train, self.valid, self.run = recipe, train, valid, run
        self.queries, self.repeats = self._twice(train, 0)

    def __len__(self) -> int:
        return len(self.train)

    def batches(self, epoch: int, generator: torch.Generator) -> Sequence[Tensor]:
        """Sets in random order, the queries of a set together; with the candidates and weak positives of the epoch."""
        without_sets = torch.arange(len(self.train))
        order = by_sets(without_sets if self.recipe.variant == "none" else self.train.sets, generator)
        batches = torch.split(order, self.recipe.batch)
        self.queries, self.repeats = self._twice(self._candidates(epoch, batches), epoch)
        return batches

    def updates(self, rows: Tensor, apply: bool) -> Iterator[Update]:
        """The queries, and those among them that are repeated for a weak positive."""
        repeats = self.repeats[rows]
        repeats = repeats[repeats >= 0]
        second = Step((repeats,), len(repeats)) if len(repeats) else None
        yield from weighted_updates(self.recipe, Step((rows,), len(rows)), lambda: second, apply)

    def encode(self, model: nn.Module, tower: int, rows: Tensor, facts: Any) -> tuple[Batch, Tensor]:
        """The batch and its scores [B, K]."""
        batch = self.queries.batch(rows).to(self.run.device)
        return batch, model(batch)

    def loss(self, model: nn.Module, encoded: Sequence[tuple[Batch, Tensor]], step: Step) -> Tensor:
        """The loss, summed over the queries."""
        (batch, scores), (rows,) = encoded[0], step.towers
        weak = self.queries.weak_marks(rows)
        weak = None if weak is None else weak.to(self.run.device)
        return loss_of(scores, batch, self.recipe.loss, weak, self.recipe.weak_share)

    def validate(self, model: nn.Module, epoch: int, micro_batch: int) -> float | None:
        """Accuracy of the validation queries."""
        skipped = self.recipe.unjudged_last_epoch and epoch == self.recipe.epochs
        if skipped or self.valid is None or not len(self.valid):
            # the epoch is not validated, but its weights may become the result: they must give finite scores
            few = self.train.part(torch.arange(min(len(self.train), self.recipe.batch)))
            self._score(model, few, micro_batch, f"the scores of training queries after epoch {epoch}")
            return None
        scores = self._score(model, self.valid, micro_batch, f"the validation scores after epoch {epoch}")
        return accuracy_of(scores, self.valid.target)

    def _score(self, model: nn.Module, questions: ExampleTable, micro_batch: int, what: str) -> Tensor:
        model.train(self.recipe.dropout_in_evaluation)
        scores = score_all(model, questions, micro_batch, self.run.device, self.run.bf16)
        if not bool(scores[questions.mask].isfinite().all()):
            raise FloatingPointError(f"{what} are not finite")
        return scores

    def _candidates(self, epoch: int, batches: Sequence[Tensor]) -> ExampleTable:
        """The queries of an epoch with the candidates that it trains on."""
        if self.recipe.variant != "none":
            return self.train
        draw = 0 if self.recipe.fixed_distractors else epoch
        chance = torch.Generator().manual_seed(self.run.seed * 1_000_003 + draw + 500_009)
        if self.recipe.shared_distractors:
            return with_shared_distractors(self.train, batches, self.recipe.distractors, chance)
        return with_distractors(self.train, self.recipe.distractors, chance)

    def _twice(self, queries: ExampleTable, epoch: int) -> tuple[ExampleTable, Tensor]:
        """Queries followed by those that are repeated for a weak positive, and the row of each one's repetition or -1."""
        if not self.recipe.repeats_queries:
            return queries, torch.full((len(queries),), -1)
        chance = torch.Generator().manual_seed(self.run.seed * 1_000_003 + epoch + 700_001)
        return with_weak_targets(queries, chance, anywhere=self.recipe.variant == "none")

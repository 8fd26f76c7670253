"""The loop: set-major batches, exact accumulation, validation after each epoch, a state to go on from (specs A0.3).

All chance of an epoch follows from the seed and the epoch's number, so a training that was stopped goes on to the same result.
"""

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from ctxr.errors import CtxrError
from ctxr.models.precision import is_memory
from ctxr.models.training.optimising import laid_out_as, make_optimiser, rate_at, round_to_fp16
from ctxr.models.training.questions import (
    Questions,
    by_sets,
    with_distractors,
    with_shared_distractors,
    with_weak_targets,
)
from ctxr.models.training.recipe import Recipe
from ctxr.models.training.scoring import accuracy_of, loss_of, score_all
from ctxr.models.training.state import Epoch, TrainingState, load_state, save_state, save_tensors

Made = TypeVar("Made")

STATE, BEST = "state.safetensors", "best.safetensors"
"""In the folder of a training: everything after the last epoch, and the weights of the best one."""


@dataclass(frozen=True)
class Callbacks:
    """Who is told what while a training runs.

    Attributes:
        warn: one sentence about a surprise. note: one worth knowing.
        advance: how many more queries were trained on. epoch: each one's figures.
        looked: how many more pictures a validation that takes long has looked at.
    """

    warn: Callable[[str], None] = lambda _: None
    advance: Callable[[float], None] = lambda _: None
    epoch: Callable[[Epoch], None] = lambda _: None
    note: Callable[[str], None] = lambda _: None
    looked: Callable[[float], None] = lambda _: None


@dataclass(frozen=True)
class TrainingRun:
    """Where one training takes place, and what names it.

    Attributes:
        folder: where the state is kept. seed: of everything that is drawn by chance.
        key: names what is trained; a kept state of another key is left aside.
        bf16: compute in it by autocast on `device`; the weights stay as they are.
    """

    folder: Path
    seed: int = 0
    key: str = ""
    device: str = "cpu"
    bf16: bool = False
    callbacks: Callbacks = field(default_factory=Callbacks)


class Trainer:
    """One training of one scorer with one seed.

    Args:
        scorer: what learns, on the device of `run`; weights that need no gradient stay as they are.
        recipe: how.
        train: queries with targets. valid: queries to choose the epoch by; None to take the last one.
    """

    def __init__(
        self, scorer: nn.Module, recipe: Recipe, train: Questions, valid: Questions | None, run: TrainingRun
    ) -> None:
        self.scorer, self.recipe, self.train, self.valid = scorer, recipe, train, valid
        self.seed, self.folder, self.key, self.device, self.bf16 = run.seed, run.folder, run.key, run.device, run.bf16
        self.callbacks = run.callbacks
        self.asked, self.again = self._twice(train, 0)
        self.weights = [weights for weights in scorer.parameters() if weights.requires_grad]
        self.optimiser = make_optimiser(self.weights, recipe)
        self.progress = TrainingState(at_once=recipe.at_once or recipe.batch)

    def run(self) -> TrainingState:
        """Train to the end, or go on from where it was stopped; `best.safetensors` in the folder then holds the result.

        Raises CtxrError when the loss is no number any more; the state after the last good epoch stays.
        """
        kept = load_state(self.folder / STATE, self.scorer, self.optimiser, self.key)
        if kept is not None:
            self.progress = kept
            self.callbacks.advance(kept.epochs * len(self.train))
            if kept.epochs < self.recipe.epochs and not self._is_stale():
                self.callbacks.note(f"seed {self.seed} goes on after epoch {kept.epochs} of {self.recipe.epochs}")
        elif self.recipe.fp16_masters:
            round_to_fp16(self.scorer)
        while self.progress.epochs < self.recipe.epochs and not self._is_stale():
            number = self.progress.epochs + 1
            with torch.random.fork_rng(devices=self._gpus()):
                torch.manual_seed(self.seed * 1_000_003 + number)
                row = self._epoch(number)
            self._keep(row)
        return self.progress

    def update(self, rows: Tensor, rate: float, step: bool = True) -> float:
        """One step on some queries, in as many passes as memory needs; returns the sum of their losses.

        Without `step` the gradients stay for the next one. With `weak = "extra-batch"` there is a second step at `alpha * rate`
        on those of the queries that have weak positives, each asking for one of these; with "loss-weight" that loss times alpha is a
        part of the first (specs A3.2).
        """
        self.scorer.train()
        alone = self.recipe.weak == "extra-batch"
        total = extra = self._accumulate(self._examples(rows))
        again = self._again(rows) if math.isfinite(total) else None
        if again is not None and not alone:
            extra = self._accumulate(again, self.recipe.alpha)
        if step and math.isfinite(total + extra):
            self._step(rate)
            if again is not None and alone:
                extra = self._accumulate(again)
                if math.isfinite(extra):
                    self._step(self.recipe.alpha * rate)
        return total if math.isfinite(extra) else extra

    def _examples(self, rows: Tensor) -> Any:
        """What `_accumulate` takes of some queries."""
        return rows

    def _again(self, rows: Tensor) -> Any:
        """The same of those among them that are asked again for a weak positive; None where none is."""
        again = self.again[rows]
        again = again[again >= 0]
        return again if len(again) else None

    def _accumulate(self, examples: Any, weight: float = 1.0) -> float:
        """Add the gradient of `weight` times the loss of some queries, their mean or sum as the recipe says; the sum of their losses.

        A loss that is no number is returned at once.
        """
        total, left = 0.0, examples
        share = weight if self.recipe.summed_gradients else weight / len(examples)
        while len(left):
            part = left[: self.progress.at_once]
            found = self._attempt(partial(self._gradients, part, share), len(part))
            if found is None:
                continue
            loss, gradients = found
            if not math.isfinite(loss):
                return loss
            self._add(gradients)
            total, left = total + loss, left[len(part) :]
        return total

    def _gradients(self, rows: Tensor, share: float) -> tuple[float, Sequence[Tensor | None]]:
        """(sum of the losses, gradient of `share` of it for each weight)."""
        loss = self._loss(rows)
        return float(loss.detach()), torch.autograd.grad(loss * share, self.weights, allow_unused=True)

    def _attempt(self, work: Callable[[], Made], rows: int) -> Made | None:
        """What `work` on so many rows makes; None when memory ran out, and then fewer rows are in a pass from now on."""
        try:
            return work()
        except (torch.OutOfMemoryError, MemoryError, RuntimeError) as error:
            if not is_memory(error):
                raise
            self._halve(rows)
            return None

    def _add(self, gradients: Sequence[Tensor | None]) -> None:
        """Add gradients to those of the weights."""
        for weights, gradient in zip(self.weights, gradients, strict=True):
            if gradient is not None:
                weights.grad = laid_out_as(weights, gradient) if weights.grad is None else weights.grad.add_(gradient)

    def _loss(self, rows: Tensor) -> Tensor:
        """The loss, summed over some queries."""
        batch = self.asked.batch(rows).to(self.device)
        with torch.autocast(self.device, torch.bfloat16, enabled=self.bf16):
            scores = self.scorer(batch)
        weak = self.asked.weak_marks(rows)
        weak = None if weak is None else weak.to(self.device)
        return loss_of(scores, batch, self.recipe.loss, weak, self.recipe.weak_share)

    def _halve(self, rows: int) -> None:
        if rows == 1:
            raise CtxrError(
                f"no memory left on {self.device} for one query", hint="use a smaller encoder, or --device cpu"
            )
        self.progress.at_once = rows // 2
        self.callbacks.warn(
            f"out of memory on {self.device}: going on with {rows // 2} queries at a time, still {self.recipe.batch} a step"
        )

    def _step(self, rate: float) -> None:
        if self.recipe.clip:
            nn.utils.clip_grad_norm_(self.weights, self.recipe.clip)
        for group in self.optimiser.param_groups:
            group["lr"] = rate
        self.optimiser.step()
        self.optimiser.zero_grad()
        if self.recipe.fp16_masters:
            round_to_fp16(self.scorer)

    def _epoch(self, number: int) -> Epoch:
        recipe, start = self.recipe, time.monotonic()
        chance = torch.Generator().manual_seed(self.seed * 1_000_003 + number)
        parts = torch.split(self._order(chance), recipe.batch)
        self.asked, self.again = self._twice(self._asked(number, parts), number)
        total = 0.0
        for place, rows in enumerate(parts):
            step = (number - 1) * len(parts) + place
            leaks = recipe.leaked_gradients and len(rows) < recipe.batch
            loss = self.update(rows, rate_at(recipe, step, recipe.epochs * len(parts)), step=not leaks)
            if not math.isfinite(loss):
                raise self._broken(f"the loss is {loss} in epoch {number}, step {place + 1} of {len(parts)}")
            total += loss
            self.callbacks.advance(len(rows))
        accuracy = self._judge(number)
        return Epoch(number, total / max(1, len(self.train)), accuracy, time.monotonic() - start)

    def _order(self, chance: torch.Generator) -> Tensor:
        """Every query once, in the order of an epoch."""
        without_sets = torch.arange(len(self.train))
        return by_sets(without_sets if self.recipe.variant == "none" else self.train.sets, chance)

    def _asked(self, number: int, steps: Sequence[Tensor]) -> Questions:
        """The queries of an epoch, in these steps, with the candidates that it trains on."""
        if self.recipe.variant != "none":
            return self.train
        turn = 0 if self.recipe.fixed_distractors else number
        chance = torch.Generator().manual_seed(self.seed * 1_000_003 + turn + 500_009)
        if self.recipe.shared_distractors:
            return with_shared_distractors(self.train, steps, self.recipe.distractors, chance)
        return with_distractors(self.train, self.recipe.distractors, chance)

    def _twice(self, asked: Questions, number: int) -> tuple[Questions, Tensor]:
        """Queries, behind them those that are asked again for a weak positive, and the row of each one's second self or -1."""
        if not self.recipe.asks_again:
            return asked, torch.full((len(asked),), -1)
        chance = torch.Generator().manual_seed(self.seed * 1_000_003 + number + 700_001)
        return with_weak_targets(asked, chance, anywhere=self.recipe.variant == "none")

    def _judge(self, number: int) -> float | None:
        skipped = self.recipe.unjudged_last_epoch and number == self.recipe.epochs
        if skipped or self.valid is None or not len(self.valid):
            # nobody judges this epoch, but what may be kept as the result must score at all
            few = self.train.part(torch.arange(min(len(self.train), self.recipe.batch)))
            self._score(few, f"the scores of training queries after epoch {number}")
            return None
        return accuracy_of(self._score(self.valid, f"the validation scores after epoch {number}"), self.valid.target)

    def _score(self, questions: Questions, what: str) -> Tensor:
        self.scorer.train(self.recipe.dropout_in_evaluation)
        scores = score_all(self.scorer, questions, self.progress.at_once, self.device, self.bf16)
        if not bool(scores[questions.mask].isfinite().all()):
            raise self._broken(f"{what} are no numbers")
        return scores

    def _keep(self, row: Epoch) -> None:
        """The state after an epoch; first its weights, if it is the best so far: a kill in between only repeats it."""
        progress = self.progress
        best = next((one.accuracy for one in progress.history if one.epoch == progress.best), None)
        judged = row.accuracy is not None
        if (judged and (best is None or row.accuracy > best)) or (not judged and best is None):  # type: ignore[operator]
            progress.best = row.epoch
            save_tensors(self.folder / BEST, self.scorer.state_dict(), {"epoch": row.epoch, "key": self.key})
        progress.history.append(row)
        leaked = self.recipe.leaked_gradients
        save_state(self.folder / STATE, self.scorer, self.optimiser, progress, self.key, leaked)
        self.callbacks.epoch(row)

    def _is_stale(self) -> bool:
        patience, progress = self.recipe.patience, self.progress
        judged = any(row.accuracy is not None for row in progress.history)
        return bool(patience and judged and progress.best is not None and progress.epochs - progress.best >= patience)

    def _broken(self, what: str) -> CtxrError:
        kept = f"the last good checkpoint is {self.folder / BEST}" if self.progress.best else "no epoch was finished"
        return CtxrError(f"{what}; {kept}", hint=f"try a smaller rate: --set lr={min(self.recipe.lr / 4, 1e-3):g}")

    def _gpus(self) -> list[int]:
        return list(range(torch.cuda.device_count())) if self.device.startswith("cuda") else []

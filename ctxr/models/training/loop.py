"""The training loop. It resumes a stopped training and keeps the best epoch.

An `Objective` plans the steps of an epoch as rows, encodes them, and computes their loss. The loop cuts steps into passes that fit
into memory, applies the optimiser, and keeps the best epoch. All randomness of an epoch follows from the seed and the epoch's number,
so a training that was stopped resumes to the same result.
"""

import math
import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Sized
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar, Generic, TypeVar, cast
from zlib import crc32

import torch
from torch import Tensor, nn

from ctxr.errors import CtxrError
from ctxr.models.precision import device_kind, is_memory
from ctxr.models.training.processes import ALONE, Gradients, LossGradients, Processes, processes
from ctxr.models.training.recipe import Recipe
from ctxr.models.training.state import Epoch, TrainingState, laid_out_as, load_state, save_state, save_tensors

# makes the vectors [n, D] of some rows of a batch, with torch's random state at that time
Encode = Callable[[], Tensor]


def cached_gradients(
    towers: Sequence[Sequence[Encode]],
    loss_of: Callable[[Sequence[Tensor]], Tensor],
    weights: Sequence[Tensor],
    device: str = "cpu",
    *,
    together: Processes = ALONE,
    rows: Sequence[int] = (),
) -> LossGradients:
    """The loss of a whole batch and its gradients (GradCache, arXiv:2101.06983).

    A loss that compares all vectors with each other cannot be accumulated part by part. So vectors are computed without a graph, then the
    loss and its gradient by the vectors, then each part again with the same random state and its graph. This is exact.

    Args:
        towers: the parts of each tower (images, texts).
        loss_of: the loss of the vectors of each tower, [N, D] of all of its parts in order.
        weights: what learns; the loss may also depend on some of them directly, as on a temperature.
        device: where the parts draw random numbers, beside the CPU.
        together: processes that have as many parts each; this one gives its share of the gradients. rows: of each tower, in all.
    """
    once = all(len(parts) <= 1 for parts in towers)
    if once and together.world == 1:
        whole = loss_of([torch.cat([encode() for encode in parts]) for parts in towers])
        return LossGradients(float(whole.detach()), torch.autograd.grad(whole, weights, allow_unused=True))
    on_gpu, states = device_kind(device) == "cuda", deque[Sequence[Tensor]]()

    def first(encode: Encode) -> Tensor:
        states.append([torch.get_rng_state(), *([torch.cuda.get_rng_state(device)] if on_gpu else [])])
        return encode()

    def again(encode: Encode) -> Tensor:
        # the part draws what it drew before, and later parts draw as if it had not
        with torch.random.fork_rng(devices=[device] if on_gpu else []):
            cpu_state, *gpu_states = states.popleft()
            torch.set_rng_state(cpu_state)
            for state in gpu_states:
                torch.cuda.set_rng_state(state, device)
            return encode()

    with torch.set_grad_enabled(once):  # a single part keeps its graph
        own = together.agreed(lambda: [torch.cat([first(encode) for encode in parts]) for parts in towers])
    rows = rows or [len(one) for one in own]
    vectors = [together.gathered(one.detach(), n).requires_grad_() for one, n in zip(own, rows, strict=True)]
    loss = loss_of(vectors)
    gradients = torch.autograd.grad(loss, [*vectors, *weights], allow_unused=True)
    total: Gradients = [None if together.rank else gradient for gradient in gradients[len(vectors) :]]
    for tower, (parts, gradient) in enumerate(zip(towers, gradients, strict=False)):
        start = together.rank * len(own[tower])
        for encode in parts:
            encoded = own[tower] if once else again(encode)
            # rows that stand for lacking ones have no gradient
            if gradient is not None and encoded.requires_grad and len(part := gradient[start : start + len(encoded)]):
                _add(total, torch.autograd.grad(encoded[: len(part)], weights, part, allow_unused=True))
            start += len(encoded)
    return LossGradients(0.0 if together.rank else float(loss.detach()), total)


def _add(total: Gradients, more: Sequence[Tensor | None]) -> None:
    for index, gradient in enumerate(more):
        if gradient is not None:
            previous = total[index]
            total[index] = gradient if previous is None else previous + gradient


def make_optimiser(weights: Iterable[Tensor], recipe: Recipe) -> torch.optim.Optimizer:
    """Adam with L2, or AdamW, as the recipe says; fused where torch can."""
    weights, betas = list(weights), (recipe.beta1, recipe.beta2)
    fused = all(weight.device.type in ("cpu", "cuda") for weight in weights) or None
    groups: list[dict[str, object]] = [{"params": weights}]
    if recipe.undecayed_vectors:
        matrices, vectors = ([weight for weight in weights if (weight.ndim > 1) == wide] for wide in (True, False))
        groups = [{"params": matrices}, {"params": vectors, "weight_decay": 0.0}]
    kind = torch.optim.AdamW if recipe.optimiser == "adamw" else torch.optim.Adam
    return kind(groups, recipe.lr, betas, recipe.eps, recipe.decay, fused=fused)


def rate_at(recipe: Recipe, step: int, steps: int, measures: Sequence[float | None] = ()) -> float:
    """The learning rate of step `step` (from 0) of `steps`, after epochs with these measures."""
    warm = math.ceil(recipe.warmup * steps)
    if step < warm:
        return recipe.lr * (step + 1) / warm
    share = (step - warm) / max(1, steps - warm)
    match recipe.schedule:
        case "linear":
            return recipe.lr * (1 - share)
        case "cosine":
            return recipe.lr * 0.5 * (1 + math.cos(math.pi * share))
    return recipe.rate(measures)


T = TypeVar("T")
FactsT = TypeVar("FactsT", covariant=True)
GivenT = TypeVar("GivenT")
EncodedT = TypeVar("EncodedT")

# in the folder of a training: everything after the last epoch, and the weights of the best one
STATE, BEST = "state.safetensors", "best.safetensors"


@dataclass(frozen=True)
class Callbacks:
    """What a running training calls: `advance` with queries trained on since the last call, `validated` with images."""

    warn: Callable[[str], None] = lambda _: None
    advance: Callable[[float], None] = lambda _: None
    epoch: Callable[[Epoch], None] = lambda _: None
    note: Callable[[str], None] = lambda _: None
    validated: Callable[[float], None] = lambda _: None


@dataclass(frozen=True)
class TrainingRun:
    """Where one training runs. `folder`: of the state; one with another `key` is ignored. `bf16`: autocast."""

    folder: Path
    seed: int = 0
    key: str = ""
    device: str = "cpu"
    bf16: bool = False
    callbacks: Callbacks = field(default_factory=Callbacks)


@dataclass(frozen=True)
class Step(Generic[FactsT]):
    """Rows to encode of each tower, the number of queries in their loss, and arguments of both, `facts`."""

    towers: tuple[Tensor, ...]
    queries: int
    facts: FactsT


@dataclass(frozen=True)
class Update:
    """One optimiser step, of weighted steps whose gradients add up, drawn one after the other.

    `rate`: factor on the learning rate. `apply`: False leaves the gradients for the next update.
    """

    steps: Iterable[tuple[Step[object], float]]
    rate: float = 1.0
    apply: bool = True


class Objective(ABC, Generic[GivenT, EncodedT]):
    """A problem with its recipe, rows and run; by default a batch of rows is one step."""

    SPLITS: ClassVar[bool] = True
    """Whether the loss of a step is a sum over its rows; then each pass is differentiated by itself."""
    AVERAGES: ClassVar[bool] = False
    """Whether `loss` is already divided by the queries of the step."""

    recipe: Recipe
    train: Sized
    valid: Sized | None
    sums: bool = False
    """Whether gradients are those of the summed loss of a step; else of its mean over the queries."""
    least: int = 0
    """Rows of a batch below which its gradients wait for the next step."""
    figures: Mapping[str, float] = MappingProxyType({})
    """Further measures of the last validation, which do not choose the epoch."""

    def __init__(self, recipe: Recipe, train: Sized, valid: Sized | None, run: TrainingRun) -> None:
        self.recipe, self.train, self.valid, self.run = recipe, train, valid, run

    def __len__(self) -> int:
        """Queries of an epoch."""
        return len(self.train)

    def batches(self, epoch: int, generator: torch.Generator) -> Sequence[Tensor]:
        """Every query once, in the order of an epoch, cut into optimiser steps."""
        return torch.split(torch.randperm(len(self.train), generator=generator), self.recipe.batch)

    def updates(self, rows: Tensor, apply: bool) -> Iterator[Update]:
        """The updates for a batch of queries; the loss of the batch is that of the first."""
        yield Update(((Step((rows,), len(rows), None), 1.0),), apply=apply)

    @abstractmethod
    def encode(self, model: nn.Module, tower: int, rows: Tensor, facts: GivenT) -> EncodedT:
        """The arguments of the loss; vectors [n, D] where it does not split."""

    @abstractmethod
    def loss(self, model: nn.Module, encoded: Sequence[EncodedT], step: Step[GivenT]) -> Tensor:
        """The loss of a pass, or of a whole step where it does not split."""

    def validate(self, model: nn.Module, epoch: int, micro_batch: int) -> float | None:
        """How good the model is after an epoch, higher is better; None where the epoch is not validated.

        Raises FloatingPointError for scores that are not finite.
        """
        return None

    def after_step(self, model: nn.Module) -> None:
        """Called after each optimiser step, for instance to keep a weight within bounds."""


ObjectiveT = TypeVar("ObjectiveT", bound=Objective[Any, Any])


class Trainer(Generic[ObjectiveT]):
    """One training of one model, on the device of the run, with one seed."""

    def __init__(self, scorer: nn.Module, objective: ObjectiveT) -> None:
        run = objective.run
        self.scorer, self.objective, self.recipe = scorer, objective, objective.recipe
        self.seed, self.folder, self.key, self.device, self.bf16 = run.seed, run.folder, run.key, run.device, run.bf16
        self.callbacks = run.callbacks
        self.weights = [weights for weights in scorer.parameters() if weights.requires_grad]
        self.optimiser = make_optimiser(self.weights, self.recipe)
        self.progress = TrainingState(at_once=self.recipe.at_once or self.recipe.batch)
        self.together, self.steps = processes(run.device), 0

    def run(self) -> TrainingState:
        """Train to the end, or resume; `best.safetensors` in the folder then holds the result. Raises CtxrError for a loss that is no
        number; the state after the last good epoch stays.
        """
        kept = load_state(self.folder / STATE, self.scorer, self.optimiser, self.key)
        if kept is not None:
            self.progress = kept
            self.callbacks.advance(kept.epochs * len(self.objective))
            if kept.epochs < self.recipe.epochs and not self._is_stale():
                self.callbacks.note(f"seed {self.seed} resumes after epoch {kept.epochs} of {self.recipe.epochs}")
        if self.together.told(seen := crc32(f"{self.key} {self.progress.epochs}".encode())) != seen:
            raise CtxrError(
                "processes of this training see different files", hint="let them share the project's folder"
            )
        gpus = range(torch.cuda.device_count()) if self.device.startswith("cuda") else ()
        while self.progress.epochs < self.recipe.epochs and not self._is_stale():
            number = self.progress.epochs + 1
            with torch.random.fork_rng(devices=gpus):
                torch.manual_seed(self.seed * 1_000_003 + number)
                row = self._epoch(number)
            self._keep(row)
        return self.progress

    def update(self, rows: Tensor, rate: float, apply: bool = True) -> float:
        """Train on a batch of queries, in as many passes as memory needs; the sum of their losses, which is returned before the update if
        it is not finite. Without `apply` the gradients stay for the next batch.
        """
        self.scorer.train()
        losses = []
        for update in self.objective.updates(rows, apply):
            for step, weight in update.steps:
                losses.append(self.accumulate(step, weight))
                if not math.isfinite(losses[-1]):
                    return losses[-1]
            if update.apply:
                if self.recipe.clip:
                    nn.utils.clip_grad_norm_(self.weights, self.recipe.clip)
                for group in self.optimiser.param_groups:
                    group["lr"] = rate * update.rate
                self.optimiser.step()
                self.optimiser.zero_grad()
                self.objective.after_step(self.scorer)
        return losses[0]

    def accumulate(self, step: Step[object], weight: float = 1.0) -> float:
        """Add `weight` times the gradient of a step's loss, mean or sum; the sum of its losses."""
        together, self.steps = self.together, self.steps + 1
        if self.objective.SPLITS:
            loss = self._accumulate_passes(step, weight)
        else:
            result, rows = None, [len(tower) for tower in step.towers]
            loss_of = partial(self.objective.loss, self.scorer, step=step)
            while result is None:
                at_once = self.progress.at_once
                own = (torch.split(together.own(tower, filled=True), at_once) for tower in step.towers)
                towers = [
                    [partial(self._encode, at, part, step.facts) for part in parts] for at, parts in enumerate(own)
                ]
                work = partial(
                    cached_gradients, towers, loss_of, self.weights, self.device, together=together, rows=rows
                )
                result = self._attempt(work, min(at_once, together.most(max(rows))))
            loss, gradients = together.summed(result, self.weights)
            self._add(gradients, weight)
        return loss * step.queries if self.objective.AVERAGES else loss

    def _accumulate_passes(self, step: Step[object], weight: float) -> float:
        together, total, done, averages = self.together, 0.0, 0, self.objective.AVERAGES
        rows, own = together.most(len(step.towers[0])), [together.own(tower) for tower in step.towers]
        share = 1.0 if averages else weight if self.objective.sums else weight / step.queries
        summed: Gradients = [None] * len(self.weights)

        def differentiate(part: Step[object]) -> LossGradients:
            if not len(part.towers[0]):  # other processes have more rows
                return LossGradients(0.0, [])
            encoded = [self._encode(tower, rows, part.facts) for tower, rows in enumerate(part.towers)]
            loss = self.objective.loss(self.scorer, encoded, part)
            gradients = torch.autograd.grad(loss * share, self.weights, allow_unused=True)
            return LossGradients(float(loss.detach()), gradients)

        while done < rows:
            stop = min(done + self.progress.at_once, rows)
            part = replace(step, towers=tuple(tower[done:stop] for tower in own))
            result = self._attempt(partial(differentiate, part), stop - done)
            if result is None:
                continue
            loss, gradients = result
            # the order decides how floats round: a mean is weighted as a whole, a sum pass by pass
            if averages or together.world > 1:
                _add(summed, gradients)
            else:
                self._add(gradients, 1.0)
            total, done = total + loss, stop
        total, gradients = together.summed(LossGradients(total, summed), self.weights)
        self._add(gradients, weight if averages else 1.0)
        return total

    def _encode(self, tower: int, rows: Tensor, facts: object) -> Tensor:
        gpus, several = [self.device] if self.device.startswith("cuda") else [], self.together.world > 1
        with torch.random.fork_rng(gpus, several), torch.autocast(device_kind(self.device), torch.bfloat16, self.bf16):
            if several:  # what a row draws does not depend on the process that has it
                torch.manual_seed(hash((self.seed, self.progress.epochs, self.steps, tower, *rows.tolist())))
            return cast("Tensor", self.objective.encode(self.scorer, tower, rows, facts))

    def _attempt(self, work: Callable[[], T], rows: int) -> T | None:
        """The result of `work` on so many rows; None when memory ran out: later passes have fewer rows."""
        try:
            return self.together.agreed(work)
        except (torch.OutOfMemoryError, MemoryError, RuntimeError) as error:
            if not is_memory(error):
                raise
            if rows == 1:
                hint = "use a smaller encoder, or --device cpu"
                raise CtxrError(f"no memory left on {self.device} for one query", hint=hint) from error
            self.progress.at_once = rows // 2
            self.callbacks.warn(
                f"out of memory on {self.device}: going on with {rows // 2} queries at a time, still {self.recipe.batch} a step"
            )
            return None

    def _add(self, gradients: Sequence[Tensor | None], factor: float) -> None:
        """Add `factor` times these gradients to those of the weights."""
        for weights, gradient in zip(self.weights, gradients, strict=True):
            if gradient is not None:
                gradient = gradient if factor == 1.0 else factor * gradient
                weights.grad = laid_out_as(weights, gradient if weights.grad is None else weights.grad + gradient)

    def _epoch(self, number: int) -> Epoch:
        recipe, start = self.recipe, time.monotonic()
        generator = torch.Generator().manual_seed(self.seed * 1_000_003 + number)
        batches = self.objective.batches(number, generator)
        self.steps, total, measures = 0, 0.0, [row.accuracy for row in self.progress.history]
        for index, rows in enumerate(batches):
            step = (number - 1) * len(batches) + index
            rate = rate_at(recipe, step, recipe.epochs * len(batches), measures)
            loss = self.update(rows, rate, apply=len(rows) >= self.objective.least)
            if not math.isfinite(loss):
                raise self._broken(f"the loss is {loss} in epoch {number}, step {index + 1} of {len(batches)}")
            total += loss
            self.callbacks.advance(len(rows))
        accuracy = None
        if not self.together.rank:
            try:
                accuracy = self.objective.validate(self.scorer, number, self.progress.at_once)
            except FloatingPointError as error:
                raise self._broken(str(error)) from error
        accuracy = self.together.told(accuracy)
        loss = total / max(1, len(self.objective))
        return Epoch(number, loss, accuracy, time.monotonic() - start, dict(self.objective.figures))

    def _keep(self, row: Epoch) -> None:
        """Save the state after an epoch; first its weights, if it is the best: a kill only repeats it."""
        progress = self.progress
        best = next((epoch.accuracy for epoch in progress.history if epoch.epoch == progress.best), None)
        if best is None or (row.accuracy is not None and row.accuracy > best):
            progress.best = row.epoch
            save_tensors(self.folder / BEST, self.scorer.state_dict(), {"epoch": row.epoch, "key": self.key})
        progress.history.append(row)
        save_state(self.folder / STATE, self.scorer, self.optimiser, progress, self.key)
        self.callbacks.epoch(row)

    def _is_stale(self) -> bool:
        patience, progress = self.recipe.patience, self.progress
        judged = any(row.accuracy is not None for row in progress.history)
        return bool(patience and judged and progress.best is not None and progress.epochs - progress.best >= patience)

    def _broken(self, what: str) -> CtxrError:
        kept = f"the last good checkpoint is {self.folder / BEST}" if self.progress.best else "no epoch was finished"
        return CtxrError(f"{what}; {kept}", hint=f"try a smaller rate: --set lr={min(self.recipe.lr / 4, 1e-3):g}")

"""Queries with traces and their images as arrays, and what is learned from them: each query against the others of its step.

Letters: Q queries, N images, B queries of a step, n images of a step, M vectors of a query, D width.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, cast

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from ctxr.metrics.ranking import recall
from ctxr.models.precision import in_microbatches
from ctxr.models.training.examples import Images, PositivePairs
from ctxr.models.training.loop import Objective, Step, TrainingRun, Update
from ctxr.problems.embeddings import Array
from ctxr.problems.traces.patches import LARGEST_SCALE, HeatMaps, PatchEncoder
from ctxr.problems.traces.queries import TracedQuery, rank_counts
from ctxr.problems.traces.recipe import TracesRecipe
from ctxr.problems.traces.towers import DualEncoder
from ctxr.store.tables import grouped

IMAGES, QUERIES = 0, 1
"""Towers of a step."""

Model = DualEncoder | PatchEncoder | HeatMaps
Inputs = Callable[[Tensor], tuple[Tensor, ...]]


@dataclass(frozen=True)
class TracedTable:
    """Queries and their images as what models take.

    Attributes:
        inputs, images: of some queries and of some images, by row, as the `queries` and `images` of a model take them.
        rows: of each image, by id; equal pictures share one.
    """

    queries: Sequence[TracedQuery]
    inputs: Inputs
    images: Images
    rows: Mapping[str, int]

    def __len__(self) -> int:
        return len(self.queries)

    @cached_property
    def targets(self) -> PositivePairs:
        """Rows of the relevant images of each query."""
        asked = enumerate(one.query for one in self.queries)
        pairs = ((row, self.rows[one.images[at]]) for row, one in asked for at in one.targets)
        return PositivePairs.of(pairs, len(self.queries))

    def encoded(self, model: Model, tower: int, rows: Tensor, device: str) -> Tensor:
        """Vectors of some images [n, D], or of some queries [n, D] or [n, M, D]."""
        if tower == IMAGES:
            return model.images(self.images(rows).to(device))
        return model.queries(*(part.to(device) for part in self.inputs(rows)))

    @torch.no_grad()
    def vectors(self, model: Model, tower: int, at_once: int, run: TrainingRun) -> Tensor:
        """As `encoded`, of all, float32 on the CPU, by a model in evaluation mode."""

        def encode(part: Tensor) -> Tensor:
            with torch.autocast(run.device, torch.bfloat16, enabled=run.bf16):
                return self.encoded(model, tower, part, run.device).float().cpu()

        count = len(self.rows) if tower == IMAGES else len(self.queries)
        return torch.cat(in_microbatches(torch.arange(count), at_once, run.device, encode))

    def scores(self, queries: Tensor, images: Tensor) -> list[Array]:
        """What each query says of its candidates, by vectors of all."""
        scores = [np.zeros(0, np.float32)] * len(self.queries)
        for candidates, own in grouped((one.query.images, row) for row, one in enumerate(self.queries)).items():
            gallery = images[[self.rows[image] for image in candidates]]
            for row, values in zip(own, dot_scores(queries[own], gallery).numpy(), strict=True):
                scores[row] = values
        return scores


def dot_scores(queries: Tensor, images: Tensor) -> Tensor:
    """[n, N] of queries [n, D] and images [N, D]; of queries [n, M, D] the largest of M."""
    return queries @ images.T if queries.ndim == 2 else (queries @ images.T).amax(1)


def first_rate(queries: Sequence[TracedQuery], scores: Sequence[Array]) -> float:
    """R@1, 0..1: the share of queries that rank a relevant image first, over all orders of ties."""
    return float(recall(rank_counts(queries, scores), 1).mean())


class StepTargets(NamedTuple):
    """Which of the n images of a step each query stands for, [B], and which are relevant to it, [B, n]."""

    own: Tensor
    relevant: Tensor


def contrastive_loss(scores: Tensor, own: Tensor, relevant: Tensor) -> Tensor:
    """Half the cross-entropies of each query among images, and of each image among queries, mean over queries (Eq. 2 and 3, with a minus).

    What is relevant beside the own image of a query, and beside the own query of an image, is left out.

    Args:
        scores: [B, n] of different images.
    """
    others = relevant & ~functional.one_hot(own, scores.shape[1]).bool()
    to_image = functional.cross_entropy(scores.masked_fill(others, -torch.inf), own)
    same = relevant[:, own].T & ~torch.eye(len(own), dtype=torch.bool, device=own.device)
    rows = torch.arange(len(own), device=own.device)
    to_query = functional.cross_entropy(scores[:, own].T.masked_fill(same, -torch.inf), rows)
    return (to_image + to_query) / 2


class TracesObjective(Objective[StepTargets, Tensor]):
    """Queries against the images of their step; of several relevant images one is drawn. Arguments as for `Objective`."""

    SPLITS = False
    AVERAGES = True

    train: TracedTable
    valid: TracedTable | None

    def __init__(self, recipe: TracesRecipe, train: TracedTable, valid: TracedTable | None, run: TrainingRun) -> None:
        super().__init__(recipe, train, valid, run)
        self._chance = torch.Generator()

    def batches(self, epoch: int, generator: torch.Generator) -> Sequence[Tensor]:
        """Queries in random order; a last one that is alone has nothing to be compared with."""
        self._chance = generator
        return [step for step in super().batches(epoch, generator) if len(step) > 1]

    def updates(self, rows: Tensor, apply: bool) -> Iterator[Update]:
        """Queries, and each image that they stand for once."""
        targets = self.train.targets
        images, own = torch.unique(targets.draw(rows, self._chance).images, return_inverse=True)
        facts = StepTargets(own, targets.among(rows, images.expand(len(rows), -1)))
        yield Update(((Step((images, rows), len(rows), facts), 1.0),), apply=apply)

    def encode(self, model: nn.Module, tower: int, rows: Tensor, facts: StepTargets) -> Tensor:
        """Vectors of images (tower 0) or queries (tower 1)."""
        return self.train.encoded(cast(Model, model), tower, rows, self.run.device)

    def loss(self, model: nn.Module, encoded: Sequence[Tensor], step: Step[StepTargets]) -> Tensor:
        """That of the whole step."""
        images, queries = (one.float() for one in encoded)
        return contrastive_loss(dot_scores(queries, images), *(fact.to(images.device) for fact in step.facts))

    def validate(self, model: nn.Module, epoch: int, micro_batch: int) -> float | None:
        """R@1 of the validation queries, each among the images of its set."""
        if (table := self.valid) is None:
            return None
        scorer = cast(Model, model.eval())
        images, queries = (table.vectors(scorer, tower, micro_batch, self.run) for tower in (IMAGES, QUERIES))
        if not all(bool(one.isfinite().all()) for one in (images, queries)):
            raise FloatingPointError(f"the vectors of validation after epoch {epoch} are not finite")
        return first_rate(table.queries, table.scores(queries, images))

    def after_step(self, model: nn.Module) -> None:
        """Keep a learned scale within bounds."""
        if isinstance(model, PatchEncoder):
            with torch.no_grad():
                model.scale.clamp_(max=LARGEST_SCALE)

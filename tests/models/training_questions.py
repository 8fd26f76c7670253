"""Small trainings: random questions, and trainers of them."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ctxr.models.scorers import ClipScorer, marks_at
from ctxr.models.training.examples import ExampleTable
from ctxr.models.training.loop import Trainer, TrainingRun
from ctxr.models.training.state import Epoch
from ctxr.problems.contextual.learner import ContextualObjective
from ctxr.problems.contextual.recipe import ContextualRecipe
from tests.models.scorers import make_head, random_images, random_texts

SMALL = ContextualRecipe(variant="module", optimiser="adam", lr=1e-3, weight_decay=0.0, batch=8, epochs=3, patience=0)


class Table:
    """Pictures that lie in memory."""

    def __init__(self, content: Tensor) -> None:
        self.content = content

    def __call__(self, rows: Tensor) -> Tensor:
        """The pictures of some rows."""
        return self.content[rows]


def make_questions(scorer: ClipScorer, sets: int = 6, candidates: int = 4, seed: int = 0) -> ExampleTable:
    """Three queries for each set; every second set has an order and every third one candidate less."""
    chance = torch.Generator().manual_seed(seed)
    owner = torch.arange(3 * sets) // 3
    mask = torch.ones(3 * sets, candidates, dtype=torch.bool)
    mask[owner % 3 == 2, -1] = False
    rows = torch.arange(sets * candidates).view(sets, candidates)[owner]
    return ExampleTable(
        images=Table(random_images(scorer, sets * candidates, chance)),
        texts=random_texts(scorer, 3 * sets, chance),
        candidates=torch.where(mask, rows, rows[:, :1]),
        mask=mask,
        ordered=owner % 2 == 0,
        targets=marks_at(torch.randint(0, candidates - 1, (3 * sets,), generator=chance), candidates),
        sets=owner,
    )


def make_trainer(
    folder: Path, recipe: ContextualRecipe = SMALL, scorer: Any = None, **more: Any
) -> Trainer[ContextualObjective]:
    """A trainer of a small head on questions of its own, with the same ones for validation."""
    scorer = scorer or ClipScorer(None, make_head(dropout=recipe.dropout))
    questions = more.pop("questions", None) or make_questions(scorer)
    valid = more.pop("valid", questions)
    return Trainer(scorer, ContextualObjective(recipe, questions, valid, TrainingRun(folder, **more)))


class Killed(BaseException):
    """What a test stops a training with."""


def killer(after: int) -> Callable[[Epoch], None]:
    """A callback that stops a training after an epoch."""

    def kill(row: Epoch) -> None:
        if row.epoch == after:
            raise Killed

    return kill

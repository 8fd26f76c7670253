"""Documents as arrays, and what is learned from them: whole documents of a step against each other (Hessel et al., 2019).

Letters: B documents, N sentences or images, D width.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import isfinite
from statistics import mean
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor, nn

from ctxr.datasets.documents import Document
from ctxr.metrics.links import auc
from ctxr.models.precision import in_microbatches
from ctxr.models.training.examples import Images
from ctxr.models.training.loop import Objective, Step, TrainingRun, Update
from ctxr.problems.links.recipe import LinksRecipe
from ctxr.problems.links.similarity import document_loss, similarities
from ctxr.problems.links.towers import SENTENCES, DocumentTowers

KINDS: dict[str, Any] = {"links-ap": "ap", "links-dc": "dc", "links-tk": "tk", "links-nostruct": "dc"}
"""Similarity of each variant that learns."""

Facts = tuple[Tensor, Tensor, Tensor]
"""Sentences [B] and images [B] of each document of a step, and which documents [B, B] are no negatives of each other."""


@dataclass(frozen=True)
class DocumentTable:
    """Documents with the inputs of both towers.

    Attributes:
        texts: tokens [N, T] or vectors [N, D]. pictures: by row. sentences, images: rows in these, of each document.
        marks: numbers of the texts and pictures of each document: two that have the same number share something.
    """

    documents: Sequence[Document]
    texts: Tensor
    pictures: Images
    sentences: Sequence[Tensor]
    images: Sequence[Tensor]
    marks: Sequence[Tensor]

    def sharing(self, documents: Tensor) -> Tensor:
        """Which of some documents [B, B] share a sentence or a picture; none with itself."""
        marks, counts = gathered(self.marks, documents)
        numbers, columns = torch.unique(marks, return_inverse=True)
        has = torch.zeros(len(documents), len(numbers))
        has[torch.arange(len(documents)).repeat_interleave(counts), columns] = 1
        return (has @ has.T > 0) & ~torch.eye(len(documents), dtype=torch.bool)

    def encoded(self, model: nn.Module, tower: int, rows: Tensor, device: str) -> Tensor:
        """Vectors [N, D] of some rows, before they are projected."""
        inputs = self.texts[rows] if tower == SENTENCES else self.pictures(rows)
        return cast(DocumentTowers, model).encode(tower, inputs.to(device))

    @torch.no_grad()
    def unit_vectors(
        self, model: nn.Module, tower: int, rows: Tensor, *, at_once: int, device: str, bf16: bool
    ) -> Tensor:
        """Vectors [N, D] of some rows on the CPU, by a model in evaluation mode."""
        parts: list[Tensor] = []

        def encode(part: Tensor) -> None:
            with torch.autocast(device, torch.bfloat16, enabled=bf16):
                vectors = self.encoded(model, tower, part, device)
            parts.append(cast(DocumentTowers, model).project(tower, vectors).cpu())

        in_microbatches(rows, at_once, device, encode)
        return torch.cat(parts)


def gathered(
    rows: Sequence[Tensor], documents: Tensor, most: int = 0, chance: torch.Generator | None = None
) -> tuple[Tensor, Tensor]:
    """(rows, how many of each) of some documents: all, or at most `most` of each, drawn by chance."""
    own = [rows[document] for document in documents.tolist()]
    if most:
        own = [one[torch.randperm(len(one), generator=chance)[:most]] for one in own]
    return torch.cat(own), torch.tensor([len(one) for one in own])


class LinksObjective(Objective):
    """Documents against the others of their step; arguments as for `Objective`."""

    SPLITS = False
    AVERAGES = True

    recipe: LinksRecipe

    def __init__(
        self, recipe: LinksRecipe, train: DocumentTable, valid: DocumentTable | None, run: TrainingRun
    ) -> None:
        self.recipe, self.train, self.valid, self.run = recipe, train, valid, run
        self._figures: dict[str, float] = {}

    def __len__(self) -> int:
        return sum(map(len, _steps(torch.arange(len(self.train.documents)), self.recipe.batch)))

    def batches(self, epoch: int, generator: torch.Generator) -> Sequence[Tensor]:
        """Documents in random order; a last one that is alone has nothing to be compared with."""
        self._chance = generator
        return _steps(torch.randperm(len(self.train.documents), generator=generator), self.recipe.batch)

    def updates(self, rows: Tensor, apply: bool) -> Iterator[Update]:
        """One step, of drawn sentences and images where the recipe says so."""
        recipe, table, chance = self.recipe, self.train, self._chance
        most = (1, 1) if recipe.variant == "links-nostruct" else (recipe.sentences, recipe.images)
        sentences, n = gathered(table.sentences, rows, most[0], chance)
        images, m = gathered(table.images, rows, most[1], chance)
        yield Update(((Step((sentences, images), len(rows), (n, m, table.sharing(rows))), 1.0),), apply=apply)

    def encode(self, model: nn.Module, tower: int, rows: Tensor, facts: Facts) -> Tensor:
        """Vectors before the projection, which takes the whole step: its batch norm must not depend on passes."""
        return self.train.encoded(model, tower, rows, self.run.device)

    def loss(self, model: nn.Module, encoded: Sequence[Tensor], step: Step) -> Tensor:
        """Mean over the documents of a step."""
        return self._loss([cast(DocumentTowers, model).project(*item) for item in enumerate(encoded)], step.facts)

    def _loss(self, vectors: Sequence[Tensor], facts: Facts) -> Tensor:
        (n, m, sharing), recipe = facts, cast(Any, self.recipe)
        kind, (sentences, images) = KINDS[recipe.variant], vectors
        similar = similarities(sentences, images, n, m, kind, half=recipe.k == "half", at_most=recipe.at_most)
        return document_loss(similar, sharing.to(similar.device), recipe.loss, recipe.margin, recipe.negatives)

    def validate(self, model: nn.Module, epoch: int, micro_batch: int) -> float | None:
        """Minus the mean loss of the validation documents in fixed steps; their links choose nothing."""
        if (table := self.valid) is None:
            return None
        model.eval()
        losses, scored, (device, bf16) = [], list[tuple[Document, Any]](), (self.run.device, self.run.bf16)
        for documents in _steps(torch.arange(len(table.documents)), self.recipe.batch):
            parts = [gathered(rows, documents) for rows in (table.sentences, table.images)]
            vectors = [
                table.unit_vectors(model, tower, rows, at_once=micro_batch, device=device, bf16=bf16)
                for tower, (rows, _) in enumerate(parts)
            ]
            (_, n), (_, m) = parts
            losses += [float(self._loss(vectors, (n, m, table.sharing(documents))))] * len(documents)
            split = (list(torch.split(one, counts.tolist())) for one, (_, counts) in zip(vectors, parts, strict=True))
            for document, sentences, images in zip(documents.tolist(), *split, strict=True):
                scored.append((table.documents[document], (sentences @ images.T).numpy()))
        if not isfinite(loss := mean(losses)):
            raise FloatingPointError(f"the validation loss after epoch {epoch} is not finite")
        area = mean_auc(scored)
        self._figures = {"loss": loss} | ({} if area is None else {"auc": area})
        return -loss

    def figures(self) -> dict[str, float]:
        """Loss of the validation documents, and AUC of their links where these are known."""
        return self._figures


def _steps(documents: Tensor, batch: int) -> list[Tensor]:
    return [step for step in torch.split(documents, batch) if len(step) > 1]


def mean_auc(scored: Iterable[tuple[Document, np.ndarray]]) -> float | None:
    """Mean over documents of the AUC of their scores [n, m]; None where no document has known links of both values."""
    areas = [area for document, scores in scored if (area := auc(scores, document.links)) is not None]
    return mean(areas) if areas else None

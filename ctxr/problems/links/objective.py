"""Documents as arrays, and what is learned from them: whole documents of a step against each other (Hessel et al., 2019).

Letters: B documents, N sentences of all of them, M images of all of them, D width.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
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
from ctxr.problems.links.towers import IMAGES, SENTENCES, DocumentTowers

KINDS = {"links-ap": "ap", "links-dc": "dc", "links-tk": "tk", "links-nostruct": "dc"}
"""Similarity of each variant that learns."""

Facts = tuple[Tensor, Tensor, Tensor]
"""Sentences [B] and images [B] of each document of a step, and which documents [B, B] are no negatives of each other."""


@dataclass(frozen=True)
class Ragged:
    """Rows of documents.

    Attributes:
        rows: int64, of all documents one after the other. starts: int64 [B + 1] where those of each begin.
    """

    rows: Tensor
    starts: Tensor

    @classmethod
    def of(cls, rows: Sequence[Sequence[int]]) -> "Ragged":
        """From the rows of each document."""
        sizes = torch.tensor([0, *(len(own) for own in rows)], dtype=torch.int64)
        return cls(torch.tensor([row for own in rows for row in own], dtype=torch.int64), sizes.cumsum(0))

    def __getitem__(self, documents: Tensor) -> tuple[Tensor, Tensor]:
        """(rows, how many of each) of some documents."""
        counts = self.starts.diff()[documents]
        first = counts.cumsum(0) - counts
        within = torch.arange(int(counts.sum())) - first.repeat_interleave(counts)
        return self.rows[self.starts[documents].repeat_interleave(counts) + within], counts

    def drawn(self, documents: Tensor, most: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """As `[]`, with at most `most` rows of each, drawn by chance; 0 for all."""
        rows, counts = self[documents]
        if not most:
            return rows, counts
        owner = torch.arange(len(counts)).repeat_interleave(counts)
        order = (owner + torch.rand(len(rows), generator=generator, dtype=torch.float64)).argsort()
        within = torch.arange(len(rows)) - (counts.cumsum(0) - counts)[owner]
        return rows[order[within < most]], counts.clamp(max=most)


@dataclass(frozen=True)
class DocumentTable:
    """Documents with the inputs of both towers.

    Attributes:
        texts: tokens [N, T] or vectors [N, D]. pictures: by row. sentences, images: rows in these, by document.
        marks: numbers of the texts and pictures of each document: a number in two says that they share it.
    """

    documents: Sequence[Document]
    texts: Tensor
    pictures: Images
    sentences: Ragged
    images: Ragged
    marks: Ragged

    def __len__(self) -> int:
        return len(self.documents)

    def inputs(self, tower: int, rows: Tensor) -> Tensor:
        """What a tower takes of some rows."""
        return self.texts[rows] if tower == SENTENCES else self.pictures(rows)

    def sharing(self, documents: Tensor) -> Tensor:
        """Which of some documents [B, B] share a sentence or a picture; none with itself."""
        marks, counts = self.marks[documents]
        numbers, columns = torch.unique(marks, return_inverse=True)
        has = torch.zeros(len(documents), len(numbers))
        has[torch.arange(len(documents)).repeat_interleave(counts), columns] = 1
        return (has @ has.T > 0) & ~torch.eye(len(documents), dtype=torch.bool)


@torch.no_grad()
def unit_vectors(
    model: DocumentTowers, table: DocumentTable, tower: int, rows: Tensor, *, at_once: int, device: str, bf16: bool
) -> Tensor:
    """Of some rows of a tower, [N, D] on the CPU; the model is in evaluation mode."""
    parts: list[Tensor] = []

    def encode(part: Tensor) -> None:
        with torch.autocast(device, torch.bfloat16, enabled=bf16):
            vectors = model.encode(tower, table.inputs(tower, part).to(device))
        parts.append(model.project(tower, vectors).cpu())

    in_microbatches(rows, at_once, device, encode)
    return torch.cat(parts)


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
        return sum(map(len, _steps(torch.arange(len(self.train)), self.recipe.batch)))

    def batches(self, epoch: int, generator: torch.Generator) -> Sequence[Tensor]:
        """Documents in random order; a last one that is alone has nothing to be compared with."""
        self._generator = generator
        return _steps(torch.randperm(len(self.train), generator=generator), self.recipe.batch)

    def updates(self, rows: Tensor, apply: bool) -> Iterator[Update]:
        """One step, of drawn sentences and images where the recipe says so."""
        recipe, alone = self.recipe, self.recipe.variant == "links-nostruct"
        sentences, n = self.train.sentences.drawn(rows, 1 if alone else recipe.sentences, self._generator)
        images, m = self.train.images.drawn(rows, 1 if alone else recipe.images, self._generator)
        step = Step((sentences, images), len(rows), (n, m, self.train.sharing(rows)))
        yield Update(((step, 1.0),), apply=apply)

    def encode(self, model: nn.Module, tower: int, rows: Tensor, facts: Facts) -> Tensor:
        """Vectors before the projection, which takes the whole step: its batch norm must not depend on passes."""
        return cast(DocumentTowers, model).encode(tower, self.train.inputs(tower, rows).to(self.run.device))

    def loss(self, model: nn.Module, encoded: Sequence[Tensor], step: Step) -> Tensor:
        """Of the documents of a step."""
        towers = [cast(DocumentTowers, model).project(tower, vectors) for tower, vectors in enumerate(encoded)]
        return self._loss(towers[SENTENCES], towers[IMAGES], step.facts)

    def _loss(self, sentences: Tensor, images: Tensor, facts: Facts) -> Tensor:
        (n, m, sharing), recipe = facts, cast(Any, self.recipe)
        kind: Any = KINDS[recipe.variant]
        similar = similarities(sentences, images, n, m, kind, half=recipe.k == "half", at_most=recipe.at_most)
        return document_loss(similar, sharing.to(similar.device), recipe.loss, recipe.margin, recipe.negatives)

    def validate(self, model: nn.Module, epoch: int, micro_batch: int) -> float | None:
        """Minus the mean loss of the validation documents in fixed steps; their links choose nothing."""
        table, run = self.valid, self.run
        if table is None:
            return None
        towers, everything = cast(DocumentTowers, model.eval()), torch.arange(len(table))
        of = {}
        for tower, ragged in ((SENTENCES, table.sentences), (IMAGES, table.images)):
            rows, back = torch.unique(ragged.rows, return_inverse=True)
            of[tower] = unit_vectors(towers, table, tower, rows, at_once=micro_batch, device=run.device, bf16=run.bf16)[
                back
            ]
        total = count = 0.0
        for documents in _steps(everything, self.recipe.batch):
            (s, n), (i, m) = (_places(one, documents) for one in (table.sentences, table.images))
            loss = self._loss(of[SENTENCES][s], of[IMAGES][i], (n, m, table.sharing(documents)))
            total, count = total + float(loss) * len(documents), count + len(documents)
        if not np.isfinite(total):
            raise FloatingPointError(f"the validation loss after epoch {epoch} is not finite")
        self._figures = {"loss": total / count} | ({} if (area := _area(table, of)) is None else {"auc": area})
        return -total / count

    def figures(self) -> dict[str, float]:
        """Loss of the validation documents, and AUC of their links where these are known."""
        return self._figures


def _steps(documents: Tensor, batch: int) -> list[Tensor]:
    return [step for step in torch.split(documents, batch) if len(step) > 1]


def _places(ragged: Ragged, documents: Tensor) -> tuple[Tensor, Tensor]:
    return Ragged(torch.arange(len(ragged.rows)), ragged.starts)[documents]


def _area(table: DocumentTable, of: dict[int, Tensor]) -> float | None:
    split = (
        torch.split(vectors, ragged.starts.diff().tolist())
        for vectors, ragged in ((of[SENTENCES], table.sentences), (of[IMAGES], table.images))
    )
    return mean_auc((one, (s @ i.T).numpy()) for one, s, i in zip(table.documents, *split, strict=True))


def mean_auc(scored: Any) -> float | None:
    """Mean over documents of the AUC of their scores [n, m]; None where no document has known links of both values."""
    defined = [area for document, scores in scored if (area := auc(scores, document.links)) is not None]
    return mean(defined) if defined else None

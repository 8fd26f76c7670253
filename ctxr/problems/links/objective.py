"""Documents as arrays, and what is learned from them: whole documents of a step against each other (Hessel et al., 2019).

Letters: B documents, N sentences or images, D width.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import isfinite
from statistics import mean
from typing import NamedTuple, cast

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.utils.rnn import pad_sequence

from ctxr.datasets.documents import Document
from ctxr.metrics.links import assign, auc
from ctxr.models.precision import device_kind, in_microbatches
from ctxr.models.training.examples import Images
from ctxr.models.training.loop import Objective, Step, TrainingRun, Update
from ctxr.problems.links.recipe import LinksRecipe
from ctxr.problems.links.towers import DocumentTowers


def similarities(
    sentences: Tensor, images: Tensor, n: Tensor, m: Tensor, kind: str, *, half: bool = False, at_most: bool = False
) -> Tensor:
    """How similar the n [B] sentences of each document are to the m [B] images of each: [B, B], in float32 at least.

    Args:
        sentences, images: unit vectors [N, D] and [M, D], document by document.
        kind: dc, the mean of the best cosine of each sentence plus that of each image; tk, the same of the k best of each; ap, the
            mean of the k links of the best assignment.
        half: k is half of min(n, m), rounded up, instead of min(n, m).
        at_most: the assignment leaves out links that are not positive; 0 without any.
    """
    cosines = sentences @ images.T
    cosines = cosines.to(torch.promote_types(cosines.dtype, torch.float32))
    n, m = n.cpu(), m.cpu()
    k = torch.minimum(n[:, None], m)
    k = (k + 1) // 2 if half else k
    if kind == "ap":
        # 1 / links at the links between each two documents: the gradient of their mean
        weights = (
            cosines.detach().double().cpu().nan_to_num(2, 2, 2).numpy()
        )  # the product with the cosines stays invalid
        shares, numbers = np.zeros_like(weights), k.tolist()
        row, column = (np.cumsum([0, *sizes.tolist()]).tolist() for sizes in (n, m))
        for i, j in np.ndindex(len(n), len(m)):
            block = slice(row[i], row[i + 1]), slice(column[j], column[j + 1])
            links = assign(weights[block], numbers[i][j], at_most)
            shares[block][links] = 1 / max(len(links[0]), 1)
        return _blocks(cosines * torch.from_numpy(shares).to(cosines), n, m, 0.0).sum((1, 3))
    blocks = _blocks(cosines, n, m, -torch.inf)
    sizes = (k, k) if kind == "tk" else (n[:, None].expand_as(k), m.expand_as(k))
    best = blocks.max(3).values.transpose(1, 2), blocks.max(1).values
    return _mean_of_best(best[0], sizes[0]) + _mean_of_best(best[1], sizes[1])


def _blocks(values: Tensor, n: Tensor, m: Tensor, fill: float) -> Tensor:
    """Values [N, M] by document of the sentence and of the image, [B, n, B, m], filled up to the longest."""
    if (n == n[0]).all() and (m == m[0]).all():
        return values.view(len(n), int(n[0]), len(m), int(m[0]))
    columns = pad_sequence([*torch.split(values.T, m.tolist())], batch_first=True, padding_value=fill)
    return pad_sequence([*torch.split(columns.movedim(2, 0), n.tolist())], batch_first=True, padding_value=fill)


def _mean_of_best(values: Tensor, k: Tensor) -> Tensor:
    """The mean of the k [B, B] greatest of values [B, B, L]."""
    if (k == values.shape[-1]).all():
        return values.mean(-1)
    k = k.to(values.device)
    beyond = torch.arange(values.shape[-1], device=values.device) >= k[..., None]
    return values.sort(-1, descending=True).values.masked_fill(beyond, 0).sum(-1) / k


def document_loss(similar: Tensor, excluded: Tensor, kind: str, margin: float, negatives: str) -> Tensor:
    """Loss of similarities [B, B], each document's own against those of its sentences and of its images with others: a scalar.

    A document that is `excluded` [B, B] by a shared sentence or image is not a negative; without negatives the loss is 0. The logistic
    loss has no margin, and softmax takes all negatives.
    """
    both = torch.stack((similar, similar.T))
    own = torch.eye(len(similar), dtype=torch.bool, device=similar.device)
    absent = torch.stack((excluded, excluded.T)) | own
    if kind == "softmax":
        logits = torch.where(own, both - margin, both.masked_fill(absent, -torch.inf))
        losses = logits.logsumexp(-1) - logits.diagonal(dim1=1, dim2=2)
    else:
        excess = both - similar.diagonal()[:, None]
        terms = functional.softplus(excess) if kind == "logistic" else functional.relu(margin + excess)
        terms = terms.masked_fill(absent, 0)
        losses = terms.amax(-1) if negatives == "hard" else terms.sum(-1) / (~absent).sum(-1).clamp(min=1)
    return losses.sum(0).mean()


KINDS = {"links-ap": "ap", "links-dc": "dc", "links-tk": "tk", "links-nostruct": "dc"}
"""Similarity of each variant that learns."""


@dataclass(frozen=True)
class DocumentTable:
    """Documents with the inputs of both towers.

    Attributes:
        inputs: tokens or vectors of sentences, and pixels or vectors of images, by row. rows: of each document in these.
        marks: texts and pictures of each document: two documents that have the same one share it.
    """

    documents: Sequence[Document]
    inputs: tuple[Images, Images]
    rows: tuple[Sequence[Tensor], Sequence[Tensor]]
    marks: Sequence[set[str]]

    def __len__(self) -> int:
        return len(self.documents)

    def sharing(self, documents: Tensor) -> Tensor:
        """Which of some documents [B, B] share a sentence or a picture; none with itself."""
        marks = [self.marks[document] for document in documents.tolist()]
        return torch.tensor([[one is not other and not one.isdisjoint(other) for other in marks] for one in marks])

    def comparable(self, batch: int) -> bool:
        """Whether some step, of documents in their order, has two that share nothing."""
        steps = _steps(torch.arange(len(self)), batch)
        return not all(bool((self.sharing(step) | torch.eye(len(step), dtype=torch.bool)).all()) for step in steps)

    def encoded(self, model: nn.Module, tower: int, rows: Tensor, device: str) -> Tensor:
        """Vectors [N, D] of some rows, before they are projected."""
        return torch.as_tensor(cast(DocumentTowers, model).encode(tower, self.inputs[tower](rows).to(device)))

    @torch.no_grad()
    def unit_vectors(
        self, model: nn.Module, documents: Tensor, at_once: int, device: str, bf16: bool
    ) -> list[tuple[Tensor, ...]]:
        """Of some documents' sentences [n, D] and images [m, D], on the CPU, by a model in evaluation mode."""
        towers = []
        for tower, own in enumerate(self.rows):
            rows, counts = gathered(own, documents)

            def encode(part: Tensor, tower: int = tower) -> Tensor:
                with torch.autocast(device_kind(device), torch.bfloat16, enabled=bf16):
                    vectors = self.encoded(model, tower, part, device)
                return cast(DocumentTowers, model).project(tower, vectors).cpu()

            parts = in_microbatches(rows, at_once, device, encode)
            towers.append(torch.split(torch.cat(parts), counts.tolist()))
        return list(zip(*towers, strict=True))


class DocumentRows(NamedTuple):
    """Rows of some documents, one after another, and how many are of each."""

    rows: Tensor
    counts: Tensor


def gathered(
    rows: Sequence[Tensor], documents: Tensor, most: int = 0, chance: torch.Generator | None = None
) -> DocumentRows:
    """All rows of some documents, or at most `most` of each, drawn by chance."""
    own = [rows[document] for document in documents.tolist()]
    if most:
        own = [one[torch.randperm(len(one), generator=chance)[:most]] for one in own]
    return DocumentRows(torch.cat(own), torch.tensor([len(one) for one in own]))


class LinksObjective(Objective[tuple[Tensor, Tensor, Tensor], Tensor]):
    """Documents against the others of their step; arguments as for `Objective`."""

    SPLITS = False
    AVERAGES = True

    recipe: LinksRecipe
    train: DocumentTable
    valid: DocumentTable | None

    def __init__(
        self, recipe: LinksRecipe, train: DocumentTable, valid: DocumentTable | None, run: TrainingRun
    ) -> None:
        super().__init__(recipe, train, valid, run)
        self.figures, self._chance = dict[str, float](), torch.Generator()

    def __len__(self) -> int:
        return sum(map(len, _steps(torch.arange(len(self.train)), self.recipe.batch)))

    def batches(self, epoch: int, generator: torch.Generator) -> Sequence[Tensor]:
        """Documents in random order; a last one that is alone has nothing to be compared with."""
        self._chance = generator
        return _steps(torch.randperm(len(self.train), generator=generator), self.recipe.batch)

    def updates(self, rows: Tensor, apply: bool) -> Iterator[Update]:
        """One step, of drawn sentences and images where the recipe says so."""
        recipe, table = self.recipe, self.train
        most = (1, 1) if recipe.variant == "links-nostruct" else (recipe.sentences, recipe.images)
        (sentences, n), (images, m) = map(gathered, table.rows, (rows, rows), most, (self._chance, self._chance))
        yield Update(((Step((sentences, images), len(rows), (n, m, table.sharing(rows))), 1.0),), apply=apply)

    def encode(self, model: nn.Module, tower: int, rows: Tensor, facts: tuple[Tensor, Tensor, Tensor]) -> Tensor:
        """Vectors before the projection, which takes the whole step: its batch norm must not depend on passes."""
        return self.train.encoded(model, tower, rows, self.run.device)

    def loss(self, model: nn.Module, encoded: Sequence[Tensor], step: Step[tuple[Tensor, Tensor, Tensor]]) -> Tensor:
        """Mean over the documents of a step."""
        return self._loss([cast(DocumentTowers, model).project(*item) for item in enumerate(encoded)], *step.facts)

    def _loss(self, vectors: Sequence[Tensor], n: Tensor, m: Tensor, sharing: Tensor) -> Tensor:
        recipe, kind, (sentences, images) = self.recipe, KINDS[self.recipe.variant], vectors
        similar = similarities(sentences, images, n, m, kind, half=recipe.k == "half", at_most=recipe.at_most)
        return document_loss(similar, sharing.to(similar.device), recipe.loss, recipe.margin, recipe.negatives)

    def validate(self, model: nn.Module, epoch: int, micro_batch: int) -> float | None:
        """Minus the mean loss of validation in fixed steps; AUC of known links chooses nothing."""
        if (table := self.valid) is None:
            return None
        model.eval()
        losses, scored = list[float](), list[tuple[Document, np.ndarray]]()
        chance = torch.Generator().manual_seed(epoch)
        for documents in _steps(torch.arange(len(table)), self.recipe.batch):
            pairs = table.unit_vectors(model, documents, micro_batch, self.run.device, self.run.bf16)
            sampled = pairs
            if self.recipe.variant == "links-nostruct":  # validated as it is trained
                sampled = [
                    tuple(one[torch.randint(len(one), (1,), generator=chance)] for one in pair) for pair in pairs
                ]
            towers = list(zip(*sampled, strict=True))
            n, m = (torch.tensor([len(own) for own in tower]) for tower in towers)
            loss = self._loss([torch.cat(tower) for tower in towers], n, m, table.sharing(documents))
            losses += [float(loss)] * len(documents)
            scores = ((sentences @ images.T).numpy() for sentences, images in pairs)
            scored += zip((table.documents[document] for document in documents.tolist()), scores, strict=True)
        if not isfinite(mean(losses)):
            raise FloatingPointError(f"the validation loss after epoch {epoch} is not finite")
        area = mean_auc(scored)
        self.figures = {"loss": mean(losses)} | ({} if area is None else {"auc": area})
        return -mean(losses)


def _steps(documents: Tensor, batch: int) -> list[Tensor]:
    return [step for step in torch.split(documents, batch) if len(step) > 1]


def mean_auc(scored: Iterable[tuple[Document, np.ndarray]]) -> float | None:
    """Mean over documents of AUC, by scores [n, m]; None without known links of both values."""
    areas = [area for document, scores in scored if (area := auc(scores, document.links)) is not None]
    return mean(areas) if areas else None

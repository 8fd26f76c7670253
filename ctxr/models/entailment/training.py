"""The loop of `ctxr.models.training.loop` for claims instead of queries: joint loss, masking, accuracy on dev."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn
from torch.nn import functional

from ctxr.models.entailment.base import ClaimTokens
from ctxr.models.entailment.classifier import EntailmentClassifier, PairBatch, to_mask, with_masked
from ctxr.models.entailment.recipe import ClassifierRecipe
from ctxr.models.entailment.sources import Branches
from ctxr.models.precision import device_kind, in_microbatches
from ctxr.models.training.examples import Images, by_sets
from ctxr.models.training.loop import Objective, Step, Update


@dataclass(frozen=True)
class PairTable:
    """Claims by row; texts become tokens batch by batch.

    `images`: pictures by row; row 0 is black. Other columns [Q] as in a `PairBatch`, and `tokenize` as `Branches.tokenize`.
    """

    images: Images
    place: Tensor
    premises: Sequence[str]
    hypotheses: Sequence[str]
    label: Tensor
    theta: Tensor
    tokenize: Callable[[Sequence[str], Sequence[str]], ClaimTokens]

    def __len__(self) -> int:
        return len(self.label)

    def batch(self, rows: Tensor) -> PairBatch:
        """Some of the claims; a picture of several claims is in the batch once."""
        used, positions = torch.unique(self.place[rows], return_inverse=True)
        premises, hypotheses = ([texts[row] for row in rows.tolist()] for texts in (self.premises, self.hypotheses))
        ids, types, words = self.tokenize(premises, hypotheses)
        return PairBatch(self.images(used), positions, ids, types, words, self.label[rows], self.theta[rows])


def make_claims(
    images: Images,
    claims: Sequence[tuple[int, str, str, int, Sequence[bool]]],
    tokenize: Callable[[Sequence[str], Sequence[str]], ClaimTokens],
) -> PairTable:
    """A table of claims (row of the picture, premise, hypothesis, label, indicators)."""
    place, label = (torch.tensor([claim[part] for claim in claims], dtype=torch.int64) for part in (0, 3))
    theta = torch.tensor([list(claim[4]) for claim in claims], dtype=torch.bool).reshape(-1, 3)
    premises, hypotheses = [claim[1] for claim in claims], [claim[2] for claim in claims]
    return PairTable(images, place, premises, hypotheses, label, theta, tokenize)


class EntailmentObjective(Objective[Tensor, tuple[PairBatch, Tensor]]):
    """The joint loss over claims, some masked into negatives; arguments as for `Objective`."""

    recipe: ClassifierRecipe
    train: PairTable
    valid: PairTable | None

    def batches(self, epoch: int, generator: torch.Generator) -> Sequence[Tensor]:
        """Claims in random order, all kinds mixed."""
        return torch.split(by_sets(torch.arange(len(self.train)), generator), self.recipe.batch)

    def updates(self, rows: Tensor, apply: bool) -> Iterator[Update]:
        """One step; its masked claims are chosen before it is cut into passes."""
        masked, recipe, claims = rows[:0], self.recipe, self.train
        if recipe.masking and recipe.image:
            most = min(recipe.masked, max(1, round(recipe.masked * len(rows) / recipe.batch)))
            masked = rows[to_mask(claims.label[rows], claims.theta[rows], claims.place[rows], most)]
        yield Update(((Step((rows,), len(rows), masked), 1.0),), apply=apply)

    def encode(self, model: nn.Module, tower: int, rows: Tensor, facts: Tensor) -> tuple[PairBatch, Tensor]:
        """The batch, masked claims behind the others, and its logits."""
        batch = self.train.batch(rows).to(self.run.device)
        masked = torch.isin(rows, facts).nonzero().flatten()
        if len(masked):
            batch = with_masked(batch, cast(EntailmentClassifier, model).image, self.recipe.masking, masked)
        return batch, model(batch)

    def loss(self, model: nn.Module, encoded: Sequence[tuple[PairBatch, Tensor]], step: Step[Tensor]) -> Tensor:
        """The sum over claims of theta_t L_t + theta_v L_v + theta_m L_m, cross-entropies (section 3.4)."""
        batch, logits = encoded[0]
        labels = batch.label.repeat_interleave(3)
        losses = functional.cross_entropy(logits.float().flatten(0, 1), labels, reduction="none").view(-1, 3)
        return (losses * batch.theta).sum()

    def validate(self, model: nn.Module, epoch: int, micro_batch: int) -> float | None:
        """Accuracy on dev."""
        if self.valid is None or not len(self.valid):
            return None
        entailed = probabilities(model.eval(), self.valid, micro_batch, self.run.device, self.run.bf16)
        if np.isnan(entailed).any():
            raise FloatingPointError(f"the probabilities on dev after epoch {epoch} are not finite")
        return float(((entailed >= 0.5) == (self.valid.label.numpy() == 1)).mean())


@torch.no_grad()
def probabilities(
    classifier: nn.Module,
    claims: PairTable,
    at_once: int,
    device: str = "cpu",
    bf16: bool = False,
    *,
    advance: Callable[[float], None] | None = None,
) -> npt.NDArray[np.float32]:
    """float32 [Q] in 0..1: that each claim is entailed, by the one head that its `theta` names.

    `classifier`: in evaluation mode. `at_once`: claims in one pass. `advance`: called with the number of claims of each pass.
    """
    entailed = torch.full((len(claims),), float("nan"))
    column = claims.theta.float().argmax(1)

    def judge(rows: Tensor) -> None:
        with torch.autocast(device_kind(device), torch.bfloat16, enabled=bf16):
            logits = classifier(claims.batch(rows).to(device)).float().cpu()
        entailed[rows] = logits[torch.arange(len(rows)), column[rows]].softmax(-1)[:, 1]
        if advance is not None:
            advance(len(rows))

    in_microbatches(claims.place.sort(stable=True).indices, at_once, device, judge)
    return entailed.numpy()


def looking_up(
    texts: Sequence[tuple[str, str]], hidden: npt.NDArray[np.float32], branches: Branches
) -> Callable[[Sequence[str], Sequence[str]], ClaimTokens]:
    """As `Branches.tokenize`, h^t from `hidden` [N, D] of `texts`; zeros for others, in no loss."""
    table = torch.from_numpy(np.concatenate([hidden, np.zeros((1, hidden.shape[1]), np.float32)]))
    row = {pair: number for number, pair in enumerate(texts)}

    def tokenize(premises: Sequence[str], hypotheses: Sequence[str]) -> ClaimTokens:
        rows = [row.get(pair, len(texts)) for pair in zip(premises, hypotheses, strict=True)]
        nothing = torch.zeros(len(rows), 1, dtype=torch.int64)
        return ClaimTokens(table[rows], nothing, branches.image.tokenize(hypotheses) if branches.image else nothing)

    return tokenize

"""The loop of `ctxr.models.training.loop` for claims instead of queries: joint loss, masking, accuracy on dev."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from ctxr.models.entailment.classifier import EntailmentClassifier, PairBatch, joint_loss, to_mask, with_masked
from ctxr.models.entailment.recipe import ClassifierRecipe
from ctxr.models.entailment.sources import Branches
from ctxr.models.precision import in_microbatches
from ctxr.models.training.loop import Trainer, TrainingRun
from ctxr.models.training.questions import Images, Questions


@dataclass(frozen=True)
class ClaimTable:
    """Claims by row, as `Trainer` takes queries; texts become tokens batch by batch.

    Attributes:
        images: pictures by row; row 0 is black. place: [Q] rows of them.
        premises, hypotheses: texts; "" where there is no premise.
        label: [Q]. theta: [Q, 3] bool. sets: [Q], each claim by itself: the kinds are mixed in one stream.
        tokenize: as `Branches.tokenize`.
    """

    images: Images
    place: Tensor
    premises: Sequence[str]
    hypotheses: Sequence[str]
    label: Tensor
    theta: Tensor
    sets: Tensor
    tokenize: Callable[[Sequence[str], Sequence[str]], tuple[Tensor, Tensor, Tensor]]

    def __len__(self) -> int:
        return len(self.label)

    def batch(self, rows: Tensor) -> PairBatch:
        """Some of the claims; a picture that several of them are about stands in the batch once."""
        used, place = torch.unique(self.place[rows], return_inverse=True)
        texts = [(self.premises[row], self.hypotheses[row]) for row in rows.tolist()]
        ids, types, told = self.tokenize([one for one, _ in texts], [one for _, one in texts])
        return PairBatch(self.images(used), place, ids, types, told, self.label[rows], self.theta[rows])


def make_claims(
    images: Images,
    claims: Sequence[tuple[int, str, str, int, Sequence[bool]]],
    tokenize: Callable[[Sequence[str], Sequence[str]], tuple[Tensor, Tensor, Tensor]],
) -> ClaimTable:
    """A table of claims (row of the picture, premise, hypothesis, label, indicators), each by itself in the stream."""
    return ClaimTable(
        images=images,
        place=torch.tensor([one[0] for one in claims], dtype=torch.int64),
        premises=[one[1] for one in claims],
        hypotheses=[one[2] for one in claims],
        label=torch.tensor([one[3] for one in claims], dtype=torch.int64),
        theta=torch.tensor([list(one[4]) for one in claims], dtype=torch.bool).reshape(-1, 3),
        sets=torch.arange(len(claims)),
        tokenize=tokenize,
    )


class ClassifierTrainer(Trainer):
    """One training of one classifier: as `Trainer`, whose arguments it takes with claims for queries."""

    def __init__(
        self,
        scorer: nn.Module,
        recipe: ClassifierRecipe,
        train: ClaimTable,
        valid: ClaimTable | None,
        run: TrainingRun,
    ) -> None:
        super().__init__(scorer, recipe, cast(Questions, train), cast(Questions, valid), run)
        self.claims, self.dev, self.how = train, valid, recipe
        self.masked = torch.zeros(0, dtype=torch.int64)

    def update(self, rows: Tensor, rate: float, step: bool = True) -> float:
        """As `Trainer.update`; which claims of the step are masked is chosen before it is cut into passes."""
        if self.how.masking and cast(EntailmentClassifier, self.scorer).image is not None:
            claims = self.claims
            # the last step of an epoch may be short: it has its share
            most = min(self.how.masked, max(1, round(self.how.masked * len(rows) / self.how.batch)))
            place = to_mask(claims.label[rows], claims.theta[rows], claims.place[rows], most)
            self.masked = rows[place]
        return super().update(rows, rate, step)

    def _loss(self, rows: Tensor) -> Tensor:
        batch = self.claims.batch(rows).to(self.device)
        scorer = cast(EntailmentClassifier, self.scorer)
        with torch.autocast(self.device, torch.bfloat16, enabled=self.bf16):
            masked = torch.isin(rows, self.masked).nonzero().flatten()
            if len(masked):
                batch = with_masked(batch, scorer.image, self.how.masking, masked)
            logits = scorer(batch)
        return joint_loss(logits, batch)

    def _judge(self, number: int) -> float | None:
        if self.dev is None or not len(self.dev):
            return None
        self.scorer.eval()
        entailed = probabilities(self.scorer, self.dev, self.progress.at_once, self.device, self.bf16)
        if np.isnan(entailed).any():
            raise self._broken(f"the probabilities on dev after epoch {number} are no numbers")
        return float(((entailed >= 0.5) == (self.dev.label.numpy() == 1)).mean())


@torch.no_grad()
def probabilities(
    classifier: nn.Module,
    claims: ClaimTable,
    at_once: int,
    device: str = "cpu",
    bf16: bool = False,
    advance: Callable[[float], None] | None = None,
) -> npt.NDArray[np.float32]:
    """float32 [Q] in 0..1: that each claim is entailed, by the one head that its `theta` names.

    Args:
        classifier: in evaluation mode. at_once: claims in one pass, fewer where memory runs out.
        advance: told of every pass how many claims are done.
    """
    entailed = torch.full((len(claims),), float("nan"))
    column = claims.theta.float().argmax(1)

    def judge(rows: Tensor) -> None:
        with torch.autocast(device, torch.bfloat16, enabled=bf16):
            logits = classifier(claims.batch(rows).to(device)).float().cpu()
        entailed[rows] = logits[torch.arange(len(rows)), column[rows]].softmax(-1)[:, 1]
        if advance is not None:
            advance(len(rows))

    in_microbatches(claims.place.sort(stable=True).indices, at_once, device, judge)
    return entailed.numpy()


def looking_up(
    texts: Sequence[tuple[str, str]], said: npt.NDArray[np.float32], branches: Branches
) -> Callable[[Sequence[str], Sequence[str]], tuple[Tensor, Tensor, Tensor]]:
    """As `Branches.tokenize`, from what was said [N, D] of premises and hypotheses; zeros for others, whose text counts in no loss."""
    known = torch.from_numpy(np.concatenate([said, np.zeros((1, said.shape[1]), np.float32)]))
    row = {pair: number for number, pair in enumerate(texts)}

    def tokenize(premises: Sequence[str], hypotheses: Sequence[str]) -> tuple[Tensor, Tensor, Tensor]:
        rows = [row.get(pair, len(texts)) for pair in zip(premises, hypotheses, strict=True)]
        nothing = torch.zeros(len(rows), 1, dtype=torch.int64)
        return known[rows], nothing, branches.image.tokenize(hypotheses) if branches.image else nothing

    return tokenize

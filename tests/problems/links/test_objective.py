"""Similarities and losses of documents against loops over pairs."""

from itertools import product

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn import functional

from ctxr.metrics.links import assign
from ctxr.problems.links.objective import document_loss, similarities

KINDS = ("dc", "tk", "ap")
OPTIONS = [
    ("dc", False, False), ("tk", False, False), ("tk", True, False),
    ("ap", False, False), ("ap", True, False), ("ap", False, True), ("ap", True, True),
]  # fmt: skip
RAGGED = ([3, 1, 4, 2], [2, 5, 4, 1])
PUBLISHED = [[0.24363446235656738, 0.31758785247802734, 0.27694183588027954],
             [0.2233106791973114, 0.3234919607639313, 0.26118797063827515]]  # fmt: skip
"""Images by sentences: the matrix of the document in MMC4's README, whose images belong to sentences 2 and 1."""


def batch(n: list[int], m: list[int], seed: int = 0, width: int = 6) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Unit vectors of double precision that take gradients, and the sizes."""
    generator = torch.Generator().manual_seed(seed)
    towers = (torch.randn(sum(of), width, dtype=torch.float64, generator=generator) for of in (n, m))
    sentences, images = (functional.normalize(tower, dim=1).requires_grad_() for tower in towers)
    return sentences, images, torch.tensor(n), torch.tensor(m)


def pair(cosines: Tensor, kind: str, half: bool, at_most: bool) -> Tensor:
    """The similarity of one matrix, after the paper."""
    n, m = cosines.shape
    k = -(-min(n, m) // 2) if half else min(n, m)
    if kind == "ap":
        links = list(zip(*(part.tolist() for part in assign(cosines.detach().numpy(), k, at_most)), strict=True))
        return sum((cosines[link] for link in links), torch.zeros(())) / max(len(links), 1)
    parts = []
    for maxima in ([cosines[row].max() for row in range(n)], [cosines[:, column].max() for column in range(m)]):
        best = sorted(maxima, reverse=True)[: k if kind == "tk" else None]
        parts.append(sum(best, torch.zeros(())) / len(best))
    return parts[0] + parts[1]


def loop(batch: tuple[Tensor, Tensor, Tensor, Tensor], kind: str, half: bool = False, at_most: bool = False) -> Tensor:
    """The similarities of all pairs of documents, one after the other."""
    sentences, images = (
        torch.split(tower, sizes.tolist()) for tower, sizes in ((batch[0], batch[2]), (batch[1], batch[3]))
    )
    rows = [torch.stack([pair(one @ other.T, kind, half, at_most) for other in images]) for one in sentences]
    return torch.stack(rows)


def loss_loop(similar: Tensor, excluded: Tensor, kind: str, margin: float, negatives: str) -> Tensor:
    """The loss, one document after the other."""
    losses = []
    for i, own in enumerate(similar.diagonal()):
        others = [j for j in range(len(similar)) if j != i and not excluded[i, j]]
        for values in ([similar[i, j] for j in others], [similar[j, i] for j in others]):
            if not values:
                continue
            if kind == "softmax":
                losses.append(-torch.log_softmax(torch.stack([own - margin, *values]), 0)[0])
                continue
            terms = [
                torch.log1p(torch.exp(value - own)) if kind == "logistic" else (margin - own + value).clamp(min=0)
                for value in values
            ]
            losses.append(max(terms) if negatives == "hard" else torch.stack(terms).mean())
    return sum(losses, torch.zeros(())) / len(similar)


@pytest.mark.parametrize(("kind", "half", "at_most"), OPTIONS)
def test_similarities_and_gradients_are_those_of_a_loop_on_ragged_batches(kind: str, half: bool, at_most: bool) -> None:
    for seed, (n, m) in enumerate(
        [RAGGED, (RAGGED[1], RAGGED[0]), ([1], [1]), ([5, 5], [5, 5]), ([1, 1, 1], [4, 9, 2])]
    ):
        data = batch(n, m, seed)
        fast, slow = similarities(*data, kind, half=half, at_most=at_most), loop(data, kind, half, at_most)
        torch.testing.assert_close(fast, slow, rtol=1e-12, atol=1e-12)
        weights = torch.randn(fast.shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
        pairs = zip(
            *(torch.autograd.grad((what * weights).sum(), data[:2], allow_unused=True) for what in (fast, slow)),
            strict=True,
        )
        for ours, theirs in pairs:
            torch.testing.assert_close(
                ours, torch.zeros_like(ours) if theirs is None else theirs, rtol=1e-12, atol=1e-12
            )


@pytest.mark.parametrize(("half", "at_most"), [(False, False), (True, False), (False, True), (True, True)])
def test_the_gradient_of_ap_is_the_assignment_divided_by_its_links(half: bool, at_most: bool) -> None:
    # one-hot images make the cosines the sentences' own entries, so their gradient is that of the matrix
    cosines = torch.randn(5, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(3)).requires_grad_()
    sizes = torch.tensor([5]), torch.tensor([4])
    similar = similarities(cosines, torch.eye(4, dtype=torch.float64), *sizes, "ap", half=half, at_most=at_most)
    links = assign(cosines.detach().numpy(), 2 if half else 4, at_most)
    expected = torch.zeros(5, 4, dtype=torch.float64)
    expected[links] = 1 / len(links[0])
    assert torch.equal(torch.autograd.grad(similar.sum(), cosines)[0], expected)


def test_without_a_positive_link_at_most_gives_zero_and_no_gradient() -> None:
    cosines = torch.tensor([[-0.5, -0.2], [-0.3, -0.4]], requires_grad=True)
    sizes = torch.tensor([2]), torch.tensor([2])
    similar = similarities(cosines, torch.eye(2), *sizes, "ap", at_most=True)
    assert similar.item() == 0
    assert torch.equal(torch.autograd.grad(similar.sum(), cosines)[0], torch.zeros(2, 2))
    assert similarities(cosines, torch.eye(2), *sizes, "ap").item() == pytest.approx(-0.25)


@pytest.mark.parametrize("kind", KINDS)
def test_a_vector_that_is_not_a_number_reaches_the_similarity(kind: str) -> None:
    sentences, images, n, m = batch(*RAGGED)
    sentences = sentences.detach().clone()
    sentences[4] = torch.nan  # the first of four sentences of the third document
    assert similarities(sentences, images, n, m, kind).isnan().any(1).tolist() == [False, False, True, False]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_lower_precision_stays_near_double(kind: str, dtype: torch.dtype) -> None:
    data = batch(*RAGGED)
    rounded = [tower.detach().to(dtype).requires_grad_() for tower in data[:2]]
    similar = similarities(rounded[0], rounded[1], *data[2:], kind)
    assert similar.dtype == torch.float32
    tolerance = 1e-5 if dtype == torch.float32 else 3e-2
    torch.testing.assert_close(similar.double(), similarities(*data, kind), rtol=0, atol=tolerance)
    assert all(gradient.isfinite().all() for gradient in torch.autograd.grad(similar.sum(), rounded))


def test_the_assignment_of_the_published_document_is_the_published_one() -> None:
    rows, columns = assign(np.array(PUBLISHED))
    assert dict(zip(rows.tolist(), columns.tolist(), strict=True)) == {0: 2, 1: 1}
    similar = similarities(torch.tensor(PUBLISHED).T, torch.eye(2), torch.tensor([3]), torch.tensor([2]), "ap")
    assert similar.item() == pytest.approx((PUBLISHED[0][2] + PUBLISHED[1][1]) / 2)


@pytest.mark.parametrize(("kind", "negatives"), list(product(["hinge", "logistic", "softmax"], ["hard", "mean"])))
def test_losses_and_gradients_are_those_of_a_loop(kind: str, negatives: str) -> None:
    generator = torch.Generator().manual_seed(1)
    for size in (1, 2, 6):
        similar = torch.randn(size, size, dtype=torch.float64, generator=generator).requires_grad_()
        shares = torch.rand(size, size, generator=generator) < 0.3
        shares[0] = True
        excluded = shares | shares.T
        for blocked in (torch.zeros_like(excluded), excluded, torch.ones_like(excluded)):
            fast, slow = (loss(similar, blocked, kind, 0.2, negatives) for loss in (document_loss, loss_loop))
            torch.testing.assert_close(fast, slow.to(fast), rtol=1e-12, atol=1e-12)
            ours = torch.autograd.grad(fast, similar)[0]
            theirs = torch.autograd.grad(slow, similar)[0] if slow.requires_grad else torch.zeros_like(similar)
            torch.testing.assert_close(ours, theirs, rtol=1e-12, atol=1e-12)

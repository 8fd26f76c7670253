"""Similarities and losses of documents against loops over pairs."""

import json
from itertools import product
from pathlib import Path
from typing import Literal

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn import functional

from ctxr.metrics.links import assign
from ctxr.problems.links.objective import document_loss, similarities

Kind = Literal["dc", "tk", "ap"]
Loss = Literal["hinge", "logistic", "softmax"]
Negatives = Literal["hard", "mean"]

KINDS: tuple[Kind, ...] = ("dc", "tk", "ap")
OPTIONS: list[tuple[Kind, bool, bool]] = [
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


def pair(cosines: Tensor, kind: Kind, half: bool, at_most: bool) -> Tensor:
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


def loop(batch: tuple[Tensor, Tensor, Tensor, Tensor], kind: Kind, half: bool = False, at_most: bool = False) -> Tensor:
    """The similarities of all pairs of documents, one after the other."""
    sentences, images = (
        torch.split(tower, sizes.tolist()) for tower, sizes in ((batch[0], batch[2]), (batch[1], batch[3]))
    )
    rows = [torch.stack([pair(one @ other.T, kind, half, at_most) for other in images]) for one in sentences]
    return torch.stack(rows)


def loss_loop(similar: Tensor, excluded: Tensor, kind: Loss, margin: float, negatives: Negatives) -> Tensor:
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
def test_similarities_and_gradients_are_those_of_a_loop_on_ragged_batches(
    kind: Kind, half: bool, at_most: bool
) -> None:
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


def test_tk_is_dc_where_every_document_has_as_many_sentences_as_images() -> None:
    data = batch([4] * 3, [4] * 3)
    torch.testing.assert_close(similarities(*data, "tk"), similarities(*data, "dc"), rtol=1e-14, atol=0)
    assert (similarities(*data, "tk", half=True) > similarities(*data, "dc")).all()


def test_ap_is_at_most_half_of_tk() -> None:
    for seed in range(5):
        data = batch(*RAGGED, seed)
        for half in (False, True):
            assert (similarities(*data, "ap", half=half) <= similarities(*data, "tk", half=half) / 2 + 1e-12).all()


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
def test_a_vector_that_is_not_a_number_reaches_the_similarity(kind: Kind) -> None:
    sentences, images, n, m = batch(*RAGGED)
    sentences = sentences.detach().clone()
    sentences[4] = torch.nan  # the first of four sentences of the third document
    assert similarities(sentences, images, n, m, kind).isnan().any(1).tolist() == [False, False, True, False]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_lower_precision_stays_near_double(kind: Kind, dtype: torch.dtype) -> None:
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


def test_the_assignment_of_the_real_file_is_the_one_it_tells(real_files: Path) -> None:
    path = real_files / "documents" / "mmc4_example.jsonl"
    if not path.is_file():
        pytest.skip(f"no {path}: set CTXR_REAL_DATA")
    row = json.loads(path.read_text())
    rows, columns = assign(np.array(row["similarity_matrix"]))
    assert columns[np.argsort(rows)].tolist() == [image["matched_text_index"] for image in row["image_info"]]


@pytest.mark.parametrize(("kind", "negatives"), list(product(["hinge", "logistic", "softmax"], ["hard", "mean"])))
def test_losses_and_gradients_are_those_of_a_loop(kind: Loss, negatives: Negatives) -> None:
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


def test_hinge_by_hand() -> None:
    similar = torch.tensor([[0.5, 0.4, 0.1], [0.2, 0.9, 0.8], [0.6, 0.0, 0.3]])
    nobody = torch.zeros(3, 3, dtype=torch.bool)
    # hardest: 0.1 + 0.3, 0.1 + 0 and 0.5 + 0.7; means: 0.05 + 0.15, 0.05 + 0 and 0.25 + 0.35
    assert document_loss(similar, nobody, "hinge", 0.2, "hard").item() == pytest.approx(1.7 / 3)
    assert document_loss(similar, nobody, "hinge", 0.2, "mean").item() == pytest.approx(0.85 / 3)
    shared = nobody.clone()
    shared[0, 2] = shared[2, 0] = True  # leaves 0.1 + 0, 0.1 + 0 and 0 + 0.7
    assert document_loss(similar, shared, "hinge", 0.2, "hard").item() == pytest.approx(0.9 / 3)
    assert document_loss(similar, shared, "hinge", 0.2, "mean").item() == pytest.approx(0.85 / 3)

"""Documents compared with each other: the batch against a loop over pairs, lapjv against SciPy, the share of assignment.

The released code of Hessel et al. compares the documents of a batch in a Python loop over all pairs. Both sides here have the same
embeddings and equal losses, and take turns in one run.

python -m bench links
"""

from collections.abc import Callable
from time import perf_counter
from typing import Any, Literal, cast
from unittest.mock import patch

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from bench.__main__ import show
from bench.table import Row, in_turns
from ctxr.metrics import links as metrics
from ctxr.metrics.links import assign
from ctxr.problems.links import objective
from ctxr.problems.links.objective import document_loss, similarities
from ctxr.problems.links.recipe import LinksRecipe
from ctxr.problems.links.towers import IMAGES, SENTENCES, DocumentTowers

Kind = Literal["dc", "tk", "ap"]

KINDS: tuple[Kind, ...] = ("dc", "tk", "ap")
DOCUMENTS, WIDTH, MARGIN, GOAL = 11, 1024, 0.2, 15
EPOCH = 2000
WORDS, TOKENS, FEATURES = 5000, 20, 1664


def measure() -> list[Row]:
    """The rows of this bench."""
    return [
        *(_against_loop(kind, n, m) for n, m in ((10, 10), (50, 5)) for kind in KINDS),
        *_whole_steps(),
        *_epoch(),
        *(_solvers(n, m) for n, m in ((5, 5), (10, 10), (20, 20), (50, 50), (100, 100), (50, 5), (86, 5))),
    ]


def _embeddings(n: int, m: int) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    sentences, images = (torch.randn(DOCUMENTS * size, WIDTH, generator=generator) for size in (n, m))
    return functional.normalize(sentences, dim=1).requires_grad_(), functional.normalize(images, dim=1).requires_grad_()


def _batched(sentences: Tensor, images: Tensor, kind: Kind) -> Tensor:
    n, m = (torch.full((DOCUMENTS,), len(tower) // DOCUMENTS) for tower in (sentences, images))
    nobody = torch.zeros(DOCUMENTS, DOCUMENTS, dtype=torch.bool)
    return document_loss(similarities(sentences, images, n, m, kind), nobody, "hinge", MARGIN, "hard")


def _looped(sentences: Tensor, images: Tensor, kind: Kind) -> Tensor:
    """The same loss, pair by pair."""
    texts, pictures = (tower.view(DOCUMENTS, -1, WIDTH) for tower in (sentences, images))
    similar = [[_pair(texts[i] @ pictures[j].T, kind) for j in range(DOCUMENTS)] for i in range(DOCUMENTS)]
    losses = []
    for i in range(DOCUMENTS):
        others = [j for j in range(DOCUMENTS) if j != i]
        for pairs in ([(i, j) for j in others], [(j, i) for j in others]):
            terms = [functional.relu(MARGIN - similar[i][i] + similar[row][column]) for row, column in pairs]
            losses.append(torch.stack(terms).max())
    return torch.stack(losses).sum() / DOCUMENTS


def _pair(cosines: Tensor, kind: Kind) -> Tensor:
    if kind == "ap":
        rows, columns = (torch.from_numpy(part) for part in assign(cosines.detach().numpy()))
        return cosines[rows, columns].mean()
    best = cosines.max(1).values, cosines.max(0).values
    if kind == "tk":
        best = best[0].topk(min(cosines.shape)).values, best[1].topk(min(cosines.shape)).values
    return best[0].mean() + best[1].mean()


def _in_turns(ours: Callable[[], object], theirs: Callable[[], object], repeat: int) -> tuple[float, float]:
    """Median seconds of both, which take turns; the first calls do not count."""
    in_turns(ours, theirs, repeat=1)
    first, second = in_turns(ours, theirs, repeat=repeat)
    return first, second


def _against_loop(kind: Kind, n: int, m: int, repeat: int = 25) -> Row:
    """Similarity, loss and gradients of ready embeddings."""
    towers = _embeddings(n, m)
    torch.testing.assert_close(_batched(*towers, kind), _looped(*towers, kind), rtol=1e-5, atol=1e-6)
    ours, theirs = _in_turns(
        lambda: torch.autograd.grad(_batched(*towers, kind), towers),
        lambda: torch.autograd.grad(_looped(*towers, kind), towers),
        repeat,
    )
    floor, _ = _in_turns(lambda: _product(*towers), lambda: None, repeat)
    return Row(
        f"{kind.upper()} of {DOCUMENTS} documents of {n} x {m}: loss and gradients", ours, "loop over pairs", theirs,
        f"1/{GOAL}", ours <= theirs / GOAL, f"{theirs / ours:.1f} x; the product of the matrices alone {floor / ours:.0%}",
    )  # fmt: skip


def _product(sentences: Tensor, images: Tensor) -> object:
    """The matrix product and its two gradients, which no way of comparing documents can spare."""
    cosines = images @ sentences.T
    return torch.autograd.grad(cosines, (sentences, images), torch.ones_like(cosines))


def _whole_steps() -> list[Row]:
    """Training steps with the published towers: word vectors and a GRU, and a projection of features."""
    step = _trainer()
    rows = []
    for kind in KINDS:
        ours, theirs = _in_turns(lambda kind=kind: step(_batched, kind), lambda kind=kind: step(_looped, kind), 3)  # type: ignore[misc]
        figure = f"{kind.upper()}, whole step with GRU of {DOCUMENTS} documents of 10 x 10"
        rows.append(Row(figure, ours, "loop over pairs", theirs, note=f"{theirs / ours:.2f} x"))
    return rows


def _trainer() -> Callable[[Callable[[Tensor, Tensor, Kind], Tensor], Kind], None]:
    """A step of Adam on drawn tokens and features, given the loss."""
    generator = torch.Generator().manual_seed(0)
    recipe = LinksRecipe(width=WIDTH)
    towers = DocumentTowers(recipe, (WIDTH, FEATURES), torch.randn(WORDS, recipe.word_width, generator=generator))
    tokens = torch.randint(1, WORDS, (DOCUMENTS * 10, TOKENS), generator=generator)
    features = torch.randn(DOCUMENTS * 10, FEATURES, generator=generator)
    optimiser = torch.optim.Adam(towers.parameters(), lr=1e-4)

    def step(loss: Callable[[Tensor, Tensor, Kind], Tensor], kind: Kind) -> None:
        sentences = towers.project(SENTENCES, towers.encode(SENTENCES, tokens))
        images = towers.project(IMAGES, towers.encode(IMAGES, features))
        optimiser.zero_grad()
        cast(Any, loss(sentences, images, kind)).backward()
        optimiser.step()

    return step


def _epoch() -> list[Row]:
    """The time in assignments of an epoch of AP, and of the same number of whole steps."""
    towers, step, steps = _embeddings(10, 10), _trainer(), -(-EPOCH // DOCUMENTS)
    spent = [0.0]

    def timed(*arguments: Any) -> Any:
        start = perf_counter()
        links = assign(*arguments)
        spent[0] += perf_counter() - start
        return links

    rows = []
    with patch.object(objective, "assign", timed):
        for figure, calls, call in (
            (f"AP, epoch of {EPOCH:,} documents of 10 x 10: loss and gradients", steps,
             lambda: torch.autograd.grad(_batched(*towers, "ap"), towers)),
            ("AP, 10 whole steps with GRU", 10, lambda: step(_batched, "ap")),
        ):  # fmt: skip
            spent[0], start = 0.0, perf_counter()
            for _ in range(calls):
                call()
            whole = perf_counter() - start
            rows.append(
                Row(figure, whole, note=f"{spent[0] / whole:.1%} of it in {calls * DOCUMENTS**2:,} assignments")
            )
    return rows


def _solvers(n: int, m: int) -> Row:
    """lapjv against SciPy on matrices of cosines; a matrix that is not square is padded for lapjv."""
    generator = np.random.default_rng(0)
    matrices = [generator.uniform(-1, 1, (n, m)) for _ in range(100)]

    padded = [np.pad(weights, ((0, max(n, m) - n), (0, max(n, m) - m))) for weights in matrices]

    def solve(tables: list[NDArray[np.float64]], sides: range) -> list[float]:
        with patch.object(metrics, "SIDES_FOR_LAPJV", sides):
            return [float(weights[assign(weights)].sum()) for weights in tables]

    np.testing.assert_allclose(solve(padded, range(1000)), solve(matrices, range(0)), rtol=1e-12)
    ours, theirs = _in_turns(lambda: solve(padded, range(1000)), lambda: solve(matrices, range(0)), 7)
    return Row(f"lapjv on {n} x {m}", ours / 100, "SciPy", theirs / 100, note=f"{theirs / ours:.2f} x")


if __name__ == "__main__":
    show("links", measure())

"""Best matches between two kinds of vectors: the fast search against a stable sort of all products."""

import numpy as np
import pytest

from ctxr.errors import DataError, UsageError
from ctxr.models.neighbours import NOBODY, best_matches


def vectors(seed: int, count: int, width: int = 24) -> np.ndarray:
    found = np.random.default_rng(seed).standard_normal((count, width)) + 0.5
    return np.asarray(found / np.linalg.norm(found, axis=1, keepdims=True), np.float32)


def literal(queries: np.ndarray, pool: np.ndarray, k: int, without: set[tuple[int, int]]) -> list[list[int]]:
    found = []
    for number, query in enumerate(queries):
        scored = [
            (-float(query.astype(np.float64) @ one.astype(np.float64)), place)
            for place, one in enumerate(pool)
            if (number, place) not in without
        ]
        found.append([place for _, place in sorted(scored)[:k]])
    return found


@pytest.mark.parametrize("engine", ["fp32", "bf16"])
@pytest.mark.parametrize("size", [5, 70, 1500])
def test_matches_are_those_of_a_sort_of_all_products(engine: str, size: int) -> None:
    queries, pool = vectors(1, 41), vectors(2, size)
    pool[size // 2 :: 7] = pool[0]  # equal products stand by index
    rng = np.random.default_rng(3)
    rows, columns = rng.integers(0, 41, 60), rng.integers(0, size, 60)
    expected = literal(queries, pool, 12, set(zip(rows.tolist(), columns.tolist(), strict=True)))
    for block in (7, 512):
        found = best_matches(queries, pool, 12, (rows, columns), block, engine)
        assert [[one for one in row if one != NOBODY] for row in found.indices.tolist()] == expected
        exact = np.einsum("qd,qkd->qk", queries.astype(np.float64), pool[found.indices].astype(np.float64))
        there = found.indices != NOBODY
        assert np.allclose(found.scores[there], exact[there], atol=1e-6)
        assert np.isneginf(found.scores[~there]).all()


def test_vectors_and_numbers_that_do_not_fit_are_refused() -> None:
    with pytest.raises(UsageError, match="cannot take 0 matches"):
        best_matches(vectors(1, 3), vectors(2, 3), 0)
    with pytest.raises(UsageError, match="unknown engine 'guess'"):
        best_matches(vectors(1, 3), vectors(2, 3), 1, engine="guess")
    with pytest.raises(DataError, match="do not share one space"):
        best_matches(vectors(1, 3), vectors(2, 3, 8), 1)
    with pytest.raises(DataError, match="not finite"):
        best_matches(vectors(1, 3) * np.float32(np.nan), vectors(2, 3), 1)

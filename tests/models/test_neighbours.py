"""Neighbours: the slow, obvious answer, faster."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ctxr.data.embeddings import Vectors
from ctxr.errors import UsageError
from ctxr.models.neighbours import nearest


def unit(rows: "np.ndarray[tuple[int, ...], np.dtype[np.float64]]") -> Vectors:
    vectors: Vectors = (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)
    return vectors


def slow(vectors: Vectors, k: int, exclude_self: bool) -> "np.ndarray[tuple[int, ...], np.dtype[np.int64]]":
    wide = vectors.astype(np.float64)
    answer = []
    for row in range(len(wide)):
        distances = np.sqrt(((wide - wide[row]) ** 2).sum(1))
        order = [other for other in np.argsort(distances, kind="stable") if not (exclude_self and other == row)]
        answer.append(order[:k])
    return np.array(answer)


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10**6), st.integers(20, 90), st.integers(1, 15), st.integers(2, 24), st.booleans())
def test_neighbours_are_those_of_the_obvious_way(seed: int, count: int, k: int, width: int, alone: bool) -> None:
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(count, width))
    rows[rng.integers(0, count, count // 3)] = rows[rng.integers(0, count, count // 3)]  # many exact ties
    vectors = unit(rows)
    indices, distances = nearest(vectors, k, block=17, exclude_self=alone)
    assert indices.tolist() == slow(vectors, k, alone).tolist()
    assert (np.diff(distances) >= 0).all()


def test_a_crowd_of_equal_vectors_is_told_apart_by_index() -> None:
    vectors = unit(np.ones((60, 4)))
    indices, distances = nearest(vectors, 5)
    assert indices[0].tolist() == [1, 2, 3, 4, 5]
    assert indices[7].tolist() == [0, 1, 2, 3, 4]
    assert (distances == 0).all()


@pytest.mark.parametrize(("k", "engine", "message"), [(5, "auto", "5 neighbours"), (1, "magic", "unknown engine")])
def test_what_cannot_be_had_is_one_sentence(k: int, engine: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        nearest(unit(np.eye(5)), k, engine=engine)

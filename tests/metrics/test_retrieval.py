"""Blockwise retrieval figures against literal ones: every order of ties, every query by itself."""

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise, permutations

import numpy as np
import pytest

from ctxr.errors import DataError
from ctxr.metrics import retrieval
from ctxr.metrics.retrieval import (
    Matrix,
    Relation,
    Vectors,
    average_precision,
    caption_retrieval,
    from_pairs,
    hits_at,
    number,
    relate,
    retrieved,
    top,
    trec_of_pairs,
)


def literal(order: list[int], right: set[int], ks: tuple[int, ...]) -> list[float]:
    """Recall at each k, R-precision and AP@R of one ranked list."""
    size = len(right)
    precisions = [len(set(order[:r]) & right) / r if order[r - 1] in right else 0.0 for r in range(1, size + 1)]
    recalls = [float(bool(set(order[:k]) & right)) for k in ks]
    return [*recalls, len(set(order[:size]) & right) / size, sum(precisions) / size]


def over_all_ties(scores: list[float], right: set[int], ks: tuple[int, ...]) -> list[float]:
    """The mean of `literal` over all orders that the scores allow."""
    every = permutations(range(len(scores)))
    orders = [list(one) for one in every if all(scores[a] >= scores[b] for a, b in pairwise(one))]
    means: list[float] = np.mean([literal(order, right, ks) for order in orders], axis=0).tolist()
    return means


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("block", [1, 13, 1000])
def test_figures_are_the_mean_over_all_ways_to_break_ties(
    seed: int, block: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retrieval, "BLOCK", block)
    rng = np.random.default_rng(seed)
    scores = rng.integers(0, 3, (5, 6)).astype(np.float64)
    right = relate({query: rng.choice(6, rng.integers(1, 6), replace=False).tolist() for query in (0, 1, 2, 4)})
    ks = (1, 2, 4)
    found = retrieved(Matrix(scores), right, ks)
    assert found.queries.tolist() == [0, 1, 2, 4]
    for place, query in enumerate(found.queries.tolist()):
        wanted = over_all_ties(scores[query].tolist(), set(right.of(place).tolist()), ks)
        mine = [*found.recalls[place], found.r_precision[place], found.map_at_r[place]]
        assert mine == pytest.approx(wanted)


@pytest.mark.parametrize(("ties", "end"), [("first", max), ("last", min)])
def test_ties_are_broken_in_recalls_both_ways_and_in_the_ranking(ties: str, end: Callable[..., list[float]]) -> None:
    scores, ks = np.random.default_rng(3).integers(0, 3, (5, 5)).astype(np.float32), (1, 2)
    right = relate({query: [query] for query in range(5)})
    scored = Matrix(scores, ties=ties)
    for own, of, rows in ((scored, right, scores), (scored.turned(), right.turned(), scores.T)):
        found = retrieved(own, of, ks).recalls.tolist()
        ((_, ranking, _),) = top(own, 5, of)
        assert [[query in row[:k] for k in ks] for query, row in enumerate(ranking.tolist())] == found
        for query, row in enumerate(rows.tolist()):
            orders = [
                list(order)
                for order in permutations(range(5))
                if all(row[before] >= row[after] for before, after in pairwise(order))
            ]
            assert found[query] == end(literal(order, {query}, ks)[:2] for order in orders)


def test_only_queries_of_the_ground_truth_are_asked() -> None:
    scores = np.array([[1.0, 0.0], [np.nan, np.nan]])
    assert retrieved(Matrix(scores), relate({0: [0]})).recalls[:, 0].tolist() == [1.0]
    assert len(retrieved(Matrix(scores), relate({})).recalls) == 0


def test_vectors_and_their_matrix_give_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    queries, gallery = (rng.standard_normal((n, 4)).astype(np.float32) for n in (30, 50))
    right = from_pairs(rng.integers(0, 30, 90), rng.integers(0, 50, 90))
    other = retrieved(Matrix(queries @ gallery.T), right)
    monkeypatch.setattr(retrieval, "BLOCK", 7 * 50)
    one = retrieved(Vectors(queries, gallery), right)
    assert one.map_at_r == pytest.approx(other.map_at_r)
    turned = retrieved(Vectors(queries, gallery).turned(), right.turned())
    assert turned.map_at_r == pytest.approx(retrieved(Matrix((queries @ gallery.T).T), right.turned()).map_at_r)


def slow_recalls(scores: np.ndarray, owners: list[int], folds: int, k: int) -> tuple[float, float]:
    """TR@k and IR@k by sorting, fold by fold."""
    images = len(scores)
    tr, ir = [], []
    for fold in range(folds):
        inside = [i for i in range(images) if i * folds // images == fold]
        captions = [c for c, owner in enumerate(owners) if owner in inside]
        asked = [i for i in inside if i in owners]
        tr.append(
            np.mean([any(owners[c] == i for c in sorted(captions, key=lambda c: -scores[i, c])[:k]) for i in asked])
        )
        ir.append(np.mean([owners[c] in sorted(inside, key=lambda i: -scores[i, c])[:k] for c in captions]))
    return float(np.mean(tr)), float(np.mean(ir))


@pytest.mark.parametrize("folds", [1, 5])
def test_recalls_need_no_five_captions(folds: int) -> None:
    rng = np.random.default_rng(1)
    owners = rng.permutation(np.repeat(np.arange(23), rng.integers(0, 8, 23)))
    scores = rng.standard_normal((23, len(owners)))
    found = caption_retrieval(Matrix(scores), owners, folds, ks=(1, 5)).means()
    for k in (1, 5):
        assert (found[f"TR@{k}"], found[f"IR@{k}"]) == pytest.approx(slow_recalls(scores, owners.tolist(), folds, k))


def test_per_caption_recalls_stand_in_the_order_of_the_captions() -> None:
    owners = np.array([3, 0, 2, 1])
    scores = np.zeros((4, 4))
    scores[3, 0] = scores[0, 1] = 1.0
    found = caption_retrieval(Matrix(scores), owners, folds=2, ks=(1,))
    assert found.ir[:, 0].tolist() == [1.0, 1.0, 0.5, 0.5]
    assert found.caption_folds.tolist() == [1, 0, 1, 0]


def test_the_best_k_are_those_of_a_stable_sort(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retrieval, "BLOCK", 25)
    rng = np.random.default_rng(2)
    scores = rng.integers(0, 4, (9, 11)).astype(np.float32)
    for k in (1, 4, 30):
        parts = list(top(Matrix(scores), k))
        best = np.concatenate([part[1] for part in parts])
        assert np.array_equal(best, np.argsort(-scores, axis=1, kind="stable")[:, :k])
        assert np.array_equal(np.concatenate([part[2] for part in parts]), np.take_along_axis(scores, best, axis=1))


def test_hits_count_half_where_a_tie_leaves_half_the_room() -> None:
    scores, marked = np.array([[2.0, 1.0, 1.0, 0.0]]), np.array([[True, True, False, False]])
    assert [hits_at(scores, marked, k).tolist() for k in (1, 2, 3, 9)] == [[1.0], [1.5], [2.0], [2.0]]
    assert average_precision(scores, marked, np.array([2])).tolist() == [0.75]


def test_a_score_that_is_no_number_is_refused() -> None:
    with pytest.raises(DataError, match=r"query 0: .* candidate 1 is nan"):
        retrieved(Matrix(np.array([[0.0, np.nan]])), relate({0: [0]}))


def held(relation: Relation) -> set[tuple[int, int]]:
    queries, candidates = relation.pairs()
    return set(zip(queries.tolist(), candidates.tolist(), strict=True))


def test_relations_are_sets_of_pairs() -> None:
    rng = np.random.default_rng(3)
    one, two = (from_pairs(rng.integers(0, 9, 30), rng.integers(0, 7, 30)) for _ in range(2))
    assert held(one.joined(two)) == held(one) | held(two)
    assert held(one.turned()) == {(candidate, query) for query, candidate in held(one)}
    dense = one.among(np.arange(12), 7)
    assert {(int(q), int(c)) for q, c in np.argwhere(dense)} == held(one)


def test_names_that_nobody_scored_are_left_out_and_those_of_asked_queries_counted() -> None:
    named = {"a": ["x", "y"], "b": ["z"], "c": ["x"], "d": ["y", "z"]}
    found = number(named, {"a": 1, "b": 2, "d": 0}, {"x": 4, "y": 5})
    assert held(found) == {(1, 4), (1, 5), (0, 5)}
    assert found.absent.tolist() == [1, 0]


def test_right_candidates_that_nobody_scored_count_as_never_found() -> None:
    scores = np.array([[4.0, 3.0, 2.0, 1.0], [1.0, 2.0, 3.0, 4.0]])
    right, absent = relate({0: [0, 2], 1: [3]}), np.array([1, 9])
    found = retrieved(Matrix(scores), replace(right, absent=absent), (1,))
    for place, row in enumerate(scores):
        order = np.argsort(-row).tolist() + list(range(10, 20))
        wanted = literal(order, {*right.of(place).tolist(), *range(100, 100 + int(absent[place]))}, (1,))
        assert [*found.recalls[place], found.r_precision[place], found.map_at_r[place]] == pytest.approx(wanted)


@pytest.mark.parametrize("seed", range(3))
def test_condensed_rankings_are_those_of_tables_without_the_dropped_candidates(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retrieval, "BLOCK", 13)
    rng, ks = np.random.default_rng(seed), (1, 2, 3)
    scores = rng.integers(0, 4, (5, 9)).astype(np.float64)
    right = relate({query: rng.choice(4, 2, replace=False).tolist() for query in (0, 1, 3, 4)})
    dropped = relate({query: (4 + rng.choice(5, rng.integers(0, 4), replace=False)).tolist() for query in range(5)})
    condensed = Matrix(scores, dropped=dropped)
    measured, trec = retrieved(condensed, right, ks), trec_of_pairs(condensed, right, ks, 4)
    best = {int(query): row for queries, rows, _ in top(condensed, 3) for query, row in zip(queries, rows, strict=True)}
    for place, query in enumerate(right.queries.tolist()):
        kept = np.flatnonzero(~dropped.among(np.array([query]), 9)[0])
        alone = Matrix(scores[query : query + 1, kept])
        of = relate({0: np.searchsorted(kept, right.of(place)).tolist()})
        slow = retrieved(alone, of, ks)
        assert measured.recalls[place].tolist() == pytest.approx(slow.recalls[0].tolist())
        assert measured.map_at_r[place] == pytest.approx(slow.map_at_r[0])
        for name, values in trec_of_pairs(alone, of, ks, 4).items():
            assert trec[name][place] == pytest.approx(values[0])
        (_, (first,), _) = next(iter(top(alone, 3)))
        assert best[query].tolist() == kept[first].tolist()
    rows, columns = np.array([1, 3, 4]), np.array([0, 2, 5, 6, 8])
    every = np.arange(5)
    part = condensed.rows(every)[np.ix_(rows, columns)]
    assert np.array_equal(condensed.part(rows, columns).rows(np.arange(3)), part)
    assert np.array_equal(condensed.turned().rows(np.arange(9)), condensed.rows(every).T)

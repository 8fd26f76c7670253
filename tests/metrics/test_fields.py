"""Distances and answers by kind of field, against the slow obvious versions."""

from itertools import combinations

import numpy as np
import pytest

from ctxr.metrics.agreement import NO_PAIR, NO_VARIATION, Agreement, alpha, distance_alpha, masi
from ctxr.metrics.fields import KINDS, Distance, discordance, euclidean, masi_distance
from ctxr.metrics.votes import Doubles, gather


def votes(kind: str, count: int, rng: np.random.Generator) -> Doubles:
    if kind in ("choice", "several"):
        chosen = rng.random((count, 4)) < 0.5
        return (np.eye(4)[rng.integers(0, 4, count)] if kind == "choice" else chosen).astype(np.float64)
    if kind == "order":
        return np.array([rng.permutation(5) for _ in range(count)], np.float64)
    if kind == "box":
        return np.hstack([rng.random((count, 2)) / 2, 0.05 + rng.random((count, 2)) / 2.5])
    return rng.integers(1, 6, (count, 1)).astype(np.float64) if kind == "scale" else rng.random((count, 2))


def slow(kind: str, one: Doubles, other: Doubles) -> float:
    if kind in ("choice", "several"):
        return masi(set(np.flatnonzero(one).tolist()), set(np.flatnonzero(other).tolist()))  # type: ignore[arg-type]
    if kind == "order":
        pairs = [*combinations(range(len(one)), 2)]
        return float(np.mean([(one[i] < one[j]) != (other[i] < other[j]) for i, j in pairs]))
    if kind == "box":
        # the picture as 200 x 200 points, half a step from its edges
        steps = (np.arange(400) + 0.5) / 400
        inside = [
            np.outer((x <= steps) & (steps < x + w), (y <= steps) & (steps < y + h)) for x, y, w, h in (one, other)
        ]
        return float(1 - (inside[0] & inside[1]).sum() / (inside[0] | inside[1]).sum())
    return float(np.sqrt(sum((a - b) ** 2 for a, b in zip(one, other, strict=True))))


@pytest.mark.parametrize("kind", KINDS)
def test_a_distance_is_that_of_the_slow_version_and_0_for_equals(kind: str) -> None:
    rng = np.random.default_rng(5)
    left, right = votes(kind, 9, rng), votes(kind, 7, rng)
    found = KINDS[kind].distance(left, right)
    expected = [[slow(kind, one, other) for other in right] for one in left]
    assert found == pytest.approx(np.array(expected), abs=0.03 if kind == "box" else 1e-12)
    assert np.diag(KINDS[kind].distance(left, left)) == pytest.approx(np.zeros(9), abs=1e-12)


def slow_alpha(units: list[str], values: Doubles, distance: Distance) -> float:
    """By the definition: the mean difference within units, each vote once, over that of all pairs of votes."""
    table = distance(values, values)
    rows = [row for row, unit in enumerate(units) if units.count(unit) > 1]
    within = sum(table[i, j] / (units.count(units[i]) - 1) for i in rows for j in rows if units[i] == units[j])
    between = sum(table[i, j] for i in rows for j in rows)
    return float(1 - (len(rows) - 1) * within / between)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(3))
def test_alpha_of_a_distance_is_the_slow_sum(kind: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    units = [f"u{number}" for number in rng.integers(0, 12, 40)]
    values = votes(kind, 40, rng)
    distance, _, power = KINDS[kind]

    def difference(one: Doubles, other: Doubles) -> Doubles:
        return distance(one, other) ** power

    found = distance_alpha(units, values, difference, rng, 0)
    assert found.value == pytest.approx(slow_alpha(units, values, difference), abs=1e-9)
    assert found.votes == sum(units.count(unit) > 1 for unit in units)
    assert found.units == sum(units.count(unit) > 1 for unit in set(units))


def test_alpha_of_a_distance_is_nominal_alpha_of_choices_and_interval_alpha_of_numbers() -> None:
    rng = np.random.default_rng(2)
    units, workers = np.repeat(np.arange(30), 3), np.tile(np.arange(3), 30)
    picked = rng.integers(0, 4, 90)
    found = distance_alpha(units, (picked[:, None] == np.arange(4)).astype(np.float64), masi_distance, rng, 50)
    assert found.value == pytest.approx(alpha(gather(units, workers, picked)).value)
    assert found.low is not None
    assert found.high is not None
    assert found.low < (found.value or 0) < found.high
    rows = picked[:, None].astype(np.float64)
    numbers = distance_alpha(units, rows, KINDS["scale"].distance, rng, 0)
    assert numbers.value == pytest.approx(slow_alpha([str(unit) for unit in units], rows, euclidean))
    numbers = distance_alpha(units, rows, lambda one, other: euclidean(one, other) ** 2, rng, 0)
    assert numbers.value == pytest.approx(alpha(gather(units, workers, picked), "interval").value)


def test_alpha_says_why_there_is_none_and_1_where_all_agree() -> None:
    rng, points = np.random.default_rng(0), np.array([[0.1, 0.1], [0.5, 0.5]])
    assert distance_alpha(["a", "b"], points, euclidean, rng) == Agreement(None, 0, 0, NO_PAIR)
    same = distance_alpha(["a", "a"], points[[0, 0]], euclidean, rng)
    assert (same.value, same.reason) == (None, NO_VARIATION)
    assert distance_alpha([*"aabb"], points[[0, 0, 1, 1]], euclidean, rng).value == 1.0


def test_of_many_units_some_are_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ctxr.metrics.agreement.MOST_UNITS", 20)
    units, values = np.repeat(np.arange(200), 2), np.random.default_rng(1).random((400, 2))
    found = [distance_alpha(units, values, euclidean, np.random.default_rng(3), 10) for _ in range(2)]
    assert (found[0].units, found[0].votes, found[0]) == (20, 40, found[1])


def test_orders_of_fewer_pictures_are_compared_by_those_that_both_have() -> None:
    ranks = np.array([[0, 1, 2, 3], [1, 0, 2, np.nan], [np.nan, np.nan, np.nan, 0]])
    assert discordance(ranks, ranks).tolist() == [[0, 1 / 3, 0], [1 / 3, 0, 0], [0, 0, 0]]


@pytest.mark.parametrize(
    ("kind", "rows", "answer"),
    [
        ("choice", [[1, 0, 0], [1, 0, 0], [0, 1, 0]], [1, 0, 0]),
        ("several", [[1, 1, 0], [1, 0, 0], [0, 0, 1], [1, 1, 0]], [1, 0, 0]),
        ("scale", [[1], [4], [7], [4]], [4]),
        ("scale", [[1], [4]], [2.5]),
        ("point", [[0.1, 0.9], [0.2, 0.1], [0.9, 0.2]], [0.2, 0.2]),
        ("box", [[0, 0, 0.5, 0.5], [0.5, 0.5, 0.5, 0.5], [0.1, 0.2, 0.3, 0.4]], [0.1, 0.2, 0.4, 0.4]),
        ("order", [[0, 1, 2], [0, 2, 1], [2, 0, 1]], [0, 1, 2]),
    ],
)
def test_what_votes_come_to(kind: str, rows: list[list[float]], answer: list[float]) -> None:
    assert KINDS[kind].answer(np.array(rows, np.float64)) == pytest.approx(answer)


def test_a_tie_of_choices_is_no_answer() -> None:
    assert np.isnan(KINDS["choice"].answer(np.array([[1.0, 0.0], [0.0, 1.0]]))).all()


def test_a_middle_box_has_an_area_within_the_picture() -> None:
    rng = np.random.default_rng(9)
    for _ in range(200):
        x, y, w, h = KINDS["box"].answer(votes("box", int(rng.integers(1, 6)), rng))
        assert min(x, y) >= 0 < min(w, h)
        assert max(x + w, y + h) <= 1

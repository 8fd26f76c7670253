"""Alpha: published values, the literal sum over pairs, undefined cases, and what selection does to it."""

from collections import Counter
from itertools import permutations
from typing import cast

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctxr.metrics.agreement import NO_PAIR, Agreement, Level, PairedVotes, alpha, by_units
from ctxr.metrics.votes import gather
from tests.metrics.crowd import pick, table, tables

# the reliability data of Wikipedia's article on alpha, and Krippendorff's own (2011, section D)
A: list[list[float | str | None]] = [
    [None, None, None, None, None, 3, 4, 1, 2, 1, 1, 3, 3, None, 3],
    [1, None, 2, 1, 3, 3, 4, 3, None, None, None, None, None, None, None],
    [None, None, 2, 1, 3, 4, 4, None, 2, 1, 1, 3, 3, None, 4],
]
B: list[list[float | str | None]] = [
    [1, 2, 3, 3, 2, 1, 4, 1, 2, None, None, None],
    [1, 2, 3, 3, 2, 2, 4, 1, 2, 5, None, 3],
    [None, 3, 3, 3, 2, 3, 4, 2, 2, 5, 1, None],
    [1, 2, 3, 3, 2, 4, 4, 1, 2, 5, 1, None],
]
LEVELS: tuple[Level, ...] = ("nominal", "ordinal", "interval")


def slow_alpha(judged: list[tuple[int, int, float]], level: Level) -> float | None:
    """Every pair of every unit, and every pair of all votes; copies of one worker's vote are no pair."""
    by_unit: dict[int, list[tuple[int, float]]] = {}
    for unit, worker, value in judged:
        by_unit.setdefault(unit, []).append((worker, value))
    by_unit = {unit: said for unit, said in by_unit.items() if len({worker for worker, _ in said}) > 1}
    values = [value for said in by_unit.values() for _, value in said]

    ranks = Counter(values)

    def difference(one: float, other: float) -> float:
        if level == "ordinal":  # every value between, and half of the two
            between = sum(count for value, count in ranks.items() if min(one, other) <= value <= max(one, other))
            return (between - (ranks[one] + ranks[other]) / 2) ** 2 if one != other else 0.0
        return (one - other) ** 2 if level == "interval" else float(one != other)

    expected = sum(difference(one, other) for one in values for other in values)
    if not values or len(set(values)) < 2:
        return None
    observed = 0.0
    for said in by_unit.values():
        pairs = [(one, other) for one, other in permutations(said, 2) if one[0] != other[0]]
        observed += len(said) * sum(difference(one[1], other[1]) for one, other in pairs) / len(pairs)
    return 1 - (len(values) - 1) * observed / expected


def rows_of(rows: list[list[float | str | None]]) -> list[tuple[int, int, float]]:
    return [(u, w, float(v)) for w, row in enumerate(rows) for u, v in enumerate(row) if v is not None]


def test_published_values_come_out() -> None:
    assert alpha(table(A)).value == pytest.approx(0.691358, abs=5e-7)
    assert alpha(table(A), "interval").value == pytest.approx(0.810845, abs=5e-7)
    assert alpha(table(B)).value == pytest.approx(0.743, abs=5e-4)
    assert alpha(table(B), "ordinal").value == pytest.approx(0.815, abs=5e-4)
    assert alpha(table(B), "interval").value == pytest.approx(0.849, abs=5e-4)
    assert alpha(table(B)) == Agreement(alpha(table(B)).value, units=11, votes=40)


@pytest.mark.parametrize("level", LEVELS)
@given(rows=tables())
def test_alpha_is_the_literal_sum_over_pairs(level: Level, rows: list[list[float | str | None]]) -> None:
    wanted = slow_alpha(rows_of(rows), level)
    found = alpha(table(rows), level)
    assert found.value == (None if wanted is None else pytest.approx(wanted, abs=1e-9))


@pytest.mark.parametrize("level", ["nominal", "interval"])  # ranks stay those of the votes as they are
@given(rows=tables(), seed=st.integers(0, 99))
def test_weights_are_copies_of_units_and_workers(level: Level, rows: list[list[float | str | None]], seed: int) -> None:
    paired = PairedVotes(table(rows), level)
    rng = np.random.default_rng(seed)
    for both in (False, True):
        units, workers = rng.integers(0, 3, paired.size), rng.integers(0, 3, paired.crowd)
        judged = rows_of(rows)
        sizes = {unit: sum(row[0] == unit for row in judged) for unit, _, _ in judged}
        kept = [row for row in judged if sizes[row[0]] > 1]
        unit_codes = {unit: code for code, unit in enumerate(sorted({row[0] for row in kept}))}
        worker_codes = {worker: code for code, worker in enumerate(sorted({row[1] for row in kept}))}
        copies = [
            (100 * unit + copy, worker, value)
            for unit, worker, value in kept
            for copy in range(units[unit_codes[unit]])
            for _ in range(workers[worker_codes[worker]] if both else 1)
        ]
        found = paired.weighed(units.astype(float), workers.astype(float) if both else None)
        wanted = slow_alpha(copies, level)
        assert found == (None if wanted is None else pytest.approx(wanted, abs=1e-9))


@given(rows=tables())
def test_a_table_of_differences_is_the_named_level(rows: list[list[float | str | None]]) -> None:
    votes = table(rows)
    numbers = votes.labels.astype(float)
    differences = {"interval": (numbers[:, None] - numbers) ** 2, "nominal": (numbers[:, None] != numbers) * 1.0}
    for level, table_of in differences.items():
        wanted = alpha(votes, cast("Level", level)).value
        found = alpha(votes, table_of).value
        assert found == (None if wanted is None else pytest.approx(wanted, abs=1e-9))


def test_numbers_far_from_zero_lose_no_digits() -> None:
    far: list[list[float | str | None]] = [
        [None if value is None else float(value) + 1e9 for value in row] for row in B
    ]
    assert alpha(table(far), "interval").value == pytest.approx(alpha(table(B), "interval").value, abs=1e-6)


@pytest.mark.parametrize("level", ["nominal", "interval"])  # ranks stay those of the votes as they are
def test_an_outlier_that_is_not_drawn_leaves_no_trace(level: Level) -> None:
    outlier = [[*row, far] for row, far in zip(B, (1e9, 1, None, None), strict=True)]
    paired, kept = PairedVotes(table(outlier), level), PairedVotes(table(B), level)
    drawn = np.ones(paired.size)
    drawn[-1] = 0
    assert kept.size == paired.size - 1
    assert paired.weighed(drawn) == pytest.approx(kept.weighed(), abs=1e-6)
    # all that is drawn says the same
    for value in (0.1, 1e9 / 3):
        paired = PairedVotes(table([[1, 2, value, value, value], [2, 1, value, value, value]]), level)
        assert paired.weighed(np.array([0.0, 0, 1, 2, 1])) is None


def test_undefined_is_said_and_why() -> None:
    assert alpha(table([[1, 1], [1, 1]])) == Agreement(None, 2, 4, "no variation")
    assert alpha(table([[1, None], [None, 2]])) == Agreement(None, 0, 0, NO_PAIR)
    assert alpha(gather([], [], []), "interval") == Agreement(None, 0, 0, NO_PAIR)
    # values that only lone votes bring do not vary
    assert alpha(table([[1, 2], [1, None]])).reason == "no variation"


def test_intervals_are_the_percentiles_of_resampled_tables() -> None:
    votes = pick(np.random.default_rng(1), 30, 3, np.full(6, 0.7)).votes()
    found = by_units(votes, "nominal", np.random.default_rng(2), resamples=200)
    rng, values = np.random.default_rng(2), []
    for _ in range(200):
        drawn = rng.integers(0, 30, 30)
        copies = [
            (copy, int(votes.workers[row]), float(votes.values[row]))
            for copy, unit in enumerate(drawn)
            for row in np.flatnonzero(votes.units == unit)
        ]
        values.append(slow_alpha(copies, "nominal"))
    assert (found.low, found.high) == pytest.approx(tuple(np.quantile(np.array(values, float), [0.025, 0.975])))
    assert found.resamples == 200
    assert found.value == alpha(votes).value


def test_workers_of_uneven_skill_widen_the_interval_over_both() -> None:
    skills = np.array([0.95] * 6 + [0.3] * 3)
    votes = pick(np.random.default_rng(1), 400, 3, skills).votes()
    units = by_units(votes, "nominal", np.random.default_rng(3), resamples=200)
    both = by_units(votes, "nominal", np.random.default_rng(3), resamples=200, workers=True)
    assert width(both) > 2 * width(units)


def test_undefined_votes_get_no_interval() -> None:
    for workers in (False, True):
        assert by_units(table([[1, 1], [1, 1]]), "nominal", np.random.default_rng(0), workers=workers).low is None
        assert by_units(gather([], [], []), "nominal", np.random.default_rng(0), workers=workers).reason == NO_PAIR


def width(agreement: Agreement) -> float:
    assert agreement.low is not None
    assert agreement.high is not None
    return agreement.high - agreement.low


def test_votes_that_were_accepted_for_naming_the_target_agree_too_well() -> None:
    picks = pick(np.random.default_rng(7), 3000, 3, np.full(40, 0.85), alike=0.5)
    votes, right = picks.votes(), picks.right.reshape(-1, 3)
    accepted = (right.sum(1) >= 2)[picks.units]
    # the third vote is asked for only where the first two were one right and one wrong
    asked = np.column_stack([np.ones((3000, 2), bool), right[:, 0] != right[:, 1]]).reshape(-1)
    honest, early, chosen, released = (
        alpha(votes.where(each)).value or 0.0 for each in (asked | True, asked, accepted, asked & accepted)
    )
    assert honest < chosen < released
    assert early < released
    assert picks.right[accepted].mean() > picks.right.mean()
    # more than another sample of units would move it; at an accuracy of .95 there is little left to select
    found = by_units(votes, "nominal", np.random.default_rng(8), resamples=200)
    assert found.high is not None
    assert found.high < released

"""Kappas and AC1: published examples and literal versions; tags."""

from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctxr.metrics.agreement import NO_PAIR, Agreement, cohen, fleiss, gwet, masi, masi_alpha, tag_alphas
from ctxr.metrics.votes import Votes, gather
from tests.metrics.crowd import table, tables


def from_counts(counts: list[list[int]]) -> Votes:
    """Votes of a table unit x value of counts; workers are those who come first, second …"""
    rows = [
        (unit, place, value)
        for unit, row in enumerate(counts)
        for place, value in enumerate(value for value, count in enumerate(row) for _ in range(count))
    ]
    return gather([row[0] for row in rows], [row[1] for row in rows], [row[2] for row in rows])


def slow_agreeing(rows: list[list[float | str | None]]) -> tuple[float, dict[float | str, float]] | None:
    """Mean share of agreeing pairs and mean share of each value, unit by unit."""
    units = [[value for value in column if value is not None] for column in zip(*rows, strict=True)]
    units = [said for said in units if said]
    pairs = [list(combinations(said, 2)) for said in units if len(said) > 1]
    if not pairs:
        return None
    observed = sum(sum(one == other for one, other in each) / len(each) for each in pairs) / len(pairs)
    kinds = {value for said in units for value in said}
    return observed, {value: sum(said.count(value) / len(said) for said in units) / len(units) for value in kinds}


def test_cohens_own_table_gives_his_kappa() -> None:
    # Cohen (1960), table 1: shares .25 .13 .12 / .12 .02 .16 / .03 .15 .02, kappa -.09 after rounding
    shares = [[25, 13, 12], [12, 2, 16], [3, 15, 2]]
    pairs = [(one, other) for one, row in enumerate(shares) for other, count in enumerate(row) for _ in range(count)]
    found = cohen(table([[one for one, _ in pairs], [other for _, other in pairs]]))
    assert found.value == pytest.approx((0.29 - 0.35) / 0.65)
    assert (found.units, found.votes) == (100, 200)


@given(rows=tables(workers=2, units=9))
def test_cohen_is_the_literal_sum(rows: list[list[float | str | None]]) -> None:
    if len(rows) < 2:
        rows.append([0.0] * len(rows[0]))
    if any(all(value is None for value in row) for row in rows):
        return
    both = [each for each in zip(*rows, strict=True) if None not in each]
    expected = sum(one != other for one, _ in both for _, other in both) / max(1, len(both)) ** 2
    found = cohen(table(rows))
    assert found.units == len(both)
    if not expected:
        assert found.value is None
    else:
        observed = sum(one != other for one, other in both) / len(both)
        assert found.value == pytest.approx(1 - observed / expected, abs=1e-9)


def test_cohen_says_when_it_cannot_compare_two() -> None:
    assert cohen(table([[1, 1], [1, 1]])) == Agreement(None, 2, 4, "no variation")
    assert cohen(table([[1, None], [None, 1]])) == Agreement(None, 0, 0, NO_PAIR)
    assert cohen(table([["left", "right"], ["left", "right"]])).value == 1.0


def test_fleiss_on_fourteen_raters_gives_the_published_value() -> None:
    # the ten units and five values of Wikipedia's article on Fleiss' kappa
    counts = [
        [0, 0, 0, 0, 14], [0, 2, 6, 4, 2], [0, 0, 3, 5, 6], [0, 3, 9, 2, 0], [2, 2, 8, 1, 1],
        [7, 7, 0, 0, 0], [3, 2, 6, 3, 0], [2, 5, 3, 2, 2], [6, 5, 2, 1, 0], [0, 2, 2, 3, 7],
    ]  # fmt: skip
    assert fleiss(from_counts(counts)).value == pytest.approx(0.210, abs=5e-4)


def test_ac1_stays_high_where_kappa_falls() -> None:
    # 125 units: both yes 118, one yes 5 and 2, both no 0 (Gwet 2008)
    one = ["yes"] * 123 + ["no"] * 2
    other = ["yes"] * 118 + ["no"] * 5 + ["yes"] * 2
    votes = table([list(one), list(other)])
    assert gwet(votes, 2).value == pytest.approx(0.9408, abs=5e-5)
    assert cohen(votes).value == pytest.approx(-0.0234, abs=5e-5)


@given(rows=tables())
def test_fleiss_and_gwet_are_their_definitions(rows: list[list[float | str | None]]) -> None:
    wanted = slow_agreeing(rows)
    votes = table(rows)
    kappa, first, ten = fleiss(votes), gwet(votes, len(votes.labels)), gwet(votes, 10)
    if wanted is None:
        assert kappa == first == ten == Agreement(None, 0, 0, NO_PAIR)
        return
    observed, shares = wanted
    chance = sum(share * share for share in shares.values())
    if len(shares) == 1:
        assert kappa.reason == first.reason == "no variation"
        assert ten.value == 1.0
        return
    assert kappa.value == pytest.approx((observed - chance) / (1 - chance), abs=1e-9)
    for found, kinds in ((first, len(shares)), (ten, 10)):
        guessed = sum(share * (1 - share) for share in shares.values()) / (kinds - 1)
        assert found.value == pytest.approx((observed - guessed) / (1 - guessed), abs=1e-9)


def test_masi_counts_common_tags_and_who_holds_whom() -> None:
    assert masi([], []) == 0
    assert masi(["a"], []) == 1
    assert masi(["a", "b"], ["b", "a"]) == 0
    assert masi("a", "ab") == pytest.approx(1 - 1 / 2 * 2 / 3)
    assert masi("ab", "bc") == pytest.approx(1 - 1 / 3 * 1 / 3)
    assert masi("ab", "cd") == 1


@given(st.lists(st.lists(st.sampled_from(["a", "b", "a b"]), max_size=3), min_size=4, max_size=10))
def test_alpha_over_sets_is_the_literal_sum(tags: list[list[str]]) -> None:
    units, workers = [row // 2 for row in range(len(tags))], [row % 2 for row in range(len(tags))]
    found = masi_alpha(units, workers, tags)
    kept = tags[: len(tags) // 2 * 2]
    expected = sum(masi(one, other) for one in kept for other in kept)
    if not expected:
        assert found.value is None
        return
    observed = 2 * sum(masi(one, other) for one, other in zip(kept[::2], kept[1::2], strict=True))
    assert found.value == pytest.approx(1 - (len(kept) - 1) * observed / expected, abs=1e-9)


def test_each_tag_has_its_own_alpha_and_prevalence() -> None:
    units, workers = [1, 1, 2, 2], ["x", "y", "x", "y"]
    rows = tag_alphas(units, workers, [{"t", "s"}, {"t"}, {"s"}, {"s"}])
    assert [(tag, prevalence, found.value) for tag, prevalence, found in rows] == [("s", 0.75, 0.0), ("t", 0.5, 1.0)]
    assert tag_alphas(units, workers, [[], [], [], []]) == []
    ((*_, always),) = tag_alphas(units, workers, [["u"]] * 4)
    assert always.reason == "no variation"

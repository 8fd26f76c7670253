import random

import pytest

from ctxr.annotation.cost import (
    chance_kept,
    expected_votes,
    pay_per_hour,
    platform_fee,
    require_floor,
)
from ctxr.errors import UsageError


def simulated(right: float, needed: int, most: int, rng: random.Random) -> tuple[int, bool]:
    hits = misses = 0
    while hits < needed and most - misses >= needed:
        hit = rng.random() < right
        hits, misses = hits + hit, misses + (not hit)
    return hits + misses, hits >= needed


@pytest.mark.parametrize(("right", "needed", "most"), [(0.3, 2, 3), (0.735, 1, 1), (0.9, 2, 3), (0.5, 3, 5)])
def test_expected_votes_and_kept_are_what_a_simulation_gives(right: float, needed: int, most: int) -> None:
    rng = random.Random(1)
    drawn = [simulated(right, needed, most, rng) for _ in range(20_000)]
    assert sum(votes for votes, _ in drawn) / 20_000 == pytest.approx(expected_votes(right, needed, most), abs=0.03)
    assert expected_votes(1.0, 2, 3, full=0.1) == pytest.approx(0.9 * 2 + 0.1 * 3)
    assert sum(kept for _, kept in drawn) / 20_000 == pytest.approx(chance_kept(right, needed, most), abs=0.015)


def test_the_papers_pay_meets_the_floor_up_to_the_times_counted_by_hand() -> None:
    assert pay_per_hour(10, 45) == 800
    require_floor("retrieve", 10, 45, 800, "--reward")
    with pytest.raises(UsageError, match=r"7\.20") as caught:
        require_floor("retrieve", 10, 50, 800, "--reward")
    assert caught.value.hint == "--reward 12"


@pytest.mark.parametrize(
    ("platform", "cents", "percent", "fee"),
    [("local", 25, None, 0), ("local", 25, 20.0, 5), ("prolific", 30, 33.3, 9.99)],
)
def test_fees_are_the_platforms(platform: str, cents: int, percent: float | None, fee: float) -> None:
    assert platform_fee(platform, cents, percent) == pytest.approx(fee)


def test_an_unknown_fee_is_asked_for_and_never_guessed() -> None:
    with pytest.raises(UsageError, match="on your account"):
        platform_fee("prolific", 10)

"""Numbers on axes: round ticks, bars that hold every value, limits where they belong, times as people write them."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctxr.pipelines.inspection.pages.edition import time_code
from ctxr.pipelines.inspection.pages.plots import HEIGHT, LEFT, RIGHT, WIDTH, axis_number, curve, histogram, ticks


@given(st.floats(-1e6, 1e6), st.floats(1e-6, 1e6), st.integers(2, 10))
def test_ticks_are_few_even_and_within_the_axis(low: float, length: float, most: int) -> None:
    found = ticks(low, low + length, most)
    assert len(found) <= most + 1
    rounding = 1e-6 * length + 1e-10 + 2 * np.spacing(1e6)
    assert all(low - rounding <= value <= low + length + rounding for value in found)
    if len(found) > 2:
        steps = np.diff(found)
        assert steps.max() == pytest.approx(steps.min(), rel=1e-3, abs=2e-10 + 4 * np.spacing(1e6))


@given(st.lists(st.floats(-2, 3), min_size=1, max_size=60), st.floats(-1, 2))
def test_every_value_is_in_a_bar_and_every_bar_in_the_box(values: list[float], limit: float) -> None:
    plot = histogram("t", "x", "y", [("kept", "values", values)], (limit, "limit"))
    assert sum(int(bar.title.rsplit(": ", 1)[1].split()[0]) for bar in plot.bars) == len(values)
    assert all(bar.x >= LEFT and bar.x + bar.width <= WIDTH - RIGHT + 1 for bar in plot.bars)
    assert all(bar.y > 0 and bar.height > 0 and bar.y + bar.height <= HEIGHT for bar in plot.bars)
    assert plot.limit
    assert LEFT <= plot.limit[0] <= WIDTH - RIGHT


def test_series_are_stacked() -> None:
    plot = histogram("t", "x", "y", [("a", "low", [0.1]), ("b", "high", [0.1, 0.1])])
    (first, second) = plot.bars
    assert first.x == second.x
    assert second.y + second.height == pytest.approx(first.y)
    assert second.height == pytest.approx(2 * first.height, abs=0.02)


def test_no_value_is_an_empty_plot_with_axes() -> None:
    plot = histogram("t", "x", "y", [("a", "none", [])], (0.65, "limit 0.65"))
    assert not plot.bars
    assert len(plot.x_ticks) > 1
    assert len(plot.y_ticks) > 1


def test_a_bar_says_its_range_and_count() -> None:
    plot = histogram("t", "x", "y", [("a", "images", [0.1, 0.12])], percent=True)
    assert plot.bars[0].title == "10 to 10.4 %: 1 images"


def test_the_threshold_in_force_is_in_the_middle_of_the_yield_curve() -> None:
    points = [(0.175, 9.0, "~ "), (0.35, 4.0, ""), (0.7, 0.0, "~ ")]
    plot = curve("t", "x", "y", points, (0.35, "threshold 0.35"))
    assert plot.limit
    assert plot.limit[0] == plot.line[1][0] == (LEFT + WIDTH - RIGHT) / 2
    assert [y for _, y, _ in plot.line] == sorted(y for _, y, _ in plot.line)
    assert ["~" in title for _, _, title in plot.line] == [True, False, True]
    assert "~" in plot.note
    assert not curve("t", "x", "y", points[1:2], None).note


@pytest.mark.parametrize(
    ("time", "code"),
    [
        (Fraction(0), "0:00.000"),
        (Fraction(321, 50), "0:06.420"),
        (Fraction(1001, 30), "0:33.367"),
        (Fraction(59_9996, 10_000), "1:00.000"),
        (Fraction(3723), "1:02:03.000"),
        (Fraction(-1, 2), "−0:00.500"),
    ],
)
def test_times_are_written_as_codes(time: Fraction, code: str) -> None:
    assert time_code(time) == code


def test_numbers_have_no_needless_digits() -> None:
    assert [axis_number(value) for value in (0.5, 3.0, 12000.0, 0.1569, 1 / 3)] == [
        "0.5",
        "3",
        "12,000",
        "0.1569",
        "0.333333",
    ]

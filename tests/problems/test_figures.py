from dataclasses import replace

from ctxr.metrics.compare import Interval
from ctxr.problems.figures import RunDifference, resolution


def test_a_split_resolves_what_the_widest_interval_of_two_runs_does_or_one_with_independent_errors() -> None:
    row = RunDifference("test", "all", "a", "b", 100, Interval(0.05, 0.03, 0.07, 10**9), 0.1, 0.1, None, None)
    wide = replace(row, interval=Interval(0.05, 0.01, 0.09, 10**9))
    other = replace(row, part="video", interval=Interval(0.05, -0.5, 0.5, 10**9))
    said = resolution("test", [], [row, wide, other])
    assert f"{100 * 0.04 * 2.8016 / 1.95996:.1f} points" in said
    alone = resolution("test", [Interval(0.3, 0.26, 0.34, 10**9)], [replace(row, split="valid")])
    assert f"{100 * 0.04 * 2**0.5 * 2.8016 / 1.95996:.1f} points" in alone
    assert resolution("test", [Interval(0.3)], []) == ""

"""The table, the store and the page of `python -m bench`."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from defusedxml.ElementTree import fromstring

from bench.crowd_answers import write_answers
from bench.growth import PHOTOS, TINY, UNLOOPED, VIDEO, VIT, expectations, exponent
from bench.page import HEAD, page
from bench.processes import held, tree
from bench.results import Part, measured, read, save
from bench.search import auroc
from bench.table import Median, Row, in_turns, median_seconds, number
from ctxr.annotation.artifacts import read_judgments

MACHINE = {"processor": "one, x86_64, 2 cores", "memory": "2 GiB", "GPU": "none", "piq": "not installed"}


def part(*rows: Row, **more: Any) -> Part:
    return Part(
        **{"name": "decode", "date": "2026-01-02", "seconds": 3.0, "others": 0.01, "rows": rows, "error": "", **more}
    )


def point(curve: str, size: float, seconds: float, **facts: float) -> Row:
    return Row(f"{curve} {size}", seconds, curve=curve, size=size, facts=facts, note="clips")


def test_calls_take_turns_and_each_keeps_its_runs() -> None:
    calls: list[str] = []
    first, second = in_turns(lambda: calls.append("a"), lambda: calls.append("b"), repeat=3)
    assert "".join(calls) == "ababab"
    row = Row("a", first, "b", second)
    assert isinstance(first, Median)
    assert len(row.ratios) == len(first.runs) == 3


def test_runs_that_took_no_turns_make_no_pairs() -> None:
    row = Row("a", median_seconds(lambda: None), "b", median_seconds(lambda: None))
    assert row.ratios == ()


def test_a_median_divided_is_the_median_of_the_divided() -> None:
    each = Median([3.0, 1.0, 8.0], "turns") / 2
    assert (each, each.runs, each.turns) == (1.5, (1.5, 0.5, 4.0), "turns")


@pytest.mark.parametrize(
    ("value", "text"),
    [(0, "0"), (0.9996, "1.00"), (0.0123456, "0.0123"), (12.345, "12.3"), (999.6, "1,000"), (16_123.4, "16,123")],
)
def test_a_number_has_three_digits_or_all_before_the_point(value: float, text: str) -> None:
    assert number(value) == text


def test_each_row_is_a_line_of_the_table_beside_its_peer() -> None:
    row = Row("a | b", Median([0.2, 0.1, 0.3], "t"), "peer", Median([0.4, 0.4, 0.4], "t"), "<= .4", False, "why\nnot")
    text, plot = page(MACHINE, [part(row, Row("memory", 1512.4, unit="MiB"))])
    lines = text[text.index("| figure ") :].splitlines()
    assert [line.strip("| ") for line in lines[3:5]] == [
        "a / b | 200 ms (100–300) | peer | 400 ms (400–400) | 0.500 (0.250–0.750) | <= .4 | **NO** | why not",
        "memory | 1,512 MiB |  |  |  |  |  |".strip("| "),
    ]
    assert {line.count("|") for line in lines[:5]} == {len(HEAD) + 1}
    assert plot == ""


def test_a_busy_machine_and_a_failed_part_are_named() -> None:
    text, _ = page(MACHINE, [part(others=0.4), part(name="links", error="ValueError: 17")])
    assert "these parts: decode." in text
    assert "**failed**: ValueError: 17" in text


def test_a_busy_machine_shows_ratios_and_no_time() -> None:
    slow = Row("a", 2.0, "peer", 4.0, "<= 1", True, "7 of 9 within 340 ms, 12.7 images/s")
    rows = slow, Row("b", 2.0, target="<= 200 ms", met=True), Row("c", 64.0, unit="MiB")
    points = [point(VIDEO.format(TINY), size, 3 * size, **{"processor s": 5.5}) for size in (1.0, 2.0)]
    hour = point(UNLOOPED.format(TINY), 2.0, 33.0, sets=4, GB=0.01)
    text, _ = page(MACHINE, [part(*rows, *points, hour, others=0.06)])
    lines = text[text.index("| figure ") :].splitlines()
    assert lines[3] == "| a | – | peer | – | 0.500 | <= 1 | yes | 7 of 9 within – ms, – images/s |"
    assert lines[4] == "| b | – |  |  |  | <= 200 ms |  |  |"
    assert lines[5] == "| c | 64.0 MiB |  |  |  |  |  |  |"
    assert "| minutes of video | time |\n| ---: | ---: |\n| 1.00 | 1.00 x |\n| 2.00 | 2.00 x |" in text
    assert "120 sets" in text
    assert "16 minutes" not in text


def test_a_bench_that_fails_leaves_its_reason() -> None:
    result = measured("absent")
    assert (result.rows, "bench.absent" in result.error) == ((), True)


def test_what_was_kept_is_read_as_it_was(tmp_path: Path) -> None:
    rows = Row("a", Median([2.0, 1.0], "t"), "b", Median([3.0, 5.0], "t"), facts={"GB": 0.5}), Row("c", 4.0)
    save(tmp_path / "results.json", {**MACHINE, "piq": "0.8"}, [part(*rows)])
    facts, parts = read(tmp_path / "results.json", MACHINE)
    assert facts["piq"] == "0.8"
    assert parts["decode"] == part(*rows)
    assert parts["decode"].rows[0].ratios == rows[0].ratios


def test_parts_of_another_machine_are_forgotten(tmp_path: Path) -> None:
    save(tmp_path / "results.json", MACHINE, [part(Row("a", 1.0))])
    other = {**MACHINE, "memory": "4 GiB"}
    assert read(tmp_path / "results.json", other) == (other, {})


def test_growth_curves_are_tables_and_lines_of_the_plot() -> None:
    rows = [point("minutes of video, x", size, 2 * size, GB=size / 10) for size in (4.0, 1.0, 2.0)]
    text, plot = page(MACHINE, [part(*rows)])
    assert "| minutes of video | time | per minute | GB |" in text
    assert "| 4.00 | 8.00 s | 2.00 s | 0.400 |" in text
    assert text.count("minutes of video, x") == 1
    drawn = fromstring(plot)
    (_, curve) = [node.attrib["points"].split() for node in drawn.iter() if node.tag.endswith("polyline")]
    heights = [float(place.partition(",")[2]) for place in curve]
    assert heights[0] - heights[1] == pytest.approx(heights[1] - heights[2], abs=0.2)


def test_the_exponent_of_a_square_is_two() -> None:
    assert exponent([(1, 3.0), (2, 12.0), (8, 192.0)]) == pytest.approx(2)


def test_what_to_expect_of_an_hour_is_scaled_from_clips_played_once() -> None:
    rows = [
        point(VIDEO.format(TINY), 30.0, 999.0),
        point(UNLOOPED.format(TINY), 6.0, 60.0, sets=22, GB=0.03),
        point(UNLOOPED.format(VIT), 6.0, 1800.0),
        point(PHOTOS, 100.0, 3.0, sets=9, GB=1),
        point(PHOTOS, 500.0, 60.0, sets=40, GB=0.1),
    ]
    footage, photos = expectations(rows)
    assert [word for word in ("10 minutes", "5 hours", "220 sets", "0.3 GB") if word not in footage] == []
    assert [word for word in ("500", "1 minutes", "40 sets", "0.1 GB") if word not in photos] == []


def test_the_simulated_crowd_gives_as_many_answers_as_asked_or_a_few_more(tmp_path: Path) -> None:
    count = write_answers(tmp_path / "judgments", 40)
    answered = read_judgments(tmp_path / "judgments")
    assert 40 <= count == len(answered.answers) < 53
    met = [(answered.units[one.unit].image_set, one.worker) for one in answered.answers]
    assert len(set(met)) == len(met)


@pytest.mark.skipif(not Path("/proc/self/smaps_rollup").exists(), reason="reads /proc")
def test_the_memory_of_a_tree_counts_what_children_hold() -> None:
    before = sum(map(held, tree(os.getpid())))
    code = "held = bytearray(b'1') * (64 << 20); print(len(held), flush=True); input()"
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        child.stdout.readline()
        grown = sum(map(held, tree(os.getpid()))) - before
        child.communicate(b"\n")
    # a little less: what pytest itself holds may shrink meanwhile
    assert grown >= 60 << 10


def test_the_area_is_the_share_of_pairs_in_the_right_order() -> None:
    rng = np.random.default_rng(0)
    right, scores = rng.random(40) < 0.4, rng.integers(0, 6, 40).astype(np.float64)
    pairs = scores[right][:, None] - scores[~right]
    assert auroc(right, scores) == pytest.approx((np.sign(pairs) / 2 + 0.5).mean())

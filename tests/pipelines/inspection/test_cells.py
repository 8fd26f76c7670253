"""The table of published figures: it refers to what exists, its arithmetic is that of fractions, and a verdict follows from a tolerance."""

import inspect
import itertools
import math
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction

import pytest

from ctxr.pipelines.inspection.cells import ARITHMETIC, TABLE, compute, read_cells, verdict_on
from ctxr.pipelines.inspection.config import PAPERS, Cell, Found
from ctxr.pipelines.inspection.measures import FINDERS, MEASURES

PAPER = read_cells(TABLE)
ALL = [(paper, name, cell) for paper, table in PAPER.items() for name, cell in table.cells.items()]


def slow(name: str, values: Sequence[Fraction]) -> Fraction:
    """Each function written out for the arguments of the test below, in exact numbers."""
    first, second, *others = (*values, Fraction(0))
    match name:
        case "same":
            return first
        case "sum":
            return sum(values, Fraction(0))
        case "difference":
            return first - sum(values[1:], Fraction(0))
        case "product":
            return first * second * others[0]
        case "per":
            return (first + second) / others[0]
        case "reduction":
            return 100 - first * 100 / (second + others[0])
        case "density":
            return first * 100 / second / others[0]
        case "weighted":
            return (first * second + others[0] * others[1]) / (second + others[1])
        case "rest":
            return (first * second - others[0] * others[1]) / (second - others[1])
        case "f1":
            return 2 / (1 / first + 1 / second)
        case "f0.5":
            return Fraction(5, 4) / (1 / first + Fraction(1, 4) / second)
        case "accuracy":  # count them one by one
            positives, total = others[0], others[1]
            right = positives * second / 100
            called = right * 100 / first
            return 100 * (right + (total - positives) - (called - right)) / total
    raise KeyError(name)


ARGUMENTS = {
    "same": (7.5,), "sum": (1.5, 2, 3.25), "difference": (10, 2.5, 3), "product": (2, 3.5, 4), "per": (5, 6.5, 3),
    "reduction": (3, 4, 2.5), "density": (5, 10, 4), "weighted": (15.6, 1821, 47.8, 485), "rest": (23.4, 2302, 23.8, 1800),
    "f1": (44.8, 62.7), "f0.5": (65.0, 90.9), "accuracy": (65.0, 90.9, 1006, 2000),
}  # fmt: skip


@pytest.mark.parametrize("name", ARITHMETIC)
def test_arithmetic_is_that_of_fractions_and_rounding_adds_up(name: str) -> None:
    arguments = ARGUMENTS[name]
    cells = {"a": Cell("t", "f", arguments[0], within=0.05)}
    found = compute(Cell("t", "f", 0, arithmetic={name: ("a", *arguments[1:])}), cells)
    exact = [Fraction(repr(one)) for one in arguments]
    assert found.value == pytest.approx(float(slow(name, exact)), abs=1e-9)
    digits = [Fraction(1, 20), *(_half(one) for one in arguments[1:])]
    moved = [
        slow(name, [one + sign * half for one, sign, half in zip(exact, signs, digits, strict=True)])
        for signs in itertools.product((-1, 1), repeat=len(exact))
    ]
    worst = max(abs(float(one) - found.value) for one in moved)
    assert found.margin == pytest.approx(worst, rel=0.03)  # it is the first order of the worst case


def _half(number: float) -> Fraction:
    _, _, digits = repr(number).partition(".")
    return Fraction(5, 10 ** (len(digits) + 1)) if digits else Fraction(0)


def test_every_cell_names_what_exists_and_says_what_it_takes() -> None:
    assert tuple(PAPER) == PAPERS
    assert len(ALL) >= 60
    for paper, name, cell in ALL:
        assert cell.measure or cell.arithmetic or cell.run or cell.needs, (paper, name)
        for function, arguments in cell.arithmetic.items():
            assert function in ARITHMETIC
            assert {one for one in arguments if isinstance(one, str)} <= PAPER[paper].cells.keys() - {name}
        if cell.measure:
            assert paper in FINDERS
            signature = inspect.signature(MEASURES[cell.measure])
            signature.bind(None, **cell.of)
            assert cell.whole > 0, (paper, name)
        if cell.run:
            assert cell.split
            assert cell.whole
            assert cell.needs


def test_only_doubtful_cells_contradict_the_arithmetic_between_printed_figures() -> None:
    found = [
        verdict_on(paper, name, cell, compute(cell, PAPER[paper].cells), ())
        for paper, name, cell in ALL
        if cell.arithmetic
    ]
    off = [one.cell for one in found if one.state == "off"]
    assert off
    assert all(cell.doubtful for cell in off)


COUNT = Cell("t", "f", 100)
SHARE = Cell("t", "f", 47.3, "%", 0.05)
TRAINED = Cell("t", "f", 50.0, "%", 0.05, sample=100)


@pytest.mark.parametrize(
    ("cell", "found", "state", "words"),
    [
        (COUNT, Found(100, 3), "reproduced", ("100", "exact")),
        (COUNT, Found(99, 3), "off", ("-1", "exact")),
        (SHARE, Found(47.34, 3), "reproduced", ("47.3%", "±0.05, rounding")),
        (SHARE, Found(47.36, 3), "off", ("+0.06%", "±0.05, rounding")),
        (SHARE, Found(47.36, 3, "arithmetic", margin=0.05), "reproduced", ("by arithmetic", "±0.1, rounding")),
        (
            TRAINED,
            Found(59.7, 3, "evaluation", low=1.0, high=60.25),
            "reproduced",
            ("1.00% to 60.25%", "±9.8, sampling"),
        ),
        (TRAINED, Found(59.9, 3, "evaluation"), "off", ("+9.90%", "±9.8, sampling")),
        (replace(COUNT, whole=4), Found(100, 3), "needs", ("100", "3 of 4")),
        (replace(COUNT, whole=4), Found(100, 4), "reproduced", ("100", "exact")),
        (replace(COUNT, whole=4), Found(100, 0, "arithmetic"), "reproduced", ("by arithmetic", "exact")),
        (Cell("t", "f", 0.797, within=0.0005), None, "needs", ("0.797", "the files")),
        (
            Cell("t", "f", 132300, within=100, kind="cut off"),
            Found(132375, 1),
            "reproduced",
            ("132,375", "±100, cut off"),
        ),
    ],
)
def test_a_verdict_follows_from_the_tolerance(
    cell: Cell, found: Found | None, state: str, words: Sequence[str]
) -> None:
    one = verdict_on("p", "n", cell, found, ("the files",))
    assert one.state == state
    assert bool(one.needs) == (state == "needs")
    said = f"{cell.shown(cell.value)}; {one.here}; {one.verdict}"
    assert all(word in said for word in words), said


def test_the_tolerance_of_a_sample_is_that_of_the_binomial() -> None:
    cell = Cell("t", "f", 23.4, within=0.05, sample=2302)
    draws = [math.comb(20, hits) * 0.5**20 for hits in range(21)]
    spread = math.sqrt(sum(one * (hits / 20 - 0.5) ** 2 for hits, one in enumerate(draws)))
    assert Cell("t", "f", 50, sample=20).tolerance == pytest.approx(196 * spread)
    assert cell.tolerance > 1

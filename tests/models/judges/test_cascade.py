"""A cascade decides as if each claim went from judge to judge until one is sure of it."""

import math
from functools import partial
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from ctxr.models.judges.cascade import Cascade


def judge(name: str, **facts: Any) -> Any:
    known = {"threshold": 0.5, "trained_on": frozenset(), "family": "", "toy": False, **facts}
    return SimpleNamespace(name=name, fingerprint=name.upper(), **known)


def slow(tables: np.ndarray, limits: list[tuple[float, float]]) -> tuple[list[int], list[float], list[int]]:
    values, probabilities, judges = [], [], []
    for claim in range(tables.shape[1]):
        for place, (low, high) in enumerate(limits):
            p = float(tables[place, claim])
            value = 1 if p >= high else 0 if p < low else -1
            if value != -1 or place == len(limits) - 1:
                break
        values.append(value)
        probabilities.append(p)
        judges.append(place)
    return values, probabilities, judges


@pytest.mark.parametrize("count", [0, 1, 500])
@pytest.mark.parametrize("others", [0, 1, 2])
def test_each_judge_is_asked_only_about_claims_that_those_before_it_leave_unsure(others: int, count: int) -> None:
    rng = np.random.default_rng(others)
    tables = rng.integers(0, 11, (others + 1, count)) / 10
    tables[rng.random(tables.shape) < 0.2] = math.nan
    limits, last, asked = [(0.1, 0.9), (0.3, 0.7)][:others], (0.4, 0.6), [0] * (others + 1)
    judges = tuple(judge(str(place)) for place in range(others + 1))

    def ask(one: Any, rows: np.ndarray) -> np.ndarray:
        asked[int(one.name)] = len(rows)
        return cast(np.ndarray, tables[int(one.name), rows])

    verdicts = Cascade(judges, tuple(limits)).decide(ask, count, last)
    values, probabilities, places = slow(tables, [*limits, last])
    assert verdicts.values.tolist() == values
    np.testing.assert_array_equal(verdicts.probabilities, probabilities)
    assert verdicts.judges.tolist() == places
    assert asked == [sum(place >= one for place in places) for one in range(others + 1)]


def test_a_judge_alone_keeps_its_fingerprint_and_a_cascade_has_that_of_its_judges_limits_and_order() -> None:
    cheap, dear = judge("cheap", toy=True, trained_on=frozenset("a")), judge("dear", trained_on=None)
    assert Cascade((cheap,)).fingerprint == "CHEAP"
    both = Cascade((cheap, dear), ((0.1, 0.9),))
    others = [Cascade((dear, cheap), ((0.1, 0.9),)), Cascade((cheap, dear), ((0.2, 0.9),)), Cascade((cheap,))]
    assert both.fingerprint not in {one.fingerprint for one in others}
    assert both.fingerprint == Cascade((cheap, dear), ((0.1, 0.9),)).fingerprint
    assert (both.name, both.toy, both.unknown, both.trained_on) == ("cheap, then dear", True, "dear", frozenset("a"))


def test_a_probability_at_the_limit_is_above_it_as_the_ledger_holds_both() -> None:
    for p, threshold in ((0.9, 0.9), (0.7, 0.7), (0.9999998, 1.0), (0.6883771, 0.688377), (0.123456, 0.1234564)):
        answers = np.array([p, p - 1e-3], np.float32)
        verdicts = Cascade((judge("only"),)).decide(partial(_among, answers), 2, (threshold, threshold))
        assert verdicts.values.tolist() == [1, 0]
        assert round(float(verdicts.probabilities[0]), 6) == round(p, 6)


def _among(answers: np.ndarray, _: Any, rows: np.ndarray) -> np.ndarray:
    return cast(np.ndarray, answers[rows])

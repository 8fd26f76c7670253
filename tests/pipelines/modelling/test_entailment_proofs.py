"""The figures of the proofs: F0.5 by families, differences on the same pairs, what a revision added against the truth."""

import numpy as np
import pytest

from ctxr.datasets.rounds import CandidateRow, Decision
from ctxr.datasets.truth import CaptionTruth
from ctxr.metrics.entailment import quality
from ctxr.problems.entailment.question import JudgedPair
from scripts.entailment_proof import difference, f_half, row_of, verdict
from scripts.revision_proof import counted, shares


def answers(seed: int, right: float, pairs: int = 400) -> list[JudgedPair]:
    """One seed's answers, right in a share of cases."""
    rng = np.random.default_rng((seed, 7))
    labels = np.arange(pairs) % 2
    said = np.where(rng.random(pairs) < right, labels, 1 - labels)
    return [
        JudgedPair(
            f"run/seed{seed}", f"p{row}", "both", f"f{row // 4}", int(labels[row]), float(said[row]), bool(said[row])
        )
        for row in range(pairs)
    ]


def test_the_figures_of_a_row_are_those_of_eval() -> None:
    said = answers(0, 0.8)
    row = row_of(said)
    label = np.array([one.label == 1 for one in said])
    called = np.array([one.entailed for one in said])
    groups = np.array([int(one.group[1:]) for one in said])
    wanted = quality(label, called, groups, np.random.default_rng(0), resamples=10)
    assert f_half(row.found.sum(axis=1)).tolist() == pytest.approx([wanted.f.value])
    assert row.right.tolist() == pytest.approx([wanted.accuracy.value])


def test_a_better_row_is_better_beyond_chance_and_equal_ones_are_not() -> None:
    good, bad = (row_of([*answers(0, right), *answers(1, right)]) for right in (0.9, 0.6))
    value, low, high = difference(good, bad, draws=200)
    assert 0 < low < value < high
    assert difference(bad, good, draws=200)[2] < 0
    assert difference(good, good, draws=200) == (0, 0, 0)


def test_nothing_is_proved_by_rows_that_were_not_compared(capsys: pytest.CaptureFixture[str]) -> None:
    better, unsure = (0.1, 0.05, 0.2), (0.1, -0.05, 0.2)
    assert verdict({"text": better, "image": better, "no-masking": unsure}) == 0
    assert verdict({"text": better, "image": unsure}) == 1
    assert capsys.readouterr().err == ""
    assert verdict({"text": better}) == 2
    assert verdict({}) == 2
    assert "full was not" in capsys.readouterr().err


def test_what_was_added_is_held_against_what_is_clear() -> None:
    truth = [
        CaptionTruth("a", "test", "one", ("one", "two", "three"), ("four",), 1),
        CaptionTruth("b", "test", "two", ("two",), (), 1),
    ]
    said: list[tuple[str, str, Decision]] = [
        ("two", "a", "added"), ("three", "a", "rejected"), ("four", "a", "added"), ("one", "b", "added"), ("four", "b", "rejected"),
    ]  # fmt: skip
    ledger = [
        CandidateRow(image, caption, "ctxr-tiny", "image", 1, 0.5, 0.5, decision, "0")
        for image, caption, decision in said
    ]
    found = counted(ledger, truth, {"one": "f", "two": "f", "three": "g", "four": "g"})
    # right, added, true among candidates, true in all
    np.testing.assert_array_equal(found, [[1, 2, 1, 1], [0, 0, 1, 1]])
    assert shares(found.sum(axis=0)).tolist() == [0.5, 0.5, 0.5]

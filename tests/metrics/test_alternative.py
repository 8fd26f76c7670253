"""The alternative annotator test against a literal version of the paper's procedure, and the test of favouring a retriever."""

import itertools
import math

import numpy as np
import pytest
from scipy.stats import false_discovery_control, rankdata, ttest_1samp, wilcoxon

from ctxr.metrics.alternative import LEVEL, alternative_test, inferiority, preference
from ctxr.metrics.votes import gather

Said = dict[tuple[int, str], int]


def literal(said: Said, judge: dict[int, int], epsilon: float) -> dict[str, tuple[int, float, float, bool]]:
    """Person by person and item by item, as it is written in the paper."""
    people = sorted({person for _, person in said})
    results: dict[str, tuple[int, float, float]] = {}
    for left_out in people:
        differences, advantages = [], []
        for item in sorted({item for item, person in said if person == left_out}):
            others = [value for (other, person), value in said.items() if other == item and person != left_out]
            if not others:
                continue
            of_judge = sum(value == judge[item] for value in others) / len(others)
            of_person = sum(value == said[item, left_out] for value in others) / len(others)
            differences.append(int(of_person >= of_judge) - int(of_judge >= of_person))
            advantages.append(int(of_judge >= of_person))
        if differences:
            p = literal_p(np.array(differences, float), epsilon)
            results[left_out] = (len(differences), float(np.mean(advantages)), p)
    adjusted = false_discovery_control([p for _, _, p in results.values()], method="by")
    return {name: (*row, bool(p <= LEVEL)) for (name, row), p in zip(results.items(), adjusted, strict=True)}


def literal_p(differences: np.typing.NDArray[np.float64], epsilon: float) -> float:
    if len(differences) >= 30:
        return float(ttest_1samp(differences, epsilon, alternative="less").pvalue)
    values = (differences - epsilon)[differences != epsilon]
    ranks = rankdata(np.abs(values))
    reached = ranks[values > 0].sum()
    signs = np.array(list(itertools.product((0, 1), repeat=len(values))))
    return float((signs @ ranks <= reached + 1e-9).mean())


@pytest.mark.parametrize(("items", "people", "share"), [(12, 3, 0.9), (80, 4, 0.7), (90, 2, 1.0), (24, 6, 0.5)])
def test_the_fast_test_is_that_of_the_paper(items: int, people: int, share: float) -> None:
    rng = np.random.default_rng(items)
    truth = rng.integers(0, 2, items)
    said: Said = {
        (item, f"w{person}"): int(truth[item] != (rng.random() < 0.15))
        for item in range(items)
        for person in range(people)
        if rng.random() < share
    }
    asked = sorted({item for item, _ in said})
    judge = {item: int(truth[item] != (rng.random() < 0.05)) for item in asked}
    votes = gather([item for item, _ in said], [person for _, person in said], list(said.values()))
    for epsilon in (0.0, 0.1, 0.2):
        expected = literal(said, judge, epsilon)
        result = alternative_test(votes, np.array([judge[item] for item in asked]), np.ones(len(asked)), epsilon)
        assert {person.name for person in result} == set(expected)
        for person in result:
            count, advantage, p, rejected = expected[person.name]
            assert (person.items, person.rejected) == (count, rejected)
            assert (person.advantage, person.p) == pytest.approx((advantage, p))


def test_who_shares_no_item_with_others_is_not_tested() -> None:
    votes = gather([0, 1, 0, 1, 2, 3], ["a", "a", "b", "b", "c", "c"], [1, 0, 1, 0, 1, 1])
    people = alternative_test(votes, np.array([1, 0, 1, 0]), np.ones(4), 0.1)
    assert [(person.name, person.items) for person in people] == [("a", 2), ("b", 2), ("c", 0)]
    assert (people[2].advantage, people[2].p, people[2].rejected) == (None, None, False)
    assert alternative_test(gather([], [], []), np.zeros(0, np.int64), np.zeros(0), 0.1) == ()


def test_a_label_that_no_person_gives_is_never_right() -> None:
    votes = gather([*range(40)] * 2, ["a"] * 40 + ["b"] * 40, [0] * 80)
    yes = alternative_test(votes, np.ones(40, np.int64), np.ones(40), 0.1)
    no = alternative_test(votes, np.zeros(40, np.int64), np.ones(40), 0.1)
    assert [(person.advantage, person.p, person.rejected) for person in yes] == [(0.0, 1.0, False)] * 2
    assert [(person.advantage, person.p, person.rejected) for person in no] == [(1.0, 0.0, True)] * 2


def test_few_items_are_tested_by_exact_signed_ranks() -> None:
    rng = np.random.default_rng(1)
    for size in (3, 11, 29):
        values = rng.normal(0.1, 1, size)
        assert inferiority(values, np.ones(size), 0.2) == pytest.approx(
            wilcoxon(values - 0.2, alternative="less").pvalue
        )
    # zeros are left out, and nothing is left
    assert inferiority(np.zeros(4), np.ones(4), 0.0) == 1.0
    assert inferiority(np.array([0.0, -1, -1]), np.ones(3), 0.0) == 0.25


def test_weights_make_of_a_sample_by_strata_what_its_population_says() -> None:
    rng = np.random.default_rng(4)
    common, rare = rng.choice((-1.0, 0.0, 1.0), 4000, p=(0.1, 0.85, 0.05)), rng.choice((0.0, 1.0), 400, p=(0.5, 0.5))
    sample, weights = np.concatenate([common[:100], rare[:100]]), np.repeat([40.0, 4.0], 100)
    # half of the sample, and a tenth of the population, are of the kind on which the judge is worse
    assert inferiority(sample, np.ones(200), 0.1) > 0.9
    assert inferiority(sample, weights, 0.1) < LEVEL
    assert inferiority(np.concatenate([common, rare]), np.ones(4400), 0.1) < LEVEL
    assert inferiority(sample, 3 * weights, 0.1) == pytest.approx(inferiority(sample, weights, 0.1))


def slow_difference(p: list[float], ranks: list[int], entailed: list[bool], weights: list[float]) -> float:
    middle, total, whole = sorted(ranks)[len(ranks) // 2], 0.0, 0.0
    for verdict in (True, False):
        rows = [row for row in range(len(p)) if entailed[row] == verdict]
        sides = [[row for row in rows if (ranks[row] <= middle) == high] for high in (True, False)]
        if all(sides):
            means = [sum(weights[row] * p[row] for row in side) / sum(weights[row] for row in side) for side in sides]
            weight = sum(weights[row] for row in rows)
            total, whole = total + weight * (means[0] - means[1]), whole + weight
    return total / whole


def test_favour_is_measured_among_pairs_of_one_verdict() -> None:
    rng = np.random.default_rng(2)
    ranks, entailed = rng.integers(1, 31, 101), rng.random(101) < 0.4
    weights, p = rng.uniform(1, 9, 101), rng.random(101)
    result = preference(p, ranks.astype(float), entailed, weights, 0)
    assert result is not None
    slow = slow_difference(p.tolist(), ranks.tolist(), entailed.tolist(), weights.tolist())
    assert result.difference == pytest.approx(slow)
    # pairs without a probability or weight are left out, but for the median
    more, none = np.append(ranks, [99, 99]).astype(float), np.append(p, [np.nan, 1.0])
    assert result == preference(none, more, np.append(entailed, [True, True]), np.append(weights, [9.0, 0.0]), 0)
    # what follows the verdicts alone is no favour, even where these follow the rank
    fair = preference(entailed.astype(float), ranks.astype(float), entailed, weights, 0)
    assert fair is not None
    assert fair.difference == pytest.approx(0.0)
    assert fair.p == 1.0
    favoured = preference(1 / ranks, ranks.astype(float), entailed, weights, 0)
    assert favoured is not None
    assert favoured.p == pytest.approx(1 / 4001)


def test_without_two_kinds_of_ranks_there_is_no_favour() -> None:
    assert preference(np.array([0.1, 0.9]), np.array([3.0, 3.0]), np.ones(2, bool), np.ones(2), 0) is None


def test_the_share_of_chance_findings_is_that_of_the_level() -> None:
    rng = np.random.default_rng(3)
    findings = 0
    for seed in range(100):
        entailed = rng.random(60) < 0.5
        result = preference(rng.random(60), rng.permutation(60).astype(float), entailed, np.ones(60), seed)
        assert result is not None
        findings += result.p <= LEVEL
    assert findings / 100 < LEVEL + 2 * math.sqrt(LEVEL * (1 - LEVEL) / 100)

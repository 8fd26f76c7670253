"""Weak positives among the candidates of a query: the loss candidate by candidate, and who is asked again for what."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from ctxr.models.scorers import Batch, marks_at
from ctxr.models.training.examples import (
    PositivePairs,
    with_distractors,
    with_features,
    with_weak_targets,
)
from ctxr.models.training.recipe import WEAK
from ctxr.models.training.scoring import loss_of
from tests.models.weak_questions import small, with_weak, written

ALPHA = 0.3
SOFT = {"off": 0.0, "mask-only": None, "extra-batch": None, "loss-weight": None, "soft-label": ALPHA}


def by_hand(scores: list[float], target: int, weak: set[int], mode: str, kind: str) -> float:
    """The loss of one query, candidate by candidate; `weak` are positions, `scores` those of candidates that are there."""
    counted = [place for place in range(len(scores)) if place not in weak or mode in ("off", "soft-label")]
    right = {place: 1.0 if place == target else 0.0 for place in counted}
    if mode == "soft-label":
        right |= dict.fromkeys(weak, ALPHA)
    if kind == "binary":
        total = 0.0
        for place in counted:
            share = 1 / (1 + math.exp(-scores[place]))
            total -= right[place] * math.log(share) + (1 - right[place]) * math.log(1 - share)
        return total / len(counted)
    summed = math.log(sum(math.exp(scores[place]) for place in counted))
    return sum(right[place] / sum(right.values()) * (summed - scores[place]) for place in counted)


@pytest.mark.parametrize("kind", ["softmax", "binary"])
@pytest.mark.parametrize("mode", WEAK)
def test_the_loss_equals_that_of_candidate_after_candidate(mode: str, kind: str) -> None:
    questions, pairs = small()
    rows = torch.arange(18)
    scores = torch.randn(18, 4, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    scores = scores.masked_fill(~questions.mask[rows], -torch.inf).requires_grad_()
    marks = questions.marks(questions.entailed, rows)
    assert marks is not None
    assert {int(count) for count in marks.sum(1)} >= {0, 1, 2}
    slow = 0.0
    for place, query in enumerate(rows.tolist()):
        there = questions.candidates[query][questions.mask[query]].tolist()
        weak = {there.index(image) for image in pairs.get(query, ())}
        slow += by_hand(scores[place].tolist()[: len(there)], int(questions.target[query]), weak, mode, kind)
    loss = loss_of(scores, questions.batch(rows), kind, marks, SOFT[mode])
    assert float(loss.detach()) == pytest.approx(slow, rel=1e-12)
    (gradient,) = torch.autograd.grad(loss, scores)
    assert bool(gradient.isfinite().all())
    assert bool((gradient[marks] == 0).all()) == (SOFT[mode] is None)
    assert bool((gradient[~questions.mask[rows]] == 0).all())


@pytest.mark.parametrize("kind", ["softmax", "binary"])
def test_without_weak_positives_and_with_those_of_no_weight_not_one_bit_is_another(kind: str) -> None:
    questions, _ = small(dtype=torch.float32)
    rows = torch.arange(18)
    scores = torch.randn(18, 4, generator=torch.Generator().manual_seed(1)).masked_fill(~questions.mask, -torch.inf)
    batch, marks = questions.batch(rows), questions.marks(questions.entailed, rows)
    plain = loss_of(scores, batch, kind)
    assert marks is not None
    assert torch.equal(loss_of(scores, batch, kind, marks, 0.0), plain)
    assert torch.equal(loss_of(scores, batch, kind, torch.zeros_like(marks), None), plain)
    assert loss_of(scores, batch, kind, marks, None) != plain


def test_several_targets_share_what_is_right() -> None:
    scores, mask = torch.tensor([[0.5, 2.0, -1.0], [1.0, 0.0, 3.0]]), torch.ones(2, 3, dtype=torch.bool)
    targets = torch.tensor([[True, True, False], [False, False, True]])
    batch = Batch(torch.zeros(1, 1), torch.zeros(2, 1), mask.long(), mask, mask[:, 0], targets)
    # where all other candidates hold too, a query learns nothing
    alone = replace(batch, targets=marks_at(torch.tensor([2, 2]), 3))
    others = torch.tensor([[True, True, False]] * 2)
    assert float(loss_of(scores, alone, "softmax", others, None)) == 0.0
    logs = scores.log_softmax(1)
    wanted = -(logs[0, :2].mean() + logs[1, 2])
    torch.testing.assert_close(loss_of(scores, batch, "softmax"), wanted)
    with pytest.raises(ValueError, match="several right candidates"):
        _ = replace(small()[0], targets=targets).target


def test_marks_name_weak_candidates_and_never_the_target() -> None:
    questions, pairs = small()
    every = torch.arange(18)
    more = with_weak(questions, {query: {*pairs.get(query, ()), written(questions, query)} for query in range(18)})
    marks = more.marks(more.entailed, every)
    assert marks is not None
    for query in range(18):
        held = set(questions.candidates[query][marks[query]].tolist())
        assert held == pairs.get(query, set())
        assert not bool((marks[query] & ~questions.mask[query]).any())
    part = torch.tensor([7, 3, 3, 11])
    kept = questions.part(part)
    assert torch.equal(kept.marks(kept.entailed, torch.arange(4)), questions.marks(questions.entailed, part))  # type: ignore[arg-type]
    assert questions.marks(None, every) is None


def test_features_of_pairs_keep_what_is_weak_or_unsure() -> None:
    questions, _ = small()
    questions = replace(questions, unsure=PositivePairs.of([(3, 4), (3, 5), (7, 8), (7, 9)], 18))
    turn = np.random.default_rng(0).permutation(18)
    kept = with_features(questions, turn, np.zeros((18, 4, 2), np.float32))
    marks = questions.marks(questions.entailed, torch.from_numpy(turn))
    assert marks is not None
    assert bool(marks.any())
    assert torch.equal(kept.marks(kept.entailed, torch.arange(18)), marks)  # type: ignore[arg-type]
    unsure = questions.marks(questions.unsure, torch.from_numpy(turn))
    assert unsure is not None
    assert bool(unsure.any())
    assert torch.equal(kept.marks(kept.unsure, torch.arange(18)), unsure)  # type: ignore[arg-type]


def test_who_has_weak_candidates_is_asked_again_for_one_of_them() -> None:
    questions, pairs = small()
    seen: dict[int, set[int]] = {}
    for seed in range(40):
        both, again = with_weak_targets(questions, torch.Generator().manual_seed(seed))
        assert [query for query in range(18) if again[query] >= 0] == [query for query in range(18) if pairs.get(query)]
        marks = both.marks(both.entailed, torch.arange(len(both)))
        assert marks is not None
        assert torch.equal(marks[:18], questions.marks(questions.entailed, torch.arange(18)))  # type: ignore[arg-type]
        for query, row in enumerate(again.tolist()):
            if row >= 0:
                target = written(both, row)
                left_out = set(both.candidates[row][marks[row]].tolist())
                assert left_out == (pairs[query] | {written(questions, query)}) - {target}
                assert torch.equal(both.candidates[row], questions.candidates[query])
                assert torch.equal(both.texts[row], questions.texts[query])
                seen.setdefault(query, set()).add(target)
    assert seen == {query: images for query, images in pairs.items() if images}


def test_beside_random_images_a_weak_positive_takes_the_place_of_the_target() -> None:
    questions, _ = small()
    far = {query: {(written(questions, query) + step) % 24 for step in (1, 5, 9)} for query in range(0, 18, 3)}
    drawn = with_distractors(with_weak(questions, far), 4, torch.Generator().manual_seed(0))
    both, again = with_weak_targets(drawn, torch.Generator().manual_seed(1), anywhere=True)
    marks = both.marks(both.entailed, torch.arange(len(both)))
    assert marks is not None
    assert {query for query in range(18) if again[query] >= 0} == far.keys()
    among = 0
    for query in far:
        row = int(again[query])
        candidates, before = both.candidates[row].tolist(), drawn.candidates[query].tolist()
        target = written(both, row)
        assert target in far[query]
        assert set(candidates) | {target} >= set(before[1:])
        assert len(set(candidates)) == len(candidates)
        for place, image in enumerate(candidates):
            holds = image in far[query] or image == before[0]
            assert bool(marks[row, place]) == (holds and image != target)
        among += target in before
    assert 0 < among < len(far)

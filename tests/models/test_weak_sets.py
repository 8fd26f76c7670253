"""Weak positives among the candidates of a query: the loss candidate by candidate, what is asked again, and what is learned."""

import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor, nn
from torch.nn import functional

from ctxr.models.base import Batch
from ctxr.models.clip import ClipScorer
from ctxr.models.training.known import Known
from ctxr.models.training.loop import BEST, STATE, Hearing
from ctxr.models.training.losses import loss_of
from ctxr.models.training.pair_tables import with_features
from ctxr.models.training.questions import (
    Questions,
    with_distractors,
    with_shared_distractors,
    with_weak_targets,
)
from ctxr.models.training.recipe import WEAK, Recipe
from ctxr.models.training.state import Epoch
from tests.models.scorers import make_head
from tests.models.training_questions import SMALL, Table, make_questions, make_trainer

STILL = replace(SMALL, dropout=0.0)
ALPHA = 0.3
SOFT = {"off": 0.0, "mask-only": None, "extra-batch": None, "loss-weight": None, "soft-label": ALPHA}


def weak_pairs(questions: Questions, seed: int = 0, share: float = 0.4) -> dict[int, set[int]]:
    """By query, rows of other images of its set for which it holds too; every fourth query has none."""
    chance, found = np.random.default_rng(seed), {}
    for query in range(len(questions)):
        own = set(questions.candidates[query][questions.mask[query]].tolist())
        others = sorted(own - {written(questions, query)})
        if query % 4:
            found[query] = {image for image in others if chance.random() < share}
    return found


def written(questions: Questions, query: int) -> int:
    return int(questions.candidates[query, questions.target[query]])


def with_weak(questions: Questions, pairs: dict[int, set[int]]) -> Questions:
    known = Known.of([(query, image) for query, images in pairs.items() for image in images], len(questions))
    return replace(questions, entailed=known)


def small(seed: int = 0, dtype: torch.dtype = torch.float64) -> tuple[Questions, dict[int, set[int]]]:
    questions = make_questions(ClipScorer(None, make_head()), seed=seed)
    assert isinstance(questions.images, Table)
    questions = replace(questions, images=Table(questions.images.content.to(dtype)), texts=questions.texts.to(dtype))
    pairs = weak_pairs(questions)
    return with_weak(questions, pairs), pairs


def head(seed: int = 0) -> ClipScorer:
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return ClipScorer(None, make_head(dropout=0.0)).double()


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
    rows = torch.tensor([5, 3, 17, 0, 9, 8, 7])
    scores = torch.randn(7, 4, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    scores = scores.masked_fill(~questions.mask[rows], -torch.inf).requires_grad_()
    marks = questions.weak_marks(rows)
    assert marks is not None
    assert {int(count) for count in marks.sum(1)} >= {0, 1, 2}
    slow = 0.0
    for place, query in enumerate(rows.tolist()):
        there = questions.candidates[query][questions.mask[query]].tolist()
        weak = {there.index(image) for image in pairs.get(query, ())}
        slow += by_hand(scores[place].tolist()[: len(there)], int(questions.target[query]), weak, mode, kind)
    loss = loss_of(scores, questions.batch(rows), kind, marks, SOFT[mode])
    assert float(loss) == pytest.approx(slow, rel=1e-12)
    (gradient,) = torch.autograd.grad(loss, scores)
    assert bool(gradient.isfinite().all())
    assert bool((gradient[marks] == 0).all()) == (SOFT[mode] is None)
    assert bool((gradient[~questions.mask[rows]] == 0).all())


@pytest.mark.parametrize("kind", ["softmax", "binary"])
def test_without_weak_positives_and_with_those_of_no_weight_not_one_bit_is_another(kind: str) -> None:
    questions, _ = small(dtype=torch.float32)
    rows = torch.arange(18)
    scores = torch.randn(18, 4, generator=torch.Generator().manual_seed(1)).masked_fill(~questions.mask, -torch.inf)
    batch, marks = questions.batch(rows), questions.weak_marks(rows)
    plain = loss_of(scores, batch, kind)
    assert marks is not None
    assert torch.equal(loss_of(scores, batch, kind, marks, 0.0), plain)
    assert torch.equal(loss_of(scores, batch, kind, torch.zeros_like(marks), None), plain)
    assert loss_of(scores, batch, kind, marks, None) != plain


def test_a_query_whose_other_candidates_all_hold_learns_nothing_from_a_softmax() -> None:
    scores, mask = torch.tensor([[0.5, 2.0, -1.0]], requires_grad=True), torch.ones(1, 3, dtype=torch.bool)
    none = torch.zeros(1, 1)
    batch = Batch(none, none, none.long(), mask, mask[:, 0], torch.tensor([2]))
    marks = torch.tensor([[True, True, False]])
    assert float(loss_of(scores, batch, "softmax", marks, None)) == 0.0
    binary = loss_of(scores, batch, "binary", marks, None)
    assert float(binary) == pytest.approx(math.log(1 + math.exp(1.0)))


def test_marks_name_weak_candidates_and_never_the_target() -> None:
    questions, pairs = small()
    every = torch.arange(18)
    more = with_weak(questions, {query: {*pairs.get(query, ()), written(questions, query)} for query in range(18)})
    marks = more.weak_marks(every)
    assert marks is not None
    for query in range(18):
        held = set(questions.candidates[query][marks[query]].tolist())
        assert held == pairs.get(query, set())
        assert not bool((marks[query] & ~questions.mask[query]).any())
    part = torch.tensor([7, 3, 3, 11])
    assert torch.equal(questions.part(part).weak_marks(torch.arange(4)), questions.weak_marks(part))  # type: ignore[arg-type]
    assert replace(questions, entailed=None).weak_marks(every) is None


def test_features_of_pairs_keep_what_is_weak() -> None:
    questions, _ = small()
    turn = np.random.default_rng(0).permutation(18)
    kept = with_features(questions, turn, np.zeros((18, 4, 2), np.float32))
    marks = questions.weak_marks(torch.from_numpy(turn))
    assert marks is not None
    assert bool(marks.any())
    assert torch.equal(kept.weak_marks(torch.arange(18)), marks)  # type: ignore[arg-type]


@pytest.mark.parametrize("shared", [False, True])
def test_distractors_are_drawn_as_ever_and_those_that_hold_are_marked(shared: bool) -> None:
    questions, _ = small()
    everywhere = {query: set(range(0, 24, 2)) - {written(questions, query)} for query in range(0, 18, 2)}
    known = with_weak(questions, everywhere)

    def drawn(some: Questions) -> Questions:
        chance = torch.Generator().manual_seed(3)
        if shared:
            return with_shared_distractors(some, torch.split(torch.arange(18), 7), 4, chance)
        return with_distractors(some, 4, chance)

    found, plain = drawn(known), drawn(replace(questions, entailed=None))
    assert torch.equal(found.candidates, plain.candidates)
    marks = found.weak_marks(torch.arange(18))
    assert marks is not None
    for query in range(18):
        for place, image in enumerate(found.candidates[query].tolist()):
            there = bool(found.mask[query, place])
            assert bool(marks[query, place]) == (there and image in everywhere.get(query, ()))
    assert int(marks.sum()) > 5


def test_who_has_weak_candidates_is_asked_again_for_one_of_them() -> None:
    questions, pairs = small()
    seen: dict[int, set[int]] = {}
    for seed in range(40):
        both, again = with_weak_targets(questions, torch.Generator().manual_seed(seed))
        assert [query for query in range(18) if again[query] >= 0] == [query for query in range(18) if pairs.get(query)]
        marks = both.weak_marks(torch.arange(len(both)))
        assert marks is not None
        assert torch.equal(marks[:18], questions.weak_marks(torch.arange(18)))  # type: ignore[arg-type]
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
    marks = both.weak_marks(torch.arange(len(both)))
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


def descent(loss: Tensor, weights: list[nn.Parameter]) -> list[Tensor]:
    return list(torch.autograd.grad(loss, weights))


def mean_loss(scorer: nn.Module, questions: Questions, targets: dict[int, int], weak: dict[int, set[int]]) -> Tensor:
    """Mean over `targets` (query, image that is asked for), query by query; images in `weak` are left out of the softmax alone."""
    losses = []
    for query, image in targets.items():
        batch = questions.batch(torch.tensor([query]))
        images = questions.candidates[query].tolist()
        scores = scorer(batch)[0]
        counted = [place for place in range(4) if bool(batch.mask[0, place]) and images[place] not in weak[query]]
        target = counted.index(images.index(image))
        losses.append(functional.cross_entropy(scores[counted][None], torch.tensor([target])))
    return torch.stack(losses).mean()


@pytest.mark.parametrize("at_once", [0, 3])
@pytest.mark.parametrize("mode", ["extra-batch", "loss-weight"])
def test_an_epoch_equals_steps_that_were_made_by_hand(tmp_path: Path, mode: str, at_once: int) -> None:
    questions, pairs = small()
    one_each = {query: {min(images)} if images else set() for query, images in pairs.items()}
    questions = with_weak(questions, one_each)
    recipe = replace(STILL, weak=mode, batch=18, at_once=at_once, epochs=1, eps=1e-3)
    trainer = make_trainer(tmp_path, recipe, head(), questions=questions)
    trainer.run()

    scorer = head()
    weights = list(scorer.parameters())
    optimiser = torch.optim.Adam(weights, recipe.lr, (recipe.beta1, recipe.beta2), recipe.eps)
    first = {query: written(questions, query) for query in range(18)}
    second = {query: min(images) for query, images in one_each.items() if images}
    without_weak = {query: one_each.get(query, set()) for query in range(18)}
    without_written = {query: {first[query]} for query in second}
    assert 0 < len(second) < 18

    def step(gradients: list[Tensor], rate: float) -> None:
        for weight, gradient in zip(weights, gradients, strict=True):
            weight.grad = gradient
        optimiser.param_groups[0]["lr"] = rate
        optimiser.step()

    plain = descent(mean_loss(scorer, questions, first, without_weak), weights)
    if mode == "extra-batch":
        step(plain, recipe.lr)
        step(descent(mean_loss(scorer, questions, second, without_written), weights), ALPHA * recipe.lr)
    else:
        extra = descent(mean_loss(scorer, questions, second, without_written), weights)
        step([one + ALPHA * other for one, other in zip(plain, extra, strict=True)], recipe.lr)
    for name, value in scorer.state_dict().items():
        torch.testing.assert_close(trainer.scorer.state_dict()[name], value, rtol=1e-7, atol=1e-10)


class Watched(ClipScorer):
    """A scorer that remembers what it was shown and what came back."""

    def __init__(self, *rest: Any) -> None:
        super().__init__(*rest)
        self.seen: list[Batch] = []

    def forward(self, batch: Batch) -> Tensor:
        self.seen.append(batch)
        return super().forward(batch)


@pytest.mark.parametrize("mode", WEAK)
def test_a_head_sees_all_candidates_whatever_is_left_out_of_the_loss(tmp_path: Path, mode: str) -> None:
    questions, pairs = small()
    scorer = Watched(None, make_head(dropout=0.0)).double()
    trainer = make_trainer(tmp_path, replace(STILL, weak=mode), scorer, questions=questions)
    trainer.update(torch.arange(18), 1e-3)
    again = [query for query in range(18) if pairs.get(query)] if mode in ("extra-batch", "loss-weight") else []
    asked = torch.tensor([*range(18), *again])
    looked = torch.cat([batch.mask for batch in scorer.seen])
    shown = torch.cat([batch.images[batch.candidates] for batch in scorer.seen])
    assert torch.equal(looked, questions.mask[asked])
    assert torch.equal(shown, questions.images(questions.candidates[asked].flatten()).view(shown.shape))


def test_modes_make_different_models_and_off_makes_that_of_nobody_having_looked(tmp_path: Path) -> None:
    questions, _ = small()

    def trained(mode: str, some: Questions, variant: str) -> bytes:
        recipe = replace(STILL, weak=mode, epochs=1, variant=variant, distractors=3)
        trainer = make_trainer(tmp_path, recipe, head(), questions=some, key=f"{mode} {variant}")
        trainer.run()
        return b"".join(value.numpy().tobytes() for value in trainer.scorer.state_dict().values())

    for variant in ("module", "none"):
        found = [trained(mode, questions, variant) for mode in WEAK]
        assert len(set(found)) == len(WEAK)
        assert found[0] == trained("off", replace(questions, entailed=None), variant)


def test_summed_gradients_sum_the_second_loss_too(tmp_path: Path) -> None:
    questions, _ = small()
    found = []
    for summed in (False, True):
        recipe = replace(STILL, weak="loss-weight", summed_gradients=summed)
        for mode in ("mask-only", "loss-weight"):
            trainer = make_trainer(tmp_path, replace(recipe, weak=mode), head(), questions=questions)
            trainer.update(torch.arange(18), 0.0, step=False)
            found.append(torch.cat([one.grad.flatten() for one in trainer.weights if one.grad is not None]))
        count = int((trainer.again >= 0).sum())
    mean, mean_both, summed_alone, summed_both = found
    torch.testing.assert_close(summed_alone, 18 * mean)
    torch.testing.assert_close(summed_both - summed_alone, count * (mean_both - mean), rtol=1e-6, atol=1e-8)


class Killed(BaseException):
    """What a test stops a training with."""


def killer(after: int) -> Callable[[Epoch], None]:
    def kill(row: Epoch) -> None:
        if row.epoch == after:
            raise Killed

    return kill


@pytest.mark.parametrize(
    ("mode", "variant", "leaked"),
    [("extra-batch", "module", True), ("extra-batch", "none", False), ("loss-weight", "module", True)],
)
def test_a_training_killed_between_any_epochs_goes_on_to_the_same_bits(
    tmp_path: Path, mode: str, variant: str, leaked: bool
) -> None:
    questions, _ = small(dtype=torch.float32)
    recipe = replace(SMALL, weak=mode, variant=variant, leaked_gradients=leaked, schedule="cosine", dropout=0.2)
    make_trainer(tmp_path / "whole", recipe, questions=questions).run()
    for after in (1, 2):
        with pytest.raises(Killed):
            make_trainer(tmp_path / "cut", recipe, questions=questions, hearing=Hearing(epoch=killer(after))).run()
    make_trainer(tmp_path / "cut", recipe, questions=questions).run()
    for name in (BEST, STATE):
        one, other = (load_file(tmp_path / folder / name) for folder in ("whole", "cut"))
        assert one.keys() == other.keys()
        assert all(torch.equal(value, other[key]) for key, value in one.items())


def test_where_no_step_is_taken_no_second_one_follows(tmp_path: Path) -> None:
    questions, _ = small()
    recipe = replace(STILL, weak="extra-batch", leaked_gradients=True, epochs=1)
    trainer = make_trainer(tmp_path, recipe, head(), questions=questions)
    trainer.run()
    assert (
        int(trainer.optimiser.state_dict()["state"][0]["step"]) == 4
    )  # 18 queries: two steps of 8, each with a second one
    assert all(weights.grad is not None for weights in trainer.weights)


class Narrow(ClipScorer):
    """A scorer that has memory for three queries."""

    def forward(self, batch: Batch) -> Tensor:
        if len(batch.texts) > 3 and self.training:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return super().forward(batch)


@pytest.mark.parametrize("mode", ["extra-batch", "soft-label"])
def test_out_of_memory_halves_the_pass_and_changes_no_step(tmp_path: Path, mode: str) -> None:
    questions, _ = small()
    narrow, wide = Narrow(None, make_head(dropout=0.0)).double(), head()
    narrow.load_state_dict(wide.state_dict())
    recipe = replace(STILL, weak=mode, epochs=2)
    progress = make_trainer(tmp_path / "a", recipe, narrow, questions=questions).run()
    make_trainer(tmp_path / "b", recipe, wide, questions=questions).run()
    assert progress.at_once == 2
    for name, weights in wide.state_dict().items():
        torch.testing.assert_close(narrow.state_dict()[name], weights, rtol=1e-6, atol=1e-8)


def test_a_second_loss_that_is_no_number_stops_before_its_step(tmp_path: Path) -> None:
    questions, _ = small()
    for mode in ("extra-batch", "loss-weight"):
        trainer = make_trainer(tmp_path, replace(STILL, weak=mode), head(), questions=questions)
        trainer.asked.texts[18:] = torch.nan
        before = [weights.detach().clone() for weights in trainer.weights]
        assert math.isnan(trainer.update(torch.arange(18), 1e-3))
        moved = any(not torch.equal(*pair) for pair in zip(before, trainer.weights, strict=True))
        assert moved == (mode == "extra-batch")  # its first step was sound
        assert all(bool(weights.isfinite().all()) for weights in trainer.weights)


@pytest.mark.parametrize("kind", ["softmax", "binary"])
def test_what_is_truly_right_too_scores_higher_when_training_is_told_so(tmp_path: Path, kind: str) -> None:
    """Ten candidates along axes; a text names two of them, and only one was written down, a different one by chance."""
    chance = torch.Generator().manual_seed(0)
    names = torch.stack([torch.randperm(10, generator=chance)[:2] for _ in range(60)])
    images = torch.eye(10) @ torch.linalg.qr(torch.randn(16, 10, generator=chance)).Q.T
    texts = functional.normalize(torch.randn(10, 16, generator=chance)[names].sum(1), dim=1)
    questions = Questions(
        images=Table(images), texts=texts, candidates=torch.arange(10).expand(60, 10),
        mask=torch.ones(60, 10, dtype=torch.bool), ordered=torch.zeros(60, dtype=torch.bool),
        target=names[:, 0], sets=torch.arange(60),
        entailed=Known.of([(query, int(image)) for query, image in enumerate(names[:, 1])], 60),
    )  # fmt: skip

    def ranks(mode: str) -> float:
        """Mean over queries of the share of wrong candidates that the weak one beats."""
        recipe = Recipe(
            weak=mode, loss=kind, optimiser="adam", lr=3e-2, weight_decay=0.0, batch=20, epochs=25, patience=0
        )
        with torch.random.fork_rng():
            torch.manual_seed(0)
            scorer = Projected()
        make_trainer(tmp_path / mode, recipe, scorer, questions=questions, valid=None).run()
        with torch.no_grad():
            scores = scorer(questions.batch(torch.arange(60)))
        others = torch.ones(60, 10, dtype=torch.bool).scatter(1, names, False)
        own = scores.gather(1, names[:, 1:])
        return float(((own > scores) & others).sum() / others.sum())

    found = {mode: ranks(mode) for mode in WEAK}
    assert found["extra-batch"] > found["off"] + 0.02
    assert all(found[mode] > found["off"] for mode in WEAK[1:])


class Projected(ClipScorer):
    """Cosine of an image and a text that a matrix turns, times ten."""

    def __init__(self) -> None:
        super().__init__()
        self.turn = nn.Linear(16, 16, bias=False)

    def forward(self, batch: Batch) -> Tensor:
        texts = functional.normalize(self.turn(batch.texts), dim=1)
        found: Tensor = 10 * (batch.images[batch.candidates] * texts[:, None]).sum(-1)
        return found

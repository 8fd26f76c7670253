"""What the loop is made of: orders, distractors, rates, optimisers, recipes."""

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from ctxr.errors import UsageError
from ctxr.models.scorers import ClipScorer
from ctxr.models.training.examples import by_sets, with_distractors, with_shared_distractors
from ctxr.models.training.loop import make_optimiser, rate_at
from ctxr.models.training.state import laid_out_as, round_to_fp16
from ctxr.pipelines.modelling.train import load_recipe
from ctxr.problems.contextual.recipe import ContextualRecipe
from tests.models.scorers import make_head
from tests.models.training_questions import make_questions


@settings(max_examples=30)
@given(st.lists(st.integers(0, 6), min_size=1, max_size=30), st.integers(0, 9))
def test_an_order_by_sets_has_every_query_once_and_each_set_in_one_piece(sets: list[int], seed: int) -> None:
    order = by_sets(torch.tensor(sets), torch.Generator().manual_seed(seed)).tolist()
    many = torch.arange(40)
    others = [by_sets(many, torch.Generator().manual_seed(chance)) for chance in (seed, seed + 1)]
    assert not torch.equal(*others)
    assert sorted(order) == list(range(len(sets)))
    walked = [sets[row] for row in order]
    assert [one for place, one in enumerate(walked) if place == 0 or walked[place - 1] != one] == list(
        dict.fromkeys(walked)
    )


@pytest.mark.parametrize("count", [2, 9, 30])
def test_distractors_are_random_images_beside_the_target_all_different(count: int) -> None:
    questions = make_questions(ClipScorer(None, make_head()), sets=8)
    drawn = with_distractors(questions, count, torch.Generator().manual_seed(0))
    pool = set(questions.candidates[questions.mask].tolist())
    assert drawn.candidates.shape == (24, min(count, len(pool) - 1) + 1)
    for row in range(24):
        own = drawn.candidates[row].tolist()
        assert own[0] == int(questions.candidates[row, questions.target[row]])
        assert len(set(own)) == len(own)
        assert set(own) <= pool
    assert not bool(drawn.target.any())
    assert not bool(drawn.ordered.any())
    again = with_distractors(questions, count, torch.Generator().manual_seed(0))
    assert torch.equal(again.candidates, drawn.candidates)


@settings(max_examples=30)
@given(st.integers(1, 24), st.integers(1, 9), st.integers(0, 9))
def test_shared_distractors_are_other_targets_of_the_step_all_different(batch: int, count: int, seed: int) -> None:
    questions = make_questions(ClipScorer(None, make_head()), sets=8)
    own = questions.candidates.gather(1, questions.target[:, None])[:, 0]
    chance = torch.Generator().manual_seed(seed)
    steps = torch.split(torch.randperm(24, generator=chance), batch)
    drawn = with_shared_distractors(questions, steps, count, chance)
    for rows in steps:
        targets = set(own[rows].tolist())
        for row in rows.tolist():
            there = drawn.candidates[row][drawn.mask[row]].tolist()
            assert there[0] == int(own[row])
            assert len(set(there)) == len(there) == min(count + 1, len(targets))
            assert set(there) <= targets
    assert not bool(drawn.target.any() | drawn.ordered.any())


def test_every_other_image_of_the_pool_can_be_a_distractor() -> None:
    questions = make_questions(ClipScorer(None, make_head()), sets=8)
    seen: set[int] = set()
    for seed in range(60):
        seen |= set(
            with_distractors(questions, 3, torch.Generator().manual_seed(seed)).candidates[:1, 1:].flatten().tolist()
        )
    pool = set(questions.candidates[questions.mask].tolist())
    assert seen == pool - {int(questions.candidates[0, questions.target[0]])}


def test_a_batch_holds_each_image_once() -> None:
    questions = make_questions(ClipScorer(None, make_head()))
    batch = questions.batch(torch.arange(7))
    assert len(batch.images) == len(set(questions.candidates[:7].flatten().tolist())) == 11
    assert torch.equal(
        batch.images[batch.candidates], questions.images(questions.candidates[:7].flatten()).view(7, 4, -1)
    )


def test_rates_rise_stay_and_fall() -> None:
    recipe = ContextualRecipe(lr=1.0, warmup=0.1)
    assert [rate_at(recipe, step, 20) for step in (0, 1, 2, 19)] == [0.5, 1.0, 1.0, 1.0]
    linear = replace(recipe, schedule="linear")
    assert [round(rate_at(linear, step, 20), 3) for step in (1, 2, 11, 19)] == [1.0, 1.0, 0.5, 0.056]
    cosine = replace(recipe, warmup=0.0, schedule="cosine")
    assert [round(rate_at(cosine, step, 20), 3) for step in (0, 10, 19)] == [1.0, 0.5, 0.006]


@pytest.mark.parametrize(
    ("changes", "kind", "decay"),
    [
        ({"optimiser": "adamw", "weight_decay": 0.01}, torch.optim.AdamW, 0.01),
        ({"optimiser": "adam", "weight_decay": 0.2}, torch.optim.Adam, 0.2 / 36),
        ({"optimiser": "adam", "weight_decay": 0.2, "summed_gradients": True}, torch.optim.Adam, 0.2),
        ({"optimiser": "adam", "weight_decay": 0.2, "undivided_decay": True}, torch.optim.Adam, 0.2),
    ],
)
def test_the_optimiser_is_that_of_the_recipe(changes: dict[str, object], kind: type, decay: float) -> None:
    made = make_optimiser([torch.zeros(1, requires_grad=True)], replace(ContextualRecipe(), **changes))  # type: ignore[arg-type]
    (group,) = made.param_groups
    assert type(made) is kind
    assert (group["lr"], tuple(group["betas"]), group["eps"], group["weight_decay"]) == (4e-6, (0.9, 0.98), 1e-6, decay)


@pytest.mark.parametrize("name", ["clip-batch", "clip-none", "vilbert-batch", "uniter-none"])
def test_the_first_step_is_as_long_as_the_rate_because_the_bias_of_adam_is_corrected(name: str) -> None:
    recipe = replace(load_recipe(name, "code"), lr=0.5, eps=1e-12)
    weights = torch.nn.Parameter(torch.zeros(2, 2))
    weights.grad = torch.full((2, 2), -3.0)
    make_optimiser([weights], recipe).step()
    torch.testing.assert_close(weights.detach(), torch.full((2, 2), 0.5))


def test_fp16_masters_swallow_small_steps_of_large_weights() -> None:
    head = make_head()
    linear = head.blocks[0].get_submodule("widen")
    assert isinstance(linear, torch.nn.Linear)
    with torch.no_grad():
        linear.weight.fill_(1.0)
    round_to_fp16(head)
    with torch.no_grad():
        linear.weight.add_(4e-6)
    round_to_fp16(head)
    assert bool((linear.weight == 1.0).all())
    assert linear.weight.dtype == torch.float32


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"variant": "tempora"}, "variant = tempora is unknown"),
        ({"optimiser": "sgd"}, "optimiser = sgd is unknown"),
        ({"lr": 0.0}, "lr = 0.0"),
        ({"lr": float("nan")}, "lr = nan"),
        ({"batch": 0}, "batch = 0"),
        ({"dropout": 1.0}, "dropout = 1.0"),
        ({"clip": -1.0}, "clip = -1.0"),
        ({"epochs": 0}, "batch would learn"),
    ],
)
def test_a_recipe_that_makes_no_sense_is_refused(changes: dict[str, object], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        replace(ContextualRecipe(), **changes).check()  # type: ignore[arg-type]


@pytest.mark.parametrize("fmt", [torch.contiguous_format, torch.channels_last])
def test_a_fused_step_is_the_plain_one_however_weights_and_gradients_lie_in_memory(fmt: torch.memory_format) -> None:
    gradients = torch.randn(3, 8, 4, 3, 3)

    def stepped(
        optimiser: Callable[[list[torch.Tensor]], torch.optim.Optimizer], one: torch.memory_format
    ) -> torch.Tensor:
        weights = torch.ones(8, 4, 3, 3).to(memory_format=one).requires_grad_()
        made = optimiser([weights])
        for gradient in gradients:
            weights.grad = laid_out_as(weights, gradient.contiguous(memory_format=fmt))
            made.step()
        return weights.detach()

    plain = stepped(lambda weights: torch.optim.Adam(weights, 0.1, (0.9, 0.98), 1e-6), torch.contiguous_format)
    for one in (torch.contiguous_format, torch.channels_last):
        fused = stepped(
            lambda weights: make_optimiser(weights, ContextualRecipe(optimiser="adam", lr=0.1, weight_decay=0)), one
        )
        torch.testing.assert_close(fused, plain, rtol=1e-3, atol=1e-5)

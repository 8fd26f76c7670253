"""Training on weak positives of image sets: steps made by hand, every quirk of the loop, and what is learned."""

import math
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from ctxr.models.scorers import Batch, ClipScorer
from ctxr.models.training.examples import ExampleTable, PositivePairs
from ctxr.models.training.loop import Callbacks, Step
from ctxr.models.training.recipe import WEAK
from tests.models.scorers import make_head
from tests.models.training_questions import SMALL, make_trainer
from tests.models.weak_questions import small, with_weak, written

STILL = replace(SMALL, dropout=0.0)
ALPHA = 0.3


def head(seed: int = 0) -> ClipScorer:
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return ClipScorer(None, make_head(dropout=0.0)).double()


def descent(loss: Tensor, weights: list[nn.Parameter]) -> list[Tensor]:
    return list(torch.autograd.grad(loss, weights))


def mean_loss(scorer: nn.Module, questions: ExampleTable, targets: dict[int, int], weak: dict[int, set[int]]) -> Tensor:
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


@pytest.mark.parametrize("mode", ["mask-only", "soft-label", "extra-batch"])
def test_unsure_images_are_no_candidates_of_the_loss_nor_of_validation(tmp_path: Path, mode: str) -> None:
    questions, pairs = small()
    weak = {query: {max(images)} if images else set() for query, images in pairs.items()}
    unsure = {query: pairs.get(query, set()) - weak.get(query, set()) for query in range(18)}
    known = PositivePairs.of([(query, image) for query, images in unsure.items() for image in images], 18)
    questions = replace(with_weak(questions, weak) if mode == "mask-only" else questions, unsure=known)
    if mode != "mask-only":
        questions, weak = replace(questions, entailed=None), {}
    scorer, rows = head().eval(), torch.arange(18)
    trainer = make_trainer(tmp_path, replace(STILL, weak=mode), scorer, questions=questions)
    objective = trainer.objective
    first = {query: written(questions, query) for query in range(18)}
    left_out = {query: weak.get(query, set()) | unsure[query] for query in range(18)}
    assert any(unsure.values())
    slow = mean_loss(scorer, questions, first, left_out)
    step = Step((rows,), 18, None)
    loss = objective.loss(scorer, [objective.encode(scorer, 0, rows, None)], step)
    assert float(loss.detach()) == pytest.approx(18 * float(slow.detach()))
    hits = []
    for query, image in first.items():
        images = [int(one) for one in questions.candidates[query][questions.mask[query]]]
        scores = dict(zip(images, scorer(questions.batch(torch.tensor([query])))[0].tolist(), strict=False))
        hits.append(scores[image] == max(score for one, score in scores.items() if one not in unsure[query]))
    assert objective.validate(scorer, 1, 18) == pytest.approx(sum(hits) / 18)


def test_modes_make_different_models_and_off_makes_that_of_nobody_having_looked(tmp_path: Path) -> None:
    questions, _ = small()

    def trained(mode: str, some: ExampleTable, variant: str) -> bytes:
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
            trainer.update(torch.arange(18), 0.0, apply=False)
            found.append(torch.cat([one.grad.flatten() for one in trainer.weights if one.grad is not None]))
        count = int((trainer.objective.repeats >= 0).sum())
    mean, mean_both, summed_alone, summed_both = found
    torch.testing.assert_close(summed_alone, 18 * mean)
    torch.testing.assert_close(summed_both - summed_alone, count * (mean_both - mean), rtol=1e-6, atol=1e-8)


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


@pytest.mark.parametrize("mode", ["off", "extra-batch", "soft-label"])
def test_out_of_memory_halves_the_pass_and_changes_no_step(tmp_path: Path, mode: str) -> None:
    questions, _ = small()
    narrow, wide = Narrow(None, make_head(dropout=0.0)).double(), head()
    narrow.load_state_dict(wide.state_dict())
    recipe = replace(STILL, weak=mode, epochs=2)
    said: list[str] = []
    callbacks = Callbacks(warn=said.append)
    progress = make_trainer(tmp_path / "a", recipe, narrow, questions=questions, callbacks=callbacks).run()
    make_trainer(tmp_path / "b", recipe, wide, questions=questions).run()
    assert progress.at_once == 2
    assert [f" {rows} queries" in one and " 8 " in one for one, rows in zip(said, (4, 2), strict=False)] == [True, True]
    for name, weights in wide.state_dict().items():
        torch.testing.assert_close(narrow.state_dict()[name], weights, rtol=1e-6, atol=1e-8)


def test_a_second_loss_that_is_no_number_stops_before_its_step(tmp_path: Path) -> None:
    questions, _ = small()
    for mode in ("extra-batch", "loss-weight"):
        trainer = make_trainer(tmp_path, replace(STILL, weak=mode), head(), questions=questions)
        trainer.objective.queries.texts[18:] = torch.nan
        before = [weights.detach().clone() for weights in trainer.weights]
        assert math.isnan(trainer.update(torch.arange(18), 1e-3))
        moved = any(not torch.equal(*pair) for pair in zip(before, trainer.weights, strict=True))
        assert moved == (mode == "extra-batch")  # its first step was sound
        assert all(bool(weights.isfinite().all()) for weights in trainer.weights)

"""The loop: exact gradients, exact accumulation, the same result after any stop, and an end that says why."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor, nn
from torch.nn import functional

from ctxr.errors import CtxrError
from ctxr.models.encoders import find_source
from ctxr.models.scorers import Batch, ClipScorer, marks_at, trainable
from ctxr.models.training.examples import ExampleTable
from ctxr.models.training.loop import BEST, STATE, Callbacks, Trainer
from ctxr.models.training.scoring import accuracy_of, score_all
from tests.models.scorers import make_head, make_scorer
from tests.models.training_questions import SMALL, Killed, Table, killer, make_questions, make_trainer
from tests.models.weak_questions import small

STILL = replace(SMALL, dropout=0.0)


def gradients(scorer: nn.Module) -> dict[str, Tensor]:
    return {name: w.grad.clone() for name, w in scorer.named_parameters() if w.grad is not None}


def tensors(file: Path) -> dict[str, Tensor]:
    loaded: dict[str, Tensor] = load_file(file)
    return loaded


def in_float64(questions: ExampleTable) -> ExampleTable:
    assert isinstance(questions.images, Table)
    texts = questions.texts.double() if questions.texts.is_floating_point() else questions.texts
    return replace(questions, images=Table(questions.images.content.double()), texts=texts)


def same(one: dict[str, Tensor], other: dict[str, Tensor]) -> bool:
    return one.keys() == other.keys() and all(torch.equal(value, other[name]) for name, value in one.items())


def per_description(scorer: nn.Module, questions: ExampleTable) -> dict[str, Tensor]:
    """Gradient of the mean loss by the slow obvious loop: each query alone, with all of its images encoded for it."""
    scorer.zero_grad()
    for row in range(len(questions)):
        there = questions.mask[row]
        images = questions.images(questions.candidates[row][there])
        batch = Batch(
            images=images,
            texts=questions.texts[row : row + 1],
            candidates=torch.arange(len(images))[None],
            mask=torch.ones(1, len(images), dtype=torch.bool),
            ordered=questions.ordered[row : row + 1],
            targets=questions.targets[row : row + 1],
        )
        loss = functional.cross_entropy(scorer(batch), batch.targets.int().argmax(1)) / len(questions)
        torch.autograd.backward(loss)
    found = gradients(scorer)
    scorer.zero_grad()
    return found


@pytest.mark.parametrize("name", ["batch", "live temporal"])
def test_set_major_gradients_equal_those_of_the_loop_over_descriptions(tmp_path: Path, name: str) -> None:
    scorer = make_scorer(name, tmp_path, dropout=0.0).double()
    scorer.scale = 1000 * 32 / 512  # makes products of 32 numbers as large as 1000 does those of 512
    questions = in_float64(make_questions(scorer))
    trainer = make_trainer(tmp_path, STILL, scorer, questions=questions)
    expected = per_description(scorer, questions)
    trainer.progress.at_once = len(questions)
    trainer.update(torch.arange(len(questions)), 0.0, apply=False)
    found = gradients(scorer)
    assert found.keys() == expected.keys()
    whole = torch.cat([one.flatten() for one in expected.values()])
    difference = torch.cat([(found[name] - one).flatten() for name, one in expected.items()])
    assert float(difference.norm() / whole.norm()) <= 1e-12


def test_the_vectors_of_a_trained_encoder_never_depend_on_the_pictures_beside_them() -> None:
    scorer = ClipScorer(trainable(find_source("ctxr-tiny", lambda _: None).build)).train()
    kinds = [module for module in scorer.modules() if isinstance(module, nn.BatchNorm2d)]
    assert kinds
    assert not any(module.training for module in kinds)
    pixels = torch.randn(2, 3, 96, 96)
    with torch.no_grad():
        both, alone = scorer.encoder.encode_image(pixels), scorer.encoder.encode_image(pixels[:1])
    torch.testing.assert_close(both[:1], alone, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("at_once", [1, 5])
def test_accumulation_equals_the_big_batch_also_in_the_last_partial_step(tmp_path: Path, at_once: int) -> None:
    def trained(passes: int) -> dict[str, Tensor]:
        scorer = ClipScorer(None, make_head(dropout=0.0)).double()
        questions = in_float64(make_questions(scorer))
        recipe = replace(STILL, at_once=passes, epochs=1)  # 18 queries in steps of 8: the last has 2
        make_trainer(tmp_path / str(passes), recipe, scorer, questions=questions).run()
        return dict(scorer.state_dict())

    whole, parts = trained(0), trained(at_once)
    for name, weights in whole.items():
        torch.testing.assert_close(parts[name], weights, rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize(
    ("variant", "leaked", "weak"),
    [
        ("module", False, "off"),
        ("none", True, "off"),
        ("module", True, "extra-batch"),
        ("none", False, "extra-batch"),
        ("module", True, "loss-weight"),
    ],
)
def test_a_training_killed_between_any_epochs_goes_on_to_the_same_bits(
    tmp_path: Path, variant: str, leaked: bool, weak: str
) -> None:
    recipe = replace(
        SMALL, leaked_gradients=leaked, variant=variant, weak=weak, schedule="cosine", warmup=0.2, weight_decay=0.1
    )
    questions, _ = small(dtype=torch.float32)
    make_trainer(tmp_path / "whole", recipe, questions=questions).run()
    said: list[str] = []
    for after in (1, 2, 3):
        callbacks = Callbacks(epoch=killer(after), note=said.append)
        with pytest.raises(Killed):
            make_trainer(tmp_path / "cut", recipe, questions=questions, callbacks=callbacks).run()
    make_trainer(tmp_path / "cut", recipe, questions=questions).run()
    assert said == [f"seed 0 resumes after epoch {epoch} of 3" for epoch in (1, 2)]
    for name in (BEST, STATE):
        assert same(tensors(tmp_path / "whole" / name), tensors(tmp_path / "cut" / name))


def test_a_training_killed_while_it_writes_goes_on_from_the_epoch_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_trainer(tmp_path / "whole").run()

    def cut(*_: object) -> None:
        raise Killed

    with pytest.raises(Killed):
        make_trainer(tmp_path / "cut", callbacks=Callbacks(epoch=killer(1))).run()
    with monkeypatch.context() as patched:
        patched.setattr("ctxr.models.training.loop.save_state", cut)
        with pytest.raises(Killed):
            make_trainer(tmp_path / "cut").run()
    make_trainer(tmp_path / "cut").run()
    assert same(tensors(tmp_path / "whole" / BEST), tensors(tmp_path / "cut" / BEST))


def test_a_state_of_another_training_and_a_damaged_one_are_left_aside(tmp_path: Path) -> None:
    make_trainer(tmp_path, key="one").run()
    assert make_trainer(tmp_path, replace(SMALL, epochs=1), key="other").run().epochs == 1
    content = (tmp_path / STATE).read_bytes()
    (tmp_path / STATE).write_bytes(content[: len(content) // 2])
    assert make_trainer(tmp_path, replace(SMALL, epochs=2), key="other").run().epochs == 2


def test_seeds_differ_and_a_seed_repeats_itself(tmp_path: Path) -> None:
    for name, seed in (("a", 0), ("b", 0), ("c", 1)):
        make_trainer(tmp_path / name, seed=seed).run()
    assert same(tensors(tmp_path / "a" / BEST), tensors(tmp_path / "b" / BEST))
    assert not same(tensors(tmp_path / "a" / STATE), tensors(tmp_path / "c" / STATE))


def test_training_stops_when_validation_has_not_improved_and_keeps_the_best_epoch(tmp_path: Path) -> None:
    recipe = replace(SMALL, lr=1e-12, epochs=9, patience=2)
    progress = make_trainer(tmp_path, recipe).run()
    assert (progress.best, progress.epochs) == (1, 3)
    assert make_trainer(tmp_path, recipe).run().epochs == 3  # and asked again it stays stopped


def test_without_validation_the_last_epoch_is_taken(tmp_path: Path) -> None:
    progress = make_trainer(tmp_path, valid=None).run()
    assert (progress.best, progress.epochs) == (3, 3)
    kept, last = tensors(tmp_path / BEST), tensors(tmp_path / STATE)
    assert all(torch.equal(weights, last[f"model.{name}"]) for name, weights in kept.items())


def test_the_last_epoch_counts_unless_the_quirk_leaves_it_unjudged(tmp_path: Path) -> None:
    recipe = replace(SMALL, lr=3e-3, epochs=5, dropout=0.0)
    fixed = make_trainer(tmp_path / "fixed", recipe).run()
    quirk = make_trainer(tmp_path / "quirk", replace(recipe, unjudged_last_epoch=True)).run()
    assert fixed.history[-1].accuracy is not None
    assert quirk.history[-1].accuracy is None
    assert quirk.best is not None
    assert quirk.best < 5
    assert [row.accuracy for row in quirk.history[:-1]] == [row.accuracy for row in fixed.history[:-1]]


def test_a_loss_that_is_no_number_stops_says_where_and_keeps_the_last_good_checkpoint(tmp_path: Path) -> None:
    make_trainer(tmp_path, replace(SMALL, epochs=1)).run()
    before = (tmp_path / BEST).read_bytes()
    trainer = make_trainer(tmp_path)
    assert isinstance(trainer.objective.train.images, Table)
    trainer.objective.train.images.content[0] = torch.nan
    message = r"nan in epoch 2, step \d of 3; .*best.safetensors"
    with pytest.raises(CtxrError, match=message) as caught:
        trainer.run()
    assert caught.value.hint.endswith(" --set lr=0.00025")
    assert (tmp_path / BEST).read_bytes() == before


def test_validation_scores_that_are_no_numbers_stop_before_the_epoch_is_kept(tmp_path: Path) -> None:
    scorer = ClipScorer(None, make_head())
    good, bad = make_questions(scorer), make_questions(scorer)
    assert isinstance(bad.images, Table)
    bad.images.content[1] = torch.nan
    with pytest.raises(CtxrError, match=r"validation .* epoch 1 .*no epoch"):
        make_trainer(tmp_path, scorer=scorer, questions=good, valid=bad).run()
    assert not (tmp_path / STATE).exists()


@pytest.mark.parametrize("epochs", [1, 3])
def test_without_validation_weights_that_score_no_numbers_are_not_kept(tmp_path: Path, epochs: int) -> None:
    recipe = replace(SMALL, lr=1e30, batch=18, epochs=epochs)  # one step an epoch: its loss was taken before it
    with pytest.raises(CtxrError, match=r"training queries .* epoch 1 .*no epoch"):
        make_trainer(tmp_path, recipe, valid=None).run()
    assert not (tmp_path / BEST).exists()


def test_no_memory_for_a_single_query_is_an_error_and_other_failures_stay_what_they_are(tmp_path: Path) -> None:
    trainer = make_trainer(tmp_path)

    def refuse(_: Batch) -> Tensor:
        raise RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 9 bytes")

    def fail(_: Batch) -> Tensor:
        raise RuntimeError("something else")

    for forward, error, match in ((refuse, CtxrError, "for one query"), (fail, RuntimeError, "something else")):
        trainer.scorer.forward = forward
        with pytest.raises(error, match=match):
            trainer.update(torch.arange(4), 0.0)


def test_leaked_gradients_wait_for_the_next_epoch(tmp_path: Path) -> None:
    def steps(recipe_leaks: bool) -> int:
        trainer = make_trainer(tmp_path / str(recipe_leaks), replace(SMALL, leaked_gradients=recipe_leaks, epochs=1))
        trainer.run()
        left = sum(weights.grad is not None for weights in trainer.weights)
        assert bool(left) == recipe_leaks
        return int(trainer.optimiser.state_dict()["state"][0]["step"])

    assert (steps(False), steps(True)) == (3, 2)  # 18 queries in steps of 8


def test_dropout_in_evaluation_is_a_quirk_that_validation_shows(tmp_path: Path) -> None:
    def accuracies(quirk: bool) -> list[float | None]:
        recipe = replace(SMALL, lr=1e-12, dropout_in_evaluation=quirk, dropout=0.9, epochs=6)
        return [row.accuracy for row in make_trainer(tmp_path / str(quirk), recipe).run().history]

    assert len(set(accuracies(False))) == 1
    assert len(set(accuracies(True))) > 1


def test_scores_come_back_in_the_order_of_the_queries(tmp_path: Path) -> None:
    scorer = make_scorer("temporal", tmp_path).eval()
    questions = make_questions(scorer)
    turned = questions.part(torch.arange(len(questions)).flip(0))
    scores = score_all(scorer, questions, at_once=4)
    torch.testing.assert_close(score_all(scorer, turned, at_once=7).flip(0), scores, rtol=1e-5, atol=1e-5)
    assert torch.equal(scores.isfinite(), questions.mask)


def test_candidates_that_share_the_top_share_the_hit() -> None:
    scores = torch.tensor([[1.0, 1.0, 0.0], [0.0, 2.0, 1.0], [3.0, 1.0, 2.0], [1.0, 0.0, 0.0]])
    assert accuracy_of(scores, marks_at(torch.tensor([0, 1, 1, -1]), 3)) == pytest.approx((0.5 + 1 + 0) / 3)
    assert accuracy_of(scores, torch.zeros(4, 3, dtype=torch.bool)) is None
    several = torch.tensor([[True, True, False], [True, False, True], [True, False, True], [False, True, True]])
    assert accuracy_of(scores, several) == pytest.approx((1 + 0 + 1 + 0) / 4)


def test_bf16_autocast_leaves_the_weights_and_the_scores_fine(tmp_path: Path) -> None:
    scorer = make_scorer("live module", tmp_path, dropout=0.0)
    trainer = make_trainer(tmp_path, replace(STILL, epochs=1), scorer, bf16=True)
    assert isinstance(trainer, Trainer)
    trainer.run()
    assert {weights.dtype for weights in scorer.parameters()} == {torch.float32}
    rough, exact = (score_all(scorer.eval(), trainer.objective.train, 8, bf16=bf16) for bf16 in (True, False))
    mask = trainer.objective.train.mask
    assert not torch.equal(rough[mask], exact[mask])
    assert float((rough[mask] - exact[mask]).abs().max()) < 0.1 * float(exact[mask].std()) + 0.1

"""The loop over claims: it learns, and judges each claim by the head that is named."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from ctxr.models.entailment.classifier import PairBatch, with_masked
from ctxr.models.entailment.sources import Branches, find_branches, new_classifier
from ctxr.models.entailment.training import EntailmentObjective, PairTable, make_claims, probabilities
from ctxr.models.training.loop import Trainer, TrainingRun
from tests.models.entailment.test_classifier import KINDS, RECIPE, batch_of

RATE = replace(RECIPE, lr=1e-3, epochs=12, batch=16, patience=0, masked=1, beta2=0.98, precision="fp32")


def shades(branches: Branches, claims: int = 64) -> PairTable:
    """Is a light picture light, is a dark one dark? Half of the claims say the other thing."""
    light, called = (torch.arange(claims) % 2).tolist(), (torch.arange(claims) // 2 % 2).tolist()
    noise = torch.randn(claims, 3, 32, 32, generator=torch.Generator().manual_seed(0)) * 0.1
    pictures = noise + torch.tensor(light).view(-1, 1, 1, 1).float() * 2 - 1
    rows = [
        (row, "", "A white cat." if called[row] else "A black cat.", int(light[row] == called[row]), KINDS[1])
        for row in range(claims)
    ]
    return make_claims(lambda used: pictures[used], rows, branches.tokenize)


def make_trainer(
    model: Any, recipe: Any, train: PairTable, valid: PairTable | None, run: TrainingRun
) -> Trainer[EntailmentObjective]:
    return Trainer(model, EntailmentObjective(recipe, train, valid, run))


@pytest.mark.parametrize("bf16", [False, True])
def test_it_learns_what_a_picture_entails(tmp_path: Path, bf16: bool) -> None:
    recipe = replace(RATE, text="", epochs=1 if bf16 else RATE.epochs)
    branches = find_branches(recipe)
    model, claims = new_classifier(recipe, branches, 0), shades(branches)
    progress = make_trainer(model, recipe, claims, claims, TrainingRun(tmp_path, bf16=bf16)).run()
    assert all(weights.isfinite().all() for weights in model.state_dict().values())
    assert progress.history[0].accuracy is not None
    assert max(row.accuracy or 0 for row in progress.history) > (0 if bf16 else 0.95)


def test_steps_in_several_passes_are_the_same_steps(tmp_path: Path) -> None:
    recipe = replace(RATE, text="", masking=0.0, epochs=1)
    branches = find_branches(recipe)
    found = []
    for at_once in (0, 5):
        model, claims = new_classifier(recipe, branches, 0), shades(branches)
        make_trainer(model, replace(recipe, at_once=at_once), claims, None, TrainingRun(tmp_path / str(at_once))).run()
        found.append(model.state_dict())
    for name, weights in found[0].items():
        torch.testing.assert_close(weights, found[1][name], rtol=1e-3, atol=1e-4)


def test_masked_pictures_of_a_step_and_its_gradients_do_not_depend_on_passes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recipe = replace(RATE, text="", masking=0.4, masked=2, batch=32)
    branches = find_branches(recipe)
    claims, rows = shades(branches), torch.randperm(64, generator=torch.Generator().manual_seed(1))[:32]
    masked: list[int] = []

    def counted(batch: PairBatch, branch: Any, ratio: float, chosen: torch.Tensor) -> PairBatch:
        masked.append(len(chosen))
        return with_masked(batch, branch, ratio, chosen)

    monkeypatch.setattr("ctxr.models.entailment.training.with_masked", counted)
    found = []
    for at_once in (32, 5):
        model = new_classifier(recipe, branches, 0)
        how = replace(recipe, at_once=at_once)
        trainer = make_trainer(model, how, claims, None, TrainingRun(tmp_path / str(at_once)))
        masked.clear()
        loss = trainer.update(rows, 1e-3, apply=False)
        assert sum(masked) == 2
        found.append((loss, [weights.grad for weights in trainer.weights]))
    (whole, at_once_), (parted, in_parts) = found
    assert parted == pytest.approx(whole, rel=1e-4)
    assert any(one is not None for one in at_once_)
    for one, other in zip(at_once_, in_parts, strict=True):
        assert (one is None) == (other is None)
        if one is not None and other is not None:
            torch.testing.assert_close(one, other, rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize(("rows", "masked"), [(32, 4), (24, 3), (16, 2), (3, 1)])
def test_a_short_step_masks_its_share_and_at_least_one(tmp_path: Path, rows: int, masked: int) -> None:
    recipe = replace(RATE, text="", masking=0.4, masked=4, batch=32)
    claims = shades(find_branches(recipe))
    positives = (claims.label == 1).nonzero().flatten()[:rows]
    (update,) = EntailmentObjective(recipe, claims, None, TrainingRun(tmp_path)).updates(positives, True)
    ((step, _),) = update.steps
    assert torch.as_tensor(step.facts).tolist() == positives[:masked].tolist()


def test_a_claim_of_dev_is_called_entailed_from_one_half(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recipe = replace(RATE, text="")
    claims = replace(shades(find_branches(recipe), 4), label=torch.tensor([1, 0, 1, 0]))
    said = np.array([0.5, 0.499, 0.501, 0.2], np.float32)
    monkeypatch.setattr("ctxr.models.entailment.training.probabilities", lambda *_: said)
    objective = EntailmentObjective(recipe, claims, claims, TrainingRun(tmp_path))
    assert objective.validate(torch.nn.Module(), 1, 4) == 1.0


@torch.no_grad()
def test_the_probability_of_a_claim_is_that_of_the_named_head() -> None:
    branches = find_branches(RECIPE)
    model = new_classifier(RECIPE, branches, 1).eval()
    batch = batch_of(branches)
    premises = ["There is a red cat.", "", "There is a red cat.", "A blue star."]
    hypotheses = ["A cat.", "A star.", "A red figure.", "A star is there."]
    for column in range(3):
        theta = [[one == column for one in range(3)]] * 4
        rows = list(zip(batch.place.tolist(), premises, hypotheses, [0] * 4, theta, strict=True))
        told = probabilities(model, make_claims(lambda used: batch.images[used], rows, branches.tokenize), 3)
        wanted = model(replace(batch, theta=torch.tensor(theta)))[:, column].softmax(-1)[:, 1]
        np.testing.assert_allclose(told, wanted.numpy(), rtol=1e-4)

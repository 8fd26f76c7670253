"""All pairs of a batch against each other: the loss by the slow way, exact caching of gradients, weak positives."""

import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from ctxr.errors import CtxrError
from ctxr.models.scorers import LARGEST_SCALE, ClipScorer
from ctxr.models.training.examples import PositivePairs
from ctxr.models.training.loop import STATE, Callbacks, Trainer, TrainingRun, cached_gradients
from ctxr.models.training.state import Epoch
from ctxr.problems.gallery.contrastive import (
    ContrastiveObjective,
    GalleryPairs,
    contrast,
    info_nce,
)
from ctxr.problems.gallery.recipe import GalleryRecipe
from tests.problems.gallery.drawn import CAPTIONS, IMAGES, WORDS, listed, make

SMALL = GalleryRecipe(
    variant="in-batch", lr=1e-2, beta2=0.999, eps=1e-8, weight_decay=0.0, batch=6, epochs=3, patience=0, weak="off"
)


class Towers(nn.Module):
    """Two small towers with dropout and a temperature, as open_clip names them."""

    def __init__(self, dropout: float = 0.3) -> None:
        super().__init__()
        self.visual = nn.Sequential(nn.Flatten(), nn.Linear(12, 16), nn.Tanh(), nn.Dropout(dropout), nn.Linear(16, 8))
        self.words = nn.Embedding(WORDS, 16)
        self.read = nn.Sequential(nn.Dropout(dropout), nn.Tanh(), nn.Linear(16, 8))
        self.logit_scale = nn.Parameter(torch.tensor(math.log(10.0)))

    def encode_text(self, tokens: Tensor) -> Tensor:
        found: Tensor = self.read(self.words(tokens).mean(1))
        return found


def make_scorer(dropout: float = 0.3, seed: int = 0) -> ClipScorer:
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return ClipScorer(Towers(dropout)).double()


def trainer(
    folder: Path, recipe: GalleryRecipe = SMALL, scorer: ClipScorer | None = None, **more: Any
) -> Trainer[ContrastiveObjective]:
    pairs = more.pop("pairs", None) or make()
    scorer = scorer or make_scorer()
    return Trainer(scorer, ContrastiveObjective(recipe, pairs, pairs, TrainingRun(folder, **more)))


def gradients(scorer: nn.Module) -> Tensor:
    return torch.cat(
        [torch.zeros_like(w).flatten() if w.grad is None else w.grad.flatten() for w in scorer.parameters()]
    )


def by_hand(images: Tensor, texts: Tensor, scale: float, pairs: GalleryPairs, rows: list[int], weak: str) -> float:
    """The loss pair by pair, as the paper words it: an own positive against all that is not known to hold."""
    written, also = listed(pairs.written) | listed(pairs.doubtful), listed(pairs.weak)
    held = [(int(pairs.captions[row]), int(pairs.candidates[row, 0])) for row in rows]
    total = 0.0
    for place, (caption, image) in enumerate(held):
        pictures = {(caption, one): float(scale * texts[place] @ images[one]) for _, one in held}
        captions = {(one, image): float(scale * texts[at] @ images[image]) for at, (one, _) in enumerate(held)}
        for scores in (pictures, captions):
            weights, summed = {(caption, image): 1.0}, 0.0
            for pair, score in scores.items():
                if pair != (caption, image):
                    if pair in written or (pair in also and weak == "mask-only"):
                        continue
                    if pair in also and weak == "soft-label":
                        weights[pair] = 0.3
                summed += math.exp(score)
            share = sum(weights.values())
            total -= sum(weight / share * (scores[pair] - math.log(summed)) for pair, weight in weights.items()) / 2
    return total / len(held)


@pytest.mark.parametrize("doubtful", [[], [(0, 1), (4, 1), (8, 0), (7, 5)]])
@pytest.mark.parametrize("weak", ["off", "mask-only", "soft-label"])
def test_the_loss_equals_that_of_pair_after_pair(weak: str, doubtful: list[tuple[int, int]]) -> None:
    pairs, chance = make(), torch.Generator().manual_seed(1)
    pairs = replace(pairs, doubtful=PositivePairs.of(doubtful, CAPTIONS))
    rows = [0, 1, 3, 4, 5, 7, 8, 9]
    images, told = (
        nn.functional.normalize(torch.randn(count, 8, generator=chance, dtype=torch.float64), dim=1)
        for count in (IMAGES, CAPTIONS)
    )
    captions, own = pairs.captions[rows], pairs.candidates[rows, 0]
    known = contrast(pairs, captions, own)
    if weak == "off":
        known = replace(known, weak=torch.zeros_like(known.weak))
    found = info_nce(
        images[known.images], told[known.captions], torch.tensor(7.0), known, 0.3 if weak == "soft-label" else None
    )
    assert float(found) == pytest.approx(by_hand(images, told[captions], 7.0, pairs, rows, weak), rel=1e-12)
    assert bool(known.weak.any()) == (weak != "off")
    assert bool((known.positive.sum(0) > 1).any())


def test_a_soft_label_of_no_weight_takes_weak_positives_for_negatives() -> None:
    pairs, chance = make(), torch.Generator().manual_seed(0)
    images, texts = (nn.functional.normalize(torch.randn(n, 8, generator=chance), dim=1) for n in (IMAGES, CAPTIONS))
    known = contrast(pairs, pairs.captions, pairs.candidates[:, 0])
    none = replace(known, weak=torch.zeros_like(known.weak))
    scale = torch.tensor(5.0)
    torch.testing.assert_close(info_nce(images, texts, scale, known, 0.0), info_nce(images, texts, scale, none))
    assert info_nce(images, texts, scale, known) < info_nce(images, texts, scale, none)


def test_what_holds_is_found_in_any_batch() -> None:
    chance = np.random.default_rng(0)
    table = chance.random((7, 10)) < 0.3
    known = PositivePairs.of([(int(c), int(i)) for c, i in np.argwhere(table)], 7)
    captions, images = torch.tensor([5, 0, 5, 3]), torch.tensor([1, 4, 8, 9])
    found = known.among(captions, images.expand(4, -1))
    assert found.numpy().tolist() == table[[5, 0, 5, 3]][:, [1, 4, 8, 9]].tolist()
    turned = known.turned(10).among(images, torch.tensor([0, 3, 5]).expand(4, -1))
    assert turned.numpy().tolist() == table.T[[1, 4, 8, 9]][:, [0, 3, 5]].tolist()
    torch.manual_seed(0)
    rows, drawn = known.draw(torch.arange(7))
    assert rows.tolist() == np.flatnonzero(table.any(1)).tolist()
    assert all(table[row, image] for row, image in zip(rows.tolist(), drawn.tolist(), strict=True))


@pytest.mark.parametrize("most", [1, 4, 5])
def test_cached_gradients_equal_those_of_the_whole_batch(tmp_path: Path, most: int) -> None:
    found = []
    for at_once in (most, 100):
        one = trainer(tmp_path, replace(SMALL, at_once=at_once), make_scorer(dropout=0.0))
        one.update(torch.arange(len(one.objective)), 0.0, apply=False)
        one.accumulate(one.objective.step(one.objective.train.captions, one.objective.train.candidates[:, 0]))
        found.append(gradients(one.scorer))
    assert float(found[1].norm()) > 0
    assert float((found[0] - found[1]).norm() / found[1].norm()) <= 1e-10


def test_cached_gradients_equal_those_of_one_graph_over_the_same_chance() -> None:
    pairs, scorer = make(), make_scorer(dropout=0.4).train()
    weights = list(scorer.parameters())
    known = contrast(pairs, pairs.captions, pairs.candidates[:, 0])

    def towers() -> list[list[Callable[[], Tensor]]]:
        images: list[Callable[[], Tensor]] = [partial(look, rows) for rows in torch.split(known.images, 4)]
        return [images, [partial(read, rows) for rows in torch.split(torch.arange(CAPTIONS), 3)]]

    def look(rows: Tensor) -> Tensor:
        return scorer.image_vectors(pairs.images(rows))

    def read(rows: Tensor) -> Tensor:
        return scorer.text_vectors(pairs.texts[pairs.first[rows]])

    def loss(vectors: Any) -> Tensor:
        return info_nce(vectors[0], vectors[1], scorer.encoder.logit_scale.exp(), known)

    torch.manual_seed(3)
    whole = loss([torch.cat([encode() for encode in parts]) for parts in towers()])
    expected = torch.autograd.grad(whole, weights)
    after = torch.rand(3)
    torch.manual_seed(3)
    value, found = cached_gradients(towers(), loss, weights)
    assert torch.equal(torch.rand(3), after)
    assert value == pytest.approx(float(whole.detach()), rel=1e-12)
    for gradient, other in zip(found, expected, strict=True):
        assert gradient is not None
        assert float((gradient - other).norm() / other.norm()) <= 1e-10


def test_out_of_memory_goes_on_with_cached_gradients_and_the_same_step(tmp_path: Path) -> None:
    scorer = make_scorer(dropout=0.0)
    told: list[str] = []
    plain = trainer(tmp_path / "plain", replace(SMALL, epochs=1), make_scorer(dropout=0.0))
    plain.run()

    def small(_tower: nn.Module, given: tuple[Tensor]) -> None:
        if len(given[0]) > 2:
            raise RuntimeError("can't allocate memory")

    scorer.encoder.visual.register_forward_pre_hook(small)
    one = trainer(tmp_path / "small", replace(SMALL, epochs=1), scorer, callbacks=Callbacks(warn=told.append))
    assert one.run().at_once < 3
    assert any("out of memory" in line and "still 6 a step" in line for line in told)
    for name, weights in plain.scorer.state_dict().items():
        torch.testing.assert_close(one.scorer.state_dict()[name], weights, rtol=1e-9, atol=1e-11)


def test_a_training_that_was_stopped_goes_on_to_the_same_bits(tmp_path: Path) -> None:
    recipe, pairs = replace(SMALL, weak="extra-batch", at_once=4), make()
    whole = trainer(tmp_path / "whole", recipe, pairs=pairs)
    whole.run()

    def stop(row: Epoch) -> None:
        if row.epoch == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        trainer(tmp_path / "parts", recipe, pairs=pairs, callbacks=Callbacks(epoch=stop)).run()
    rest = trainer(tmp_path / "parts", recipe, pairs=pairs)
    assert rest.run().epochs == 3
    for name, weights in whole.scorer.state_dict().items():
        assert torch.equal(rest.scorer.state_dict()[name], weights)
    assert [row.loss for row in rest.progress.history] == [row.loss for row in whole.progress.history]
    assert (tmp_path / "parts" / STATE).is_file()
    other = trainer(tmp_path / "other", recipe, pairs=pairs, seed=1)
    other.run()
    assert not torch.equal(gradients_of_state(other), gradients_of_state(whole))


def gradients_of_state(one: Trainer[ContrastiveObjective]) -> Tensor:
    return torch.cat([weights.flatten() for weights in one.scorer.state_dict().values()])


def test_weak_positives_of_pictures_outside_the_batch_change_nothing(tmp_path: Path) -> None:
    rows = torch.tensor([13, 14])  # pictures 8 alone: its only weak caption is 10
    found = []
    for pairs in (make(), make(weak=False)):
        one = trainer(tmp_path, replace(SMALL, weak="mask-only"), make_scorer(dropout=0.0), pairs=pairs)
        one.accumulate(one.objective.step(pairs.captions[rows], pairs.candidates[rows, 0]))
        found.append(gradients(one.scorer))
    assert torch.equal(*found)


@pytest.mark.parametrize("doubtful", [[], [(0, 1), (4, 1), (8, 0), (7, 5), (12, 6)]])
def test_validation_is_the_recall_sum_of_every_gallery_by_itself(
    tmp_path: Path, doubtful: list[tuple[int, int]]
) -> None:
    scorer, pairs = make_scorer(dropout=0.0).eval(), make()
    pairs = replace(pairs, doubtful=PositivePairs.of(doubtful, CAPTIONS))
    one = trainer(tmp_path, replace(SMALL, epochs=1), scorer, pairs=pairs)
    found = one.objective.scored(scorer, pairs, 4)
    assert found.shape == (IMAGES, CAPTIONS)
    owners, galleries = pairs.candidates[pairs.first, 0].numpy(), pairs.galleries.numpy()
    total = []
    for gallery in (0, 1):
        images = np.flatnonzero(galleries == gallery)
        captions = np.flatnonzero(galleries[owners] == gallery)
        scores = found.queries[images] @ found.candidates[captions].T
        for caption, image in doubtful:
            if image in images:
                scores[np.searchsorted(images, image), np.searchsorted(captions, caption)] = -np.inf
        right = owners[captions][None] == images[:, None]
        six = []
        for table, truth in ((scores, right), (scores.T, right.T)):
            order = np.argsort(-table, axis=1)
            ranked = np.take_along_axis(truth, order, axis=1)
            six += [ranked[:, :k].any(axis=1).mean() for k in (1, 5, 10)]
        total += [np.mean(six)] * len(captions)
    assert one.objective.validate(scorer, 0, 4) == pytest.approx(np.mean(total), abs=1e-12)
    row = one.run().history[0]
    assert row.accuracy == pytest.approx(one.objective.validate(one.scorer, 1, 4))


def test_the_temperature_stays_within_what_clip_was_trained_with(tmp_path: Path) -> None:
    scorer = make_scorer()
    with torch.no_grad():
        scorer.encoder.logit_scale.fill_(LARGEST_SCALE + 1)
    one = trainer(tmp_path, replace(SMALL, lr=1e-6), scorer)
    one.update(torch.arange(4), 1e-6)
    assert float(scorer.encoder.logit_scale.detach()) == pytest.approx(LARGEST_SCALE)


def test_validation_scores_that_are_no_numbers_end_the_training(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = trainer(tmp_path)
    monkeypatch.setattr(one, "update", lambda *_, **__: 0.0)
    with torch.no_grad():
        one.scorer.encoder.words.weight.fill_(float("nan"))  # type: ignore[operator,union-attr]
    with pytest.raises(CtxrError, match="epoch 1 are not finite"):
        one.run()

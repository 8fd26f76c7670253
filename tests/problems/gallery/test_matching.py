"""Encoders of pairs in galleries: what is drawn, the loss by the slow way, weak positives, shortlists."""

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from ctxr.errors import UsageError
from ctxr.metrics.retrieval import Vectors
from ctxr.models.scorers import Batch
from ctxr.models.training.examples import PositivePairs
from ctxr.models.training.loop import Callbacks, Trainer, TrainingRun
from ctxr.problems.gallery.contrastive import GalleryPairs, contrast
from ctxr.problems.gallery.matching import (
    MatchingObjective,
    PairMatcher,
    Shortlist,
    draw_compared,
    gallery_scores,
    matching_loss,
)
from ctxr.problems.gallery.recipe import GalleryRecipe
from tests.models.training_questions import Table
from tests.problems.gallery.drawn import IMAGES, OWNERS, WORDS, listed, make

SMALL = GalleryRecipe(
    variant="in-batch", encoder="random:blip-tiny", lr=1e-2, eps=1e-8, weight_decay=0.0, batch=6, epochs=3, patience=0,
    distractors=2, loss="binary",
)  # fmt: skip


class Looker(nn.Module):
    """Looks at picture and text together; remembers the pairs that it was shown."""

    def __init__(self, dropout: float = 0.0) -> None:
        super().__init__()
        self.words = nn.Embedding(WORDS, 8)
        self.look = nn.Linear(12, 8)
        self.meet = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Dropout(dropout), nn.Linear(16, 1))
        self.shown: list[tuple[Tensor, Tensor]] = []

    def forward(self, batch: Batch) -> Tensor:
        seen, told = self.look(batch.images.flatten(1)), self.words(batch.texts).mean(1)
        scores: Tensor = self.meet(seen[batch.candidates] * told[:, None]).squeeze(-1)
        row, place = batch.mask.nonzero(as_tuple=True)
        self.shown.append((batch.texts[row], batch.images[batch.candidates[row, place]]))
        return scores.masked_fill(~batch.mask, float("-inf"))


def make_looker(dropout: float = 0.0) -> Looker:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return Looker(dropout).double()


def make_trainer(
    folder: Path, recipe: GalleryRecipe = SMALL, scorer: Looker | None = None, **more: Any
) -> Trainer[MatchingObjective]:
    pairs = more.pop("pairs", None) or make()
    return Trainer(scorer or make_looker(), MatchingObjective(recipe, pairs, pairs, TrainingRun(folder), **more))


@pytest.mark.parametrize("soft", [False, True])
def test_what_is_known_to_hold_is_never_drawn_and_everything_else_is_some_time(soft: bool) -> None:
    pairs = replace(make(), doubtful=PositivePairs.of([(0, 8), (9, 0)], len(OWNERS)))
    captions, images = pairs.captions, pairs.candidates[:, 0]
    known = contrast(pairs, captions, images)
    holds = listed(pairs.written) | listed(pairs.doubtful) | (set() if soft else listed(pairs.weak))
    met = set()
    with torch.random.fork_rng():
        torch.manual_seed(0)
        for _ in range(60):
            (_, pictures, pictures_present), (texts, _, texts_present) = draw_compared(known, 3, soft)
            assert bool(pictures_present.all())
            assert bool(texts_present.all())
            for row, caption in enumerate(captions.tolist()):
                others = known.images[pictures[row, 1:]].tolist()
                assert len(set(others)) == 3
                met |= {(caption, one) for one in others}
            for row, image in enumerate(images.tolist()):
                others = known.captions[texts[row, 1:]].tolist()
                assert len(set(others)) == 3
                met |= {(one, image) for one in others}
    assert met == {(c, i) for c in range(len(OWNERS)) for i in range(IMAGES)} - holds


def test_where_fewer_are_left_all_of_them_are_drawn() -> None:
    pairs = make()
    known = contrast(pairs, torch.tensor([0, 3]), torch.tensor([0, 1]))
    (_, pictures, present), _ = draw_compared(known, 5, soft=False)
    assert pictures.shape == (2, 3)
    assert present.sum(1).tolist() == [2, 2]


@pytest.mark.parametrize("kind", ["softmax", "binary"])
@pytest.mark.parametrize("soft", [None, 0.3])
def test_the_loss_equals_that_of_pair_after_pair(kind: str, soft: float | None) -> None:
    pairs = make()
    rows = torch.tensor([0, 1, 3, 4, 5, 7, 8, 9, 13])
    captions, images = pairs.captions[rows], pairs.candidates[rows, 0]
    known = contrast(pairs, captions, images)
    with torch.random.fork_rng():
        torch.manual_seed(3)
        drawn = draw_compared(known, 4, soft is not None)
    scores = torch.randn(known.positive.shape, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    found = matching_loss(scores, drawn, known, kind, soft)
    (_, drawn_images, images_present), (drawn_captions, _, captions_present) = drawn
    slow, weak_met = 0.0, 0
    for row in range(len(rows)):
        told, own = int(known.caption_index[row]), int(known.image_index[row])
        pictures = [(told, one) for one in drawn_images[row][images_present[row]].tolist()[1:]]
        texts = [(one, own) for one in drawn_captions[row][captions_present[row]].tolist()[1:]]
        for others in (pictures, texts):
            weak = [pair for pair in others if bool(known.weak[pair])]
            weak_met += len(weak)
            right = {(told, own): 1.0} | dict.fromkeys(weak, soft or 0.0)
            values = {pair: float(scores[pair]) for pair in [(told, own), *others]}
            if kind == "binary":
                each = [
                    -(right.get(pair, 0.0) * log_share(value) + (1 - right.get(pair, 0.0)) * log_share(-value))
                    for pair, value in values.items()
                ]
                slow += sum(each) / len(each) / 2
            else:
                total = math.log(sum(math.exp(value) for value in values.values()))
                slow -= sum(w * (values[pair] - total) for pair, w in right.items()) / sum(right.values()) / 2
    assert float(found) == pytest.approx(slow, rel=1e-12)
    assert (weak_met > 0) == (soft is not None)


def log_share(value: float) -> float:
    return -math.log1p(math.exp(-value))


@pytest.mark.parametrize("loss", ["softmax", "binary"])
def test_passes_of_any_size_add_up_to_the_gradient_of_the_batch(tmp_path: Path, loss: str) -> None:
    found = []
    for at_once in (0, 4, 1):
        one = make_trainer(tmp_path, replace(SMALL, at_once=at_once, loss=loss, batch=15))
        with torch.random.fork_rng():
            torch.manual_seed(0)
            step = one.objective.step(one.objective.train.captions, one.objective.train.candidates[:, 0])
            found.append((one.accumulate(step), [weights.grad for weights in one.weights]))
    for total, gradients in found[1:]:
        assert total == pytest.approx(found[0][0], rel=1e-12)
        for gradient, whole in zip(gradients, found[0][1], strict=True):
            torch.testing.assert_close(gradient, whole)


def test_a_weighted_batch_counts_the_rounded_sum_of_its_passes_to_the_bit(tmp_path: Path) -> None:
    found = []
    for weight in (1.0, 0.3):
        one = make_trainer(tmp_path, replace(SMALL, at_once=2, batch=15), scorer=make_looker().float())
        for parameter in one.weights:
            parameter.grad = torch.full_like(parameter, 0.7) if weight != 1.0 else None
        with torch.random.fork_rng():
            torch.manual_seed(0)
            pairs = replace(one.objective.train, images=Table(one.objective.train.images.content.float()))  # type: ignore[attr-defined]
            one.objective.train = pairs
            one.accumulate(one.objective.step(pairs.captions, pairs.candidates[:, 0]), weight)
        found.append([parameter.grad for parameter in one.weights])
    for sums, weighted in zip(*found, strict=True):
        if sums is not None and weighted is not None:
            assert torch.equal(weighted, 0.7 + 0.3 * sums)


@pytest.mark.parametrize("weak", ["mask-only", "extra-batch", "loss-weight"])
def test_weak_positives_are_shown_as_positives_or_not_at_all(
    tmp_path: Path, weak: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    pairs, scorer = make(), make_looker()
    one = make_trainer(tmp_path, replace(SMALL, weak=weak, distractors=8, batch=15), scorer, pairs=pairs)
    told = {tuple(row.tolist()): place for place, row in enumerate(pairs.texts[pairs.first])}
    seen = {tuple(pairs.images(torch.tensor([i])).flatten().tolist()): i for i in range(IMAGES)}
    steps: list[tuple[int, float]] = []
    groups = one.optimiser.param_groups
    monkeypatch.setattr(one.optimiser, "step", lambda: steps.append((len(scorer.shown), groups[0]["lr"])))
    with torch.random.fork_rng():
        torch.manual_seed(0)
        one.update(torch.arange(len(pairs)), 1e-2)
    shown = [
        {(told[tuple(t.tolist())], seen[tuple(i.flatten().tolist())]) for t, i in zip(*part, strict=True)}
        for part in scorer.shown
    ]
    extra = listed(pairs.weak)
    assert not shown[0] & extra
    assert steps == ([(1, 1e-2), (2, 0.3 * 1e-2)] if weak == "extra-batch" else [(len(shown), 1e-2)])
    if weak != "mask-only":
        assert len(shown) == 2
        assert {image for _, image in shown[1] & extra} == {image for _, image in extra}


def test_without_weak_positives_being_known_they_are_negatives(tmp_path: Path) -> None:
    pairs = make(weak=False)
    scorer = make_looker()
    one = make_trainer(tmp_path, replace(SMALL, distractors=20, batch=15), scorer, pairs=pairs)
    one.accumulate(one.objective.step(pairs.captions, pairs.candidates[:, 0]))
    assert len(scorer.shown[0][0]) == len(OWNERS) * IMAGES


def test_a_small_gallery_is_learned_by_heart(tmp_path: Path) -> None:
    pairs = make(weak=False)
    one = make_trainer(tmp_path, replace(SMALL, epochs=40, distractors=4, lr=3e-2), pairs=pairs)
    before = one.objective.validate(one.scorer, 0, 1)
    one.run()
    after = one.objective.validate(one.scorer, 40, 1)
    assert before is not None
    assert after is not None
    assert after > 0.95 > before


def slow_scores(scorer: Looker, pairs: GalleryPairs) -> np.ndarray:
    found = np.zeros((IMAGES, len(OWNERS)))
    none = torch.zeros(1, dtype=torch.int64)
    for image in range(IMAGES):
        for caption in range(len(OWNERS)):
            texts = pairs.texts[pairs.first[caption : caption + 1]]
            batch = Batch(
                pairs.images(torch.tensor([image])), texts, none[None], none[None] == 0, none == 0, none[None] == 0
            )
            found[image, caption] = float(scorer(batch))
    return found


def test_a_gallery_is_scored_as_pair_by_pair_and_by_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ctxr.problems.gallery.matching.PAIRS", 7)
    monkeypatch.setattr("ctxr.problems.gallery.matching.PICTURES", 4)
    pairs, scorer = make(), make_looker()
    done: list[float] = []
    with torch.no_grad():
        run = TrainingRun(tmp_path, callbacks=Callbacks(validated=done.append))
        found = MatchingObjective(SMALL, pairs, None, run).scored(scorer, pairs, 1)
        slow = slow_scores(scorer, pairs)
    inside = pairs.galleries.numpy()[:, None] == np.array([0 if one < 6 else 1 for one in OWNERS])
    assert sum(done) == IMAGES
    np.testing.assert_allclose(found.values[inside], slow[inside], rtol=1e-5)
    assert found.values[~inside].max() < found.values[inside].min()


def test_a_shortlist_is_looked_at_and_the_rest_stands_behind_in_the_order_of_the_vectors() -> None:
    rng = np.random.default_rng(0)
    vectors = Vectors(*(unit(rng.normal(size=(count, 5))) for count in (IMAGES, len(OWNERS))))
    pairs, scorer = make(), make_looker()
    shortlist = Shortlist(vectors, 2)
    images, captions = np.arange(6), np.arange(10)
    wanted = shortlist.wanted(images, captions)
    cosines = vectors.queries[images] @ vectors.candidates[captions].T
    best = np.argsort(-cosines, 1)[:, :2], np.argsort(-cosines.T, 1)[:, :2]
    expected = {(row, one) for row, near in enumerate(best[0]) for one in near.tolist()}
    expected |= {(one, row) for row, near in enumerate(best[1]) for one in near.tolist()}
    assert set(zip(*(place.tolist() for place in np.nonzero(wanted)), strict=True)) == expected
    scorer.shown.clear()
    with torch.no_grad():
        looked = PairMatcher(scorer, pairs.images, pairs.texts[pairs.first]).scores(images, captions, wanted)
        slow = slow_scores(scorer, pairs)[:6, :10]
    assert sum(len(texts) for texts, _ in scorer.shown[: -IMAGES * len(OWNERS)]) == wanted.sum()
    values = shortlist.ordered(looked, wanted, images, captions)
    np.testing.assert_allclose(values[wanted], slow[wanted], rtol=1e-5)
    assert values[~wanted].max() < values[wanted].min()
    assert (np.argsort(values[~wanted]) == np.argsort(cosines[~wanted])).all()


def test_what_lies_in_two_galleries_is_below_everything_though_a_score_is_no_number() -> None:
    galleries, owners = np.array([0, 1]), np.array([0, 1])
    given = np.array([[np.nan, -7.0]], np.float32)
    found = gallery_scores(galleries, owners, Shortlist(), lambda images, captions, wanted: given[:, images])
    assert np.isnan(found.values[0, 0])
    assert found.values[1, 1] == -7.0
    assert max(found.values[0, 1], found.values[1, 0]) < -7.0


def unit(vectors: np.ndarray) -> np.ndarray:
    found: np.ndarray = (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)
    return found


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"rerank": 4}, "rerank = 4 .* rerank_by is ''"),
        ({"rerank": 4, "rerank_by": "random:uniter-tiny"}, "encoder of vectors"),
        ({"rerank": 4, "encoder": "ctxr-tiny", "loss": "softmax", "distractors": 9}, "rerank = 4 .* encoders of pairs"),
        ({"rerank": -1}, "rerank = -1"),
        ({"loss": "binary", "encoder": "ctxr-tiny"}, "loss = 'binary' .*'in-batch'"),
    ],
)
def test_recipes_that_make_no_sense_are_refused(changes: dict[str, Any], words: str) -> None:
    replace(SMALL, rerank=4, rerank_by="ctxr-tiny").check()
    replace(SMALL, rerank=0, rerank_by="ctxr-tiny").check()
    with pytest.raises(UsageError, match=words):
        replace(SMALL, **changes).check()

"""What scorers over a region cross-encoder promise beside the contract of all scorers (`tests.models.test_scorers`)."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from ctxr.models.cross.encoder import RegionEncoder
from ctxr.models.cross.sources import load_cross
from ctxr.models.scorers import PairScorer
from ctxr.store.regions import BOX
from tests.models.scorers import FEATURES, REGION_SCORERS, REGIONS, WIDTH, make_pair_scorer, random_batch


def assert_close(scores: Tensor, wanted: Tensor) -> None:
    torch.testing.assert_close(scores, wanted, rtol=1e-5, atol=1e-5)


@pytest.fixture(params=REGION_SCORERS)
def scorer(request: pytest.FixtureRequest) -> PairScorer:
    return make_pair_scorer(request.param, Path()).eval()


@torch.no_grad()
def test_padding_of_tokens_and_of_regions_changes_no_score(scorer: PairScorer) -> None:
    batch = random_batch(scorer)
    scores = scorer(batch)
    assert_close(scorer(replace(batch, texts=nn.functional.pad(batch.texts, (0, 20)))), scores)
    # where the box is empty, features mean nothing
    more = nn.functional.pad(torch.rand(len(batch.images), 3, FEATURES), (0, BOX))
    assert_close(scorer(replace(batch, images=torch.cat([batch.images, more], 1))), scores)


@torch.no_grad()
@pytest.mark.parametrize("kind", REGIONS)
def test_the_size_of_a_pass_changes_no_score(kind: str) -> None:
    whole, small = (make_pair_scorer(f"{kind} temporal", Path(), most=most).eval() for most in (160, 4))
    batch = random_batch(whole)
    assert_close(small(batch), whole(batch))


@torch.no_grad()
def test_a_region_that_is_there_counts(scorer: PairScorer) -> None:
    batch = random_batch(scorer)
    images = batch.images.clone()
    images[:, 1, :FEATURES] += 2.0
    assert float((scorer(replace(batch, images=images)) - scorer(batch)).abs().amax(1).min()) > 1e-4
    images = batch.images.clone()
    images[:, 1, -BOX:] = 0.0
    assert float((scorer(replace(batch, images=images)) - scorer(batch)).abs().amax(1).min()) > 1e-4


def test_gradients_reach_everything_that_a_score_depends_on(scorer: PairScorer) -> None:
    batch = random_batch(scorer)
    torch.autograd.backward(nn.functional.cross_entropy(scorer(batch), batch.targets.int().argmax(1)))
    for name, weights in scorer.named_parameters():
        if name.startswith("encoder.aligned") and (scorer.head is not None or scorer.alone is not None):
            assert weights.grad is None
        elif name.endswith(("key.bias", "score.bias", "alone.bias", "aligned.bias")):
            continue  # what is added to every score before a softmax has no effect
        else:
            assert weights.grad is not None, name
            assert float(weights.grad.abs().sum()) > 0.0, name


@torch.no_grad()
@pytest.mark.parametrize("kind", REGIONS)
def test_a_text_without_tokens_and_a_picture_without_regions_are_scored(kind: str) -> None:
    encoder = RegionEncoder(REGIONS[kind]).eval()
    images, texts = torch.zeros(2, 3, FEATURES + BOX), torch.zeros(1, 4, dtype=torch.int64)
    mask = torch.tensor([[True, True]])
    pairs = encoder.pairs(images, texts, torch.tensor([[0, 1]]), mask)
    assert bool(pairs.isfinite().all())
    none = encoder.pairs(images, texts, torch.tensor([[0, 1]]), ~mask)
    assert torch.equal(none, torch.zeros(1, 2, WIDTH))


def test_what_an_encoder_cannot_take_it_says() -> None:
    encoder = RegionEncoder(REGIONS["uniter"])
    candidates, mask = torch.zeros(1, 1, dtype=torch.int64), torch.ones(1, 1, dtype=torch.bool)
    texts = torch.ones(1, 3, dtype=torch.int64)
    with pytest.raises(ValueError, match=r"9 numbers, .*6 features and 5 of"):
        encoder.pairs(torch.zeros(1, 2, 9), texts, candidates, mask)
    with pytest.raises(ValueError, match="has 121 tokens, and 120 positions"):
        encoder.pairs(torch.zeros(1, 2, 11), torch.ones(1, 121, dtype=torch.int64), candidates, mask)
    with pytest.raises(ValueError, match="divide a width"):
        RegionEncoder(replace(REGIONS["vilbert"], crossed_heads=7))
    with pytest.raises(ValueError, match="joint stage"):
        RegionEncoder(replace(REGIONS["vilbert"], stages=("joint",)))


@torch.no_grad()
@pytest.mark.parametrize("name", ["random:vilbert-tiny", "random:uniter-tiny:6"])
def test_untrained_models_are_always_the_same(name: str) -> None:
    source = load_cross(name)
    torch.manual_seed(1)
    before = torch.get_rng_state()
    first, second = source.build(), source.build()
    assert torch.equal(torch.get_rng_state(), before)
    assert load_cross(name).fingerprint == source.fingerprint
    assert (source.looks_at, source.width, first.training) == ("regions", WIDTH, False)
    assert isinstance(first, RegionEncoder)
    assert isinstance(second, RegionEncoder)
    images = torch.rand(2, 3, source.features + BOX)
    query = (images, source.tokenize(["a red boat"]), torch.tensor([[0, 1]]), torch.ones(1, 2, dtype=torch.bool))
    pairs: Tensor = first.pairs(*query)
    assert torch.equal(pairs, second.pairs(*query))
    assert source.features == (6 if name.endswith(":6") else 64)

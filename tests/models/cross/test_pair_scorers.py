"""What every scorer over a region cross-encoder promises: padding, batches and saving change nothing; order acts where it should."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from ctxr.models.context import ContextHead
from ctxr.models.cross.encoder import CONFIGS, RegionEncoder, present
from ctxr.models.cross.sources import load_cross
from ctxr.models.scorers import Batch, PairScorer
from ctxr.store.regions import BOX

FEATURES, WORDS, WIDTH = 6, 50, 32
TINY = {kind: replace(CONFIGS[f"{kind}-tiny"], vocabulary=WORDS) for kind in ("vilbert", "uniter")}
HEADS = ("published", "alone", "module", "temporal")


def assert_close(scores: Tensor, wanted: Tensor) -> None:
    torch.testing.assert_close(scores, wanted, rtol=1e-5, atol=1e-5)


def make_encoder(kind: str, dropout: float = 0.1, most: int = 160) -> RegionEncoder:
    config = replace(TINY[kind], features=FEATURES, dropout=dropout, pair_dropout=dropout)
    return RegionEncoder(config, most)


def make_scorer(kind: str, head: str, dropout: float = 0.1, most: int = 160) -> PairScorer:
    torch.manual_seed(0)
    encoder = make_encoder(kind, dropout, most)
    if head == "published":
        return PairScorer(encoder)
    if head == "alone":
        return PairScorer(encoder, alone=nn.Linear(WIDTH, 1))
    positions = head == "temporal"
    return PairScorer(encoder, ContextHead(WIDTH, layers=1, heads=4, inner=64, dropout=dropout, positions=positions))


@pytest.fixture(params=[(kind, head) for kind in TINY for head in HEADS], ids=" ".join)
def scorer(request: pytest.FixtureRequest) -> PairScorer:
    return make_scorer(*request.param).eval()


def random_batch(queries: int = 6, candidates: int = 5, regions: int = 4) -> Batch:
    """Sets of two queries each, every second one with an order; texts and pictures of several sizes."""
    chance = torch.Generator().manual_seed(0)
    sets = (queries + 1) // 2
    count = sets * candidates
    images = torch.rand(count, regions, FEATURES + BOX, generator=chance)
    images[::2, -1, -BOX:] = 0.0
    texts = torch.randint(1, WORDS, (queries, 9), generator=chance)
    texts[1::2, 5:] = 0
    return Batch(
        images=images,
        texts=texts,
        candidates=torch.arange(count).view(sets, candidates)[torch.arange(queries) // 2],
        mask=torch.ones(queries, candidates, dtype=torch.bool),
        ordered=torch.arange(queries) // 2 % 2 == 0,
        target=torch.randint(0, candidates, (queries,), generator=chance),
    )


def part(batch: Batch, rows: slice, places: slice = slice(None)) -> Batch:
    """Some of the queries, and of their candidates."""
    return Batch(
        batch.images, batch.texts[rows], batch.candidates[rows, places], batch.mask[rows, places],
        batch.ordered[rows], batch.target[rows],
    )  # fmt: skip


def padded(batch: Batch, more: int) -> Batch:
    """The batch with `more` places in each set where there is no candidate."""
    shape = (len(batch.mask), more)
    candidates = torch.cat([batch.candidates, torch.zeros(shape, dtype=torch.int64)], 1)
    return replace(batch, candidates=candidates, mask=torch.cat([batch.mask, torch.zeros(shape, dtype=torch.bool)], 1))


@torch.no_grad()
def test_scores_are_float32_and_minus_infinity_where_there_is_no_candidate(scorer: PairScorer) -> None:
    batch = padded(random_batch(), 2)
    scores = scorer(batch)
    assert (scores.shape, scores.dtype) == ((6, 7), torch.float32)
    assert torch.equal(scores.isfinite(), batch.mask)
    assert bool((scores[~batch.mask] == -torch.inf).all())
    assert float(scores[batch.mask].std()) > 1e-3


@torch.no_grad()
def test_padding_of_candidates_of_tokens_and_of_regions_changes_no_score(scorer: PairScorer) -> None:
    batch = random_batch()
    scores = scorer(batch)
    assert_close(scorer(padded(batch, 3))[:, :5], scores)
    longer = replace(batch, texts=nn.functional.pad(batch.texts, (0, 20)))
    assert_close(scorer(longer), scores)
    # where the box is empty, features mean nothing
    more = nn.functional.pad(torch.rand(len(batch.images), 3, FEATURES), (0, BOX))
    assert_close(scorer(replace(batch, images=torch.cat([batch.images, more], 1))), scores)


@torch.no_grad()
def test_a_region_that_is_there_counts(scorer: PairScorer) -> None:
    batch = random_batch()
    images = batch.images.clone()
    images[:, 1, :FEATURES] += 2.0
    assert float((scorer(replace(batch, images=images)) - scorer(batch)).abs().amax(1).min()) > 1e-4
    images = batch.images.clone()
    images[:, 1, -BOX:] = 0.0
    assert float((scorer(replace(batch, images=images)) - scorer(batch)).abs().amax(1).min()) > 1e-4


@torch.no_grad()
def test_sets_of_different_sizes_are_scored_as_each_alone(scorer: PairScorer) -> None:
    batch = random_batch()
    batch.mask[2:4, 3:] = False
    alone = part(batch, slice(2, 4), slice(3))
    assert_close(scorer(batch)[2:4, :3], scorer(alone))


@torch.no_grad()
@pytest.mark.parametrize("kind", TINY)
def test_the_size_of_a_batch_and_of_a_pass_change_no_score(kind: str) -> None:
    whole, small = (make_scorer(kind, "temporal", most=most).eval() for most in (160, 4))
    batch = random_batch()
    scores = whole(batch)
    single = [whole(part(batch, slice(row, row + 1))) for row in range(6)]
    assert_close(torch.cat(single), scores)
    assert_close(small(batch), scores)


@torch.no_grad()
def test_saving_changes_no_bit(scorer: PairScorer, tmp_path: Path) -> None:
    batch = random_batch()
    before = scorer(batch)
    save_file(scorer.state_dict(), tmp_path / "scorer.safetensors")
    for weights in scorer.parameters():
        nn.init.normal_(weights)
    assert not torch.equal(scorer(batch), before)
    scorer.load_state_dict(load_file(tmp_path / "scorer.safetensors"))
    assert torch.equal(scorer(batch), before)


@torch.no_grad()
def test_permuting_candidates_permutes_scores_but_for_positions_in_time(scorer: PairScorer) -> None:
    batch = random_batch()
    order = torch.tensor([3, 0, 4, 1, 2])
    moved = replace(batch, candidates=batch.candidates[:, order], mask=batch.mask[:, order])
    before, after = scorer(batch)[:, order], scorer(moved)
    static = ~batch.ordered
    torch.testing.assert_close(after[static], before[static], rtol=1e-4, atol=1e-4)
    if scorer.head is not None and scorer.head.positions is not None:
        assert float((after - before)[batch.ordered].abs().amax(1).min()) > 1e-3
    else:
        torch.testing.assert_close(after, before, rtol=1e-4, atol=1e-4)


@torch.no_grad()
def test_evaluation_leaves_nothing_to_chance_and_training_does(scorer: PairScorer) -> None:
    batch = random_batch()
    assert torch.equal(scorer(batch), scorer(batch))
    scorer.train()
    assert not torch.equal(scorer(batch), scorer(batch))


@pytest.mark.parametrize("kind", TINY)
@pytest.mark.parametrize("head", HEADS)
def test_eight_queries_are_learned_by_heart(kind: str, head: str) -> None:
    scorer = make_scorer(kind, head, dropout=0.0).train()
    batch = random_batch(queries=8)
    optimiser = torch.optim.Adam(scorer.parameters(), lr=3e-3)
    for _ in range(200):
        scores = scorer(batch)
        if bool((scores.argmax(1) == batch.target).all()):
            return
        optimiser.zero_grad()
        torch.autograd.backward(nn.functional.cross_entropy(scores, batch.target))
        optimiser.step()
    pytest.fail(f"{int((scores.argmax(1) == batch.target).sum())} of 8 after 200 steps")


def test_gradients_reach_everything_that_a_score_depends_on(scorer: PairScorer) -> None:
    batch = random_batch()
    torch.autograd.backward(nn.functional.cross_entropy(scorer(batch), batch.target))
    for name, weights in scorer.named_parameters():
        if name.startswith("encoder.aligned") and (scorer.head is not None or scorer.alone is not None):
            assert weights.grad is None
        elif name.endswith(("key.bias", "score.bias", "alone.bias", "aligned.bias")):
            continue  # what is added to every score before a softmax has no effect
        else:
            assert weights.grad is not None, name
            assert float(weights.grad.abs().sum()) > 0.0, name


@torch.no_grad()
@pytest.mark.parametrize("kind", TINY)
def test_pairs_that_were_computed_before_are_scored_alike(kind: str) -> None:
    live = make_scorer(kind, "temporal").eval()
    batch = random_batch()
    assert isinstance(live.encoder, RegionEncoder)
    pairs = live.encoder.pairs(batch.images, batch.texts, batch.candidates, batch.mask)
    rows = torch.arange(30).view(6, 5)
    kept = replace(batch, images=pairs.flatten(0, 1), candidates=rows)
    assert_close(PairScorer(None, live.head)(kept), live(batch))


def test_the_first_item_is_always_there_and_the_others_where_they_are_not_all_zero() -> None:
    assert present(torch.tensor([[0, 0, 0], [2, 0, 3]])).tolist() == [[True, False, False], [True, False, True]]
    boxes = torch.zeros(1, 4, BOX)
    boxes[0, 2, 3] = 0.5
    assert present(boxes).tolist() == [[True, False, True, False]]


@torch.no_grad()
@pytest.mark.parametrize("kind", TINY)
def test_a_text_without_tokens_and_a_picture_without_regions_are_scored(kind: str) -> None:
    encoder = make_encoder(kind).eval()
    images, texts = torch.zeros(2, 3, FEATURES + BOX), torch.zeros(1, 4, dtype=torch.int64)
    mask = torch.tensor([[True, True]])
    pairs = encoder.pairs(images, texts, torch.tensor([[0, 1]]), mask)
    assert bool(pairs.isfinite().all())
    none = encoder.pairs(images, texts, torch.tensor([[0, 1]]), ~mask)
    assert torch.equal(none, torch.zeros(1, 2, WIDTH))


def test_what_an_encoder_cannot_take_it_says() -> None:
    encoder = make_encoder("uniter")
    candidates, mask = torch.zeros(1, 1, dtype=torch.int64), torch.ones(1, 1, dtype=torch.bool)
    texts = torch.ones(1, 3, dtype=torch.int64)
    with pytest.raises(ValueError, match="has 9 numbers, and 6 features and 5 of a box are wanted"):
        encoder.pairs(torch.zeros(1, 2, 9), texts, candidates, mask)
    with pytest.raises(ValueError, match="has 121 tokens, and 120 positions"):
        encoder.pairs(torch.zeros(1, 2, 11), torch.ones(1, 121, dtype=torch.int64), candidates, mask)
    with pytest.raises(ValueError, match="heads do not divide a width"):
        RegionEncoder(replace(TINY["vilbert"], crossed_heads=7))
    with pytest.raises(ValueError, match="joint stage needs two streams of the same"):
        RegionEncoder(replace(TINY["vilbert"], stages=("joint",)))


@torch.no_grad()
@pytest.mark.parametrize("name", ["random:vilbert-tiny", "random:uniter-tiny:6"])
def test_untrained_models_follow_from_their_seed_alone(name: str) -> None:
    source = load_cross(name)
    torch.manual_seed(1)
    before = torch.get_rng_state()
    first, second, other = source.build(), source.build(), load_cross(name, seed=1)
    assert torch.equal(torch.get_rng_state(), before)
    assert load_cross(name).fingerprint == source.fingerprint != other.fingerprint
    assert (source.looks_at, source.width, first.training) == ("regions", WIDTH, False)
    assert isinstance(first, RegionEncoder)
    assert isinstance(second, RegionEncoder)
    images = torch.rand(2, 3, source.features + BOX)
    query = (images, source.tokenize(["a red boat"]), torch.tensor([[0, 1]]), torch.ones(1, 2, dtype=torch.bool))
    pairs: Tensor = first.pairs(*query)
    assert torch.equal(pairs, second.pairs(*query))
    assert source.features == (6 if name.endswith(":6") else 64)

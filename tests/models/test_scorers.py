"""What every scorer promises: padding, the size of a batch and saving change nothing; order acts where it should."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import nn

from ctxr.models.cross.encoder import RegionEncoder
from ctxr.models.layers import Block, unit
from ctxr.models.scorers import SCALE, Batch, ClipScorer, ContextHead, PairScorer, attention_of
from ctxr.models.training.scoring import attend_all
from tests.models.scorers import (
    BLIP_SCORERS,
    REGION_SCORERS,
    SCORERS,
    WIDTH,
    make_head,
    make_pair_scorer,
    make_scorer,
    random_batch,
)
from tests.models.slow_layers import mixed, shares
from tests.models.training_questions import make_questions

Scorer = ClipScorer | PairScorer
ALL = (*SCORERS, *BLIP_SCORERS, *REGION_SCORERS)


@pytest.fixture(scope="module")
def encoders(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the encoders of scorers are kept: written once."""
    return tmp_path_factory.mktemp("encoders")


def silence(head: ContextHead) -> None:
    """Make the transformer of a head give zeros."""
    for name, weights in head.named_parameters():
        if "after_widening" in name:
            nn.init.zeros_(weights)


def made(name: str, folder: Path, dropout: float = 0.1) -> Scorer:
    return (make_scorer if name in SCORERS else make_pair_scorer)(name, folder, dropout)


@pytest.fixture(params=ALL)
def scorer(request: pytest.FixtureRequest, encoders: Path) -> Scorer:
    return made(request.param, encoders).eval()


def permuted(batch: Batch, order: torch.Tensor) -> Batch:
    return replace(batch, candidates=batch.candidates[:, order], mask=batch.mask[:, order])


def part(batch: Batch, rows: slice, places: slice = slice(None)) -> Batch:
    """Some of the queries, and of their candidates."""
    return Batch(
        batch.images, batch.texts[rows], batch.candidates[rows, places], batch.mask[rows, places],
        batch.ordered[rows], batch.targets[rows, places],
    )  # fmt: skip


def padded(batch: Batch, more: int) -> Batch:
    """The batch with `more` places in each set where there is no candidate."""
    shape = (len(batch.mask), more)
    return replace(
        batch,
        candidates=torch.cat([batch.candidates, torch.zeros(shape, dtype=torch.int64)], 1),
        mask=torch.cat([batch.mask, torch.zeros(shape, dtype=torch.bool)], 1),
        targets=torch.cat([batch.targets, torch.zeros(shape, dtype=torch.bool)], 1),
    )


@torch.no_grad()
def test_scores_are_float32_and_minus_infinity_where_there_is_no_candidate(scorer: Scorer) -> None:
    batch = padded(random_batch(scorer), 2)
    scores = scorer(batch)
    assert (scores.shape, scores.dtype) == ((6, 7), torch.float32)
    assert torch.equal(scores.isfinite(), batch.mask)
    assert bool((scores[~batch.mask] == -torch.inf).all())
    assert float(scores[batch.mask].std()) > 1e-3


@torch.no_grad()
def test_padding_changes_no_score(scorer: Scorer) -> None:
    batch = random_batch(scorer)
    torch.testing.assert_close(scorer(padded(batch, 3))[:, :5], scorer(batch), rtol=1e-5, atol=1e-5)


@torch.no_grad()
def test_queries_with_sets_of_different_sizes_are_scored_as_each_alone(scorer: Scorer) -> None:
    batch = random_batch(scorer)
    batch.mask[2:4, 3:] = False
    scores = scorer(batch)
    for row, size in enumerate((5, 5, 3, 3, 5, 5)):
        alone = part(batch, slice(row, row + 1), slice(size))
        torch.testing.assert_close(scores[row : row + 1, :size], scorer(alone), rtol=1e-5, atol=1e-5)


@torch.no_grad()
def test_saving_changes_no_bit(scorer: Scorer, tmp_path: Path) -> None:
    batch = random_batch(scorer)
    if not scorer.state_dict():
        assert scorer.encoder is None  # nothing is learned: there is nothing to save
        return
    before = scorer(batch)
    save_file({name: one.contiguous() for name, one in scorer.state_dict().items()}, tmp_path / "scorer.safetensors")
    for weights in scorer.parameters():
        nn.init.normal_(weights)
    assert not torch.equal(scorer(batch), before)
    scorer.load_state_dict(load_file(tmp_path / "scorer.safetensors"))
    assert torch.equal(scorer(batch), before)


@torch.no_grad()
def test_permuting_candidates_permutes_scores_but_for_positions_in_time(scorer: Scorer) -> None:
    batch = random_batch(scorer)
    order = torch.tensor([3, 0, 4, 1, 2])
    before, after = scorer(batch)[:, order], scorer(permuted(batch, order))
    static = ~batch.ordered
    torch.testing.assert_close(after[static], before[static], rtol=1e-4, atol=1e-4)
    if scorer.head is not None and scorer.head.positions is not None:
        assert float((after - before)[batch.ordered].abs().amax(1).min()) > 1e-3
    else:
        torch.testing.assert_close(after, before, rtol=1e-4, atol=1e-4)


@torch.no_grad()
def test_evaluation_leaves_nothing_to_chance(scorer: Scorer) -> None:
    batch = random_batch(scorer)
    assert torch.equal(scorer(batch), scorer(batch))
    scorer.train()
    if scorer.head is not None or isinstance(scorer.encoder, RegionEncoder):
        assert not torch.equal(scorer(batch), scorer(batch))


@pytest.mark.parametrize("name", [name for name in ALL if name != "zero-shot"])
def test_eight_queries_are_learned_by_heart(name: str, encoders: Path) -> None:
    scorer = made(name, encoders, dropout=0.0).train()
    batch = random_batch(scorer, queries=8)
    optimiser, target = torch.optim.Adam(scorer.parameters(), lr=3e-3), batch.targets.int().argmax(1)
    for _ in range(200):
        scores = scorer(batch)
        if bool((scores.argmax(1) == target).all()):
            return
        optimiser.zero_grad()
        torch.autograd.backward(nn.functional.cross_entropy(scores, target))
        optimiser.step()
    pytest.fail(f"{int((scores.argmax(1) == target).sum())} of 8 after 200 steps")


@torch.no_grad()
def test_a_silenced_transformer_leaves_a_linear_score_of_the_pair() -> None:
    head = make_head().eval()
    silence(head)
    pairs = torch.randn(3, 5, WIDTH)
    mask, ordered = torch.ones(3, 5, dtype=torch.bool), torch.zeros(3, dtype=torch.bool)
    torch.testing.assert_close(head(pairs, mask, ordered), head.score(pairs).squeeze(-1))


@torch.no_grad()
def test_positions_do_nothing_to_sets_without_order_and_stay_out_of_the_highway() -> None:
    with_places, without = make_head(positions=True).eval(), make_head().eval()
    without.load_state_dict({name: w for name, w in with_places.state_dict().items() if name != "positions.weight"})
    pairs, mask = torch.randn(2, 5, WIDTH), torch.ones(2, 5, dtype=torch.bool)
    static, ordered = torch.zeros(2, dtype=torch.bool), torch.ones(2, dtype=torch.bool)
    assert torch.equal(with_places(pairs, mask, static), without(pairs, mask, static))
    assert not torch.allclose(with_places(pairs, mask, ordered), without(pairs, mask, ordered))
    silence(with_places)
    torch.testing.assert_close(with_places(pairs, mask, ordered), with_places.score(pairs).squeeze(-1))
    with_places.highway_positions = True  # Eq. 1 of the paper
    assert with_places.positions is not None
    placed = pairs + with_places.positions.weight[:5]
    torch.testing.assert_close(with_places(pairs, mask, ordered), with_places.score(placed).squeeze(-1))
    torch.testing.assert_close(with_places(pairs, mask, static), with_places.score(pairs).squeeze(-1))


def test_an_ordered_set_may_not_be_larger_than_the_positions_and_a_static_one_may() -> None:
    head = make_head(positions=True).eval()
    pairs, mask = torch.randn(1, 12, WIDTH), torch.ones(1, 12, dtype=torch.bool)
    assert head(pairs, mask, torch.tensor([False])).shape == (1, 12)
    with pytest.raises(ValueError, match="12 candidates, and 10 positions"):
        head(pairs, mask, torch.tensor([True]))
    mask[:, 10:] = False
    assert bool(head(pairs, mask, torch.tensor([True])).isfinite().all())


def test_pairs_are_products_times_a_thousand_or_both_side_by_side() -> None:
    images, texts = unit(torch.randn(2, 5, 8)), unit(torch.randn(2, 8))
    assert SCALE == 1000.0
    mask = torch.ones(2, 5, dtype=torch.bool)
    batch = Batch(images.flatten(0, 1), texts, torch.arange(10).view(2, 5), mask, mask[:, 0], ~mask)
    torch.testing.assert_close(ClipScorer().pairs(batch), 1000.0 * images * texts[:, None])
    assert torch.equal(ClipScorer(scale=1.0).pairs(batch), images * texts[:, None])
    both = ClipScorer(fusion="concat").pairs(batch)
    assert torch.equal(both[..., :8], images)
    assert torch.equal(both[1, 3, 8:], texts[1])
    assert make_scorer("module", Path()).scale == 1000.0


def test_the_published_head_has_the_size_of_the_specification() -> None:
    def count(module: torch.nn.Module) -> int:
        return sum(weights.numel() for weights in module.parameters())

    head = ContextHead(512)
    blocks = sum(count(block) for block in head.blocks)
    assert blocks == 2 * (4 * (512 * 512 + 512) + 512 * 3072 + 3072 + 3072 * 512 + 512 + 4 * 512)
    assert count(head) - blocks == 512 + 1
    assert count(ContextHead(512, positions=True)) - count(head) == 10 * 512


@torch.no_grad()
def test_a_block_equals_the_slow_obvious_one() -> None:
    block = Block(8, heads=2, inner=16).double().eval()
    items = torch.randn(1, 3, 8, dtype=torch.float64)
    mask = torch.tensor([[True, True, False]])
    attention = block.attention
    query, key, value = (layer(items)[0] for layer in (attention.query, attention.key, attention.value))
    rows = mixed(shares(query, key[:2], 2), value[:2])
    seen = block.after_attention(items[0] + attention.out(rows))
    wide = block.widen(seen)
    wide = wide * 0.5 * (1 + torch.erf(wide / 2**0.5))
    torch.testing.assert_close(block(items, mask)[0], block.after_widening(seen + block.narrow(wide)))
    assert block.after_attention.eps == 1e-12


def test_a_scorer_of_vectors_says_what_it_cannot_take(encoders: Path) -> None:
    batch = random_batch(make_scorer("batch", encoders))
    with pytest.raises(ValueError, match="without an encoder"):
        ClipScorer()(batch)
    with pytest.raises(ValueError, match="without a head"):
        attend_all(ClipScorer(), make_questions(ClipScorer()), [0], 8)


@torch.no_grad()
def test_a_frozen_encoder_scores_alike_from_pixels_and_from_vectors(encoders: Path) -> None:
    live = make_scorer("live temporal", encoders).eval()
    batch = random_batch(live)
    vectors = replace(
        batch,
        images=unit(live.encoder.encode_image(batch.images)),
        texts=unit(live.encoder.encode_text(batch.texts)),
    )
    torch.testing.assert_close(ClipScorer(None, live.head)(vectors), live(batch), rtol=1e-5, atol=1e-5)


@torch.no_grad()
@pytest.mark.parametrize("positions", [False, True])
def test_a_head_that_starts_at_the_cosine_scores_as_its_encoder_does(positions: bool) -> None:
    scorer = ClipScorer(None, ContextHead(WIDTH, heads=2, inner=16, positions=positions)).eval()
    batch = random_batch(scorer)
    assert not torch.allclose(scorer(batch), 7.0 * ClipScorer()(batch), atol=0.1)
    scorer.start_at_cosine(7.0)
    torch.testing.assert_close(scorer(batch), 7.0 * ClipScorer()(batch), rtol=1e-4, atol=1e-4)
    with pytest.raises(ValueError, match="head over products"):
        ClipScorer().start_at_cosine(7.0)


def deep_head(positions: bool) -> ContextHead:
    torch.manual_seed(0)
    return ContextHead(16, layers=3, heads=4, inner=24, positions=positions)


@pytest.mark.parametrize("positions", [False, True])
def test_shares_times_values_are_what_every_layer_of_the_head_makes(positions: bool) -> None:
    one = deep_head(positions).eval()
    pairs, ordered = torch.randn(5, 7, 16), torch.tensor([True, False, True, True, False])
    mask = torch.arange(7)[None] < torch.tensor([7, 4, 1, 6, 7])[:, None]
    shares = attention_of(one, pairs, mask, ordered)
    assert shares.shape == (5, 3, 4, 7, 7)
    torch.testing.assert_close(shares.sum(-1), torch.ones(5, 3, 4, 7))
    assert bool((shares.masked_select(~mask[:, None, None, None, :]) == 0).all())
    items = one.placed(pairs, mask, ordered)
    for layer, block in enumerate(one.blocks):
        assert isinstance(block, Block)
        attention = block.attention
        values = attention.value(items).view(5, 7, 4, 4).transpose(1, 2)
        mixed = attention.out((shares[:, layer] @ values).transpose(1, 2).reshape(5, 7, 16))
        torch.testing.assert_close(mixed, attention(items, mask), rtol=1e-5, atol=1e-6)
        items = block(items, mask)


def test_looking_changes_neither_mode_nor_scores_and_has_no_dropout() -> None:
    one = deep_head(False).train()
    pairs, mask, ordered = torch.randn(2, 4, 16), torch.ones(2, 4, dtype=torch.bool), torch.tensor([False, True])
    first = attention_of(one, pairs, mask, ordered)
    assert one.training
    assert all(block.training for block in one.blocks)
    torch.testing.assert_close(attention_of(one, pairs, mask, ordered), first, rtol=0, atol=0)
    assert not first.requires_grad

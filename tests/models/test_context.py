"""Attention that is shown is the attention that is used."""

import pytest
import torch

from ctxr.models.layers import Block
from ctxr.models.scorers import ClipScorer, ContextHead, attention_of
from ctxr.models.training.scoring import attend_all
from tests.models.training_questions import make_questions


def head(positions: bool) -> ContextHead:
    torch.manual_seed(0)
    return ContextHead(16, layers=3, heads=4, inner=24, positions=positions)


@pytest.mark.parametrize("positions", [False, True])
def test_shares_times_values_are_what_every_layer_of_the_head_makes(positions: bool) -> None:
    one = head(positions).eval()
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
    one = head(False).train()
    pairs, mask, ordered = torch.randn(2, 4, 16), torch.ones(2, 4, dtype=torch.bool), torch.tensor([False, True])
    first = attention_of(one, pairs, mask, ordered)
    assert one.training
    assert all(block.training for block in one.blocks)
    torch.testing.assert_close(attention_of(one, pairs, mask, ordered), first, rtol=0, atol=0)
    assert not first.requires_grad


def test_a_scorer_without_a_head_attends_to_nothing() -> None:
    scorer = ClipScorer()
    with pytest.raises(ValueError, match="without a head"):
        attend_all(scorer, make_questions(scorer), [0], 8)

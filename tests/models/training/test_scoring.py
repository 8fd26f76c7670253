"""What encoders of pairs bring into training: a loss of pairs, weights free of decay, positions everywhere."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from ctxr.errors import CtxrError
from ctxr.models.blip import load_blip
from ctxr.models.precision import in_microbatches
from ctxr.models.scorers import ClipScorer, ContextHead, PairScorer
from ctxr.models.training.checkpoint import new_scorer
from ctxr.models.training.examples import with_features
from ctxr.models.training.loop import make_optimiser
from ctxr.models.training.scoring import attend_all, features_of
from ctxr.problems.contextual.recipe import ContextualRecipe
from tests.models.scorers import make_head
from tests.models.training_questions import Table, make_questions

PAIRS = ContextualRecipe(variant="temporal", encoder="random:blip-tiny", inner=16, layers=1)


def test_biases_and_norms_can_be_free_of_decay() -> None:
    head = make_head()
    recipe = ContextualRecipe(weight_decay=0.5, undecayed_vectors=True)
    made = make_optimiser(head.parameters(), recipe)
    decayed, free = made.param_groups
    assert (decayed["weight_decay"], free["weight_decay"]) == (0.5, 0.0)
    assert {one.ndim for one in decayed["params"]} == {2}
    names = {id(weights): name for name, weights in head.named_parameters()}
    assert all(names[id(one)].endswith("bias") or "after_" in names[id(one)] for one in free["params"])
    assert len(decayed["params"]) + len(free["params"]) == len(names)


@torch.no_grad()
def test_positions_can_act_on_sets_without_order_too() -> None:
    usual = new_scorer(PAIRS.shape, 32).eval()
    everywhere = new_scorer(replace(PAIRS, all_positions=True).shape, 32).eval()
    assert isinstance(usual, PairScorer)
    assert usual.state_dict().keys() == everywhere.state_dict().keys()
    pairs, mask = torch.randn(2, 5, 32), torch.ones(2, 5, dtype=torch.bool)
    static, ordered = torch.zeros(2, dtype=torch.bool), torch.ones(2, dtype=torch.bool)
    assert usual.head is not None
    assert everywhere.head is not None
    assert torch.equal(everywhere.head(pairs, mask, static), usual.head(pairs, mask, ordered))
    assert not torch.allclose(everywhere.head(pairs, mask, static), usual.head(pairs, mask, static))


def test_a_new_scorer_of_pairs_has_the_parts_that_its_recipe_names() -> None:
    def made(seed: int = 0, **changes: Any) -> PairScorer:
        scorer = new_scorer(replace(PAIRS, **changes).shape, 32, seed=seed)
        assert isinstance(scorer, PairScorer)
        return scorer

    def first_weight(seed: int) -> torch.Tensor:
        head = made(seed).head
        assert isinstance(head, ContextHead)
        return head.score.weight

    batch = made(variant="batch")
    assert (batch.head, batch.alone) == (None, None)
    alone = made(variant="batch", new_score=True).alone
    assert isinstance(alone, torch.nn.Linear)
    assert alone.weight.shape == (1, 32)
    assert made(variant="zero-shot", new_score=True).alone is None
    one, two, other = map(first_weight, (0, 0, 1))
    assert torch.equal(one, two)
    assert not torch.equal(one, other)


@pytest.mark.parametrize(
    "error",
    [
        torch.OutOfMemoryError("CUDA out of memory"),
        RuntimeError("MPS backend out of memory (MPS allocated: 17.9 GB, max allowed: 18.1 GB)"),
        RuntimeError("DefaultCPUAllocator: not enough memory: you tried to allocate 9 bytes."),
    ],
    ids=["cuda", "mps", "windows"],
)
def test_scoring_goes_on_with_half_as_many_when_memory_runs_out(error: RuntimeError) -> None:
    sizes: list[int] = []

    def work(rows: torch.Tensor) -> None:
        if len(rows) > 3:
            raise error
        sizes.extend(rows.tolist())

    in_microbatches(torch.arange(20), 16, "cpu", work)
    assert sizes == list(range(20))


def test_scoring_without_memory_for_one_query_is_one_sentence_and_other_errors_stay_what_they_are() -> None:
    def fails(error: RuntimeError) -> None:
        def work(_: torch.Tensor) -> None:
            raise error

        in_microbatches(torch.arange(4), 4, "cpu", work)

    with pytest.raises(CtxrError, match="no memory left"):
        fails(RuntimeError("can't allocate memory: you tried to allocate 1 bytes"))
    with pytest.raises(RuntimeError, match="shapes"):
        fails(RuntimeError("shapes do not fit"))


@torch.no_grad()
def test_what_candidates_attend_to_is_the_same_live_and_from_features() -> None:
    source = load_blip("random:blip-tiny")
    encoder = source.build()
    scorer = new_scorer(PAIRS.shape, source.width, encoder).eval()
    scorer.encoder = None
    kept = make_questions(ClipScorer())
    live = replace(
        kept, images=Table(torch.randn(24, 3, 32, 32)), texts=source.tokenize([f"text {row}" for row in range(18)])
    )
    rows = list(range(18))
    kept = with_features(live, np.arange(18), features_of(encoder, live, rows, 5, "cpu", bf16=False))
    found = attend_all(scorer, kept, rows, 7)
    scorer.encoder = encoder
    assert found.shape == (18, 4, 4)
    torch.testing.assert_close(found.sum(2)[live.mask], torch.ones(int(live.mask.sum())))
    torch.testing.assert_close(attend_all(scorer, live, rows, 7)[live.mask], found[live.mask], rtol=1e-4, atol=1e-5)

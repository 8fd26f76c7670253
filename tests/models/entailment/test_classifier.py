"""The classifier: gates, heads, the joint loss with its indicators, and masked positives."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from transformers import BertModel, BertTokenizerFast

from ctxr.errors import DataError, UsageError
from ctxr.models.blip import load_blip
from ctxr.models.entailment.classifier import EntailmentClassifier, PairBatch, to_mask, with_masked
from ctxr.models.entailment.recipe import IMAGE, JOINT, TEXT, ClassifierRecipe
from ctxr.models.entailment.sources import Branches, find_branches, find_image, find_text, new_classifier
from ctxr.models.entailment.training import EntailmentObjective
from ctxr.models.hub import BLIP_TINY
from ctxr.models.training.loop import Step, TrainingRun
from tests.models.bert_folder import make_bert

POOLINGS = ("cls_token", "mean_tokens", "max_tokens")
KINDS = [(True, False, False), (False, True, False), (True, True, True), (True, True, True)]
RECIPE = ClassifierRecipe(
    text="random:bert-tiny",
    image="random:albef-tiny",
    width=32,
    image_size=0,
    text_layers=1,
    fusion_layers=1,
    dropout=0.0,
)


@pytest.fixture(scope="module")
def branches() -> Branches:
    return find_branches(RECIPE)


@pytest.fixture(scope="module")
def model(branches: Branches) -> EntailmentClassifier:
    return new_classifier(RECIPE, branches, 3).eval()


def batch_of(branches: Branches) -> PairBatch:
    premises = ["There is a red cat.", "", "There is a red cat.", "A blue star."]
    ids, types, told = branches.tokenize(premises, ["A cat.", "A star.", "A red figure.", "A star is there."])
    chance = torch.Generator().manual_seed(0)
    return PairBatch(
        torch.randn(3, 3, 32, 32, generator=chance), torch.tensor([0, 1, 2, 2]), ids, types, told,
        torch.tensor([1, 0, 1, 1]), torch.tensor(KINDS),
    )  # fmt: skip


@torch.no_grad()
def test_each_head_says_what_it_says_of_each_claim_alone(branches: Branches, model: EntailmentClassifier) -> None:
    batch = batch_of(branches)
    logits = model(batch)
    for row in range(4):
        length = int((batch.text[row] != 0).sum())
        h_t = model.text(batch.text[row : row + 1, :length], batch.types[row : row + 1, :length])
        told = batch.hypotheses[row][batch.hypotheses[row] != 0][None]
        h_v = model.image(batch.images[batch.place[row]][None], torch.tensor([0]), told)
        gates = {one: torch.sigmoid(model.gates[str(one)].open(h)) for one, h in ((TEXT, h_t), (IMAGE, h_v))}  # type: ignore[operator]
        h_m = gates[TEXT] * h_t + gates[IMAGE] * h_v
        for column, hidden in ((TEXT, h_t), (IMAGE, h_v), (JOINT, h_m)):
            if KINDS[row][column]:
                torch.testing.assert_close(
                    logits[row, column], model.heads[str(column)](hidden)[0], rtol=1e-4, atol=1e-5
                )
    assert not logits[0, IMAGE:].any()
    assert float(logits[2].std()) > 1e-3


def joint_loss(model: EntailmentClassifier, logits: Tensor, batch: PairBatch) -> Tensor:
    objective = EntailmentObjective(RECIPE, [], None, TrainingRun(Path()))
    return objective.loss(model, [(batch, logits)], Step((), len(logits), torch.zeros(0)))


def test_losses_count_where_the_indicators_say_so(branches: Branches, model: EntailmentClassifier) -> None:
    batch = batch_of(branches)
    logits = torch.randn(4, 3, 2, generator=torch.Generator().manual_seed(1))
    wanted = sum(
        -logits[row, column].log_softmax(-1)[batch.label[row]]
        for row in range(4) for column in range(3) if KINDS[row][column]
    )  # fmt: skip
    torch.testing.assert_close(joint_loss(model, logits, batch), torch.as_tensor(wanted))
    of_text = replace(batch, theta=torch.tensor([[True, False, False]] * 4))
    joint_loss(model, model(of_text), of_text).backward()  # type: ignore[no-untyped-call]
    assert all(weights.grad is None for weights in model.image.parameters())
    assert any(weights.grad is not None and weights.grad.any() for weights in model.text.parameters())
    model.zero_grad()


@torch.no_grad()
def test_what_is_missing_is_black_or_empty_and_not_looked_at(branches: Branches, model: EntailmentClassifier) -> None:
    batch = batch_of(branches)
    other = replace(batch, images=torch.cat([batch.images[:1] * 9, batch.images[1:]]))
    assert torch.equal(model(batch)[0], model(other)[0])
    ids, types, _ = branches.tokenize([""], ["A star."])
    assert ids[0, :2].tolist() == [2, 3]
    assert types[0, :3].tolist() == [0, 0, 1]


def test_a_gate_may_be_one_number_and_one_branch_has_one_head_and_no_gate() -> None:
    scalar = replace(RECIPE, scalar_gate=True)
    gates = new_classifier(scalar, find_branches(scalar)).gates
    assert {gate.open.weight.shape for gate in gates.values()} == {(1, 32)}  # type: ignore[union-attr]
    for recipe, column in ((replace(RECIPE, image=""), TEXT), (replace(RECIPE, text=""), IMAGE)):
        branches = find_branches(recipe)
        model = new_classifier(recipe, branches)
        assert ([*model.heads], len(model.gates)) == ([str(column)], 0)
        theta = torch.zeros(4, 3, dtype=torch.bool)
        theta[:, column] = True
        assert model(replace(batch_of(branches), theta=theta))[:, column].any()


def test_a_shared_text_encoder_is_counted_once(branches: Branches) -> None:
    shared = replace(RECIPE, text="shared")
    found = find_branches(shared)
    model = new_classifier(shared, found)
    assert not any(name.startswith("text.") for name in model.state_dict())
    batch = batch_of(found)
    ids = batch.text[:1, : int((batch.text[0] != 0).sum())]
    seen = model.image.words.eval().embeddings(ids, batch.types[:1, : ids.shape[1]])
    seen = model.image.words.encoder.layer[0](seen)[:, 0]  # the one that sees words alone
    torch.testing.assert_close(model(batch)[0, TEXT], model.heads[str(TEXT)].eval()(seen)[0], rtol=1e-4, atol=1e-5)
    with pytest.raises(DataError, match="random:blip-tiny has no"):
        find_branches(replace(shared, image=BLIP_TINY))


def test_positives_with_a_picture_come_again_masked_and_not_entailed(
    branches: Branches, model: EntailmentClassifier
) -> None:
    batch = batch_of(branches)
    grown = with_masked(batch, model.image, 0.4, to_mask(batch.label, batch.theta, batch.place, 4))
    # rows 2 and 3 are positives about one picture, which is masked once; row 0 has no picture, row 1 is no positive
    assert grown.label.tolist() == [1, 0, 1, 1, 0]
    assert grown.place.tolist() == [0, 1, 2, 2, 3]
    assert grown.theta[4].tolist() == [False, True, True]
    assert torch.equal(grown.hypotheses[4], batch.hypotheses[2])
    shares = model.image.cls_attention(batch.images[2:3])[0]
    hidden = {int(patch) for patch in shares.argsort(descending=True)[:6]}  # of 16
    black = model.image.black.reshape(3)
    for patch in range(16):
        top, left = patch // 4 * 8, patch % 4 * 8
        part = grown.images[3, :, top : top + 8, left : left + 8]
        wanted = (
            black[:, None, None].expand(3, 8, 8)
            if patch in hidden
            else batch.images[2, :, top : top + 8, left : left + 8]
        )
        assert torch.equal(part, wanted)


def test_a_step_masks_no_more_pictures_than_it_may(
    branches: Branches, model: EntailmentClassifier, monkeypatch: pytest.MonkeyPatch
) -> None:
    batch = replace(batch_of(branches), place=torch.tensor([0, 1, 2, 1]), label=torch.ones(4, dtype=torch.int64))
    for most in (2, 1):
        rows = to_mask(batch.label, batch.theta, batch.place, most)
        assert len(with_masked(batch, model.image, 0.4, rows).label) == 4 + most
    none = to_mask(torch.zeros(4, dtype=torch.int64), batch.theta, batch.place, 4)
    assert with_masked(batch, model.image, 0.4, none) is batch
    model.image.black[:] = 7.0
    for shares, ratio, black in (((2, 1, 3, 0), 0.1, (2,)), ((5, 2, 2, 0), 0.5, (0, 1))):
        monkeypatch.setattr(model.image, "cls_attention", lambda _, shares=shares: torch.tensor([shares]))
        pictures = model.image.blackened(torch.zeros(1, 3, 2, 2), ratio)
        assert (pictures[0, 0].flatten() == 7).nonzero().flatten().tolist() == list(black)


@torch.no_grad()
def test_blip_is_a_branch_too() -> None:
    source = find_image(BLIP_TINY, RECIPE)
    branch = source.build().eval()
    assert source.preprocess is not None
    pictures = source.preprocess([np.full((20, 30, 3), value, np.uint8) for value in (40, 200)])
    tokens = source.tokenize(["a red star", "a cat"])
    told = branch(pictures, torch.tensor([1, 0]), tokens)
    mask = torch.ones(2, 1, dtype=torch.bool)
    encoder: Any = load_blip(BLIP_TINY).build()
    assert torch.equal(told, encoder.pairs(pictures, tokens, torch.tensor([[1], [0]]), mask)[:, 0])
    shown = branch.vision(pixel_values=pictures, output_attentions=True).attentions[-1][:, :, 0, 1:].mean(1)
    torch.testing.assert_close(branch.cls_attention(pictures), shown, rtol=1e-5, atol=1e-6)
    dark = source.preprocess([np.zeros((8, 8, 3), np.uint8)])
    torch.testing.assert_close(branch.blackened(pictures, 1.0)[:1], dark)


@pytest.fixture
def written(tmp_path: Path) -> tuple[Path, BertModel]:
    folder = make_bert(tmp_path, layers=2)
    return folder, BertModel.from_pretrained(folder).eval()


def says_to_pool(folder: Path, *modes: str) -> None:
    (folder / "1_Pooling").mkdir(exist_ok=True)
    told = {"word_embedding_dimension": 32} | {f"pooling_mode_{one}": one in modes for one in POOLINGS}
    (folder / "1_Pooling" / "config.json").write_text(json.dumps(told))


def test_a_text_branch_is_read_from_what_transformers_wrote(written: tuple[Path, BertModel]) -> None:
    folder, model = written
    sources = [find_text(f"bert:{folder}", RECIPE)]
    for mode in ("cls_token", "mean_tokens"):
        says_to_pool(folder, mode)
        sources.append(find_text(f"bert:{folder}", RECIPE))
    plain, cls, mean = sources
    ids, types = plain.tokenize(["a bat", "the dog is here"], ["c", "a"])
    told = plain.build().eval()(ids, types)
    averaged = mean.build().eval()(ids, types)
    for row in range(2):
        length = int((ids[row] != 0).sum())
        alone = model(input_ids=ids[row : row + 1, :length], token_type_ids=types[row : row + 1, :length])
        torch.testing.assert_close(told[row], alone.last_hidden_state[0, 0], rtol=1e-4, atol=1e-5)
        torch.testing.assert_close(averaged[row], alone.last_hidden_state[0].mean(0), rtol=1e-4, atol=1e-5)
    assert types[0].tolist()[:6] == [0, 0, 0, 0, 0, 0]
    assert 1 in types[0].tolist()
    assert plain.fingerprint == cls.fingerprint
    assert plain.fingerprint != mean.fingerprint
    assert mean.fingerprint == find_text(f"bert:{folder}", RECIPE).fingerprint


@torch.no_grad()
def test_late_interaction_asks_how_far_the_premise_covers_the_words_of_the_hypothesis(
    written: tuple[Path, BertModel],
) -> None:
    folder, model = written
    says_to_pool(folder, "mean_tokens")
    source = find_text(f"late:{folder}", RECIPE)
    premises, hypotheses = ["the dog is here", "a", ""], ["a bat", "the dog is here", "a bat"]
    ids, types = source.tokenize(premises, hypotheses)
    # a step cuts the columns behind its longest row: no token may stand there
    ends = (ids != 0).sum(1)
    assert all(bool((ids[row, : int(ends[row])] != 0).all()) for row in range(3))
    told = source.build().eval()(ids, types)
    tokenizer = BertTokenizerFast.from_pretrained(folder)

    def read(text: str) -> tuple[torch.Tensor, torch.Tensor]:
        states = model(**tokenizer(text, return_tensors="pt")).last_hidden_state[0]
        unit = torch.nn.functional.normalize
        return unit(states.mean(0), dim=0), unit(states[1:-1], dim=-1)

    for row, (premise, hypothesis) in enumerate(zip(premises, hypotheses, strict=True)):
        (whole, words), (other, asked) = read(premise), read(hypothesis)
        covered = [max([float(one @ word) for word in words], default=-1.0) for one in asked]
        back = [max(float(one @ word) for one in asked) for word in words]
        numbers = [float(whole @ other), sum(covered) / len(covered), min(covered), sum(back) / max(1, len(back))]
        wanted = torch.tensor([6 * (one - 0.6) for one in numbers]).repeat_interleave(8)
        torch.testing.assert_close(told[row], wanted, rtol=1e-3, atol=1e-3)
    swapped = source.build().eval()(*source.tokenize(hypotheses, premises))
    assert float((told - swapped)[:2].abs().max()) > 0.1
    assert source.fingerprint != find_text(f"bert:{folder}", RECIPE).fingerprint


@torch.no_grad()
def test_a_text_branch_that_stays_as_it_is_says_beforehand_what_it_would_say(written: tuple[Path, BertModel]) -> None:
    folder, _ = written
    says_to_pool(folder, "mean_tokens")
    recipe = replace(RECIPE, text=f"late:{folder}")
    asked, learning = find_branches(replace(recipe, frozen_text=True)), find_branches(recipe)
    premises, hypotheses = ["a bat"] * 20 + ["the dog is here"], ["the dog is here", *["a"] * 20]
    one, other = (
        new_classifier(recipe, branches, 5).eval()(
            PairBatch(
                torch.zeros(1, 3, 32, 32), torch.zeros(21, dtype=torch.int64), *branches.tokenize(premises, hypotheses),
                torch.zeros(21, dtype=torch.int64), torch.tensor([[True, False, False]] * 21),
            )
        )
        for branches in (asked, learning)
    )  # fmt: skip
    torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)
    assert float(one[:, TEXT].std()) > 0
    text = new_classifier(recipe, asked).text
    assert not list(text.parameters())
    assert asked.text is not None
    assert learning.text is not None
    assert asked.text.fingerprint != learning.text.fingerprint
    with pytest.raises(UsageError, match="frozen_text needs"):
        replace(RECIPE, text="shared", frozen_text=True).check()


def test_a_pooling_that_is_not_known_is_refused(written: tuple[Path, BertModel]) -> None:
    folder, _ = written
    says_to_pool(folder, "max_tokens")
    with pytest.raises(DataError, match=r"config\.json wants pooling_mode_max_tokens"):
        find_text(f"bert:{folder}", RECIPE)
    says_to_pool(folder, "cls_token", "mean_tokens")
    with pytest.raises(DataError, match="wants pooling_mode_cls_token and pooling_mode_mean_tokens"):
        find_text(f"late:{folder}", RECIPE)
    (folder / "1_Pooling" / "config.json").write_text("[")
    with pytest.raises(DataError, match=r"config\.json .* JSON"):
        find_text(f"bert:{folder}", RECIPE)
    (folder / "1_Pooling" / "config.json").write_text("[1]")
    with pytest.raises(DataError, match="wants no mode"):
        find_text(f"bert:{folder}", RECIPE)


def test_names_that_are_nothing_are_said(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="unknown text branch 'bart'"):
        find_text("bart", RECIPE)
    with pytest.raises(UsageError, match="unknown image branch 'vit'"):
        find_image("vit", RECIPE)
    with pytest.raises(DataError, match=r"holds no config\.json"):
        find_text(f"bert:{tmp_path}", RECIPE)
    with pytest.raises(DataError, match="64 wide and random:blip-tiny 32"):
        find_branches(replace(RECIPE, image=BLIP_TINY, width=64))
    with pytest.raises(UsageError, match="text branch or"):
        replace(RECIPE, text="shared", image="").check()

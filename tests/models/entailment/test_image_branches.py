"""Words and cells of a branch that starts aligned fit each other as they do in the encoder."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch.nn import functional

from ctxr.errors import UsageError
from ctxr.models.cross.wordpieces import tiny_vocabulary
from ctxr.models.encoders import find_source
from ctxr.models.entailment.base import ImageSource
from ctxr.models.entailment.image_branches import into_space
from ctxr.models.entailment.recipe import ClassifierRecipe
from ctxr.models.entailment.sources import find_image, find_text

NAME = "aligned:ctxr-tiny"
SIZES = ClassifierRecipe(image_size=0, width=96, vision_layers=1, text_layers=1, fusion_layers=1, dropout=0.0)


@pytest.fixture(scope="module")
def source() -> ImageSource:
    return find_image(NAME, SIZES)


@torch.no_grad()
def test_words_and_cells_fit_as_the_encoder_says(source: ImageSource) -> None:
    encoder = find_source("ctxr-tiny")
    model, cells = encoder.build(), torch.rand(20, 9, 512, generator=torch.Generator().manual_seed(0))
    weight, bias = into_space(model.visual)
    pieces = [piece.strip("[]").lower() if len(piece) > 2 else piece for piece in tiny_vocabulary()]
    words = torch.cat([model.encode_text(encoder.tokenize([piece]), normalize=True) for piece in pieces])
    wanted = functional.normalize(cells @ weight.T + bias - words.mean(0), dim=-1) @ (words - words.mean(0)).T
    branch: Any = source.build()
    found = (
        branch.vision.embeddings.norm(branch.vision.embeddings.project(cells))
        @ branch.words.embeddings.word_embeddings.weight.T
    )
    assert np.corrcoef(found[..., 1:].flatten(), wanted[..., 1:].flatten())[0, 1] > 0.9


@torch.no_grad()
def test_of_the_premise_a_word_first_looks_at_its_like() -> None:
    text = find_text(NAME, SIZES)
    branch: Any = text.build().eval()
    model = branch.model
    model.set_attn_implementation("eager")
    ids, types = text.tokenize(["red cup snow"], ["small red mug"])
    assert int((ids[0] != 0).sum()) == 9  # [CLS] red cup snow [SEP] small red mug [SEP]
    looks = model(ids, (ids != 0).long(), types, output_attentions=True).attentions[0][0].mean(0)
    red, mug, premise = 6, 7, slice(1, 4)
    assert looks[[red, mug], premise].argmax(1).tolist() == [0, 1]


def test_branches_are_told_apart_by_what_they_start_from(source: ImageSource) -> None:
    other = find_image(NAME, replace(SIZES, vision_layers=2))
    assert source.fingerprint != other.fingerprint
    assert find_text(NAME, SIZES).fingerprint != find_text("random:bert-tiny", SIZES).fingerprint


def test_a_branch_wider_than_the_space_is_refused() -> None:
    with pytest.raises(UsageError, match=r"width = 512 .* 256 of ctxr-tiny"):
        find_text(NAME, replace(SIZES, width=512)).build()


def test_a_tower_that_pools_otherwise_is_refused() -> None:
    with pytest.raises(UsageError, match=r"cells of Linear"):
        into_space(torch.nn.Linear(2, 2))

"""ALBEF's checkpoints: what is read says what ALBEF says, and what does not fit is named."""

from pathlib import Path

import numpy as np
import pytest
import torch

from ctxr.errors import DataError, UsageError
from ctxr.models.entailment.albef import albef_source, resized_positions
from ctxr.models.entailment.recipe import ClassifierRecipe
from ctxr.models.entailment.sources import find_image
from tests.models.entailment.albef_folder import SIDE, Spelled, make_albef, make_state

AS_PUBLISHED = ClassifierRecipe(image_size=0)


@pytest.mark.parametrize("fine_tuned", [False, True])
@torch.no_grad()
def test_it_says_what_its_forward_pass_spelled_out_says(tmp_path: Path, fine_tuned: bool) -> None:
    state = make_state(fine_tuned=fine_tuned)
    source = find_image(f"albef:{make_albef(tmp_path / 'one', state)}", AS_PUBLISHED)
    branch = source.build().double().eval()
    slow = Spelled(state, "text_encoder" if fine_tuned else "text_encoder.bert")
    pictures = torch.randn(2, 3, SIDE, SIDE, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    tokens = source.tokenize(["a bat", "the dog", "c"])
    told = branch(pictures, torch.tensor([1, 0, 1]), tokens)
    for row, place in enumerate((1, 0, 1)):
        wanted = slow(pictures[place], tokens[row][tokens[row] != 0].tolist())
        torch.testing.assert_close(told[row], wanted, rtol=1e-9, atol=1e-9)
    below = slow.shares(1, _after_first(slow, pictures[0]))
    wanted = torch.stack(below).mean(0)[0, 1:]
    torch.testing.assert_close(branch.cls_attention(pictures)[0], wanted, rtol=1e-9, atol=1e-9)


def _after_first(slow: Spelled, picture: torch.Tensor) -> torch.Tensor:
    """Tokens that the last of the two blocks looks at."""
    seen: list[torch.Tensor] = []
    mixed = slow.mixed
    slow.mixed = lambda block, tokens: seen.append(tokens) or mixed(block, tokens)  # type: ignore[method-assign,func-returns-value]
    slow.image(picture)
    slow.mixed = mixed  # type: ignore[method-assign]
    return seen[1]


def test_copies_queues_and_other_heads_change_nothing(tmp_path: Path) -> None:
    state = make_state()
    few = {name: value for name, value in state.items() if "_m." not in name and "queue" not in name}
    prints = {
        albef_source(f"albef:{make_albef(tmp_path / str(len(one)), one)}", AS_PUBLISHED).fingerprint
        for one in (state, few)
    }
    other = albef_source(f"albef:{make_albef(tmp_path / 'other', make_state(1))}", AS_PUBLISHED).fingerprint
    assert len(prints) == 1
    assert other not in prints


def test_a_larger_picture_has_more_patches_at_places_in_between(tmp_path: Path) -> None:
    source = albef_source(f"albef:{make_albef(tmp_path / 'one', make_state())}", ClassifierRecipe(image_size=48))
    assert source.preprocess is not None
    assert source.preprocess.size == (48, 48)
    branch = source.build()
    assert branch.vision(source.preprocess([np.zeros((9, 9, 3), np.uint8)])).last_hidden_state.shape == (1, 37, 128)
    places = torch.arange(5.0)[None, :, None].expand(1, 5, 2)
    larger = resized_positions(places, 9)
    assert larger.shape == (1, 10, 2)
    assert larger[0, 0].tolist() == [0, 0]
    torch.testing.assert_close(larger[0, 5], torch.tensor([2.5, 2.5]))
    with pytest.raises(DataError, match=r"50 pixels .* patches of 8"):
        albef_source(f"albef:{tmp_path / 'one'}", ClassifierRecipe(image_size=50))


def test_what_does_not_fit_is_named(tmp_path: Path) -> None:
    state = make_state()
    gone = "text_encoder.bert.encoder.layer.2.crossattention.self.key.weight"
    lacking = make_albef(tmp_path / "lacking", {name: value for name, value in state.items() if name != gone})
    with pytest.raises(DataError, match=r"lacks text_encoder\.encoder\.layer\.2\.crossattention\.self\.key\.weight"):
        albef_source(f"albef:{lacking}", AS_PUBLISHED)
    foreign = make_albef(tmp_path / "foreign", state | {"tagger.weight": torch.zeros(1)})
    with pytest.raises(DataError, match=r"tagger\.weight"):
        albef_source(f"albef:{foreign}", AS_PUBLISHED)
    with pytest.raises(DataError, match="does not fit: 3 of 3 layers fuse"):
        albef_source(f"albef:{make_albef(tmp_path / 'high', state, fusion_layer=3)}", AS_PUBLISHED)
    with pytest.raises(
        DataError, match=r"words\.encoder\.layer\.0\.intermediate\.dense\.weight is \(48, 32\), wanted \(40, 32\)"
    ):
        albef_source(f"albef:{make_albef(tmp_path / 'shape', state, intermediate_size=40)}", AS_PUBLISHED)
    with pytest.raises(UsageError, match="no folder") as caught:
        albef_source(f"albef:{tmp_path / 'nowhere'}", AS_PUBLISHED)
    assert "--set image=albef:FOLDER" in caught.value.hint
    assert "--recipe entailment-tiny" in caught.value.hint

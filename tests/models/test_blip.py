"""BLIP as an encoder of pairs: what it says is what the published model says, and what it cannot read it names."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from ctxr.errors import CtxrError, DataError, UsageError
from ctxr.models.blip import BlipEncoder, load_blip
from ctxr.models.cross.sources import CrossSource
from ctxr.models.families import find_encoder
from ctxr.models.hub import BLIP_TINY, makes_pairs
from ctxr.models.scorers import Batch, marks_at
from tests.models.blip_folder import PREPROCESSOR, make_blip, make_model

TEXTS = ["a bat", "c", "the dog is near a big red ball"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_blip(tmp_path_factory.mktemp("blip") / "one")


@pytest.fixture(scope="module")
def source(folder: Path) -> CrossSource:
    return load_blip(f"blip:{folder}")


def batch_of(source: CrossSource, queries: int = 6, candidates: int = 5) -> Batch:
    """Sets of two queries each, every second one with an order."""
    chance = torch.Generator().manual_seed(0)
    owner = torch.arange(queries) // 2
    texts = [f"{TEXTS[row % 3]} {'abcdefgh'[row]}" for row in range(queries)]
    return Batch(
        images=torch.randn((queries + 1) // 2 * candidates, 3, 32, 32, generator=chance),
        texts=source.tokenize(texts),
        candidates=torch.arange((queries + 1) // 2 * candidates).view(-1, candidates)[owner],
        mask=torch.ones(queries, candidates, dtype=torch.bool),
        ordered=owner % 2 == 0,
        targets=marks_at(torch.randint(0, candidates, (queries,), generator=chance), candidates),
    )


@torch.no_grad()
def test_its_match_is_that_of_the_published_model_called_pair_by_pair(source: CrossSource) -> None:
    encoder, model = source.build(), make_model()
    assert isinstance(encoder, BlipEncoder)
    batch = batch_of(source)
    batch.mask[2:4, 3:] = False
    pairs = encoder.pairs(batch.images, batch.texts, batch.candidates, batch.mask)
    scores = encoder.match(pairs)
    assert pairs.shape == (6, 5, source.width)
    for row, place in batch.mask.nonzero().tolist():
        tokens = batch.texts[row][batch.texts[row] != 0][None]
        found = model(
            input_ids=tokens, pixel_values=batch.images[batch.candidates[row, place]][None], use_itm_head=True,
            attention_mask=torch.ones_like(tokens),
        )  # fmt: skip
        torch.testing.assert_close(pairs[row, place], found.question_embeds[0, 0], rtol=1e-4, atol=1e-4)
        odds = found.itm_score[0, 1] - found.itm_score[0, 0]
        torch.testing.assert_close(scores[row, place], odds, rtol=1e-4, atol=1e-4)
    assert float(scores[batch.mask].std()) > 0.1


@torch.no_grad()
def test_an_image_is_looked_at_once_however_many_ask(source: CrossSource) -> None:
    encoder = source.build()
    seen: list[int] = []
    assert isinstance(encoder, BlipEncoder)
    encoder.model.vision_model.register_forward_pre_hook(
        lambda _, args, more: seen.append(len(more["pixel_values"])), with_kwargs=True
    )
    batch = batch_of(source)
    encoder.pairs(batch.images, batch.texts, batch.candidates, batch.mask)
    assert seen == [15]


def test_texts_become_word_pieces_between_marks_and_pictures_fill_the_square(source: CrossSource) -> None:
    tokens = source.tokenize(["a Bat", "c", "a " * 300])
    assert tokens.shape == (3, 120)
    assert tokens[0, :7].tolist() == [2, 5, 6, 31, 50, 3, 0]
    assert int(tokens[2, -1]) == 3
    assert source.tokenize([]).shape == (0, 1)
    assert source.preprocess is not None
    picture = source.preprocess([np.full((20, 60, 3), 255, np.uint8)])
    assert picture.shape == (1, 3, 32, 32)
    torch.testing.assert_close(picture[0, :, 5, 5], torch.tensor([2.5, 2.0, 1.75]))


def test_a_fingerprint_is_that_of_the_weights_and_of_what_stands_before_them(
    source: CrossSource, tmp_path: Path
) -> None:
    again, other, cut = (make_blip(tmp_path / name, seed) for name, seed in (("again", 0), ("other", 1), ("cut", 0)))
    settings = json.loads((cut / "preprocessor_config.json").read_text())
    (cut / "preprocessor_config.json").write_text(json.dumps({**settings, "resample": 2}))
    prints = [load_blip(f"blip:{one}").fingerprint for one in (again, other, cut)]
    assert prints[0] == source.fingerprint
    assert len({*prints}) == 3


def _without(name: str) -> Callable[[Path], object]:
    return lambda folder: (folder / name).unlink()


def _with(name: str, text: str) -> Callable[[Path], object]:
    return lambda folder: (folder / name).write_text(text)


def _without_head(folder: Path) -> None:
    kept = {name: value for name, value in make_model().state_dict().items() if not name.startswith("itm_head")}
    save_file(kept, folder / "model.safetensors", metadata={"format": "pt"})


def _escaping(folder: Path) -> None:
    (folder / "model.safetensors").rename(folder.parent / "elsewhere.safetensors")
    index = {"metadata": {}, "weight_map": {"itm_head.weight": "../elsewhere.safetensors"}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))


def _executable(folder: Path) -> None:
    (folder / "model.safetensors").unlink()
    torch.save({"itm_head.weight": print}, folder / "pytorch_model.bin")


@pytest.mark.parametrize(
    ("harm", "message"),
    [
        (_without("config.json"), r"holds no config\.json with model\.safetensors"),
        (_without("model.safetensors"), r"holds no config\.json with model\.safetensors"),
        (_without("vocab.txt"), r"holds neither tokenizer\.json nor vocab\.txt"),
        (_without("preprocessor_config.json"), r"holds no preprocessor_config\.json"),
        (_with("preprocessor_config.json", "{"), "readable as JSON"),
        (_with("preprocessor_config.json", '{"size": {"shortest_edge": 32}}'), "size, mean and std"),
        (_with("model.safetensors", "cut"), "cannot be loaded"),
        (_with("config.json", "[]"), "no JSON object"),
        (_with("config.json", '{"text_config": {"vocab_size": 9}}'), "57 words, .* 9"),
        (
            _with("preprocessor_config.json", json.dumps(PREPROCESSOR | {"size": 48})),
            r"\(48, 48\) pixels .* \(32, 32\)",
        ),
        (_without_head, r"itm_head\.bias, and 1 more"),
        (_escaping, "of the folder"),
        (_executable, "cannot be loaded"),
    ],
)
def test_a_folder_that_is_not_whole_is_one_sentence(
    tmp_path: Path, harm: Callable[[Path], object], message: str
) -> None:
    folder = make_blip(tmp_path / "blip")
    harm(folder)
    with pytest.raises(DataError, match=message):
        load_blip(f"blip:{folder}")


def test_weights_of_the_older_kind_are_read_if_they_are_nothing_but_weights(
    tmp_path: Path, source: CrossSource
) -> None:
    folder = make_blip(tmp_path / "older")
    (folder / "model.safetensors").unlink()
    torch.save(make_model().state_dict(), folder / "pytorch_model.bin")
    assert load_blip(f"blip:{folder}").fingerprint == source.fingerprint


def test_names_that_lead_nowhere_are_one_sentence_with_a_hint(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ctxr.models.hub.can_reach", lambda address, patience: False)
    with pytest.raises(UsageError, match="names no folder"):
        load_blip("blip:")
    with pytest.raises(UsageError, match="no folder /nowhere/at/all"):
        load_blip("blip:/nowhere/at/all")
    with pytest.raises(CtxrError, match="blip:nobody/nothing are") as caught:
        load_blip("blip:nobody/nothing")
    assert "to the network" in caught.value.hint


def test_a_name_of_the_hub_is_read_from_its_cache_and_fetched_again_after_a_fetch_that_was_cut_off(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import huggingface_hub

    whole, cut = make_blip(tmp_path / "whole"), make_blip(tmp_path / "cut")
    (cut / "vocab.txt").unlink()
    monkeypatch.setattr(huggingface_hub, "try_to_load_from_cache", lambda repo, file: str(cut / file))
    monkeypatch.setattr(huggingface_hub, "snapshot_download", lambda repo, allow_patterns: str(whole))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)
    asked: list[str] = []

    def answers(address: str, patience: float) -> bool:
        asked.append(address)
        return True

    monkeypatch.setattr("ctxr.models.hub.can_reach", answers)
    fetched = load_blip("blip:owner/name")
    assert (fetched.name, fetched.fingerprint) == ("blip:owner/name", load_blip(f"blip:{whole}").fingerprint)
    assert "owner/name" in asked[0]
    monkeypatch.setattr(huggingface_hub, "try_to_load_from_cache", lambda repo, file: str(whole / file))
    assert load_blip("blip:owner/name").fingerprint == fetched.fingerprint
    assert len(asked) == 1


def test_a_name_says_of_which_family_it_is() -> None:
    pairs = ("blip:here", "volta:there", BLIP_TINY, "random:vilbert", "random:uniter-tiny")
    assert all(makes_pairs(name) for name in pairs)
    assert not any(
        makes_pairs(name) for name in ("ViT-B-16:openai", "ctxr-tiny", "random:ViT-B-32", "local-dir:blip:x")
    )
    found = find_encoder(BLIP_TINY, lambda _: None)
    assert isinstance(found, CrossSource)
    assert found.fingerprint == load_blip(BLIP_TINY).fingerprint

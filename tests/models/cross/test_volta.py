"""Checkpoints in volta's layout give volta's numbers, and what does not fit is one sentence."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor

from ctxr.errors import DataError, UsageError
from ctxr.models.cross.encoder import CONFIGS as PUBLISHED
from ctxr.models.cross.encoder import RegionEncoder
from ctxr.models.cross.sources import load_cross
from ctxr.models.cross.volta import read_volta_config
from tests.models.cross.volta_layout import (
    CONFIGS,
    FEATURES,
    PIECES,
    UNITER,
    VILBERT,
    Literal,
    make_checkpoint,
    make_state,
)


def pictures(count: int = 3, regions: int = 4, seed: int = 0) -> Tensor:
    """Regions [N, R, F + 5], the whole picture first; the last picture lacks its last region."""
    chance = torch.Generator().manual_seed(seed)
    made = torch.rand(count, regions, FEATURES + 5, generator=chance)
    made[:, 0, -5:] = torch.tensor([0.0, 0.0, 1.0, 1.0, 1.0])
    made[-1, -1, -5:] = 0.0
    return made


TEXTS = torch.tensor([[2, 7, 9, 31, 3, 0, 0], [2, 11, 3, 0, 0, 0, 0]])
CANDIDATES = torch.tensor([[0, 1, 2], [2, 0, 1]])
MASK = torch.ones(2, 3, dtype=torch.bool)


@torch.no_grad()
def encoded(folder: Path) -> tuple[Tensor, Tensor]:
    encoder = load_cross(f"volta:{folder}").build().double()
    assert isinstance(encoder, RegionEncoder)
    assert not encoder.training
    pairs = encoder.pairs(pictures().double(), TEXTS, CANDIDATES, MASK)
    return pairs, encoder.match(pairs)


@pytest.fixture(params=sorted(CONFIGS))
def config(request: pytest.FixtureRequest) -> dict[str, Any]:
    return dict(CONFIGS[request.param])


def test_pairs_and_scores_are_those_of_voltas_forward_pass_spelled_out(config: dict[str, Any], tmp_path: Path) -> None:
    state = make_state(config)
    pairs, match = encoded(make_checkpoint(tmp_path, config, state))
    volta, images = Literal(config, state), pictures()
    for query in range(2):
        for place, image in enumerate(CANDIDATES[query].tolist()):
            wanted = volta.pooled(TEXTS[query].tolist(), images[image, :, :-5], images[image, :, -5:])
            torch.testing.assert_close(pairs[query, place], wanted, rtol=1e-9, atol=1e-9)
            torch.testing.assert_close(match[query, place].sigmoid(), volta.aligned(wanted), rtol=1e-9, atol=1e-9)
    assert float(pairs.flatten(0, 1).std(0).max()) > 1e-3


def test_weights_may_come_from_data_parallel_training_in_half_precision_or_in_safetensors(
    config: dict[str, Any], tmp_path: Path
) -> None:
    state = {key: value.half().float() for key, value in make_state(config).items()}
    plain = load_cross(f"volta:{make_checkpoint(tmp_path / 'plain', config, state)}")
    wrapped = {f"module.{key}": value.half() for key, value in state.items()}
    parallel = load_cross(f"volta:{make_checkpoint(tmp_path / 'parallel', config, wrapped, 'model.pth')}")
    folder = make_checkpoint(tmp_path / "safe", config, state)
    (folder / "pytorch_model_9.bin").unlink()
    # as safetensors does it: of weights that are shared one name is kept, here that of the copy
    once = {data.data_ptr(): key for key, data in state.items()}
    save_file({key: state[key] for key in once.values()}, folder / "model.safetensors")
    assert {plain.fingerprint, parallel.fingerprint, load_cross(f"volta:{folder}").fingerprint} == {plain.fingerprint}
    assert (plain.width, plain.looks_at, plain.features, plain.preprocess) == (20, "regions", FEATURES, None)
    other = make_checkpoint(tmp_path / "other", config, make_state(config, seed=1))
    assert load_cross(f"volta:{other}").fingerprint != plain.fingerprint


def test_the_head_of_a_fine_tuned_retrieval_task_matches_in_place_of_pre_trainings(tmp_path: Path) -> None:
    state = {key: value for key, value in make_state(UNITER).items() if not key.startswith("cls.")}
    state["clfs_dict.TASK8.weight"], state["clfs_dict.TASK8.bias"] = torch.randn(1, 20), torch.randn(1)
    pairs, match = encoded(make_checkpoint(tmp_path, UNITER, state))
    wanted = pairs @ state["clfs_dict.TASK8.weight"][0].double() + state["clfs_dict.TASK8.bias"].double()
    torch.testing.assert_close(match, wanted)


def test_the_published_configs_are_the_ones_of_the_package(tmp_path: Path) -> None:
    sizes = {"hidden_size": 768, "num_attention_heads": 12, "intermediate_size": 3072, "pooler_size": 1024}
    rest = {"vocab_size": 30522, "v_pooler_size": 1024, "v_feature_size": 2048, "max_position_embeddings": 512}
    two = [*range(0, 12, 2), *range(14, 36, 4)]
    crossed = list(range(12, 36, 4))
    eight = {str(n): 8 for n in crossed}
    base = VILBERT | sizes | rest | {
        "v_hidden_size": 1024, "v_num_attention_heads": 8, "v_intermediate_size": 1024,
        "tt_attn_sublayers": two, "tv_attn_sublayers": crossed, "vt_attn_sublayers": crossed,
        "vv_attn_sublayers": list(range(14, 36, 4)), "t_ff_sublayers": list(range(1, 36, 2)),
        "v_ff_sublayers": list(range(13, 36, 2)), "sublayer2num_attention_heads": eight,
        "sublayer2attn_hidden_size": {str(n): 1024 for n in crossed},
    }  # fmt: skip
    (tmp_path / "vilbert_base.json").write_text(json.dumps(base))
    assert read_volta_config(tmp_path / "vilbert_base.json") == PUBLISHED["vilbert"]
    even, odd = list(range(0, 24, 2)), list(range(1, 24, 2))
    single = UNITER | sizes | rest | {
        "v_hidden_size": 768, "v_num_attention_heads": 12, "v_intermediate_size": 3072,
        "t_ff_sublayers": odd, "v_ff_sublayers": odd, "shared_sublayers": list(range(24)),
        "single_ln_sublayers": list(range(24)), **{f"{gate}_attn_sublayers": even for gate in ("tt", "tv", "vt", "vv")},
    }  # fmt: skip
    (tmp_path / "ctrl_uniter_base.json").write_text(json.dumps(single))
    assert read_volta_config(tmp_path / "ctrl_uniter_base.json") == PUBLISHED["uniter"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"image_embeddings": "vl-bert"}, "'vl-bert' .*image_embeddings"),
        ({"fusion_method": "sum"}, "'sum' .*fusion_method"),
        ({"hidden_size": "16"}, "`str` .*hidden_size"),
        ({"hidden_size": 18}, "4 heads .* 18"),
        ({"tt_attn_sublayers": [0, 2.5]}, "`float` .*tt_attn_sublayers"),
        ({"tv_attn_sublayers": []}, "sublayers 0 and 1 are neither ViLBERT's nor UNITER's"),
        ({"t_ff_sublayers": [1, 3, 4]}, "has 5 sublayers"),
        ({"v_pooler_size": 21}, "of two sizes"),
        ({"hidden_dropout_prob": 0.2}, "rates of dropout"),
        ({"sublayer2intermediate_size": {"1": 99}}, "sublayer 0 has a size"),
        ({"v_intermediate_size": 30}, "between streams"),
        ({"bert_model": "roberta-base"}, "'roberta-base' .*bert_model"),
        ({"hidden_dropout_prob": "much"}, "`str` .*hidden_dropout_prob"),
    ],
)
def test_a_config_of_something_else_is_one_sentence(change: dict[str, Any], message: str, tmp_path: Path) -> None:
    make_checkpoint(tmp_path, UNITER | change, {})
    with pytest.raises(DataError, match=f"ctrl.json: .*{message}"):
        load_cross(f"volta:{tmp_path}")


def without(state: dict[str, Tensor], *names: str) -> dict[str, Tensor]:
    return {key: value for key, value in state.items() if key not in names}


def test_weights_that_do_not_fit_are_named(tmp_path: Path) -> None:
    state = make_state(UNITER)
    pooler = "bert.t_pooler.dense."
    query = "bert.encoder.layer.2.attention_self.v_query.weight"
    cases = {
        "lacks bert.t_pooler.dense.bias": without(state, f"{pooler}bias"),
        "holds prediction_layer.weight that nothing": state | {"prediction_layer.weight": torch.zeros(1, 20)},
        r"pool_text.weight is \(20, 3\), wanted \(20, 16\)": state | {f"{pooler}weight": torch.zeros(20, 3)},
        ".*query.weight and .*v_query.weight differ": state | {query: state[query] + 1},
        "lacks .* and [0-9]+ more and holds .* and [0-9]+ more that nothing": make_state(VILBERT),
    }
    for number, (message, weights) in enumerate(cases.items()):
        folder = make_checkpoint(tmp_path / str(number), UNITER, weights)
        with pytest.raises(DataError, match=f"pytorch_model_9.bin: {message}"):
            load_cross(f"volta:{folder}")


def test_a_folder_must_hold_one_file_of_each_kind(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no folder") as nothing:
        load_cross(f"volta:{tmp_path / 'nowhere'}")
    assert "--set encoder=volta:FOLDER" in nothing.value.hint
    make_checkpoint(tmp_path, UNITER, make_state(UNITER))
    torch.save({}, tmp_path / "pytorch_model_8.bin")
    with pytest.raises(DataError, match=r"found pytorch_model_8.bin, pytorch_model_9.bin"):
        load_cross(f"volta:{tmp_path}")
    (tmp_path / "pytorch_model_8.bin").unlink()
    (tmp_path / "vocab.txt").unlink()
    with pytest.raises(DataError, match=r"no vocabulary .*vocab.txt") as caught:
        load_cross(f"volta:{tmp_path}")
    assert "bert-base-uncased" in caught.value.hint
    (tmp_path / "vocab.txt").write_text("\n".join([*PIECES, "more"]), encoding="utf-8")
    with pytest.raises(DataError, match=r"40 word pieces, .* 39"):
        load_cross(f"volta:{tmp_path}")
    (tmp_path / "ctrl.json").write_text("[")
    with pytest.raises(DataError, match=r"ctrl.json: .* JSON"):
        load_cross(f"volta:{tmp_path}")
    (tmp_path / "ctrl.json").write_text("[" * 200_000)
    with pytest.raises(DataError, match=r"ctrl.json: .* JSON"):
        load_cross(f"volta:{tmp_path}")
    (tmp_path / "ctrl.json").unlink()
    with pytest.raises(DataError, match=r"config \(config.json, \*.json\), found none"):
        load_cross(f"volta:{tmp_path}")


@pytest.mark.parametrize("name", ["random:uniterr", "random:", "blip:x", "volta"])
def test_an_unknown_name_is_answered_with_the_known_ones(name: str) -> None:
    with pytest.raises(UsageError, match="unknown cross-encoder") as caught:
        load_cross(name)
    assert "volta:FOLDER" in caught.value.hint

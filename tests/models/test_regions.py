"""Regions: cells that tile the picture, tokens as the encoder makes them, a detector's boxes with the features of its head."""

from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from ctxr.errors import CtxrError, DataError, UsageError
from ctxr.models.encoders import find_source, undrawn
from ctxr.models.regions import (
    DetectorRegions,
    GridRegions,
    averaging,
    build,
    feature_map,
    weights_here,
)
from ctxr.store.regions import BOX
from tests.models.encoder_folder import make_folder

SMALL = {"min_size": 64, "max_size": 96, "rpn_pre_nms_top_n_test": 60, "rpn_post_nms_top_n_test": 12}


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> str:
    return f"local-dir:{make_folder(tmp_path_factory.mktemp('encoder') / 'one')}"


@pytest.fixture(scope="module")
def detector(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Untrained weights of the first architecture, four classes."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        state = build("v1", 4, {}).state_dict()
        # an untrained detector is equally unsure of everything; nothing would be suppressed
        state["roi_heads.box_predictor.cls_score.weight"] = 0.3 * torch.randn(4, 1024)
    file = tmp_path_factory.mktemp("detector") / "weights.safetensors"
    save_file(state, file)
    return file


@pytest.fixture(scope="module")
def extractor(detector: Path) -> DetectorRegions:
    return DetectorRegions(detector, 5, "cpu", SMALL)


def pictures(count: int = 3) -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    return [rng.integers(0, 256, (40 + 7 * n, 64, 3)).astype(np.uint8) for n in range(count)]


@pytest.mark.parametrize(("height", "width"), [(1, 1), (3, 3), (7, 5), (14, 14)])
def test_the_boxes_of_a_grid_tile_the_picture(encoder: str, height: int, width: int) -> None:
    grid = GridRegions(encoder, 36, "cpu")
    grid.grid = [height, width]
    boxes = grid.regions(pictures(1))[0][1:, 64 : 64 + 4]
    cells = np.zeros((height * 60, width * 60), int)
    for x1, y1, x2, y2 in boxes * np.array([width * 60, height * 60] * 2):
        cells[round(y1) : round(y2), round(x1) : round(x2)] += 1
    assert (cells == 1).all()


def test_the_regions_of_a_transformer_are_its_patch_tokens_behind_the_last_norm(encoder: str) -> None:
    grid = GridRegions(encoder, 36, "cpu")
    tower = find_source(encoder).build().visual
    seen: list[torch.Tensor] = []
    tower.ln_post.register_forward_hook(lambda _layer, _given, out: seen.append(out))
    with torch.inference_mode():
        for picture in pictures():
            tower(grid._preprocess([picture]))
    wanted = torch.cat(seen)[:, 1:].numpy()
    found = np.stack(grid.regions(pictures()))
    assert grid.grid == [3, 3]
    assert found.shape == (3, 10, 64 + BOX)
    np.testing.assert_allclose(found[:, 1:, :64], wanted, atol=2e-6)
    np.testing.assert_allclose(found[:, 0, :64], wanted.mean(1), atol=2e-6)
    np.testing.assert_array_equal(found[:, 0, 64:], [[0, 0, 1, 1, 1]] * 3)
    np.testing.assert_allclose(found[:, 1:, -1], 1 / 9, atol=1e-6)


def test_the_first_token_is_that_of_the_top_left(encoder: str) -> None:
    dark = np.zeros((48, 48, 3), np.uint8)
    lit = dark.copy()
    lit[:16, :16] = 255
    tower = find_source(encoder).build().visual
    with torch.inference_mode():
        # before any attention a token knows its own patch alone
        tower.transformer.resblocks = torch.nn.ModuleList()
        maps = feature_map(tower, GridRegions(encoder, 36, "cpu")._preprocess([dark, lit]))
    changed = (maps[0] != maps[1]).any(0)
    assert changed.nonzero().tolist() == [[0, 0]]


def test_a_network_without_tokens_gives_the_cells_of_its_last_map() -> None:
    grid = GridRegions("ctxr-tiny", 36, "cpu")
    assert grid.grid == [3, 3]
    assert grid.regions(pictures(1))[0].shape == (10, 512 + BOX)


def test_a_picture_has_the_same_regions_whatever_stands_beside_it(encoder: str) -> None:
    grid = GridRegions(encoder, 36, "cpu")
    many = grid.regions(pictures(9))
    for one, among in zip(pictures(9), many, strict=True):
        np.testing.assert_array_equal(grid.regions([one])[0], among)


def test_a_grid_that_is_too_fine_is_averaged_by_area(encoder: str) -> None:
    fine, coarse = GridRegions(encoder, 9, "cpu"), GridRegions(encoder, 4, "cpu")
    assert coarse.grid == [2, 2]
    (tokens,), (found,) = (grid.regions(pictures(1)) for grid in (fine, coarse))
    cells = tokens[1:, :64].reshape(3, 3, 64)
    upper = np.array([2 / 3, 1 / 3, 0])
    wanted = np.einsum("h,w,hwf->f", upper, upper[::-1], cells)
    np.testing.assert_allclose(found[2, :64], wanted, atol=1e-6)
    np.testing.assert_allclose(found[2, 64:], [0.5, 0, 1, 0.5, 0.25], atol=1e-6)
    np.testing.assert_allclose(found[0, :64], tokens[0, :64], atol=1e-6)


@pytest.mark.parametrize(("cells", "kept"), [(14, 6), (7, 6), (5, 5), (9, 1)])
def test_averaging_weighs_by_how_much_of_a_cell_lies_in_a_part(cells: int, kept: int) -> None:
    fine = 5040
    slow = np.zeros((kept, cells))
    for point in range(fine):
        slow[point * kept // fine, point * cells // fine] += kept / fine
    np.testing.assert_allclose(averaging(cells, kept).numpy(), slow, atol=1e-6)


def test_a_detector_gives_distinct_boxes_with_the_features_of_its_head_at_these_boxes(
    extractor: DetectorRegions,
) -> None:
    from torchvision.ops import box_iou

    (found,) = extractor.regions(pictures(1))
    assert found.shape[1] == 1024 + BOX
    assert 3 <= len(found) <= 6
    boxes = found[1:, 1024:1028]
    assert (boxes >= 0).all()
    assert (boxes <= 1).all()
    np.testing.assert_allclose(found[0, :1024], found[1:, :1024].mean(0), atol=1e-5)
    overlap = box_iou(torch.tensor(boxes), torch.tensor(boxes)).fill_diagonal_(0)
    assert overlap.max() <= 0.5

    model = extractor._model
    with torch.inference_mode():
        batch, _ = model.transform([torch.tensor(pictures(1)[0]).permute(2, 0, 1) / 255])
        height, width = batch.image_sizes[0]
        pixels = torch.tensor(boxes) * torch.tensor([width, height, width, height])
        maps = model.backbone(batch.tensors)
        wanted = model.roi_heads.box_head(model.roi_heads.box_roi_pool(maps, [pixels], batch.image_sizes))
    np.testing.assert_allclose(found[1:, :1024], wanted, atol=1e-4)


def test_both_kinds_of_files_and_both_architectures_are_read(
    detector: Path, extractor: DetectorRegions, tmp_path: Path
) -> None:
    torch.save(load_file(detector), tmp_path / "weights.pth")
    assert DetectorRegions(tmp_path / "weights.pth", 5, "cpu")._fingerprint == extractor._fingerprint
    with undrawn():
        state = {name: torch.zeros_like(value) for name, value in build("v2", 3, {}).state_dict().items()}
    save_file(state, tmp_path / "v2.safetensors")
    newer = DetectorRegions(tmp_path / "v2.safetensors", 5, "cpu", SMALL)
    assert newer.describe()["detector"] == "fasterrcnn_resnet50_fpn v2"
    assert newer.regions(pictures(1))[0].shape[1] == 1024 + BOX


def test_weights_of_something_else_are_refused(tmp_path: Path, detector: Path) -> None:
    save_file({"a": torch.zeros(1)}, tmp_path / "other.safetensors")
    with pytest.raises(DataError, match="torchvision's fasterrcnn_resnet50_fpn"):
        DetectorRegions(tmp_path / "other.safetensors", 5, "cpu")
    state = load_file(detector)
    del state["rpn.head.cls_logits.weight"]
    save_file(state, tmp_path / "part.safetensors")
    with pytest.raises(DataError, match=r"detector in rpn\.head\.cls_logits\.weight$"):
        DetectorRegions(tmp_path / "part.safetensors", 5, "cpu")


def test_missing_weights_are_one_sentence_and_nothing_is_downloaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TORCH_HOME", str(tmp_path))
    with pytest.raises(CtxrError, match="on this machine"):
        weights_here()
    file = tmp_path / "hub" / "checkpoints" / "fasterrcnn_resnet50_fpn_coco-258fb6c6.pth"
    file.parent.mkdir(parents=True)
    file.write_bytes(b"")
    assert weights_here() == file


def test_an_encoder_without_a_map_is_refused() -> None:
    with pytest.raises(UsageError, match="kind Linear"):
        feature_map(torch.nn.Linear(2, 2), torch.zeros(1, 3, 4, 4))

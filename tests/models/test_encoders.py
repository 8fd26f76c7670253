"""What every encoder keeps to, shown with a small untrained model."""

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from ctxr.errors import CtxrError
from ctxr.models.encoders import Encoder, load_encoder
from ctxr.models.precision import folded
from tests.models.encoder_folder import COCA, PREPROCESS, make_folder


@pytest.fixture(scope="module")
def rounded(folder: Path) -> Encoder:
    return load_encoder(f"local-dir:{folder}", device="cpu", precision="bf16")


def test_vectors_are_float32_of_length_one_in_the_order_of_the_images(
    encoder: Encoder, pictures: Sequence[np.ndarray]
) -> None:
    vectors = encoder.encode_images(pictures)
    assert vectors.dtype == np.float32
    assert vectors.shape == (21, encoder.dim)
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-6)
    np.testing.assert_array_equal(encoder.encode_images(pictures[::-1])[::-1], vectors)


@pytest.mark.usefixtures("threads")
@pytest.mark.parametrize("precision", ["fp32", "bf16"])
@pytest.mark.parametrize("name", ["small", "ctxr-tiny"])
def test_an_image_alone_has_bit_for_bit_the_vector_it_has_in_any_batch(
    name: str, folder: Path, pictures: list[np.ndarray], precision: str
) -> None:
    encoder = load_encoder(f"local-dir:{folder}" if name == "small" else name, device="cpu", precision=precision)
    together = encoder.encode_images(pictures)
    assert 1 < encoder.rows < len(pictures)
    np.testing.assert_array_equal(encoder.encode_images(pictures[::-1])[::-1], together)
    for position in (0, 15, 20):
        np.testing.assert_array_equal(encoder.encode_images([pictures[position]])[0], together[position])
    np.testing.assert_array_equal(encoder.encode_images(pictures[3:8]), together[3:8])


@pytest.mark.prove
@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_an_image_alone_has_the_vector_it_has_in_a_batch_of_a_large_model(
    pictures: list[np.ndarray], precision: str
) -> None:
    encoder = load_encoder("random:ViT-B-32", device="cpu", precision=precision)
    together = encoder.encode_images(pictures)
    for position in (0, 1, 7, 15, 16, 20):
        np.testing.assert_array_equal(encoder.encode_images([pictures[position]])[0], together[position])


def test_a_model_that_also_writes_captions_is_an_encoder(tmp_path: Path, pictures: list[np.ndarray]) -> None:
    encoder = load_encoder(f"local-dir:{make_folder(tmp_path / 'coca', parts=COCA)}", device="cpu")
    assert encoder.encode_images(pictures).shape == (21, 32)
    assert encoder.encode_texts(["a red circle", "a house"]).shape == (2, 32)


def test_a_text_alone_has_the_vector_it_has_among_others(encoder: Encoder) -> None:
    texts = [f"{n} red circles to the left of a house" for n in range(11)]
    together = encoder.encode_texts(texts)
    assert together.dtype == np.float32
    assert together.shape == (11, encoder.dim)
    np.testing.assert_allclose(np.linalg.norm(together, axis=1), 1, atol=1e-6)
    for position, text in enumerate(texts):
        np.testing.assert_array_equal(encoder.encode_texts([text])[0], together[position])


def test_a_text_beyond_the_context_is_cut(encoder: Encoder) -> None:
    long = "one two three four five six seven eight nine ten"
    np.testing.assert_array_equal(*encoder.encode_texts([long + " eleven twelve", long + " thirteen"]))


def test_nothing_in_gives_an_empty_matrix(encoder: Encoder) -> None:
    assert encoder.encode_images([]).shape == (0, encoder.dim)
    assert encoder.encode_texts([]).shape == (0, encoder.dim)


def test_exact_vectors_of_a_rounded_encoder_are_those_in_fp32(
    encoder: Encoder, rounded: Encoder, pictures: list[np.ndarray]
) -> None:
    exact = encoder.encode_images(pictures)
    np.testing.assert_allclose(rounded.encode_images(pictures, exact=True), exact, atol=1e-6)
    assert np.abs(rounded.encode_images(pictures) - exact).max() > 1e-5
    np.testing.assert_array_equal(encoder.encode_images(pictures, exact=True), exact)


def drawn() -> list[np.ndarray]:
    """Drawn scenes that fade into single colours and into the dark, and greys: none is a probe of the margin."""
    across, down = np.meshgrid(np.linspace(0, 255, 96), np.linspace(255, 0, 64))
    disc = 255.0 * ((across - 120) ** 2 + (down - 90) ** 2 < 50**2)
    scenes = [np.stack([across, down, disc], axis=2), np.stack([disc, disc, across], axis=2)]
    faded = [
        share * scene + (1 - share) * grey for scene in scenes for share in (0.3, 0.1, 0.03) for grey in (0, 45, 90)
    ]
    flat = [np.full((64, 96, 3), grey) for grey in (*range(0, 60, 3), 110, 190, 255)]
    return [picture.astype(np.uint8) for picture in (*scenes, *faded, *flat)]


@pytest.mark.parametrize("name", ["small", "ctxr-tiny"])
def test_the_margin_covers_the_error_of_dark_faded_and_flat_pictures(name: str, folder: Path) -> None:
    encoder = load_encoder(f"local-dir:{folder}" if name == "small" else name, "cpu", "bf16")
    rough, exact = (
        np.linalg.norm(vectors[:, None].astype(float) - vectors[None], axis=2)
        for vectors in (encoder.encode_images(drawn()), encoder.encode_images(drawn(), exact=True))
    )
    assert 0 < np.abs(rough - exact).max() < 0.9 * encoder.margin < 0.1


def test_the_fingerprint_is_that_of_weights_and_preprocessing(
    encoder: Encoder, rounded: Encoder, folder: Path, tmp_path: Path
) -> None:
    assert len(encoder.fingerprint) == 64
    assert rounded.fingerprint == encoder.fingerprint
    assert load_encoder(f"checkpoint:{folder}").fingerprint == encoder.fingerprint
    assert load_encoder(f"local-dir:{make_folder(tmp_path / 'same')}").fingerprint == encoder.fingerprint
    other_weights = make_folder(tmp_path / "weights", seed=1)
    squashed = make_folder(tmp_path / "squash", preprocess={**PREPROCESS, "resize_mode": "squash"})
    prints = {load_encoder(f"local-dir:{path}").fingerprint for path in (folder, other_weights, squashed)}
    assert len(prints) == 3


def test_a_manifest_gets_plain_values(rounded: Encoder) -> None:
    described = rounded.describe()
    assert described["precision"] == "bf16"
    assert described["fingerprint"] == rounded.fingerprint
    assert described["threshold"] == rounded.threshold == 0.35
    assert described["float32_matmul"] in ("medium", "highest")
    assert described["versions"] == {"torch": torch.__version__.partition("+")[0]} | {
        package: described["versions"][package]  # type: ignore[index]
        for package in ("torchvision", "open_clip_torch")
    }


def test_torch_is_left_as_it_was(folder: Path, pictures: list[np.ndarray]) -> None:
    before = torch.get_rng_state(), torch.get_float32_matmul_precision(), torch.backends.cudnn.allow_tf32
    load_encoder(f"local-dir:{folder}").encode_images(pictures)
    assert torch.equal(torch.get_rng_state(), before[0])
    assert (torch.get_float32_matmul_precision(), torch.backends.cudnn.allow_tf32) == before[1:]


def test_a_full_device_gets_half_the_batch_and_says_so(
    folder: Path, pictures: list[np.ndarray], monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []
    encoder = load_encoder(f"local-dir:{folder}", device="cpu", warn=said.append)
    expected = encoder.encode_images(pictures)
    tower = encoder._fine.forward

    def small(batch: torch.Tensor) -> torch.Tensor:
        if len(batch) > limit:
            raise RuntimeError("MPS backend out of memory")
        result: torch.Tensor = tower(batch)
        return result

    monkeypatch.setattr(encoder._fine, "forward", small)
    limit = 4
    np.testing.assert_allclose(encoder.encode_images(pictures), expected, atol=1e-6)
    assert [one.endswith(f" {rows}") for one, rows in zip(said, (8, 4), strict=True)] == [True, True]
    limit = 0
    with pytest.raises(CtxrError, match="no memory left"):
        encoder.encode_images(pictures)


@pytest.mark.parametrize(
    "wrong", [np.zeros((8, 8, 3), np.float32), np.zeros((8, 8), np.uint8), np.zeros((0, 8, 3), np.uint8)]
)
def test_only_rgb_bytes_are_images(encoder: Encoder, wrong: np.ndarray) -> None:
    with pytest.raises(ValueError, match=r"image 1 is .*, wanted uint8 \[H, W, 3\]"):
        encoder.encode_images([np.zeros((8, 8, 3), np.uint8), wrong])


def normed(first: int, *layers: nn.Module) -> nn.Module:
    """A tower of a convolution, a batch norm that changes its channels, and other layers."""
    torch.manual_seed(first)
    norm = nn.BatchNorm2d(8)
    for values in (norm.weight, norm.bias, norm.running_mean, norm.running_var):
        nn.init.uniform_(values, 0.5, 2)  # type: ignore[arg-type]
    return nn.Sequential(nn.Conv2d(3, 8, 3, bias=False), norm, *layers, nn.Flatten()).eval().requires_grad_(False)


class Parallel(nn.Module):
    """Its batch norm does not follow the convolution that stands before it."""

    def __init__(self, tower: nn.Module) -> None:
        super().__init__()
        self.one, self.other = tower[0], tower[1]  # type: ignore[index]

    def forward(self, batch: torch.Tensor) -> torch.Tensor:
        return torch.cat([self.one(batch), self.other(self.one(batch.flip(-1)).relu())]).flatten(1)


def test_batch_norms_are_folded_where_that_changes_no_vector() -> None:
    plain, pixels = normed(0, nn.ReLU()), torch.randn(5, 3, 12, 12)
    fast = folded(plain, (12, 12))
    assert [type(layer) for layer in fast.children()] == [nn.Conv2d, nn.Identity, nn.ReLU, nn.Flatten]
    assert isinstance(plain[1], nn.BatchNorm2d)  # type: ignore[index]
    torch.testing.assert_close(fast(pixels), plain(pixels))
    for tower in (Parallel(plain), nn.Sequential(nn.Conv2d(3, 8, 3), nn.LayerNorm(10))):
        assert folded(tower, (12, 12)) is tower


def test_importing_the_encoders_leaves_torch_alone() -> None:
    code = "import sys, ctxr.models.encoders; sys.exit('torch' in sys.modules or 'open_clip' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0

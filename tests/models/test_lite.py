"""ctxr-lite: what its vectors are made of, what it may be used for, and what the real weights know."""

import json
import math
from pathlib import Path

import numpy as np
import pytest
import timm
import torch

from ctxr.errors import CtxrError, DataError, UsageError
from ctxr.media.images import read_image
from ctxr.models import hub, wheels
from ctxr.models.encoders import Encoder, load_encoder
from ctxr.models.entailment.recipe import ClassifierRecipe
from ctxr.models.entailment.sources import find_text
from ctxr.models.families import locate_model
from ctxr.models.identity import model_identity
from ctxr.models.lite import SHARE
from ctxr.models.regions import GridRegions
from ctxr.problems.contextual.recipe import ContextualRecipe
from ctxr.problems.links.recipe import LinksRecipe
from tests.models.lite_wheels import make_weights

FEATURES = 1280


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cache with untrained weights of the same shape."""
    folder = tmp_path_factory.mktemp("cache")
    make_weights(folder / "ctxr" / "ctxr-lite")
    return folder


@pytest.fixture
def untrained(cache: Path, monkeypatch: pytest.MonkeyPatch) -> Encoder:
    monkeypatch.setenv("XDG_CACHE_HOME", str(cache))
    return load_encoder("ctxr-lite", "cpu")


def test_an_image_holds_unit_features_and_what_the_classifier_sees(
    untrained: Encoder, cache: Path, pictures: list[np.ndarray]
) -> None:
    vectors = untrained.encode_images(pictures[:3])
    assert vectors.shape == (3, untrained.dim)
    features, seen = vectors[:, :FEATURES], vectors[:, FEATURES:]
    np.testing.assert_allclose(np.linalg.norm(features, axis=1), math.sqrt(1 - SHARE), rtol=1e-6)
    np.testing.assert_allclose(np.linalg.norm(seen, axis=1), math.sqrt(SHARE), rtol=1e-6)
    # the features are those of the network of the wheel, pooled
    network = timm.create_model("tf_efficientnet_lite0", pretrained=False, num_classes=1000).eval()
    state = torch.load(cache / "ctxr" / "ctxr-lite" / "network.pth", weights_only=True)
    network.load_state_dict(dict(zip(network.state_dict(), state.values(), strict=True)))
    with torch.inference_mode():
        pooled = network.forward_features(untrained._preprocess(pictures[:3])).mean((2, 3)).numpy()
    expected = math.sqrt(1 - SHARE) * pooled / np.linalg.norm(pooled, axis=1, keepdims=True)
    np.testing.assert_allclose(features, expected, atol=1e-5)


@pytest.mark.usefixtures("threads")
def test_an_image_alone_has_the_vector_it_has_in_any_batch(untrained: Encoder, pictures: list[np.ndarray]) -> None:
    together = untrained.encode_images(pictures)
    for chosen in ([0], [20, 3, 16]):
        np.testing.assert_array_equal(untrained.encode_images([pictures[at] for at in chosen]), together[chosen])


def test_embedding_every_frame_is_cheap_on_a_gpu_and_for_the_small_model(
    untrained: Encoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert (load_encoder("ctxr-tiny", "cpu").cheap, untrained.cheap) == (True, False)
    monkeypatch.setattr(untrained, "device", "cuda")
    assert untrained.cheap


def test_a_text_has_no_features_and_does_not_depend_on_its_neighbours(untrained: Encoder) -> None:
    texts = ["a dog", "a red bus " * 60, ""]
    together = untrained.encode_texts(texts)
    assert not together[:, :FEATURES].any()
    np.testing.assert_allclose(np.linalg.norm(together, axis=1), 1, rtol=1e-6)
    for text, vector in zip(texts, together, strict=True):
        np.testing.assert_array_equal(untrained.encode_texts([text])[0], vector)


def test_the_space_is_made_once_and_is_no_part_of_the_fingerprint(untrained: Encoder, cache: Path) -> None:
    (space,) = (cache / "ctxr").glob("*.safetensors")
    identity = model_identity("ctxr-lite", cache)
    space.unlink()
    again = load_encoder("ctxr-lite", "cpu")
    assert space.is_file()
    assert again.fingerprint == untrained.fingerprint
    assert model_identity("ctxr-lite", cache) == identity
    assert space not in locate_model("ctxr-lite")[1]


def test_bf16_is_refused_as_dark_frames_err_by_more_than_the_threshold(untrained: Encoder) -> None:
    assert untrained.precision == "fp32"
    with pytest.raises(UsageError, match="bf16") as refused:
        load_encoder("ctxr-lite", "cpu", "bf16")
    assert refused.value.hint == "--precision fp32"


def test_its_cells_are_regions(untrained: Encoder, pictures: list[np.ndarray]) -> None:
    grid = GridRegions(untrained.name, 49, "cpu")
    assert grid.grid == [7, 7]
    assert grid.regions(pictures[:1])[0].shape[0] == 50


@pytest.mark.usefixtures("untrained")
def test_minilm_alone_reads_claims() -> None:
    assert find_text("late:minilm", ClassifierRecipe()).width == 384


@pytest.mark.usefixtures("untrained")
def test_damaged_weights_are_one_sentence(cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    other = make_weights(tmp_path / "ctxr" / "ctxr-lite")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    (other / "network.pth").write_bytes(b"no weights")
    with pytest.raises(DataError, match=r"network.pth.*damaged"):
        load_encoder("ctxr-lite", "cpu")


def test_auto_takes_it_where_clip_is_out_of_reach(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(cache))
    monkeypatch.setattr(hub, "cached_weights", lambda *_: None)
    monkeypatch.setattr(hub, "can_reach", lambda *_: False)
    said: list[str] = []
    assert load_encoder("auto", warn=said.append).name == "ctxr-lite"
    assert len(said) == 1
    assert "ctxr-lite" in said[0]


def test_a_name_never_falls_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(wheels, "find_spec", lambda _: None)
    with pytest.raises(CtxrError, match="pip is not"):
        load_encoder("ctxr-lite")


@pytest.mark.parametrize(
    ("recipe", "says"),
    [
        (ContextualRecipe(variant="batch", encoder="ctxr-lite"), "cannot be tuned"),
        (ContextualRecipe(variant="module", encoder="ctxr-lite", frozen=False), "cannot be tuned"),
        (LinksRecipe(encoder="ctxr-lite", frozen=False), "cannot be tuned"),
        (LinksRecipe(text="minilm", frozen=False), "minilm stays"),
    ],
)
def test_recipes_that_tune_refuse_it(recipe: ContextualRecipe | LinksRecipe, says: str) -> None:
    with pytest.raises(UsageError, match=says):
        recipe.check()


def test_heads_and_links_may_stand_on_it() -> None:
    ContextualRecipe(variant="module", encoder="ctxr-lite").check()
    LinksRecipe(text="minilm", encoder="ctxr-lite").check()


@pytest.fixture
def real() -> Encoder:
    if not (wheels.cache_folder() / "ctxr-lite").is_dir():
        pytest.skip("ctxr-lite is not in the cache: make setup")
    return load_encoder("ctxr-lite", "cpu")


def test_the_real_weights_are_the_published_ones_and_find_photos_by_their_captions(
    real: Encoder, real_files: Path
) -> None:
    assert real.fingerprint.startswith("a92a4a2d6f4b")
    listed = json.loads((real_files / "photos" / "captions_train2017.json").read_bytes())
    captions = {row["image_id"]: row["caption"] for row in listed["annotations"]}
    files = {
        image: real_files / "photos" / "coco-mini" / row["file_name"]
        for row in listed["images"]
        if (image := row["id"])
    }
    chosen = [image for image, file in sorted(files.items()) if file.is_file()]
    images = real.encode_images([read_image(files[image]) for image in chosen])
    scores = real.encode_texts([captions[image] for image in chosen]) @ images.T
    ranks = (scores > scores.diagonal()[:, None]).sum(1)
    assert len(chosen) == 80
    assert (ranks < 5).mean() > 0.6  # by chance .06

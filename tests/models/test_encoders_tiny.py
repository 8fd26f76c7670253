"""The model inside the package: its format, and that it has learned what a toy scene and a visible change are."""

import json
from collections.abc import Sequence

import cv2
import msgspec
import numpy as np
import open_clip
import pytest
import torch

from ctxr.models.encoders import TINY_FOLDER, Encoder, load_encoder
from ctxr.synthetic.world.drawing import render
from ctxr.synthetic.world.scenes import Scene, sample_scene
from ctxr.synthetic.world.statements import true_statements

SCENES = 100


@pytest.fixture(scope="module")
def tiny() -> Encoder:
    return load_encoder("ctxr-tiny", device="cpu")


@pytest.fixture(scope="module")
def scenes() -> list[Scene]:
    rng = np.random.default_rng(77)
    return [sample_scene(rng, 4 / 3) for _ in range(SCENES)]


@pytest.fixture(scope="module")
def pictures(scenes: Sequence[Scene]) -> list[np.ndarray]:
    return [render(scene, 320, 240) for scene in scenes]


def test_the_folder_is_open_clips_own_format_and_small(pictures: list[np.ndarray], tiny: Encoder) -> None:
    assert sum(path.stat().st_size for path in TINY_FOLDER.iterdir()) <= 15_000_000
    model, _, transform = open_clip.create_model_and_transforms(f"local-dir:{TINY_FOLDER}")
    tokenizer = open_clip.get_tokenizer(f"local-dir:{TINY_FOLDER}")
    from PIL import Image

    with torch.inference_mode():
        vector = model.eval().encode_image(transform(Image.fromarray(pictures[0]))[None], normalize=True)
        words = model.encode_text(tokenizer(["a red circle"]), normalize=True)
    # the PIL transform rounds a level differently here and there
    assert float(vector @ torch.from_numpy(tiny.encode_images(pictures[:1])).T) > 0.999
    np.testing.assert_allclose(tiny.encode_texts(["a red circle"]), words.numpy(), atol=1e-5)


def test_its_threshold_is_the_calibrated_one(tiny: Encoder) -> None:
    notes = json.loads((TINY_FOLDER / "ctxr.json").read_text(encoding="utf-8"))
    assert tiny.threshold == notes["threshold"] != 0.35
    assert 0 < tiny.threshold < 1
    assert notes["error"] < 0.25


def test_captions_of_unseen_scenes_find_their_picture(
    scenes: list[Scene], pictures: list[np.ndarray], tiny: Encoder
) -> None:
    rng = np.random.default_rng(5)
    said = [true_statements(scene, rng, 1)[0].text for scene in scenes]
    scores = tiny.encode_texts(said) @ tiny.encode_images(pictures).T
    rank = (scores > np.diag(scores)[:, None]).sum(1)
    # by chance it would be 5 of 100
    assert float((rank < SCENES // 20).mean()) > 0.5


def test_what_people_see_moves_a_picture_farther_than_taking_it_again(
    scenes: list[Scene], pictures: list[np.ndarray], tiny: Encoder
) -> None:
    gone = [render(msgspec.structs.replace(scene, actors=scene.actors[:-1]), 320, 240) for scene in scenes]
    again = [np.asarray(cv2.imdecode(cv2.imencode(".jpg", picture)[1], cv2.IMREAD_COLOR)) for picture in pictures]
    base = tiny.encode_images(pictures)
    far, near = (np.linalg.norm(base - tiny.encode_images(frames), axis=1) for frames in (gone, again))
    assert float((far > tiny.threshold).mean()) > 0.8
    assert float((near < tiny.threshold).mean()) > 0.95


def test_a_picture_cut_at_the_side_is_not_the_whole_one(tiny: Encoder) -> None:
    # a centre crop would throw the side away and see no difference
    rng = np.random.default_rng(9)
    wide = render(sample_scene(rng, 16 / 9), 640, 360)
    painted = wide.copy()
    painted[:, :90] = (220, 30, 30)
    one, two = tiny.encode_images([wide, painted])
    assert float(np.linalg.norm(one - two)) > tiny.threshold

"""How ctxr-tiny comes about: pairs of drawn pictures, steps that can be repeated, a folder that loads."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import torch
from open_clip.tokenizer import SimpleTokenizer

from ctxr.models.encoders import load_encoder
from ctxr.synthetic.world.scenes import Scene, sample_scene
from scripts.tiny_judge import retrieval
from scripts.tiny_learner import SIZE, Batches, Learner, tokenized
from scripts.tiny_pool import Pool, make_pool, vary
from scripts.train_tiny import write


@pytest.fixture(scope="module")
def pool() -> Pool:
    with pytest.MonkeyPatch.context() as patch:
        draw_here(patch)
        return make_pool(3, SIZE, 8, 2)


def draw_here(patch: pytest.MonkeyPatch) -> None:
    """A pool is drawn by threads of this process, which start faster."""
    patch.setattr("scripts.tiny_pool.ProcessPoolExecutor", lambda workers, mp_context: ThreadPoolExecutor(workers))


def start(pool: Pool) -> tuple[Learner, Callable[[int], list[float]]]:
    """A new learner, and a function that takes a number of steps with it and gives their losses."""
    generator = torch.Generator().manual_seed(0)
    tokens = tokenized(pool.texts, SimpleTokenizer(context_length=48))
    source = Batches(pool, pool, tokens, generator, told=4, said=1)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        learner = Learner(2e-3)
    return learner, lambda steps: [learner.step(source.draw(), 2e-3, generator)["contrast"] for _ in range(steps)]


def test_a_varied_scene_is_another_one_and_the_same_seed_varies_alike() -> None:
    def varied(seed: int) -> list[tuple[Scene, Scene]]:
        rng = np.random.default_rng(seed)
        return [(scene, vary(rng, scene)) for scene in (sample_scene(rng, 16 / 9) for _ in range(50))]

    assert all(scene != other for scene, other in varied(1))
    assert varied(1) == varied(1)
    assert varied(1) != varied(2)


def test_a_pool_is_made_of_pairs_and_follows_from_its_seed(pool: Pool) -> None:
    assert pool.pictures.shape == (8, SIZE, SIZE, 3)
    assert [len(texts) for texts in pool.texts] == [2] * 8
    again = make_pool(3, SIZE, 8, 2, workers=2)
    np.testing.assert_array_equal(again.pictures, pool.pictures)
    assert again.texts == pool.texts
    pixels = pool.pictures.astype(np.float32)
    inside = np.abs(pixels[0::2] - pixels[1::2]).mean()
    across = np.abs(pixels - np.roll(pixels, 2, axis=0)).mean()
    assert 0 < inside < across


def test_photographs_come_without_captions(monkeypatch: pytest.MonkeyPatch) -> None:
    draw_here(monkeypatch)
    assert make_pool(3, SIZE, 2, 0).texts == []


def test_steps_can_be_repeated_bit_for_bit_and_learn(pool: Pool) -> None:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        (one, step), (two, step_again) = start(pool), start(pool)
        losses = step(2)
        assert step_again(2) == losses
        assert all(torch.equal(weights, two.weights()[name]) for name, weights in one.weights().items())
        assert np.mean(step(6)[-3:]) < np.mean(losses) - 0.2
    finally:
        torch.set_num_threads(before)


def test_what_is_written_loads_as_an_encoder(pool: Pool, tmp_path: Path) -> None:
    learner, step = start(pool)
    step(1)
    write(learner, tmp_path / "tiny")
    encoder = load_encoder(f"local-dir:{tmp_path / 'tiny'}")
    assert (encoder.dim, encoder.image_size, encoder.precision) == (256, SIZE, "fp32")
    figures = retrieval(encoder, seed=1, scenes=20, texts=1)
    assert figures["text to image R@10 of 20"] >= figures["text to image R@1 of 20"]

"""Scores by a trained run, asked for again: by the same weights, the same arithmetic and the same quirks, or not at all."""

from pathlib import Path

import pytest

from ctxr.data.readers import read_dataset
from ctxr.errors import DataError
from ctxr.pipelines.scoring import scores_of
from tests.models.encoder_folder import make_folder
from tests.pipelines.training.conftest import Trains


def test_other_weights_below_a_head_are_refused_and_a_fine_tuned_encoder_does_not_care(
    train: Trains, benchmark: Path, tmp_path: Path
) -> None:
    folder, dataset = make_folder(tmp_path / "one"), read_dataset(benchmark)
    head, tuned = (train(recipe, f"encoder=local-dir:{folder}").folder for recipe in ("clip-module", "clip-batch"))
    before = scores_of(tuned, dataset)
    weights = make_folder(tmp_path / "other", seed=1) / "open_clip_model.safetensors"
    weights.replace(folder / weights.name)
    with pytest.raises(DataError, match=r"seed0 was trained over other weights than local-dir:.*one has now") as caught:
        scores_of(head, dataset)
    assert "train again" in caught.value.hint
    assert scores_of(tuned, dataset) == before

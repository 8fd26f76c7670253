"""Scores by a trained run, asked for again: by the same weights, the same arithmetic and the same quirks, or not at all."""

from pathlib import Path

import pytest

from ctxr.datasets.open import read_dataset
from ctxr.errors import DataError
from ctxr.models import precision
from ctxr.store.records import Score
from ctxr.store.tables import read_table
from tests.models.encoder_folder import make_folder
from tests.pipelines.modelling.training.conftest import Trains
from tests.problems.scores import scores_of


def test_other_weights_below_a_head_are_refused_and_a_fine_tuned_encoder_does_not_care(
    train: Trains, benchmark: Path, tmp_path: Path
) -> None:
    folder, dataset = make_folder(tmp_path / "one"), read_dataset(benchmark)
    head, tuned = (
        train(recipe, "epochs=1", f"encoder=local-dir:{folder}").folder for recipe in ("clip-module", "clip-batch")
    )
    before = scores_of(tuned, dataset)
    weights = make_folder(tmp_path / "other", seed=1) / "open_clip_model.safetensors"
    weights.replace(folder / weights.name)
    with pytest.raises(DataError, match=r"seed0 .*local-dir:.*one has now") as caught:
        scores_of(head, dataset)
    assert "train again" in caught.value.hint
    assert scores_of(tuned, dataset) == before


@pytest.mark.parametrize("recipe", ["clip-batch", "clip-module"])
def test_a_cpu_that_gains_from_bf16_scores_in_fp32_as_it_trained_unless_the_recipe_says_so(
    train: Trains, benchmark: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, recipe: str
) -> None:
    plain = (train(recipe, "epochs=1", workdir=tmp_path / "plain").folder / "scores.jsonl").read_bytes()
    monkeypatch.setattr(precision, "has_bf16_units", lambda: True)
    monkeypatch.setattr(precision, "BF16_PARAMETERS", 0)
    assert (train(recipe, "epochs=1").folder / "scores.jsonl").read_bytes() == plain
    rounded = train(recipe, "epochs=1", "precision=bf16").folder
    assert (rounded / "scores.jsonl").read_bytes() != plain
    assert scored_again(rounded, benchmark) == read_table(rounded / "scores.jsonl", Score)


def test_dropout_in_evaluation_stays_on_for_test_and_draws_alike_again(train: Trains, benchmark: Path) -> None:
    folder = train("clip-module", "epochs=1", "dropout_in_evaluation=true", "dropout=0.5").folder
    rows = read_table(folder / "scores.jsonl", Score)
    assert scored_again(folder, benchmark) == rows
    config = folder / "seed0" / "config.json"
    config.write_text(config.read_text().replace('"dropout_in_evaluation": true', '"dropout_in_evaluation": false'))
    assert scored_again(folder, benchmark) != rows


def scored_again(folder: Path, benchmark: Path) -> list[Score]:
    """What the checkpoints of a run say of valid and test, in the order of its table."""
    dataset = read_dataset(benchmark)
    asked = [query.id for query, image_set, _ in dataset.targets() if dataset.split_of(image_set) != "train"]
    return sorted(scores_of(folder, dataset, asked), key=Score.key)

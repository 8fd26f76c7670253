"""Encoders of pairs in galleries: trained with weak positives, reranking, and evaluated by every picture with every caption."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ctxr.datasets.open import read_dataset
from ctxr.errors import UsageError
from ctxr.pipelines.modelling.config import Eval, RegionsConfig, Train, TrainReport
from ctxr.pipelines.modelling.eval import run as evaluate
from ctxr.pipelines.modelling.regions import run as look
from ctxr.pipelines.modelling.train import run
from ctxr.problems.galleries import QueryRanking, RecallRow, gallery_splits
from ctxr.store.artifacts import open_artifact
from ctxr.store.tables import read_table
from tests.pipelines.galleries import extra_pairs, write_round
from tests.problems.scores import scores_of

Trains = Callable[..., TrainReport]


@pytest.fixture
def train(world: Path, tmp_path: Path) -> Trains:
    def call(recipe: str, *changes: str, **more: Any) -> TrainReport:
        whole = () if any(one.startswith("rerank=") for one in changes) else ("rerank=0",)
        small = ("lr=1e-3", "epochs=1", "batch=20", "at_once=8", "patience=0", *whole, *changes)
        return run(Train(recipe, world, changes=small, workdir=tmp_path / "work", **more))

    return call


def figures(folder: Path) -> dict[tuple[str, str], float]:
    told = json.loads((folder / "figures.json").read_text())
    return {(row["run"], row["measure"]): row["value"] for row in told["figures"]}


def test_weak_positives_train_an_encoder_of_pairs_and_eval_ranks_as_it_scores(
    train: Trains, world: Path, tmp_path: Path
) -> None:
    table = write_round(tmp_path / "judgments.jsonl", extra_pairs(world, "train"))
    blip = ("encoder=random:blip-tiny",)
    plain = train("retrieval-blip", *blip)
    weak = train("retrieval-blip-weak", *blip, judgments=table)
    assert [parent.kind for parent in open_artifact(weak.folder).manifest.parents] == ["dataset", "judgments", "model"]
    recalls = [read_table(one.folder / "recalls.jsonl", RecallRow) for one in (plain, weak)]
    assert recalls[0] != recalls[1]
    assert train("retrieval-blip-weak", *blip, judgments=table).up_to_date

    draws = {"resamples": 100, "permutations": 50}
    both = Eval((plain.run, weak.run), world, tmp_path / "work", split="test", compare=True, **draws)  # type: ignore[arg-type]
    results = evaluate(both).results
    found = figures(results)
    own = {row.measure: row.value for row in recalls[1] if row.split == "test"}
    measures = ("TR@1", "TR@10", "IR@5")
    assert [found[weak.run, measure] for measure in measures] == pytest.approx([own[measure] for measure in measures])
    dataset = read_dataset(world)
    side = gallery_splits(dataset)["test"]
    values = {(one.query, one.candidate): one.value for one in scores_of(weak.folder, dataset, side.captions[:5])}
    rankings = {
        row.query: row for row in read_table(results / "rankings.jsonl", QueryRanking) if row.scorer == weak.run
    }
    for caption in side.captions[:5]:
        row = rankings[caption]
        np.testing.assert_allclose(row.scores, [values[caption, one] for one in row.candidates], atol=2e-5)
        assert row.scores[0] == pytest.approx(max(values[caption, one] for one in side.images), abs=2e-5)


def test_a_shortlist_says_what_is_looked_at_in_training_and_evaluation(
    train: Trains, encoder: str, world: Path, tmp_path: Path
) -> None:
    short = ("encoder=random:blip-tiny", "rerank=3", f"rerank_by={encoder}")
    report = train("retrieval-blip", *short)
    assert [parent.kind for parent in open_artifact(report.folder).manifest.parents] == ["dataset", "model", "model"]
    workdir = tmp_path / "work"
    as_trained = evaluate(Eval((report.run,), world, workdir, split="test", resamples=50)).results
    own = {
        row.measure: row.value for row in read_table(report.folder / "recalls.jsonl", RecallRow) if row.split == "test"
    }
    assert figures(as_trained)[report.run, "TR@1"] == pytest.approx(own["TR@1"])
    asked = Eval((report.run,), world, workdir, tmp_path / "more", "test", resamples=50, rerank=24, rerank_by=encoder)
    whole = train("retrieval-blip", "encoder=random:blip-tiny", name="whole")
    more = figures(evaluate(asked).results)
    every = figures(evaluate(Eval((whole.run,), world, workdir, tmp_path / "all", "test", resamples=50)).results)
    same = [measure for run, measure in every if run == whole.run and measure[:2] == "IR"]
    assert {one: more[report.run, one] for one in same} == pytest.approx({one: every[whole.run, one] for one in same})
    plain = Eval((report.run,), world, workdir, tmp_path / "plain", "test", resamples=50, rerank=0)
    plainly = figures(evaluate(plain).results)
    assert {one: plainly[report.run, one] for one in same} == pytest.approx(
        {one: more[report.run, one] for one in same}
    )
    both = Eval((report.run, whole.run), world, workdir, tmp_path / "both", "test", True, resamples=50, permutations=20)
    told = evaluate(both)
    assert any(
        one.startswith(f"{report.run} rescores ") and " 3 candidates" in one and f" {encoder} " in one
        for one in told.notes
    )
    assert any("behind different shortlists" in one for one in told.notes)
    looked = open_artifact(told.results).manifest.counts["looked_at"]
    assert [looked[one]["most"] for one in (report.run, whole.run)] == [3, 0]
    with pytest.raises(UsageError, match="--rerank and --rerank-by"):
        evaluate(Eval((report.run,), world, workdir, rerank=4))
    with pytest.raises(UsageError, match="encoder of vectors"):
        evaluate(Eval((report.run,), world, workdir, rerank=4, rerank_by="random:blip-tiny"))


def test_regions_are_looked_at_in_galleries_too(train: Trains, encoder: str, world: Path, tmp_path: Path) -> None:
    found = look(RegionsConfig(world, f"grid:{encoder}", 4, "small", tmp_path / "work", "cpu"))
    changes = (f"encoder=random:uniter-tiny:{found.features}", "regions=small", "new_score=true")
    report = train("retrieval-uniter", *changes)
    assert report.regions == "small"
    assert (report.folder / "seed0" / "score.safetensors").is_file()
    results = evaluate(Eval((report.run,), world, tmp_path / "work", split="test", resamples=50)).results
    own = {
        row.measure: row.value for row in read_table(report.folder / "recalls.jsonl", RecallRow) if row.split == "test"
    }
    assert figures(results)[report.run, "IR@10"] == pytest.approx(own["IR@10"])
    cache = tmp_path / "work" / ".ctxr-cache"
    shutil.rmtree(cache)
    again = evaluate(Eval((report.run,), world, tmp_path / "work", tmp_path / "again", "test", resamples=50)).results
    assert figures(again) == figures(results)

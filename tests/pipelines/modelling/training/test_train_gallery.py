"""Training over galleries: a run from a recipe, weak positives of a later round, and what is refused."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ctxr.datasets.open import read_dataset
from ctxr.datasets.truth import judge_verdicts, read_verdicts
from ctxr.errors import DataError, UsageError
from ctxr.pipelines.modelling.config import Eval, Train, TrainReport
from ctxr.pipelines.modelling.eval import run as run_eval
from ctxr.pipelines.modelling.train import run
from ctxr.problems.galleries import QueryRanking, RecallRow, gallery_splits
from ctxr.problems.verdicts import PairVerdicts
from ctxr.store.artifacts import open_artifact
from ctxr.store.records import Judgment
from ctxr.store.tables import read_table
from ctxr.synthetic.captions import WorldCaptions, write_captions
from tests.pipelines.galleries import extra_pairs, truth_of, write_round
from tests.pipelines.modelling.training.test_train import Note

Trains = Callable[..., TrainReport]


@pytest.fixture
def train(world: Path, encoder: str, tmp_path: Path) -> Trains:
    def call(*changes: str, **more: Any) -> TrainReport:
        small = (f"encoder={encoder}", "lr=1e-3", "epochs=2", "batch=40", "at_once=16", "patience=0", *changes)
        return run(Train("retrieval-clip", world, changes=small, workdir=tmp_path / "work", **more))

    return call


def test_a_run_over_galleries_says_what_it_ranks_first_both_ways(train: Trains, world: Path) -> None:
    report = train("epochs=1", seeds=2)
    sides = gallery_splits(read_dataset(world))
    assert report.queries == {side: len(sides[side].captions) for side in ("train", "valid", "test")}
    assert [one.epochs for one in report.seeds] == [1, 1]
    rows = read_table(report.folder / "rankings.jsonl", QueryRanking)
    test = [row for row in rows if row.scorer == "retrieval-clip/seed1"]
    assert len(test) == sum(len(sides[side].captions) + len(sides[side].images) for side in ("valid", "test"))
    by_query = {row.query: row for row in test}
    hits = []
    for caption, image in sides["test"].written:
        row = by_query[sides["test"].captions[caption]]
        assert (row.asks, len(row.candidates)) == ("image", 24)
        assert list(row.scores) == sorted(row.scores, reverse=True)
        hits.append(sides["test"].images[image] in row.candidates[:5])
    recalls = {
        (row.scorer, row.split, row.measure): row.value
        for row in read_table(report.folder / "recalls.jsonl", RecallRow)
    }
    assert recalls["retrieval-clip/seed1", "test", "IR@5"] == pytest.approx(np.mean(hits))
    assert report.seeds[1].test == recalls["retrieval-clip/seed1", "test", "mean recall"]
    assert report.measure == "mean recall"
    assert "rankings.jsonl" in open_artifact(report.folder).manifest.files


def test_weak_positives_of_a_later_round_train_another_model(train: Trains, world: Path, tmp_path: Path) -> None:
    table = write_round(tmp_path / "judgments.jsonl", extra_pairs(world, "train"))
    weak = train("weak=extra-batch", "epochs=1", judgments=tmp_path, name="weak")
    assert table.is_file()
    plain = train("epochs=1", name="plain")
    parents = {run.run: [one.name for one in open_artifact(run.folder).manifest.parents] for run in (weak, plain)}
    assert parents == {"weak": ["dataset", "judgments.jsonl", "one"], "plain": ["dataset", "one"]}
    contents = {(one.folder / "seed0" / "encoder.safetensors").read_bytes() for one in (weak, plain)}
    assert len(contents) == 2
    # runs over galleries store no scores, and are scored where none is named
    found = run_eval(Eval((), world, tmp_path / "work", resamples=20, permutations=20, recall="1"))
    assert found.runs == ("plain", "weak")


def test_pairs_of_a_side_become_weak_positives_only_inside_their_gallery(world: Path) -> None:
    dataset = read_dataset(world)
    row = truth_of(world, "train")[0]
    other = next(image for image in dataset.images if image != row.image and image.startswith("train/"))
    far = next(image for image in dataset.images if image.startswith("test/"))
    judged = dict.fromkeys([(row.caption, image) for image in (other, far, row.image)], True)
    sides = gallery_splits(dataset, PairVerdicts(judged))
    side = sides["train"]
    assert [(side.captions[caption], side.images[image]) for caption, image in side.weak] == [(row.caption, other)]
    assert not sides["test"].weak
    assert not gallery_splits(dataset, PairVerdicts({(row.caption, other): False}))["train"].weak


def test_the_latest_round_has_the_last_word() -> None:
    rows = [
        Judgment("a", "1", "entailment:x", 1.0, round=1),
        Judgment("a", "1", "entailment:x", 0.0, round=2),
        Judgment("a", "2", "entailment:x", 0.0, round=1),
        Judgment("a", "2", "entailment:y", 1.0, round=1),
        Judgment("a", "3", "gold", 1.0),
    ]
    assert judge_verdicts(rows) == {("a", "1"): False, ("a", "2"): True}
    assert judge_verdicts(rows[::-1]) == judge_verdicts(rows)


def test_a_recipe_that_wants_weak_positives_says_where_none_are(train: Trains, tmp_path: Path, world: Path) -> None:
    with pytest.raises(DataError, match="split of dataset"):
        train("weak=extra-batch")
    table = write_round(tmp_path / "judgments.jsonl", extra_pairs(world, "train")[:1])
    with pytest.raises(UsageError, match="weak = off"):
        train(judgments=table)
    with pytest.raises(UsageError, match="none does not"):
        train("weak=mask-only", judgments=tmp_path / "none")
    assert len(read_verdicts(table)) == 1


def test_unsure_pairs_train_another_model_unless_the_recipe_leaves_judges_out(
    train: Trains, world: Path, tmp_path: Path
) -> None:
    held = [*extra_pairs(world, "train"), *extra_pairs(world, "test")]
    write_round(tmp_path / "judgments.jsonl", [], unsure=held)
    dropped = train("weak=mask-only", "epochs=1", judgments=tmp_path, name="dropped")
    plain = train("epochs=1", name="plain")
    assert len({(one.folder / "seed0" / "encoder.safetensors").read_bytes() for one in (dropped, plain)}) == 2
    rows = read_table(dropped.folder / "rankings.jsonl", QueryRanking)
    ranked = {(row.query, one) for row in rows if row.asks == "image" for one in row.candidates}
    assert ranked
    assert not ranked & {*held}


def test_galleries_without_a_valid_side_warn_that_the_last_epoch_counts(encoder: str, tmp_path: Path) -> None:
    world = tmp_path / "dataset"
    write_captions(WorldCaptions(world, train=8, valid=0, test=0, pair_train=0, pair_valid=0, side=32, workers=1))
    changes = (f"encoder={encoder}", "lr=1e-3", "epochs=1", "batch=40", "patience=0")
    progress = Note()
    report = run(Train("retrieval-clip", world, changes=changes, workdir=tmp_path / "work"), progress)
    assert any("last epoch counts" in text for text in progress.warned)
    assert (report.valid, report.test) == (None, None)

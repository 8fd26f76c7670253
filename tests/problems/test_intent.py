"""Evaluations of when a photo is shared, on score files whose figures are counted by hand or by slow loops."""

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ctxr.datasets.dataset import Dataset
from ctxr.datasets.dialogues import SharedDialogue, dialogues_of
from ctxr.datasets.open import open_dataset
from ctxr.engine.progress import Silent
from ctxr.errors import CtxrError, DataError, UsageError
from ctxr.metrics.entailment import best_threshold
from ctxr.pipelines.modelling import train
from ctxr.pipelines.modelling.config import Eval, EvalReport, Train
from ctxr.pipelines.modelling.eval import run as evaluate
from ctxr.problems.evaluation import EvalRequest
from ctxr.problems.intent.learner import read_intent
from ctxr.problems.intent.question import LAST
from ctxr.problems.queries import queries_of
from ctxr.problems.registry import find_question
from ctxr.problems.results import TURNS, PredictedTurns
from ctxr.store.records import Dialogue, Turn
from ctxr.store.tables import read_table
from ctxr.synthetic.dialogues import write_dialogues

COUNTS = {"train": 9, "valid": 24, "test": 24}


@pytest.fixture(scope="module")
def drawn(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("drawn")
    write_dialogues(folder, COUNTS, 0)
    return folder


@pytest.fixture(scope="module")
def dataset(drawn: Path) -> Dataset:
    return open_dataset(drawn, drawn, Silent())


def write(file: Path, rows: Mapping[str, Mapping[str, float]]) -> str:
    lines = [
        {"query": query, "candidate": one, "value": value} for query, row in rows.items() for one, value in row.items()
    ]
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return str(file)


def scored(
    dataset: Dataset, value: Callable[[SharedDialogue, int], float], *splits: str
) -> dict[str, dict[str, float]]:
    talks = [one for one in dialogues_of(dataset) if one.split in (splits or ("valid", "test"))]
    return {one.query: {turn: value(one, int(turn)) for turn in one.numbers} for one in talks}


def figures_of(report: EvalReport) -> dict[tuple[str, str, str, str], float]:
    rows: list[dict[str, Any]] = json.loads((report.results / "figures.json").read_text())["figures"]
    return {(row["run"], row["split"], row["part"], row["measure"]): row["value"] for row in rows}


def random_rows(dataset: Dataset, *splits: str) -> dict[str, dict[str, float]]:
    rng = np.random.default_rng(1)
    return scored(dataset, lambda one, turn: float(rng.random() + 0.5 * (turn == len(one.turns))), *splits)


def test_figures_are_those_of_a_loop_over_turns(dataset: Dataset, drawn: Path, tmp_path: Path) -> None:
    rows = random_rows(dataset)
    report = evaluate(Eval((write(tmp_path / "mine.jsonl", rows),), drawn, tmp_path, resamples=50))
    figures, talks = figures_of(report), dialogues_of(dataset)
    kept = read_table(report.results / TURNS, PredictedTurns)
    threshold = kept[0].threshold
    for split in ("valid", "test"):
        own = [one for one in talks if one.split == split]
        for part in ("all", "5", "6", f"{LAST}+"):
            hits = called = due = 0
            for one in own:
                for turn, value in rows[one.query].items():
                    inside = part in ("all", turn) or (part == f"{LAST}+" and int(turn) >= LAST)
                    hits += inside and value >= threshold and int(turn) == len(one.turns)
                    called += inside and value >= threshold
                    due += inside and int(turn) == len(one.turns)
            wanted = {"precision": (hits, called), "recall": (hits, due), "F1": (2 * hits, called + due)}
            for measure, (above, below) in wanted.items():
                found = figures.get(("mine", split, part, measure))
                assert found == (pytest.approx(above / below) if below else None)
        firsts = {
            one.query: next((int(turn) for turn, value in rows[one.query].items() if value >= threshold), None)
            for one in own
        }
        right = [firsts[one.query] == len(one.turns) for one in own]
        assert figures["mine", split, "all", "right turn"] == pytest.approx(np.mean(right))
        assert {row.query: row.first for row in kept if row.split == split} == firsts
    assert all(row.values == tuple(rows[row.query].values()) for row in kept)


@pytest.mark.parametrize("seed", range(5))
def test_the_best_threshold_is_that_of_a_search_over_all(seed: int) -> None:
    rng = np.random.default_rng(seed)
    values, due = rng.integers(0, 8, 30).astype(float), rng.random(30) < 0.3
    due[0] = True
    f1 = {t: 2 * (due & (values >= t)).sum() / ((values >= t).sum() + due.sum()) for t in values}
    threshold, best = best_threshold(due, values)
    assert best == max(f1.values())
    assert 2 * (due & (values >= threshold)).sum() / ((values >= threshold).sum() + due.sum()) == best


def test_the_constant_rule_is_chosen_on_valid(dataset: Dataset, drawn: Path, tmp_path: Path) -> None:
    figures = figures_of(
        evaluate(Eval((write(tmp_path / "mine.jsonl", random_rows(dataset)),), drawn, tmp_path, resamples=20))
    )
    lengths = {
        split: [len(one.turns) for one in dialogues_of(dataset) if one.split == split] for split in ("valid", "test")
    }
    assert figures["always", "test", "all", "precision"] == pytest.approx(24 / sum(lengths["test"]))
    assert figures["always", "test", "all", "recall"] == 1

    def f1(first: int, last: int, split: str) -> float:
        called = [turn for length in lengths[split] for turn in range(1, length + 1) if first <= turn <= last]
        return 2 * sum(first <= length <= last for length in lengths[split]) / (len(called) + len(lengths[split]))

    rules = {f"at turn {k}": (k, k) for k in range(1, 11)} | {f"from turn {k} on": (k, 99) for k in range(2, 11)}
    (best,) = {run for run, *_ in figures} - {"mine", "always"}
    assert f1(*rules[best], "valid") == max(f1(*ends, "valid") for ends in rules.values())
    assert figures[best, "test", "all", "F1"] == pytest.approx(f1(*rules[best], "test"))


def test_figures_of_seeds_are_pooled_each_at_its_own_threshold(drawn: Path, tmp_path: Path) -> None:
    changes = ("lr=1e-3", "epochs=1", "batch=16")
    run = train.run(Train("intent-tiny", drawn, changes=changes, seeds=2, workdir=tmp_path, device="cpu")).folder
    report = evaluate(Eval(("intent-tiny",), drawn, tmp_path, split="test", resamples=20))
    rows, hits, called, right = read_table(report.results / TURNS, PredictedTurns), 0, 0, 0
    assert len(rows) == 2 * COUNTS["test"]
    for row in rows:
        assert row.threshold == read_intent(run / row.run.removeprefix("intent-tiny/")).threshold
        hits += row.values[-1] >= row.threshold
        called += sum(value >= row.threshold for value in row.values)
        right += row.first == len(row.values)
    figures = figures_of(report)
    assert figures["intent-tiny", "test", "all", "F1"] == pytest.approx(2 * hits / (called + len(rows)))
    assert figures["intent-tiny", "test", "all", "right turn"] == pytest.approx(right / len(rows))


def test_files_of_numbered_images_score_no_turns(dataset: Dataset, drawn: Path, tmp_path: Path) -> None:
    file = write(tmp_path / "mine.jsonl", random_rows(dataset))
    request = EvalRequest(Eval((file,), drawn, tmp_path), Silent())
    assert find_question("intent").takes(request)
    request.dataset = replace(dataset, images={"1": next(iter(dataset.images.values()))})
    assert not find_question("intent").takes(request)


def test_without_scores_of_valid_a_half_decides(dataset: Dataset, drawn: Path, tmp_path: Path) -> None:
    file = write(tmp_path / "mine.jsonl", random_rows(dataset, "test"))
    report = evaluate(Eval((file,), drawn, tmp_path, resamples=20))
    assert {row.threshold for row in read_table(report.results / TURNS, PredictedTurns)} == {0.5}
    assert any("mine" in note and "0.5" in note for note in report.notes)


def test_right_photo_and_right_turn_are_counted_by_dialogue(dataset: Dataset, drawn: Path, tmp_path: Path) -> None:
    perfect = scored(dataset, lambda one, turn: float(turn == len(one.turns)))
    hasty = scored(dataset, lambda one, turn: float(turn == len(one.turns) or (one.query == "test/0" and turn == 1)))
    photos = {}
    for one in queries_of(dataset):
        if one.split == "test":  # the right photo alone, or with another one in two dialogues
            tied = one.query in {"test/1", "test/2"}
            right = set(one.targets) | ({(one.targets[0] + 1) % len(one.images)} if tied else set())
            photos[one.query] = {image: float(place in right) for place, image in enumerate(one.images)}
    files = [
        write(tmp_path / f"{name}.jsonl", rows)
        for name, rows in (("perfect", perfect), ("hasty", hasty), ("photos", photos))
    ]
    report = evaluate(Eval(tuple(files), drawn, tmp_path, split="test", resamples=20))
    assert report.runs == ("perfect", "hasty", "photos")
    figures, n = figures_of(report), COUNTS["test"]
    both = {
        run: [figures[f"{run} + photos", "test", "all", one] for one in ("right turn", "right photo", "both")]
        for run in ("perfect", "hasty")
    }
    assert both["perfect"] == pytest.approx([1, (n - 1) / n, (n - 1) / n])
    assert both["hasty"] == pytest.approx([(n - 1) / n, (n - 1) / n, (n - 2) / n])
    assert "test/both" in report.tables


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda rows: rows["test/0"].update({"99": 1.0}), "'99'"),
        (lambda rows: rows["test/0"].pop("1"), "'test/0'"),
        (lambda rows: rows.update({"test/999": {"1": 1.0}}), "'test/999'"),
    ],
)
def test_scores_that_do_not_fit_are_named(
    change: Any, words: str, dataset: Dataset, drawn: Path, tmp_path: Path
) -> None:
    change(rows := random_rows(dataset))
    with pytest.raises(DataError, match=words):
        evaluate(Eval((write(tmp_path / "mine.jsonl", rows),), drawn, tmp_path, resamples=20))


def test_a_dialogue_that_is_scored_in_part_can_be_left_out(dataset: Dataset, drawn: Path, tmp_path: Path) -> None:
    (rows := random_rows(dataset))["test/0"].pop("1")
    report = evaluate(Eval((write(tmp_path / "mine.jsonl", rows),), drawn, tmp_path, partial=True, resamples=20))
    kept = read_table(report.results / TURNS, PredictedTurns)
    assert "test/0" not in {row.query for row in kept}
    assert len(kept) == COUNTS["valid"] + COUNTS["test"] - 1


def test_photos_alone_tell_no_turns(drawn: Path, dataset: Dataset, tmp_path: Path) -> None:
    photos = {one.query: dict.fromkeys(one.images, 0.0) for one in queries_of(dataset) if one.split == "test"}
    with pytest.raises(UsageError, match="photos"):
        evaluate(Eval((write(tmp_path / "photos.jsonl", photos),), drawn, tmp_path, problem="intent"))


def test_dialogues_without_a_turn_before_a_photo_are_left_out(dataset: Dataset) -> None:
    rows = [row for row in dataset.payloads["dialogues"] if isinstance(row, Dialogue)]
    share = Turn(0, "", share=True)
    odd = [
        Dialogue(rows[0].id, "", "", (), (Turn(0, "hi"),), None),
        Dialogue(rows[1].id, "", "", (), (share, Turn(1, "oh")), 0),
        Dialogue(rows[2].id, "", "", (), (), None),
        Dialogue(rows[3].id, "", "", (), (Turn(0, "see"), share), 1),
    ]
    changed = replace(dataset, payloads={"dialogues": tuple(odd)})
    assert [one.turns for one in dialogues_of(changed)] == [(Turn(0, "see"),)]
    with pytest.raises(CtxrError, match=dataset.name):
        dialogues_of(replace(dataset, payloads={"dialogues": tuple(odd[:3])}))


def test_a_run_of_turns_is_no_run_of_pictures(drawn: Path, tmp_path: Path) -> None:
    changes = ("lr=1e-3", "epochs=1", "batch=16")
    train.run(Train("intent-tiny", drawn, changes=changes, workdir=tmp_path, device="cpu"))
    with pytest.raises(UsageError, match="intent-tiny"):
        evaluate(Eval(("intent-tiny",), drawn, tmp_path, problem="contextual"))


def test_the_sample_of_the_release_has_the_turns_of_the_paper(real_files: Path, tmp_path: Path) -> None:
    dataset = open_dataset(real_files / "photochat" / "dev_00.first9.json", tmp_path, Silent())
    assert [len(one.turns) for one in dialogues_of(dataset)] == [6, 5, 10, 9, 10, 7, 3, 7, 11]

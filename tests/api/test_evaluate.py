"""`ctxr.evaluate`: functions and scores at hand get the figures of `ctxr eval`."""

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from matplotlib import pyplot

import ctxr
from ctxr.api.benchmark import Benchmark
from ctxr.errors import UsageError
from tests.pipelines.evaluated import release, write_scores
from tests.pipelines.world_dataset import write_world_dataset


@pytest.fixture(scope="module")
def benchmark(tmp_path_factory: pytest.TempPathFactory) -> Benchmark:
    return ctxr.load(write_world_dataset(tmp_path_factory.mktemp("work") / "dataset", sets=12))


def right(benchmark: Benchmark) -> dict[str, list[float]]:
    return {one.id: [float(place == one.target) for place in range(10)] for one in benchmark}


def test_scores_of_every_form_give_the_same_figures(benchmark: Benchmark) -> None:
    valid, rows = benchmark["valid"], right(benchmark)
    by_text = {one.text: rows[one.id] for one in benchmark}
    models: dict[str, Any] = {
        "dict": rows,
        "array": np.array([rows[one.id] for one in valid]),
        "lists": [rows[one.id] for one in valid],
        "function": lambda texts, pictures: torch.tensor([by_text[text] for text in texts], requires_grad=True),
    }
    results = ctxr.evaluate(valid, models)
    assert [(row[0], row[1].split()[0]) for row in results.table("accuracy").rows] == [
        (name, "100.0") for name in models
    ]
    assert {figure.split for figure in results.figures} == {"valid"}
    assert str(results).startswith(str(results.table()))
    assert {row[0] for row in results.table().rows} > {*models}


def test_a_function_gets_the_texts_and_pictures_of_a_set(benchmark: Benchmark) -> None:
    calls = []

    def score(texts: list[str], pictures: list[Any]) -> list[list[float]]:
        calls.append((texts, [one.size for one in pictures]))
        return [[0.0] * len(pictures)] * len(texts)

    ctxr.evaluate(benchmark[:4], {"mine": score})
    assert sorted(text for texts, _ in calls for text in texts) == sorted(one.text for one in benchmark[:4])
    assert {tuple(sizes) for _, sizes in calls} == {((48, 48),) * 10}
    assert len(calls) == len({one.image_set for one in benchmark[:4]})


def test_figures_are_those_of_the_command_and_encoders_stand_beside(tmp_path: Path) -> None:
    dataset = release(tmp_path / "imagecode")
    rng = np.random.default_rng(1)
    drawn = {one.id: rng.random(10).tolist() for one in ctxr.load(dataset)}
    file = write_scores(tmp_path / "mine.jsonl", dataset, lambda query, place: drawn[query][place], ("valid",))
    typed = ctxr.eval([file], dataset=dataset, workdir=tmp_path, split="valid", resamples=200)
    valid = ctxr.load(dataset)["valid"]
    results = ctxr.evaluate(valid, {"mine": drawn, "other": np.eye(10)[:4]}, resamples=200, workdir=tmp_path)
    assert results.table("accuracy").rows[0] == typed.tables["valid/accuracy"].rows[0]
    assert [row[0] for row in results.compare().rows][:2] == ["mine", "other"]
    beside = ctxr.evaluate(valid, {}, str(file), workdir=tmp_path, resamples=200)
    assert beside.table("accuracy").rows == typed.tables["valid/accuracy"].rows
    assert not (tmp_path / "results" / "mine-vs-other").exists()


@pytest.mark.parametrize(
    ("model", "told"),
    [
        ({}, "mine: .*for query '{first}'"),
        ({"nope": [0.0] * 10}, "mine: query 'nope' is not asked"),
        ("mine.csv", "mine: 'mine.csv' is a name"),
        (np.zeros((2, 9)), r"mine: .*\(2, 9\).*\(\d texts, 10 pictures\).*'{first}'"),
        (lambda texts, pictures: np.zeros(10), r"mine: .*\(10,\).*\(\d texts?, 10 pictures\).*'{first}'"),
        (lambda texts, pictures: [["x"] * 10] * len(texts), "mine: .*'x'"),
        (lambda texts, pictures: [[np.nan] * 10] * len(texts), "mine: .*img3' .*'{first}' .*nan"),
        (lambda texts, pictures: [[10**400] * 10] * len(texts), "mine: .*large"),
        (lambda texts, pictures: np.full((len(texts), 10), 1j), "mine: .*complex"),
        (lambda texts, pictures: sys.exit(1), r"mine .*'{first}': SystemExit"),
        (lambda texts, pictures: texts[99], r"mine .*'{first}': IndexError: .*test_evaluate\.py:\d+"),
    ],
)
def test_scores_that_break_the_contract_are_told_with_their_query(benchmark: Benchmark, model: Any, told: str) -> None:
    valid = benchmark["valid"]
    with pytest.raises(UsageError, match=told.replace("{first}", valid[0].id)):
        ctxr.evaluate(valid, {"mine": model})


def test_a_slice_is_what_names_are_evaluated_on(benchmark: Benchmark, tmp_path: Path) -> None:
    file = write_scores(tmp_path / "mine.jsonl", benchmark.path, lambda query, place: float(place), ("train", "valid"))
    few = benchmark[len(benchmark) // 2 - 3 :][:6]
    for part in (few, benchmark["train"][:6]):
        results = ctxr.evaluate(part, {}, "ctxr-tiny", str(file), resamples=50)
        counts = {
            (one.run, one.split): one.queries
            for one in results.figures
            if one.measure == "accuracy" and one.part == "all"
        }
        assert counts == {
            (run, split): number for run in ("ctxr-tiny", "mine") for split, number in part.splits.items()
        }
        assert not any("lack scores" in note for note in results.notes)
    shown = ctxr.evaluate(few, {"mine": right(benchmark)}, "ctxr-tiny", resamples=50)
    alone = ctxr.evaluate(few, {}, "ctxr-tiny", resamples=50)
    assert alone.table().rows[0] == shown.table().rows[1]


def test_options_are_those_of_the_command_with_its_sentences(benchmark: Benchmark) -> None:
    rows = right(benchmark)
    assert "R@1" in ctxr.evaluate(benchmark, {"mine": rows}, recall="1").table("accuracy").columns
    with pytest.raises(UsageError, match=r"ctxr\.evaluate\(\): resamples"):
        ctxr.evaluate(benchmark, {"mine": rows}, resamples="many")
    with pytest.raises(UsageError, match="one model"):
        ctxr.evaluate(benchmark["valid"], {"mine": rows}).compare()


@pytest.mark.parametrize(
    ("models", "options", "told"),
    [([1], {}, "name"), ({5: []}, {}, "name"), ({}, {}, "model"), ({"mine": []}, {"runs": ["x"]}, "model")],
)
def test_models_that_are_not_named_are_refused(
    benchmark: Benchmark, models: Any, options: dict[str, Any], told: str
) -> None:
    with pytest.raises(UsageError, match=told):
        ctxr.evaluate(benchmark, models, **options)


def test_a_model_in_the_place_of_another_is_told_where_it_goes(benchmark: Benchmark) -> None:
    with pytest.raises(UsageError, match="name") as caught:
        ctxr.evaluate(benchmark, "ctxr-tiny")  # type: ignore[arg-type]
    assert '{}, "ctxr-tiny"' in caught.value.hint
    with pytest.raises(UsageError, match="model") as caught:
        ctxr.eval(model=lambda texts, pictures: [])  # type: ignore[call-overload]
    assert "ctxr.evaluate" in caught.value.hint


def test_nothing_to_evaluate_is_told(benchmark: Benchmark) -> None:
    with pytest.raises(UsageError, match="no query"):
        ctxr.evaluate(benchmark[:0], {"mine": []})


def test_a_plot_has_each_model_with_its_interval(benchmark: Benchmark, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MPLBACKEND", "agg")
    chance = {one.id: [0.0] * 10 for one in benchmark}
    results = ctxr.evaluate(benchmark["train"], {"right": right(benchmark), "chance": chance})
    axes = results.plot(measure="accuracy")
    assert [tick.get_text() for tick in axes.get_yticklabels()] == ["right", "chance"]
    assert axes.get_xlabel() == "accuracy on train, %"
    (drawn,) = axes.containers
    assert drawn.lines[0].get_xdata().tolist() == [100.0, pytest.approx(10.0)]
    low, high = drawn.lines[2][0].get_segments()[0][:, 0]
    assert low < high == 100.0
    pyplot.close(axes.figure)
    first = results.plot()
    assert first.get_xlabel() == f"{results.table().columns[1]} on train, %" == "accuracy on train, %"
    pyplot.close(first.figure)
    with pytest.raises(UsageError, match="nothing was measured") as caught:
        results.plot("p.png")
    assert "savefig" in caught.value.hint

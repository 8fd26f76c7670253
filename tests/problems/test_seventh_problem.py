"""A problem that ctxr does not have, in this file alone: is a point above a line? It is trained, evaluated and reported."""

import json
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Annotated, Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor, nn

from ctxr.engine.options import Choices
from ctxr.metrics.compare import RatioColumn, mean_columns
from ctxr.models.training import checkpoint, loop
from ctxr.models.training.recipe import Recipe
from ctxr.pipelines.inspection import report
from ctxr.pipelines.inspection.config import Report
from ctxr.pipelines.modelling import eval, train
from ctxr.pipelines.modelling.config import Eval, Train
from ctxr.problems import question, registry, runs, training
from ctxr.problems.evaluation import EvalRequest, Evaluation
from ctxr.store.artifacts import Parent
from ctxr.store.scores import read_scores


@dataclass(frozen=True)
class LineRecipe(Recipe):
    variant: Annotated[str, Choices(("line",))] = "line"


class Points(list[dict[str, Any]]):
    def __init__(self, file: Path, name: str) -> None:
        self.name = name
        super().__init__(row for row in map(json.loads, file.read_text().splitlines()) if row["split"] == name)
        self.x, self.above = torch.tensor([row["x"] for row in self]), torch.tensor([row["above"] for row in self])


class LineObjective(loop.Objective[None, Any]):
    train: Points

    def encode(self, model: nn.Module, tower: int, rows: Tensor, facts: Any) -> Any:
        return model(self.train.x[rows])[:, 0]

    def loss(self, model: nn.Module, encoded: Sequence[Any], step: loop.Step[None]) -> Any:
        return (nn.functional.softplus(encoded[0]) - encoded[0] * self.train.above[step.towers[0]]).sum()


class LineJob(training.TrainJob):
    dataset = "points"

    def __init__(self, options: Any, recipe: Recipe, progress: Any) -> None:
        super().__init__(options, recipe, progress)
        self.train, self.parents = Points(options.dataset, "train"), [Parent("dataset", "dataset", "0" * 64)]
        self.queries = {"train": len(self.train)}

    def fit(self, seed: int, train: training.SeedTrainer) -> Callable[[Path], Any]:
        state = train(nn.Linear(2, 1), len(self.train), partial(LineObjective, self.recipe, self.train, None))
        checkpoint.write_config(train.folder, checkpoint.SeedConfig(state.best or 0, self.seed_key(seed)))
        return partial(shutil.copytree, train.folder)


class LineEvaluation(Evaluation[Points, runs.EvaluatedRun]):
    PROBLEM = "line"

    def __init__(self, request: EvalRequest) -> None:
        super().__init__(request)
        self.dataset, self.splits = "points", [Points(request.path, "test")]
        self.runs = [runs.EvaluatedRun(one.name, one.origin) for one in request.sources]
        self.places: Any = {one.name: one.place for one in request.sources}

    def columns(self, split: Points, run: Any, summariser: Any) -> Any:
        if (place := self.places[run.name]).is_dir():
            scores = registry.open_run(place, self.request.scoring, self.progress).score(split)
        else:
            values = read_scores(place)[""].values
            scores = {run.name: np.array([values[row["id"]]["above"] for row in split])}
        each = mean_columns([self.measured(split.above.numpy() * 1.0, values > 0) for values in scores.values()])
        return [(("overall", "all", name), column) for name, column in each.items()]

    def measured(self, above: Any, called: Any) -> dict[str, RatioColumn]:
        rows = np.arange(len(above))
        accuracy = RatioColumn(rows, (called == above) * 1.0, np.ones(len(above)))
        return {"accuracy": accuracy, "F1": RatioColumn(rows, 2 * called * above, called + above)}


class Line(question.Question, runs.Learner):
    LEARNER, KIND, VARIANTS, Recipe, job = f"{__name__}:Line", "run", ("line",), LineRecipe, LineJob
    evaluation = LineEvaluation

    def takes(self, request: EvalRequest) -> bool:
        return request.path.name == "points.jsonl"

    def open_run(self, source: Path | str, options: runs.ScoringOptions, progress: Any) -> Any:
        def score(points: Points) -> dict[str, Any]:
            lines = {seed.name: load_file(seed / "best.safetensors") for seed in runs.checkpoints(Path(source))}
            return {name: nn.functional.linear(points.x, **line)[:, 0].numpy() for name, line in lines.items()}

        return SimpleNamespace(score=score)


def test_a_seventh_problem_is_trained_evaluated_and_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "PROBLEMS", {"line": f"{__name__}:Line", **registry.PROBLEMS})
    points, work, always, recipe = (tmp_path / name for name in ("points.jsonl", "work", "always.jsonl", "line.toml"))
    rows: list[dict[str, Any]] = []
    for number, (x, y) in enumerate(np.random.default_rng(0).uniform(-1, 1, (240, 2)).tolist()):
        rows.append({"id": f"p{number}", "split": "train" if number % 3 else "test", "x": [x, y], "above": y > x})
    points.write_text("\n".join(map(json.dumps, rows)))
    always.write_text("\n".join(json.dumps({"query": row["id"], "candidate": "above", "value": 1}) for row in rows))
    recipe.write_text('variant = "line"\nlr = 0.1\nbatch = 16\nepochs = 30\n')
    options = Train(str(recipe), points, seeds=2, workdir=work)
    assert [seed.epochs for seed in train.run(options).seeds] == [30, 30]
    assert train.run(options).up_to_date
    asked = Eval((str(always), "line"), points, work, compare=True, resamples=100, permutations=99)
    figures = json.loads((eval.run(asked).results / "figures.json").read_text())
    assert eval.run(asked).up_to_date
    found = {(row["run"], row["measure"]): row["value"] for row in figures["figures"]}
    share = np.mean([row["above"] for row in rows if row["split"] == "test"])
    assert found["always", "accuracy"] == pytest.approx(share)
    assert found["always", "F1"] == pytest.approx(2 * share / (1 + share))
    assert found["line", "accuracy"] > 0.9
    for row in figures["differences"]:
        assert row["value"] == pytest.approx(found["line", row["part"]] - found["always", row["part"]])
        assert row["permutation"] < 0.05
    page = report.run(Report(workdir=work, out=tmp_path / "page.html")).page.read_text()
    assert f'<td class="n">{100 * found["line", "F1"]:.1f} (' in page
    assert len(Path(__file__).read_text().splitlines()) < 150, "a problem of its own costs more lines than it may"

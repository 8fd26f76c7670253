"""A problem that the package does not know, in one file: is a text about a video? It is trained, evaluated and reported."""

from dataclasses import dataclass, make_dataclass
from functools import partial
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from torch import nn

from ctxr import problems
from ctxr.datasets.open import open_dataset, origin_of
from ctxr.engine.report import Table
from ctxr.metrics.columns import RatioColumn
from ctxr.models.training import checkpoint
from ctxr.models.training.loop import Objective, Step, Update
from ctxr.models.training.recipe import Recipe
from ctxr.pipelines.inspection import report
from ctxr.pipelines.inspection.config import Report
from ctxr.pipelines.modelling import eval, train
from ctxr.pipelines.modelling.config import Eval, Train
from ctxr.problems.evaluation import Evaluation
from ctxr.problems.queries import asked_of, by_split
from ctxr.problems.runs import Run
from ctxr.problems.training import TrainJob
from ctxr.store.artifacts import Parent, open_artifact
from ctxr.store.atomic import link_or_copy
from ctxr.store.kinds import RUN, RUNS
from ctxr.synthetic.benchmark import WorldBenchmark, write_benchmark


def table(queries: Any) -> Any:
    words = [[sum(crc32(word.encode()) % 16 == n for word in one.text.split()) for n in range(16)] for one in queries]
    return torch.tensor(words, dtype=torch.float32), torch.tensor([float(one.ordered) for one in queries])


@dataclass(frozen=True)
class VideoRecipe(Recipe):
    KNOWN = ("about-video",)
    variant: str = "about-video"


Notes: Any = make_dataclass("Notes", ["epoch", "made_by"])


class VideoObjective(Objective):
    def __init__(self, recipe: Any, train: Any, valid: Any, run: Any) -> None:
        self.recipe, self.train, self.valid, self.run = recipe, train, valid, run

    def __len__(self) -> int:
        return len(self.train[1])

    def batches(self, epoch: int, generator: torch.Generator) -> Any:
        return torch.split(torch.randperm(len(self), generator=generator), self.recipe.batch)

    def updates(self, rows: torch.Tensor, apply: bool) -> Any:
        yield Update(((Step((rows,), len(rows)), 1.0),), apply=apply)

    def encode(self, model: nn.Module, tower: int, rows: torch.Tensor, facts: Any) -> Any:
        return model(self.train[0][rows]).squeeze(1)

    def loss(self, model: nn.Module, encoded: Any, step: Step) -> torch.Tensor:
        return nn.BCEWithLogitsLoss(reduction="sum")(encoded[0], self.train[1][step.towers[0]])

    def validate(self, model: nn.Module, epoch: int, micro_batch: int) -> float:
        return float(((model(self.valid[0]).squeeze(1) > 0) == (self.valid[1] > 0)).float().mean())


class VideoJob(TrainJob):
    KIND = RUN
    checkpoint = staticmethod(partial(checkpoint.read_config, kind=Notes, what="a classifier of texts"))

    def __init__(self, options: Any, recipe: Recipe, progress: Any) -> None:
        dataset = open_dataset(options.dataset, options.workdir, progress)
        self.recipe, self.seeds, self.out, self.progress = recipe, options.seeds, options.folder(), progress
        self.parents, self.dataset = [origin_of(dataset)], dataset.name
        self.tables = {name: table(queries) for name, queries in by_split(asked_of(dataset)).items()}
        self.queries = {name: len(rows[1]) for name, rows in self.tables.items()}

    def seed_key(self, seed: int) -> str:
        return f"{sorted(self.decisive().items())} {seed} {self.parents[0].sha256}"

    def fit(self, seed: int, train: Any) -> Any:
        objective = partial(VideoObjective, self.recipe, self.tables["train"], self.tables["valid"])
        state = train(nn.Linear(16, 1), self.queries["train"], objective)

        def save(folder: Path) -> None:
            link_or_copy(train.weights, folder / "weights.safetensors")
            checkpoint.write_config(folder, Notes(state.best or 0, self.seed_key(seed)))

        return save


class Split(list[Any]):
    name = "test"


class VideoEvaluation(Evaluation):
    def __init__(self, request: Any) -> None:
        super().__init__(request)
        self.dataset, self.parents = request.dataset.name, [origin_of(request.dataset)]
        self.splits = [Split(by_split(asked_of(request.dataset))["test"])]
        origins = [(name, open_artifact(self.options.workdir / RUNS / name).sha256) for name in self.options.runs]
        self.runs = [Run(name, (), Parent(name, RUN, sha256)) for name, sha256 in origins]

    def groups(self, split: Split) -> list[str]:
        return [one.image_set for one in split]

    def columns(self, split: Split, run: Any, summary: Any) -> Any:
        opened = problems.open_run(self.options.workdir / RUNS / run.name, self.request.scoring, self.progress)
        right = (opened.score(split)[""] > 0) == [one.ordered for one in split]
        return [(("overall", "all", "accuracy"), RatioColumn(np.arange(len(split)), right * 1.0, np.ones(len(split))))]

    def complete(self, split: Split, figures: Any, summary: Any) -> None:
        rows = tuple((one.run, one.interval.value) for one in figures)
        self.findings.rows["tables"] = [Table("test: is it a video", ("run", "accuracy"), rows)]


class Video:
    NAME, KIND, FOLDER, LEARNER = "about-video", RUN, RUNS, f"{__name__}:Video"
    Recipe, job, evaluation = VideoRecipe, VideoJob, VideoEvaluation

    def owns(self, kind: str, config: Any) -> bool:
        return kind == RUN and config.get("variant") == self.NAME

    def takes(self, request: Any) -> bool:
        return "one" in request.options.runs

    def open_run(self, source: Path, options: Any, progress: Any) -> Any:
        self.weights = load_file(source / "seed0" / "weights.safetensors")
        return self

    def score(self, queries: Any) -> dict[str, np.ndarray]:
        return {"": (table(queries)[0] @ self.weights["weight"].T + self.weights["bias"]).squeeze(1).numpy()}


def test_a_new_problem_is_trained_evaluated_and_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(problems, "PROBLEMS", {Video.NAME: f"{__name__}:Video"} | problems.PROBLEMS)
    write_benchmark(WorldBenchmark(tmp_path / "dataset", train=12, valid=4, test=6, video=0.5, side=48, workers=1))
    (tmp_path / "video.toml").write_text('variant = "about-video"\nlr = 0.1\nbatch = 4\nepochs = 3\n')
    for name, seeds in (("one", 1), ("two", 2)):
        options = Train(str(tmp_path / "video.toml"), tmp_path / "dataset", name, seeds, workdir=tmp_path)
        assert [len(train.run(options).seeds), train.run(options).up_to_date] == [seeds, True]
    assert eval.run(Eval(("one", "two"), workdir=tmp_path, compare=True, resamples=20, permutations=20)).runs
    assert "is it a video" in report.run(Report(tmp_path / "dataset", workdir=tmp_path)).page.read_text()

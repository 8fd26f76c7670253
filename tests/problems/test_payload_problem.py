"""A problem that ctxr does not have, in this file alone: which of five pictures does a trace touch? Queries have several targets."""

import json
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import load_file
from torch import Tensor, nn
from typer.testing import CliRunner

from ctxr.cli.app import app
from ctxr.datasets.open import open_dataset
from ctxr.metrics.compare import RatioColumn
from ctxr.models.scorers import Batch
from ctxr.models.training import checkpoint, examples, loop, scoring
from ctxr.models.training.recipe import Recipe
from ctxr.problems import evaluation, question, registry, runs, training
from ctxr.problems.embeddings import PictureFiles, questions_with
from ctxr.problems.queries import EvalQuery, by_split, queries_of, sha256_of_queries
from ctxr.store.artifacts import Parent
from ctxr.store.tables import PAYLOADS, PayloadTable
from tests.problems.drawn_traces import Trace, write_traces


def table_of(queries: Sequence[EvalQuery]) -> examples.ExampleTable:
    points = [row.points for one in queries for row in one.payload["traces"] if isinstance(row, Trace)]
    files = PictureFiles({image: Path(image) for one in queries for image in one.images}, {}, Path())
    images, texts = examples.VectorTable(np.zeros((len(files.files), 1))), np.zeros((len(queries), 1))  # type: ignore[arg-type]
    return replace(questions_with(queries, files, images, texts), payload={"points": torch.tensor(points)})


class Toucher(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(1, 64), nn.ReLU(), nn.Linear(64, 5))

    def forward(self, batch: Batch) -> Tensor:
        return torch.as_tensor(self.layers(batch.payload["points"][..., None]).amax(1))


class TraceObjective(loop.Objective[None, Any]):
    def __init__(self, recipe: Recipe, train: examples.ExampleTable, run: loop.TrainingRun) -> None:
        self.recipe, self.train, self.run = recipe, train, run

    def __len__(self) -> int:
        return len(self.train)

    def batches(self, epoch: int, generator: torch.Generator) -> Sequence[Tensor]:
        return torch.split(torch.randperm(len(self), generator=generator), self.recipe.batch)

    def updates(self, rows: Tensor, apply: bool) -> Iterator[loop.Update]:
        yield loop.Update(((loop.Step((rows,), len(rows), None), 1.0),), apply=apply)

    def encode(self, model: nn.Module, tower: int, rows: Tensor, facts: Any) -> tuple[Batch, Tensor]:
        return (batch := self.train.batch(rows)), model(batch)

    def loss(self, model: nn.Module, encoded: Sequence[tuple[Batch, Tensor]], step: loop.Step[None]) -> Tensor:
        return scoring.loss_of(encoded[0][1], encoded[0][0], "binary")


class TraceJob(training.TrainJob):
    KIND, device, encoder, key = "run", "cpu", "", {"weights": ""}
    checkpoint = staticmethod(partial(checkpoint.read_config, kind=checkpoint.SeedConfig, what="traces"))

    def __init__(self, options: Any, recipe: Recipe, progress: Any) -> None:
        self.recipe, self.seeds, self.out, self.progress = recipe, options.seeds, options.folder("runs"), progress
        self.train = by_split(queries_of(open_dataset(options.dataset, options.workdir, progress)))["train"]
        self.parents = [Parent("touched", "dataset", sha256_of_queries(self.train, {}))]
        self.dataset, self.queries = "touched", {"train": len(self.train)}

    def fit(self, seed: int, train: training.SeedTrainer) -> Callable[[Path], Any]:
        torch.manual_seed(seed)
        state = train(Toucher(), len(self.train), partial(TraceObjective, self.recipe, table_of(self.train)))
        checkpoint.write_config(train.folder, checkpoint.SeedConfig(state.best or 0, self.seed_key(seed)))
        return partial(shutil.copytree, train.folder)


class TraceEvaluation(evaluation.Evaluation[evaluation.SplitRows[EvalQuery], runs.Run]):
    PROBLEM = "traces"

    def __init__(self, request: evaluation.EvalRequest) -> None:
        super().__init__(request)
        rows, self.dataset = by_split(queries_of(request.dataset))["test"], request.dataset.name
        asked: Any = [one.query for one in rows], request.scoring, self.progress, Traces
        self.splits = [evaluation.SplitRows("test", rows)]
        self.runs = runs.find_runs(request.sources, runs.Scoring(request.dataset, request.origin, *asked))

    def columns(self, split: evaluation.SplitRows[EvalQuery], run: runs.Run, summariser: Any) -> Any:
        (scorer,), wanted, found = run.scorers, np.zeros(len(split)), np.zeros(len(split))
        for row, one in enumerate(split.rows):
            scores, targets = scorer.values[one.query], {one.images[place] for place in one.targets}
            best = sorted(scores, key=scores.__getitem__, reverse=True)[: len(targets)]
            wanted[row], found[row] = len(targets), len(targets & {*best})
        return [(("overall", "all", "R-precision"), RatioColumn(np.arange(len(split)), found, wanted))]


class Traces(question.Question, runs.Learner, runs.OpenRun):
    LEARNER, KIND, VARIANTS = f"{__name__}:Traces", "run", ("traces",)
    Recipe, job, evaluation = Recipe, TraceJob, TraceEvaluation
    folder: Path

    def asks(self, dataset: Any) -> bool:
        return "traces" in dataset.payloads

    def open_run(self, source: Path | str, options: runs.ScoringOptions, progress: Any) -> "Traces":
        self.folder = Path(source)
        return self

    def score(self, examples: Any) -> dict[str, Any]:
        queries, model, scores = queries_of(*examples), Toucher(), {}
        for name, seed in runs.scorers_in(self.folder).items():
            model.load_state_dict(load_file(seed / loop.BEST))
            rows = scoring.score_all(model.eval(), table_of(queries), 64).tolist()
            scores[name] = {
                q.query: dict(zip(q.images, row, strict=True)) for q, row in zip(queries, rows, strict=True)
            }
        return scores


def test_a_problem_with_payloads_is_trained_evaluated_and_reported(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(registry, "PROBLEMS", {"traces": f"{__name__}:Traces", **registry.PROBLEMS})
    monkeypatch.setitem(PAYLOADS, "traces", PayloadTable(Trace, of="query"))
    dataset, mine, recipe = write_traces(tmp_path / "touched"), ("--workdir", str(tmp_path)), tmp_path / "traces.toml"
    recipe.write_text('variant = "traces"\nlr = 0.02\nbatch = 16\nepochs = 40\n')

    def called(*words: str) -> Any:
        shown = CliRunner().invoke(app, [*words, *mine, "--json"])
        assert shown.exit_code == 0, shown.output
        return json.loads(shown.stdout)

    command = ("train", "--recipe", str(recipe), "--dataset", str(dataset))
    assert called(*command)["queries"] == {"train": 200}
    assert called(*command)["up_to_date"]
    results = Path(called("eval", "traces", "--dataset", str(dataset))["results"])
    (figure,) = json.loads((results / "figures.json").read_text())["figures"]
    assert figure["value"] > 0.9
    assert "R-precision" in Path(called("report", "--out", str(tmp_path / "page.html"))["page"]).read_text()
    assert len(Path(__file__).read_text().splitlines()) < 150, "a problem of its own costs more lines than it may"

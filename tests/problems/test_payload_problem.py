"""A problem that ctxr does not have, in this file alone: which of five pictures does a trace touch? Queries have several targets."""

import json
import shutil
from collections import defaultdict
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.torch import load_file
from torch import Tensor, manual_seed, nn
from typer.testing import CliRunner

from ctxr.cli.app import app
from ctxr.datasets.open import open_dataset
from ctxr.metrics.compare import RatioColumn
from ctxr.models.scorers import Batch
from ctxr.models.training import checkpoint, examples, loop, scoring
from ctxr.models.training.recipe import Recipe
from ctxr.problems import embeddings, evaluation, matching, question, registry, runs, training
from ctxr.problems.queries import EvalQuery, by_split, queries_of
from ctxr.store.artifacts import Content, Parent, finish, open_artifact
from ctxr.store.records import Image, ImageSet, Judgment, Query, Record, Split, Text
from ctxr.store.tables import PAYLOADS, PayloadTable, write_tables


class Trace(Record, frozen=True):
    """Two points over a row of pictures that is 0..5 long."""

    KEY = ("id",)
    id: str
    points: tuple[float, float]


def write_traces(folder: Path) -> Path:
    """Rows of five pictures with a trace over each; each picture that it touches is a target."""
    tables = defaultdict[str, list[Any]](list)
    for number, (x, y) in enumerate(np.random.default_rng(0).uniform(0, 5, (260, 2)).tolist()):
        name, images = f"r{number:03}", [f"r{number:03}/i{place}" for place in range(5)]
        tables["touches"].append(Trace(name, (x, y)))
        tables["images"] += [Image(image, "", "", name, 0, 0, None) for image in images]
        tables["sets"].append(ImageSet(name, "photos", tuple(images), name, name, 0, 0.1, 0.2))
        tables["texts"].append(Text(f"{name}/t", "touched", "ann", 0))
        tables["queries"].append(Query(name, name, (f"{name}/t",)))
        tables["splits"].append(Split(name, "train" if number < 200 else "test"))
        tables["judgments"] += [Judgment(name, images[place], "gold", 1.0) for place in {int(x), int(y)}]
    content = Content([f"{name}.jsonl" for name in tables], write_tables(folder, tables), {})
    finish(folder, kind="dataset", verb="aggregate", config={}, parents=[Parent("x", "x", "0" * 64)], content=content)
    return folder


def table_of(queries: Sequence[EvalQuery]) -> examples.ExampleTable:
    points = [row.points for one in queries for row in one.payload["touches"] if isinstance(row, Trace)]
    pictures, payload = [image for one in queries for image in one.images], {"points": np.array(points, np.float32)}
    blank = np.zeros((len(pictures), 1), np.float32)
    return embeddings.examples_of(queries, pictures, examples.vector_table(blank), blank[: len(queries)], payload)


class Toucher(nn.Sequential):
    def __init__(self) -> None:
        super().__init__(nn.Linear(1, 64), nn.ReLU(), nn.Linear(64, 5))

    def forward(self, batch: Batch) -> Tensor:
        return super().forward(batch.payload["points"][..., None]).amax(1)  # type: ignore


class TraceObjective(loop.Objective[None, tuple[Batch, Tensor]]):
    train: examples.ExampleTable

    def encode(self, model: nn.Module, tower: int, rows: Tensor, facts: None) -> tuple[Batch, Tensor]:
        return (batch := self.train.batch(rows)), model(batch)

    def loss(self, model: nn.Module, encoded: Sequence[tuple[Batch, Tensor]], step: loop.Step[None]) -> Tensor:
        return scoring.loss_of(encoded[0][1], encoded[0][0], "binary")


class TraceJob(training.TrainJob):
    def __init__(self, options: Any, recipe: Recipe, progress: Any) -> None:
        super().__init__(options, recipe, progress)
        self.train = by_split(queries_of(open_dataset(options.dataset, options.workdir, progress)))["train"]
        self.parents = [Parent("touched", "dataset", open_artifact(options.dataset).sha256)]
        self.dataset, self.queries = "touched", {"train": len(self.train)}

    def fit(self, seed: int, train: training.SeedTrainer) -> Callable[[Path], Any]:
        manual_seed(seed)
        state = train(Toucher(), len(self.train), partial(TraceObjective, self.recipe, table_of(self.train), None))
        checkpoint.write_config(train.folder, checkpoint.SeedConfig(state.best or 0, self.seed_key(seed)))
        return partial(shutil.copytree, train.folder)


class TraceEvaluation(matching.ScoredEvaluation[evaluation.SplitRows[EvalQuery]]):
    PROBLEM = "touches"
    finish = evaluation.Evaluation.finish

    def __init__(self, request: evaluation.EvalRequest) -> None:
        super().__init__(request, Traces())
        self.splits = [evaluation.SplitRows(one.name, queries_of(request.dataset, one.queries)) for one in self.match()]

    def columns(self, split: evaluation.SplitRows[EvalQuery], run: runs.Run, summariser: Any) -> Any:
        (scorer,), wanted, found = run.scorers, np.zeros(len(split)), np.zeros(len(split))
        for row, one in enumerate(split.rows):
            scores, targets = scorer.values[one.query], {one.images[place] for place in one.targets}
            best = sorted(scores, key=scores.__getitem__, reverse=True)[: len(targets)]
            wanted[row], found[row] = len(targets), len(targets & {*best})
        return [(("overall", "all", "R-precision"), RatioColumn(np.arange(len(split)), found, wanted))]


class Traces(question.Question, runs.Learner, runs.OpenRun):
    LEARNER, KIND, VARIANTS = f"{__name__}:Traces", "run", ("touches",)
    Recipe, job, evaluation = Recipe, TraceJob, TraceEvaluation
    folder: Path

    def asks(self, dataset: Any) -> bool:
        return "touches" in dataset.payloads

    def open_run(self, source: Path | str, options: runs.ScoringOptions, progress: Any) -> "Traces":
        self.folder = Path(source)
        return self

    def score(self, examples: Any) -> dict[str, Any]:
        queries, model, scores = queries_of(*examples), Toucher(), {}
        for name, seed in runs.scorers_in(self.folder).items():
            model.load_state_dict(load_file(seed / loop.BEST))
            rows = zip(queries, scoring.score_all(model.eval(), table_of(queries), 64).tolist(), strict=True)
            scores[name] = {one.query: dict(zip(one.images, row, strict=True)) for one, row in rows}
        return scores


def test_a_problem_with_payloads_is_trained_evaluated_and_reported(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(registry, "PROBLEMS", {"touches": f"{__name__}:Traces", **registry.PROBLEMS})
    monkeypatch.setitem(PAYLOADS, "touches", PayloadTable(Trace, of="query"))
    dataset, recipe = write_traces(tmp_path / "touched"), tmp_path / "touches.toml"
    recipe.write_text('variant = "touches"\nlr = 0.02\nbatch = 16\nepochs = 40\n')

    def called(*words: str) -> Any:
        shown = CliRunner().invoke(app, [*words, "--workdir", str(tmp_path), "--json"])
        assert shown.exit_code == 0, shown.output
        return json.loads(shown.stdout)

    command = ("train", "--recipe", str(recipe), "--dataset", str(dataset))
    assert called(*command)["queries"] == {"train": 200}
    assert called(*command)["up_to_date"]
    results = Path(called("eval", "touches", "--dataset", str(dataset))["results"])
    (figure,) = json.loads((results / "figures.json").read_text())["figures"]
    assert figure["value"] > 0.9
    assert "R-precision" in Path(called("report", "--out", str(tmp_path / "page.html"))["page"]).read_text()
    assert len(Path(__file__).read_text().splitlines()) < 150, "a problem of its own costs more lines than it may"

"""What every problem of the registry keeps."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ctxr.engine.progress import Silent
from ctxr.errors import DataError
from ctxr.models.training.recipe import Recipe
from ctxr.pipelines.modelling import train
from ctxr.pipelines.modelling.config import Eval, Train
from ctxr.pipelines.modelling.eval import measure_splits
from ctxr.pipelines.modelling.train import load_recipe
from ctxr.problems.dialogue.recipe import VARIANTS as DIALOGUES
from ctxr.problems.entailment.question import PairEvaluation
from ctxr.problems.evaluation import EvalRequest, Evaluation
from ctxr.problems.figures import Summariser
from ctxr.problems.galleries import RANKINGS, RECALLS, QueryRanking, RecallRow, rankings_of
from ctxr.problems.gallery.question import GalleryEvaluation
from ctxr.problems.intent.recipe import VARIANTS as INTENT
from ctxr.problems.links.recipe import VARIANTS
from ctxr.problems.question import find_learner
from ctxr.problems.recipes import list_recipes
from ctxr.problems.registry import PROBLEMS, evaluation_of, find_question, open_run, problem_of
from ctxr.problems.runs import OpenRun, ScoringOptions
from ctxr.problems.traces.recipe import VARIANTS as TRACES
from ctxr.store.scores import read_scores
from ctxr.store.tables import read_table
from ctxr.synthetic.benchmark import WorldBenchmark, write_benchmark
from ctxr.synthetic.captions import WorldCaptions, write_captions
from ctxr.synthetic.dialogues import write_dialogues
from ctxr.synthetic.narratives import write_narratives
from tests.models.encoder_folder import make_folder
from tests.pipelines.galleries import draw
from tests.problems.links.written import write_documents

OWNERS = {"entailment": "entailment", "in-batch": "gallery"} | dict.fromkeys(VARIANTS, "links")
OWNERS |= dict.fromkeys(TRACES, "traces") | dict.fromkeys(INTENT, "intent") | dict.fromkeys(DIALOGUES, "dialogue")
"""Problems by the variant of a model; every other is contextual."""


@pytest.mark.parametrize("name", PROBLEMS)
def test_a_problem_is_a_question_and_a_learner(name: str) -> None:
    question = find_question(name)
    assert callable(find_learner(question).open_run)
    assert issubclass(question.Recipe, Recipe)
    assert type(question).KIND in {"run", "classifier"}
    assert issubclass(question.evaluation, Evaluation)
    # the report shows turns and photos of dialogues in one section
    assert ("dialogue" if name == "intent" else name) == question.evaluation.PROBLEM
    for variant in question.VARIANTS:
        assert type(problem_of({"variant": variant})) is type(question)


@pytest.mark.parametrize("recipe", list_recipes())
def test_every_recipe_belongs_to_the_problem_that_trains_it(recipe: str) -> None:
    loaded = load_recipe(recipe)
    question = problem_of({"variant": loaded.variant})
    assert type(question) is type(find_question(OWNERS.get(loaded.variant, "contextual")))
    assert type(loaded) is question.Recipe


def test_a_model_without_a_variant_is_contextual_and_an_unknown_variant_is_that_of_no_problem() -> None:
    assert type(problem_of({})) is type(find_question("contextual"))
    with pytest.raises(DataError, match="the variant 'modul'") as caught:
        problem_of({"variant": "modul"})
    assert "module" in str(caught.value.hint)


def draw_sets(out: Path) -> None:
    write_benchmark(WorldBenchmark(out, train=6, valid=3, test=3, video=0.5, side=48, workers=1))


def draw_pairs(out: Path) -> None:
    write_captions(
        WorldCaptions(out, train=0, valid=0, test=4, pair_train=8, pair_valid=4, hypotheses=4, texts=2, workers=1)
    )


def draw_documents(out: Path) -> None:
    write_documents(out, train=12)


def draw_narratives(out: Path) -> None:
    write_narratives(out, {"train": 8, "valid": 4, "test": 4}, 0)


def draw_dialogues(out: Path) -> None:
    write_dialogues(out, {"train": 8, "valid": 6, "test": 6}, 0)


def same_scores(opened: OpenRun, evaluation: Any, run: Path) -> bool:
    scores = opened.score((evaluation.request.dataset, None))
    stored = read_scores(run / "scores.jsonl")
    return all(scores[name][query] == row for name, one in stored.items() for query, row in one.values.items())


def same_recalls(opened: OpenRun, evaluation: Any, run: Path) -> bool:
    (scores,) = opened.score((evaluation.request.dataset, None)).values()
    found = {}
    for split in evaluation.splits:
        rows = [[scores[one.query.query][image] for image in one.query.images] for one in split.rows]
        found[split.name] = sum(
            row.index(max(row)) in one.query.targets for one, row in zip(split.rows, rows, strict=True)
        ) / len(rows)
    return found == {row.split: row.value for row in read_table(run / RECALLS, RecallRow)}


def same_rankings(opened: OpenRun, evaluation: GalleryEvaluation, run: Path) -> bool:
    rankings = [
        row
        for split in evaluation.splits
        for name, table in opened.score((split, evaluation.files_of, evaluation.contents)).items()
        for row in rankings_of(split, table, name)
    ]
    return sorted(rankings, key=lambda row: (row.asks, row.query)) == read_table(run / RANKINGS, QueryRanking)


def same_probabilities(opened: OpenRun, evaluation: PairEvaluation, run: Path) -> bool:
    (probabilities,) = opened.score((evaluation.pairs, evaluation.split.rows)).values()
    return np.array_equal(probabilities, evaluation.runs[0].probabilities)


ONE_EPOCH = ("lr=1e-3", "epochs=1", "patience=0")
SMALL_TOWERS = ("width=16", "word_width=16", "least_count=1")
SMALL_BRANCHES = ("text=random:bert-tiny", "image=random:albef-tiny", "width=32", "text_layers=1", "fusion_layers=1")
SMALL_TEXTS = ("text=random:bert-tiny", "label_text=random:bert-tiny", "width=32")
LARGEST = {"sum": 3}
"""Of a measure, where it is not 1."""

SMALL: dict[str, tuple[str, tuple[str, ...], Callable[[Path], object], Callable[..., bool]]] = {
    "contextual": ("clip-batch", ("batch=3",), draw_sets, same_scores),
    "links": ("links-ap", (*SMALL_TOWERS, "features=", "batch=4"), draw_documents, same_scores),
    "gallery": ("retrieval-clip", ("batch=40",), draw, same_rankings),
    "traces": ("traces-patches", ("batch=4",), draw_narratives, same_recalls),
    "intent": ("intent-tiny", ("batch=16",), draw_dialogues, same_scores),
    "dialogue": ("dialogue", (*SMALL_TEXTS, "batch=4"), draw_dialogues, same_recalls),
    "entailment": ("entailment-tiny", (*SMALL_BRANCHES, "batch=16"), draw_pairs, same_probabilities),
}
"""A recipe, its changes, a small dataset, and whether a run that is opened again says what was kept of it."""


@pytest.mark.parametrize("name", PROBLEMS)
def test_what_a_problem_trains_is_opened_and_evaluated(name: str, tmp_path: Path) -> None:
    recipe, changes, draw_dataset, is_same = SMALL[name]
    question, dataset, work = find_question(name), tmp_path / "dataset", tmp_path / "work"
    draw_dataset(dataset)
    if name not in {"entailment", "intent"}:
        changes = (*changes, f"encoder=local-dir:{make_folder(tmp_path / 'encoder')}")
    report = train.run(Train(recipe, dataset, changes=(*ONE_EPOCH, *changes), workdir=work, device="cpu"))
    assert report.folder == work / ("classifiers" if type(question).KIND == "classifier" else "runs") / recipe
    config = Eval((recipe,), dataset, work, resamples=20, permutations=9, tokenizer="regex", device="cpu")
    evaluation = evaluation_of(EvalRequest(config, Silent()))
    assert type(evaluation) is question.evaluation
    assert evaluation.names == (recipe,)
    for split in evaluation.splits:
        groups = evaluation.groups(split)
        summary = Summariser(split.name, groups, (0, 0), 20, 9)
        for (_, _, measure_name), column in evaluation.columns(split, evaluation.runs[0], summary):
            assert len(column.rows) == len(column.values) == len(column.weights)
            assert set(column.rows.tolist()) <= set(range(len(groups))), measure_name
            assert column.figure is None or 0 <= column.figure <= LARGEST.get(measure_name, 1), measure_name
    assert is_same(open_run(report.folder, ScoringOptions(work, "cpu"), Silent()), evaluation, report.folder)
    evaluation = evaluation_of(EvalRequest(config, Silent()))
    measure_splits(evaluation, config, Silent())
    assert evaluation.findings.tables
    values = [(one.interval.value, LARGEST.get(one.measure, 1)) for one in evaluation.findings.figures]
    assert all(value is not None and 0 <= value <= most for value, most in values)

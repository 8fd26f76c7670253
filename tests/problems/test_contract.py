"""What every problem of the registry keeps."""

import pytest

from ctxr.errors import DataError, UsageError
from ctxr.models.training.recipe import Recipe
from ctxr.pipelines.modelling.train import load_recipe
from ctxr.problems import PROBLEMS, find_problem, problem_of
from ctxr.problems.evaluation import Evaluation
from ctxr.problems.protocols import find_learner
from ctxr.problems.recipes import list_recipes

OWNERS = {"entailment": "entailment", "in-batch": "gallery"}
"""Problems by what the manifests of format 1 say of a model's variant; every other is contextual."""


@pytest.mark.parametrize("name", PROBLEMS)
def test_a_problem_is_a_question_and_a_learner(name: str) -> None:
    question = find_problem(name)
    learner = find_learner(question)
    assert issubclass(learner.Recipe, Recipe)
    assert {type(question).KIND, type(question).FOLDER} <= {"run", "runs", "classifier", "classifiers"}
    assert issubclass(question.evaluation, Evaluation)
    for variant in question.VARIANTS:
        assert type(problem_of({"variant": variant})) is type(question)


@pytest.mark.parametrize("recipe", list_recipes())
def test_every_recipe_belongs_to_the_problem_that_trains_it(recipe: str) -> None:
    loaded = load_recipe(recipe)
    question = problem_of({"variant": loaded.variant})
    assert type(question) is type(find_problem(OWNERS.get(loaded.variant, "contextual")))
    assert type(loaded) is find_learner(question).Recipe


def test_a_model_without_a_variant_is_contextual_and_an_unknown_variant_is_that_of_no_problem() -> None:
    assert type(problem_of({})) is type(find_problem("contextual"))
    with pytest.raises(DataError, match="the variant 'modul' is that of no problem") as caught:
        problem_of({"variant": "modul"})
    assert "module" in str(caught.value.hint)


def test_an_unknown_problem_is_told_with_the_nearest() -> None:
    with pytest.raises(UsageError, match="there is no problem 'galery'") as told:
        find_problem("galery")
    assert told.value.hint == "did you mean gallery?"

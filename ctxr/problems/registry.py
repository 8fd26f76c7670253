"""The problems, and which of them a run, a recipe, a dataset or an evaluation is about."""

from collections.abc import Mapping
from pathlib import Path
from pkgutil import resolve_name
from typing import Any, cast

from ctxr.datasets.dataset import Dataset
from ctxr.engine.progress import Progress
from ctxr.errors import DataError, UsageError, did_you_mean, some
from ctxr.models.training.recipe import Recipe
from ctxr.problems.evaluation import EvalRequest, Evaluation
from ctxr.problems.question import Question, find_learner
from ctxr.problems.runs import OpenRun, ScoringOptions
from ctxr.store.artifacts import open_artifact

PROBLEMS: dict[str, str] = {
    "entailment": "ctxr.problems.entailment.question:Entailment",
    "links": "ctxr.problems.links.question:Links",
    "dialogue": "ctxr.problems.dialogue.question:Dialogues",
    "traces": "ctxr.problems.traces.question:Traces",
    "intent": "ctxr.problems.intent.question:Intent",
    "gallery": "ctxr.problems.gallery.question:Gallery",
    "contextual": "ctxr.problems.contextual.question:Contextual",
}
"""The question of each problem by dotted name. The last is asked of whatever no other is about."""


def find_question(name: str) -> Question:
    """The question of a problem by its name. Raises UsageError for no name of a problem."""
    if name not in PROBLEMS:
        raise UsageError(
            f"there is no problem {name!r}", hint=did_you_mean(name, PROBLEMS, f"they are {', '.join(PROBLEMS)}")
        )
    return cast("Question", resolve_name(PROBLEMS[name])())


def problems() -> dict[str, Question]:
    """Every problem by its name, in the order of the registry."""
    return {name: find_question(name) for name in PROBLEMS}


def problem_of(config: Mapping[str, object]) -> Question:
    """The problem that a model was trained for, by a recipe or the config of its manifest; the last one where neither names a variant.

    Raises DataError for a variant of no problem.
    """
    by_variant = {name: one for one in problems().values() for name in one.VARIANTS}
    variant = config.get("variant")
    if variant is None:
        return [*problems().values()][-1]
    if variant not in by_variant:
        known = f"variants are {some(by_variant, 9)}; docs/models.md lists them"
        raise DataError(f"no problem has the variant {variant!r}", hint=did_you_mean(str(variant), by_variant, known))
    return by_variant[str(variant)]


def open_run(folder: Path, options: ScoringOptions, progress: Progress) -> OpenRun:
    """A finished run of any problem, or one of its seeds, by the manifest alone.

    Raises UnfinishedError for a folder without a finished run, and what `Learner.open_run` raises.
    """
    manifest = open_artifact(folder.parent if folder.name.startswith("seed") else folder, maker="ctxr train").manifest
    return find_learner(problem_of(manifest.config)).open_run(folder, options, progress)


def question_about(dataset: Dataset | None) -> Question:
    """The first problem that a dataset asks; the last one where there is none, as of image sets without texts."""
    *special, general = problems().values()
    return next((one for one in special if dataset is not None and one.asks(dataset)), general)


def evaluation_of(request: EvalRequest) -> Evaluation[Any, Any]:
    """The evaluation of what --problem names; else of what the runs were trained for, where it takes the request; else of what the
    dataset asks.

    Raises UsageError where that is more than one problem, and what `ctxr eval` says.
    """
    if request.options.problem:
        return _evaluation(find_question(request.options.problem), request)
    *special, general = problems().items()
    folders = [one.place for one in request.sources if one.place is not None and one.place.is_dir()]
    variants = {open_artifact(folder).manifest.config.get("variant") for folder in folders}
    trained = [(name, one) for name, one in (*special, general) if variants.intersection(one.VARIANTS)]
    taken = {name: one for name, one in trained if one.takes(request)}
    taken = taken or {name: one for name, one in special if one.takes(request)} or dict([general])
    for name in [one.BESIDE for one in taken.values()]:
        taken.pop(name, None)
    if len(taken) > 1:
        raise UsageError(
            f"several problems can be evaluated here: {', '.join(taken)}", hint=f"--problem {next(iter(taken))}"
        )
    return _evaluation(next(iter(taken.values())), request)


def _evaluation(question: Question, request: EvalRequest) -> Evaluation[Any, Any]:
    request.beside = find_question(question.BESIDE).evaluation if question.BESIDE else None
    return question.evaluation(request)


def recipe_class(recipe: Mapping[str, object]) -> type[Recipe]:
    """The class of a recipe, by its values. Raises UsageError for a variant of no problem."""
    try:
        return problem_of(recipe).Recipe
    except DataError as error:
        raise UsageError(f"variant = {recipe.get('variant')} is unknown", hint=error.hint) from error

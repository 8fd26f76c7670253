"""What models are asked. A problem has a question (examples, columns, tables; no torch) and a learner (training and scoring).

Training, evaluation and report name no problem: they look it up in the registry. No problem imports another.
"""

from collections.abc import Mapping
from pathlib import Path
from pkgutil import resolve_name
from typing import Any

from ctxr.engine.progress import Progress
from ctxr.errors import DataError, UsageError
from ctxr.problems.protocols import OpenRun, Question, ScoringOptions, find_learner
from ctxr.store.artifacts import open_artifact

PROBLEMS: dict[str, str] = {
    "entailment": "ctxr.problems.entailment.question:Entailment",
    "links": "ctxr.problems.links.question:Links",
    "gallery": "ctxr.problems.gallery.question:Gallery",
    "contextual": "ctxr.problems.contextual.question:Contextual",
}
"""The question of each problem by dotted name. The first that takes an evaluation has it, and the last whatever no other takes."""


def problems() -> list[Question]:
    """Every problem, in the order of the registry."""
    return [resolve_name(name)() for name in PROBLEMS.values()]


def problem_of(config: Mapping[str, Any]) -> Question:
    """The problem that a model was trained for, by a recipe or the config of its manifest; the last one where neither names a variant.

    Raises DataError for a variant of no problem.
    """
    by_variant: dict[Any, Question] = {name: problem for problem in problems() for name in problem.VARIANTS}
    variant = config.get("variant")
    if variant not in {None, *by_variant}:
        raise DataError(f"no problem has the variant {variant!r}", hint=f"variants are {', '.join(by_variant)}")
    return by_variant.get(variant, problems()[-1])


def open_run(folder: Path, options: ScoringOptions, progress: Progress) -> OpenRun:
    """A finished run of any problem, or one of its seeds, by the manifest alone.

    Raises UnfinishedError for a folder without a finished run, and what `Learner.open_run` raises.
    """
    manifest = open_artifact(folder.parent if folder.name.startswith("seed") else folder, None, "ctxr train").manifest
    return find_learner(problem_of(manifest.config)).open_run(folder, options, progress)


def evaluation_of(request: Any) -> Any:
    """The `Evaluation` of the first problem that takes a `EvalRequest`. Raises what `ctxr eval` says."""
    return next(problem for problem in problems() if problem.takes(request)).evaluation(request)


def recipe_class(recipe: Mapping[str, Any]) -> type[Any]:
    """The class of a recipe, by its values. Raises UsageError for a variant of no problem."""
    try:
        return find_learner(problem_of(recipe)).Recipe
    except DataError as error:
        raise UsageError(f"variant = {recipe.get('variant')} is unknown", hint=error.hint) from error

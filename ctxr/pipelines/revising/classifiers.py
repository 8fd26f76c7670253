"""The classifier that decides: the run that was named, or the only one of the project."""

from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ctxr.data.artifacts import MANIFEST, open_artifact
from ctxr.errors import DataError, UnfinishedError, UsageError
from ctxr.pipelines.revise_labels import ReviseLabels

if TYPE_CHECKING:
    from ctxr.models.entailment.base import Classifier

OPENING = "ctxr.pipelines.entailing"
"""Module whose `open_classifier` reads a run."""

RECIPE = "ctxr train --recipe entailment"


def find_classifier(config: ReviseLabels) -> str:
    """The folder or name of the run that decides; "" where none was named and the project has none.

    Raises UsageError where it has several.
    """
    if config.classifier:
        inside = config.workdir / "runs" / config.classifier
        return str(inside) if inside.is_dir() else config.classifier
    found = [file.parent for file in sorted((config.workdir / "runs").glob(f"*/{MANIFEST}")) if _judges(file.parent)]
    if len(found) > 1:
        raise UsageError(
            f"{config.workdir} holds {len(found)} classifiers of entailment: {', '.join(one.name for one in found)}",
            hint=f"--classifier {found[0].name}",
        )
    return str(found[0]) if found else ""


def open_classifier(config: ReviseLabels) -> "Classifier":
    """The classifier of a configuration. Raises UnfinishedError without one, and what opening a run raises."""
    named = find_classifier(config)
    if not named:
        raise UnfinishedError(f"{config.workdir} holds no classifier of entailment", hint=RECIPE)
    if find_spec(OPENING) is None:
        raise DataError(f"this ctxr cannot read the classifier {named}", hint=RECIPE)
    module: Any = import_module(OPENING)
    found: Classifier = module.open_classifier(named, config.device)
    return found


def _judges(folder: Path) -> bool:
    """Whether a finished run is a classifier of entailment."""
    manifest = open_artifact(folder).manifest
    return manifest.kind == "run" and "entailment" in (manifest.config.get("task"), manifest.config.get("variant"))

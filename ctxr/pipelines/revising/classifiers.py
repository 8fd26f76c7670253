"""The classifier that decides: the one that was named, or the only one of the project."""

from typing import TYPE_CHECKING

from ctxr.errors import UnfinishedError, UsageError
from ctxr.pipelines import entailing
from ctxr.pipelines.entailing import CLASSIFIERS, is_classifier
from ctxr.pipelines.revise_labels import ReviseLabels

if TYPE_CHECKING:
    from ctxr.models.entailment.base import Classifier

RECIPE = "ctxr train --recipe entailment"


def find_classifier(config: ReviseLabels) -> str:
    """The folder of the classifier that decides; "" where none was named and the project has none.

    Raises UsageError where it has several.
    """
    home = config.workdir / CLASSIFIERS
    if config.classifier:
        inside = home / config.classifier
        return str(inside) if inside.is_dir() else config.classifier
    found = [folder for folder in sorted(home.glob("*")) if is_classifier(folder)]
    if len(found) > 1:
        raise UsageError(
            f"{config.workdir} holds {len(found)} classifiers of entailment: {', '.join(one.name for one in found)}",
            hint=f"--classifier {found[0].name}",
        )
    return str(found[0]) if found else ""


def open_classifier(config: ReviseLabels) -> "Classifier":
    """The classifier of a configuration. Raises UnfinishedError without one, and what `entailing.open_classifier` raises."""
    named = find_classifier(config)
    if not named:
        raise UnfinishedError(f"{config.workdir} holds no classifier of entailment", hint=RECIPE)
    return entailing.open_classifier(named, config.device)

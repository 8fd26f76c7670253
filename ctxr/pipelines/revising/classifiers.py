"""The classifier that decides: the one that was named, or the only one of the project."""

from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING

from ctxr.errors import UnfinishedError, UsageError
from ctxr.pipelines import entailing
from ctxr.pipelines.entailing import CLASSIFIERS, classifiers_in, is_classifier
from ctxr.pipelines.revise_labels import ReviseLabels

if TYPE_CHECKING:
    from ctxr.models.entailment.base import Classifier

RECIPE = "ctxr train --recipe entailment"


def find_classifier(config: ReviseLabels) -> str:
    """The folder of the classifier that decides; "" where none was named and the project has none.

    Raises UsageError where it has several, or none of the name.
    """
    home = config.workdir / CLASSIFIERS
    if config.classifier:
        inside = home / config.classifier
        if not inside.is_dir() and not Path(config.classifier).is_dir():
            raise _unknown(config)
        return str(inside) if inside.is_dir() else config.classifier
    found = [folder for folder in sorted(home.glob("*")) if is_classifier(folder)]
    if len(found) > 1:
        raise UsageError(
            f"{config.workdir} holds {len(found)} classifiers of entailment: {', '.join(one.name for one in found)}",
            hint=f"--classifier {found[0].name}",
        )
    return str(found[0]) if found else ""


def _unknown(config: ReviseLabels) -> UsageError:
    known = classifiers_in(config.workdir)
    near = get_close_matches(config.classifier, known, n=1)
    hint = f"did you mean {near[0]}? " if near else ""
    hint += f"the classifiers are {', '.join(known)}" if known else f"no classifier is finished yet: {RECIPE}"
    return UsageError(f"there is no classifier {config.classifier!r} in {config.workdir}", hint=hint)


def open_classifier(config: ReviseLabels) -> "Classifier":
    """The classifier of a configuration. Raises UnfinishedError without one, and what `entailing.open_classifier` raises."""
    named = find_classifier(config)
    if not named:
        raise UnfinishedError(f"{config.workdir} holds no classifier of entailment", hint=RECIPE)
    return entailing.open_classifier(named, config.device)

"""Judges of entailment by the names under which `ctxr revise-labels --judge` takes them."""

import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

from ctxr.engine.options import JudgeEndpointOptions
from ctxr.engine.progress import Progress
from ctxr.errors import UsageError, did_you_mean
from ctxr.models.chat import Budget
from ctxr.models.encoders import TINY_FOLDER
from ctxr.models.entailment.base import Judge
from ctxr.models.entailment.checkpoint import TrainedClassifier
from ctxr.models.judges.endpoint import EndpointJudge
from ctxr.models.judges.file import FileJudge
from ctxr.models.judges.matching import MatchingJudge
from ctxr.models.judges.nli import NliJudge
from ctxr.models.precision import choose_device
from ctxr.problems.entailment.classifiers import open_classifier
from ctxr.problems.entailment.pairs import classifiers_in
from ctxr.store.kinds import CLASSIFIERS

TOY = "toy"

TOY_FOLDER = TINY_FOLDER.parent / "toy-judge"
"""The classifier that ships with ctxr."""

KINDS = {"classifier": ":NAME", "nli": ":DIRECTORY", "itm": ":MODEL", "endpoint": ":URL", "file": ":FILE", TOY: ""}
"""Kinds of judges, with what follows each."""

_LIMITS = re.compile(r"(.*)@(\d*\.?\d+)(?:-(\d*\.?\d+))?")


@dataclass(frozen=True)
class JudgeOptions:
    """What opening a judge takes beside its name; `endpoint` is for one behind an endpoint alone."""

    workdir: Path
    device: str = "auto"
    endpoint: JudgeEndpointOptions = field(default_factory=JudgeEndpointOptions)

    @cached_property
    def budget(self) -> Budget:
        """What all endpoints together may cost."""
        return Budget(self.endpoint)

    def open_endpoint(self, address: str, progress: Progress) -> EndpointJudge:
        """The judge at URL or URL#MODEL."""
        url, _, model = address.partition("#")
        options = replace(self.endpoint, model=model or self.endpoint.model)
        return EndpointJudge(url, options, self.workdir, progress, self.budget)


def parse_spec(spec: str) -> tuple[str, str, tuple[float, float] | None]:
    """(kind, what follows its colon, limits LOW and HIGH) of KIND:REST@LOW-HIGH; the suffix may be absent.

    Raises UsageError for an unknown kind, one that lacks its rest, and limits that are none.

    >>> parse_spec("nli:models/nli@0.2-0.95")
    ('nli', 'models/nli', (0.2, 0.95))
    """
    match = _LIMITS.fullmatch(spec)
    plain = match[1] if match else spec
    limits = (float(match[2]), float(match[3] or -1)) if match else None
    kind, _, rest = plain.partition(":")
    bare, at, _ = kind.partition("@")
    if (at and bare in KINDS) or (limits and not limits[0] <= limits[1] <= 1):
        example = (bare + KINDS[bare] if at else plain) + "@0.1-0.9"
        raise UsageError(f"--judge {spec}: limits are @LOW-HIGH within 0..1", hint=f"--judge {example}")
    if kind not in KINDS or bool(rest) != bool(KINDS[kind]):
        known = ", ".join(name + KINDS[name] for name in KINDS)
        meant = f"--judge {kind}{KINDS[kind]}:" if kind in KINDS else did_you_mean(kind, KINDS)
        hint = f"{meant} judges are {known}".strip()
        raise UsageError(f"--judge {spec} names no judge", hint=hint)
    return kind, rest, limits


def default_spec(workdir: Path) -> str:
    """The only classifier of a project; the toy where it has none. Raises UsageError where it has several."""
    finished = classifiers_in(workdir)
    if len(finished) > 1:
        names, hint = ", ".join(finished), f"--judge classifier:{finished[0]}"
        raise UsageError(f"{workdir} holds {len(finished)} classifiers of entailment: {names}", hint=hint)
    return f"classifier:{finished[0]}" if finished else TOY


def open_judge(spec: str, options: JudgeOptions, progress: Progress) -> Judge:
    """The judge of that name, with or without limits. Raises what `parse_spec` and the judge itself raise."""
    kind, rest, _ = parse_spec(spec)
    device = choose_device(options.device)
    makers: dict[str, Callable[[], Judge]] = {
        "classifier": lambda: open_classifier(_classifier_folder(rest, options.workdir), device),
        "nli": lambda: NliJudge(rest, device),
        "itm": lambda: MatchingJudge(rest, device),
        "endpoint": lambda: options.open_endpoint(rest, progress),
        "file": lambda: FileJudge(Path(rest)),
        TOY: lambda: TrainedClassifier(TOY_FOLDER, TOY_FOLDER.name, device, toy=True),
    }
    return makers[kind]()


def _classifier_folder(name: str, workdir: Path) -> Path:
    for folder in (workdir / CLASSIFIERS / name, Path(name)):
        if folder.is_dir():
            return folder
    finished = classifiers_in(workdir)
    names = f"the classifiers are {', '.join(finished)}" if finished else "ctxr train --recipe entailment"
    hint = f"{did_you_mean(name, finished)} {names}".strip()
    raise UsageError(f"there is no classifier {name!r} in {workdir}", hint=hint)

"""Judges of entailment by the names under which `ctxr revise-labels --judge` takes them."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from pkgutil import resolve_name
from typing import NamedTuple, cast

import msgspec
import numpy as np
import numpy.typing as npt

from ctxr.engine.options import JudgeEndpointOptions
from ctxr.engine.progress import Progress
from ctxr.engine.project import command_in
from ctxr.errors import UsageError, did_you_mean
from ctxr.models.chat import Budget
from ctxr.models.entailment.base import Claim, Judge
from ctxr.models.hub import is_blip
from ctxr.models.identity import WEIGHTS, model_identity
from ctxr.models.judges.endpoint import EndpointJudge
from ctxr.models.judges.file import FileJudge
from ctxr.problems.runs import finished_runs
from ctxr.store.kinds import CLASSIFIERS
from ctxr.store.memory import remembered

TOY = "toy"

TOY_FOLDER = WEIGHTS / "toy-judge"
KINDS = {"classifier": ":NAME", "nli": ":DIRECTORY", "itm": ":MODEL", "endpoint": ":URL", "file": ":FILE", TOY: ""}
"""Kinds of judges, with what follows each."""

_LIMITS = re.compile(r"(.*)@(\d*\.?\d+)(?:-(\d*\.?\d+))?")


@dataclass(frozen=True)
class JudgeOptions:
    """How a judge is opened; `lazy`: build the model when it is asked, and keep its identity."""

    workdir: Path
    device: str = "auto"
    endpoint: JudgeEndpointOptions = field(default_factory=JudgeEndpointOptions)
    lazy: bool = False

    @cached_property
    def budget(self) -> Budget:
        """What all endpoints together may cost."""
        return Budget(self.endpoint)


class JudgeSpec(NamedTuple):
    """The name of a judge: its kind, what follows the colon, and limits LOW and HIGH."""

    kind: str
    rest: str
    limits: tuple[float, float] | None


def parse_spec(spec: str) -> JudgeSpec:
    """The parts of KIND:REST@LOW-HIGH; the suffix may be absent.

    Raises UsageError for an unknown kind, one that lacks its rest, and invalid limits.

    >>> parse_spec("nli:models/nli@0.2-0.95")
    JudgeSpec(kind='nli', rest='models/nli', limits=(0.2, 0.95))
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
        raise UsageError(f"--judge {spec} names no judge", hint=f"{meant} judges are {known}".strip())
    return JudgeSpec(kind, rest, limits)


def default_spec(workdir: Path) -> str:
    """The only classifier of a project, or the toy. Raises UsageError for several."""
    finished = finished_runs(workdir, CLASSIFIERS)
    if len(finished) > 1:
        names, hint = ", ".join(finished), f"--judge classifier:{finished[0]}"
        raise UsageError(f"{workdir} holds {len(finished)} classifiers of entailment: {names}", hint=hint)
    return f"classifier:{finished[0]}" if finished else TOY


_MODELS = {
    "classifier": "ctxr.problems.entailment.learner:open_classifier",
    "nli": "ctxr.models.judges.nli:NliJudge",
    "itm": "ctxr.models.judges.nli:MatchingJudge",
    TOY: "ctxr.problems.entailment.learner:open_toy",
}
"""What opens each kind that is a model, by where it lies and the device."""


def open_judge(spec: str, options: JudgeOptions, progress: Progress) -> Judge:
    """The judge of that name, with or without limits. Raises what `parse_spec` and the judge itself raise."""
    kind, source, _ = parse_spec(spec)
    if kind == "endpoint":
        url, _, model = source.partition("#")
        own = replace(options.endpoint, model=model or options.endpoint.model)
        return EndpointJudge(url, own, options.workdir, progress, options.budget)
    if kind == "file":
        return FileJudge(Path(source))
    if kind == "classifier":
        folders = (options.workdir / CLASSIFIERS / source, Path(source))
        folder = next((one for one in folders if one.is_dir()), None)
        if folder is None:
            finished = finished_runs(options.workdir, CLASSIFIERS)
            train = command_in(options.workdir, "train", "--recipe", "entailment")
            names = f"the classifiers are {', '.join(finished)}" if finished else train
            raise UsageError(
                f"there is no classifier {source!r} in {options.workdir}",
                hint=f"{did_you_mean(source, finished)} {names}".strip(),
            )
        source = str(folder)
    source = str(TOY_FOLDER) if kind == TOY else source
    if not options.lazy or (kind == "itm" and not is_blip(source)):
        return _opened(kind, source, options.device)
    return ModelJudge(kind, source, options)


def _opened(kind: str, source: str, device: str) -> Judge:
    choose_device = resolve_name("ctxr.models.precision:choose_device")
    return cast("Judge", resolve_name(_MODELS[kind])(source, choose_device(device)))


class ModelFacts(msgspec.Struct, frozen=True):
    """What `Judge` says of a model."""

    name: str
    fingerprint: str
    threshold: float
    trained_on: frozenset[str] | None
    family: str
    toy: bool


class ModelJudge(Judge):
    """A judge that is a model. The model is built when a pair is asked; its identity is cached by the hash of its files.

    Raises what building the model raises, where nothing is kept yet.
    """

    def __init__(self, kind: str, source: str, options: JudgeOptions) -> None:
        self._kind, self._source, self._device = kind, source, options.device
        identity = model_identity(source if kind == "itm" else f"{kind}:{source}", options.workdir)
        named = ModelFacts.__struct_fields__
        kept = remembered(
            options.workdir,
            ["judge", kind, Path(source).name, identity],
            lambda _: msgspec.json.encode({name: getattr(self.model, name) for name in named}).decode(),
        )
        facts = msgspec.json.decode(kept, type=ModelFacts)
        self.name, self.fingerprint, self.threshold = facts.name, facts.fingerprint, facts.threshold
        self.trained_on, self.family, self.toy = facts.trained_on, facts.family, facts.toy

    @cached_property
    def model(self) -> Judge:
        """The model itself."""
        return _opened(self._kind, self._source, self._device)

    def probabilities(self, claims: Sequence[Claim]) -> npt.NDArray[np.float32]:
        """As `Judge.probabilities` says."""
        return self.model.probabilities(claims)

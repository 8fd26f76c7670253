"""Options and reports of the commands that are about other commands."""

from dataclasses import dataclass
from pathlib import Path

from ctxr.engine.options import Options, Switch, Workdir
from ctxr.engine.report import VerbReport
from ctxr.errors import PartialError, plural


@dataclass(frozen=True)
class Init(Options):
    """Options of `ctxr init`."""

    COMMAND = "init"

    model: Switch = False
    """Write my_model.py instead, a model of your own to start from, for ctxr eval --model my_model:score."""


@dataclass(frozen=True)
class InitReport(VerbReport):
    """The file that was written."""

    file: Path


@dataclass(frozen=True)
class Repeat(Options):
    """Options of `ctxr run`."""

    COMMAND = "run"

    workdir: Workdir = Path("work")


@dataclass(frozen=True)
class RepeatReport(VerbReport):
    """Commands that were `repeated`, or would be; why other artifacts are `left` stale, by name; and commands that `failed`, and why."""

    repeated: tuple[str, ...]
    left: dict[str, str]
    failed: dict[str, str]
    dry_run: bool

    @property
    def finding(self) -> PartialError | None:
        """How many commands failed; the first one says by itself what it needs."""
        what = f"{plural(len(self.failed), 'command')} could not be repeated"
        return next((PartialError(what, hint=command) for command in self.failed), None)

"""The history of a project: a line for each command, typed or called from Python."""

import json
import re
import shlex
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from ctxr.engine.options import Options
from ctxr.engine.units import this_process
from ctxr.errors import INTERRUPTED, CtxrError
from ctxr.store.atomic import DRY_RUN
from ctxr.store.paths import relative
from ctxr.version import __version__

HISTORY = "history.jsonl"
_SECRETS = ((re.compile(r"(://[^/:@\s]*:)\S*@"), r"\1***@"), (re.compile(r"(://[^?\s]*\?)[^#\s]+"), r"\1***"))
"""What may be secret in a typed address: the password, and all after the question mark."""


def without_yes(words: Sequence[str]) -> tuple[str, ...]:
    """A command without --yes: what it takes away is asked about each time."""
    return tuple(word for word in words if not re.fullmatch("--yes|-[qv]*y[qvy]*", word))


@dataclass
class CommandRun:
    """A command that runs: the folder of its project, None for one without, and its artifacts, each with whether it was up to date;
    `elsewhere` are those of other projects, such as the one whose ranks ctxr merge joins; `hidden` are words that the history
    does not show."""

    workdir: Path | None
    artifacts: dict[Path, bool] = field(default_factory=dict)
    elsewhere: dict[Path, bool] = field(default_factory=dict)
    hidden: set[str] = field(default_factory=set)


_CURRENT: ContextVar[CommandRun | None] = ContextVar("current", default=None)


@contextmanager
def recorded(options: Options, typed: Sequence[str] = (), dry_run: bool = False) -> Iterator[CommandRun]:
    """Add a line to the history of the project when the block ends, with the words that were `typed`, or else those that the options
    say. A project without a folder has none, nor has a dry run, and a disk that cannot be written to is not an error."""
    run, began, code = CommandRun(getattr(options, "workdir", None)), time.time(), 1
    recorded = options.RECORDED and not (options.TOGETHER and this_process().rank)
    before, dry_run = _CURRENT.set(run), dry_run or DRY_RUN.get() or getattr(options, "dry_run", False)
    only_looks = DRY_RUN.set(dry_run)
    try:
        yield run
        code = 0
    except CtxrError as error:
        code = error.exit_code
        raise
    except KeyboardInterrupt:
        code = INTERRUPTED
        raise
    finally:
        _CURRENT.reset(before)
        DRY_RUN.reset(only_looks)
        if recorded and not dry_run and run.workdir is not None and run.workdir.is_dir():
            words = list(typed) or shlex.split(options.command_line())[1:]
            for secret, shown in _SECRETS:
                words = [secret.sub(shown, word) for word in words]
            for name in run.hidden:
                words = [word.replace(name, "***") for word in words]
            line = {
                "at": datetime.fromtimestamp(began, UTC).isoformat(timespec="seconds"),
                "ctxr": __version__,
                "words": words,
                "exit_code": code,
                "seconds": round(time.time() - began, 3),
                "artifacts": [
                    {"path": relative(path, run.workdir), "up_to_date": up_to_date}
                    for path, up_to_date in run.artifacts.items()
                ],
            }
            # one write that appends: lines of several processes do not mix
            with suppress(OSError), (run.workdir / HISTORY).open("ab", buffering=0) as stream:
                stream.write(json.dumps(line).encode() + b"\n")


def hide_word(word: str) -> None:
    """Keep a word that was typed, such as a person's name, out of the history."""
    if run := _CURRENT.get():
        run.hidden.add(word)


@contextmanager
def part_of_run(options: Options) -> Iterator[CommandRun]:
    """The command that runs in the project of these options, or else one of its own."""
    run = _CURRENT.get()
    if run is not None and run.workdir == getattr(options, "workdir", None):
        yield run
    else:
        with recorded(options) as own:
            yield own
        if run is not None:
            run.elsewhere |= own.artifacts

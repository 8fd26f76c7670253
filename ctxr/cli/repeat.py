"""`ctxr run`: repeat the commands whose results are stale, in order, as the history of the project has them."""

import re
import shlex
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

import typer

from ctxr.cli.call import as_function
from ctxr.cli.config import Repeat, RepeatReport
from ctxr.cli.verbs import VERBS, named
from ctxr.engine.history import recorded
from ctxr.engine.next_step import repeats
from ctxr.engine.options import Options
from ctxr.engine.progress import SILENT, Progress
from ctxr.errors import CtxrError, DryRun, UsageError
from ctxr.pipelines.inspection.project_state import project_state
from ctxr.store.atomic import DRY_RUN


def run(config: Repeat, progress: Progress = SILENT) -> RepeatReport:
    """Repeat what is stale, without --yes: a command that would ask for it fails, and so does what is made from its result."""
    left, failed, done, state = dict[str, str](), dict[str, str](), list[str](), project_state(config.workdir)
    left |= {one.name: "it is unfinished" for one in state.stored if not one.artifact and not one.running}
    for one, why in repeats(state):
        words = [word for word in one.words if not re.fullmatch("-[qv]+", word)]
        command = shlex.join(["ctxr", *words])
        if why := why or next((f"{name} stays stale" for name in one.parents if name in left), ""):
            left[one.name] = why
        elif command not in done:
            try:
                options = parsed(words)
                options = replace(options, **{name: False for name in ("yes", "force") if name in options.describe()})
                if getattr(options, "workdir", config.workdir).resolve() != config.workdir.resolve():
                    raise UsageError("its command was typed in another folder")
                if getattr(options, "launch", False) or "endpoint:" in str(getattr(options, "judge", "")):
                    raise UsageError("its settings in a file cost people or money")
                if not DRY_RUN.get():
                    progress.note(command)
                with suppress(DryRun), recorded(options, words):
                    named(f"{VERBS[words[0]].module}:run")(options, progress)
                done.append(command)
            except CtxrError as error:
                # what it takes away is in the message: who agrees adds --yes
                command += " --yes" if "--yes" in error.hint else ""
                left[one.name] = failed[command] = error.message
    return RepeatReport(tuple(done), left, failed, DRY_RUN.get())


def parsed(words: Sequence[str]) -> Options:
    """The options of a command. Raises UsageError for words that it no longer takes."""
    taken: list[Options] = []
    typed = typer.Typer(add_completion=False)
    mistyped: Any = typer.BadParameter.__base__
    try:
        typed.command(words[0])(as_function(VERBS[words[0]], lambda _, options, *__: taken.append(options)))
        typer.main.get_command(typed).main([*words[1:]], prog_name=words[0], standalone_mode=False)
    except (KeyError, mistyped) as error:
        raise UsageError(f"this ctxr does not take its command: {shlex.join(words)}") from error
    return taken[0]

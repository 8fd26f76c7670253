"""The front door: finds the command, calls it, shows its report, turns errors into text and exit codes. It imports nothing heavy."""

import errno
import os
import re
import shlex
import sys
from contextlib import nullcontext, redirect_stdout, suppress
from functools import partial
from io import TextIOWrapper
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn, cast

import typer
from rich.text import Text
from typer.core import TyperCommand, TyperGroup

from ctxr import __version__
from ctxr.cli.commands import COMMANDS, LINES, MORE, as_function
from ctxr.cli.render import Terminal, show, show_error
from ctxr.cli.verbs import Command, named
from ctxr.engine.history import HISTORY, INTERRUPTED, CommandRun, recorded
from ctxr.engine.options import Options, option_name
from ctxr.errors import CtxrError, DryRun, UsageError, did_you_mean
from ctxr.store.atomic import DRY_RUN

if TYPE_CHECKING:  # no public module exports them
    from typer._click.core import Command as Parsed
    from typer._click.core import Context
    from typer._click.formatting import HelpFormatter

RECIPES = (
    "ctxr.problems.contextual.recipe:ContextualRecipe",
    "ctxr.problems.gallery.recipe:GalleryRecipe",
    "ctxr.models.entailment.recipe:ClassifierRecipe",
    "ctxr.problems.links.recipe:LinksRecipe",
)
"""Whose keys are given with --set."""

SYNONYMS = {
    "status": "info ls list state show", "init": "config configure setup new", "run": "update refresh rerun repeat",
    "build-sets": "build create make sets extract", "export-tasks": "annotate describe label tasks", "serve": "server collect",
    "import-answers": "import answers", "eval": "evaluate score test benchmark compare", "search": "find query",
    "stats": "analyze analyse statistics summary", "doctor": "check validate diagnose",
}  # fmt: skip
"""Words that people try, by the command that they mean."""

_ARTIFACTS = ("dataset", "artifact")
"""Names of positional arguments that stand for an artifact."""

_EITHER = re.compile(r"((?:(?:--[a-z]+|an argument)(?:, | or )?)+), whichever the command has")
"""In hints of functions that several commands call: options and arguments; a command has some of them."""

_MISTYPED: Any = typer.BadParameter.__base__
"""What typer raises for arguments that it cannot parse; no public module exports it."""

_LISTED, _PRINTED, _TYPED = "ctxr.listed", "ctxr.printed", "ctxr.typed"
"""In the context of a call: the list of commands is shown, for which none is imported; its one JSON document is on stdout; its words."""


class Commands(TyperGroup):
    """Imports what a command names only when it is called: `ctxr --help` stays as light as an empty app."""

    def list_commands(self, ctx: "Context") -> list[str]:
        """Names in the order of use."""
        return list(COMMANDS)

    def get_command(self, ctx: "Context", cmd_name: str) -> "Parsed | None":
        """The command; only its name and line of help while the list is shown."""
        command = COMMANDS.get(cmd_name)
        if command is None:
            return None
        if ctx.meta.get(_LISTED):
            return TyperCommand(cmd_name, help=LINES[cmd_name], callback=lambda: None)
        typed = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
        text = f"{LINES[cmd_name]}\n\n{MORE.get(cmd_name, '')}".strip()
        typed.command(cmd_name, help=text)(as_function(command, _run))
        return typer.main.get_command(typed)

    def format_help(self, ctx: "Context", formatter: "HelpFormatter") -> None:
        """The list of commands, without importing them."""
        ctx.meta[_LISTED] = True
        super().format_help(ctx, formatter)

    def invoke(self, ctx: "Context") -> object:
        """Run the command, and turn errors into text."""
        typed = ctx.meta[_TYPED] = [*getattr(ctx, "_protected_args", ()), *ctx.args]
        try:
            return super().invoke(ctx)
        except (CtxrError, _MISTYPED, OSError, KeyboardInterrupt, MemoryError) as error:
            if isinstance(error, OSError) and error.errno == errno.EPIPE:  # nobody reads any more
                raise
            sys.exit(_show_exception(error, typed, ctx))

    def parse_args(self, ctx: "Context", args: list[str]) -> list[str]:
        """Parse the arguments before the command's name; without any, in a folder with a project, its status is shown."""
        if not args and Path(os.environ.get("CTXR_WORKDIR") or "work", HISTORY).is_file():
            args = ["status"]
        if args[:1] == ["help"]:
            args = [*args[1:2], "--help"]
        typed = list(args)
        try:
            return list(super().parse_args(ctx, args))
        except _MISTYPED as error:
            if not typed:  # the help, as an error: typer shows it
                raise
            sys.exit(_show_exception(error, typed, ctx))

    def resolve_command(self, ctx: "Context", args: list[str]) -> "tuple[str | None, Parsed | None, list[str]]":
        """The command that was typed; an unknown one is an error with a suggestion."""
        if args and not args[0].startswith("-") and args[0] not in COMMANDS:
            meant = next((name for name, words in SYNONYMS.items() if args[0] in words.split()), args[0])
            hint = did_you_mean(meant, COMMANDS, f"commands are {', '.join(COMMANDS)}", "ctxr {}")
            raise UsageError(f"there is no command {args[0]!r}", hint=hint)
        return super().resolve_command(ctx, args)


def _run(command: Command, config: Options, flags: set[str], meta: dict[str, object]) -> None:
    as_json = "json" in flags

    def shown(report: object, view: str, step: str | None = None) -> None:
        if meta.get(_PRINTED):  # the document of a running command: its summary is a note
            with redirect_stdout(sys.stderr):
                show(None, named(view)(report), False, step)
            return
        meta[_PRINTED] = as_json
        show(report, named(view)(report), as_json, step)

    started = (partial(shown, view=command.started),) if command.started else ()
    config.check()  # before what takes seconds
    progress, report = Terminal(quiet="quiet" in flags, verbose="verbose" in flags), None
    estimates = bool(getattr(config, "dry_run", False))
    only_looks = DRY_RUN.set(estimates or "dry_run" in flags or config.COMMAND == "status")
    typed = cast("list[str]", meta[_TYPED])
    try:
        with recorded(config, typed) as done:
            with nullcontext() if command.started else progress.alive(config.COMMAND):
                with progress.task(f"loading {config.COMMAND}", None):  # what a command imports may take seconds
                    run = named(f"{command.module}:run")
                try:
                    report = run(config, progress, *started)
                except DryRun as plan:
                    show({"would": plan.message}, [Text(plan.message)], as_json, _next(config, done, typed))
                    return
                except CtxrError as error:
                    error.hint = _EITHER.sub(partial(_own_names, config), error.hint)
                    raise
            if report.finding:
                raise report.finding
    finally:
        DRY_RUN.reset(only_looks)
        if report is not None:  # the hint of a finding says what comes next
            shown(report, command.view, "" if report.finding else _next(config, done, typed if estimates else []))


def _next(config: Options, done: CommandRun, typed: list[str]) -> str:
    """The command to paste after this one: after a dry run what was `typed`, else by the state of its project."""
    if typed:
        return shlex.join(["ctxr", *(word for word in typed if word != "--dry-run")])
    # loaded here: the help needs neither
    state = named("ctxr.pipelines.inspection.status:project_state")
    with suppress(OSError):  # another process may have removed a folder meanwhile
        return str(
            named("ctxr.engine.next_step:next_step")(state(getattr(config, "workdir", Path("work")), done.artifacts))
        )
    return ""


def _own_names(config: Options, found: re.Match[str]) -> str:
    """The options and arguments in a hint that the command has."""
    argument = config.ARGUMENT
    names = {option_name(name): option_name(name) for name in config.describe() if name != argument}
    names |= {"an argument": argument.upper()} if argument in _ARTIFACTS else {}
    return " or ".join(names[way] for way in re.split(", | or ", found[1]) if way in names) or found[0]


def _show_exception(error: BaseException, typed: list[str], ctx: "Context") -> int:
    match error:
        case CtxrError():
            shown = error
        case OSError():  # that no command handled
            why = error.strerror or str(error) or type(error).__name__
            name = error.filename if error.filename is not None else error.filename2
            path = os.fsdecode(name) if isinstance(name, str | bytes | os.PathLike) else ""
            hint = "check that path and its permissions" if path else "run the same command again"
            if error.errno in (errno.ENOSPC, errno.EDQUOT):
                hint = "free some space and run the same command again"
            shown = CtxrError(f"{path}: {why}" if path else why, hint=hint)
        case KeyboardInterrupt():
            resumes = bool(typed) and typed[0] in COMMANDS and COMMANDS[typed[0]].resumes
            goes_on = ": it continues where it stopped" if resumes else ""
            shown = CtxrError("interrupted", f"run the same command again{goes_on}")
        case MemoryError():
            hint = "give the process more memory, or process fewer sources at once: --workers 1"
            shown = CtxrError("out of memory", hint)
        case _:
            shown = _mistyped(error, typed)
    code = INTERRUPTED if isinstance(error, KeyboardInterrupt) else shown.exit_code
    show_error(shown.message, shown.hint, code, "--json" in typed and not ctx.meta.get(_PRINTED))
    return code


def _mistyped(error: Any, typed: list[str]) -> UsageError:
    """A parsing error of typer as our error."""
    near = getattr(error, "possibilities", None) or ()
    command = " ".join(["ctxr", *(word for word in typed[:1] if word in COMMANDS)])
    # some messages of typer end with what else is possible
    message = str(error.message if near else error.format_message()).strip().rstrip(".")
    hint = f"did you mean {' or '.join(near)}?" if near else f"{command} --help lists all options"
    word = str(getattr(error, "option_name", "")).removeprefix("--").replace("-", "_")
    parameters = error.ctx.command.params if error.ctx else ()
    options = {option for parameter in parameters for option in parameter.opts}
    # the positional argument that was typed as an option
    meant = _ARTIFACTS if word in _ARTIFACTS else (word,)
    arguments = [str(parameter.name) for parameter in parameters if parameter.param_type_name == "argument"]
    recipes = [named(name) for name in RECIPES] if "--set" in options else []
    key = next((recipe.SYNONYMS.get(word, word) for recipe in recipes), word)
    if any(key in recipe.describe() for recipe in recipes):
        hint = f"--set {key}=VALUE: it is a key of the recipe"
    elif nameless := next((name for name in arguments if name in meant), ""):
        verb = "are" if nameless.endswith("s") else "is"
        hint = f"the {nameless} {verb} given without a name: {command} {nameless.upper()}"
    elif "unexpected extra argument" in message and "--set" in options and "=" in message:
        hint = "repeat the option for each key: --set KEY=VALUE --set KEY=VALUE"
    elif "unexpected extra argument" in message and "--dataset" in options:
        hint = f"the dataset is given with its name: {command} --dataset DATASET"
    return UsageError(message[:1].lower() + message[1:], hint=hint)


app = typer.Typer(
    cls=Commands,
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(wanted: bool) -> None:
    if wanted:
        sys.stdout.write(f"ctxr {__version__}\n")
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """From a folder of raw videos and photos to a validated benchmark for contextual image retrieval."""


def main() -> NoReturn:
    """Entry point of the `ctxr` command."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):  # a terminal that lacks a sign shows another one in its place
            stream.reconfigure(errors="replace")
    try:
        app()
    except SystemExit as ended:
        if ended.code == INTERRUPTED:
            # at an orderly exit, threads that are still loading a library would abort the process
            with suppress(OSError):
                sys.stdout.flush()
                sys.stderr.flush()
            os._exit(INTERRUPTED)
        raise
    raise SystemExit(0)

"""The front door: finds the command, calls it, shows its report, turns errors into text and exit codes. It imports nothing heavy."""

import errno
import gc
import os
import sys
import time
from contextlib import suppress
from functools import partial
from importlib import import_module
from io import TextIOWrapper
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer
from typer.core import TyperCommand, TyperGroup

from ctxr.cli.commands import COMMANDS
from ctxr.cli.verbs import named
from ctxr.cli.words import ARTIFACTS, EXAMPLES, LINES, LISTED, MORE, PANELS, PRINTED, SETTINGS, TYPED
from ctxr.errors import INTERRUPTED, CtxrError, UsageError, did_you_mean
from ctxr.version import __version__

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

GRACE = 5.0
"""Seconds that all processes of torchrun but the first wait before they tell of an error: where it is that of the first, they are ended."""

SYNONYMS = {
    "status": "info ls list state show", "init": "config configure setup new", "run": "update refresh rerun repeat",
    "build-sets": "build create make sets extract", "export-tasks": "annotate describe label tasks", "serve": "server collect",
    "import-answers": "import answers", "eval": "evaluate score test benchmark compare", "search": "find query",
    "stats": "analyze analyse statistics summary", "doctor": "check validate diagnose",
}  # fmt: skip
"""Words that people try, by the command that they mean."""

_MISTYPED: Any = typer.BadParameter.__base__
"""What typer raises for arguments that it cannot parse; no public module exports it."""


class _PlainParameters:
    """A command whose switches and arguments have no type beside them."""

    def get_params(self, ctx: "Context") -> "list[Any]":
        """Its parameters, `--help` among them."""
        params: list[Any] = super().get_params(ctx)  # type: ignore[misc]
        for one in params:
            one.metavar = "" if getattr(one, "is_flag", False) else one.metavar
            if one.param_type_name == "argument":
                one.display_type_rich = lambda ctx, several=one.nargs != 1: "…" * several
        return params


class PlainCommand(_PlainParameters, TyperCommand):
    """One command."""


class Commands(_PlainParameters, TyperGroup):
    """Imports what a command names when it is called: `ctxr --help` stays light."""

    def list_commands(self, ctx: "Context") -> list[str]:
        """Names in the order of use."""
        return [*dict.fromkeys((*" ".join(PANELS.values()).split(), *COMMANDS))]

    def get_command(self, ctx: "Context", cmd_name: str) -> "Parsed | None":
        """The command; only its name and line of help while the list is shown."""
        command = COMMANDS.get(cmd_name)
        if command is None:
            return None
        if ctx.meta.get(LISTED):
            panel = next((panel for panel, names in PANELS.items() if cmd_name in names.split()), None)
            return TyperCommand(cmd_name, help=LINES[cmd_name], callback=lambda: None, rich_help_panel=panel)
        call = partial(getattr, import_module("ctxr.cli.call"))
        typed = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
        example = f"Example: [bold]{EXAMPLES.get(cmd_name, f'ctxr {cmd_name}')}[/bold]"
        text = f"{LINES[cmd_name]}\n\n{MORE.get(cmd_name, '')}".strip() + f"\n\n{example}"
        typed.command(cmd_name, cls=PlainCommand, help=text)(call("as_function")(command, call("call_process")))
        return typer.main.get_command(typed)

    def format_help(self, ctx: "Context", formatter: "HelpFormatter") -> None:
        """The list of commands, without importing them."""
        ctx.meta[LISTED] = True
        super().format_help(ctx, formatter)

    def invoke(self, ctx: "Context") -> object:
        """Run the command, and turn errors into text."""
        typed = ctx.meta[TYPED] = [*getattr(ctx, "_protected_args", ()), *ctx.args]
        try:
            return super().invoke(ctx)
        except (CtxrError, _MISTYPED, OSError, KeyboardInterrupt, MemoryError) as error:
            if isinstance(error, OSError) and error.errno == errno.EPIPE:  # nobody reads any more
                raise
            sys.exit(_show_exception(error, typed, ctx))

    def parse_args(self, ctx: "Context", args: list[str]) -> list[str]:
        """Parse the arguments before the command's name; without any, in a folder with a project, its status is shown."""
        workdir = Path(os.environ.get("CTXR_WORKDIR") or "work")
        if not args and (SETTINGS.is_file() or any(named("ctxr.engine.state:artifacts")(workdir))):
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
            hint = did_you_mean(meant, COMMANDS, "ctxr --help lists the commands", "ctxr {}")
            raise UsageError(f"there is no command {args[0]!r}", hint=hint)
        return super().resolve_command(ctx, args)


def _show_exception(error: BaseException, typed: list[str], ctx: "Context") -> int:
    if "WORLD_SIZE" in os.environ and os.environ.get("RANK", "0") != "0":
        if isinstance(error, KeyboardInterrupt):
            return INTERRUPTED
        time.sleep(GRACE)
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
            shown = CtxrError(str(error) or "interrupted", f"run the same command again{goes_on}")
        case MemoryError():
            hint = "give the process more memory, or process fewer sources at once: --jobs 1"
            shown = CtxrError("out of memory", hint)
        case _:
            shown = _mistyped(error, typed)
    code = INTERRUPTED if isinstance(error, KeyboardInterrupt) else shown.exit_code
    as_json = "--json" in typed and not ctx.meta.get(PRINTED)
    named("ctxr.cli.render:show_error")(shown.message, shown.hint, code, as_json)
    return code


def _mistyped(error: Any, typed: list[str]) -> UsageError:
    """A parsing error of typer as our error."""
    near = getattr(error, "possibilities", None) or ()
    command = " ".join(["ctxr", *(word for word in typed[:1] if word in COMMANDS)])
    # some messages of typer end with what else is possible
    message = str(error.message if near else error.format_message()).strip().rstrip(".")
    word = str(getattr(error, "option_name", "")).removeprefix("--").replace("-", "_")
    otherwise = "writes no artifact: leave it out" if word == "dry_run" else "--help lists all options"
    hint = f"did you mean {' or '.join(near)}?" if near and word != "dry_run" else f"{command} {otherwise}"
    parameters = error.ctx.command.params if error.ctx else ()
    options = {option for parameter in parameters for option in parameter.opts}
    # the positional argument that was typed as an option
    meant = ARTIFACTS if word in ARTIFACTS else (word,)
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
    """From raw videos and photos to a validated benchmark for contextual image retrieval."""


def main() -> NoReturn:
    """Entry point of the `ctxr` command."""
    gc.set_threshold(50_000)  # imports make many objects that stay, and the default looks through them again and again
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

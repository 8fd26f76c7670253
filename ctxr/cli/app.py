"""The front door: finds the command, calls it, and turns errors into text and exit codes. Nothing heavy is imported here."""

import errno
import os
import sys
from importlib import import_module
from io import TextIOWrapper
from typing import Annotated, Any, NoReturn

import typer
from typer.core import TyperCommand, TyperGroup

from ctxr.errors import CtxrError, FindingsError, PartialError, UsageError

COMMANDS = {
    "build-sets": "From videos and photos to sets of ten minimally contrastive images.",
    "filter": "Take out blurry, text-heavy or small images, and fill the gaps.",
    "plan": "Forecast what asking the crowd takes: answers, cost with fees, hours, pay per hour.",
    "export-tasks": "Write what the crowd is asked, for our own server or for a platform that brings people.",
    "import-answers": "Merge answers, from wherever they came, into judgments; each is checked again.",
    "aggregate": "Decide which descriptions are kept, measure accuracy and agreement, and write the dataset.",
    "workers": "Say how good each worker is, and block or allow them, with reasons and a way back.",
    "report": "Show a chain of artifacts as one page that opens in any browser, without a server.",
    "export": "Write image sets in a format that others read, or as a recipe without the pixels.",
    "rebuild": "Make the images of a recipe again out of its videos and photos.",
    "verify": "Prove that the images of a recipe or an artifact are those of their sources, or name each that is not.",
    "stats": "Describe a benchmark, ours or a published one: counts, language, positions, distances, phenomena, leakage.",
    "audit": "Try rules that never read a description: each must stay at chance, or the benchmark has a shortcut.",
    "train": "Train a model on a benchmark by a recipe, and score its validation and test queries.",
    "regions": "Extract features and boxes of regions of every picture, for models that look at regions.",
    "listen": "Let a multimodal language model find the picture of each description, through an OpenAI-compatible endpoint.",
    "revise-labels": "Find captions that also hold for other pictures, and add them as a round of judgments, or take it back.",
    "eval": "Say how often runs find the right image, how sure that is, where they fail, and which of them is better.",
    "serve": "Let people work: pages to describe, find, judge and talk, from this machine; every answer is kept at once.",
    "doctor": "Look at this machine, or at an artifact, and say what is wrong and how to cure it.",
    "demo": "Draw a small world of footage and run the whole chain on it, next to the truth.",
}
"""Every command and its one line of help, in the order of use. `ctxr/cli/<name>.py` holds the rest."""

_GO_ON = ("build-sets", "filter", "export-tasks", "rebuild", "regions", "listen", "train", "revise-labels", "demo")
"""Commands that keep what they had done when they are interrupted."""

INTERRUPTED = 130

_ARTIFACTS = ("dataset", "artifact")
"""What commands call the artifact that they take by its place."""

_MISTYPED: Any = typer.BadParameter.__base__
"""What typer raises for words that it cannot parse; its own name is in no public module."""


class Commands(TyperGroup):
    """Imports a command's module only when it is called: `ctxr --help` stays as light as an empty app."""

    _listing = False

    def list_commands(self, ctx: Any) -> list[str]:
        """Names in the order of use."""
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """The command; only its name and line of help while the list is shown."""
        if cmd_name not in COMMANDS:
            return None
        if self._listing:
            return TyperCommand(cmd_name, help=COMMANDS[cmd_name], callback=lambda: None)
        module = import_module(f"ctxr.cli.{cmd_name.replace('-', '_')}")
        one = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
        one.command(cmd_name, help=module.command.__doc__ or COMMANDS[cmd_name])(module.command)
        return typer.main.get_command(one)

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """The list of commands, without importing them."""
        self._listing = True
        try:
            super().format_help(ctx, formatter)
        finally:
            self._listing = False

    def invoke(self, ctx: Any) -> Any:
        """Run the command; the one place where errors become text."""
        typed = [*getattr(ctx, "_protected_args", ()), *ctx.args]
        try:
            return super().invoke(ctx)
        except CtxrError as error:
            _stop(error, typed)
        except _MISTYPED as error:
            _stop(_mistyped(error, typed), typed)
        except OSError as error:
            if error.errno == errno.EPIPE:  # whoever read our output has gone: nobody is left to talk to
                raise
            _stop(_refused(error), typed)
        except KeyboardInterrupt:
            goes_on = ": it goes on where it was" if typed[:1] and typed[0] in _GO_ON else ""
            _say("interrupted", f"run the same command again{goes_on}", INTERRUPTED, "--json" in typed)
            sys.exit(INTERRUPTED)
        except MemoryError:
            hint = "give this process more, or work on fewer sources at once: --workers 1"
            _say("out of memory", hint, 1, "--json" in typed)
            sys.exit(1)

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """What stands before the command's name."""
        typed = list(args)
        try:
            return list(super().parse_args(ctx, args))
        except _MISTYPED as error:
            if not typed:  # the help, as an error: typer shows it
                raise
            _stop(_mistyped(error, typed), typed)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """The command that was typed, or the one that may have been meant as a hint."""
        if args and not args[0].startswith("-") and args[0] not in COMMANDS:
            from difflib import get_close_matches

            near = get_close_matches(args[0], COMMANDS, n=1)
            hint = f"did you mean ctxr {near[0]}?" if near else f"commands are {', '.join(COMMANDS)}"
            raise UsageError(f"there is no command {args[0]!r}", hint=hint)
        return super().resolve_command(ctx, args)


def _stop(error: CtxrError, typed: list[str]) -> NoReturn:
    # the result stands on stdout already
    _say(
        error.message,
        error.hint,
        error.exit_code,
        "--json" in typed and not isinstance(error, FindingsError | PartialError),
    )
    sys.exit(error.exit_code)


def _mistyped(error: Any, typed: list[str]) -> UsageError:
    """What typer found wrong with the words of a command, as our error."""
    near = getattr(error, "possibilities", None) or ()
    command = " ".join(["ctxr", *(word for word in typed[:1] if word in COMMANDS)])
    # some messages of typer end with what else is possible
    message = str(error.message if near else error.format_message()).strip().rstrip(".")
    hint = f"did you mean {' or '.join(near)}?" if near else f"{command} --help lists what there is"
    if nameless := _nameless(error):
        verb = "are" if nameless.endswith("s") else "is"
        hint = f"the {nameless} {verb} given without a name: {command} {nameless.upper()}"
    elif "unexpected extra argument" in message and any("--dataset" in one.opts for one in error.ctx.command.params):
        hint = f"the dataset is given with its name: {command} --dataset DATASET"
    return UsageError(message[:1].lower() + message[1:], hint=hint)


def _nameless(error: Any) -> str:
    """The argument that a command takes by its place and that was typed as an option; "" for none."""
    option = str(getattr(error, "option_name", "")).removeprefix("--").replace("-", "_")
    meant = _ARTIFACTS if option in _ARTIFACTS else (option,)
    known = error.ctx.command.params if option and error.ctx else ()
    places = [one.name for one in known if one.param_type_name == "argument"]
    return next((str(name) for name in places if name in meant), "")


def _refused(error: OSError) -> CtxrError:
    """What the system refused, where no command knew better what to make of it."""
    why = error.strerror or str(error) or type(error).__name__
    where = error.filename if error.filename is not None else error.filename2
    named = os.fsdecode(where) if isinstance(where, str | bytes | os.PathLike) else ""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        hint = "free some space and run the same command again"
    elif named:
        hint = "check that path and its permissions"
    else:
        hint = "run the same command again"
    return CtxrError(f"{named}: {why}" if named else why, hint=hint)


def _say(message: str, hint: str, exit_code: int, as_json: bool) -> None:
    from ctxr.cli.render import show_error

    show_error(message, hint, exit_code, as_json)


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
        from ctxr import __version__

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
    app()
    raise SystemExit(0)

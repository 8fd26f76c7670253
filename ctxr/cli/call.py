"""How one command becomes a function of Typer, and what it does; loaded with the command, as the list of commands needs none of it.

The options of a command are the fields of its dataclass; `--config FILE.toml`, or else `ctxr.toml` in the current folder, fills the
same class, and the command line takes precedence.
"""

import inspect
import json
import os
import re
import shlex
import sys
import typing
from collections.abc import Callable
from contextlib import nullcontext, redirect_stdout, suppress
from functools import partial
from pathlib import Path
from typing import Annotated, Any, cast

import typer

from ctxr.cli.render import Summary, Terminal, show
from ctxr.cli.verbs import Command, named
from ctxr.cli.words import ARTIFACTS, FLAGS, LINES, ONLY_LOOK, PRINTED, SETTINGS, TYPED
from ctxr.engine.history import CommandRun, recorded, without_yes
from ctxr.engine.next_step import next_step
from ctxr.engine.options import OptionField, Options, convert, option_name, path_of, read_toml
from ctxr.engine.units import this_process
from ctxr.errors import CtxrError, DryRun, UsageError, did_you_mean

_EITHER = re.compile(r"((?:(?:--[a-z]+|an argument)(?:, | or )?)+), whichever the command has")
"""In hints of functions that several commands call: options and arguments of some of them."""

_SHORT = {"workdir": ("-w",), "out": ("-o",), "input": ("-i",), "yes": ("-y",), "quiet": ("-q",), "verbose": ("-v",)}
_ENVIRONMENT = {"workdir": "CTXR_WORKDIR", "rank": "RANK", "world_size": "WORLD_SIZE"}
_PARSED = {"path": Path, "float": float, "int": int}
"""Types whose words are read here, by how the help shows them."""


def as_function(
    command: Command, body: Callable[[Command, Options, set[str], dict[str, object]], None]
) -> Callable[..., None]:
    """What Typer makes a command of: its parameters are the options of `command`; it calls `body(command, options, flags, meta)`, where
    `flags` are those that were given, and `meta` is what its context shares."""
    config_class: type[Options] = named(command.config)
    parameters = [inspect.Parameter("ctx", inspect.Parameter.KEYWORD_ONLY, annotation=typer.Context)]
    filed = config_class.in_file()
    numbers = filed.describe() if filed else {}
    parameters += [
        _parameter(name, option, name == config_class.ARGUMENT)
        for name, option in config_class.describe().items()
        if name not in numbers
    ]
    file_help = "Read options from this TOML file, by default ctxr.toml; the command line takes precedence."
    parameters.append(_parameter("config", OptionField(Path | None, (), file_help, None), metavar="FILE"))
    texts = {"dry_run": "Say what would be written, and write nothing."} | FLAGS
    if "dry_run" in config_class.describe() or config_class.COMMAND in ONLY_LOOK:
        texts = FLAGS
    parameters += [_parameter(name, OptionField(bool, (), text, False)) for name, text in texts.items()]
    if filed:
        text = f"Read the numbers of the {filed.FILE} from this TOML file; default: the published ones."
        parameters.append(_parameter(filed.FILE, OptionField(Path | None, (), text, None), metavar="FILE"))
        text = f"Print the published {filed.FILE} as such a file."
        parameters.append(_parameter(f"show_{filed.FILE}", OptionField(bool, (), text, False)))

    def function(**typed_values: Any) -> None:
        context, file = typed_values.pop("ctx"), typed_values.pop("config")
        flags = {name for name in texts if typed_values.pop(name)}
        typed_values |= _of_one_process(context)
        file = file or (SETTINGS if SETTINGS.is_file() else None)
        chosen = {name for name in typed_values if context.get_parameter_source(name).name != "DEFAULT"}
        values = {name: tuple(value) if isinstance(value, list) else value for name, value in typed_values.items()}
        if filed and values.pop(f"show_{filed.FILE}"):
            typer.echo("\n".join(f"# {one.help}\n{name} = {json.dumps(one.default)}" for name, one in numbers.items()))
            return
        if filed and isinstance(given := values.pop(filed.FILE), Path):
            values |= convert(filed, read_toml(given, option_name(filed.FILE)), str(given))
        if file is not None:
            loaded = load_toml(file, config_class, context.info_name or "")
            values |= {name: value for name, value in loaded.items() if name not in chosen}
        body(command, config_class(**values), flags, context.meta)

    function.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    function.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return function


def _of_one_process(context: typer.Context) -> dict[str, None]:
    """Ranks that the environment names, as of a whole run where it names one process alone."""
    sources = {name: context.get_parameter_source(name) for name in ("rank", "world_size")}
    alone = os.environ.get("WORLD_SIZE") == "1"
    return {name: None for name, source in sources.items() if alone and source and source.name == "ENVIRONMENT"}


def load_toml(file: Path, config_class: type[Options], command: str = "") -> dict[str, object]:
    """Values for the fields of `config_class` from a TOML file, converted to the fields' types; a table named after a command, such as
    `[build-sets]`, holds for that command alone, so one file can serve a whole chain.

    Raises UsageError for a missing file or an unknown key, DataError for broken TOML or a wrong type.
    """
    loaded = read_toml(file, "--config")
    plain = {key: value for key, value in loaded.items() if not isinstance(value, dict)}
    tables = {key: value for key, value in loaded.items() if isinstance(value, dict)}
    other = next(name for name in LINES if name != command)
    elsewhere = f"; a key of another command goes below that command's name, such as [{other}]"
    values = convert(config_class, plain, str(file), elsewhere)
    for table, part in tables.items():
        name = table.replace("_", "-")
        if name not in LINES:
            hint = did_you_mean(name, LINES, "a table has the name of a command; ctxr --help lists them", "[{}]")
            raise UsageError(f"{file}: unknown table [{table}]", hint=hint)
        if name == command:
            values |= convert(config_class, part, str(file), elsewhere)
    return values


def _parameter(
    name: str, option: OptionField, positional: bool = False, metavar: str | None = None
) -> inspect.Parameter:
    kind, default = option.kind, option.default
    kinds = typing.get_args(kind) or (kind,)
    shown = name.upper() if positional else option_name(name)
    parser: Callable[[str], Path | float] | None = None
    if Path in kinds:  # an empty path would silently be the current folder
        parser = partial(path_of, shown)
    elif float in kinds or int in kinds:  # a number has a range to name
        parser = partial(option.number, shown)
    if parser:
        metavar = metavar or next(f"<{word}>" for word, part in _PARSED.items() if part in kinds)
    elif typing.get_origin(kind) is tuple:  # once for each value
        kind, default, metavar = list[str], list(default), "<str>"
    if positional:
        kind |= None
        info = typer.Argument(help=option.help, show_default=False, metavar=shown, parser=parser)
    else:
        info = typer.Option(
            shown,
            *_SHORT.get(name, ()),
            help=option.help,
            envvar=_ENVIRONMENT.get(name),
            metavar=metavar,
            show_default=default not in (None, []),
            parser=parser,
            rich_help_panel=option.panel or None,
        )
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=Annotated[kind, info])


def call_verb(command: Command, config: Options, flags: set[str], meta: dict[str, object]) -> None:
    """Call a verb and show its report and the next command. Raises what it raises, and the finding of its report."""
    as_json = "json" in flags

    def shown(report: object, view: str, step: str | None = None) -> None:
        if meta.get(PRINTED):  # the document of a running command: its summary is a note
            with redirect_stdout(sys.stderr):
                show(None, named(view)(report), False, step)
            return
        meta[PRINTED] = as_json
        show(report, named(view)(report), as_json, step)

    started = (partial(shown, view=command.started),) if command.started else ()
    config.check()  # before what takes seconds
    progress, report = Terminal(quiet="quiet" in flags, verbose="verbose" in flags), None
    estimates = bool(getattr(config, "dry_run", False))
    typed = cast("list[str]", meta[TYPED])
    try:
        with recorded(config, typed, "dry_run" in flags) as done:
            with nullcontext() if command.started else progress.alive(config.COMMAND):
                with progress.task(f"loading libraries for ctxr {config.COMMAND}", None):  # may take seconds
                    run = named(f"{command.module}:run")
                try:
                    report = run(config, progress, *started)
                except DryRun as plan:
                    document, next_line = {"would": plan.message, "plan": {**plan.plan}}, _next(config, done, typed)
                    rows = {name.replace("_", " "): value for name, value in plan.plan.items() if value}
                    show(document, [Summary(plan.message, rows)], as_json, next_line)
                    return
                except CtxrError as error:
                    error.hint = _EITHER.sub(partial(_own_names, config), error.hint)
                    raise
            if report.finding:
                raise report.finding
    finally:
        if report is not None:  # the hint of a finding says what comes next
            shown(report, command.view, "" if report.finding else _next(config, done, typed if estimates else []))


def call_process(command: Command, config: Options, flags: set[str], meta: dict[str, object]) -> None:
    """Call a verb, as `call_verb` does; in a process that follows another one nothing is shown."""
    if not (config.TOGETHER and this_process().rank):
        call_verb(command, config, flags, meta)
    elif "dry_run" not in flags:
        named(f"{command.module}:run")(config)


def _next(config: Options, done: CommandRun, typed: list[str]) -> str:
    """The command to paste after this one: after a dry run what was `typed`, else by the state of its project."""
    if typed:
        return shlex.join(["ctxr", *(word for word in without_yes(typed) if word != "--dry-run")])
    workdir, made = getattr(config, "workdir", Path("work")), done.artifacts | done.elsewhere
    if getattr(config, config.ARGUMENT, ()) and not (made or workdir.is_dir()):
        return ""  # what was named lies elsewhere, and there is no project
    state = named("ctxr.pipelines.inspection.project_state:project_state")
    with suppress(OSError):  # another process may have removed a folder meanwhile
        return next_step(state(workdir, made))
    return ""


def _own_names(config: Options, found: re.Match[str]) -> str:
    """The options and arguments in a hint that the command has."""
    argument = config.ARGUMENT
    names = {option_name(name): option_name(name) for name in config.describe() if name != argument}
    names |= {"an argument": argument.upper()} if argument in ARTIFACTS else {}
    return " or ".join(names[way] for way in re.split(", | or ", found[1]) if way in names) or found[0]

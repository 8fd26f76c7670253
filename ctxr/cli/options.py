"""The options of a command are the fields of its dataclass, as Typer parameters.

`--config FILE.toml` fills the same class; the command line takes precedence.
"""

import inspect
import tomllib
import typing
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from ctxr.cli.commands import COMMANDS
from ctxr.engine.options import OptionField, convert, described, path_of, typed
from ctxr.errors import DataError, UsageError, did_you_mean

_SHORT = {"workdir": ("-w",), "out": ("-o",), "input": ("-i",)}
_ENVIRONMENT = {"workdir": "CTXR_WORKDIR"}


def as_command(
    config_class: type, body: Callable[[Any, bool], None], arguments: tuple[str, ...] = ()
) -> Callable[..., None]:
    """A Typer command that calls `body(config, as_json)`: its options are the fields of `config_class`.

    `arguments` names the fields that are positional.
    """
    parameters = [inspect.Parameter("ctx", inspect.Parameter.KEYWORD_ONLY, annotation=typer.Context)]
    parameters += [
        _argument(name, option) if name in arguments else _option(name, option.kind, option.default, option.help)
        for name, option in described(config_class).items()
    ]
    parameters.append(
        _option(
            "config", Path | None, None, "Read options from this TOML file; the command line takes precedence.", "FILE"
        )
    )
    parameters.append(_option("json", bool, False, "Print the result as JSON on stdout."))

    def command(**typed_values: Any) -> None:
        context, file, as_json = typed_values.pop("ctx"), typed_values.pop("config"), typed_values.pop("json")
        chosen = {name for name in typed_values if context.get_parameter_source(name).name != "DEFAULT"}
        values = {name: tuple(value) if isinstance(value, list) else value for name, value in typed_values.items()}
        if file is not None:
            loaded = load_toml(file, config_class, context.info_name or "")
            values |= {name: value for name, value in loaded.items() if name not in chosen}
        body(config_class(**values), as_json)

    command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    command.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return command


def load_toml(file: Path, config_class: type, command: str = "") -> dict[str, Any]:
    """Values for the fields of `config_class` from a TOML file, converted to the fields' types.

    A table named after a command, such as `[build-sets]`, holds for that command alone, so one file can serve a whole chain.
    Raises UsageError for a missing file or an unknown key, DataError for broken TOML or a wrong type.
    """
    try:
        loaded = tomllib.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"{file} cannot be read: {error.strerror}", hint="--config names a TOML file") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise DataError(f"{file} is not TOML: {error}") from error
    tables = {key: value for key, value in loaded.items() if isinstance(value, dict)}
    for table in tables:
        if table.replace("_", "-") not in COMMANDS:
            otherwise = f"tables are named after commands: {', '.join(COMMANDS)}"
            hint = did_you_mean(table.replace("_", "-"), COMMANDS, otherwise, "[{}]")
            raise UsageError(f"{file}: unknown table [{table}]", hint=hint)
    own = [table for name, table in tables.items() if name.replace("_", "-") == command]
    plain = {key: value for key, value in loaded.items() if key not in tables}
    other = next(name for name in COMMANDS if name != command)
    elsewhere = f"; a key of another command goes below that command's name, such as [{other}]"
    values: dict[str, Any] = {}
    for part in (plain, *own):
        values |= convert(config_class, part, str(file), elsewhere)
    return values


def _argument(name: str, option: OptionField) -> inspect.Parameter:
    default: Any = list(option.default) if isinstance(option.default, tuple) else option.default
    kind = list[str] if typing.get_origin(option.kind) is tuple else option.kind
    metavar = name.upper()
    argument = typer.Argument(help=option.help, show_default=False, metavar=metavar, parser=_parser(metavar, kind))
    annotation: Any = Annotated[kind | None, argument]
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


def _option(name: str, kind: Any, default: Any, text: str, metavar: str | None = None) -> inspect.Parameter:
    parser = _parser(typed(name), kind)
    if typing.get_origin(kind) is tuple:  # once for each value
        kind, default, metavar = list[str], list(default), metavar or "<str>"
    option = typer.Option(
        typed(name),
        *_SHORT.get(name, ()),
        help=text,
        envvar=_ENVIRONMENT.get(name),
        metavar=metavar or ("<path>" if parser else None),
        show_default=default not in (None, []),
        parser=parser,
    )
    annotation = Annotated[kind, option]
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


def _parser(shown: str, kind: Any) -> Callable[[str], Path] | None:
    """What makes a path of a word, for a field of that kind: an empty one would silently be the current folder."""
    if Path not in (typing.get_args(kind) or (kind,)):
        return None
    return lambda word: path_of(shown, word)

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
from ctxr.engine.options import OptionField, Options, convert, path_of, typed
from ctxr.errors import DataError, UsageError, did_you_mean

_SHORT = {"workdir": ("-w",), "out": ("-o",), "input": ("-i",)}
_ENVIRONMENT = {"workdir": "CTXR_WORKDIR"}


def as_command(
    config_class: type[Options],
    body: Callable[[Options, bool, dict[str, object]], None],
    arguments: tuple[str, ...] = (),
) -> Callable[..., None]:
    """A Typer command that calls `body(config, as_json, meta)`: its options are the fields of `config_class`, `meta` what its
    context shares.

    `arguments` names the fields that are positional.
    """
    parameters = [inspect.Parameter("ctx", inspect.Parameter.KEYWORD_ONLY, annotation=typer.Context)]
    parameters += [
        _argument(name, option) if name in arguments else _option(name, option)
        for name, option in config_class.describe().items()
    ]
    config = OptionField(Path | None, (), "Read options from this TOML file; the command line takes precedence.", None)
    parameters.append(_option("config", config, "FILE"))
    parameters.append(_option("json", OptionField(bool, (), "Print the result as JSON on stdout.", False)))

    def command(**typed_values: Any) -> None:
        context, file, as_json = typed_values.pop("ctx"), typed_values.pop("config"), typed_values.pop("json")
        chosen = {name for name in typed_values if context.get_parameter_source(name).name != "DEFAULT"}
        values = {name: tuple(value) if isinstance(value, list) else value for name, value in typed_values.items()}
        if file is not None:
            loaded = load_toml(file, config_class, context.info_name or "")
            values |= {name: value for name, value in loaded.items() if name not in chosen}
        body(config_class(**values), as_json, context.meta)

    command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    command.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return command


def load_toml(file: Path, config_class: type[Options], command: str = "") -> dict[str, object]:
    """Values for the fields of `config_class` from a TOML file, converted to the fields' types.

    A table named after a command, such as `[build-sets]`, holds for that command alone, so one file can serve a whole chain.
    Raises UsageError for a missing file or an unknown key, DataError for broken TOML or a wrong type.
    """
    try:
        loaded = tomllib.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"{file} cannot be read: {error.strerror}", hint="--config names a TOML file") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
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
    values: dict[str, object] = {}
    for part in (plain, *own):
        values |= convert(config_class, part, str(file), elsewhere)
    return values


def _argument(name: str, option: OptionField) -> inspect.Parameter:
    default: Any = list(option.default) if isinstance(option.default, tuple) else option.default
    kind = list[str] if typing.get_origin(option.kind) is tuple else option.kind
    metavar = name.upper()
    argument = typer.Argument(help=option.help, show_default=False, metavar=metavar, parser=_parser(metavar, option))
    annotation: Any = Annotated[kind | None, argument]
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


def _option(name: str, option: OptionField, metavar: str | None = None) -> inspect.Parameter:
    kind, default, parser = option.kind, option.default, _parser(typed(name), option)
    if typing.get_origin(kind) is tuple:  # once for each value
        kind, default, metavar = list[str], list(default), metavar or "<str>"
    typer_option = typer.Option(
        typed(name),
        *_SHORT.get(name, ()),
        help=option.help,
        envvar=_ENVIRONMENT.get(name),
        metavar=metavar
        or next((f"<{word}>" for word, part in _PARSED.items() if parser and part in _kinds(kind)), None),
        show_default=default not in (None, []),
        parser=parser,
    )
    return inspect.Parameter(
        name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=Annotated[kind, typer_option]
    )


_PARSED = {"path": Path, "float": float, "int": int}
"""Types whose words are read here, by how the help shows them."""


def _kinds(kind: object) -> tuple[object, ...]:
    return typing.get_args(kind) or (kind,)


def _parser(shown: str, option: OptionField) -> Callable[[str], Path | float] | None:
    """What makes a value of a word: an empty path would silently be the current folder, and a number has a range to name."""
    if Path in _kinds(option.kind):
        return lambda word: path_of(shown, word)
    if float in _kinds(option.kind) or int in _kinds(option.kind):
        return lambda word: option.number(shown, word)
    return None

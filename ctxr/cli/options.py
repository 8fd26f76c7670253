"""A command's options are its configuration's fields: one dataclass gives names, types, defaults and help.

So a default is stated once. `--config FILE.toml` fills the same class; what is typed on the command line wins.
"""

import inspect
import tomllib
import typing
from collections.abc import Callable
from dataclasses import MISSING, Field, fields
from pathlib import Path
from typing import Annotated, Any

import typer

from ctxr.cli.commands import COMMANDS
from ctxr.engine.options import OPTION_NAMES, field_texts
from ctxr.errors import DataError, UsageError, did_you_mean

_NAMES = {
    "workdir": ("--workdir", "-w"),
    "out": ("--out", "-o"),
    "input": ("--input", "-i"),
    **{field: (f"--{name}",) for field, name in OPTION_NAMES.items()},
}
_KINDS: dict[Any, str] = {
    float: "a number",
    int: "a whole number",
    bool: "true or false",
    str: "a text in quotes",
    Path: "a path in quotes",
}
_ENVIRONMENT = {"workdir": "CTXR_WORKDIR"}


def as_command(
    config_class: type, body: Callable[[Any, bool], None], arguments: tuple[str, ...] = ()
) -> Callable[..., None]:
    """A Typer command that calls `body(config, as_json)`: its options are the fields of `config_class`.

    `arguments` names the fields that are positional.
    """
    hints = typing.get_type_hints(config_class)
    texts = field_texts(config_class)
    parameters = [_context_parameter()]
    parameters += [
        _parameter(field, hints[field.name], texts.get(field.name, ""), field.name in arguments)
        for field in fields(config_class)
    ]
    parameters.append(_option("config", Path | None, None, "Read options from this TOML file; typed ones win.", "FILE"))
    parameters.append(_option("json", bool, False, "Print the result as JSON on stdout."))

    def command(**given: Any) -> None:
        context, file, as_json = given.pop("ctx"), given.pop("config"), given.pop("json")
        typed = {name for name in given if context.get_parameter_source(name).name != "DEFAULT"}
        values = {name: tuple(value) if isinstance(value, list) else value for name, value in given.items()}
        if file is not None:
            loaded = load_toml(file, config_class, context.info_name or "")
            values |= {name: value for name, value in loaded.items() if name not in typed}
        body(config_class(**values), as_json)

    command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    command.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return command


def option_names(field: str) -> tuple[str, ...]:
    """How a field is typed, the long name first."""
    return _NAMES.get(field, (f"--{field.replace('_', '-')}",))


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
    hints = typing.get_type_hints(config_class)
    tables = {key: value for key, value in loaded.items() if isinstance(value, dict)}
    for table in tables:
        if table.replace("_", "-") not in COMMANDS:
            otherwise = f"tables are named after commands: {', '.join(COMMANDS)}"
            hint = did_you_mean(table.replace("_", "-"), COMMANDS, otherwise, "[{}]")
            raise UsageError(f"{file}: unknown table [{table}]", hint=hint)
    own = [table for name, table in tables.items() if name.replace("_", "-") == command]
    plain = {key: value for key, value in loaded.items() if key not in tables}
    values: dict[str, Any] = {}
    for part in (plain, *own):
        seen: dict[str, str] = {}
        for key, value in part.items():
            name = key.replace("-", "_")
            if name in seen:
                raise UsageError(f"{file}: {seen[name]!r} and {key!r} are the same key", hint="keep one of them")
            seen[name] = key
            if name not in hints:
                raise UsageError(f"{file}: unknown key {key!r}", hint=_meant(key, sorted(hints), command))
            values[name] = _convert(file, key, value, hints[name])
    return values


def _meant(key: str, known: list[str], command: str) -> str:
    other = next(name for name in COMMANDS if name != command)
    listed = f"known: {', '.join(known)}; a key of another command goes below that command's name, such as [{other}]"
    return did_you_mean(key.replace("-", "_"), known, listed)


def _convert(file: Path, key: str, value: Any, kind: Any) -> Any:
    kinds = [one for one in typing.get_args(kind) or (kind,) if one is not type(None)]
    if typing.get_origin(kind) is tuple:
        return tuple(str(part) for part in value) if isinstance(value, list) else (str(value),)
    if Path in kinds and isinstance(value, str):
        return _path(f"{file}: {key}", value)
    if float in kinds and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if not any(isinstance(value, one) and isinstance(value, bool) == (one is bool) for one in kinds):
        wanted = " or ".join(_KINDS.get(one, one.__name__) for one in kinds)
        raise UsageError(f"{file}: {key} = {value!r} is not {wanted}", hint="see the command's --help")
    return value


def _context_parameter() -> inspect.Parameter:
    return inspect.Parameter("ctx", inspect.Parameter.KEYWORD_ONLY, annotation=typer.Context)


def _parameter(field: "Field[Any]", kind: Any, text: str, positional: bool) -> inspect.Parameter:
    if field.default is MISSING:
        raise TypeError(f"the field {field.name} needs a default")
    if positional:
        default: Any = list(field.default) if isinstance(field.default, tuple) else field.default
        kind = list[str] if typing.get_origin(kind) is tuple else kind
        metavar = field.name.upper()
        argument = typer.Argument(help=text, show_default=False, metavar=metavar, parser=_parser(metavar, kind))
        annotation: Any = Annotated[kind | None, argument]
        return inspect.Parameter(field.name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)
    return _option(field.name, kind, field.default, text)


def _option(name: str, kind: Any, default: Any, text: str, metavar: str | None = None) -> inspect.Parameter:
    names = option_names(name)
    parser = _parser(names[0], kind)
    if typing.get_origin(kind) is tuple:  # once for each value
        kind, default, metavar = list[str], list(default), metavar or "<str>"
    option = typer.Option(
        *names,
        help=text,
        envvar=_ENVIRONMENT.get(name),
        metavar=metavar or ("<path>" if parser else None),
        show_default=default not in (None, []),
        parser=parser,
    )
    annotation = Annotated[kind, option]
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


def _parser(typed: str, kind: Any) -> Callable[[str], Path] | None:
    """What makes a path of a word, for a field of that kind: an empty one would silently be the current folder."""
    if Path not in (typing.get_args(kind) or (kind,)):
        return None
    return lambda word: _path(typed, word)


def _path(typed: str, word: str | Path) -> Path:
    if not str(word):
        raise UsageError(f"{typed} is an empty name", hint="name a file or folder; the current folder is called .")
    return Path(word)

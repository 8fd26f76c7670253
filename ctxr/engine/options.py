"""Options of a verb, declared once: names, types, defaults, help, ranges, identity and the command to repeat follow from the fields."""

import ast
import functools
import inspect
import math
import re
import shlex
import sys
import typing
from collections.abc import Callable, Iterator, Mapping
from dataclasses import MISSING, dataclass, fields, is_dataclass, replace
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any, ClassVar, Self

from ctxr.errors import DataError, UsageError, did_you_mean
from ctxr.store.paths import is_url

OPTION_NAMES = {
    # no name of a field: a word of Python or a type, a method of the class that it extends
    "platform_of": "from",
    "raters": "votes",
    "changes": "set",
}
"""Words of the command line for fields, where they differ from their names."""

LAST = ("Expert", "Cluster")
"""Headings of help that stand below those of every subject."""

GIVEN_IN_PYTHON = "FILE"
"""What a command line says in place of a file whose content a caller from Python gave."""

_FIELDS = {word: field for field, word in OPTION_NAMES.items()}
MOST_KEYS = 40  # of more, an error lists the nearest
_KINDS: dict[type, str] = {
    float: "a number",
    int: "a whole number",
    bool: "true or false",
    str: "a text in quotes",
    Path: "a path in quotes",
}


@dataclass(frozen=True)
class Range:
    """A number from `low` to `high`, both included unless `above`; NaN lies outside.

    Attributes:
        meaning: what the number is, with its unit: the hint of an error.
        above: whether `low` itself lies outside.
    """

    low: float
    high: float
    meaning: str
    above: bool = False

    def require(self, spelled: Callable[[], str], value: float) -> None:
        """Raises UsageError for a value outside; `spelled` gives how the option is typed, with {} for its value."""
        if not (self.low < value <= self.high if self.above else self.low <= value <= self.high):
            raise UsageError(f"{spelled().format(value)} is out of range", hint=f"give {self.meaning}")


@dataclass(frozen=True)
class Choices:
    """One of a few words; `synonyms` are pairs of what people type and the word that they mean."""

    words: tuple[str, ...]
    synonyms: tuple[tuple[str, str], ...] = ()

    def require(self, spelled: Callable[[], str], value: str) -> None:
        """Raises UsageError for an unknown word; `spelled` is as in `Range.require`."""
        if value not in self.words:
            option, word = spelled(), dict(self.synonyms).get(value, value)
            sentence = f"{option.format(value)} is unknown" if value else f"{option.format('').rstrip(' =')} is missing"
            hint = did_you_mean(word, self.words, f"choose one of {', '.join(self.words)}", option)
            raise UsageError(sentence, hint=hint)


class DeviceChoices(Choices):
    """Devices of torch; one that this machine cannot have is refused before torch is loaded."""

    def require(self, spelled: Callable[[], str], value: str) -> None:
        """Also raises UsageError for a device that needs another system or a missing driver."""
        value = re.sub("^(cuda):[0-9]{1,3}$", r"\1", value)
        lacking = value == "mps" and sys.platform != "darwin"
        if value == "cuda" and sys.platform == "linux":
            drivers = ("nvidiactl", "nvidia0", "nvmap", "dxg", "kfd")
            lacking = not any(Path("/dev", name).exists() for name in drivers)
        if lacking:
            hint = "use --device auto or --device cpu"
            raise UsageError(f"device {value} is not available on this machine", hint=hint)
        super().require(spelled, value)


DEVICE = DeviceChoices(("auto", "cpu", "cuda", "mps"), (("gpu", "cuda"), ("metal", "mps")))


class NotDecisive:
    """Marks an option on which the result does not depend."""


Workdir = Annotated[Path, "Project folder, in which each command finds the results of earlier ones."]
Seed = Annotated[int, Range(0, math.inf, "a whole number, 0 or more")]
Switch = Annotated[bool, NotDecisive]
Price = Annotated[float, NotDecisive, Range(0, 10**9, "an amount of money, 0 or more")]
Device = Annotated[str, NotDecisive, DEVICE]
FreeText = Annotated[str, NotDecisive]
"""A text that decides the result through what it names, or not at all."""


@dataclass(frozen=True)
class OptionField:
    """One field: its type without markers, the markers, its help on one line, its default, the heading that it stands under."""

    kind: Any
    markers: tuple[object, ...]
    help: str
    default: Any
    panel: str = ""

    @functools.cached_property
    def decides(self) -> bool:
        """Whether the result depends on the value: what a path names decides by its content, never the path."""
        return NotDecisive not in self.markers and self.kind not in (Path, Path | None)

    def hint(self) -> str:
        """What to give, by the range; "" without one."""
        return next((f"give {marker.meaning}" for marker in self.markers if isinstance(marker, Range)), "")

    def number(self, shown: str, word: str) -> float:
        """The number that `word` spells, for the option typed as `shown`. Raises UsageError for another word."""
        kind = float if float in (typing.get_args(self.kind) or (self.kind,)) else int
        try:
            return kind(word)
        except ValueError as error:
            hint = self.hint() or "see the command's --help"
            raise UsageError(f"{shown} {word} is not {_KINDS[kind]}", hint=hint) from error


@dataclass(frozen=True)
class Options:
    """Base of the options of all verbs: frozen dataclasses whose fields have a default and a docstring each, or a text in their type.

    An option decides the result unless it is a path or marked `NotDecisive`. The content at a path decides through the parents of
    the artifact and `Inputs.key`.
    """

    COMMAND: ClassVar[str] = ""
    ARGUMENT: ClassVar[str] = ""
    """The option that is given without its name."""
    FOLDER: ClassVar[str] = ""
    """Folder in the workdir for the artifact, unless `out` names another; {NAME} stands for an option."""
    TOGETHER: ClassVar[bool] = False
    """Whether processes of torchrun work on one result, which the first of them writes."""
    RECORDED: ClassVar[bool] = True
    """Whether the history of the project has a line for each run."""
    SYNONYMS: ClassVar[Mapping[str, str]] = {}
    """Keys that people give, each with the one that they mean."""
    FILE: ClassVar[str] = ""
    """The option that names a TOML file with the fields of the class that sets it: none of them is an option of its own."""
    PANELS: ClassVar[str] = ""
    """What help puts under a heading, as in `Quality: brisque max_text; Cluster: rank`; the others are everyday options."""

    @classmethod
    @functools.cache
    def describe(cls) -> dict[str, OptionField]:
        """The options by field name: everyday ones, then by subject, expert and cluster last; those by keyword alone behind the others."""
        # the text under each field of a dataclass and of those it extends, on one line
        texts: dict[str, str] = {}
        for owner in reversed([one for one in cls.__mro__ if is_dataclass(one) and one is not Options]):
            (body,) = ast.parse(inspect.cleandoc(inspect.getsource(owner))).body
            name = ""
            for node in getattr(body, "body", []):
                if name and isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
                    texts[name] = " ".join(str(node.value.value).split())
                named = isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name)
                name = node.target.id if named else ""
        hints = typing.get_type_hints(cls, include_extras=True)
        parts = [
            part.partition(":") for owner in reversed(cls.__mro__) for part in vars(owner).get("PANELS", "").split(";")
        ]
        panels = {name: heading.strip() for heading, _, names in parts for name in names.split()}
        options = {}
        for field in sorted(fields(cls), key=lambda field: field.kw_only is True):
            if field.default is MISSING:
                raise TypeError(f"the option {field.name} of {cls.__name__} needs a default")
            kind = hints[field.name]
            kind, *markers = typing.get_args(kind) if typing.get_origin(kind) is typing.Annotated else [kind]
            shared = next((marker for marker in markers if isinstance(marker, str)), "")
            text, panel = texts.get(field.name, shared), panels.get(field.name, "")
            options[field.name] = OptionField(kind, tuple(markers), text, field.default, panel)
        order = dict.fromkeys(["", *[name for name in panels.values() if name not in LAST], *LAST])
        return {name: option for panel in order for name, option in options.items() if option.panel == panel}

    @classmethod
    def in_file(cls) -> "type[Options] | None":
        """The class whose fields the file of `FILE` gives; None without one."""
        return next((owner for owner in cls.__mro__ if vars(owner).get("FILE")), None)

    def folder(self) -> Path:
        """Where the artifact is written, of a verb that writes one."""
        return Path(self.out or self.workdir / self.FOLDER.format(**vars(self)))  # type: ignore[attr-defined]

    def spelled(self, name: str) -> str:
        """How an option is given, with {} for its value."""
        return f"{name.upper() if name == self.ARGUMENT else option_name(name)} {{}}"

    def rules(self) -> Iterator[tuple[str, str]]:
        """(sentence, hint) for each combination of values that is not allowed."""
        yield from ()

    def check(self) -> Self:
        """The options themselves. Raises UsageError for the first value that is not allowed, or path to read that does not exist."""
        for name, option in self.describe().items():
            for marker in option.markers:
                if isinstance(marker, Range | Choices) and (value := getattr(self, name)) is not None:
                    marker.require(functools.partial(self.spelled, name), value)
        for sentence, hint in self.rules():
            raise UsageError(sentence, hint=hint)
        for name, option in self.describe().items():
            path = getattr(self, name)
            if option.kind == Path | None and name != "out" and path is not None and not path.exists():
                wanted = option.help.partition(";")[0].partition(". ")[0].rstrip(".")
                wanted = wanted if wanted[1:2].isupper() else wanted[:1].lower() + wanted[1:]
                raise UsageError(f"{path} does not exist", hint=f"check the path; expected: {wanted}")
        return self

    def key(self) -> dict[str, object]:
        """The options that decide the result, as manifests and hashes hold them."""
        return {name: getattr(self, name) for name, option in self.describe().items() if option.decides}

    def decisive(self) -> Self:
        """The same options with those on which the result does not depend, such as folders, at their defaults."""
        return replace(self, **{name: option.default for name, option in self.describe().items() if not option.decides})

    def command_line(self, *words: str, **changes: Any) -> str:
        """The command that was typed, with `words` and `changes`; what is at its default is left out, and --yes too."""
        changed, source = replace(self, **changes), self.in_file()
        filed = source.describe() if source else {}
        line = ["ctxr", self.COMMAND, *words]
        for field in sorted(fields(self), key=lambda field: field.name != self.ARGUMENT):
            value, option = getattr(changed, field.name), option_name(field.name)
            if value == field.default or field.name == "yes":
                continue
            if field.name in filed:
                line += [] if option_name(self.FILE) in line else [option_name(self.FILE), GIVEN_IN_PYTHON]
                continue
            if isinstance(value, bool):
                line.append(option if value else option.replace("--", "--no-", 1))
                continue
            for part in value if isinstance(value, tuple) else (value,):
                line += [str(part)] if field.name == self.ARGUMENT else [option, str(part)]
        return shlex.join(line)


@dataclass(frozen=True, kw_only=True)
class EndpointOptions(Options):
    """Options of what asks a model behind an endpoint: the model, the key, parallel requests and their price."""

    PANELS = "Endpoint: side key_from at_once timeout max_tokens insecure; Cost: price_in price_out max_cost dry_run"

    model: str = ""
    """Name of the model, as the server knows it."""
    side: Annotated[int, Range(16, math.inf, "pixels of the longer side, at least 16")] = 384
    """Longer side of the sent pictures, in pixels."""
    key_from: FreeText = "CTXR_API_KEY"
    """Environment variable with the API key; a local endpoint needs none."""
    at_once: Annotated[int, NotDecisive, Range(1, math.inf, "a number of requests, at least 1")] = 4
    """Concurrent requests."""
    timeout: Annotated[float, NotDecisive, Range(0, 10**9, "seconds above 0, such as --timeout 120", above=True)] = (
        120.0
    )
    """Seconds before a request without an answer is repeated."""
    max_tokens: Annotated[int, Range(1, math.inf, "a number of tokens, at least 1")] = 64
    """Maximum number of tokens of an answer; reasoning models need thousands."""
    price_in: Price = 0.0
    """Price of a million input tokens."""
    price_out: Price = 0.0
    """Price of a million output tokens."""
    max_cost: Price = 0.0
    """Stop before all replies of this run together cost more; 0 = no limit. The same command with a higher limit resumes."""
    dry_run: Switch = False
    """Estimate requests, tokens and cost, and send nothing."""
    insecure: Switch = False
    """Allow pictures and key to be sent to another machine over plain http."""

    def rules(self) -> Iterator[tuple[str, str]]:
        """A model that can be named, the name of a variable, and prices for a limit of costs."""
        if not self.model.isprintable():
            yield "--model is missing", "--model NAME, as the server calls it"
        if not re.fullmatch(r"[A-Z_][A-Z0-9_]{0,63}", self.key_from):
            # not repeated: it may be the key itself
            yield "--key-from does not name an environment variable", "--key-from CTXR_API_KEY, without the key"
        if self.max_cost and not (self.price_in or self.price_out):
            yield "--max-cost needs prices", "--price-in 2.5 --price-out 10, for a million tokens each"


@dataclass(frozen=True, kw_only=True)
class JudgeEndpointOptions(EndpointOptions):
    """Options of a judge behind an endpoint."""

    PANELS = "Endpoint: model samples"

    samples: Annotated[int, Range(1, math.inf, "a number of answers, at least 1")] = 3
    """Answers of an endpoint judge to each claim, if the server gives no token probabilities."""


def option_name(field: str) -> str:
    """How a field is typed.

    >>> option_name("set_size"), option_name("raters")
    ('--set-size', '--votes')
    """
    return f"--{OPTION_NAMES.get(field, field).replace('_', '-')}"


def convert(cls: type[Options], given: Mapping[str, object], source: str, elsewhere: str = "") -> dict[str, Any]:
    """Values for the fields of a class of options, converted to their types.

    Args:
        given: values by key, in which `-` and `_` are the same. source: the file, or the function, that errors name.
        elsewhere: added to the list of known keys in a hint.

    Raises UsageError for an unknown key, a key that is given twice, and a value of another type.
    """
    options = cls.describe()
    keys: dict[str, str] = {}
    values: dict[str, object] = {}
    for key, value in given.items():
        name = key.replace("-", "_")
        name = name if name in options else _FIELDS.get(name, name)
        if name in keys:
            raise UsageError(f"{source}: {keys[name]!r} and {key!r} are the same key", hint="keep one of them")
        if name not in options:
            valid = sorted(OPTION_NAMES.get(field, field) for field in options)
            listed = f"known: {', '.join(valid)}"
            if len(options) > MOST_KEYS:
                listed = f"the nearest keys are {', '.join(get_close_matches(name, valid, n=3, cutoff=0.0))}"
            hint = did_you_mean(cls.SYNONYMS.get(name, name), valid, f"{listed}{elsewhere}")
            raise UsageError(f"{source}: unknown key {key!r}", hint=hint)
        keys[name], values[name], option = key, value, options[name]
        kind = option.kind
        kinds = [arg for arg in typing.get_args(kind) or (kind,) if arg is not type(None)]
        if typing.get_origin(kind) is tuple:
            parts = value if isinstance(value, list | tuple) else (value,)
            for part in parts:
                if not isinstance(part, str | Path):
                    hint = "ctxr.evaluate() takes functions" if callable(part) else "see the command's --help"
                    raise UsageError(f"{source}: {key} = {part!r} is not a text", hint=hint)
            values[name] = tuple(map(str, parts))
        elif Path in kinds and isinstance(value, str):
            values[name] = path_of(f"{source}: {key}", value)
        elif float in kinds and isinstance(value, int) and not isinstance(value, bool):
            values[name] = float(value)
        elif not any(isinstance(value, one) and isinstance(value, bool) == (one is bool) for one in kinds):
            wanted = " or ".join(_KINDS.get(one, one.__name__) for one in kinds)
            example = "see the command's --help" if option.default in (None, "", ()) else f"{key} = {option.default!r}"
            raise UsageError(f"{source}: {key} = {value!r} is not {wanted}", hint=option.hint() or example)
    return values


def read_toml(file: Path, option: str) -> dict[str, Any]:
    """The content of the TOML file that an option names. Raises UsageError where it cannot be read, DataError for broken TOML."""
    import tomllib  # here, because `ctxr --help` loads this module and reads no file

    try:
        return tomllib.loads(file.read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise UsageError(f"{file} cannot be read: {error.strerror}", hint=f"{option} names a TOML file") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise DataError(f"{file} is not TOML: {error}", hint=f"mend {file}, or move it away") from error


def path_of(typed: str, word: str | Path) -> Path:
    """The path that a word names. Raises UsageError for an empty word, which would mean the current folder, and for a URL."""
    if not str(word):
        raise UsageError(f"{typed} is an empty name", hint="name a file or folder; the current folder is called .")
    if is_url(str(word)):
        what = f"{typed} {word} is a URL; it has to be on a file system, with locks and renames"
        raise UsageError(
            what, hint="ctxr push sends an artifact to a URL, ctxr pull fetches one, ctxr build-sets reads URLs"
        )
    return Path(word)

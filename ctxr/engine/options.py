"""Options of a verb, declared once: names, types, defaults, help, ranges, identity and the command to repeat follow from the fields."""

import ast
import functools
import inspect
import math
import re
import shlex
import sys
import typing
from collections.abc import Iterator, Mapping
from dataclasses import MISSING, dataclass, fields, is_dataclass, replace
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any, ClassVar, Self

from ctxr.errors import UsageError, did_you_mean

OPTION_NAMES = {
    # what a field cannot be called: a word of Python or a type, a method of the class that it extends
    "platform_of": "from",
    "raters": "votes",
    "changes": "set",
}
"""How a field is typed where that is not its own name."""

_FIELDS = {word: field for field, word in OPTION_NAMES.items()}

MOST_KEYS = 40
"""Keys that an error lists; of more, the nearest."""

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

    def problem(self, spelled: str, value: float) -> tuple[str, str] | None:
        """(sentence, hint) for a value outside; None for one inside."""
        inside = self.low < value <= self.high if self.above else self.low <= value <= self.high
        return None if inside else (f"{spelled.format(value)} is out of range", f"give {self.meaning}")


@dataclass(frozen=True)
class Choices:
    """One of a few words.

    Attributes:
        synonyms: (what people type, the word that they mean): the hint suggests it.
    """

    words: tuple[str, ...]
    synonyms: tuple[tuple[str, str], ...] = ()

    def problem(self, spelled: str, value: str) -> tuple[str, str] | None:
        """(sentence, hint) for an unknown word; None for a known one."""
        if value in self.words:
            return None
        sentence = f"{spelled.format(value)} is unknown" if value else f"{spelled.format('').rstrip(' =')} is missing"
        word = dict(self.synonyms).get(value, value)
        return sentence, did_you_mean(word, self.words, f"choose one of {', '.join(self.words)}", spelled)


class DeviceChoices(Choices):
    """Devices of torch; those that this machine cannot have are told before torch is loaded."""

    def problem(self, spelled: str, value: str) -> tuple[str, str] | None:
        """Also for a device without which there can be none: no driver of NVIDIA or AMD, or no macOS."""
        drivers = ("nvidiactl", "nvidia0", "nvmap", "dxg", "kfd")
        lacks_cuda = sys.platform == "linux" and not any(Path("/dev", name).exists() for name in drivers)
        if (value == "cuda" and lacks_cuda) or (value == "mps" and sys.platform != "darwin"):
            return f"device {value} is not available on this machine", "use --device auto or --device cpu"
        return super().problem(spelled, value)


DEVICE = DeviceChoices(("auto", "cpu", "cuda", "mps"), (("gpu", "cuda"), ("metal", "mps")))
"""Where a model runs."""


class NotDecisive:
    """Marks an option on which the result does not depend."""


Seed = Annotated[int, Range(0, math.inf, "a whole number, 0 or more")]
"""A seed that every generator accepts."""

FreeText = Annotated[str, NotDecisive]
"""An option that decides the result through what it resolves to, or not at all."""

Switch = Annotated[bool, NotDecisive]
"""A switch that does not decide the result."""

Price = Annotated[float, NotDecisive, Range(0, 10**9, "an amount of money, 0 or more")]
"""An amount of money, which does not decide a result."""

Device = Annotated[str, NotDecisive, DEVICE]
"""Where a model runs, which does not decide a result."""

Workers = Annotated[int, Range(0, 256, "a number up to 256; 0 = half the cores"), NotDecisive]
"""Threads or processes; the result does not depend on their number."""


@dataclass(frozen=True)
class OptionField:
    """One field: its type without markers, the markers, its help on one line, and its default."""

    kind: Any
    markers: tuple[object, ...]
    help: str
    default: Any

    @functools.cached_property
    def decides(self) -> bool:
        """Whether the result depends on the value: what a path names decides by its content, never the path."""
        return NotDecisive not in self.markers and self.kind not in (Path, Path | None)

    def hint(self) -> str:
        """What to give: the meaning of the range, "" for an option without one."""
        return next((f"give {marker.meaning}" for marker in self.markers if isinstance(marker, Range)), "")

    def number(self, shown: str, word: str) -> float:
        """The number that a word stands for, of an option typed as `shown`. Raises UsageError for another word."""
        kind = float if float in (typing.get_args(self.kind) or (self.kind,)) else int
        try:
            return kind(word)
        except ValueError as error:
            hint = self.hint() or "see the command's --help"
            raise UsageError(f"{shown} {word} is not {_KINDS[kind]}", hint=hint) from error


@dataclass(frozen=True)
class Options:
    """Base of the options of all verbs; subclasses are frozen dataclasses whose fields have a default and a docstring each.

    An option decides the result unless it is a path or marked `NotDecisive`. What is read from a path decides through the parents of
    the artifact and `Inputs.key`.
    """

    COMMAND: ClassVar[str] = ""
    SYNONYMS: ClassVar[Mapping[str, str]] = {}
    """Keys that people give, each with the one that they mean."""
    ORDER: ClassVar[tuple[str, ...]] = ()
    """Fields in the order of help and keys, where inherited ones stand among its own; the others follow, those by keyword alone last."""

    @classmethod
    @functools.cache
    def describe(cls) -> dict[str, OptionField]:
        """The options by field name, in their order."""
        texts = _field_texts(cls)
        hints = typing.get_type_hints(cls, include_extras=True)
        options = {}
        rank = {name: number for number, name in enumerate(cls.ORDER, -len(cls.ORDER))}
        for field in sorted(fields(cls), key=lambda one: (rank.get(one.name, 0), one.kw_only)):
            if field.default is MISSING:
                raise TypeError(f"the option {field.name} of {cls.__name__} needs a default")
            kind, markers = hints[field.name], ()
            if typing.get_origin(kind) is typing.Annotated:
                kind, *others = typing.get_args(kind)
                markers = tuple(others)
            options[field.name] = OptionField(kind, markers, texts.get(field.name, ""), field.default)
        return options

    def spelled(self, name: str) -> str:
        """How an option is given, with {} for its value."""
        return f"{typed(name)} {{}}"

    def rules(self) -> Iterator[tuple[str, str]]:
        """(sentence, hint) for each combination that means nothing; what the range of one field cannot say."""
        yield from ()

    def check(self) -> Self:
        """The options themselves. Raises UsageError, one sentence and a hint, for the first value that is not admitted, or the first
        path to read that does not exist."""
        for name, option in self.describe().items():
            value = getattr(self, name)
            for marker in option.markers:
                if (
                    isinstance(marker, Range | Choices)
                    and value is not None
                    and (wrong := marker.problem(self.spelled(name), value))
                ):
                    raise UsageError(wrong[0], hint=wrong[1])
        for sentence, hint in self.rules():
            raise UsageError(sentence, hint=hint)
        for name, option in self.describe().items():
            path = getattr(self, name)
            if option.kind == Path | None and name != "out" and path is not None and not path.exists():
                wanted = option.help.partition(";")[0].rstrip(".")
                raise UsageError(f"{path} does not exist", hint=f"check the path; expected: {wanted}")
        return self

    def key(self) -> dict[str, object]:
        """The options that decide the result, as manifests and hashes hold them."""
        return {name: getattr(self, name) for name, option in self.describe().items() if option.decides}

    def decisive(self) -> Self:
        """The same options with those on which the result does not depend, such as places, at their defaults."""
        return replace(self, **{name: option.default for name, option in self.describe().items() if not option.decides})

    @classmethod
    def parse(cls, values: Mapping[str, object], source: str) -> Self:
        """Options from the keys and values of a TOML file or a manifest, which `source` names. Raises what `convert` raises."""
        return cls(**convert(cls, values, source))

    def command_line(self, *words: str, **changes: Any) -> str:
        """The command that was typed, with `words` and `changes`; what is at its default is left out.

        >>> from pathlib import Path
        >>> @dataclass(frozen=True)
        ... class Copy(Options):
        ...     COMMAND = "copy"
        ...     workdir: Path = Path("work")
        ...     fast: bool = False
        >>> Copy(Path("my work")).command_line(fast=True)
        "ctxr copy --workdir 'my work' --fast"
        """
        changed = replace(self, **changes)
        line = ["ctxr", self.COMMAND, *words]
        for field in fields(self):
            value = getattr(changed, field.name)
            if value == field.default:
                continue
            if isinstance(value, bool):
                line.append(typed(field.name) if value else typed(field.name).replace("--", "--no-", 1))
                continue
            for one in value if isinstance(value, tuple) else (value,):
                line += [typed(field.name), str(one)]
        return shlex.join(line)


@dataclass(frozen=True, kw_only=True)
class EndpointOptions(Options):
    """Options of whatever asks a model behind an endpoint: the model, the key, parallel requests and their price."""

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
    """Most tokens of an answer; reasoning models need thousands."""
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

    samples: Annotated[int, Range(1, math.inf, "a number of answers, at least 1")] = 3
    """Answers of an endpoint judge to each claim, where the server tells no probabilities of tokens."""


def typed(field: str) -> str:
    """How a field is typed.

    >>> typed("set_size"), typed("raters")
    ('--set-size', '--votes')
    """
    return f"--{OPTION_NAMES.get(field, field).replace('_', '-')}"


def convert(cls: type[Options], given: Mapping[str, object], source: str, elsewhere: str = "") -> dict[str, Any]:
    """Values for the fields of a class of options, converted to their types.

    Args:
        given: values by key; `-` and `_` are the same in a key.
        source: where the values come from, for errors. elsewhere: added to the list of known keys in a hint.

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
            too_long = len(options) > MOST_KEYS
            valid = [OPTION_NAMES.get(field, field) for field in options]
            listed = get_close_matches(name, valid, n=3, cutoff=0.0) if too_long else sorted(valid)
            keys_line = f"{'the nearest keys are' if too_long else 'known:'} {', '.join(listed)}"
            meant = cls.SYNONYMS.get(name, name)
            hint = did_you_mean(meant, sorted(valid), f"{keys_line}{elsewhere}")
            raise UsageError(f"{source}: unknown key {key!r}", hint=hint)
        keys[name] = key
        values[name] = _converted(source, key, value, options[name])
    return values


def _converted(source: str, key: str, value: object, option: OptionField) -> object:
    kind = option.kind
    kinds = [arg for arg in typing.get_args(kind) or (kind,) if arg is not type(None)]
    if typing.get_origin(kind) is tuple:
        return tuple(str(part) for part in value) if isinstance(value, list) else (str(value),)
    if Path in kinds and isinstance(value, str):
        return path_of(f"{source}: {key}", value)
    if float in kinds and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if not any(isinstance(value, one) and isinstance(value, bool) == (one is bool) for one in kinds):
        wanted = " or ".join(_KINDS.get(one, one.__name__) for one in kinds)
        example = "see the command's --help" if option.default in (None, "", ()) else f"{key} = {option.default!r}"
        raise UsageError(f"{source}: {key} = {value!r} is not {wanted}", hint=option.hint() or example)
    return value


def path_of(typed: str, word: str | Path) -> Path:
    """The path that a word names. Raises UsageError for an empty word, which would mean the current folder."""
    if not str(word):
        raise UsageError(f"{typed} is an empty name", hint="name a file or folder; the current folder is called .")
    return Path(word)


def _field_texts(cls: type) -> dict[str, str]:
    """The text under each field of a dataclass and of those it extends, on one line."""
    texts: dict[str, str] = {}
    for owner in reversed([ancestor for ancestor in cls.__mro__ if is_dataclass(ancestor) and ancestor is not Options]):
        (body,) = ast.parse(inspect.cleandoc(inspect.getsource(owner))).body
        name = ""
        for node in getattr(body, "body", []):
            if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
                name = node.target.id
                continue
            if name and isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
                texts[name] = " ".join(str(node.value.value).split())
            name = ""
    return texts

"""The verbs as functions: options by keyword, with the checks of the command line, and the report as the result."""

import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from inspect import Parameter, Signature
from keyword import iskeyword

from ctxr.cli.render import Terminal
from ctxr.cli.verbs import VERBS, named
from ctxr.cli.words import LINES, ONLY_LOOK
from ctxr.engine.history import recorded
from ctxr.engine.options import OPTION_NAMES, OptionField, Options, convert
from ctxr.engine.progress import Progress, Silent
from ctxr.engine.report import VerbReport
from ctxr.errors import CtxrError, CtxrWarning, DryRun, UsageError

OURS = ("ctxr", "contextlib")
"""Packages between the caller and what warns."""


@contextmanager
def hinted() -> Iterator[None]:
    """Put the hint of an error below it in tracebacks."""
    try:
        yield
    except CtxrError as error:
        if error.hint:
            error.add_note(error.hint)
        raise


class Warnings(Progress):
    """A `Progress` whose warnings are CtxrWarnings, at the line that called ctxr; notes and bars are not shown."""

    def __reduce__(self) -> tuple[type[Silent], tuple[()]]:
        """Silent in another process."""
        return Silent, ()

    def warn(self, text: str) -> None:
        """Something that may surprise, or that makes figures wrong."""
        level, frame = 1, sys._getframe()
        while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] in OURS:
            level, frame = level + 1, frame.f_back
        warnings.warn(text, CtxrWarning, stacklevel=level)

    alert = warn


class WarningsAndBars(Warnings, Terminal):
    """The same, with notes and bars on stderr."""


def keyword_of(field: str) -> str:
    """What an option is called in Python: as on the command line, where Python allows it."""
    word = OPTION_NAMES.get(field, field)
    return field if iskeyword(word) else word


def __getattr__(name: str) -> Callable[..., VerbReport | dict[str, object]]:
    """The verb that is called so in Python, such as `build_sets`.

    It takes the options of the command, and `progress=True` to show notes and bars. What the command exits with a code for after its
    report (`VerbReport.finding`) is a warning; whatever else the command fails with is raised.
    """
    word, source = name.replace("_", "-"), f"ctxr.{name}()"
    if word not in VERBS:
        raise AttributeError(f"there is no verb {name!r}")
    kind: type[Options] = named(VERBS[word].config)
    described, argument = kind.describe(), kind.ARGUMENT
    if plans := "dry_run" not in described and word not in ONLY_LOOK:
        described = described | {
            "dry_run": OptionField(bool, (), "Write nothing; return what would be done, and how much.", False)
        }

    @hinted()
    def function(*given: object, progress: bool = False, **options: object) -> VerbReport | dict[str, object]:
        if given and given != (None,):
            if not argument or argument in options:
                raise UsageError(f"{source}: {given[0]!r} is one argument too many", hint="give options by name")
            options[argument] = given[0] if len(given) == 1 else given
        dry_run = plans and bool(options.pop("dry_run", False))
        unset = {key for key, option in described.items() if option.default is None and options.get(key, 0) is None}
        values = convert(kind, {key: value for key, value in options.items() if key not in unset}, source)
        config, shown = kind(**values).check(), WarningsAndBars() if progress else Warnings()
        try:
            with recorded(config, dry_run=dry_run):
                report: VerbReport = named(f"{VERBS[word].module}:run")(config, shown)
        except DryRun as plan:
            return {"would": plan.message, "plan": {**plan.plan}}
        if report.finding:
            shown.warn(report.finding.message)
        return report

    parameters, texts = [], [LINES[word], "", "Args:"]
    for field in sorted(described, key=lambda field: field != argument):
        option, by_place = described[field], Parameter.POSITIONAL_OR_KEYWORD
        how = by_place if field == argument else Parameter.KEYWORD_ONLY
        parameters.append(Parameter(keyword_of(field), how, default=option.default, annotation=option.kind))
        texts.append(f"    {keyword_of(field)}: {option.help}")
    parameters.append(Parameter("progress", Parameter.KEYWORD_ONLY, default=False, annotation=bool))
    function.__name__ = function.__qualname__ = name
    function.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
    function.__doc__ = "\n".join([*texts, "    progress: Show notes and bars."])
    return function

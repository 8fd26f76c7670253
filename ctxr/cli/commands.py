"""The commands: the verbs, and the demo, which runs them; what help says of each, and how one becomes a Typer command.

The options of a command are the fields of its dataclass; `--config FILE.toml`, or else `ctxr.toml` in the current folder, fills the
same class, and the command line takes precedence.
"""

import inspect
import typing
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from ctxr.cli.verbs import VERBS, Command, named
from ctxr.engine.options import OptionField, Options, convert, option_name, path_of, read_toml
from ctxr.errors import UsageError, did_you_mean

COMMANDS = {
    **VERBS,
    "run": Command("ctxr.cli.repeat", "Repeat", "repeated", resumes=True),
    "init": Command("ctxr.cli.init", "Init", "settings"),
    "demo": Command("ctxr.synthetic.demo", "Demo", "ctxr.synthetic.demo:demo_tables", resumes=True),
}
LINES = {
    "build-sets": "Build sets of ten minimally contrastive images from videos and photos.",
    "filter": "Remove low-quality, text-heavy or small images and replace them.",
    "merge": "Merge what the ranks of build-sets or filter have made into one artifact.",
    "plan": "Estimate the effort of a crowd study: answers, cost with fees, hours, pay per hour.",
    "export-tasks": "Write tasks for the crowd, for the built-in server or a crowdsourcing platform.",
    "import-answers": "Validate answers from the server or a platform and merge them into the judgments.",
    "aggregate": "Select descriptions, measure accuracy and agreement, and write the dataset.",
    "workers": "Estimate the accuracy of each worker with an interval; block, allow, or undo, each with a reason.",
    "report": "Write an HTML report on a chain of artifacts, readable in any browser without a server.",
    "export": "Export image sets in a common format, or as a recipe without pixels.",
    "rebuild": "Rebuild the images of a recipe from its videos and photos, which are recognised by content.",
    "verify": "Verify that the images of a recipe or an artifact match their sources, and list those that do not.",
    "build-documents": "Build documents of several sentences and images with known links from the captions of a dataset.",
    "pairs": "Make pairs of image, captions and text, entailed or not, to train an entailment classifier on.",
    "stats": "Describe a benchmark, built or published: counts, language, positions, distances, phenomena, leakage.",
    "audit": "Test a benchmark for shortcuts: rules that ignore the description must stay at chance.",
    "train": "Train a model with a published recipe or your own, and score the validation and test queries.",
    "regions": "Extract region features and boxes of every image, for models that use regions.",
    "listen": "Evaluate a multimodal language model on the benchmark through an OpenAI-compatible endpoint.",
    "revise-labels": "Find captions that are also true of other images and add them as a round of judgments that can be undone.",
    "eval": "Evaluate and compare runs, with confidence intervals and error analysis.",
    "search": "Find a picture by words, by a drawing, or by another picture: on a page, or printed with --text.",
    "serve": "Serve annotation pages from this machine until Ctrl-C; every answer is saved immediately.",
    "status": "Show what a project holds, what is stale or unfinished, and the next command.",
    "doctor": "Check this machine or an artifact, and suggest a fix for each problem.",
    "run": "Repeat the commands whose results are stale, in order; never one that costs money or people.",
    "init": "Write a commented ctxr.toml, from which every command in this folder reads its options.",
    "demo": "Draw a small synthetic world, run the pipeline on it, and compare with the ground truth.",
}
_FAILED = (
    "The exit code is 0 when some sources failed (a line at the end counts them), and 3 when no source can be used."
)

MORE = {
    "build-sets": _FAILED,
    "filter": _FAILED,
    "merge": "The result is byte-equal to a run without ranks. The exit code is 4 while a rank is at work, and when a source was not "
    "finished by any rank.",
    "plan": "It fails below a minimum hourly pay.",
    "export-tasks": "Tasks are describe, retrieve, dialogue, verify, tag, entail and audit.",
    "import-answers": "Importing the same answers twice changes nothing.",
    "report": "It shows sets, timelines, exclusions with reasons, distributions, results and provenance.",
    "rebuild": "The exit code is 4 when a set could not be rebuilt because a source is missing.",
    "verify": "Every video frame is decoded again; a photo is looked up among the sources by its hash.",
    "audit": "The images of a video set come from one shot in temporal order, so the first and last are nearest to the shot's start "
    "and end. Photos have no order, except that the first is the anchor whose neighbours the others are.",
    "listen": "The API key is read from the environment only. The exit code is 4 when --max-cost was reached before every query was "
    "answered.",
}
"""What the help of a command adds to its summary."""

SETTINGS = Path("ctxr.toml")
"""What every command reads where `--config` names no other file."""

FLAGS = {
    "json": "Print the result as JSON on stdout.",
    "quiet": "Show no progress and no notes; warnings and errors stay.",
    "verbose": "Show what is decided: options, fingerprints, and why a result is made again.",
}
"""Switches of every command."""

_ONLY_LOOK = ("workers", "report", "verify", "stats", "audit", "search", "serve", "status", "doctor", "init", "demo")
"""Commands that write no artifact, and need no --dry-run."""

_SHORT = {"workdir": ("-w",), "out": ("-o",), "input": ("-i",), "yes": ("-y",), "quiet": ("-q",), "verbose": ("-v",)}
_ENVIRONMENT = {"workdir": "CTXR_WORKDIR"}
_PARSED = {"path": Path, "float": float, "int": int}
"""Types whose words are read here, by how the help shows them."""


def as_function(
    command: Command, body: Callable[[Command, Options, set[str], dict[str, object]], None]
) -> Callable[..., None]:
    """What Typer makes a command of: its parameters are the options of `command`; it calls `body(command, options, flags, meta)`, where
    `flags` are those that were given, and `meta` is what its context shares."""
    config_class: type[Options] = named(command.config)
    parameters = [inspect.Parameter("ctx", inspect.Parameter.KEYWORD_ONLY, annotation=typer.Context)]
    parameters += [
        _parameter(name, option, name == config_class.ARGUMENT) for name, option in config_class.describe().items()
    ]
    file_help = "Read options from this TOML file, by default ctxr.toml; the command line takes precedence."
    parameters.append(_parameter("config", OptionField(Path | None, (), file_help, None), metavar="FILE"))
    texts = {"dry_run": "Say what would be written, and write nothing."} | FLAGS
    if "dry_run" in config_class.describe() or config_class.COMMAND in _ONLY_LOOK:
        texts = FLAGS
    parameters += [_parameter(name, OptionField(bool, (), text, False)) for name, text in texts.items()]

    def function(**typed_values: Any) -> None:
        context, file = typed_values.pop("ctx"), typed_values.pop("config")
        flags = {name for name in texts if typed_values.pop(name)}
        file = file or (SETTINGS if SETTINGS.is_file() else None)
        chosen = {name for name in typed_values if context.get_parameter_source(name).name != "DEFAULT"}
        values = {name: tuple(value) if isinstance(value, list) else value for name, value in typed_values.items()}
        if file is not None:
            loaded = load_toml(file, config_class, context.info_name or "")
            values |= {name: value for name, value in loaded.items() if name not in chosen}
        body(command, config_class(**values), flags, context.meta)

    function.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    function.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return function


def load_toml(file: Path, config_class: type[Options], command: str = "") -> dict[str, object]:
    """Values for the fields of `config_class` from a TOML file, converted to the fields' types; a table named after a command, such as
    `[build-sets]`, holds for that command alone, so one file can serve a whole chain.

    Raises UsageError for a missing file or an unknown key, DataError for broken TOML or a wrong type.
    """
    loaded = read_toml(file, "--config")
    plain = {key: value for key, value in loaded.items() if not isinstance(value, dict)}
    tables = {key: value for key, value in loaded.items() if isinstance(value, dict)}
    other = next(name for name in COMMANDS if name != command)
    elsewhere = f"; a key of another command goes below that command's name, such as [{other}]"
    values = convert(config_class, plain, str(file), elsewhere)
    for table, part in tables.items():
        name = table.replace("_", "-")
        if name not in COMMANDS:
            hint = did_you_mean(name, COMMANDS, f"tables are named after commands: {', '.join(COMMANDS)}", "[{}]")
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
        )
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=Annotated[kind, info])

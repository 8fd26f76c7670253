"""Write ctxr/__init__.pyi, which type checkers and editors read, from the options of the verbs: `python -m scripts.api_stub`."""

import textwrap
import types
import typing
from pathlib import Path
from typing import Any

import ctxr
from ctxr.api.verbs import keyword_of
from ctxr.cli.verbs import VERBS, named
from ctxr.cli.words import LINES, ONLY_LOOK
from ctxr.engine.options import Choices, OptionField

TARGET = Path(ctxr.__file__).with_suffix(".pyi")
NAMES: dict[str, tuple[str, ...]] = vars(ctxr)["_NAMES"]
VERBS_OF_PYTHON = "ctxr.api.verbs"


def page() -> str:
    """The whole file."""
    others = {module: names for module, names in NAMES.items() if module != VERBS_OF_PYTHON}
    functions: list[str] = []
    imported = {f"from {module} import {name} as {name}" for module, names in others.items() for name in names}
    for name in NAMES[VERBS_OF_PYTHON]:
        word = name.replace("_", "-")
        config = named(VERBS[word].config)
        report = typing.get_type_hints(named(f"{VERBS[word].module}:run"))["return"]
        imported.add(f"from {report.__module__} import {report.__name__}")
        options = [(field, f"{keyword_of(field)}: {annotation(one)} = ...") for field, one in config.describe().items()]
        first = [text for field, text in options if field == config.ARGUMENT]
        by_name = [text for field, text in options if field != config.ARGUMENT]
        dry: list[str] = []
        if "dry_run" not in config.describe() and word not in ONLY_LOOK:
            by_name.append("dry_run: Literal[False] = ...")
            planned = f"def {name}(*given: Any, dry_run: Literal[True], **options: Any) -> dict[str, Any]: ..."
            dry = ["@overload", planned, "@overload"]
        typed = [*first, "*", *by_name, "progress: bool = ..."]
        whole = ", ".join(one.replace(" ", "\0") for one in typed)  # an option is not broken
        lines = textwrap.wrap(whole, 132, break_long_words=False, break_on_hyphens=False)
        lines = [f"def {name}(", *(f"    {line}".replace("\0", " ") for line in lines), f") -> {report.__name__}:"]
        functions += ["", *dry, *lines, f'    """{LINES[word]}"""']
    names = textwrap.wrap(", ".join(f'"{name}"' for name in ctxr.__all__), 134)
    return "\n".join([
        "# Written by `python -m scripts.api_stub`.",
        "# fmt: off",
        "# ruff: noqa",
        "from collections.abc import Sequence",
        "from pathlib import Path",
        "from typing import Any, Literal, overload",
        "",
        *sorted(imported),
        "",
        "AnyPath = str | Path",
        "__version__: str",
        "__all__ = [",
        *(f"    {line}" for line in names),
        "]",
        *functions,
        "",
    ])  # fmt: skip


def annotation(option: OptionField) -> str:
    """The type of an option as Python writes it; a text with few values is one of these."""
    if words := next((one.words for one in option.markers if isinstance(one, Choices)), ()):
        return "Literal[{}]".format(", ".join(f'"{word}"' for word in words))
    if typing.get_origin(option.kind) is tuple:
        return "AnyPath | Sequence[AnyPath]"
    kinds = typing.get_args(option.kind) if isinstance(option.kind, types.UnionType) else (option.kind,)
    return " | ".join(_written(kind) for kind in kinds)


def _written(kind: Any) -> str:
    if kind is Path:
        return "AnyPath"
    return "None" if kind is type(None) else str(kind.__name__)


if __name__ == "__main__":
    TARGET.write_text(page(), encoding="utf-8")

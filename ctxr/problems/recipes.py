"""Recipes as TOML: fields of the recipe that `variant` names, and a table per parity profile."""

import tomllib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

from ctxr.engine.options import convert, read_toml
from ctxr.errors import UsageError, did_you_mean
from ctxr.models.training.recipe import Recipe

FOLDER = Path(__file__).resolve().parents[1] / "configs"
RecipeT = TypeVar("RecipeT", bound=Recipe)

PROFILES = ("fixed", "paper", "code")
"""fixed: published numbers without known errors. paper: its text. code: the released scripts."""


def list_recipes() -> list[str]:
    """Names of the recipes that come with ctxr."""
    return sorted(file.stem for file in FOLDER.glob("*.toml"))


def read_recipe(
    named: str, parity: str, changes: Sequence[str], class_of: Callable[[Mapping[str, object]], type[RecipeT]]
) -> RecipeT:
    """The recipe of that name, or in that file, under a profile, with changes like "lr=1e-4"; `class_of` its values.

    Raises UsageError for an unknown recipe, profile, key, or a value that makes no sense; DataError for broken TOML.
    """
    if parity not in PROFILES:
        raise UsageError(f"--parity {parity} is unknown", hint=f"choose {', '.join(PROFILES)}")
    recipes, file = list_recipes(), Path(named)
    if not named.endswith(".toml"):
        if named not in recipes:
            hint = did_you_mean(named, recipes, "ctxr train --help lists the recipes; or name a .toml file")
            raise UsageError(f"there is no recipe {named!r}", hint=hint)
        file = FOLDER / f"{named}.toml"
    loaded = read_toml(file, "--recipe")
    tables = {key: value for key, value in loaded.items() if isinstance(value, dict)}
    if strange := next((key for key in tables if key not in PROFILES), None):
        raise UsageError(f"{file}: unknown table [{strange}]", hint=f"profiles are {', '.join(PROFILES)}")
    parts = {str(file): {key: value for key, value in loaded.items() if key not in tables}}
    parts |= {f"{file} [{profile}]": table for profile, table in tables.items()}
    parts["--set"] = {}
    for change in changes:  # strings need no quotes
        key, sign, text = (part.strip() for part in change.partition("="))
        if not sign:
            raise UsageError(f"--set {change} has no value", hint="--set lr=1e-4")
        try:
            parts["--set"][key] = tomllib.loads(f"value = {text}")["value"]
        except (tomllib.TOMLDecodeError, RecursionError):
            parts["--set"][key] = text
    kind = class_of(parts[str(file)] | parts["--set"])
    checked = {
        source: convert(kind, values, source, f"; {kind.DOCS} describes them") for source, values in parts.items()
    }
    return kind(**(checked[str(file)] | checked.get(f"{file} [{parity}]", {}) | checked["--set"])).check()

"""Recipes as TOML: the fields of the problem's recipe, which `variant` names, and a table of changes for each parity profile."""

import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields
from difflib import get_close_matches
from pathlib import Path
from typing import Any, get_type_hints

from ctxr.errors import DataError, UsageError, did_you_mean
from ctxr.models.training.recipe import Recipe

FOLDER = Path(__file__).resolve().parents[1] / "configs"
"""The recipes that come with ctxr."""

PROFILES = ("fixed", "paper", "code")
"""fixed: the published numbers without known errors. paper: the text at its word. code: what the released scripts do."""

_KINDS: dict[type, str] = {float: "a number", int: "a whole number", bool: "true or false", str: "a text in quotes"}


def list_recipes() -> list[str]:
    """Names of the recipes that come with ctxr."""
    return sorted(file.stem for file in FOLDER.glob("*.toml"))


def read_recipe(
    named: str, parity: str, changes: Sequence[str], class_of: Callable[[Mapping[str, Any]], type[Recipe]]
) -> Recipe:
    """The recipe of that name, or in that file, under a profile, with changes like "lr=1e-4"; `class_of` its fields.

    Raises UsageError for an unknown recipe, profile, key, or a value that makes no sense; DataError for broken TOML.
    """
    if parity not in PROFILES:
        raise UsageError(f"--parity {parity} is unknown", hint=f"choose {', '.join(PROFILES)}")
    file = _file(named)
    try:
        loaded = tomllib.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"{file} cannot be read: {error.strerror}", hint="--recipe names a TOML file") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise DataError(f"{file} is not TOML: {error}") from error
    tables = {key: value for key, value in loaded.items() if isinstance(value, dict)}
    if strange := next((key for key in tables if key not in PROFILES), None):
        raise UsageError(f"{file}: unknown table [{strange}]", hint=f"profiles are {', '.join(PROFILES)}")
    kind = class_of(loaded)
    values = _checked(kind, str(file), {key: value for key, value in loaded.items() if key not in tables})
    parts = {profile: _checked(kind, f"{file} [{profile}]", table) for profile, table in tables.items()}
    recipe = kind(**(values | parts.get(parity, {}) | _typed(kind, changes)))
    recipe.check()
    return recipe


def recipe_name(named: str) -> str:
    """The default name of a run of the recipe."""
    return Path(named).stem if named.endswith(".toml") else named


def _file(named: str) -> Path:
    if named.endswith(".toml"):
        return Path(named)
    recipes = list_recipes()
    if named not in recipes:
        hint = did_you_mean(named, recipes, f"there are {', '.join(recipes)}, or name a .toml file")
        raise UsageError(f"there is no recipe {named!r}", hint=hint)
    return FOLDER / f"{named}.toml"


def _typed(kind: type[Recipe], changes: Sequence[str]) -> dict[str, Any]:
    """The values of changes like "lr=1e-4"; strings need no quotes."""
    values: dict[str, Any] = {}
    for change in changes:
        key, sign, text = change.partition("=")
        if not sign:
            raise UsageError(f"--set {change} has no value", hint="--set lr=1e-4")
        try:
            values[key.strip()] = tomllib.loads(f"value = {text.strip()}")["value"]
        except tomllib.TOMLDecodeError:
            values[key.strip()] = text.strip()
    return _checked(kind, "--set", values)


def _checked(recipe: type[Recipe], where: str, values: Mapping[str, Any]) -> dict[str, Any]:
    """The values in the types of the recipe's fields. Raises UsageError for an unknown key or another type."""
    hints = get_type_hints(recipe)
    kinds: dict[str, type] = {field.name: hints[field.name] for field in fields(recipe)}
    checked: dict[str, Any] = {}
    for typed, value in values.items():
        key = typed.replace("-", "_")
        if key not in kinds:
            raise UsageError(f"{where}: unknown key {typed!r}", hint=_nearest(key, recipe, kinds))
        kind = kinds[key]
        whole = float(value) if kind is float and type(value) is int else value
        if type(whole) is not kind:
            raise UsageError(
                f"{where}: {typed} = {value!r} is not {_KINDS[kind]}", hint=f"{typed} = {getattr(recipe, key)!r}"
            )
        checked[key] = whole
    return checked


def _nearest(key: str, recipe: type[Recipe], keys: Iterable[str]) -> str:
    """The keys that an unknown one may stand for, and where all of them are told."""
    likest = get_close_matches(key, keys, n=3, cutoff=0.0)
    return did_you_mean(key, keys, f"the nearest are {', '.join(likest)}; all recipe keys are told in {recipe.DOCS}")

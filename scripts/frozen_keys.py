"""Write tests/frozen_keys.json from the commands and recipes themselves: `python -m scripts.frozen_keys`.

Hashes of what was written contain the names of options and of recipe keys, so a name or a default that changes makes every earlier
artifact a stranger. Whoever means to change one writes the file again, and says in the commit what becomes of what was written.
"""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from ctxr.cli.commands import COMMANDS
from ctxr.cli.verbs import named
from ctxr.pipelines.modelling.train import load_recipe
from ctxr.problems.recipes import PROFILES, list_recipes

TARGET = Path(__file__).resolve().parent.parent / "tests" / "frozen_keys.json"

VARIANTS: dict[str, tuple[dict[str, Any], ...]] = {
    "export": ({"to": "hf"}, {"to": "recipe"}),
    "export-tasks": (
        *({"task": task} for task in ("describe", "retrieve", "dialogue", "verify", "tag", "entail", "audit")),
        *({"backend": backend} for backend in ("prolific", "label-studio", "mturk")),
    ),
    "eval": ({"rerank": 4},),
}
"""Values of options on which it depends which others decide."""


def config_of(command: str) -> Any:
    """The configuration of a command as it is without options."""
    return named(COMMANDS[command].config)()


WHOLE = ("listen", "regions", "revise-labels")
"""Commands of which every option is frozen, not the decisive ones alone."""


def decisive(config: Any) -> dict[str, Any]:
    """What of a configuration is hashed; all of it where nothing is, or where it does not say."""
    if hasattr(config, "key") and config.COMMAND not in WHOLE and (key := config.key()):
        return dict(key)
    return {name: getattr(config, name) for name in config.describe()}


def frozen() -> dict[str, dict[str, Any]]:
    """Decisive keys and their values, by row: of each command, without options and by those of `VARIANTS`, and of each recipe, whole
    and what its other profiles change."""
    rows = {}
    for command in COMMANDS:
        config = config_of(command)
        for given in ({}, *VARIANTS.get(command, ())):
            words = "".join(f" {name}={value}" for name, value in given.items())
            rows[f"ctxr {command}{words}"] = decisive(replace(config, **given))
    for recipe in list_recipes():
        whole = rows[f"recipe {recipe}"] = load_recipe(recipe).written()
        for profile in PROFILES[1:]:
            changed = load_recipe(recipe, profile).written()
            rows[f"recipe {recipe} [{profile}]"] = {
                key: changed[key] for key in changed if changed[key] != whole.get(key)
            }
    plain: dict[str, dict[str, Any]] = json.loads(json.dumps(rows, default=str))
    return plain


if __name__ == "__main__":
    lines = ",\n".join(f"{json.dumps(name)}: {json.dumps(row)}" for name, row in frozen().items())
    TARGET.write_text(f"{{\n{lines}\n}}\n", encoding="utf-8")

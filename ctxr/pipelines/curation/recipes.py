"""A recipe as `rebuild` and `verify` open it, and the frames of its videos."""

from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ctxr.datasets.rebuilding import RebuildRecipe, RecipeImage, read_recipe
from ctxr.errors import DataError
from ctxr.media.frames import Wanted
from ctxr.store.artifacts import Artifact, open_artifact


def recipe_of(path: Path) -> tuple[Artifact, RebuildRecipe]:
    """A finished recipe. Raises UnfinishedError, or DataError when it is another export, was changed, or is damaged."""
    artifact = open_artifact(path, "export", "ctxr export --to recipe")
    if artifact.manifest.config.get("to") != "recipe":
        raise DataError(
            f"{path} is an export to {artifact.manifest.config.get('to')}, not a recipe",
            hint="name a folder made by ctxr export --to recipe",
        )
    if changed := artifact.changed_files():
        raise DataError(
            f"{path / changed[0]} was changed since it was written", hint="get the recipe again from where it came from"
        )
    return artifact, read_recipe(path)


def wanted_frames(images: Sequence[RecipeImage], recipe: RebuildRecipe) -> list[Wanted]:
    """Frames of a recipe by video."""
    grouped: dict[tuple[str, str, str], list[Any]] = defaultdict(list)
    for image in images:
        grouped[image.source, image.source_sha256, image.decoder or "pyav"].append(image)
    return [
        Wanted(name, recipe.sources[name].file, sha256, decoder, rows)
        for (name, sha256, decoder), rows in sorted(grouped.items())
    ]

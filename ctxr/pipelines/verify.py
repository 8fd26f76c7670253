"""`ctxr verify`: whether the images of a recipe or an artifact are those of their sources, frames decoded again, photos by their hash."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ctxr.errors import UsageError
from ctxr.pipelines.inputs import SETS, chosen, require_workers
from ctxr.pipelines.talk import Silent, Talk


@dataclass(frozen=True)
class Verify:
    """Configuration of `ctxr verify`; a field's text is its help."""

    artifact: Path | None = None
    """Recipe or artifact of image sets; default: `filtered` in the workdir, or else `sets`."""
    videos: Path | None = None
    """Folder with the videos and photos, recognised by content; default: where they were last seen."""
    pictures: Path | None = None
    """Artifact whose pictures a recipe's frames are measured against, where they differ."""
    workdir: Path = Path("work")
    """Project folder, where each command finds what the one before it made."""
    workers: int = 0
    """Videos decoded at the same time; 0 = half the cores."""


@dataclass(frozen=True)
class VerifyReport:
    """What was compared.

    Attributes:
        kind: `recipe` or `image_sets`. images: how many there are. equal: those that are proven equal.
        differences: those that are not, each with `what`, a sentence and the largest difference of two pixel values (0..255) if it
            could be measured. unproven: ids of images whose source could not be read. sources: why not, by source.
        software: how versions differ from those that made a recipe, in words; empty if they do not.
    """

    artifact: Path
    kind: str
    images: int
    equal: int
    differences: list[dict[str, Any]]
    unproven: list[str]
    sources: dict[str, str]
    software: str


def run(config: Verify, talk: Talk | None = None) -> VerifyReport:
    """Decode every frame again, look every photo up by its hash, and compare. Nothing is written.

    Raises UsageError for wrong arguments, UnfinishedError without a finished artifact, DataError when its tables were changed.
    """
    from ctxr.data.artifacts import open_artifact
    from ctxr.pipelines.verify_run import verify_recipe, verify_sets

    talk = talk or Silent()
    require_workers(config.workers)
    path = chosen(config.artifact, config.workdir, SETS, talk)
    for option, folder in (("videos", config.videos), ("pictures", config.pictures)):
        if folder is not None and not folder.is_dir():
            raise UsageError(f"--{option} {folder} is not a folder", hint=f"leave --{option} out, or name a folder")
    artifact = open_artifact(path, maker="ctxr build-sets, or ctxr export --to recipe")
    kind, to = artifact.manifest.kind, artifact.manifest.config.get("to")
    if kind == "export" and to == "recipe":
        return verify_recipe(path, config, talk)
    if kind == "export":
        raise UsageError(
            f"{path} is an export to {to}", hint=f"ctxr doctor {path} looks whether its files are as written"
        )
    return verify_sets(path, config, talk)

"""`ctxr rebuild`: the images of a recipe made again out of the owner's videos and photos."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ctxr.errors import DataError, UsageError
from ctxr.pipelines.inputs import require_workers
from ctxr.pipelines.talk import Silent, Talk


@dataclass(frozen=True)
class Rebuild:
    """Configuration of `ctxr rebuild`; a field's text is its help."""

    recipe: Path | None = None
    """Folder that `ctxr export --to recipe` wrote; default: `export-recipe` in the workdir."""
    videos: Path | None = None
    """Folder with the videos and photos, at any depth and under any name: they are recognised by content."""
    out: Path | None = None
    """Artifact folder to write; default: `rebuilt` in the workdir."""
    workdir: Path = Path("work")
    """Project folder, where each command finds what the one before it made."""
    workers: int = 0
    """Videos decoded at the same time; 0 = half the cores."""

    def source(self) -> Path:
        """The recipe that is read."""
        return self.recipe or self.workdir / "export-recipe"

    def folder(self) -> Path:
        """Where the artifact is written."""
        return self.out or self.workdir / "rebuilt"


@dataclass(frozen=True)
class RebuildReport:
    """What `rebuild` says when it is done.

    Attributes:
        counts: sets and images made, images that equal the recipe, those that differ, sets and images left out.
        differences: images that did not come out as recorded. failures: sources that gave nothing, with why.
    """

    artifact: Path
    read: Path
    up_to_date: bool
    counts: dict[str, Any]
    differences: list[dict[str, Any]]
    failures: list[dict[str, Any]]


def run(config: Rebuild, talk: Talk | None = None) -> RebuildReport:
    """Make the images of a recipe again and say which came out otherwise.

    A source that is not found costs only its sets. Raises UsageError for wrong arguments, UnfinishedError without a finished recipe,
    DataError for a damaged recipe and when no source is found at all.
    """
    from ctxr.data.artifacts import Parent, finished, locked
    from ctxr.pipelines.rebuild_run import all_there, rebuild, recipe_of, refuse_others
    from ctxr.pipelines.sets_report import KIND

    talk = talk or Silent()
    require_workers(config.workers)
    source, out = config.source(), config.folder()
    artifact, recipe = recipe_of(source)
    if out.resolve().is_relative_to(source.resolve()) or source.resolve().is_relative_to(out.resolve()):
        raise UsageError(f"{out} and the recipe {source} lie within one another", hint="choose another --out")
    if config.videos is not None and not config.videos.is_dir():
        raise UsageError(f"--videos {config.videos} is not a folder", hint="name the folder with the videos and photos")
    refuse_others(out)
    parents = [Parent("recipe", artifact.manifest.kind, artifact.sha256)]
    ready = finished(out, KIND, "rebuild", {}, parents)
    if ready and not ready.changed_files() and ready.manifest.counts.get("failed") == 0 and all_there(out):
        return _report(out, source, up_to_date=True)
    with locked(out):
        rebuild(config, recipe, out, parents, talk)
    report = _report(out, source, up_to_date=False)
    if report.differences:
        talk.warn(f"{len(report.differences)} images are not those of the recipe: see {out / 'differences.jsonl'}")
    return report


def _report(out: Path, source: Path, up_to_date: bool) -> RebuildReport:
    import msgspec

    from ctxr.data.artifacts import open_artifact
    from ctxr.data.recipes import ImageDifference
    from ctxr.data.records import Failure
    from ctxr.data.tables import read_table

    differences = read_table(out / "differences.jsonl", ImageDifference)
    failures = read_table(out / "failures.jsonl", Failure)
    return RebuildReport(
        artifact=out,
        read=source,
        up_to_date=up_to_date,
        counts=open_artifact(out).manifest.counts,
        differences=[msgspec.structs.asdict(row) for row in differences],
        failures=[msgspec.structs.asdict(row) for row in failures],
    )


def no_source(first: DataError, more: int) -> DataError:
    """The error when nothing could be made."""
    rest = f" (and {more} more)" if more else ""
    return DataError(f"no image could be made: {first.message}{rest}", hint=first.hint)

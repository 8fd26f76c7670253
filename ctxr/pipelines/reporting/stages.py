"""What a report is about: image sets, a dataset with those it was made from, a published release, or results alone."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ctxr.data.artifacts import MANIFEST, Artifact, Manifest, open_artifact
from ctxr.data.readers.artifact import KINDS
from ctxr.data.records import Failure
from ctxr.data.tables import read_table
from ctxr.errors import DataError
from ctxr.pipelines.changes import changed
from ctxr.pipelines.entailing_eval import RESULT
from ctxr.pipelines.evaluating.results import RESULTS
from ctxr.pipelines.inputs import DATASETS, SETS, latest
from ctxr.pipelines.sets_report import KIND

RELEASE = "release"
ALONE = "results"
"""Kinds of what is no artifact of a dataset: what others published, and a project that holds nothing but evaluations."""


@dataclass(frozen=True)
class Stage:
    """One step of the chain: an artifact, or something without a manifest.

    Attributes:
        name: the folder's own name. kind: of the artifact, RELEASE or ALONE. sha256: of its manifest, or of a release's tables.
        manifest: None where ctxr wrote none. counts: how many rows of what. changed: files that were edited since.
    """

    path: Path
    name: str
    kind: str
    sha256: str = ""
    manifest: Manifest | None = None
    counts: dict[str, Any] = field(default_factory=dict)
    failures: tuple[Failure, ...] = ()
    changed: tuple[str, ...] = ()

    @property
    def made_by(self) -> str:
        """The command that wrote it, in words."""
        if self.manifest is None:
            return "as published" if self.kind == RELEASE else "evaluations alone"
        return f"ctxr {self.manifest.verb}"

    def setting(self, name: str) -> Any:
        """A value of the configuration; None if there is none."""
        return self.manifest.config.get(name) if self.manifest else None

    def model(self, *path: str) -> Any:
        """A value below `models`; None if there is none."""
        value: Any = self.manifest.models if self.manifest else None
        for name in path:
            value = value.get(name) if isinstance(value, dict) else None
        return value


def number(value: Any) -> float | None:
    """`value` if it is a number, else None: manifests may have been edited."""
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def find_stages(workdir: Path, named: Path | None) -> tuple[list[Stage], list[str]]:
    """The stages to report on, oldest first, and what is worth knowing about the choice, in words without places.

    Without a name they end in the last finished image sets of the project, whose making is known; else in its dataset; else
    they are its results alone. Raises UnfinishedError when there is none of them, DataError for a damaged manifest or table.
    """
    path, notes = (named, []) if named else _furthest(workdir)
    if path is None:
        name = workdir.resolve().name
        told = f"{name} holds results and no dataset, so queries are shown without their pictures: --input DATASET adds them"
        if all(
            open_artifact(file.parent).manifest.kind == RESULT for file in (workdir / RESULTS).glob(f"*/{MANIFEST}")
        ):
            told = f"{name} holds results of classifiers and nothing else, so the page is about them alone"
        return [Stage(workdir, name, ALONE)], [told]
    artifact = None if _is_release(path) else open_artifact(path, maker="ctxr build-sets videos/")
    if artifact is None or artifact.manifest.kind not in KINDS:
        return [Stage(path, path.resolve().name, RELEASE)], notes
    chain = [artifact]
    while parent := _parent(chain[0]):
        found = _beside(chain[0].path, parent)
        if found is None or any(found.path == one.path for one in chain):
            if not notes:
                name = chain[0].path.resolve().name
                notes.append(f"the image sets {parent[:12]}… that {name} was made from are not beside it (any more)")
            break
        chain.insert(0, found)
    return [_stage(one) for one in chain], notes


def _furthest(workdir: Path) -> tuple[Path | None, list[str]]:
    for names in (SETS, DATASETS):
        if any((workdir / name / MANIFEST).is_file() for name in names):
            return latest(workdir, names)
    if any((workdir / RESULTS).glob(f"*/{MANIFEST}")):
        return None, []
    return latest(workdir, SETS)  # which says what is missing


def _is_release(path: Path) -> bool:
    return path.exists() and not (path / MANIFEST).is_file() and path.name != MANIFEST


def _parent(artifact: Artifact) -> str | None:
    """The hash of the manifest of what this was made from; None if it was made from sources."""
    return next((parent.sha256 for parent in artifact.manifest.parents if parent.kind in KINDS), None)


def _beside(path: Path, fingerprint: str) -> Artifact | None:
    for artifact in _readable(path.resolve().parent):
        if artifact.manifest.kind in KINDS and artifact.sha256 == fingerprint:
            return artifact
    return None


def _readable(folder: Path) -> Iterator[Artifact]:
    for manifest in sorted(folder.glob(f"*/{MANIFEST}")):
        try:
            yield open_artifact(manifest.parent)
        except DataError:
            continue  # damaged: not the one


def _stage(artifact: Artifact) -> Stage:
    manifest = artifact.manifest
    listed = manifest.kind == KIND or "failures.jsonl" in manifest.files
    return Stage(
        path=artifact.path,
        name=artifact.path.resolve().name,
        kind=manifest.kind,
        sha256=artifact.sha256,
        manifest=manifest,
        counts=manifest.counts,
        failures=tuple(read_table(artifact.path / "failures.jsonl", Failure)) if listed else (),
        changed=tuple(_changed(artifact)),
    )


PICTURES = ("images/", "dropped/")
"""Folders of pictures in an artifact."""


def _changed(artifact: Artifact) -> list[str]:
    """What in an artifact is not as it was written; pictures that are missing are told where they are wanted."""
    if artifact.manifest.kind != KIND:
        return artifact.changed_files()
    files, _ = changed(artifact)
    return [name for name in files if not name.startswith(PICTURES) or (artifact.path / name).exists()]

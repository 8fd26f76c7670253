"""Which artifacts a report is about, and what lies in them."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np
import numpy.typing as npt

from ctxr.data.artifacts import MANIFEST, Artifact, open_artifact
from ctxr.data.embeddings import Vectors, pairwise_distances
from ctxr.data.records import Facts, Failure, Image, ImageSet, Split, SplitName
from ctxr.data.tables import read_table
from ctxr.data.units import DROPPED, IMAGES, Unit, read_unit, unit_folder
from ctxr.errors import DataError
from ctxr.pipelines.changes import changed
from ctxr.pipelines.inputs import SETS, latest
from ctxr.pipelines.photo_pool import file_names
from ctxr.pipelines.reporting.bare import bare_units
from ctxr.pipelines.revising.rounds import FOLDER, VERB
from ctxr.pipelines.sets_report import KIND

_PICTURES = (f"{IMAGES}/", f"{DROPPED}/")

Distances = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Stage:
    """One artifact of the chain: what its manifest says, and what failed in it."""

    artifact: Artifact
    failures: list[Failure]
    changed: list[str]

    @property
    def name(self) -> str:
        """The folder's own name."""
        return self.artifact.path.resolve().name

    @property
    def counts(self) -> dict[str, Any]:
        """The manifest's counts."""
        return self.artifact.manifest.counts

    def setting(self, name: str) -> Any:
        """A value of the configuration; None if there is none."""
        return self.artifact.manifest.config.get(name)

    def model(self, *path: str) -> Any:
        """A value below `models`; None if there is none."""
        value: Any = self.artifact.manifest.models
        for name in path:
            value = value.get(name) if isinstance(value, dict) else None
        return value


@dataclass(frozen=True)
class Chain:
    """The artifacts of a report, oldest first, and everything in the last one.

    Attributes:
        units: what each source gave. splits: side of each group. notes: what a reader of the page should know first.
    """

    stages: tuple[Stage, ...]
    units: tuple[Unit, ...]
    splits: dict[str, SplitName]
    notes: tuple[str, ...]

    @property
    def last(self) -> Stage:
        """The artifact that the report is about."""
        return self.stages[-1]

    @property
    def bare(self) -> bool:
        """Whether there are sources, but nobody wrote down what became of their frames."""
        return bool(self.units) and not any(unit.ledger for unit in self.units)

    @property
    def root(self) -> Path:
        """Folder that the paths of pictures are relative to."""
        return self.last.artifact.path

    @property
    def images(self) -> dict[str, Image]:
        """Images of all sets, by id."""
        return {image.id: image for unit in self.units for image in unit.images}

    @property
    def facts(self) -> dict[tuple[str, int], Facts]:
        """What was measured, by source and index."""
        return {(row.source, row.index): row for unit in self.units for row in unit.facts}

    def limit(self, name: str) -> float | None:
        """A limit in force, by its name in the configuration: that of the last artifact that says one."""
        for stage in reversed(self.stages):
            if (value := number(stage.setting(name))) is not None:
                return value
        return None

    @property
    def threshold(self) -> float | None:
        """The distance that two frames of a set exceed."""
        return number(self.last.model("selection", "threshold"))

    def distances(self) -> Iterator[tuple[ImageSet, Distances | None]]:
        """Each set with its pairwise distances [n, n]; None where an embedding is not at hand."""
        rows = {name: place for unit in self.units for name, place in _rows(unit).items()}
        for unit in self.units:
            for image_set in unit.sets:
                places = [rows.get(name) for name in image_set.images]
                known = [vectors[row] for vectors, row in (place for place in places if place is not None)]
                whole = len(known) == len(places) and len({len(vector) for vector in known}) == 1
                distances = pairwise_distances(np.stack(known)) if whole else np.full((1, 1), np.nan)
                yield image_set, distances if np.isfinite(distances).all() else None


def number(value: Any) -> float | None:
    """`value` if it is a number, else None: manifests may have been edited."""
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def _rows(unit: Unit) -> dict[str, tuple[Vectors, int]]:
    """Where the embedding of each image of a unit lies, by image id."""
    ordered = sorted(unit.ledger, key=lambda row: row.index)
    if unit.source.kind == "video":
        names = [f"img{row.index}" for row in ordered]
    else:
        names = file_names([Path(row.name or "") for row in ordered])
    return {
        f"{unit.source.name}/{name}": (unit.vectors, row.row)
        for name, row in zip(names, ordered, strict=True)
        if row.row is not None and 0 <= row.row < len(unit.vectors)
    }


def find_chain(workdir: Path, named: Path | None) -> tuple[list[Artifact], list[str]]:
    """The artifacts to report on, oldest first, and what is worth knowing about the choice, in words without places.

    Without a name it is the last finished one of the project. Raises UnfinishedError when there is none.
    """
    path, notes = (named, []) if named else latest(workdir, _chain_of(workdir))
    if is_revised(path):
        return [open_artifact(path)], notes
    chain = [open_artifact(path, KIND, "ctxr build-sets videos/")]
    while parent := _parent(chain[0]):
        found = _beside(chain[0].path, parent)
        if found is None or any(found.path == one.path for one in chain):
            if not notes:
                name = chain[0].path.resolve().name
                notes.append(f"the image sets {parent[:12]}… that {name} was made from are not beside it (any more)")
            break
        chain.insert(0, found)
    return chain, notes


def _chain_of(workdir: Path) -> tuple[str, ...]:
    """Image sets, or where a project has none revised labels: of captions that came with their own pictures."""
    has_sets = any((workdir / name).exists() for name in SETS)
    return SETS if has_sets or not is_revised(workdir / FOLDER) else (FOLDER,)


def is_revised(path: Path) -> bool:
    """Whether a folder holds revised labels."""
    return (path / MANIFEST).is_file() and open_artifact(path).manifest.verb == VERB


def _parent(artifact: Artifact) -> str | None:
    """The hash of the manifest of the image sets that this was made from; None if it was made from sources."""
    return next((parent.sha256 for parent in artifact.manifest.parents if parent.kind == KIND), None)


def _beside(path: Path, fingerprint: str) -> Artifact | None:
    for manifest in sorted(path.resolve().parent.glob(f"*/{MANIFEST}")):
        try:
            artifact = open_artifact(manifest.parent, KIND)
        except DataError:
            continue  # another kind, or damaged: not the one
        if artifact.sha256 == fingerprint:
            return artifact
    return None


def load_chain(artifacts: list[Artifact], notes: list[str]) -> Chain:
    """Everything a report shows. Raises DataError naming file and line for a damaged table."""
    if is_revised(artifacts[-1].path):
        splits = {row.group: row.split for row in read_table(artifacts[-1].path / "splits.jsonl", Split)}
        edited = artifacts[-1].changed_files()
        notes += [f"{edited[0]} was changed since it was written: ctxr doctor says more"] if edited else []
        return Chain((Stage(artifacts[-1], [], edited),), (), splits, tuple(notes))
    stages = tuple(
        Stage(artifact, read_table(artifact.path / "failures.jsonl", Failure), _changed(artifact))
        for artifact in artifacts
    )
    last = artifacts[-1]
    present = [parent.name for parent in last.manifest.parents if parent.kind != KIND]
    units = tuple(read_unit(last.path, name) for name in sorted(present) if unit_folder(last.path, name).is_dir())
    if not units and number(last.manifest.counts.get("sets")):
        units = bare_units(last.path)
        notes.append(
            f"{last.path.resolve().name} holds no ledger and no embeddings, as ctxr {last.manifest.verb} writes it: "
            "distances, timelines and what was left out are not known here"
        )
    splits = {row.group: row.split for row in read_table(last.path / "splits.jsonl", Split)}
    for stage in stages:
        if stage.changed:
            more = f" and {len(stage.changed) - 1} more were" if len(stage.changed) > 1 else " was"
            shown = stage is stages[-1] and stage.changed[0].startswith(_PICTURES)
            what = "the page shows what is there now, and ctxr doctor says more" if shown else "ctxr doctor says more"
            notes.append(f"{stage.name}/{stage.changed[0]}{more} changed since it was written: {what}")
    return Chain(stages, units, splits, tuple(notes))


def _changed(artifact: Artifact) -> list[str]:
    """What in an artifact is not as it was written; pictures that are missing are told where they are wanted."""
    files, _ = changed(artifact)
    return [name for name in files if not name.startswith(_PICTURES) or (artifact.path / name).exists()]


def inside(root: Path, path: str) -> Path | None:
    """The file at `path` in the artifact `root`; None if it is not there or a link leads out of the folder."""
    file = root / PurePosixPath(path)
    if not file.is_file() or not file.resolve().is_relative_to(root.resolve()):
        return None
    return file

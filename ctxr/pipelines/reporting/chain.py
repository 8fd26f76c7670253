"""Everything that a report shows, whatever it is about: the stages, and units out of the last one."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath

import numpy as np
import numpy.typing as npt

from ctxr.data.artifacts import open_artifact
from ctxr.data.dataset import Dataset
from ctxr.data.embeddings import Vectors, pairwise_distances
from ctxr.data.readers import read_dataset
from ctxr.data.readers.artifact import dataset_of
from ctxr.data.records import Facts, Image, ImageSet, Split, SplitName
from ctxr.data.tables import read_table
from ctxr.data.units import SourceUnit, read_unit, unit_folder
from ctxr.pipelines.evaluating.results import RESULTS
from ctxr.pipelines.inputs import origin_of
from ctxr.pipelines.photo_pool import file_names
from ctxr.pipelines.reporting.bare import bare_units
from ctxr.pipelines.reporting.stages import ALONE, PICTURES, Stage, find_stages, number
from ctxr.pipelines.sets_report import KIND
from ctxr.pipelines.talk import Talk

Distances = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Chain:
    """The artifacts of a report, oldest first, and everything in the last one.

    Attributes:
        units: what each source gave. splits: side of each group. notes: what a reader of the page should know first.
        project: folder of evaluations and runs. dataset: what was described or published, with its queries; None for image sets
            and for results alone.
    """

    stages: tuple[Stage, ...]
    units: tuple[SourceUnit, ...]
    splits: dict[str, SplitName]
    notes: tuple[str, ...]
    project: Path
    dataset: Dataset | None = None

    @property
    def last(self) -> Stage:
        """What the report is about."""
        return self.stages[-1]

    @property
    def bare(self) -> bool:
        """Whether nobody wrote down what became of the frames: image sets do, unless they were rebuilt."""
        return self.last.kind != KIND or (bool(self.units) and not any(unit.ledger for unit in self.units))

    @property
    def evaluated(self) -> str:
        """SHA-256 of the dataset, as evaluations of it name it; "" for image sets, of which many may be made."""
        return self.last.sha256 if self.dataset is not None else ""

    @property
    def root(self) -> Path:
        """Folder that the paths of pictures are relative to."""
        return self.last.path if self.dataset is None or self.dataset.root is None else self.dataset.root

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


def _rows(unit: SourceUnit) -> dict[str, tuple[Vectors, int]]:
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


def load_chain(workdir: Path, named: Path | None, talk: Talk) -> Chain:
    """Everything a report shows: of `named`, else of the project.

    Raises what `find_stages` and `read_dataset` raise; DataError naming file and line for a damaged table.
    """
    stages, notes = find_stages(workdir, named)
    last = stages[-1]
    units, splits, dataset = _of_sets(last, notes) if last.kind == KIND else _of_dataset(last, notes, talk)
    if dataset is not None and last.manifest is None:
        last = replace(last, name=dataset.name, sha256=origin_of(dataset).sha256)
    if dataset is not None:
        stages[-1] = last = replace(last, counts=last.counts | _counts(dataset))
    for stage in stages:
        if stage.changed:
            more = f" and {len(stage.changed) - 1} more were" if len(stage.changed) > 1 else " was"
            shown = stage is last and stage.changed[0].startswith(PICTURES)
            what = "the page shows what is there now, and ctxr doctor says more" if shown else "ctxr doctor says more"
            notes.append(f"{stage.name}/{stage.changed[0]}{more} changed since it was written: {what}")
    return Chain(tuple(stages), units, splits, tuple(notes), _project(last, workdir), dataset)


Content = tuple[tuple[SourceUnit, ...], dict[str, SplitName], Dataset | None]


def _of_sets(last: Stage, notes: list[str]) -> Content:
    """Units and splits of image sets."""
    parents = last.manifest.parents if last.manifest else []
    present = [parent.name for parent in parents if parent.kind != KIND]
    units = tuple(read_unit(last.path, name) for name in sorted(present) if unit_folder(last.path, name).is_dir())
    if not units and number(last.counts.get("sets")):
        units = bare_units(dataset_of(open_artifact(last.path)))
        notes.append(
            f"{last.name} holds no ledger and no embeddings, as {last.made_by} writes it: "
            "distances, timelines and what was left out are not known here"
        )
    return units, {row.group: row.split for row in read_table(last.path / "splits.jsonl", Split)}, None


def _of_dataset(last: Stage, notes: list[str], talk: Talk) -> Content:
    """Units, splits and the dataset itself; nothing where there are results alone."""
    if last.kind == ALONE:
        return (), {}, None
    with talk.progress("reading", None) as task:
        dataset = read_dataset(last.path, task.advance)
    # what was changed is said of each stage
    notes += [note for note in dataset.notes if last.manifest is None or "was changed since" not in note]
    return bare_units(dataset), dataset.splits, dataset


def _counts(dataset: Dataset) -> dict[str, int]:
    """How many rows a dataset holds, for one whose manifest counts otherwise or that has none."""
    tables = (dataset.sets, dataset.images, dataset.texts, dataset.queries, dataset.judgments)
    return dict(zip(("sets", "images", "texts", "queries", "judgments"), map(len, tables), strict=True))


def _project(last: Stage, workdir: Path) -> Path:
    """Where the evaluations lie: beside an artifact, or in the workdir for what lies outside of any project."""
    beside = last.path.resolve().parent
    ours = last.kind == KIND or (last.manifest is not None and (beside / RESULTS).is_dir())
    return beside if ours else workdir


def inside(root: Path, path: str) -> Path | None:
    """The file at `path` in the artifact `root`; None if it is not there or a link leads out of the folder."""
    file = root / PurePosixPath(path)
    if not file.is_file() or not file.resolve().is_relative_to(root.resolve()):
        return None
    return file

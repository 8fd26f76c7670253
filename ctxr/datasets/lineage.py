"""What a trained run learned from: itself, and through the runs whose encoders it started from; and where that lies."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from ctxr.datasets.dataset import Dataset
from ctxr.engine.progress import Progress
from ctxr.errors import UnfinishedError, UsageError
from ctxr.store.artifacts import MANIFEST, Artifact, Parent, open_artifact
from ctxr.store.hashing import sha256_file
from ctxr.store.kinds import RUN
from ctxr.store.paths import place_of, remember_paths

RELEASE = "release"


def lineage(run: Artifact) -> Iterator[Artifact | Parent]:
    """The run, and every run that it starts from, directly or not; one that is gone or was trained again is a mere `Parent`."""
    yield run
    for parent in run.manifest.parents:
        if parent.kind == RUN:
            folder = run.path.parent / parent.name
            found = open_artifact(folder, RUN) if (folder / MANIFEST).is_file() else None
            if found is None or found.sha256 != parent.sha256:
                yield parent
            else:
                yield from lineage(found)


def other_datasets(run: Artifact, dataset: Dataset) -> list[Parent]:
    """The datasets other than this one that a run itself was made on; releases are taken for one and the same."""
    here = "" if dataset.root is None or not (dataset.root / MANIFEST).is_file() else open_artifact(dataset.root).sha256
    kind = "dataset" if here else RELEASE
    return [one for one in datasets_of(run) if one.kind != kind or (here and one.sha256 != here)]


def datasets_of(run: Artifact) -> list[Parent]:
    """The datasets that a run itself was made on."""
    return [parent for parent in run.manifest.parents if parent.kind in ("dataset", RELEASE)]


def remember_dataset(run: Path, dataset: Path | None) -> None:
    """Note where the named dataset of a finished run lies on this machine: a dataset need not lie in the project of its runs."""
    if dataset is not None:
        places = {parent.sha256: dataset for parent in datasets_of(open_artifact(run))}
        remember_paths(run.parent, places)


@dataclass
class _MadeOn:
    """Runs that were made on one dataset; `place` is None where it is not found."""

    name: str
    place: Path | None
    runs: list[Path]

    def __str__(self) -> str:
        more = f" and {len(self.runs) - 1} more" if len(self.runs) > 1 else ""
        return f"{self.runs[0].resolve().name}{more} on {self.place or self.name}"


def common_dataset(runs: Sequence[Path], progress: Progress) -> Path | None:
    """Where the one dataset lies that all these runs were made on, which is said; None where none of them names any.

    It is looked for by content in the project of each run, then where it lay when the run was made.

    Raises UsageError where runs were made on several, UnfinishedError where it is not found as it was, and for an unfinished run.
    """
    made = _made_on(runs)
    if not made:
        return None
    one = next((one for one in made if one.place is not None), made[0])
    if len(made) > 1:
        raise UsageError(
            f"runs were made on {len(made)} different datasets: {', '.join(map(str, made))}",
            hint=f"--dataset {one.place or 'PATH'}   evaluates on one of them; or name runs of one alone",
        )
    if one.place is None:
        again = _project(one.runs[0]) / one.name
        here = (again / MANIFEST).is_file()
        raise UnfinishedError(
            f"the dataset that runs were made on is not found as it was then: {one}",
            hint=f"--dataset {again if here else 'PATH'}   {'evaluates on the current dataset' if here else 'names its folder'}",
        )
    progress.note(f"using the dataset that the runs were trained on: {one}")
    return one.place


def _made_on(runs: Sequence[Path]) -> list[_MadeOn]:
    found: dict[object, _MadeOn] = {}
    for run in runs:
        for parent in datasets_of(open_artifact(run)):
            place = _place(run, parent)
            # what a run names a release by is what it asked of it: two may differ on one release
            key = (place or parent.name) if parent.kind == RELEASE else parent.sha256
            found.setdefault(key, _MadeOn(parent.name, place, [])).runs.append(run)
    return list(found.values())


def _place(run: Path, parent: Parent) -> Path | None:
    """Where a dataset of a run lies, still as it was; None where it is not found."""
    project = _project(run)
    for manifest in sorted(project.glob(f"*/{MANIFEST}")):
        if sha256_file(manifest) == parent.sha256:
            return manifest.parent
    place = place_of(run.parent, parent.sha256)
    if place is None or not place.exists():
        return None
    manifest = (place if place.is_dir() else place.parent) / MANIFEST
    as_it_was = parent.kind == RELEASE or not manifest.is_file() or sha256_file(manifest) == parent.sha256
    return place if as_it_was else None


def _project(run: Path) -> Path:
    """The project of a run, as the run itself is named."""
    return (run if len(run.parts) > 2 else run.resolve()).parent.parent


def foreign_notes(run: Artifact, dataset: Dataset) -> list[str]:
    """A sentence for each reason why a run, or an encoder that it starts from, may have seen what `dataset` asks elsewhere."""
    name, notes = run.path.resolve().name, []
    for one in lineage(run):
        if isinstance(one, Parent):
            notes.append(
                f"{name}: starts from the run {one.name}, which is gone or was trained again since; what it saw is not known"
            )
            continue
        start = "" if one is run else f"starts from {one.path.resolve().name}, "
        others = [] if one.manifest.config.get("variant") == "zero-shot" else other_datasets(one, dataset)
        notes += [
            f"{name}: {start}trained on another dataset ({other.name}) than this one; the two may share sets"
            for other in others
        ]
    return notes


def chosen_on_test(run: Artifact) -> bool:
    """Whether test chose the epoch of a run, or of one that it starts from."""
    return any(
        isinstance(one, Artifact)
        and bool(one.manifest.config.get("judged_on_test"))
        and one.manifest.counts.get("test") is not None
        for one in lineage(run)
    )

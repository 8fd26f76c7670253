"""What a trained run learned from: itself, and through the runs whose encoders it started from; and where that lies."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from msgspec import structs

from ctxr.datasets.changes import contents_of
from ctxr.datasets.open import dataset_identity, identity_of, read_dataset
from ctxr.datasets.readers import artifact
from ctxr.datasets.readers.entailment import pair_files
from ctxr.engine.progress import Progress
from ctxr.errors import UnfinishedError, UsageError
from ctxr.store.artifacts import MANIFEST, Artifact, Parent, open_artifact
from ctxr.store.hashing import sha256_file, sha256_of
from ctxr.store.kinds import DATASET, PAIRS, PICTURES, RELEASE, RUN
from ctxr.store.memory import Watch, remembered
from ctxr.store.paths import last_path, remember_paths

AS_PUBLISHED = ("zero-shot", "links-zero-shot", "links-objects", "traces-heat", "dialogue-bm25", "dialogue-zero-shot")
"""Variants of recipes by which nothing is learned."""


def content_of(path: Path) -> Parent:
    """What lies at `path` by content: a dataset as `dataset_identity` knows it, else published pairs by the files they are read from.

    Raises UsageError where there is neither, DataError for an artifact with an edited table.
    """
    try:
        origin = dataset_identity(path)
    except UsageError:
        files = pair_files(path) if path.exists() else []
        if not files:
            raise
        return identity_of(files)
    if origin.kind != RELEASE:
        open_artifact(path if path.is_dir() else path.parent).refuse_changed()
    return origin


def picture_parents(path: Path, origin: Parent, workdir: Path, progress: Progress) -> list[Parent]:
    """The pictures of the dataset at `path`, whose content is `origin`, for what is made by looking at them.

    Those of a release are a parent of their own, by content. For those of an artifact its manifest stands, and DataError is raised
    for one that was changed since. As long as none of the files changes, they are not read again.
    """
    if origin.kind not in (*artifact.KINDS, RELEASE):
        return []

    def find(watch: Watch) -> str:
        try:
            dataset = read_dataset(path)
        except UsageError:  # files of another form, all of which are its content
            return ""
        named = [(image, file) for image, row in dataset.images.items() if (file := dataset.picture(row)) is not None]
        top = dataset.root or path
        # where a picture, or a folder of them, may appear
        folders = {folder for _, file in named for folder in file.parents if folder.is_relative_to(top)}
        folders |= {folder for folder in top.glob("*") if folder.is_dir()}
        watch([path, *sorted(folders), *(file for _, file in named)])
        files = {image: file for image, file in named if file.is_file()}
        with progress.task("hashing pictures", len(files)) as task:
            return sha256_of(sorted(contents_of(dataset, files, task.advance).items()))

    sha256 = remembered(workdir, ["pictures", origin.sha256, str(path.resolve())], find)
    return [Parent(PICTURES, PICTURES, sha256)] if sha256 and origin.kind == RELEASE else []


def dataset_parents(path: Path, name: str, workdir: Path, progress: Progress) -> list[Parent]:
    """The dataset at `path`, under this name, and its pictures."""
    known = content_of(path)
    return [structs.replace(known, name=name), *picture_parents(path, known, workdir, progress)]


def lineage(run: Artifact) -> Iterator[Artifact | Parent]:
    """The run, and every run that it starts from, directly or not; one that is gone or was trained again is a mere `Parent`."""
    yield run
    for parent in run.manifest.parents:
        if parent.kind == RUN:
            folder = run.path.parent / parent.name
            start = open_artifact(folder, RUN) if (folder / MANIFEST).is_file() else None
            if start is None or start.sha256 != parent.sha256:
                yield parent
            else:
                yield from lineage(start)


def other_datasets(run: Artifact, dataset: Parent) -> list[Parent]:
    """The datasets other than this one that a run itself was made on; releases are taken for one and the same."""
    parents, released = datasets_of(run), dataset.kind == RELEASE
    return [
        row for row in parents if (row.kind == RELEASE) != released or not (released or row.sha256 == dataset.sha256)
    ]


def datasets_of(run: Artifact) -> list[Parent]:
    """The datasets that a run itself was made on."""
    return [parent for parent in run.manifest.parents if parent.kind in (DATASET, PAIRS, RELEASE)]


def remember_dataset(run: Path, dataset: Path | None) -> None:
    """Note where the named dataset of a finished run lies on this machine: a dataset need not lie in the project of its runs."""
    if dataset is not None:
        remember_paths(run.parent, {parent.sha256: dataset for parent in datasets_of(open_artifact(run))})


@dataclass
class _Training:
    """Runs that were made on one dataset; `path` is None where it is not found."""

    name: str
    path: Path | None
    runs: list[Path]

    def __str__(self) -> str:
        more = f" and {len(self.runs) - 1} more" * (len(self.runs) > 1)
        return f"{self.runs[0].resolve().name}{more} on {self.path or self.name}"


def common_dataset(runs: Sequence[Path], progress: Progress) -> Path | None:
    """Where the one dataset lies that all these runs were made on: by content in the project of each run, or where it lay then; None
    where none of them names any.

    Raises UsageError where runs were made on several, UnfinishedError where it is not found as it was, and for an unfinished run.
    """
    by_content: dict[object, _Training] = {}
    for run in runs:
        for parent in datasets_of(open_artifact(run)):
            path = _path_of(run, parent)
            # what a run names a release by is what it asked of it: two may differ on one release
            key = (path or parent.name) if parent.kind == RELEASE else parent.sha256
            by_content.setdefault(key, _Training(parent.name, path, [])).runs.append(run)
    datasets = sorted(by_content.values(), key=lambda training: training.path is None)
    if not datasets:
        return None
    dataset = datasets[0]
    if len(datasets) > 1:
        raise UsageError(
            f"runs were made on {len(datasets)} different datasets: {', '.join(map(str, by_content.values()))}",
            hint=f"--dataset {dataset.path or 'PATH'}   evaluates on one of them; or name runs of one alone",
        )
    if dataset.path is None:
        current = _project(dataset.runs[0]) / dataset.name
        here = (current / MANIFEST).is_file()
        raise UnfinishedError(
            f"the dataset that the runs were made on has changed or is missing: {dataset}",
            hint=f"--dataset {current if here else 'PATH'}   {'evaluates on the current dataset' if here else 'names its folder'}",
        )
    progress.note(f"using the dataset that the runs were trained on: {dataset}")
    return dataset.path


def _path_of(run: Path, parent: Parent) -> Path | None:
    """Where a dataset of a run lies, still as it was; None where it is not found."""
    for manifest in sorted(_project(run).glob(f"*/{MANIFEST}")):
        if sha256_file(manifest) == parent.sha256:
            return manifest.parent
    path = last_path(run.parent, parent.sha256)
    if path is None or not path.exists():
        return None
    manifest = (path if path.is_dir() else path.parent) / MANIFEST
    as_it_was = parent.kind == RELEASE or not manifest.is_file() or sha256_file(manifest) == parent.sha256
    return path if as_it_was else None


def _project(run: Path) -> Path:
    """The project of a run, as the run itself is named."""
    return (run if len(run.parts) > 2 else run.resolve()).parent.parent


def foreign_notes(run: Artifact, dataset: Parent) -> list[str]:
    """A sentence for each reason why a run, or an encoder that it starts from, may have seen what `dataset` asks elsewhere."""
    notes = []
    for ancestor in lineage(run):
        if isinstance(ancestor, Parent):
            notes.append(
                f"starts from the run {ancestor.name}, which is gone or was trained again since; what it saw is not known"
            )
        elif ancestor.manifest.config.get("variant") not in AS_PUBLISHED:
            start = "" if ancestor is run else f"starts from {ancestor.path.resolve().name}, "
            names = [other.name for other in other_datasets(ancestor, dataset)]
            notes += [
                f"{start}trained on another dataset ({name}) than this one; the two may share sets" for name in names
            ]
    return [f"{run.path.resolve().name}: {note}" for note in notes]


def chosen_on_test(run: Artifact) -> bool:
    """Whether test chose the epoch of a run, or of one that it starts from."""
    return any(
        isinstance(ancestor, Artifact)
        and bool(ancestor.manifest.config.get("judged_on_test"))
        and ancestor.manifest.counts.get("test") is not None
        for ancestor in lineage(run)
    )

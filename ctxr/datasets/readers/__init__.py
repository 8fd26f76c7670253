"""Readers: whatever a benchmark was published as becomes a `ctxr.datasets.dataset.Dataset`."""

from pathlib import Path

from ctxr.datasets.dataset import Dataset
from ctxr.datasets.readers.recognise import read_dataset
from ctxr.engine.progress import Progress
from ctxr.engine.project import CHAIN, chosen
from ctxr.store.artifacts import MANIFEST, Parent, open_artifact
from ctxr.store.hashing import sha256_of


def open_dataset(path: Path | None, workdir: Path, progress: Progress) -> "Dataset":
    """The dataset at `path`; without one the latest finished one in `workdir`, and says which.

    Raises UnfinishedError when the project has none, and whatever `read_dataset` raises.
    """
    found = chosen(path, workdir, CHAIN, progress)
    if path is None:
        progress.note(f"looking at {found}")
    with progress.task("pictures", None) as task:
        return read_dataset(found, task.advance)


def origin_of(dataset: "Dataset") -> "Parent":
    """What a dataset is by content: the artifact's manifest, or texts, queries and judgments of a release."""
    if dataset.root is not None and (dataset.root / MANIFEST).is_file():
        artifact = open_artifact(dataset.root)
        return Parent("dataset", artifact.manifest.kind, artifact.sha256)
    tables = (dataset.sets, dataset.texts.values(), dataset.queries.values(), dataset.judgments)
    return Parent("dataset", "release", sha256_of([repr(row) for table in tables for row in table]))

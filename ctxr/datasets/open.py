"""A dataset by its folder or file: the first reader that knows what lies there reads it; and the latest one of a project."""

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ctxr.datasets.dataset import Dataset
from ctxr.datasets.readers import artifact, captions, documents, imagecode, karpathy, narratives, photochat
from ctxr.datasets.readers.text_files import MOST_BYTES
from ctxr.engine.progress import Progress
from ctxr.engine.project import CHAIN, chosen
from ctxr.errors import DataError, UsageError
from ctxr.store.artifacts import MANIFEST, MARKER, Parent, open_artifact
from ctxr.store.hashing import sha256_file, sha256_of
from ctxr.store.kinds import RELEASE


@dataclass(frozen=True)
class Reader:
    """A form in which datasets lie on the disk.

    Attributes:
        reads: what it reads, in words.
        files: the files that a dataset at a path is made of, but for pictures; none where the path is of another form. Cheap.
        read: the dataset of a path from these files; its last argument is called after each image.
    """

    reads: str
    files: Callable[[Path], list[Path]]
    read: Callable[[Path, Sequence[Path], Callable[[], None]], Dataset]


READERS: tuple[Reader, ...] = (
    Reader(
        "an ImageCoDe release (train_data.json, valid_data.json, test_data_unlabeled.json, manual_annotation_valid.yaml)",
        imagecode.release_files,
        imagecode.read_release,
    ),
    Reader("MMC4 (*.jsonl)", documents.mmc4_files, documents.read_mmc4),
    Reader(
        "Localized Narratives of images or videos (*.jsonl)", narratives.narrative_files, narratives.read_narratives
    ),
    Reader("PhotoChat: dialogues (dev.json, train/*.json, …)", photochat.photochat_files, photochat.read_photochat),
    Reader("documents: {train, val, test} of Hessel et al. (*.json)", documents.link_files, documents.read_links),
    Reader(
        "a ctxr artifact (manifest.json)",
        artifact.manifest_of,
        lambda _path, files, _passed: artifact.read_artifact(files[0].parent),
    ),
    Reader("the repository of ImageCoDe (data/)", imagecode.repository_files, imagecode.read_repository),
    Reader(
        "Karpathy's split of COCO or Flickr30K (dataset_coco.json, dataset_flickr30k.json)",
        karpathy.split_files,
        karpathy.read_split,
    ),
    Reader("COCO captions (captions_*.json)", captions.caption_files, captions.read_coco),
    Reader(
        "photos with captions (metadata.jsonl or .csv: file_name, text, and split if known; captions.txt: image,caption)",
        captions.caption_tables,
        captions.read_photos,
    ),
    Reader("Markdown or HTML with images in the folder", documents.page_files, documents.read_pages),
    Reader(
        "descriptions by set and index (*.json)",
        lambda path: [path] if path.suffix == ".json" and path.is_file() else [],
        imagecode.read_described,
    ),
)
"""Every form that is read, by the first that finds its files: exports and COCO lie beside files of other forms."""


def read_dataset(path: Path, passed: Callable[[], None] = lambda: None) -> Dataset:
    """The benchmark at `path`, a folder or a single file; `passed` is called after each image.

    Raises UsageError where nothing exists or nothing is recognised; DataError naming file:line or id
    for content that does not fit; UnfinishedError for an artifact without a manifest.
    """
    try:
        reader = reader_of(path)
        files = reader.files(path)
        for file in files:
            if file.suffix in {".json", ".yaml", ".yml"} and (size := file.stat().st_size) > MOST_BYTES:
                raise DataError(
                    f"{file} has {size >> 20} MiB, more than any known dataset", hint="is it the right file?"
                )
        return replace(reader.read(path, files, passed), files=tuple(files))
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise DataError(f"{error.filename or path} cannot be read: {reason}", hint=f"chmod -R u+rX {path}") from error


def reader_of(path: Path) -> Reader:
    """The reader of a path. Raises UsageError where nothing exists or is recognised."""
    expected = f"expected {', '.join(reader.reads for reader in READERS)}"
    if not path.exists():
        raise UsageError(f"{path} does not exist", hint=expected)
    if (path / MARKER).is_file() and not (path / MANIFEST).is_file():
        open_artifact(path)  # which says that it is unfinished
    for reader in READERS:
        if reader.files(path):
            return reader
    if path.is_file():
        raise UsageError(f"{path} is not a dataset that ctxr knows", hint=expected)
    listed = ", ".join(sorted(file.name for file in path.iterdir() if file.is_file())[:3]) or "no file"
    raise UsageError(f"{path} holds no dataset that ctxr knows ({listed})", hint=expected)


def open_dataset(path: Path | None, workdir: Path, progress: Progress) -> Dataset:
    """The dataset at `path`; without one the latest finished one in `workdir`, and says which.

    Raises UnfinishedError when the project has none, and whatever `read_dataset` raises.
    """
    dataset_path = chosen(path, workdir, CHAIN, progress)
    if path is None:
        progress.note(f"looking at {dataset_path}")
    with progress.task(f"reading {dataset_path}", None) as task:
        return read_dataset(dataset_path, task.advance)


def dataset_identity(path: Path) -> Parent:
    """The identity of the dataset at `path`, which is not read. Raises what `read_dataset` raises where nothing is recognised."""
    return identity_of(reader_of(path).files(path))


def identity_of(files: Sequence[Path]) -> Parent:
    """A dataset's content: the artifact's manifest, or names and hashes of its files; pictures are not part of it."""
    if [file.name for file in files] == [MANIFEST]:
        opened = open_artifact(files[0].parent)
        return Parent("dataset", opened.manifest.kind, opened.sha256)
    folder = os.path.commonpath([file.parent for file in files])
    rows = sorted((file.relative_to(folder).as_posix(), sha256_file(file)) for file in files)
    return Parent("dataset", RELEASE, sha256_of(rows))

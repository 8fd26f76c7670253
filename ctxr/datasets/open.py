"""A dataset by its folder or file: which kind lies there, and the latest one of a project."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from ctxr.datasets.dataset import Dataset
from ctxr.datasets.readers.artifact import read_artifact
from ctxr.datasets.readers.coco import is_captions, lacks_captions, read_captions
from ctxr.datasets.readers.documents import SPLIT_NAMES, is_mmc4, read_links, read_mmc4
from ctxr.datasets.readers.imagecode import DESCRIPTIONS, PHENOMENA_FILE, WRITERS, read_release
from ctxr.datasets.readers.karpathy import is_split, read_split
from ctxr.datasets.readers.pages import read_pages
from ctxr.datasets.readers.photos import read_photos
from ctxr.datasets.readers.text_files import JsonFile, read_json
from ctxr.engine.progress import Progress
from ctxr.engine.project import CHAIN, chosen
from ctxr.errors import DataError, UsageError
from ctxr.store.artifacts import MANIFEST, MARKER, Parent, open_artifact
from ctxr.store.hashing import sha256_of
from ctxr.store.kinds import RELEASE

EXPECTED = (
    "a ctxr artifact (manifest.json), an ImageCoDe release (train_data.json, valid_data.json, test_data_unlabeled.json, "
    "manual_annotation_valid.yaml), Karpathy's split of COCO or Flickr30K (dataset_coco.json, dataset_flickr30k.json), COCO "
    "captions (captions_*.json), photos with captions (metadata.jsonl or .csv: file_name, text, and split if known; captions.txt: "
    "image,caption), or documents: {train, val, test} of Hessel et al. (*.json), MMC4 (*.jsonl), Markdown or HTML with images in the folder"
)

MOST_BYTES = 1 << 31
"""A larger JSON or YAML is not read: it would not fit into memory several times over."""


def read_dataset(path: Path, passed: Callable[[], None] | None = None) -> Dataset:
    """The benchmark at `path`, a folder or a single file; `passed` is called after each image.

    Raises UsageError where nothing exists or nothing is recognised; DataError naming file:line or id
    for content that does not fit; UnfinishedError for an artifact without a manifest.
    """
    try:
        return _read(path, passed)
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise DataError(f"{error.filename or path} cannot be read: {reason}", hint=f"chmod -R u+rX {path}") from error


def _read(path: Path, passed: Callable[[], None] | None) -> Dataset:
    if not path.exists():
        raise UsageError(f"{path} does not exist", hint=f"expected {EXPECTED}")
    if path.is_file():
        return _read_file(path, passed)
    files = sorted(file for file in path.iterdir() if file.is_file())
    ours = [file.name for file in files if file.name in (MANIFEST, MARKER)]
    if ours == [MARKER]:
        return read_artifact(path)  # which says that it is unfinished
    # an export of ours in the release's layout has a manifest too, of another kind
    release = [file for file in files if DESCRIPTIONS.fullmatch(file.name)]
    # the publisher's repository keeps what was annotated in a folder of its own
    annotated = {file.name: file for file in (*sorted((path / "analysis").glob("*.*")), *files)}.values()
    phenomena = [file for file in annotated if PHENOMENA_FILE.fullmatch(file.name)]
    if release or phenomena:
        writers = [file for file in annotated if WRITERS.fullmatch(file.name)]
        _check_size(*release, *phenomena, *writers)
        return read_release(path, release, writers, phenomena, passed)
    # an export has judgments beside the documents
    lines = [file for file in files if file.suffix == ".jsonl" and file.name != "judgments.jsonl"]
    if any(map(is_mmc4, lines)):
        return read_mmc4(path, lines, passed)
    if (links := path / "documents.json").is_file():  # an export, or a folder that is like one
        return _read_file(links, passed)
    if ours:
        return read_artifact(path)
    if any(DESCRIPTIONS.fullmatch(file.name) for file in (path / "data").glob("*.json")):
        return replace(_read(path / "data", passed), name=path.resolve().name)
    captions = [file for file in files if file.name.startswith("captions_") and file.suffix == ".json"]
    if split := _split_in(path, files):
        note = f"{split.path.name} says what is in each gallery; {_named(captions)} beside it was not read"
        dataset = read_split(split, passed)
        return replace(dataset, notes=(*dataset.notes, note)) if captions else dataset
    if captions:
        _check_size(*captions)
        return read_captions(path, captions, passed)
    if dataset_of_folder := read_photos(path, files, passed) or read_pages(path, passed):
        return dataset_of_folder
    listed = _named(files[:3]) or "no file"
    raise UsageError(f"{path} holds no dataset that ctxr knows ({listed})", hint=f"expected {EXPECTED}")


def _read_file(path: Path, passed: Callable[[], None] | None) -> Dataset:
    _check_size(path)
    if path.name == MANIFEST:
        return read_artifact(path.parent)
    if path.suffix in {".yaml", ".yml"}:
        return read_release(path.parent, [], [], [path], passed)
    if path.suffix == ".jsonl" and is_mmc4(path):
        return read_mmc4(path.parent, [path], passed)
    if photos := read_photos(path.parent, [path], passed):
        return photos
    if path.suffix != ".json":
        raise UsageError(f"{path} is not a dataset that ctxr knows", hint=f"expected {EXPECTED}")
    if DESCRIPTIONS.fullmatch(path.name):
        return read_release(path.parent, [path], [], [], passed)
    file = read_json(path)
    if is_captions(file):
        return read_captions(path.parent, [path], passed)
    if is_split(file):
        return read_split(file, passed)
    if isinstance(file.value, dict) and any(isinstance(file.value.get(split), list) for split in SPLIT_NAMES):
        return read_links(file, passed)
    if lacks_captions(file):
        raise DataError(
            f"{path} lists `images` as COCO does, and has no `annotations` with captions",
            hint="name a captions_*.json",
        )
    if _are_writers(file):
        raise DataError(f"{path} says who wrote descriptions, and holds none", hint=f"name its folder: {path.parent}")
    return read_release(path.parent, [path], [], [], passed)


def _split_in(folder: Path, files: list[Path]) -> JsonFile | None:
    """The one of Karpathy's splits that lies in a folder, parsed; other JSON may be named like it."""
    splits = []
    for path in files:
        if path.name.startswith("dataset_") and path.suffix == ".json":
            _check_size(path)
            file = read_json(path)
            if is_split(file):
                splits.append(file)
    if len(splits) > 1:
        raise UsageError(
            f"{folder} holds several splits, {_named([file.path for file in splits])}",
            hint=f"name one: {splits[0].path}",
        )
    return splits[0] if splits else None


def _named(files: list[Path]) -> str:
    return ", ".join(file.name for file in files)


def _are_writers(file: JsonFile) -> bool:
    if WRITERS.fullmatch(file.path.name):
        return True
    values = file.value.values() if isinstance(file.value, dict) else ()
    written = {text for entry in values if isinstance(entry, dict) for text in entry.values() if isinstance(text, str)}
    return bool(written) and written <= {"train_worker", "unseen_worker"}


def _check_size(*files: Path) -> None:
    for file in files:
        if (size := file.stat().st_size) > MOST_BYTES:
            raise DataError(f"{file} has {size >> 20} MiB, more than any known dataset", hint="is it the right file?")


def open_dataset(path: Path | None, workdir: Path, progress: Progress) -> "Dataset":
    """The dataset at `path`; without one the latest finished one in `workdir`, and says which.

    Raises UnfinishedError when the project has none, and whatever `read_dataset` raises.
    """
    dataset_path = chosen(path, workdir, CHAIN, progress)
    if path is None:
        progress.note(f"looking at {dataset_path}")
    with progress.task("pictures", None) as task:
        return read_dataset(dataset_path, task.advance)


def origin_of(dataset: "Dataset") -> "Parent":
    """What a dataset is by content: the artifact's manifest, or texts, queries and judgments of a release."""
    if dataset.root is not None and (dataset.root / MANIFEST).is_file():
        artifact = open_artifact(dataset.root)
        return Parent("dataset", artifact.manifest.kind, artifact.sha256)
    tables = (dataset.sets, dataset.texts.values(), dataset.queries.values(), dataset.judgments)
    return Parent("dataset", RELEASE, sha256_of([repr(row) for table in tables for row in table]))

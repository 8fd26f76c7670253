"""The published ImageCoDe release: descriptions in JSON, with or without their pictures, and what was annotated on them.

`train_data*.json` and `valid_data*.json` map a set to {index of the target: description}, `test_data_unlabeled*.json` maps a
set to a list of descriptions. Beside them may lie `annotator_split_valid*.json` (seen and unseen writers) and
`manual_annotation_valid*.yaml` (phenomena). The index counts pictures by their numbers.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Annotated

import msgspec

from ctxr.datasets.dataset import Dataset
from ctxr.datasets.readers.frames import ReleasePictures, find_pictures
from ctxr.datasets.readers.phenomena import PhenomenaRow, ReleaseQuestions, label_queries, read_annotations
from ctxr.datasets.readers.text_files import JsonFile, as_record, read_json, refuse_unsafe
from ctxr.errors import DataError, plural
from ctxr.store.records import SPLIT_WORDS, ImageSet, Judgment, Kind, Query, SplitName, Text
from ctxr.store.tables import grouped

DESCRIPTIONS = re.compile(r"(train|valid|test)_data(?:_unlabell?ed)?(?:\.[^/]+)?\.json")
WRITERS = re.compile(r"annotator_split(?:_[a-z]+)?(?:\.[^/]+)?\.json")
PHENOMENA_FILE = re.compile(r"manual_annotation(?:_[a-z]+)?(?:\.[^/]+)?\.ya?ml")

STATIC = "open-images"
"""A set with this in its name is of photos; every other is of frames of a video."""

UNKNOWN = "unknown"

_VIDEO_SET = re.compile(r"(.+)-shot(\d{1,9})_\d+")

Index = Annotated[str, msgspec.Meta(pattern="^(0|[1-9][0-9]{0,5})$")]
"""Position of an image in its set, from 0."""


@dataclass
class _DescribedSet:
    """One set of a release and its descriptions; an index of None is a hidden target."""

    split: SplitName | None
    file: JsonFile
    descriptions: list[tuple[int | None, str]]


def release_files(path: Path) -> list[Path]:
    """The file at a path, or those in it, that hold descriptions or phenomena, and beside them who wrote descriptions."""
    if path.is_file():
        return [path] if path.suffix in {".yaml", ".yml"} or DESCRIPTIONS.fullmatch(path.name) else []
    # the publisher's repository keeps what was annotated in a folder of its own
    files = {file.name: file for file in (*sorted((path / "analysis").glob("*.*")), *sorted(path.glob("*.*")))}
    files = {name: file for name, file in files.items() if file.is_file()}
    own = [file for name, file in files.items() if DESCRIPTIONS.fullmatch(name) and file.parent == path]
    own += [file for name, file in files.items() if PHENOMENA_FILE.fullmatch(name)]
    return own and own + [file for name, file in files.items() if WRITERS.fullmatch(name)]


def repository_files(path: Path) -> list[Path]:
    """Those of the publisher's repository as it is cloned, in its folder of data."""
    files = release_files(path / "data") if path.is_dir() else []
    return files if any(DESCRIPTIONS.fullmatch(file.name) for file in files) else []


def read_repository(path: Path, files: Sequence[Path], passed: Callable[[], None]) -> Dataset:
    """The release in the publisher's repository, by the name of that. Raises what `read_release` raises."""
    return replace(read_release(path / "data", files, passed), name=path.resolve().name)


def read_described(path: Path, files: Sequence[Path], passed: Callable[[], None]) -> Dataset:
    """A release from one file of any name. Raises DataError for one that says who wrote descriptions, and what `read_release` raises."""
    if WRITERS.fullmatch(path.name):
        raise DataError(f"{path} says who wrote descriptions, and holds none", hint=f"name its folder: {path.parent}")
    return read_release(path, files, passed)


def read_release(path: Path, files: Sequence[Path], passed: Callable[[], None]) -> Dataset:
    """A release from files that their names tell apart; `passed` is called after each image.

    Raises DataError naming file:line and the id for whatever does not fit.
    """
    root = path if path.is_dir() else path.parent
    phenomena = [file for file in files if file.suffix in {".yaml", ".yml"}]
    writers = [file for file in files if WRITERS.fullmatch(file.name)]
    described: dict[str, _DescribedSet] = {}
    notes = [note for file in files if file not in phenomena + writers and (note := _add(described, file))]
    annotated = [row for file in phenomena for row in read_annotations(file)]
    # an annotation of a set that the release has not still says what its description is like
    strangers = {row.image_set for row in annotated if row.image_set not in described}
    if strangers and described:
        what = f"{len(strangers)} sets are annotated with phenomena but not in the release"
        notes.append(f"{what}: they belong to no split")
    names = sorted([*described, *strangers])
    pictures = find_pictures(root, names)
    _check_targets(described, annotated, pictures.size)
    origins = {name: None if STATIC in name else _VIDEO_SET.fullmatch(name) for name in names}
    sources = {name: origin[1] if origin else name for name, origin in origins.items()}
    groups = _groups(described, sources, notes)
    images = pictures.describe(groups, sources, passed)
    sets = []
    for name, origin in origins.items():
        kind: Kind = "photos" if STATIC in name else "video"
        shot = int(origin[2]) if origin else None
        ids = tuple(pictures.ids(name))
        sets.append(ImageSet(name, kind, ids, sources[name], groups[name], shot, None, None))
    questions = _questions(described, pictures, _authors(writers, described, notes))
    labelled = label_queries(annotated, {text.id for text in questions.texts})
    if labelled.texts and questions.texts:
        what = f"{len(labelled.texts)} annotated descriptions are not in the release"
        first = labelled.texts[0].id.partition("/")[2]
        notes.append(f"{what}: they count for the phenomena alone, the first is {first}")
    if beyond := sum(not {*row.tags} <= {*row.looked} for row in annotated):
        what = f"{beyond} rows carry tags outside the range that was annotated for them"
        notes.append(f"{what}: those tags were left out")
    notes += pictures.notes
    if without := len(names) - len(pictures.files):
        notes.append(
            f"{without} of {len(names)} sets lack image-sets/SET/imgN.jpg: their images are called SET/#POSITION"
        )
    return Dataset(
        name=root.name or "release",
        root=root if pictures.files else None,
        sets=tuple(sets),
        images=images,
        texts={row.id: row for row in (*questions.texts, *labelled.texts)},
        queries={row.id: row for row in (*questions.queries, *labelled.queries)},
        judgments=tuple(sorted([*questions.judgments, *labelled.judgments], key=lambda row: row.key())),
        splits={groups[name]: entry.split for name, entry in described.items() if entry.split},
        notes=tuple(notes),
    )


def _questions(
    described: Mapping[str, _DescribedSet], pictures: ReleasePictures, authors: Mapping[tuple[str, int | None], str]
) -> ReleaseQuestions:
    questions = ReleaseQuestions()
    for name, entry in described.items():  # a leaderboard wants the order of the file
        for position, (index, text) in enumerate(entry.descriptions):
            key = f"{name}/{position}?" if index is None else f"{name}/{index}"
            questions.texts.append(Text(key, text, authors.get((name, index), UNKNOWN), position))
            questions.queries.append(Query(key, name, (key,)))
            if index is not None:
                questions.judgments.append(Judgment(key, pictures.ids(name)[index], "gold", 1.0))
    return questions


def collection_of(image_set: ImageSet) -> str:
    """What a set was drawn from: the corpus in the published names, else the video or album.

    >>> kept = {"kind": "video", "images": (), "group": "", "shot": 0, "closest": 0.0, "mean_distance": 0.0}
    >>> collection_of(ImageSet(id="", source="YouCook-video0095", **kept))
    'YouCook'
    """
    match = re.fullmatch(rf"(MSR-VTT|video-storytelling|YouCook)-video.*|({STATIC})-.*", image_set.source)
    return (match[1] or match[2]) if match else image_set.source


def _place(file: JsonFile, name: str) -> str:
    return f"{file.locate(name)}: set {name!r}"


def _add(described: dict[str, _DescribedSet], path: Path) -> str:
    """Add the sets of a file; a sentence where it hides targets that its name promises, "" else."""
    match = DESCRIPTIONS.fullmatch(path.name)
    file, split = read_json(path), (SPLIT_WORDS[match[1]] if match else None)
    sets: dict[str, object] = as_record(file.value, dict[str, object], path)
    for name, value in sets.items():
        refuse_unsafe(partial(file.locate, name), name)
        if name in described:
            other = described[name].file.path.name
            raise DataError(f"{file.locate(name)}: set {name!r} is in {other} as well", hint="keep one of the two")
        at = partial(_place, file, name)
        texts: Mapping[str, str] | list[str] = as_record(value, dict[Index, str] | list[str], at)
        pairs: list[tuple[int | None, str]] = [(None, text) for text in texts]
        if isinstance(texts, dict):
            pairs = [(int(key), text) for key, text in texts.items()]
        described[name] = _DescribedSet(split, file, pairs)
    hidden = [name for name, value in sets.items() if isinstance(value, list)]
    if not hidden or split == "test":
        return ""
    if len(hidden) < len(sets):
        what = f"set {hidden[0]!r} is a list, and others of the file map the index of a target to its description"
        raise DataError(f"{file.locate(hidden[0])}: {what}", hint="restore the set as {index: description}")
    what = f"{file.path.name} has lists of descriptions, not {{index: description}}"
    return f"{what}: its {len(hidden)} sets count as ones with hidden targets"


def _check_targets(described: Mapping[str, _DescribedSet], annotated: Sequence[PhenomenaRow], size: int) -> None:
    places = [
        (partial(entry.file.locate, name, str(index)), name, index)
        for name, entry in described.items()
        for index, _ in entry.descriptions
    ]
    for locate, name, index in [*places, *((partial(str, row.place), row.image_set, row.index) for row in annotated)]:
        if index is not None and index >= size:
            message = f"{locate()}: set {name!r}: target {index} is out of range (0 to {size - 1})"
            raise DataError(message, hint=f"a set has {size} images, counted from 0")


def _groups(described: Mapping[str, _DescribedSet], sources: Mapping[str, str], notes: list[str]) -> dict[str, str]:
    """Group of each set: its source, or a part of one whose sets the publisher parted."""
    splits = {name: described[name].split if name in described else None for name in sources}
    by_source = grouped((source, splits[name]) for name, source in sources.items())
    splits_of = {source: set(several) for source, several in by_source.items()}
    if parted := sum(len(several - {None}) > 1 for several in splits_of.values()):
        what = f"{plural(parted, 'video')} with sets in more than one split, as published"
        notes.append(f"{what}; each part is a group of its own here")
    return {
        name: source if len(splits_of[source]) == 1 else f"{source}@{splits[name] or 'none'}"
        for name, source in sources.items()
    }


def _authors(
    writers: list[Path], described: Mapping[str, _DescribedSet], notes: list[str]
) -> dict[tuple[str, int | None], str]:
    """Who wrote a description, as far as the release says: `train_worker` or `unseen_worker`."""
    authors: dict[tuple[str, int | None], str] = {}
    for path in writers:
        file = read_json(path)
        sets: dict[str, object] = as_record(file.value, dict[str, object], path)
        for name, value in sets.items():
            rows: dict[str, str] = as_record(value, dict[Index, str], partial(_place, file, name))
            authors |= {(name, int(key)): writer for key, writer in rows.items()}
    keys = {(name, index) for name, entry in described.items() for index, _ in entry.descriptions}
    if lost := len(authors.keys() - keys):
        notes.append(f"{lost} entries about writers belong to no description here and were left out")
    return authors


_COLLECTIONS = {"MSR-VTT": 8045, "video-storytelling": 8153, "YouCook": 588, "open-images": 4416}

HUMANS = (("valid", 0.909, 0.797, 0.872), ("test", 0.908, 0.795, 0.869))
"""Side, human accuracy, Krippendorff's alpha nominal and interval (Table 3)."""


def is_release(dataset: Dataset) -> bool:
    """Whether a dataset is (a part of) the published release, by what its sets were drawn from."""
    collections = {collection_of(image_set) for image_set in dataset.sets}
    return bool(collections) and not dataset.sources and collections <= _COLLECTIONS.keys()

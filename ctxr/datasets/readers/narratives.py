"""Localized Narratives (Pont-Tuset et al., 2020) and Video Localized Narratives (Voigtlaender et al., 2023): captions and mouse traces.

A line of JSONL is a narrative of an image, or all narratives of a video; lines are read one at a time. Each narrative is a query: of an
image against its gallery, of an actor in a video against its keyframes. Points outside their image move to its edge.
"""

import re
from array import array
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import Annotated, ClassVar

import msgspec
import numpy as np
from msgspec import structs

from ctxr.datasets.dataset import Dataset
from ctxr.datasets.pairs import coco_image, published_names
from ctxr.datasets.readers.galleries import Galleries
from ctxr.datasets.readers.karpathy import files_below
from ctxr.datasets.readers.text_files import refuse_unsafe, refuse_unsafe_path
from ctxr.errors import DataError, plural
from ctxr.store.records import PHOTO_SUFFIXES, SPLIT_WORDS, Floats, Judgment, SplitName, Text, TimedWord, Trace
from ctxr.store.tables import UNREADABLE, grouped, numbered_lines

_MOST_SECONDS = 1e6  # from the start of a recording; what is farther away is of another clock

Index = Annotated[int, msgspec.Meta(ge=0, lt=1 << 53)]


class _Point(msgspec.Struct, gc=False):
    x: float
    y: float
    t: float
    kf_idx: Index = 0


class _FramePoint(msgspec.Struct, gc=False, rename={"t": "time_ms_since_epoch"}):
    x: float
    y: float
    t: float
    kf_idx: Index


class _Word(msgspec.Struct, rename={"text": "utterance", "start": "start_time", "end": "end_time"}):
    text: str
    start: float
    end: float


class _FrameWord(msgspec.Struct, rename={"text": "referenced_word", "start": "start_ms", "end": "end_ms"}):
    text: str
    start: float
    end: float


class _Actor(msgspec.Struct, rename={"words": "time_alignment", "start": "recording_start_time_ms_since_epoch"}):
    UNIT: ClassVar[float] = 1e-3  # seconds of a unit of its clocks
    actor_name: str
    start: float
    caption: str
    words: list[_FrameWord]
    traces: list[list[_FramePoint]]
    keyframe_selection_indices: list[Index] = []
    recording_filename: str = ""


class _Video(msgspec.Struct):
    dataset_id: str
    video_id: str | int
    annotator_id: str | int
    keyframe_names: Annotated[list[str], msgspec.Meta(min_length=1)]
    actor_narratives: list[_Actor]


class _Image(msgspec.Struct, rename={"words": "timed_caption", "recording_filename": "voice_recording"}):
    """A video of one keyframe and one actor, but for its clock."""

    UNIT: ClassVar[float] = 1.0
    actor_name: ClassVar[str] = ""
    start: ClassVar[float] = 0.0
    keyframe_selection_indices: ClassVar[Sequence[int]] = (0,)
    video_id: ClassVar[str] = ""
    dataset_id: str
    image_id: str | int
    annotator_id: str | int
    caption: str
    words: list[_Word]
    traces: list[list[_Point]]
    recording_filename: str = ""

    @property
    def keyframe_names(self) -> list[str]:
        return [str(self.image_id)]

    @property
    def actor_narratives(self) -> list["_Image"]:
        return [self]


# by what is in each of its lines; a quote within a text has a backslash before it
_FORMATS: dict[bytes, msgspec.json.Decoder[_Image | _Video]] = {
    b'"actor_narratives"': msgspec.json.Decoder(_Video),
    b'"timed_caption"': msgspec.json.Decoder(_Image),
}


def narrative_files(path: Path) -> list[Path]:
    """The JSONL at a path, or each in it, whose first line is a narrative or about a video with narratives."""
    narratives = []
    for file in sorted(path.glob("*.jsonl")) if path.is_dir() else [path]:
        if file.suffix == ".jsonl" and file.is_file():
            with file.open("rb") as stream:
                line = stream.readline(1 << 24)
            narratives += [file] if any(sign in line for sign in _FORMATS) else []
    return narratives


def read_narratives(path: Path, files: Sequence[Path], passed: Callable[[], None]) -> Dataset:
    """Narratives with their traces; pictures are searched beside the files and in all folders below.

    The split is told by `dataset_id`, or else by the file's name. Raises DataError naming file:line for what does not fit, a narrative
    that appears twice, and lines of a video that differ in keyframes.
    """
    root = path if path.is_dir() else path.parent
    reading = _Reading(Galleries(root, passed))
    for file in files:
        for number, line in numbered_lines(file):
            reading.at = f"{file}:{number}"
            decoder = next((one for sign, one in _FORMATS.items() if sign in line), _FORMATS[b'"timed_caption"'])
            try:
                row = decoder.decode(line)
            except UNREADABLE as error:
                raise DataError(f"{reading.at}: {error}", hint="restore the line, or delete it") from error
            reading.take(row, split_named(file.stem))
    return reading.dataset(root.resolve().name if len(files) > 1 else files[0].stem)


def split_named(name: str) -> SplitName | None:
    """The split that the name of a dataset or file tells, by its last word that is one.

    >>> split_named("mscoco_val2017"), split_named("open_images_train_v6_localized_narratives-00000-of-00010"), split_named("coco")
    ('valid', 'train', None)
    """
    return next((SPLIT_WORDS[word] for word in re.findall("[a-z]+", name.lower())[::-1] if word in SPLIT_WORDS), None)


@dataclass
class _Reading:
    galleries: Galleries
    at: str = ""
    splits: dict[str, SplitName] = field(default_factory=dict)
    videos: set[str] = field(default_factory=set)
    traces: list[Trace] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    blank: list[str] = field(default_factory=list)
    nowhere: list[str] = field(default_factory=list)
    points: int = 0
    outside: int = 0

    def take(self, row: _Image | _Video, of_file: SplitName | None) -> None:
        """Add a line, and its images that are new; `of_file`: the split that the file's name tells."""
        names, author = row.keyframe_names, str(row.annotator_id)
        folder = f"{row.dataset_id}/{row.video_id}" if isinstance(row, _Video) else row.dataset_id
        refuse_unsafe(lambda: self.at, row.dataset_id)
        for name in (folder, *names, author):
            refuse_unsafe_path(self.at, name)
        split = split_named(row.dataset_id)
        gallery = folder if split or not of_file else folder.replace(row.dataset_id, f"{row.dataset_id}_{of_file}", 1)
        images = [f"{gallery}/{name}" for name in names]
        if isinstance(row, _Video):
            self.videos.add(gallery)
            if len(set(images)) < len(images) or self.galleries.members.get(gallery, images) != images:
                what = f"{self.at}: a keyframe of {row.video_id} is named twice, or another line has others"
                raise DataError(what, hint="give all lines of a video the same keyframe_names")
        if told := split or of_file:
            self.splits[gallery] = told
        for image, name in zip(images, names, strict=True):
            if image not in self.galleries.images:
                found = self.galleries.add_photo(gallery, image, self._find(PurePosixPath(folder, name)))
                self.missing += [] if found else [image]
        about = gallery if isinstance(row, _Video) else images[0]
        author, line = f"annotator-{author}" if author.isdigit() else author, self.at
        narratives: Sequence[_Image | _Actor] = row.actor_narratives
        for number, narrative in enumerate(narratives):
            self.at = f"{line}: actor_narratives[{number}]" if isinstance(row, _Video) else line
            self._add(f"{about}/{author}", number, narrative, images)

    def _add(self, author: str, number: int, row: _Image | _Actor, images: Sequence[str]) -> None:
        if not row.caption.strip():
            self.blank.append(self.at)
            return
        words = tuple(TimedWord(one.text, one.start * row.UNIT, one.end * row.UNIT) for one in row.words)
        for word in words:
            if not -_MOST_SECONDS < word.start <= word.end < _MOST_SECONDS:
                what = f"{self.at}: {word.text!r} is said from {word.start:g} to {word.end:g} seconds"
                raise DataError(what, hint="restore its times")
        parts = [part for stroke in row.traces if stroke for part in self._cut(stroke, row.start, row.UNIT)]
        relevant = sorted({*row.keyframe_selection_indices, *(frame for frame, _ in parts)})
        if not relevant:
            self.nowhere.append(self.at)
            return
        if relevant[-1] >= len(images):
            what = f"{self.at}: it names the keyframe {relevant[-1]}, and there are {len(images)}"
            raise DataError(what, hint=f"kf_idx and keyframe_selection_indices are 0 to {len(images) - 1}")
        texts = self.galleries.texts
        while (key := f"{author}/{number}") in texts:
            if texts[key].text == row.caption:
                raise DataError(f"{self.at}: the narrative {key} is here again", hint="delete one of the two")
            number += 1
        texts[key] = Text(key, row.caption, author.rpartition("/")[2], len(texts))
        self.galleries.judgments += [Judgment(key, images[frame], "gold", 1.0) for frame in relevant]
        if words or parts:
            strokes, drawn_on = [points for _, points in parts], [relevant.index(frame) for frame, _ in parts]
            files = row.recording_filename, row.actor_name
            self.traces.append(Trace(key, words, tuple(strokes), tuple(drawn_on), *files))

    def _cut(
        self, stroke: Sequence[_Point] | Sequence[_FramePoint], start: float, unit: float
    ) -> Iterator[tuple[int, Floats]]:
        """A stroke by the keyframes that it was drawn on; points stay in the order they were drawn."""
        drawn = np.array([(point.x, point.y, (point.t - start) * unit, point.kf_idx) for point in stroke], np.float64)
        if (far := np.abs(drawn[:, 2]).max()) >= _MOST_SECONDS:
            what = f"{self.at}: a point lies {far:g} seconds from the start of the recording"
            raise DataError(what, hint="restore its time")
        places = drawn[:, :2].clip(0, 1)
        self.points += len(drawn)
        self.outside += int((places != drawn[:, :2]).any(axis=1).sum())
        drawn[:, :2] = places
        for part in np.split(drawn, np.flatnonzero(np.diff(drawn[:, 3])) + 1):
            yield int(part[0, 3]), array("f", part[:, :3].astype(np.float32).tobytes())

    @cached_property
    def files(self) -> dict[str, list[Path]]:
        """All pictures below the folder by their names with and without suffix, those nearest to it first."""
        files = [file for files in files_below(self.galleries.root).values() for file in files]
        pictures = sorted((len(file.parts), file) for file in files if file.suffix.lower() in PHOTO_SUFFIXES)
        return grouped((name, file) for _, file in pictures for name in (file.name, file.stem))

    def _find(self, path: PurePosixPath) -> Path | None:
        """The picture of DATASET/VIDEO/KEYFRAME or DATASET/IMAGE: in a folder that ends so, else in one that ends so without DATASET."""
        spellings = (path.name, *published_names(coco_image(path.name) or ""))
        files = [file for one in spellings for file in self.files.get(one, ()) if self.galleries.holds(file)]
        ends = path.parts[:-1], path.parts[1:-1]
        return next((file for end in ends for file in files if file.parts[-1 - len(end) : -1] == end), None)

    def dataset(self, name: str) -> Dataset:
        """All that was read. Raises DataError without a single narrative."""
        galleries = self.galleries
        if not galleries.texts:
            raise DataError(f"{self.at}: there is no narrative with text up to here", hint="restore the file")
        lost = (
            (self.missing, f"of {len(galleries.images)} images are missing from {galleries.searched}"),
            (self.blank, "narratives are blank and were left out"),
            (self.nowhere, "narratives have neither strokes nor keyframes and were left out"),
        )
        notes = [f"{len(which)} {what}: the first is {which[0]}" for which, what in lost if which]
        if self.outside:
            points = plural(self.points, "point")
            notes.append(f"{self.outside} of {points} lay outside their image and were moved to its edge")
        dataset = galleries.dataset(name, self.splits, notes)
        sets = tuple(structs.replace(one, kind="keyframes") if one.id in self.videos else one for one in dataset.sets)
        traces = tuple(sorted(self.traces, key=lambda row: row.id))
        return replace(dataset, sets=sets, payloads={"traces": traces} if traces else {})

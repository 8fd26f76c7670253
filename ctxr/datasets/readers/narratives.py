"""Localized Narratives (Pont-Tuset et al., 2020) and Video Localized Narratives (Voigtlaender et al., 2023): captions and mouse traces.

A line of JSONL is a narrative of an image, or all narratives of a video; lines are read one at a time. Each narrative is a query: of an
image against its gallery, of an actor in a video against its keyframes. Points outside their image move to its edge.
"""

import re
from array import array
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from operator import itemgetter
from pathlib import Path, PurePosixPath
from typing import Annotated

import msgspec
import numpy as np
from msgspec import structs

from ctxr.datasets.dataset import Dataset
from ctxr.datasets.pairs import coco_image, published_names
from ctxr.datasets.readers.galleries import Galleries
from ctxr.datasets.readers.text_files import refuse_unsafe_path
from ctxr.errors import DataError, plural
from ctxr.store.records import SPLIT_WORDS, Floats, Judgment, SplitName, Text, TimedWord, Trace
from ctxr.store.tables import UNREADABLE, numbered_lines

Point = dict[str, float]
"""x, y, and the seconds `t`; in a video `time_ms_since_epoch`, and the keyframe `kf_idx` that it is on."""

_PLACE = itemgetter("x", "y", "time_ms_since_epoch", "kf_idx")
_MOST_SECONDS = 1e6  # from the start of a recording; what is farther away is of another clock


class Utterance(msgspec.Struct):
    """One or several words; seconds."""

    utterance: str
    start_time: float
    end_time: float


class ImageLine(msgspec.Struct):
    """A narrative about an image."""

    dataset_id: str
    image_id: str | int
    annotator_id: str | int
    caption: str
    timed_caption: list[Utterance]
    traces: list[list[Point]]
    voice_recording: str = ""

    def as_video(self) -> "VideoLine":
        """A video of one keyframe, without a name of its own."""
        words = [AlignedWord(one.utterance, one.start_time * 1000, one.end_time * 1000) for one in self.timed_caption]
        traces = [
            [point | {"time_ms_since_epoch": point["t"] * 1000, "kf_idx": 0} for point in one] for one in self.traces
        ]
        narrative = ActorNarrative("", 0, self.caption, traces, words, [0])
        return VideoLine(self.dataset_id, "", self.annotator_id, [str(self.image_id)], [narrative])


class AlignedWord(msgspec.Struct):
    """A word and its characters in the caption; milliseconds since the recording started."""

    referenced_word: str
    start_ms: float
    end_ms: float
    referenced_word_start_idx: int = 0
    referenced_word_end_idx: int = 0


class ActorNarrative(msgspec.Struct):
    """A narrative about an actor of a video."""

    actor_name: str
    recording_start_time_ms_since_epoch: float
    caption: str
    traces: list[list[Point]]
    time_alignment: list[AlignedWord]
    keyframe_selection_indices: list[int] = []
    recording_filename: str = ""
    traces_start_time_ms_since_epoch: float = 0


class VideoLine(msgspec.Struct):
    """Narratives of an annotator about a video."""

    dataset_id: str
    video_id: Annotated[str, msgspec.Meta(min_length=1)] | int
    annotator_id: str | int
    keyframe_names: Annotated[list[str], msgspec.Meta(min_length=1)]
    actor_narratives: list[ActorNarrative]


# by what is in each of its lines; a quote within a text has a backslash before it
_FORMATS: dict[bytes, type[ImageLine] | type[VideoLine]] = {
    b'"actor_narratives"': VideoLine,
    b'"timed_caption"': ImageLine,
}


def narrative_files(path: Path) -> list[Path]:
    """The JSONL at a path, or each in it, whose first line is a narrative or about a video with narratives."""
    narratives = []
    for file in sorted(path.glob("*.jsonl")) if path.is_dir() else [path] * (path.suffix == ".jsonl"):
        if file.is_file():
            with file.open("rb") as stream:
                line = stream.readline(1 << 24)
            narratives += [file] if b'"timed_caption"' in line or b'"actor_narratives"' in line else []
    return narratives


def read_narratives(path: Path, files: Sequence[Path], passed: Callable[[], None]) -> Dataset:
    """Narratives with their traces; pictures lie beside the files or in any folder below.

    The split is told by `dataset_id`, or else by the file's name. Raises DataError naming file:line for what does not fit, a narrative
    that appears twice, and lines of a video that differ in keyframes.
    """
    root = path if path.is_dir() else path.parent
    reading = _Reading(Galleries(root, passed))
    for file in files:
        for number, line in numbered_lines(file):
            at = f"{file}:{number}"
            kind = next((kind for sign, kind in _FORMATS.items() if sign in line), ImageLine)
            try:
                row = msgspec.json.decode(line, type=kind)
                reading.take(at, row.as_video() if isinstance(row, ImageLine) else row, split_named(file.stem))
            except (*UNREADABLE, KeyError) as error:
                what = f"a point has no {error}" if isinstance(error, KeyError) else error
                raise DataError(f"{at}: {what}", hint="restore the line, or delete it") from error
    return reading.dataset(root.resolve().name if len(files) > 1 else files[0].stem)


def split_named(name: str) -> SplitName | None:
    """The split that the name of a dataset or file tells, by its last word that is one.

    >>> split_named("mscoco_val2017"), split_named("open_images_train_v6_localized_narratives-00000-of-00010"), split_named("coco")
    ('valid', 'train', None)
    """
    return next((SPLIT_WORDS[word] for word in re.findall("[a-z]+", name.lower())[::-1] if word in SPLIT_WORDS), None)


@dataclass
class _Reading:
    """What was read; `left`: what is not there, by what that is. `seen`: where each narrative stands.
    `counts`: points, those outside their image, and narratives of each annotator."""

    galleries: Galleries
    splits: dict[str, SplitName] = field(default_factory=dict)
    videos: set[str] = field(default_factory=set)
    traces: list[Trace] = field(default_factory=list)
    left: defaultdict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    counts: Counter[str] = field(default_factory=Counter)
    seen: dict[tuple[str, ...], str] = field(default_factory=dict)

    def take(self, line: str, row: VideoLine, of_file: SplitName | None) -> None:
        """Add what stands at a line, and its images that are new; `of_file`: the split that the file's name tells."""
        author, told = str(row.annotator_id), split_named(row.dataset_id)
        dataset = row.dataset_id if told or not of_file else f"{row.dataset_id}_{of_file}"
        gallery = f"{dataset}/{row.video_id}".removesuffix("/")
        for name in (gallery, *row.keyframe_names, author):
            refuse_unsafe_path(line, name)
        images = [f"{gallery}/{name}" for name in row.keyframe_names]
        if split := told or of_file:
            self.splits[gallery] = split
        if row.video_id != "":
            self.videos.add(gallery)
            if len(set(images)) < len(images) or self.galleries.members.get(gallery, images) != images:
                what = f"{line}: a keyframe of {row.video_id} is named twice, or another line has others"
                raise DataError(what, hint="give all lines of a video the same keyframe_names")
        for image, name in zip(images, row.keyframe_names, strict=True):
            if image not in self.galleries.images:
                file = self.find(PurePosixPath(row.dataset_id, str(row.video_id), name))
                if not self.galleries.add_photo(gallery, image, file):
                    self.left[f"images that are missing from {self.galleries.searched} and all folders below"].append(
                        image
                    )
        author = f"{gallery}/annotator-{author}" if author.isdigit() else f"{gallery}/{author}"
        for number, actor in enumerate(row.actor_narratives):
            at = f"{line}, actor {number}" if row.video_id != "" else line
            self.add(at, author, actor, images)

    def add(self, at: str, author: str, actor: ActorNarrative, images: Sequence[str]) -> None:
        """Add a narrative as the next query `AUTHOR/NUMBER`: ids must not tell the image."""
        if not actor.caption.strip():
            self.left["blank narratives, which were left out"].append(at)
            return
        words = [
            TimedWord(one.referenced_word, round(one.start_ms / 1000, 5), round(one.end_ms / 1000, 5))
            for one in actor.time_alignment
        ]
        for word in words:
            if not -_MOST_SECONDS < word.start <= word.end < _MOST_SECONDS:
                what = f"{at}: {word.text!r} is said from {word.start:g} to {word.end:g} seconds"
                raise DataError(what, hint="restore its times")
        parts = [part for stroke in actor.traces if stroke for part in self.cut(at, stroke, actor)]
        relevant = sorted({*actor.keyframe_selection_indices, *(frame for frame, _ in parts)})
        if lost := [frame for frame in relevant if frame not in range(len(images))]:
            hint = f"kf_idx and keyframe_selection_indices are 0 to {len(images) - 1}"
            raise DataError(f"{at}: there is no keyframe {lost[0]:g}", hint=hint)
        if not relevant:
            self.left["narratives without a keyframe, which were left out"].append(at)
            return
        first = self.seen.setdefault((author, *images, actor.caption), at)
        if first != at:
            raise DataError(f"{at}: the narrative of {first} is here again", hint="delete one of the two")
        texts, key = self.galleries.texts, f"{author}/{self.counts[author]}"
        self.counts[author] += 1
        texts[key] = Text(key, actor.caption, PurePosixPath(author).name, len(texts))
        self.galleries.judgments += [Judgment(key, images[int(frame)], "gold", 1.0) for frame in relevant]
        if words or parts:
            strokes, drawn_on = [points for _, points in parts], [relevant.index(frame) for frame, _ in parts]
            self.traces.append(Trace(key, tuple(words), tuple(strokes), tuple(drawn_on), actor.actor_name))

    def cut(self, at: str, stroke: Sequence[Point], actor: ActorNarrative) -> Iterator[tuple[float, Floats]]:
        """A stroke by the keyframes that it was drawn on; points stay in their order."""
        points = np.array([*map(_PLACE, stroke)], np.float64)
        points[:, 2] = (points[:, 2] - actor.recording_start_time_ms_since_epoch) / 1000
        if (far := np.abs(points[:, 2]).max()) >= _MOST_SECONDS:
            what = f"{at}: a point lies {far:g} seconds from the start of the recording"
            raise DataError(what, hint="restore its time")
        places = points[:, :2].clip(0, 1)
        self.counts["points"] += len(points)
        self.counts["outside"] += int((places != points[:, :2]).any(axis=1).sum())
        points[:, :2] = places
        for part in np.split(points, np.flatnonzero(np.diff(points[:, 3])) + 1):
            yield part[0, 3].item(), array("f", part[:, :3].astype(np.float32).tobytes())

    def find(self, path: PurePosixPath) -> Path | None:
        """The picture of DATASET/VIDEO/KEYFRAME or DATASET/IMAGE: in a folder that ends so, else in one that ends so without DATASET."""
        spellings = (path.name, *published_names(coco_image(path.name) or ""))
        files = [file for one in spellings for file in self.galleries.below(one)]
        ends = path.parts[:-1], path.parts[1:-1]
        return next((file for end in ends for file in files if file.parts[-1 - len(end) : -1] == end), None)

    def dataset(self, name: str) -> Dataset:
        """All that was read. Raises DataError without a single narrative."""
        if not self.galleries.texts:
            raise DataError(
                f"{self.galleries.root}: no narrative of {name} has a text and an image", hint="restore the file"
            )
        notes = [f"{what}: {len(which)}, the first is {which[0]}" for what, which in self.left.items()]
        if outside := self.counts["outside"]:
            points = plural(self.counts["points"], "point")
            pixels = "; are they pixels, and not shares of the image?" if 2 * outside > self.counts["points"] else ""
            notes.append(f"{outside} of {points} lay outside their image and were moved to its edge{pixels}")
        dataset = self.galleries.dataset(name, self.splits, notes)
        sets = tuple(structs.replace(one, kind="keyframes") if one.id in self.videos else one for one in dataset.sets)
        traces = tuple(sorted(self.traces, key=lambda row: row.id))
        return replace(dataset, sets=sets, payloads={"traces": traces} if traces else {})

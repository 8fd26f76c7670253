"""Localized Narratives, and Video Localized Narratives of sets in the order of time: JSONL by split, with pictures in folders."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple, cast

import numpy as np

from ctxr.datasets.readers.narratives import (
    ActorNarrative,
    AlignedWord,
    ImageLine,
    Point,
    Utterance,
    VideoLine,
    split_named,
)
from ctxr.datasets.writers.job import UNSPLIT, ExportJob, ExportResult, suffix_of
from ctxr.errors import DataError, some
from ctxr.store.atomic import link_or_copy, write_bytes
from ctxr.store.paths import stays_inside
from ctxr.store.records import Floats, ImageSet, Trace
from ctxr.store.tables import encode_row, grouped


def write(job: ExportJob) -> ExportResult:
    """Write `SPLIT_video_narratives.jsonl` of ordered sets and `SPLIT_localized_narratives.jsonl` of the others, and their pictures.

    Raises DataError for an image whose id cannot be a path.
    """
    writing, result = _Writing(job), ExportResult(_LOAD)
    with job.progress.task("export sets", len(job.dataset.sets)) as task:
        for split, sets in job.by_split().items():
            rows: dict[str, list[bytes]] = {"video": [], "localized": []}
            for one in sets:
                lines = writing.of_frames(one, split) if one.ordered else writing.of_images(one, split)
                rows["video" if one.ordered else "localized"] += map(encode_row, lines)
                task.advance()
            for kind in filter(rows.get, rows):
                write_bytes(job.out / f"{split}_{kind}_narratives.jsonl", b"".join(rows[kind]))
    others = [row.query for row in job.dataset.judgments if row.worker != "gold" or row.value <= 0]
    unknown = [image for image in job.dataset.images if image not in writing.known]
    left = (
        (writing.skipped, "queries without known images, with several in a gallery, or as one before"),
        (unknown, "images that no narrative is about, but for their pictures"),
        (others, "judgments by others than gold, or of value 0"),
    )
    result.left_out += [f"{len(which)} {what}: {some(which)}." for which, what in left if which]
    if writing.merged:
        result.notes.append(f"The images of each split become one gallery: those of {some(writing.merged)}.")
    return result


class _Narrative(NamedTuple):
    """A query with its trace; `images` are the places of the known ones in the set."""

    author: str
    caption: str
    trace: Trace
    images: list[int]


class _Writing:
    """Makes the lines of sets. Kept are images in them, queries in none, and sets whose images go to the gallery of their split."""

    def __init__(self, job: ExportJob) -> None:
        self.job = job
        self.traces = {row.id: row for row in cast("tuple[Trace, ...]", job.dataset.payloads.get("traces", ()))}
        self.known, self.skipped, self.merged = set[str](), list[str](), list[str]()

    def of_images(self, image_set: ImageSet, split: str) -> Iterator[ImageLine]:
        dataset, said = _dataset_id(image_set.id, split), set[tuple[int, str, str]]()
        self.merged += [image_set.id] if dataset != image_set.id else []
        names = [image.removeprefix(f"{dataset}/") for image in image_set.images]
        self.save(image_set, f"images/{dataset}", names)
        for author, caption, trace, (place, *others) in self.narratives(image_set):
            if others or (place, author, caption) in said:
                self.skipped.append(trace.id)
                continue
            said.add((place, author, caption))
            words = [Utterance(*word) for word in trace.words]
            strokes = [_points(stroke, "t", 1) for stroke in trace.strokes]
            yield ImageLine(dataset, names[place], author, caption, words, strokes, trace.recording)
        self.known |= {image_set.images[place] for place, _, _ in said}

    def of_frames(self, image_set: ImageSet, split: str) -> Iterator[VideoLine]:
        dataset = _dataset_id(image_set.id.rpartition("/")[0], split)
        video = image_set.id.removeprefix(f"{dataset}/")
        names = [image.removeprefix(f"{image_set.id}/") for image in image_set.images]
        self.save(image_set, f"frames/{dataset}/{video}", names)
        actors = grouped((one.author, _actor(one)) for one in self.narratives(image_set))
        self.known |= {*image_set.images} if actors else set()
        for author, own in actors.items():
            yield VideoLine(dataset, video, author, names, own)

    def narratives(self, image_set: ImageSet) -> Iterator[_Narrative]:
        """Those of queries whose images are known, in the order of their texts."""
        texts, own = self.job.dataset.texts, self.job.queries.get(image_set.id, [])
        for query in sorted(own, key=lambda query: [texts[name].order for name in query.texts]):
            images = self.job.targets.get(query.id, []) if query.labels is None and query.texts else []
            trace = self.traces.get(query.id) or Trace(query.id, (), (), ())
            if max(trace.drawn_on, default=0) < len(images):
                author = texts[query.texts[0]].author.removeprefix("annotator-")
                yield _Narrative(author, self.job.dataset.text_of(query), trace, images)
            else:
                self.skipped.append(query.id)

    def save(self, image_set: ImageSet, folder: str, names: Sequence[str]) -> None:
        """Write its pictures by these names, which may have their suffixes already."""
        for image, name in zip(self.job.members(image_set), names, strict=True):
            if not stays_inside(f"{folder}/{name}"):
                raise DataError(f"the image {image.id!r} cannot be a file inside the folder", hint="rename it")
            if image.path:
                suffix = "" if name.lower().endswith(suffix_of(image)) else suffix_of(image)
                link_or_copy(self.job.pictures.checked(image), self.job.out / f"{folder}/{name}{suffix}")


def _actor(narrative: _Narrative) -> ActorNarrative:
    _, caption, trace, frames = narrative
    words, end = list[AlignedWord](), 0
    for text, first, last in trace.words:
        start = max(caption.find(text, end), end)
        end = start + len(text)
        words.append(AlignedWord(text, round(first * 1000, 5), round(last * 1000, 5), start, end))
    drawn = zip(trace.strokes, trace.drawn_on, strict=True)
    strokes = [_points(one, "time_ms_since_epoch", 1000, kf_idx=frames[number]) for one, number in drawn]
    return ActorNarrative(trace.actor, 0, caption, strokes, words, frames, trace.recording)


def _dataset_id(name: str, split: str) -> str:
    """The name of a gallery if it tells the split, else that of the split."""
    return name if name and (split_named(name) or UNSPLIT) == split else split


def _points(stroke: Floats, clock: str, unit: int, **more: int) -> list[Point]:
    """To five decimals; `unit`: of the clock, a second's."""
    points = np.frombuffer(stroke, np.float32).astype(np.float64).round(5).reshape(-1, 3).tolist()
    return [{"x": x, "y": y, clock: round(t * unit, 5), **more} for x, y, t in points]


_LOAD = """A line of `*_localized_narratives.jsonl` is a narrative of an image in the format of Localized Narratives: `caption`,
`timed_caption` and `traces`; its picture is `images/DATASET_ID/IMAGE_ID`. A line of `*_video_narratives.jsonl` holds what one annotator
said of a video, in the format of Video Localized Narratives, with times since a recording that starts at 0; keyframes are
`frames/DATASET_ID/VIDEO_ID/NAME`. A query without a trace has no words and strokes.
"""

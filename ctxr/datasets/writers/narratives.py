"""Localized Narratives, and Video Localized Narratives of sets in the order of time: JSONL by split, with pictures in folders."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import cast

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
from ctxr.store.records import Floats, ImageSet, Query, Trace
from ctxr.store.tables import encode_row, grouped


def write(job: ExportJob) -> ExportResult:
    """Write `SPLIT_video_narratives.jsonl` of ordered sets and `SPLIT_localized_narratives.jsonl` of the others, and their pictures.

    Raises DataError for an image whose id cannot be a path.
    """
    writing, result = _Writing(job), ExportResult(_LOAD, kept=("traces",))
    with job.progress.task("exporting sets", len(job.dataset.sets)) as task:
        for split, sets in job.by_split().items():
            rows = defaultdict[str, list[bytes]](list)
            for one in sets:
                kind, lines = ("video", writing.of_frames) if one.ordered else ("localized", writing.of_images)
                rows[kind] += map(encode_row, lines(one, split))
                task.advance()
            for kind in filter(rows.get, rows):
                write_bytes(job.out / f"{split}_{kind}_narratives.jsonl", b"".join(rows[kind]))
    left = (
        (writing.skipped, "queries with no known image, with several of a gallery, or that repeat another"),
        ([*job.dataset.images.keys() - writing.known], "images that no narrative is about; their pictures are written"),
        ([row.query for row in job.dataset.judgments if row.worker != "gold" or row.value <= 0], "other judgments"),
    )
    result.left_out += [f"{len(which)} {what}: {some(sorted(which))}." for which, what in left if which]
    return result


class _Writing:
    """Makes the lines of sets. Kept are the images in them, and the queries that are in none."""

    def __init__(self, job: ExportJob) -> None:
        self.job, self.known, self.skipped = job, set[str](), list[str]()
        self.traces = {row.id: row for row in cast("tuple[Trace, ...]", job.dataset.payloads.get("traces", ()))}

    def of_images(self, image_set: ImageSet, split: str) -> Iterator[ImageLine]:
        dataset, lines = _dataset_id(image_set.id, split), set[tuple[str, ...]]()
        names = [image.removeprefix(f"{dataset}/") for image in image_set.images]
        self.save(image_set, f"images/{dataset}", names)
        for query, trace in self.traced(image_set):
            place, *others = self.job.targets[query.id]
            line = names[place], self.author(query), self.job.dataset.text_of(query)
            if others or line in lines:
                self.skipped.append(query.id)
                continue
            lines.add(line)
            self.known.add(image_set.images[place])
            words = [Utterance(*word) for word in trace.words]
            strokes = [_points(stroke, "t", 1) for stroke in trace.strokes]
            yield ImageLine(dataset, *line, words, strokes)

    def of_frames(self, image_set: ImageSet, split: str) -> Iterator[VideoLine]:
        dataset = _dataset_id(image_set.id.rpartition("/")[0], split)
        video = image_set.id.removeprefix(f"{dataset}/")
        names = [image.removeprefix(f"{image_set.id}/") for image in image_set.images]
        self.save(image_set, f"frames/{dataset}/{video}", names)
        actors = grouped((self.author(query), self.actor(query, trace)) for query, trace in self.traced(image_set))
        for author, own in actors.items():
            self.known.update(image_set.images)
            yield VideoLine(dataset, video, author, names, own)

    def actor(self, query: Query, trace: Trace) -> ActorNarrative:
        caption, frames, words, end = (
            self.job.dataset.text_of(query),
            self.job.targets[query.id],
            list[AlignedWord](),
            0,
        )
        for text, first, last in trace.words:
            start = max(caption.find(text, end), end)
            end = start + len(text)
            words.append(AlignedWord(text, round(first * 1000, 5), round(last * 1000, 5), start, end))
        strokes = zip(trace.strokes, trace.drawn_on, strict=True)
        traces = [_points(one, "time_ms_since_epoch", 1000, kf_idx=frames[number]) for one, number in strokes]
        return ActorNarrative(trace.actor, 0, caption, traces, words, frames)

    def traced(self, image_set: ImageSet) -> Iterator[tuple[Query, Trace]]:
        """Queries whose images are known, in the order of their texts, with traces, which may be empty."""
        texts, own = self.job.dataset.texts, self.job.queries.get(image_set.id, [])
        for query in sorted(own, key=lambda query: [texts[name].order for name in query.texts]):
            images = self.job.targets.get(query.id, []) if query.labels is None and query.texts else []
            trace = self.traces.get(query.id) or Trace(query.id, (), (), ())
            if max(trace.drawn_on, default=0) < len(images):
                yield query, trace
            else:
                self.skipped.append(query.id)

    def author(self, query: Query) -> str:
        return self.job.dataset.texts[query.texts[0]].author.removeprefix("annotator-")

    def save(self, image_set: ImageSet, folder: str, names: Sequence[str]) -> None:
        """Write its pictures by these names, which may have their suffixes already."""
        for image, name in zip(self.job.members(image_set), names, strict=True):
            if not stays_inside(f"{folder}/{name}"):
                raise DataError(f"the image {image.id!r} cannot be a file inside the folder", hint="rename it")
            if image.path:
                suffix = "" if name.lower().endswith(suffix_of(image)) else suffix_of(image)
                link_or_copy(self.job.pictures.checked(image), self.job.out / f"{folder}/{name}{suffix}")


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
`frames/DATASET_ID/VIDEO_ID/NAME`. A query without a trace has no words and strokes. The images whose `dataset_id` is the name of a split
are those of all its sets whose own names do not tell it.
"""

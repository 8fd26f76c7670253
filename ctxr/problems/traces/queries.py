"""Queries of text and mouse trace as arrays, moved by noise, or cut to their first words."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import cast

import numpy as np

from ctxr.datasets.dataset import Dataset
from ctxr.metrics.votes import Codes, Doubles
from ctxr.problems.queries import EvalQuery, queries_of
from ctxr.problems.ranked import AskedQuery
from ctxr.store.records import Trace


@dataclass(frozen=True, eq=False)
class TracedQuery(AskedQuery):
    """A query with its trace.

    Attributes:
        words: said one after the other, [K].
        times: [K, 2] seconds in which each was said. strokes: [P, 3] x, y and seconds of the points of each.
        drawn_on: [S] image of each stroke, numbered among the relevant ones of the set.
    """

    words: tuple[str, ...]
    times: Doubles
    strokes: Sequence[Doubles]
    drawn_on: Codes

    @property
    def points(self) -> Doubles:
        """Those of all strokes, [P, 3]."""
        return np.concatenate([np.zeros((0, 3)), *self.strokes])

    @property
    def places(self) -> list[int]:
        """Number of the utterance of each word of the text; of the word itself where the utterances are other ones."""
        spoken = [place for place, word in enumerate(self.words) for _ in word.split()]
        count = len(self.text.split())
        return spoken if len(spoken) == count else [*range(count)]

    def first(self, share: float) -> "TracedQuery":
        """Its first words, rounded up, and what was drawn until the last of them was said. `share`: 0..1; 1 is the query itself."""
        if share >= 1 or not self.words:
            return self
        count = int(np.ceil(share * len(self.words)))
        end = self.times[:count, 1].max()
        strokes = [stroke[stroke[:, 2] <= end] for stroke in self.strokes]
        kept = [number for number, stroke in enumerate(strokes) if len(stroke)]
        words, times = self.words[:count], self.times[:count]
        said = zip(self.text.split(), self.places, strict=True)
        text = " ".join(word for word, place in said if place < count)
        strokes, drawn_on = [strokes[number] for number in kept], self.drawn_on[kept]
        return replace(self, text=text, words=words, times=times, strokes=strokes, drawn_on=drawn_on)

    def phrased(self, count: int) -> "TracedQuery":
        """With each `count` words as one, from the start of the first to the end of the last."""
        parts = [slice(start, start + count) for start in range(0, len(self.words), count)]
        spans = [(self.times[part, 0].min(), self.times[part, 1].max()) for part in parts]
        words = tuple(" ".join(self.words[part]) for part in parts)
        return replace(self, words=words, times=np.array(spans, np.float64).reshape(-1, 2))

    def moved(self, noise: float, rng: np.random.Generator) -> "TracedQuery":
        """Each stroke moved by a step of its own, normal with standard deviation `noise`, a share of the image; points stay inside."""
        strokes = [stroke.copy() for stroke in self.strokes]
        for stroke in strokes:
            stroke[:, :2] = (stroke[:, :2] + rng.normal(0, noise, 2)).clip(0, 1)
        return replace(self, strokes=strokes)


def traced(queries: Iterable[EvalQuery]) -> list[TracedQuery]:
    """Queries with their traces; one without a trace has no words and no strokes."""
    found = []
    for one in queries:
        rows = cast("Sequence[Trace]", one.payload.get("traces", ()))
        trace = rows[0] if rows else Trace(one.query, (), (), ())
        times = np.array([(word.start, word.end) for word in trace.words], np.float64).reshape(-1, 2)
        # as exact as they are kept: a point at the end of a word is not behind it
        strokes = [np.array(stroke, np.float64).round(5).reshape(-1, 3) for stroke in trace.strokes]
        words = tuple(word.text for word in trace.words)
        found.append(TracedQuery(one, one.text, words, times, strokes, np.array(trace.drawn_on, np.int64)))
    return found


def traced_queries(dataset: Dataset, wanted: Collection[str] | None = None) -> list[TracedQuery]:
    """All queries of a dataset for images, or those of some ids, with their traces where they have any."""
    return traced(queries_of(dataset, wanted))

"""Records of annotation: a unit of work, an answer to it, and the outcome of a scored answer.

A unit is one piece of work on any platform; several workers may do the same unit, each once. It is one JSON line and does not
depend on its backend or its page.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

import msgspec

from ctxr.annotation.forms import OwnField
from ctxr.store.records import Dialogue, Judgment, Query, Record, SplitName, Text

TaskName = Literal["describe", "retrieve", "dialogue", "review", "tag", "entail", "own", "repeat"]
Purpose = Literal["work", "qualification", "gold", "attention"]


class AnswerLimits(msgspec.Struct, frozen=True):
    """What the protocol says by which an answer is taken; they travel with the unit, so every backend goes by the same.

    Attributes:
        least_words: of a description. sameness: share of common word triples from which two texts are the same text with a
            word changed.
        turns_before_share: of both together, before the photo of a talk can be shared (PhotoChat, section 3).
        language: tag of that in which people write, such as `en`.
    """

    least_words: int = 4
    sameness: float = 0.8
    turns_before_share: int = 5
    language: str = "en"


class OwnQuestions(msgspec.Struct, frozen=True):
    """What a task of one's own asks, as its file says."""

    title: str
    instruction: tuple[str, ...]
    fields: tuple[OwnField, ...]


GIVEN_UP = 2
"""So many workers who say of a unit of work that a picture is broken, or that they cannot make anything of it, end it."""

PUBLISHED = AnswerLimits()
"""Five turns are PhotoChat's; texts of the ImageCoDe release with fewer than four words ("green", "T") identify no image."""


class Unit(Record, frozen=True):
    """One piece of work.

    Attributes:
        task: one of `tasks.NAMES`.
        image_set: the set of its images. group: see `Image.group`.
        images: ids of the images shown, in the set's own order; exposure is counted by picture.
        ordered: shown in that order (video); otherwise shuffled for each slot (ImageCoDe, section 3.2).
        split: split of the answers; None without splits.
        target: the image that is marked for the worker; None without one.
        query: the judged query; None if the answer creates one.
        texts: texts to read: a description; the turns of a dialogue; captions.
        text_ids: ids of the judged texts, or of the statement.
        speakers: speaker of each text of a dialogue, 0 or 1; else empty.
        statement: the judged sentence, if the texts are its premise.
        labels: answers to choose from, if not images; objects in the photo of a dialogue.
        truth: the right answers, never shown to workers; empty if unknown.
        authors: authors of the judged texts, who may not judge them.
        needed: right answers that accept it. most: votes at most. full: always collect `most`, for unbiased metrics.
        purpose: `work`, or a check of the worker: `qualification`, `gold`, `attention`.
        of: the unit that is repeated. like: that unit's task.
        round: of the judgments made from it. limits: see `AnswerLimits`. asked: of a task of one's own.
    """

    id: str
    task: TaskName
    image_set: str
    group: str
    images: tuple[str, ...] = ()
    ordered: bool = False
    split: SplitName | None = None
    target: str | None = None
    query: str | None = None
    texts: tuple[str, ...] = ()
    text_ids: tuple[str, ...] = ()
    speakers: tuple[int, ...] = ()
    statement: str | None = None
    labels: tuple[str, ...] = ()
    truth: tuple[str, ...] = ()
    authors: tuple[str, ...] = ()
    needed: int = 1
    most: int = 1
    full: bool = False
    purpose: Purpose = "work"
    of: str | None = None
    like: TaskName | None = None
    round: int = 0
    limits: AnswerLimits = PUBLISHED
    asked: OwnQuestions | msgspec.UnsetType = msgspec.UNSET

    def pictures(self, contents: Mapping[str, str]) -> dict[str, str]:
        """By image that it shows, what a worker has then seen: the hash of its content, which copies share, or its id without one."""
        return {image: contents.get(image) or image for image in self.images}


class Answer(Record, frozen=True):
    """The answer of one worker to one unit, on any backend.

    Attributes:
        worker: keyed pseudonym; the platform's id is not stored.
        values: by the name of the form's field. A picture is its image id, never its place.
        order: image ids as they were shown, in the direction of reading.
        slot: which of the unit's votes it is, from 0; decides the order of an unordered set.
        at: when it was submitted, UTC, ISO 8601 with "Z". seconds: from showing to submitting; None if not measured.
        backend: what it came through.
    """

    KEY: ClassVar[tuple[str, ...]] = ("unit", "worker")

    unit: str
    worker: str
    values: dict[str, tuple[str, ...]]
    order: tuple[str, ...]
    slot: int
    at: str
    seconds: float | None
    backend: str

    def has_values(self, values: Mapping[str, Sequence[str]]) -> bool:
        """Whether the answer has these values; a field without any is as one that is left out."""
        given, other = ({name: tuple(texts) for name, texts in one.items() if texts} for one in (self.values, values))
        return given == other


REPORTED, DROPPED = "reported.jsonl", "dropped.jsonl"


class Reported(Record, frozen=True):
    """A report on a unit: `cannot_tell` or `broken`, empty for a comment alone."""

    KEY: ClassVar[tuple[str, ...]] = ("unit", "worker")

    unit: str
    worker: str
    task: str
    code: str
    comment: str


class DroppedText(Record, frozen=True):
    """A description or dialogue that was dropped, with the votes that count; the reason is `not_found` (votes were against it), `tie`,
    `too_few_votes`, `broken` (too few, because of a picture), `writer_blocked`, `not_reviewed`, or `not_asked` before anybody voted."""

    KEY: ClassVar[tuple[str, ...]] = ("query",)

    query: str
    text: str
    author: str
    right: int
    wrong: int
    reason: str


class ExitAnswer(Record, frozen=True):
    """An answer to a question at the end of the study, empty for none; `number`: of the question, from 0; `version`: of the questions."""

    KEY: ClassVar[tuple[str, ...]] = ("worker", "number")

    worker: str
    number: int
    version: str
    question: str
    answer: str


@dataclass(frozen=True)
class Outcome:
    """The rows that an answer is worth, and whether it is `right`: the known truth; None if no truth is known."""

    texts: tuple[Text, ...] = ()
    queries: tuple[Query, ...] = ()
    judgments: tuple[Judgment, ...] = ()
    dialogues: tuple[Dialogue, ...] = ()
    right: bool | None = None

"""The nouns of the crowd: a unit of work, an answer to it, and what an answer is worth once it is scored.

A unit is what one worker does in one go, whoever serves it; several workers may do the same unit, each once. It travels as
one JSON line and knows neither its backend nor its page.
"""

from dataclasses import dataclass
from typing import ClassVar, Literal

import msgspec

from ctxr.store.records import Judgment, Query, Record, SplitName, Text

TaskName = Literal["describe", "retrieve", "dialogue", "verify", "tag", "entail", "audit"]
Purpose = Literal["work", "qualification", "gold", "attention"]


class AnswerLimits(msgspec.Struct, frozen=True):
    """Numbers of the protocol by which an answer is taken; they travel with the unit, so every backend goes by the same.

    Attributes:
        least_words: of a description. sameness: share of common word triples from which two texts are the same text with a
            word changed.
        turns_before_share: of both together, before the photo of a talk can be shared (PhotoChat, section 3).
    """

    least_words: int = 4
    sameness: float = 0.8
    turns_before_share: int = 5


PUBLISHED = AnswerLimits()
"""Five turns are PhotoChat's; texts of the ImageCoDe release with fewer than four words ("green", "T") tell nothing apart."""


class Unit(Record, frozen=True):
    """One piece of work.

    Attributes:
        task: what is to be done; names one of `tasks.TASKS`.
        image_set: the set that its images are from, by which exposure is counted. group: see `Image.group`.
        images: ids of the pictures shown, in the set's own order.
        ordered: shown in that order (video); otherwise shuffled anew for each slot (ImageCoDe, section 3.2).
        split: side of the benchmark that the answers go to; None where there are no sides.
        target: the image that the worker is shown as the marked one; None where none is.
        query: the query that is judged; None where the answer makes one.
        texts: what is read: a description; the turns of a dialogue; captions.
        text_ids: ids of what is judged: of the texts, or of the statement.
        speakers: who says each text of a dialogue, 0 or 1; empty elsewhere.
        statement: the sentence that is judged, where texts are only its premise.
        labels: answers to choose from, where images are not; objects in the photo of a dialogue.
        truth: the right answers, which no worker is shown; empty where nobody knows.
        authors: workers who made what is judged, and so may not judge it.
        needed: right answers that accept it. most: votes at most. full: always collect `most`, so that figures stay unbiased.
        purpose: `work`, or a check of the worker: `qualification`, `gold`, `attention`.
        of: the unit that an audit looks at again. like: that unit's task.
        round: of the judgments made from it. limits: see `AnswerLimits`.
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


class Answer(Record, frozen=True):
    """What one worker answered to one unit, whichever backend it came through.

    Attributes:
        worker: keyed pseudonym; the platform's id is nowhere in here.
        values: by the name of the form's field. A picture is named by its image id, never by its place.
        order: image ids as they were shown, left to right.
        slot: which of the unit's votes it is, from 0; decides the order of an unordered set.
        at: when it was submitted, UTC, ISO 8601 with "Z". seconds: from showing to submitting; None where nobody measured.
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


class Turn(msgspec.Struct, frozen=True):
    """One message of a dialogue; `share` with an empty text is the moment the photo is shared (PhotoChat, section 3)."""

    user: int
    text: str
    share: bool = False
    at: str | None = None


class Dialogue(Record, frozen=True):
    """Two people talked and one of them shared a photo that only they could see.

    Attributes:
        unit: what they were asked to do. photo: image id. workers: pseudonyms; the first saw the photo.
        turns: messages in order. shared_at: index of the share among them; None if it was never shared.
    """

    id: str
    unit: str
    photo: str
    workers: tuple[str, ...]
    turns: tuple[Turn, ...]
    shared_at: int | None


@dataclass(frozen=True)
class Outcome:
    """What an answer is worth: rows for the tables, and whether it is right.

    Attributes:
        right: whether the answer is the known truth; None where nobody knows.
    """

    texts: tuple[Text, ...] = ()
    queries: tuple[Query, ...] = ()
    judgments: tuple[Judgment, ...] = ()
    dialogues: tuple[Dialogue, ...] = ()
    right: bool | None = None

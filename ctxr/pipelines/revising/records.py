"""What a revision leaves behind: its rounds, what became of every candidate, and the sample that people are shown."""

from typing import ClassVar, Literal

from ctxr.data.records import Record

Decision = Literal["added", "rejected"]
Reason = Literal["below_threshold", "cap_image", "cap_caption"]
Direction = Literal["image", "caption", "both"]
ThresholdFrom = Literal["classifier", "given", "dev"]

VERB = "revise-labels"

RESTORE = "restore it from a copy, or --out ANOTHER begins anew and leaves these rounds as they are"
"""What helps where a file of the rounds was changed since it was written: nothing makes them again."""

WORKER = "entailment"
"""Judgments of a classifier are by worker `entailment:NAME`."""


class Round(Record, frozen=True):
    """One revision of the labels.

    Attributes:
        number: from 1; of its judgments too. active: whether they count: a round that was taken back keeps its files.
        by, by_fingerprint: retrieval model that proposed. classifier, classifier_fingerprint: who decided.
        threshold: probability from which on a pair counts as entailed. threshold_from: who chose it. wanted: precision on dev
            that it was chosen for; precision, recall: on dev; called: pairs of dev at or above it; precision_low, precision_high:
            exact interval of 95 %.
        images: that were asked about. candidates: pairs that were judged. added: became weak positives. capped: entailed, and
            left out by a cap. leaked: images that the classifier was trained on.
        decides: hash over everything that decided it. judgments: SHA-256 of its table of them, "" where none was noted.
    """

    KEY: ClassVar[tuple[str, ...]] = ("number",)

    number: int
    active: bool
    by: str
    by_fingerprint: str
    classifier: str
    classifier_fingerprint: str
    threshold: float
    threshold_from: ThresholdFrom
    images: int
    candidates: int
    added: int
    capped: int
    leaked: int
    decides: str
    wanted: float | None = None
    precision: float | None = None
    recall: float | None = None
    called: int | None = None
    precision_low: float | None = None
    precision_high: float | None = None
    judgments: str = ""


class CandidateRow(Record, frozen=True):
    """What became of a candidate: does this image, with its captions, entail this caption of another?

    Attributes:
        caption: id of the query. source: retrieval model. direction: whether it was among the best captions of the image, the
            best images of the caption, or both. rank: there, from 1 (of the image where both), among the candidates: what was given,
            and what earlier rounds added or rejected, is not counted. score: of retrieval.
        probability: of entailment, 0..1, by the classifier with this fingerprint. reason: why it was rejected.
        leaked: whether the classifier was trained on the image.
    """

    KEY: ClassVar[tuple[str, ...]] = ("image", "caption")

    image: str
    caption: str
    source: str
    direction: Direction
    rank: int
    score: float
    probability: float
    decision: Decision
    classifier: str
    reason: Reason | None = None
    leaked: bool = False


class SetConflict(Record, frozen=True):
    """A description that, the classifier says, also holds for another image of its set: for people to look at.

    Attributes:
        caption: id of the query. images: those it was written for. image: the other one.
    """

    KEY: ClassVar[tuple[str, ...]] = ("caption", "image")

    caption: str
    image: str
    image_set: str
    images: tuple[str, ...]
    text: str
    probability: float


class AuditSample(Record, frozen=True):
    """A pair of the audit's sample, and the stratum it stands for.

    Attributes:
        stratum: decision, band of probability and of rank, in words. population: candidates of the stratum. sampled: of them
            that were drawn.
    """

    KEY: ClassVar[tuple[str, ...]] = ("image", "caption")

    image: str
    caption: str
    stratum: str
    decision: Decision
    population: int
    sampled: int
    probability: float
    rank: int


class AuditVerdict(Record, frozen=True):
    """What people decided of a pair of the sample: whether the image with its captions entails the caption."""

    KEY: ClassVar[tuple[str, ...]] = ("image", "caption")

    image: str
    caption: str
    stratum: str
    decision: Decision
    entailed: bool

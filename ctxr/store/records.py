"""The records of ctxr, one JSON object a line on disk, fields in the order below.

`KEY` names the fields that identify a row, by which a table is sorted. Times are exact `Fraction` seconds.
"""

from array import array
from fractions import Fraction
from typing import TYPE_CHECKING, Annotated, ClassVar, Final, Literal, NamedTuple, get_args

import msgspec

from ctxr.store.kinds import SET_KINDS

Kind = Literal["video", "photos"]
SOURCE_KINDS: tuple[str, ...] = get_args(Kind)
SplitName = Literal["train", "valid", "test"]
SPLIT_WORDS: dict[str, SplitName] = {
    "train": "train", "val": "valid", "valid": "valid", "test": "test", "validation": "valid", "dev": "valid",
}  # fmt: skip
"""What splits are called, and what that is here."""


class Record(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A row of a table."""

    KEY: ClassVar[tuple[str, ...]] = ("id",)

    def key(self) -> tuple[str | int, ...]:
        """Values of the identifying fields, the sort key of the table."""
        return tuple(getattr(self, name) for name in self.KEY)


class Image(Record, frozen=True):
    """One picture of an image set.

    Attributes:
        id: `source/imgN` for frame N of a video, `album/name` for a photo.
        path: relative to the artifact folder, with `/`. width, height: upright pixels.
        group: its video or album, or the part of an album, whose images are all in one split.
        index, time: number in its video, from 0, and presentation time; None for photos.
    """

    id: str
    path: str
    sha256: str
    group: str
    width: int
    height: int
    index: int | None = None
    time: Fraction | None = None

    @property
    def source(self) -> str:
        """Name of its video or album."""
        return self.id.rpartition("/")[0] or self.group


def _require_known(kind: str) -> None:
    if kind not in SET_KINDS:
        raise ValueError(f"unknown kind of image set {kind!r}; there are {', '.join(SET_KINDS)}")


class ImageSet(Record, frozen=True):
    """Images that are considered together (ImageCoDe, section 3.1: ten minimally contrastive images).

    Attributes:
        kind: of `SET_KINDS`.
        images: ids in the order of time (video), by growing distance from the anchor, the first (photos), or in reading order.
        source: the video's name, or the album of the anchor photo. group: see `Image.group`.
        shot: number of the shot in its video, from 0; None for photos.
        closest, mean_distance: of pairs, Euclidean between unit vectors, 0..2; None if unknown.
    """

    id: str
    kind: str
    images: tuple[str, ...]
    source: str
    group: str
    shot: int | None
    closest: float | None
    mean_distance: float | None

    def __post_init__(self) -> None:
        _require_known(self.kind)

    @property
    def ordered(self) -> bool:
        """Whether the images stand in the order of time."""
        return SET_KINDS[self.kind].ordered


class Source(Record, frozen=True):
    """One input: a video, or an album of photos.

    Attributes:
        kind: of its image sets. file: name of the file, or of the album's folder, without its path (`store.paths`).
        sha256: of the bytes of a video; of the sorted (name, sha256) lines of an album.
        frames: decoded frames of a video, photos of an album. considered: those with a ledger row.
        shots: None for an album. damage: what could not be decoded, in words; None if all could.
    """

    KEY: ClassVar[tuple[str, ...]] = ("name",)

    name: str
    kind: str
    file: str
    sha256: str
    bytes: int
    width: int | None = None
    height: int | None = None
    rate: Fraction | None = None
    duration: Fraction | None = None
    frames: int = 0
    considered: int = 0
    shots: int | None = None
    late_cuts: int = 0
    decoder: str | None = None
    damage: str | None = None

    def __post_init__(self) -> None:
        _require_known(self.kind)


class Shot(Record, frozen=True):
    """A stretch of a video between two cuts; `end_index` and `end_time` are exclusive."""

    KEY: ClassVar[tuple[str, ...]] = ("source", "shot")

    source: str
    shot: int
    start_index: int
    start_time: Fraction
    end_index: int
    end_time: Fraction


BETWEEN: Final = "between_samples"  # a frame that was held, and never embedded, because the search did not need it
REJECTED: Final = "rejected_by_person"
WORKER_DIED: Final = "worker_died"

LedgerReason = Literal[
    "between_samples", "near_still", "too_close", "low_quality", "too_much_text", "too_small", "set_incomplete", "duplicate",
    "unreadable", "worker_died", "unmeasurable", "not_sampled", "too_few_neighbours", "rejected_by_person",
]  # fmt: skip
"""Why a considered frame or photo is in no set."""


class LedgerRow(Record, frozen=True):
    """What became of one considered frame or photo, and why; `docs/format.md` explains reasons, values and hashes.

    Attributes:
        index: frame number in the video, or place in the sorted album. name: a photo's file name.
        row, exact_row: of its embedding in `embeddings.npy`, and in `exact.npy` if the decision was taken again in fp32.
        gate: luma difference (0..255) of the block that differs most from the last embedded sample of the shot; None for the first.
        thumbnail: hash of the luma thumbnail, by which a frame decoded again is recognised.
        image_set: the set that it is in. reason: None if kept. value: the figure behind the reason.
        nearest: index of the nearest chosen frame at the time, or of a photo. distance: to that, 0..2.
        phash: perceptual hashes of a sample or photo, "" of a flat picture. held: whether it lay between two samples.
        group: of a photo that was dealt by itself, see `Image.group`.
        person, because: who rejected it and why, see `Decision`; no key of other rows.
    """

    KEY: ClassVar[tuple[str, ...]] = ("source", "index")

    source: str
    index: int
    time: Fraction | None
    shot: int | None
    name: str | None = None
    row: int | None = None
    exact_row: int | None = None
    gate: float | None = None
    thumbnail: str | None = None
    image_set: str | None = None
    reason: LedgerReason | None = None
    value: float | None = None
    nearest: int | None = None
    distance: float | None = None
    phash: Annotated[str, msgspec.Meta(pattern="^([0-9a-f]{256})?$")] | None = None
    held: bool = False
    group: str | None = None
    person: str | msgspec.UnsetType = msgspec.UNSET
    because: str | msgspec.UnsetType = msgspec.UNSET


class Decision(Record, frozen=True):
    """What a person decided about an image or a set before others see it.

    Attributes:
        decision: `open` takes an earlier one back; "" in a list of ids: what the option says that names the list.
        person: a pseudonym, or what a list says.
        images: its images, or itself, with what they are of: 16 digits of the SHA-256 of the video or photo; empty in a list.
    """

    id: str
    decision: Literal["", "keep", "reject", "open"] = ""
    reason: Literal["", "faces", "plates", "nudity", "quality", "other"] = ""
    person: str = ""
    at: str | None = None
    images: dict[str, str] = {}

    @property
    def columns(self) -> dict[str, str]:
        """What the ledger says of an image that it rejects."""
        return {"reason": REJECTED, "person": self.person, "because": self.reason}


class SharedFootage(Record, frozen=True):
    """Two groups, by name and in order, that share pictures.

    Attributes:
        shared: frames or photos of `second` that are copies of one of `first`. of: all of `second` that are not flat.
        example: image ids of the closest pair. distance: of that pair, 0..2.
    """

    KEY: ClassVar[tuple[str, ...]] = ("first", "second")

    first: str
    second: str
    shared: int
    of: int
    example: tuple[str, str]
    distance: float


class Facts(Record, frozen=True):
    """What was measured on one saved image; None = not measured.

    Attributes:
        brisque: BRISQUE / 100; higher is worse. text_share: area of recognised words, 0..1.
        text_words: recognised words. text_confidence: their mean confidence, 0..100.
    """

    KEY: ClassVar[tuple[str, ...]] = ("source", "index")

    source: str
    index: int
    path: str
    sha256: str
    width: int
    height: int
    brisque: float | None = None
    text_share: float | None = None
    text_words: int | None = None
    text_confidence: float | None = None


class Failure(Record, frozen=True):
    """A source that gave nothing: why, and the command that tries it again."""

    KEY: ClassVar[tuple[str, ...]] = ("source", "path")

    source: str
    path: str
    reason: str
    message: str
    retry: str


class Split(Record, frozen=True):
    """The side of the benchmark that a whole group belongs to."""

    KEY: ClassVar[tuple[str, ...]] = ("group",)

    group: str
    split: SplitName


class Text(Record, frozen=True):
    """A text: `author` is a pseudonym, `order` its position in its source."""

    id: str
    text: str
    author: str
    order: int = 0


class Query(Record, frozen=True):
    """Texts about an image set; candidates are its images, unless there are labels."""

    id: str
    image_set: str
    texts: tuple[str, ...]
    labels: tuple[str, ...] | None = None


class Judgment(Record, frozen=True):
    """The value that a person or rule gave a candidate. No row: not judged; 0: judged negative."""

    KEY: ClassVar[tuple[str, ...]] = ("query", "candidate", "worker", "round")

    query: str
    candidate: str
    worker: str
    value: float
    at: str | None = None
    seconds: float | None = None
    round: int = 0


UNKNOWN = -1  # speaker


class Turn(msgspec.Struct, frozen=True):
    """A message of a dialogue; `share` with an empty text is the moment the photo is shared (PhotoChat, section 3).

    `user`: 0 or 1, or `UNKNOWN` where nobody wrote down who said it.
    """

    user: int
    text: str
    share: bool = False
    at: str | None = None


class Dialogue(Record, frozen=True):
    """A dialogue of two workers, one of whom shared a photo that only they could see.

    Attributes:
        id: of the query with its turns before the share. unit: its task. photo: image id.
        workers: pseudonyms; the first saw the photo. shared_at: index of the share among the turns, if any.
    """

    id: str
    unit: str
    photo: str
    workers: tuple[str, ...]
    turns: tuple[Turn, ...]
    shared_at: int | None


class ObjectLabels(Record, frozen=True):
    """What is to be seen in an image, in the words of Open Images, such as `Baked goods`."""

    id: str
    labels: tuple[str, ...]


class FieldAnswer(Record, frozen=True):
    """What people answered to one field of a task of a researcher's own.

    Attributes:
        unit: what was asked; about an `image`, the description `query`, or else the whole set. title: of the task.
        kind: of the field, as its file calls it. votes: answers that count.
        answer: what they come to, in the values of one answer; empty where they are tied. Of texts, all of them.
        spread: mean distance of the votes from the answer; None without one, and of texts. mean: of votes on a scale.
    """

    KEY: ClassVar[tuple[str, ...]] = ("unit", "field")

    unit: str
    image_set: str
    title: str
    field: str
    kind: str
    votes: int
    answer: tuple[str, ...]
    spread: float | None = None
    mean: float | None = None
    image: str | None = None
    query: str | None = None


if TYPE_CHECKING:
    Floats = array[float]
else:
    Floats = array


class TimedWord(NamedTuple):
    """A word or utterance, and the seconds from `start` to `end` in which it was said."""

    text: str
    start: float
    end: float


class Trace(Record, frozen=True):
    """What the mouse drew while somebody said a query (Localized Narratives); seconds count from the start of the recording.

    Attributes:
        id: of the query. actor: what of a video the query is about.
        strokes: x, y and seconds of one point after the other; x and y are shares of the image, 0..1, from its top left.
        drawn_on: the image of each stroke, numbered among the relevant ones of the query in the order of the set.
    """

    id: str
    words: tuple[TimedWord, ...]
    strokes: tuple[Floats, ...]
    drawn_on: tuple[int, ...]
    actor: str = ""

    def __post_init__(self) -> None:
        if len(self.strokes) != len(self.drawn_on) or any(len(stroke) % 3 for stroke in self.strokes):
            raise ValueError("each stroke has x, y and seconds of its points, and an image in drawn_on")


class Score(Record, frozen=True):
    """A machine's value for a candidate, higher is better."""

    KEY: ClassVar[tuple[str, ...]] = ("query", "candidate", "scorer")

    query: str
    candidate: str
    scorer: str
    value: float


PHOTO_SUFFIXES = frozenset({".jpg", ".jpeg", ".png", ".webp", ".bmp", ".tif", ".tiff"})

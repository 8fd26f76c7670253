"""Pairs of premise and hypothesis, labelled entailed or not, and the guard that keeps evaluated pictures out of training.

The premise is a text, a picture, or both (entailment paper, section 3): text alone trains the text branch, a picture alone the
image branch, both together all three heads.
"""

import re
from collections.abc import Collection, Iterable
from pathlib import PurePosixPath
from typing import Literal

from ctxr.errors import DataError
from ctxr.store.records import Record, SplitName

Label = Literal[0, 1]
Kind = Literal["text", "image", "both", "none"]

_COCO = re.compile(r"(?:COCO_(?:train|val|test)\d{4}_)?0*(\d{1,12})(?:\.jpg)?", re.ASCII)

_COCO_FILE = re.compile(r"(?:COCO_(?:train|val|test)\d{4}_)?0{6}\d{6}", re.ASCII)
_FLICKR_FILE = re.compile(r"[1-9]\d{4,9}", re.ASCII)
_ID = re.compile(r"(?:coco|flickr30k)/(?:0|[1-9]\d*)", re.ASCII)


class EntailmentPair(Record, frozen=True):
    """Does the premise entail the hypothesis?

    Attributes:
        premise, hypothesis: texts; None if absent or unavailable.
        image: `coco/ID`, `flickr30k/ID`, or an image id of an artifact; None for text alone.
        label: 1 entailed, 0 not: neutral and contradiction are one class. relation: the source's own word.
        group: what must not be parted across splits: the picture, or the premise.
        caption: id of the hypothesis as a caption, where it is one.
        score: similarity 0..5 that the label was cut from; None where the source gives classes.
    """

    id: str
    premise: str | None
    hypothesis: str | None
    image: str | None
    label: Label
    relation: str
    source: str
    split: SplitName | None
    group: str
    caption: str | None = None
    score: float | None = None

    @property
    def kind(self) -> Kind:
        """The parts of the premise: `text`, `image`, `both`, or `none` if unavailable."""
        if self.image is None:
            return "text" if self.premise else "none"
        return "both" if self.premise else "image"


def coco_image(name: str | int) -> str | None:
    """The id of a COCO picture from its number or file name; None for another name.

    >>> coco_image("COCO_val2014_000000000012.jpg"), coco_image("000000000012.jpg"), coco_image(12)
    ('coco/12', 'coco/12', 'coco/12')
    """
    match = _COCO.fullmatch(str(name))
    return f"coco/{match[1]}" if match else None


def coco_caption(name: str) -> str | None:
    """The id of a caption such as `COCO_val2014:sentid:1234`; None for another name."""
    number = name.rpartition(":")[2]
    return f"coco/{number}" if number.isascii() and number.isdigit() else None


def flickr_image(name: str) -> str | None:
    """The id of a Flickr30K picture from its number or file name; None for another name."""
    number = name.removesuffix(".jpg")
    return f"flickr30k/{number}" if number.isascii() and number.isdigit() else None


def published_image(image: str) -> str | None:
    """The id of a published picture from its id in any dataset; None for another name, such as the `12.jpg` of an album.

    >>> published_image("val2017/000000000790.jpg"), published_image("a/1000092795.png"), published_image("coco/9")
    ('coco/790', 'flickr30k/1000092795', 'coco/9')
    """
    if _ID.fullmatch(image):
        return image
    name = PurePosixPath(image).stem
    if _COCO_FILE.fullmatch(name):
        return coco_image(name)
    return flickr_image(name) if _FLICKR_FILE.fullmatch(name) else None


def seen_pictures(pictures: Iterable[tuple[str, str]], trained_on: Collection[str]) -> list[str]:
    """Ids of those of (id, SHA-256 or "") that are among `trained_on`, which are ids and SHA-256, by id, published id or content."""
    names = {*trained_on, *(published for name in trained_on if (published := published_image(name)))}
    return [image for image, sha256 in pictures if names & {image, published_image(image), sha256}]


def published_names(image: str) -> tuple[str, ...]:
    """The names under which a picture is published, likeliest first; none for the picture of an artifact.

    >>> published_names("coco/9")
    ('COCO_val2014_000000000009.jpg', 'COCO_train2014_000000000009.jpg', '000000000009.jpg')
    """
    collection, _, number = image.partition("/")
    if collection == "flickr30k":
        return (f"{number}.jpg",)
    if collection == "coco" and number.isdigit():
        padded = f"{int(number):012d}.jpg"
        return f"COCO_val2014_{padded}", f"COCO_train2014_{padded}", padded
    return ()


def choosing(dev: Iterable[EntailmentPair]) -> list[EntailmentPair]:
    """The dev pairs that choose epoch and threshold: those of picture and premise, or all where there is none."""
    rows = list(dev)
    return [pair for pair in rows if pair.kind == "both"] or rows


def refuse_leaks(training: Iterable[EntailmentPair], evaluated: Collection[str]) -> None:
    """Raises DataError naming the first training pair about a picture, or of a group, that is among the ids in `evaluated`.

    CxC annotates COCO's dev and test, ECCV its test: a classifier that was trained on them has seen what it would judge.
    """
    names = frozenset(evaluated)
    if leaks := [pair for pair in training if pair.image in names or pair.group in names]:
        raise DataError(
            f"{len(leaks)} training pairs are about evaluated pictures, the first is {leaks[0].id} ({leaks[0].group})",
            hint="leave them out, or evaluate on other pictures",
        )

"""For which pictures a caption holds, where that is known of all of them: rows of the drawn world's `truth.jsonl`."""

from collections.abc import Iterable
from typing import ClassVar

from ctxr.data.records import Record
from ctxr.errors import DataError


class CaptionTruth(Record, frozen=True):
    """The pictures of a gallery that entail a caption. Pictures that are in neither list clearly do not.

    Attributes:
        caption: id of its text. gallery: the image set whose pictures were looked at: all of them.
        image: the picture it was written for, which is among `holds`.
        holds: pictures of which it is clearly true, in the order of the gallery.
        doubtful: pictures of which people would not agree, likewise. They are neither right nor wrong.
        details: how many things it says.
    """

    KEY: ClassVar[tuple[str, ...]] = ("caption",)

    caption: str
    gallery: str
    image: str
    holds: tuple[str, ...]
    doubtful: tuple[str, ...]
    details: int


def of_gallery(rows: Iterable[CaptionTruth], gallery: str) -> list[CaptionTruth]:
    """The rows about one gallery. Raises DataError where there is none."""
    found = [row for row in rows if row.gallery == gallery]
    if not found:
        raise DataError(f"the truth says nothing about the gallery {gallery!r}")
    return found

"""Published relevance for COCO captions: positives of ECCV and CxC, graded ones of CxC."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from ctxr.datasets.pairs import EntailmentPair, coco_caption, coco_image
from ctxr.datasets.readers.entailment import Captions, RowIssue, Rows, similarity
from ctxr.datasets.readers.text_files import as_record, read_json
from ctxr.errors import DataError

Positives = dict[str, tuple[str, ...]]
Direction = Literal["image_to_caption", "caption_to_image"]


def read_positives(path: Path) -> Positives:
    """Right candidates of each query, as COCO ids (`coco/ID`) in the order of the file.

    Raises DataError naming file:line for a query that appears twice or has no candidate, and for an id that is not a number.
    """
    file = read_json(path)
    queries: dict[str, object] = as_record(file.value, dict[str, object], path)
    positives: Positives = {}
    for query, value in queries.items():
        listed = [value] if isinstance(value, int) else value
        if not _is_id(query) or not isinstance(listed, list) or not listed or not all(map(_is_id, listed)):
            raise DataError(f"{file.locate(query)}: {query!r} needs COCO ids as candidates", hint="restore the row")
        positives[f"coco/{int(query)}"] = tuple(dict.fromkeys(f"coco/{int(number)}" for number in listed))
    return positives


def pairs_of(
    image_to_caption: Mapping[str, Sequence[str]],
    caption_to_image: Mapping[str, Sequence[str]],
    captions: Captions,
    source: str = "eccv",
) -> list[EntailmentPair]:
    """The positives of both directions as pairs of label 1, each once, in the order of picture and caption.

    ECCV lists positives only; an unlisted pair was not annotated or is negative, and is left out.
    """
    pairs = {(image, caption) for image, listed in image_to_caption.items() for caption in listed}
    pairs |= {(image, caption) for caption, listed in caption_to_image.items() for image in listed}
    return [
        EntailmentPair(
            f"{source}/{image.rpartition('/')[2]}/{caption.rpartition('/')[2]}", captions.premise(image, caption),
            captions.texts.get(caption), image, 1, "positive", source, "test", image, caption,
        )
        for image, caption in sorted(pairs)
    ]  # fmt: skip


def _is_id(value: object) -> bool:
    text = str(value) if isinstance(value, int) and not isinstance(value, bool) else value
    return isinstance(text, str) and text.isascii() and text.isdigit() and len(text) <= 12


Similarity = Literal["SITS", "SIS", "STS"]

_COLUMNS: dict[tuple[str, str], Similarity] = {
    ("caption", "image"): "SITS", ("image1", "image2"): "SIS", ("caption1", "caption2"): "STS",
}  # fmt: skip
_SCORE = "agg_score"


@dataclass(frozen=True)
class RatedPairs:
    """The rated pairs of a file: COCO ids (`coco/ID`) of the first and the second, and the rating 0..5; and what is odd in it."""

    kind: Similarity
    pairs: tuple[tuple[str, str, float], ...]
    issues: tuple[RowIssue, ...]


def read_similarities(path: Path) -> RatedPairs:
    """The rated pairs of a CxC file, told by its columns; rows without ids or a rating are left out and noted.

    Raises UsageError for a file that cannot be opened, DataError for other columns, and where no row can be used.
    """
    rows = Rows(path)
    columns = next((pair for pair in _COLUMNS if {*pair, _SCORE} <= set(rows.columns)), None)
    if columns is None:
        wanted = " or ".join(",".join((*pair, _SCORE)) for pair in _COLUMNS)
        raise DataError(f"{path}:1: the header is not one of CxC's: {wanted}", hint="restore the header")
    pairs: list[tuple[str, str, float]] = []
    for row in rows:
        names = [(column, row.cells[column].strip()) for column in columns]
        first, second = (coco_image(name) if "image" in column else coco_caption(name) for column, name in names)
        rating = similarity(row.cells[_SCORE])
        if first is None or second is None:
            rows.note(row.line, "image", f"{row.cells[columns[first is not None]]!r} is not an id of COCO")
        elif rating is None:
            rows.note(row.line, "score", f"{row.cells[_SCORE]!r} is not a score of 0 to 5")
        else:
            pairs.append((first, second, rating))
    if not pairs:
        raise DataError(f"{path} holds no rated pair", hint="fetch it again")
    return RatedPairs(_COLUMNS[columns], tuple(pairs), tuple(rows.issues))

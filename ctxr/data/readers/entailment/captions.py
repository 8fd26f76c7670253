"""The captions of pictures, by which a pair that names a caption gets its text and a picture its premise.

Read from COCO's `captions_*.json` and from Karpathy's `dataset_coco.json` or `dataset_flickr30k.json`, which also say on which
side a picture stands.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ctxr.data.entailment import coco_image, flickr_image
from ctxr.data.readers.text_files import is_text, kind_of, read_json
from ctxr.data.records import SplitName
from ctxr.errors import DataError

_SIDES: dict[str, SplitName] = {"train": "train", "restval": "train", "val": "valid", "test": "test"}


@dataclass
class Captions:
    """Captions by id (`coco/ID`, `flickr30k/ID`), however many a picture has.

    Attributes:
        texts: by caption. of_image: captions of each picture, in the order of the file. splits: side of each picture.
    """

    texts: dict[str, str] = field(default_factory=dict)
    of_image: dict[str, list[str]] = field(default_factory=dict)
    splits: dict[str, SplitName] = field(default_factory=dict)

    def premise(self, image: str, without: str | None = None) -> str | None:
        """All captions of a picture as one string, but for the hypothesis itself; None where there is none.

        >>> Captions({"a": "A dog.", "b": "Grass."}, {"coco/1": ["a", "b"]}).premise("coco/1", without="b")
        'A dog.'
        """
        return " ".join(self.texts[key] for key in self.of_image.get(image, ()) if key != without) or None


def read_captions(paths: Iterable[Path]) -> Captions:
    """The captions in all of the files. Raises DataError naming file and row for one that is neither layout, for a row that
    lacks something, and for a caption that stands twice with two texts."""
    found = Captions()
    for path in paths:
        value = read_json(path).value
        rows = value.get("images") if isinstance(value, dict) else None
        if not isinstance(rows, list):
            raise DataError(
                f"{path} holds no captions: `images` is no list", hint="name captions_*.json or dataset_*.json"
            )
        if isinstance(value.get("annotations"), list):
            _read_coco(found, path, value["annotations"])
        else:
            _read_karpathy(found, path, rows, value.get("dataset"))
    return found


def _read_coco(found: Captions, path: Path, rows: list[Any]) -> None:
    for number, row in enumerate(rows):
        at = f"{path}: annotations[{number}]"
        image = coco_image(_get(at, row, "image_id", int))
        _add(found, at, f"coco/{_get(at, row, 'id', int)}", image or "", _get(at, row, "caption", str))


def _read_karpathy(found: Captions, path: Path, rows: list[Any], dataset: object) -> None:
    flickr = dataset == "flickr30k"
    for number, row in enumerate(rows):
        at = f"{path}: images[{number}]"
        name = _get(at, row, "filename", str)
        image = flickr_image(name) if flickr else coco_image(row.get("cocoid", name))
        if image is None:
            raise DataError(f"{at}: {name!r} is no picture of COCO or Flickr30K", hint="restore the row")
        side = row.get("split")
        if side in _SIDES:
            found.splits[image] = _SIDES[side]
        sentences = _get(at, row, "sentences", list)
        for place, sentence in enumerate(sentences):
            where = f"{at}, sentences[{place}]"
            key = f"{image.partition('/')[0]}/{_get(where, sentence, 'sentid', int)}"
            _add(found, where, key, image, _get(where, sentence, "raw", str))


def _add(found: Captions, at: str, key: str, image: str, text: str) -> None:
    known = found.texts.setdefault(key, text)
    if known != text:
        raise DataError(f"{at}: caption {key} stands already with another text", hint="delete one of the two")
    captions = found.of_image.setdefault(image, [])
    if key not in captions:
        captions.append(key)


def _get(at: str, row: object, name: str, kind: type) -> Any:
    value = row.get(name) if isinstance(row, dict) else None
    fits = is_text(value) if kind is str else isinstance(value, kind) and not isinstance(value, bool)
    if not fits:
        raise DataError(f"{at}: `{name}` is {kind_of(value)}", hint="restore the row, or fetch the file again")
    return value

"""PhotoChat (Zang et al., 2021): dialogues in which one photo is shared, as they were released, and a third party's copy.

The copy has no speakers, and joins consecutive messages of one speaker in part. Photos are never fetched, but searched by the name at
the end of their URL, or by their id in Open Images where its table of images lies beside.
"""

import csv
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath
from typing import Annotated
from urllib.parse import unquote, urlsplit

import msgspec

from ctxr.datasets.dataset import Dataset
from ctxr.datasets.dialogues import labels_in
from ctxr.datasets.readers.galleries import Galleries
from ctxr.datasets.readers.narratives import split_named
from ctxr.datasets.readers.text_files import as_record, read_json, refuse_unsafe
from ctxr.errors import DataError, plural, some
from ctxr.store.records import SPLIT_WORDS, UNKNOWN, Dialogue, Judgment, ObjectLabels, Query, Text, Turn
from ctxr.store.tables import grouped


class PhotoChatMessage(msgspec.Struct):
    """A message as it was released; that of the share is empty. An unknown speaker is -1."""

    message: str
    share_photo: bool
    user_id: Annotated[int, msgspec.Meta(ge=UNKNOWN, le=1)]


class ReleasedDialogue(msgspec.Struct):
    """A dialogue as released; `photo_description` may name a person before it lists objects."""

    dialogue: list[PhotoChatMessage]
    dialogue_id: int | str
    photo_description: str
    photo_url: str

    @property
    def photo(self) -> str:
        """The name of the photo's file, without suffix."""
        return name_in(self.photo_url)


def name_in(url: str) -> str:
    """The name of the file at the end of a URL, without suffix."""
    return PurePosixPath(unquote(urlsplit(url).path)).stem


def open_images_ids(folder: Path, names: Collection[str]) -> dict[str, str]:
    """Ids of photos in Open Images by the names at the end of their URLs, from its tables of images (CSV) in a folder."""
    found: dict[str, str] = {}
    for file in sorted(folder.glob("*.csv")):
        with file.open(encoding="utf-8-sig", errors="replace", newline="") as lines:
            rows = csv.DictReader(lines)
            if {"ImageID", "OriginalURL"} <= {*(rows.fieldnames or ())}:
                pairs = ((name_in(row["OriginalURL"] or ""), row["ImageID"]) for row in rows)
                found |= {name: key for name, key in pairs if name in names}
    return found


_AUTHORS = {UNKNOWN: "unknown", 0: "user-0", 1: "user-1"}
_FORM = re.compile(
    rb'(?s)(\xef\xbb\xbf)?\s*(\[\s*\{.*"(share_photo|photo_\w+)"\s*:|\{\s*"[^"]*"\s*:\s*\[\s*\[\s*"(txt|img)")'
)


def photochat_files(path: Path) -> list[Path]:
    """The JSON at a path, or each in it and its folders train, dev, …, that begins with a dialogue of either form."""
    folders = [path, *(path / word for word in (*SPLIT_WORDS, "unsplit"))]
    listed = [file for folder in folders for file in sorted(folder.glob("*.json"))] if path.is_dir() else [path]
    found = list[Path]()
    for file in listed:
        if file.suffix == ".json" and file.is_file():
            with file.open("rb") as stream:
                found += [file] if _FORM.match(stream.read(1 << 14)) else []
    return found


def released_dialogues(file: Path) -> list[tuple[str, ReleasedDialogue]]:
    """The dialogues of a file with the split that its name, or else its folder's, tells. Raises DataError naming file and row or id."""
    split = split_named(re.split(r"[\W\d_]", file.stem)[0]) or split_named(file.parent.name) or file.stem
    value, rows = read_json(file).value, list[ReleasedDialogue]()
    if isinstance(value, list):
        rows = as_record(value, list[ReleasedDialogue], file)
        return [(split, row) for row in rows]
    copied: dict[str, list[list[str]]] = as_record(value, dict[str, list[list[str]]], file)
    for key, parts in copied.items():
        rows.append(row := ReleasedDialogue([], key, "", ""))
        for part in parts:
            match part:
                case ["txt", text]:
                    row.dialogue.append(PhotoChatMessage(text, False, UNKNOWN))
                case ["img", photo, description]:
                    row.dialogue.append(PhotoChatMessage("", True, UNKNOWN))
                    row.photo_url, row.photo_description = photo, description
                case _:
                    raise DataError(f"{file}: dialogue {row.dialogue_id}: {part} is not a message", hint="restore it")
    return [(split, row) for row in rows]


def read_photochat(path: Path, files: Sequence[Path], passed: Callable[[], None]) -> Dataset:
    """A gallery of photos by split, and for each dialogue a query of what was said before the photo was shared.

    Raises DataError as `released_dialogues` does, for a dialogue that a split has twice, and where none is left.
    """
    root = path if path.is_dir() else path.parent
    rows = [(split, row, file) for file in files for split, row in released_dialogues(file)]
    reading = _Reading(Galleries(root, passed), open_images_ids(root, {row.photo for _, row, _ in rows}))
    found = grouped((f"{split}/{row.dialogue_id}", (split, row, file)) for split, row, file in rows)
    for key, (first, *others) in sorted(found.items()):
        if others:
            what = f"{others[0][-1]}: the dialogue {key} is already in {first[-1]}"
            raise DataError(what, hint="delete one of the two")
        reading.take(key, *first)
    if not reading.dialogues:
        what = f"{path}: no dialogue has exactly one shared photo and something said before it"
        raise DataError(what, hint="restore the file")
    return reading.dataset(path.resolve().stem)


_MISSING = "photo", "missing, listed by ctxr export --to photochat"


@dataclass
class _Reading:
    """The dialogues; `left`: what was left out or is missing, by its noun and the reason."""

    galleries: Galleries
    ids: Mapping[str, str]
    dialogues: list[Dialogue] = field(default_factory=list)
    queries: dict[str, Query] = field(default_factory=dict)
    labels: defaultdict[str, dict[str, None]] = field(default_factory=lambda: defaultdict(dict))
    left: defaultdict[tuple[str, str], list[str]] = field(default_factory=lambda: defaultdict(list, {_MISSING: []}))

    def take(self, key: str, split: str, row: ReleasedDialogue, file: Path) -> None:
        kept = [one for one in row.dialogue if one.share_photo or one.message.strip()]
        turns = tuple(Turn(one.user_id, one.message, one.share_photo) for one in kept)
        if len(turns) < len(row.dialogue):
            self.left["dialogue", "with empty messages, which were left out"].append(key)
        if any(turn.share and turn.text.strip() for turn in turns):
            self.left["dialogue", "with a text beside the photo, which no model reads"].append(key)
        shares = [index for index, turn in enumerate(turns) if turn.share]
        if len(shares) != 1 or shares == [0]:
            wrong = "with nothing said before the photo" if shares == [0] else "without exactly one shared photo"
            self.left["dialogue", f"left out, {wrong}"].append(key)
            return
        for name in (str(row.dialogue_id), row.photo):
            refuse_unsafe(lambda: f"{file}: dialogue {key}", name)
        if (image := f"{split}/{row.photo}") not in self.galleries.images:
            files = self.galleries.below(row.photo) or self.galleries.below(self.ids.get(row.photo, ""))
            near = [one for one in files if one.is_relative_to(file.parent)] or files
            if not self.galleries.add_photo(split, image, near[0] if near else None):
                self.left[_MISSING].append(image)
        if any(turn.user == UNKNOWN for turn in turns):
            self.left["dialogue", "without speakers and joined in part, so turns are not the paper's"].append(key)
        self.labels[image] |= dict.fromkeys(labels_in(row.photo_description))
        self.dialogues.append(Dialogue(key, "", image, (), turns, shares[0]))
        said = enumerate(turns[: shares[0]])
        texts = [Text(f"{key}/{at:03}", turn.text, _AUTHORS[turn.user], at) for at, turn in said]
        self.galleries.texts |= {text.id: text for text in texts}
        self.queries[key] = Query(key, split, tuple(text.id for text in texts))
        self.galleries.judgments.append(Judgment(key, image, "gold", 1.0))

    def dataset(self, name: str) -> Dataset:
        if all(one.turns[0].user != UNKNOWN for one in self.dialogues):  # the copy calls photos by their dialogues
            splits_of = Counter(image.partition("/")[2] for image in self.labels)
            self.left["photo", "in several splits"] = [photo for photo, count in splits_of.items() if count > 1]
        self.left["photo", "without labels of objects"] = [image for image, own in self.labels.items() if not own]
        notes = [f"{plural(len(own), noun)} {what}: {some(own)}" for (noun, what), own in self.left.items() if own]
        for images in self.galleries.members.values():
            images.sort()  # else a photo would stand where its dialogue does
        splits = {split: SPLIT_WORDS[split] for split in self.galleries.members if split in SPLIT_WORDS}
        objects = tuple(ObjectLabels(image, tuple(own)) for image, own in sorted(self.labels.items()) if own)
        payloads = {"dialogues": tuple(self.dialogues)} | ({"objects": objects} if objects else {})
        return replace(self.galleries.dataset(name, splits, notes), queries=self.queries, payloads=payloads)

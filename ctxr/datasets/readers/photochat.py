"""PhotoChat (Zang et al., 2021): dialogues in which one photo is shared, as they were released, and a third party's copy.

Released are shards of JSON in folders `train`, `dev` and `test`. The copy is a JSON object of dialogues by id, without speakers and with
consecutive messages of one speaker joined in part. Photos are never fetched: they are searched by the name at the end of their URL.
"""

import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import Annotated
from urllib.parse import unquote, urlsplit

import msgspec

from ctxr.datasets.dataset import Dataset
from ctxr.datasets.readers.galleries import Galleries
from ctxr.datasets.readers.karpathy import files_below
from ctxr.datasets.readers.narratives import split_named
from ctxr.datasets.readers.text_files import as_record, read_json, refuse_unsafe
from ctxr.datasets.talks import before_share, labels_in
from ctxr.errors import DataError, some
from ctxr.store.records import (
    PHOTO_SUFFIXES,
    SPLIT_WORDS,
    UNKNOWN,
    Dialogue,
    Judgment,
    ObjectLabels,
    Query,
    Text,
    Turn,
)  # fmt: skip
from ctxr.store.tables import grouped


class PhotoChatMessage(msgspec.Struct):
    """A message as it was released; that of the share is empty. A speaker nobody wrote down is -1."""

    message: str
    share_photo: bool
    user_id: Annotated[int, msgspec.Meta(ge=UNKNOWN, le=1)]


class ReleasedDialogue(msgspec.Struct):
    """A dialogue as it was released; `photo_description` may name a person before it lists objects."""

    dialogue: list[PhotoChatMessage]
    dialogue_id: int | str
    photo_description: str
    photo_url: str

    @property
    def photo(self) -> str:
        """The name of the photo's file, without suffix."""
        return PurePosixPath(unquote(urlsplit(self.photo_url).path)).stem


class _Said(msgspec.Struct, array_like=True, tag="txt"):
    text: str


class _Shown(msgspec.Struct, array_like=True, tag="img"):
    file: str
    description: str


_FORMS = (
    re.compile(rb'\s*\[\s*\{.*"(share_photo|photo_url|photo_description)"\s*:', re.DOTALL),
    re.compile(rb'\s*\{\s*"[^"]*"\s*:\s*\[\s*\[\s*"(txt|img)"'),
)


def photochat_files(path: Path) -> list[Path]:
    """The JSON at a path, or each in it and its folders train, dev, …, that begins with a dialogue of either form."""
    folders = [path, *(path / word for word in (*SPLIT_WORDS, "unsplit"))]
    listed = [file for folder in folders for file in sorted(folder.glob("*.json"))] if path.is_dir() else [path]
    return [file for file in listed if file.suffix == ".json" and file.is_file() and _is_form(file)]


def _is_form(file: Path) -> bool:
    with file.open("rb") as opened:
        start = opened.read(1 << 14).removeprefix(b"\xef\xbb\xbf")
    return any(form.match(start) for form in _FORMS)


def released_dialogues(file: Path) -> list[tuple[str, ReleasedDialogue]]:
    """The dialogues of a file of either form with `SPLIT/ID`; the split is that which its name, or else its folder's, tells.

    Raises DataError naming the file, and row or id, for content of another form.
    """
    gallery = split_named(re.split(r"[\W\d_]", file.stem)[0]) or split_named(file.parent.name) or file.stem
    value, rows = read_json(file).value, list[ReleasedDialogue]()
    if isinstance(value, list):
        rows = as_record(value, list[ReleasedDialogue], file)
    else:
        copied: dict[str, list[_Said | _Shown]] = as_record(value, dict[str, list[_Said | _Shown]], file)
        for key, parts in copied.items():
            shown = next((part for part in parts if isinstance(part, _Shown)), _Shown("", ""))
            said = [part.text if isinstance(part, _Said) else None for part in parts]
            messages = [PhotoChatMessage(text or "", text is None, UNKNOWN) for text in said]
            rows.append(ReleasedDialogue(messages, key, shown.description, shown.file))
    return [(f"{gallery}/{row.dialogue_id}", row) for row in rows]


def read_photochat(path: Path, files: Sequence[Path], passed: Callable[[], None]) -> Dataset:
    """A gallery of photos by split, and for each dialogue a query of what was said before the photo was shared.

    Empty messages, and dialogues without exactly one share or with nothing before it, are left out and counted. Raises DataError as
    `released_dialogues` does, and naming the files for a dialogue that a split has twice.
    """
    reading = _Reading(Galleries(path if path.is_dir() else path.parent, passed))
    found: dict[str, tuple[ReleasedDialogue, Path]] = {}
    for file in files:
        for key, row in released_dialogues(file):
            if found.setdefault(key, (row, file))[0] is not row:
                raise DataError(
                    f"{file}: the dialogue {key} is already in {found[key][1]}", hint="delete one of the two"
                )
    for key, (row, file) in sorted(found.items()):
        reading.take(key, row, file)
    return reading.dataset(path)


@dataclass
class _Reading:
    """What was read; `left`: what was left out or is missing, by what that is."""

    galleries: Galleries
    dialogues: list[Dialogue] = field(default_factory=list)
    queries: dict[str, Query] = field(default_factory=dict)
    labels: dict[str, dict[str, None]] = field(default_factory=dict)
    left: dict[str, list[str]] = field(default_factory=dict)

    @cached_property
    def pictures(self) -> dict[str, list[Path]]:
        """All photos below the folder by their names without suffix, those nearest to it first."""
        files = sorted((len(file.parts), file) for files in files_below(self.galleries.root).values() for file in files)
        return grouped((file.stem, file) for _, file in files if file.suffix.lower() in PHOTO_SUFFIXES)

    def take(self, key: str, row: ReleasedDialogue, file: Path) -> None:
        turns = tuple(
            Turn(one.user_id, one.message, one.share_photo)
            for one in row.dialogue
            if one.share_photo or one.message.strip()
        )
        if len(turns) < len(row.dialogue):
            self.left.setdefault("dialogues have empty messages, which were left out", []).append(key)
        shares = [index for index, turn in enumerate(turns) if turn.share]
        if len(shares) != 1 or shares == [0]:
            wrong = "with nothing said before the photo" if shares == [0] else "without exactly one shared photo"
            self.left.setdefault(f"dialogues {wrong} were left out", []).append(key)
            return
        gallery = key.partition("/")[0]
        for name in (str(row.dialogue_id), row.photo):
            refuse_unsafe(lambda: f"{file}: dialogue {key}", name)
        if (image := f"{gallery}/{row.photo}") not in self.labels:
            found = [one for one in self.pictures.get(row.photo, ()) if self.galleries.holds(one)]
            near = next((one for one in found if one.is_relative_to(file.parent)), found[0] if found else None)
            if not self.galleries.add_photo(gallery, image, near):
                self.left.setdefault("photos are missing, see ctxr export --to photochat", []).append(row.photo)
        self.labels.setdefault(image, {}).update(dict.fromkeys(labels_in(row.photo_description)))
        self.dialogues.append(dialogue := Dialogue(key, "", image, (), turns, shares[0]))
        authors = {UNKNOWN: "unknown", 0: "user-0", 1: "user-1"}
        said = enumerate(before_share(dialogue))
        texts = {(name := f"{key}/{at:03d}"): Text(name, turn.text, authors[turn.user], at) for at, turn in said}
        self.galleries.texts |= texts
        self.queries[key] = Query(key, gallery, tuple(texts))
        self.galleries.judgments.append(Judgment(key, image, "gold", 1.0))

    def dataset(self, path: Path) -> Dataset:
        """All that was read. Raises DataError without a dialogue."""
        if not self.dialogues:
            raise DataError(f"{path}: there is no dialogue in which a photo is shared", hint="restore the file")
        without = [one.id for one in self.dialogues if one.turns[0].user == UNKNOWN]
        names = Counter(image.partition("/")[2] for image in self.labels)
        self.left |= {
            "photos are in several splits": [] if without else [name for name, count in names.items() if count > 1],
            "photos have no labels of objects": [image for image, labels in self.labels.items() if not labels],
            "dialogues name no speakers and join some messages, so counts of turns are not the paper's": without,
        }
        notes = [f"{len(which)} {what}: {some(which)}" for what, which in self.left.items() if which]
        members = self.galleries.members
        splits = {str(split): split for split in SPLIT_WORDS.values() if split in members}
        self.galleries.members = {gallery: sorted(members[gallery]) for gallery in sorted(members)}
        objects = [ObjectLabels(image, tuple(labels)) for image, labels in sorted(self.labels.items()) if labels]
        payloads = {"dialogues": tuple(self.dialogues)} | ({"objects": tuple(objects)} if objects else {})
        dataset = self.galleries.dataset(path.resolve().stem, splits, notes)
        return replace(dataset, queries=self.queries, payloads=payloads)

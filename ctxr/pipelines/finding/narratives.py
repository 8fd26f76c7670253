"""What visitors of the page tell of pictures, kept in the format of Localized Narratives (`read_narratives`)."""

import os
from datetime import UTC, datetime
from fcntl import LOCK_EX, flock
from pathlib import Path
from threading import Lock

import msgspec

from ctxr.datasets.readers.narratives import ImageLine, Utterance
from ctxr.pipelines.finding.config import MOST_SECONDS, SearchQuery
from ctxr.store.atomic import disk_errors, write_bytes
from ctxr.store.paths import safe_name
from ctxr.store.tables import encode_row
from ctxr.web.static import HttpProblem

COLLECTED, CONSENTS = "collected_localized_narratives.jsonl", "consents.jsonl"
SHARES = {"train": 0.8, "val": 0.9, "test": 1.0}
"""Up to which share of the range of hashes a picture is in a split."""


class NewNarrative(SearchQuery, frozen=True, kw_only=True):
    """What an annotator told of the picture at a place."""

    place: int
    annotator: int
    caption: str


class Consent(msgspec.Struct, frozen=True):
    """When an annotator agreed, UTC, that narratives are kept."""

    annotator: int
    at: str = ""


class CollectedNarratives:
    """A folder of narratives and their pictures; several threads and processes may add to it."""

    def __init__(self, folder: Path, gallery: str) -> None:
        self._folder, self._gallery, self._lock = folder, safe_name(gallery), Lock()

    def agree(self, consent: Consent) -> None:
        """Keep that an annotator agreed."""
        at = datetime.now(UTC).isoformat(timespec="seconds")
        self._append(CONSENTS, encode_row(Consent(consent.annotator, at)), b',"at"')

    def add(self, new: NewNarrative, sha256: str, picture: Path) -> None:
        """Keep a narrative, and a copy of its picture under its content. Raises HttpProblem for no narrative, and without consent."""
        start, file = b'{"annotator":%d,' % new.annotator, self._folder / CONSENTS
        if not (file.is_file() and any(line.startswith(start) for line in file.read_bytes().splitlines())):
            raise HttpProblem(403, "You have not agreed yet", "Load the page again, and agree first.")
        timed = all(-MOST_SECONDS < one.start <= one.end < MOST_SECONDS for one in new.words)
        if not (new.caption.strip() and new.words and timed):
            raise HttpProblem(422, "Say in words what the picture shows")
        if not new.strokes:
            raise HttpProblem(422, "Trace what you name: draw over the picture")
        place, image = int(sha256[:8], 16) / 16**8, sha256[:16]
        dataset = f"{self._gallery}_{next(split for split, share in SHARES.items() if place < share)}"
        kept = self._folder / "images" / dataset / f"{image}{picture.suffix.lower()}"
        if not kept.is_file():
            write_bytes(kept, picture.read_bytes())
        words = [Utterance(one.text, round(one.start, 5), round(one.end, 5)) for one in new.words]
        traces = [[{"x": x, "y": y, "t": round(t, 5)} for x, y, t in stroke] for stroke in new.strokes]
        row = ImageLine(dataset, image, new.annotator, new.caption.strip(), words, traces)
        self._append(COLLECTED, encode_row(row), b',"timed_caption"')

    def _append(self, name: str, row: bytes, end: bytes) -> None:
        """Add a line, unless one is equal up to `end`, as after a button was pressed twice."""
        path = self._folder / name
        with disk_errors(path):
            path.parent.mkdir(parents=True, exist_ok=True)
        with self._lock, disk_errors(path), path.open("a+b") as stream:
            flock(stream, LOCK_EX)
            stream.seek(0)
            *lines, tail = stream.read().split(b"\n")
            if tail and not _is_whole(tail):  # cut off by a kill
                stream.truncate(stream.tell() - len(tail))
            elif tail:
                stream.write(b"\n")
            start = row[: row.index(end)]
            if not any(line.startswith(start) for line in (*lines, tail)):
                stream.write(row)
            stream.flush()
            os.fsync(stream.fileno())


def _is_whole(line: bytes) -> bool:
    try:
        msgspec.json.decode(line)
    except msgspec.DecodeError:
        return False
    return True

"""PhotoChat's released format: dialogues by split as JSON with the photos beside them, and a list of those that are missing."""

import re
from collections.abc import Iterable
from typing import cast
from urllib.parse import quote

from ctxr.datasets.dialogues import LABELLED
from ctxr.datasets.readers.photochat import (
    PhotoChatMessage,
    ReleasedDialogue,
    open_images_ids,
    photochat_files,
    released_dialogues,
)
from ctxr.datasets.readers.text_files import refuse_unsafe
from ctxr.datasets.writers.job import ExportJob, ExportResult, suffix_of
from ctxr.errors import DataError, plural, some
from ctxr.store.atomic import link_or_copy, write_bytes
from ctxr.store.records import Dialogue, ObjectLabels
from ctxr.store.tables import grouped, pretty_json


def write(job: ExportJob) -> ExportResult:
    """Write `SPLIT/SPLIT.json`, its photos, and `missing.txt`, a line for each photo without a picture: its name, and its URL if known.

    Raises DataError without a shared photo, and for ids of which one file would get two, or that cannot be names.
    """
    data, result = job.dataset, ExportResult(_LOAD, kept=("dialogues", "objects"))
    every = cast("tuple[Dialogue, ...]", data.payloads.get("dialogues", ()))
    talks = [one for one in every if one.shared_at is not None and one.photo in data.images]
    if not talks:
        raise DataError(f"{data.name} has no dialogue in which a photo is shared", hint="name one that has: --input")
    labels = {row.id: row.labels for row in cast("tuple[ObjectLabels, ...]", data.payloads.get("objects", ()))}
    known = (row for origin in data.files for file in photochat_files(origin) for row in released_dialogues(file))
    urls = {f"{split}/{row.photo}": row.photo_url for split, row in known if "://" in row.photo_url}
    ids = open_images_ids(data.root, {one.rpartition("/")[2] for one in data.images}) if data.root else {}
    homes, missing = {one.id: job.split(one) for one in data.sets}, set[str]()
    for split, own in grouped((homes[data.queries[one.id].image_set], one) for one in talks).items():
        folder = job.out / split.replace("valid", "dev")
        keys, photos = _names(split, (one.id for one in own)), _names(split, (one.photo for one in own))
        for image, name in photos.items():
            photo = data.images[image]
            if photo.path:
                link_or_copy(job.pictures.checked(photo), folder / "photos" / (name + suffix_of(photo)))
            else:
                missing.add(f"{ids.get(name, name)} {urls.get(image, '')}".rstrip())
            urls.setdefault(image, quote(name) + suffix_of(photo))
        rows = []
        for one in own:
            turns = [PhotoChatMessage(turn.text, turn.share, turn.user) for turn in one.turns]
            key, described = keys[one.id], f"{LABELLED} {', '.join(labels.get(one.photo, ()))}"
            number = int(key) if re.fullmatch("0|[1-9][0-9]*", key) else key
            rows.append(ReleasedDialogue(turns, number, described, urls[one.photo]))
        write_bytes(folder / f"{folder.name}.json", pretty_json(rows))
    if missing:
        write_bytes(job.out / "missing.txt", "".join(f"{line}\n" for line in sorted(missing)).encode())
    asked = [one for one in data.queries.values() if one.labels is None]
    left = (
        (len(missing), "photo", "", " without a picture, listed in missing.txt"),
        (len(asked) - len(talks), "query", "queries", " without a shared photo"),
        (len(data.images.keys() - {one.photo for one in talks}), "photo", "", " that nobody shared"),
        (sum(row.worker != "gold" for row in data.judgments), "other judgment", "", ""),
    )
    result.left_out += [f"{plural(number, *nouns)}{what}." for number, *nouns, what in left if number]
    return result


def _names(split: str, ids: Iterable[str]) -> dict[str, str]:
    """Names of files by id."""
    names = {one: one.removeprefix(f"{split}/").replace("/", "_") for one in ids}
    for name, own in grouped((name, one) for one, name in names.items()).items():
        refuse_unsafe(own[0].__str__, name)
        if len(own) > 1:
            raise DataError(f"{some(own)} would all be called {name}", hint="rename all but one")
    return names


_LOAD = """`SPLIT/SPLIT.json` lists dialogues in PhotoChat's released format. The photo is `SPLIT/photos/NAME`, with the name at the end of
`photo_url`; `missing.txt` lists those that are not there. A `user_id` of -1 is a speaker nobody wrote down. All photos of a
split are the candidates of each of its dialogues.
"""

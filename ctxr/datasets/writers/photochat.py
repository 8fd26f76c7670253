"""PhotoChat's released format: dialogues by split as JSON with the photos beside them, and a list of those that are missing."""

import re
from collections.abc import Iterable
from typing import cast
from urllib.parse import quote

from ctxr.datasets.readers.photochat import PhotoChatMessage, ReleasedDialogue, photochat_files, released_dialogues
from ctxr.datasets.readers.text_files import refuse_unsafe
from ctxr.datasets.talks import LABELLED
from ctxr.datasets.writers.job import ExportJob, ExportResult, suffix_of
from ctxr.errors import DataError, plural
from ctxr.store.atomic import link_or_copy, write_bytes
from ctxr.store.records import Dialogue, ObjectLabels
from ctxr.store.tables import grouped, pretty_json


def write(job: ExportJob) -> ExportResult:
    """Write `SPLIT/SPLIT.json`, its `SPLIT/photos/`, and `missing.txt`, a line for each photo without a picture: its name, which is the
    id where photos are called as in Open Images, and its URL if known.

    Raises DataError for ids of which one file would get two, or that cannot be names.
    """
    data, result = job.dataset, ExportResult(_LOAD, kept=("dialogues", "objects"))
    every = cast("tuple[Dialogue, ...]", data.payloads.get("dialogues", ()))
    talks = [one for one in every if one.shared_at is not None and one.photo in data.images]
    labels = {row.id: row.labels for row in cast("tuple[ObjectLabels, ...]", data.payloads.get("objects", ()))}
    files = [file for known in data.files for file in photochat_files(known)]
    rows = [row for file in files for row in released_dialogues(file)]
    urls = {f"{key.partition('/')[0]}/{row.photo}": row.photo_url for key, row in rows if "://" in row.photo_url}
    homes = {one.id: job.split(one) for one in data.sets}
    missing = set[str]()
    for split, own in grouped((homes[data.queries[one.id].image_set], one) for one in talks).items():
        folder = job.out / split.replace("valid", "dev")
        keys, photos = _names(split, (one.id for one in own)), _names(split, (one.photo for one in own))
        for image, name in photos.items():
            photo = data.images[image]
            urls.setdefault(image, quote(name) + suffix_of(photo))
            if photo.path:
                link_or_copy(job.pictures.checked(photo), folder / "photos" / (name + suffix_of(photo)))
            else:
                missing.add(f"{name} {urls[image]}" if "://" in urls[image] else name)
        released = [
            ReleasedDialogue(
                [PhotoChatMessage(turn.text, turn.share, turn.user) for turn in one.turns],
                int(keys[one.id]) if re.fullmatch("0|[1-9][0-9]*", keys[one.id]) else keys[one.id],
                f"{LABELLED} {', '.join(labels[one.photo])}" if one.photo in labels else "",
                urls[one.photo],
            )
            for one in own
        ]
        write_bytes(folder / f"{folder.name}.json", pretty_json(released))
    if missing:
        write_bytes(job.out / "missing.txt", "".join(f"{line}\n" for line in sorted(missing)).encode())
    asked = [one.id for one in data.queries.values() if one.labels is None]
    left = (
        (len(asked) - len(talks), "query in which no photo is shared", "queries in which no photo is shared"),
        (
            len(data.images.keys() - {one.photo for one in talks}),
            "photo that nobody shared",
            "photos that nobody shared",
        ),
        (sum(row.worker != "gold" for row in data.judgments), "other judgment", ""),
    )
    result.left_out += [f"{plural(*one)}." for one in left if one[0]]
    return result


def _names(split: str, ids: Iterable[str]) -> dict[str, str]:
    """Names of files by id."""
    names, owners = dict[str, str](), dict[str, str]()
    for one in ids:
        names[one] = name = one.removeprefix(f"{split}/").replace("/", "_")
        refuse_unsafe(one.__str__, name)
        if (other := owners.setdefault(name, one)) != one:
            raise DataError(f"{other!r} and {one!r} would both be called {name}", hint="rename one of the two")
    return names


_LOAD = """`SPLIT/SPLIT.json` lists dialogues in PhotoChat's released format, with the labels of the photo in `photo_description`. Its file
is `SPLIT/photos/NAME`, with the name at the end of `photo_url`; `missing.txt` lists the photos that are not there, by name, with the URL
where one is known. A `user_id` of -1 is a speaker nobody wrote down. All photos of a split are the candidates of each of its dialogues.
"""

"""Documents in the formats of others: the JSON of Hessel et al. (2019) with one link an item, and MMC4's interleaved JSONL."""

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec
import numpy as np

from ctxr.datasets.dataset import Dataset
from ctxr.datasets.documents import Document, Links, documents_of
from ctxr.datasets.writers.job import ExportJob, ExportResult, suffix_of
from ctxr.errors import DataError, plural
from ctxr.metrics.assignment import assign
from ctxr.metrics.votes import Doubles
from ctxr.store.atomic import write_bytes
from ctxr.store.paths import stays_inside
from ctxr.store.records import Judgment
from ctxr.store.tables import write_table

_SPLITS = {"train": "train", "valid": "val", "test": "test"}


def links_by(dataset: Dataset, scorer: str, scores: Mapping[str, Mapping[str, float]]) -> Iterator[Judgment]:
    """The optimal assignment of each document whose every pair is scored, as judgments: 1 for its links, 0 for other pairs."""
    for document in documents_of(dataset):
        if (weights := _weights(document, scores)) is not None:
            links = {*zip(*(side.tolist() for side in assign(weights)), strict=True)}
            for row, sentence in enumerate(document.sentences):
                for column, image in enumerate(document.images):
                    yield Judgment(sentence, image, scorer, float((row, column) in links))


def _weights(document: Document, scores: Mapping[str, Mapping[str, float]]) -> Doubles | None:
    """Scores [n, m] of a document; None where a pair has none."""
    rows = [
        [scores.get(sentence, {}).get(image, np.nan) for image in document.images] for sentence in document.sentences
    ]
    weights = np.array(rows, np.float64)
    return None if np.isnan(weights).any() else weights


def write_links(job: ExportJob) -> ExportResult:
    """Write `documents.json` with pictures in `images/`. Raises DataError for a document that is in no split."""
    result, lost, unlinked = ExportResult(_LINKS), 0, 0
    splits: dict[str, list[Any]] = {name: [] for name in _SPLITS.values()}
    for document in documents_of(job.dataset, job.worker):
        if document.split is None:
            raise DataError(f"the document {document.id} is in none of train, valid and test", hint="export to mmc4")
        links = document.links.copy()
        if (np.nansum(links, 0) > 1).any() and (np.nansum(links, 1) > 1).any():
            links[(links == 1) & (np.cumsum(links == 1, axis=0) > 1)] = 0  # all but the first of an image
            lost += int(np.nansum(document.links) - np.nansum(links))
        unlinked += bool(np.isnan(links).all())
        images, texts = _ends(links.T), _ends(links)
        row = [[*zip(document.images, images, strict=True)], [*zip(document.texts, texts, strict=True)], document.id]
        splits[_SPLITS[document.split]].append(row)
    write_bytes(job.out / "documents.json", msgspec.json.encode(splits) + b"\n")
    if lost:
        result.left_out.append(f"{plural(lost, 'link')} of images that have several: an item of this format has one.")
    if unlinked:
        result.notes.append(f"{plural(unlinked, 'document')} without known links: every index is null.")
    return _with_pictures(job, result)


def _ends(links: Links) -> list[int | None]:
    """The first link of each row; -1 where all are judged 0, None where one is not judged."""
    return [int(np.argmax(row == 1)) if (row == 1).any() else None if np.isnan(row).any() else -1 for row in links]


def write_mmc4(job: ExportJob) -> ExportResult:
    """Write a JSONL file for each split with pictures in `images/`; an image without a sentence is left out."""
    result, unscored, unmatched = ExportResult(_MMC4), 0, 0
    lines: dict[str, list[bytes]] = {}
    for document in documents_of(job.dataset, job.worker):
        if (weights := _weights(document, job.scores)) is None:
            unscored += 1
            continue
        matched = {
            image: sentence for image, sentence in enumerate(_ends(document.links.T)) if sentence not in (None, -1)
        }
        unmatched += len(document.images) - len(matched)
        row = {
            "url": "",
            "text_list": document.texts,
            "image_info": [
                {"image_name": document.images[image], "raw_url": "", "face_detections": None}
                | {"matched_text_index": sentence, "matched_sim": weights[sentence, image].item()}
                for image, sentence in matched.items()
            ],
            "similarity_matrix": weights.T[[*matched]].tolist(),
            "could_have_url_duplicate": 0,
        }
        lines.setdefault(document.split or "unsplit", []).append(msgspec.json.encode(row) + b"\n")
    for split, rows in lines.items():
        write_bytes(job.out / f"{split}.jsonl", b"".join(rows))
    if unscored:
        result.left_out.append(f"{plural(unscored, 'document')} that {job.worker} did not score.")
    if unmatched:
        result.left_out.append(f"{plural(unmatched, 'image')} without a sentence of their own.")
    return _with_pictures(job, result)


def _with_pictures(job: ExportJob, result: ExportResult) -> ExportResult:
    """Write pictures to `images/`, by the ids of their images, and the judgments of a scorer."""
    with job.progress.task("pictures", len(job.dataset.images)) as task:
        for image in job.dataset.images.values():
            if not stays_inside(image.id):
                raise DataError(f"the image {image.id!r} is no name inside a folder", hint="rename it")
            if image.path:
                suffix = "" if image.id.lower().endswith(suffix_of(image)) else suffix_of(image)
                job.pictures.link(image, job.out / "images" / f"{image.id}{suffix}")
            task.advance()
    if job.scores:
        write_table(job.out / "judgments.jsonl", job.dataset.judgments)
    return result


_LINKS = """`documents.json` is {train, val, test: [[images, sentences, id]]}. An image is [name, index of its sentence], a sentence
[text, index of its image]: -1 for linked to nothing, null where nobody said. Pictures are in `images/`.
"""

_MMC4 = """A line of each JSONL file is a document in the format of MMC4: sentences in `text_list`, images in `image_info`, and their
similarities [images, sentences]. Pictures are in `images/`, by `image_name`.
"""

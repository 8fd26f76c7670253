"""Documents in the formats of others: the JSON of Hessel et al. (2019) with one link an item, and MMC4's interleaved JSONL."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import product

import msgspec
import numpy as np

from ctxr.datasets.documents import Document, Links, documents_of
from ctxr.datasets.writers.job import UNSPLIT, ExportJob, ExportResult, suffix_of
from ctxr.errors import DataError, plural
from ctxr.metrics.links import assign
from ctxr.metrics.votes import Doubles
from ctxr.store.atomic import link_or_copy, write_bytes
from ctxr.store.paths import stays_inside
from ctxr.store.records import Judgment
from ctxr.store.tables import write_table


def _scored(job: ExportJob) -> list[tuple[Document, Doubles]]:
    """Documents whose links are the optimal assignment by a scorer, and its scores [n, m]; all NaN where it did not score every pair.

    The links are written as judgments too. Raises DataError for a scorer that did not score a single document.
    """
    documents, judgments = [], []
    for document in documents_of(job.dataset):
        rows = [job.scores.get(sentence, {}) for sentence in document.sentences]
        scores = np.array([[row.get(image, np.nan) for image in document.images] for row in rows], np.float64)
        links = np.zeros_like(scores)
        if np.isnan(scores).any():
            links[:] = scores[:] = np.nan
        else:
            links[assign(scores)] = 1
        documents.append((replace(document, links=links), scores))
        pairs = zip(product(document.sentences, document.images), links.flat, strict=True)
        judgments += [Judgment(*pair, job.scorer, float(value)) for pair, value in pairs if value >= 0]
    if not judgments:
        raise DataError(f"{job.scorer} scores no document as a whole", hint=f"ctxr train --dataset {job.origin}")
    write_table(job.out / "judgments.jsonl", judgments)
    return documents


def write_links(job: ExportJob) -> ExportResult:
    """Write `documents.json` with pictures in `images/`. Raises DataError for a document that is in no split."""
    result, lost, unlinked = ExportResult(_LINKS), 0, 0
    splits: dict[str, list[object]] = {"train": [], "val": [], "test": []}
    for document in [document for document, _ in _scored(job)] if job.scores else documents_of(job.dataset):
        if document.split is None:
            raise DataError(f"the document {document.id} is in none of train, valid and test", hint="export to mmc4")
        links = document.links.copy()
        if (np.nansum(links, 0) > 1).any() and (np.nansum(links, 1) > 1).any():
            links[(links == 1) & (np.cumsum(links == 1, axis=0) > 1)] = 0  # but an image's first
            lost += int(np.nansum(document.links) - np.nansum(links))
        unlinked += bool(np.isnan(links).all())
        meta = {"id": document.id, "worker": job.scorer} if job.scores else document.id
        row = _side(document.images, links.T), _side(document.texts, links), meta
        splits["val" if document.split == "valid" else document.split].append(row)
    write_bytes(job.out / "documents.json", msgspec.json.encode(splits) + b"\n")
    if lost:
        result.left_out.append(f"{plural(lost, 'link')} of images that have several: an item of this format has one.")
    if unlinked:
        result.notes.append(f"{plural(unlinked, 'document')} without known links: every index is null.")
    return _with_pictures(job, result)


def _side(items: Sequence[str], links: Links) -> list[tuple[str, int | None]]:
    """Each with its first link; -1 where all are judged 0, None where one is not judged."""
    ends = [int(np.argmax(row == 1)) if (row == 1).any() else None if np.isnan(row).any() else -1 for row in links]
    return [*zip(items, ends, strict=True)]


def write_mmc4(job: ExportJob) -> ExportResult:
    """Write a JSONL file for each split with pictures in `images/`; an image without a sentence is left out."""
    result, unmatched = ExportResult(_MMC4), 0
    lines: dict[str, list[bytes]] = {}
    for document, scores in _scored(job):
        if np.isnan(scores).any():
            continue
        matched, sentences = (side.tolist() for side in np.nonzero(document.links.T == 1))
        unmatched += len(document.images) - len(matched)
        row = {
            "url": "",
            "text_list": document.texts,
            "image_info": [
                {"image_name": document.images[image], "raw_url": "", "face_detections": None}
                | {"matched_text_index": sentence, "matched_sim": scores[sentence, image].item()}
                for image, sentence in zip(matched, sentences, strict=True)
            ],
            "similarity_matrix": scores.T[matched].tolist(),
            "could_have_url_duplicate": 0,
        }
        lines.setdefault(document.split or UNSPLIT, []).append(msgspec.json.encode(row) + b"\n")
    for split, rows in lines.items():
        write_bytes(job.out / f"{split}.jsonl", b"".join(rows))
    if unscored := len(job.dataset.sets) - sum(map(len, lines.values())):
        result.left_out.append(f"{plural(unscored, 'document')} that {job.scorer} did not score.")
    if unmatched:
        result.left_out.append(f"{plural(unmatched, 'image')} without a sentence of their own.")
    return _with_pictures(job, result)


def _with_pictures(job: ExportJob, result: ExportResult) -> ExportResult:
    """Write pictures to `images/`, by the ids of their images."""
    for image in job.progress.each("exporting pictures", job.dataset.images.values()):
        if not stays_inside(image.id):
            raise DataError(f"the image {image.id!r} is not a name inside a folder", hint="rename it")
        if image.path:
            suffix = "" if image.id.lower().endswith(suffix_of(image)) else suffix_of(image)
            link_or_copy(job.pictures.checked(image), job.out / "images" / f"{image.id}{suffix}")
    return result


_LINKS = """`documents.json` is {train, val, test: [[images, sentences, meta]]}. An image is [name, index of its sentence], a sentence
[text, index of its image]: -1 is linked to nothing, null is not judged. `meta` is the id of the document, with the scorer of predicted
links as its worker. Pictures are in `images/`.
"""

_MMC4 = """A line of each JSONL file is a document in the format of MMC4: sentences in `text_list`, images in `image_info`, and their
similarities [images, sentences]. Pictures are in `images/`, by `image_name`.
"""

"""Our own artifacts: `image_sets` (by build-sets and filter) and `dataset` (the same with texts, queries and judgments)."""

from collections.abc import Collection, Iterable
from dataclasses import replace
from pathlib import Path
from typing import NoReturn, TypeVar

from ctxr.datasets.dataset import Dataset
from ctxr.datasets.readers.frames import in_string_order
from ctxr.errors import DataError
from ctxr.store.artifacts import MANIFEST, Artifact, open_artifact
from ctxr.store.kinds import DATASET, IMAGE_SETS
from ctxr.store.paths import stays_inside
from ctxr.store.records import Facts, Image, ImageSet, Judgment, Query, Record, SharedFootage, Source, Split, Text
from ctxr.store.tables import PAYLOADS, Owner, read_payloads, read_table

KINDS = (IMAGE_SETS, DATASET)
"""Kinds of artifacts that hold sets."""

R = TypeVar("R", bound=Record)


def manifest_of(path: Path) -> list[Path]:
    """The manifest at a path, or in it."""
    file = path / MANIFEST if path.is_dir() else path
    return [file] if file.name == MANIFEST and file.is_file() else []


def read_artifact(path: Path) -> Dataset:
    """A finished artifact as a dataset, with a note where a table of it was edited.

    Raises UnfinishedError without a manifest; DataError for another kind, and as `dataset_of` does.
    """
    artifact = open_artifact(path, KINDS, "ctxr build-sets videos/")
    edited, what = artifact.changed_files()[:1], f"was changed since the artifact was written: run ctxr doctor {path}"
    return replace(dataset_of(artifact), notes=tuple(f"{name} {what}" for name in edited))


def dataset_of(artifact: Artifact) -> Dataset:
    """What the tables of an artifact hold; one that its manifest does not list holds nothing.

    Raises DataError for a table that is missing or damaged, a row that names what is not there, a path outside the
    artifact, or frames in string order.
    """
    path = artifact.path

    def optional(name: str, record: type[R]) -> list[R]:
        return read_table(path / name, record) if name in artifact.manifest.files else []

    sets = read_table(path / "sets.jsonl", ImageSet)
    images = _by_id(read_table(path / "images.jsonl", Image))
    inside = path.resolve()
    for image in images.values():
        if image.path and not (stays_inside(image.path) and (path / image.path).resolve().is_relative_to(inside)):
            what = f"image {image.id!r}: the path {image.path!r} does not stay inside the artifact"
            _refuse(path / "images.jsonl", what)
    by_path = {image.path: image.id for image in images.values()}
    dataset = Dataset(
        name=path.resolve().name,
        root=path,
        sets=tuple(sorted(sets, key=lambda image_set: image_set.id)),
        images=images,
        texts=_by_id(optional("texts.jsonl", Text)),
        queries=_by_id(optional("queries.jsonl", Query)),
        judgments=tuple(optional("judgments.jsonl", Judgment)),
        splits={row.group: row.split for row in optional("splits.jsonl", Split)},
        sources=tuple(optional("sources.jsonl", Source)),
        footage=tuple(optional("groups.jsonl", SharedFootage)),
        payloads=read_payloads(path, artifact.manifest.files),
        facts={by_path[row.path]: row for row in optional("facts.jsonl", Facts) if row.path in by_path},
    )
    _check_references(path, dataset)
    return dataset


def _by_id(rows: Iterable[R]) -> dict[str, R]:
    return {str(row.key()[0]): row for row in rows}


def _refuse(table: Path, what: str, hint: str = "run the command that made this artifact again") -> NoReturn:
    raise DataError(f"{table}: {what}", hint=hint)


def _check_references(path: Path, dataset: Dataset) -> None:
    sets, images = _by_id(dataset.sets), dataset.images
    for image_set in dataset.sets:
        if lost := next((name for name in image_set.images if name not in images), None):
            _refuse(path / "sets.jsonl", f"set {image_set.id!r} names {lost!r}, which images.jsonl does not have")
        numbers = (index for name in image_set.images if (index := images[name].index) is not None)
        if image_set.ordered and in_string_order(numbers):
            order = "its frames in string order (img10 before img2), so targets would point at wrong pictures"
            _refuse(path / "sets.jsonl", f"set {image_set.id!r} has {order}", hint="sort the frames by their number")
    for query in dataset.queries.values():
        if query.image_set not in sets or any(name not in dataset.texts for name in query.texts):
            _refuse(path / "queries.jsonl", f"query {query.id!r} names a set or a text that does not exist")
    for row in dataset.judgments:
        question = dataset.queries.get(row.query)
        candidates: tuple[str, ...] = ()
        if question is not None:
            candidates = sets[question.image_set].images if question.labels is None else question.labels
        if row.candidate not in candidates:
            what = f"on {row.query!r} names {row.candidate!r}, which is not a candidate there"
            _refuse(path / "judgments.jsonl", f"judgment of {row.worker!r} {what}")
    owners: dict[Owner, Collection[str]] = {
        "query": dataset.queries,
        "text": dataset.texts,
        "image": images,
        "image_set": sets,
    }
    for name, rows in dataset.payloads.items():
        table = PAYLOADS[name]
        if lost := next((owner for row in rows if (owner := table.owner_of(row)) not in owners[table.of]), None):
            _refuse(path / f"{name}.jsonl", f"a row is about {lost!r}, which does not exist")


def open_sets(path: Path) -> Dataset:
    """What an artifact of sets, or a dataset of them, holds. Raises UnfinishedError or, for damaged ones, DataError."""
    artifact = open_artifact(path, KINDS, "ctxr build-sets videos/")
    artifact.refuse_changed()
    return dataset_of(artifact)

"""The units of one task with the sets and pictures they show, under one root."""

import hashlib
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import msgspec

from ctxr.annotation import unit_factory as factory
from ctxr.annotation.artifacts import Answered, TaskBatch, read_judgments
from ctxr.annotation.config import ExportTasks
from ctxr.annotation.platforms.arrivals import read_lines
from ctxr.annotation.protocol import digest
from ctxr.annotation.records import Unit
from ctxr.datasets.dataset import Dataset
from ctxr.datasets.open import read_dataset
from ctxr.datasets.rounds import sample_of
from ctxr.engine.progress import Progress
from ctxr.engine.project import SETS, chosen
from ctxr.errors import DataError, UnfinishedError, UsageError
from ctxr.store.artifacts import MANIFEST, Parent, open_artifact
from ctxr.store.hashing import sha256_file
from ctxr.store.kinds import JUDGMENTS
from ctxr.store.records import Image, ImageSet, Text
from ctxr.store.tables import encode_row


def merge_roots(parts: Iterable[tuple[Path, Iterable[Image]]]) -> tuple[Path, dict[str, Image]]:
    """The lowest folder that holds all roots, and the images by id with paths relative to it.

    The first of several equal pictures counts. Raises DataError for two pictures of one id, or for no root at all.
    """
    listed = [(root.resolve(), list(images)) for root, images in parts]
    if not listed:
        raise DataError("there are no pictures")
    common = Path(os.path.commonpath([root for root, _ in listed]))
    merged: dict[str, Image] = {}
    for root, images in listed:
        folder = root.relative_to(common)
        for image in images:
            moved = msgspec.structs.replace(image, path=(folder / image.path).as_posix())
            if merged.setdefault(image.id, moved).sha256 != image.sha256:
                raise DataError(
                    f"the image {image.id!r} is one picture in {merged[image.id].path} and another in {moved.path}",
                    hint="ask about one version of the sets only",
                )
    return common, merged


class StatementRow(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A line of `--candidates`: does this image entail the statement? `captions` are read with the image."""

    image: str
    statement: str
    text: str
    captions: tuple[str, ...] = ()
    author: str = "candidate"


class Objects(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A line of `--objects`: what is in an image."""

    image: str
    labels: tuple[str, ...]


@dataclass(frozen=True)
class _Material:
    """Where units come from: sets, pictures, and who is named as a parent."""

    sets: dict[str, ImageSet]
    root: Path
    images: tuple[Image, ...]
    parents: tuple[Parent, ...]


def ask(config: ExportTasks, progress: Progress) -> TaskBatch:
    """Units of the task that `config` names, with checks of the workers where the protocol asks for them.

    Raises UnfinishedError where what they are made from is not there yet; UsageError or DataError where it does not fit.
    """
    units, material = _work(config, progress)
    if not units and config.task in _FIRST and not (config.task == "retrieve" and config.input is not None):
        missing, hint = _FIRST[config.task]
        raise UnfinishedError(f"there is nothing to {config.task}: {missing}", hint=hint)
    if not units:
        raise DataError(f"there is nothing to {config.task}", hint="see what the command before this one made")
    checks, gold = _checks(config, units, material, progress)
    materials = [material] if gold is None else [material, gold]
    root, images = merge_roots((source.root, source.images) for source in materials)
    units = sorted([*units, *checks], key=lambda unit: unit.id)
    for name in (name for unit in units for name in unit.images):
        if not images[name].sha256:
            raise UsageError(
                f"the picture {name!r} is missing, so no task can show it",
                hint="name a dataset with its pictures (--input)",
            )
    sets = {name: image_set for source in reversed(materials) for name, image_set in source.sets.items()}
    return TaskBatch(tuple(units), sets, images, root, tuple(row for source in materials for row in source.parents))


_FIRST = {
    "retrieve": ("no description was written yet", "ctxr import-answers   (once people have described images)"),
    "verify": ("no finished talk was imported yet", "ctxr import-answers   (once two people have finished a talk)"),
    "audit": (
        "nothing was answered yet, but for descriptions and talks, or the share drew nothing",
        "ctxr import-answers   (once people have answered; with few answers a larger --fraction)",
    ),
}
"""What tasks made from answers wait for."""


def _work(config: ExportTasks, progress: Progress) -> tuple[list[Unit], _Material]:
    protocol, task = config.protocol(), config.task
    if task in ("describe", "dialogue"):
        dataset, material = _dataset(config.input or _sets(config.workdir, progress))
        if task == "describe":
            return factory.describe_units(dataset, protocol), material
        if config.objects is None:
            return factory.dialogue_units(dataset, protocol), material
        parent = Parent("objects", "table", sha256_file(config.objects))
        return factory.dialogue_units(dataset, protocol, _objects(config.objects, dataset)), _with(material, parent)
    if task == "tag" or (task == "retrieve" and config.input is not None):
        dataset, material = _dataset(config.input or chosen(None, config.workdir, ("dataset",), progress))
        if task == "tag":
            return factory.tag_units(dataset, config.phenomena(), config.raters or 1), material
        return factory.retrieve_units(dataset, protocol), material
    if task == "entail":
        return _entail(config, progress)
    answered, material = _judgments(config.input or config.workdir / JUDGMENTS)
    if task == "audit":
        return factory.audit_units(answered.units.values(), answered.answers, config.fraction, protocol), material
    if task == "verify":
        talks = [
            factory.verify_unit(answered.units[talk.unit], talk, protocol.verify_votes) for talk in answered.dialogues
        ]
        return talks, material
    # the same units that our own server adds by itself
    pairs = [(answered.units[answer.unit], answer) for answer in answered.answers]
    described = [(unit, answer) for unit, answer in pairs if unit.task == "describe"]
    return [
        derived
        for unit, answer in described
        for derived in factory.derive_units(unit, answer, answered.sets[unit.image_set], protocol)
    ], material


def _entail(config: ExportTasks, progress: Progress) -> tuple[list[Unit], _Material]:
    table, revised = sample_of(config.workdir, config.candidates)
    if table is None:
        raise UsageError(
            "entail needs the pairs that are judged",
            hint="--candidates FILE.jsonl, or ctxr revise-labels --entail first",
        )
    dataset, material = _dataset(config.input or revised or _sets(config.workdir, progress))
    home = {name: image_set for image_set in reversed(dataset.sets) for name in image_set.images}
    example = 'such as {"image": "a/1", "statement": "s1", "text": "A dog runs."}'
    units, seen = [], set()
    for number, row in read_lines(table, StatementRow, example, "--candidates names a JSONL file"):
        if row.image not in home:
            raise DataError(
                f"{table}:{number}: no set of {dataset.name} has the image {row.image!r}",
                hint="name the dataset that the candidates are from (--input)",
            )
        if (row.image, row.statement) in seen:
            raise DataError(f"{table}:{number}: {row.image!r} and {row.statement!r} are repeated")
        seen.add((row.image, row.statement))
        image_set = home[row.image]
        text = Text(row.statement, row.text, row.author)
        # who checks labels writes nothing, so an audit is for all workers, whatever split they work on
        split = None if revised else dataset.split_of(image_set)
        units.append(factory.entail_unit(image_set, row.image, row.captions, text, split, config.raters or 3))
    return units, _with(material, Parent("candidates", "table", sha256_file(table)))


def _objects(path: Path, dataset: Dataset) -> dict[str, tuple[str, ...]]:
    labels: dict[str, tuple[str, ...]] = {}
    example = 'such as {"image": "a/1", "labels": ["Dog", "Bread"]}'
    for number, row in read_lines(path, Objects, example, "--objects names a JSONL file"):
        if row.image not in dataset.images:
            raise DataError(
                f"{path}:{number}: {dataset.name} has no image {row.image!r}",
                hint="name the dataset that the objects are in (--input)",
            )
        if row.image in labels:
            raise DataError(f"{path}:{number}: the image {row.image!r} is repeated")
        labels[row.image] = row.labels
    return labels


def _checks(
    config: ExportTasks, work: Sequence[Unit], material: _Material, progress: Progress
) -> tuple[list[Unit], _Material | None]:
    """Attention checks, and questions with a known answer, for workers who retrieve."""
    protocol = config.protocol()
    served = config.backend in ("local", "prolific")
    if config.task != "retrieve" and not (config.task == "describe" and served):
        return [], None
    checks: list[Unit] = []
    if protocol.attention_every:
        sets = sorted({unit.image_set for unit in work})
        count = max(1, len(work) // protocol.attention_every)
        checks += [factory.attention_unit(material.sets[name], 0, protocol) for name in sets[:count]]
    if protocol.qualification and not served:
        progress.warn(
            f"{config.backend} has no qualification round: questions go to the local server and Prolific only"
        )
    counts: dict[Literal["gold", "qualification"], int] = {}
    if protocol.gold_every:
        counts["gold"] = max(1, len(work) // protocol.gold_every)
    if protocol.qualification and served:
        counts["qualification"] = (
            5 * protocol.qualification
        )  # several rounds' worth, so workers get different questions
    if not counts:
        return checks, None
    if config.gold is None:
        raise UsageError(
            "the protocol asks for questions with a known answer, and there are none",
            hint="--gold DATASET: an artifact or a published release whose targets are known",
        )
    dataset, gold = _dataset(config.gold, "gold")
    for purpose, count in counts.items():
        units = factory.check_units(dataset, protocol, purpose)
        checks += sorted(units, key=lambda unit: digest(protocol.seed, "check", unit.id))[:count]
    return checks, gold


def _sets(workdir: Path, progress: Progress) -> Path:
    """The furthest image sets of a project, or else its dataset."""
    if not any((workdir / name / MANIFEST).is_file() for name in SETS) and (workdir / "dataset" / MANIFEST).is_file():
        return workdir / "dataset"
    return chosen(None, workdir, SETS, progress)


def _dataset(path: Path, name: str = "") -> tuple[Dataset, _Material]:
    dataset = read_dataset(path)
    if (path / MANIFEST).is_file():
        artifact = open_artifact(path)
        parent = Parent(name or artifact.manifest.kind, artifact.manifest.kind, artifact.sha256)
    else:
        parent = Parent(name or "release", "release", _fingerprint(dataset))
    sets = {image_set.id: image_set for image_set in dataset.sets}
    return dataset, _Material(sets, dataset.root or path.resolve(), tuple(dataset.images.values()), (parent,))


def _judgments(path: Path) -> tuple[Answered, _Material]:
    if not (path / MANIFEST).is_file():
        raise UnfinishedError(
            f"{path} holds no answers yet", hint="ctxr import-answers   (or name a dataset with --input)"
        )
    answered, artifact = read_judgments(path), open_artifact(path)
    parent = Parent(JUDGMENTS, artifact.manifest.kind, artifact.sha256)
    return answered, _Material(answered.sets, answered.root, tuple(answered.images.values()), (parent,))


def _with(material: _Material, parent: Parent) -> _Material:
    return replace(material, parents=(*material.parents, parent))


def _fingerprint(dataset: Dataset) -> str:
    """SHA-256 over everything a release says of its sets and what is asked about them."""
    whole = hashlib.sha256()
    for rows in (dataset.sets, dataset.texts.values(), dataset.queries.values(), dataset.judgments):
        for line in sorted(map(encode_row, rows)):
            whole.update(line)
    return whole.hexdigest()

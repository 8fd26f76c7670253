"""The units of one task with the sets and pictures they show, under one root."""

import hashlib
import os
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

import msgspec

from ctxr.annotation import unit_factory as factory
from ctxr.annotation.artifacts import TaskBatch, read_judgments
from ctxr.annotation.config import ExportTasks
from ctxr.annotation.platforms.arrivals import read_lines
from ctxr.annotation.project_journal import blocked_workers
from ctxr.annotation.protocol import Protocol, digest
from ctxr.annotation.records import Purpose, Unit
from ctxr.datasets.dataset import Dataset
from ctxr.datasets.open import read_dataset
from ctxr.datasets.rounds import sample_of
from ctxr.datasets.splits import leakage_of
from ctxr.engine.progress import Progress
from ctxr.engine.project import SETS, chosen
from ctxr.errors import DataError, UnfinishedError, UsageError
from ctxr.store.artifacts import MANIFEST, Parent, open_artifact
from ctxr.store.hashing import sha256_file
from ctxr.store.kinds import JUDGMENTS, RELEASE
from ctxr.store.records import Image, Text
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


def merge_batches(batches: Sequence[TaskBatch]) -> TaskBatch:
    """Units, sets and pictures of several batches under one root; the first of several equal ones counts."""
    root, images = merge_roots((batch.root, batch.images.values()) for batch in batches)
    units = sorted((unit for batch in batches for unit in batch.units), key=lambda unit: unit.id)
    sets = {name: image_set for batch in reversed(batches) for name, image_set in batch.sets.items()}
    return TaskBatch(tuple(units), sets, images, root, tuple(row for batch in batches for row in batch.parents))


def ask(config: ExportTasks, progress: Progress) -> TaskBatch:
    """Units of the task that `config` names, with checks of the workers where the protocol asks for them.

    Raises UnfinishedError where what they are made from is unfinished; UsageError or DataError where it does not fit.
    """
    work = _work(config, progress)
    if not work.units and config.task in _FIRST and not (config.task == "retrieve" and config.input is not None):
        missing, hint = _FIRST[config.task]
        raise UnfinishedError(f"there is nothing to {config.task}: {missing}", hint=hint)
    if not work.units:
        raise DataError(f"there is nothing to {config.task}", hint="see what the command before this one made")
    batch = merge_batches([work, _checks(config, work, progress)])
    for name in (name for unit in batch.units for name in unit.images):
        if not batch.images[name].sha256:
            raise UsageError(
                f"the picture {name!r} is missing, so no task can show it",
                hint="name a dataset with its pictures (--input)",
            )
    return batch


_FIRST = {
    "retrieve": ("no description was written yet", "ctxr import-answers   (once people have described images)"),
    "verify": ("no finished talk was imported yet", "ctxr import-answers   (once two people have finished a talk)"),
    "audit": (
        "nothing was answered yet, but for descriptions and talks, or the share drew nothing",
        "ctxr import-answers   (once people have answered; with few answers a larger --fraction)",
    ),
}
"""What tasks made from answers wait for."""


def _work(config: ExportTasks, progress: Progress) -> TaskBatch:
    task = config.task
    if task == "entail":
        return _entail(config, progress)
    if task in ("describe", "dialogue"):
        dataset, source = _dataset(config.input or _sets(config.workdir, progress), config)
        if task == "describe":
            return replace(source, units=factory.describe_units(dataset, config))
        objects = _objects(config.objects, dataset) if config.objects else {}
        parents = [Parent("objects", "table", sha256_file(config.objects))] if config.objects else []
        units = factory.dialogue_units(dataset, config, objects)
        return replace(source, units=units, parents=(*source.parents, *parents))
    if task == "tag" or (task == "retrieve" and config.input is not None):
        dataset, source = _dataset(config.input or chosen(None, config.workdir, ("dataset",), progress), config)
        if task == "tag":
            return replace(source, units=factory.tag_units(dataset, config.phenomena(), config.raters or 1))
        return replace(source, units=factory.retrieve_units(dataset, config))
    path = config.input or config.workdir / JUDGMENTS
    if not (path / MANIFEST).is_file():
        raise UnfinishedError(
            f"{path} holds no answers yet", hint="ctxr import-answers   (or name a dataset with --input)"
        )
    answered, artifact = read_judgments(path), open_artifact(path)
    if task == "audit":
        units = factory.audit_units(answered.units.values(), answered.answers, config.fraction, config)
    elif task == "verify":
        talks = [(answered.units[talk.unit], talk) for talk in answered.dialogues]
        units = [factory.verify_unit(unit, talk, config.verify_votes) for unit, talk in talks]
    else:  # the same units that our own server adds by itself, and gives out
        blocked = blocked_workers(config.workdir)
        pairs = [(answered.units[answer.unit], answer) for answer in answered.answers if answer.worker not in blocked]
        units = [
            derived
            for unit, answer in pairs
            if unit.task == "describe"
            for derived in factory.derive_units(unit, answer, answered.sets[unit.image_set], config)
        ]
    parent = Parent(JUDGMENTS, artifact.manifest.kind, artifact.sha256)
    return TaskBatch(units, answered.sets, answered.images, answered.root, (parent,))


def _entail(config: ExportTasks, progress: Progress) -> TaskBatch:
    table, revised = sample_of(config.workdir, config.candidates)
    if table is None:
        raise UsageError(
            "entail needs the pairs that are judged",
            hint="--candidates FILE.jsonl, or ctxr revise-labels --entail first",
        )
    dataset, source = _dataset(config.input or revised or _sets(config.workdir, progress), config)
    home = {name: image_set for image_set in reversed(dataset.sets) for name in image_set.images}
    example = 'such as {"image": "a/1", "statement": "s1", "text": "A dog runs."}'
    units: dict[tuple[str, str], Unit] = {}
    for number, row in read_lines(table, StatementRow, example, "--candidates names a JSONL file"):
        if row.image not in home:
            raise DataError(
                f"{table}:{number}: no set of {dataset.name} has the image {row.image!r}",
                hint="name the dataset that the candidates are from (--input)",
            )
        if (row.image, row.statement) in units:
            raise DataError(f"{table}:{number}: {row.image!r} and {row.statement!r} are repeated")
        image_set = home[row.image]
        text = Text(row.statement, row.text, row.author)
        # who checks labels writes nothing, so an audit is for all workers, whatever split they work on
        split = None if revised else dataset.split_of(image_set)
        unit = factory.entail_unit(image_set, row.image, row.captions, text, split, votes=config.raters or 3)
        units[row.image, row.statement] = unit
    parents = (*source.parents, Parent("candidates", "table", sha256_file(table)))
    return replace(source, units=tuple(units.values()), parents=parents)


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


def _checks(config: ExportTasks, work: TaskBatch, progress: Progress) -> TaskBatch:
    """Attention checks, and questions with a known answer, for workers who retrieve."""
    served = config.backend in ("local", "prolific")
    checks: list[Unit] = []
    none = TaskBatch((), {}, {}, work.root)
    sets = sorted({unit.image_set for unit in work.units})
    counts = check_counts(config, config.task, served, len(work.units), len(sets))
    if attentive := counts.pop("attention", 0):
        checks += [factory.attention_unit(work.sets[name], 0, config) for name in sets[:attentive]]
    if config.task == "retrieve" and config.qualification and not served:
        progress.warn(
            f"{config.backend} has no qualification round: questions go to the local server and Prolific only"
        )
    if not counts:
        return replace(none, units=checks)
    if config.gold is None:
        raise UsageError(
            "the protocol asks for questions with a known answer, and there are none",
            hint="--gold DATASET: an artifact or a published release whose targets are known",
        )
    dataset, gold = _dataset(config.gold, config, "gold")
    for purpose, count in counts.items():
        units = factory.check_units(dataset, config, purpose)
        checks += sorted(units, key=lambda unit: digest(config.seed, "check", unit.id))[:count]
    return replace(gold, units=checks)


def check_counts(protocol: Protocol, task: str, served: bool, units: int, sets: int) -> dict[Purpose, int]:
    """Questions that test the workers of a task of so many units about so many sets, by purpose; `served` by our own server."""
    counts: dict[Purpose, int] = {}
    if task == "retrieve" or (task == "describe" and served):
        if protocol.attention_every:
            counts["attention"] = min(sets, max(1, units // protocol.attention_every))
        if protocol.gold_every:
            counts["gold"] = max(1, units // protocol.gold_every)
        if protocol.qualification and served:
            counts["qualification"] = 5 * protocol.qualification  # several rounds, so workers get different questions
    return counts


def _sets(workdir: Path, progress: Progress) -> Path:
    """The furthest image sets of a project, or else its dataset."""
    if not any((workdir / name / MANIFEST).is_file() for name in SETS) and (workdir / "dataset" / MANIFEST).is_file():
        return workdir / "dataset"
    return chosen(None, workdir, SETS, progress)


def _dataset(path: Path, config: ExportTasks, name: str = "") -> tuple[Dataset, TaskBatch]:
    """A dataset, and what units about it show: a batch without units. Raises DataError where its splits leak."""
    dataset = read_dataset(path).of_sets("ctxr export-tasks")
    if not (config.keep_leaks or name) and (leak := leakage_of(dataset).sentence()):
        raise DataError(
            f"{path}: {leak}", hint="give sources that share footage one split and build again, or add --keep-leaks"
        )
    if (path / MANIFEST).is_file():
        artifact = open_artifact(path)
        artifact.refuse_changed()
        parent = Parent(name or artifact.manifest.kind, artifact.manifest.kind, artifact.sha256)
    else:
        # everything that a release says of its sets and what is asked about them
        tables = (dataset.sets, dataset.texts.values(), dataset.queries.values(), dataset.judgments)
        lines = b"".join(line for rows in tables for line in sorted(map(encode_row, rows)))
        parent = Parent(name or "release", RELEASE, hashlib.sha256(lines).hexdigest())
    sets = {image_set.id: image_set for image_set in dataset.sets}
    return dataset, TaskBatch((), sets, dataset.images, dataset.root or path.resolve(), (parent,))

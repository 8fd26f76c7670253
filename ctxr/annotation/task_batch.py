"""The units of one task with the sets and pictures they show, under one root."""

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import cast

import msgspec
from msgspec import structs

from ctxr.annotation import unit_factory as factory
from ctxr.annotation.artifacts import TaskBatch, read_judgments
from ctxr.annotation.config import ExportTasks, listed
from ctxr.annotation.project_journal import blocked_workers
from ctxr.annotation.protocol import digest
from ctxr.annotation.records import Purpose, Unit
from ctxr.annotation.tasks.own import OwnStudy, read_own
from ctxr.annotation.tasks.tag import NOTES
from ctxr.datasets.dataset import Dataset
from ctxr.datasets.lineage import content_of, dataset_parents
from ctxr.datasets.open import read_dataset
from ctxr.datasets.photo_labels import labels_of_boxes
from ctxr.datasets.rounds import labels_of_sample, newest_sample
from ctxr.datasets.splits import leakage_of
from ctxr.engine.progress import Progress
from ctxr.engine.project import SETS, chosen, command_in
from ctxr.errors import DataError, UnfinishedError, UsageError, plural
from ctxr.store.artifacts import MANIFEST, Parent, open_artifact
from ctxr.store.hashing import sha256_file, sha256_of
from ctxr.store.kinds import JUDGMENTS
from ctxr.store.records import Image, ObjectLabels, Text
from ctxr.store.scores import typed_lines


def merge_roots(parts: Iterable[tuple[Path, Iterable[Image]]]) -> TaskBatch:
    """A batch without units: the lowest folder that holds all roots, and the images by id. Raises DataError for two of one id."""
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
    return TaskBatch((), {}, merged, common)


class StatementRow(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A line of `--candidates`: does the image, with its `captions`, entail the statement?"""

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
    """Units, sets and pictures of batches under one root; of equal ones the first counts."""
    merged = merge_roots((batch.root, batch.images.values()) for batch in batches)
    units = sorted((unit for batch in batches for unit in batch.units), key=lambda unit: unit.id)
    sets = {name: image_set for batch in reversed(batches) for name, image_set in batch.sets.items()}
    objects = {row.key(): row for batch in reversed(batches) for row in batch.objects}
    return replace(merged, units=tuple(units), sets=sets, objects=tuple(objects.values()))


@dataclass(frozen=True)
class TaskSources:
    """What the units of a task are made from.

    Attributes:
        path: a dataset, or else judgments. candidates: the table of pairs to judge; `revised`: it samples revised labels.
        blocked: workers whose descriptions are not asked about. parents: the content of all sources. own: a task of one's own.
    """

    path: Path
    is_dataset: bool
    candidates: Path | None
    revised: bool
    blocked: tuple[str, ...]
    parents: tuple[Parent, ...]
    own: OwnStudy | None = None


def sources_of(config: ExportTasks, progress: Progress) -> TaskSources:
    """The sources of the task of `config`, unread. Raises UnfinishedError for an unfinished, DataError for an edited one."""
    table = revised = None
    blocked: tuple[str, ...] = ()
    if config.task == "entail":
        table = config.candidates or newest_sample(config.workdir)
        if table is None:
            raise UsageError(
                "entail needs the pairs that are judged",
                hint="--candidates FILE.jsonl, or ctxr revise-labels --entail first",
            )
        revised = labels_of_sample(table)
    own = read_own(config.own) if config.own else None
    is_dataset = config.task_name in ("entail", "describe", "dialogue", "tag", "own") or (
        config.task == "retrieve" and config.input is not None
    )
    if (config.task in ("tag", "retrieve") and is_dataset) or (own and own.file.about == "query"):
        path = config.input or chosen(None, config.workdir, ("dataset",), progress)
    elif is_dataset:
        # the furthest image sets of the project, or else its dataset
        made = [name for name in (*SETS, "dataset") if (config.workdir / name / MANIFEST).is_file()]
        built = config.workdir / "dataset" if made == ["dataset"] else None
        path = config.input or revised or chosen(built, config.workdir, SETS, progress)
    else:
        path = config.input or config.workdir / JUDGMENTS
        if not (path / MANIFEST).is_file():
            take = command_in(config.workdir, "import-answers")
            raise UnfinishedError(f"{path} holds no answers yet", hint=f"{take}   (or name a dataset with --input)")
        blocked = blocked_workers(config.workdir) if config.task == "retrieve" else ()
    if is_dataset:
        parents = dataset_parents(path, path.resolve().stem, config.workdir, progress)
    else:
        parents = [Parent(JUDGMENTS, JUDGMENTS, open_artifact(path).content)]
    parents += [Parent("gold", "gold", content_of(config.gold).sha256)] if config.gold else []
    files = {"candidates": table, "objects": config.objects if config.task == "dialogue" else None, "own": config.own}
    parents += [Parent(name, "table", sha256_file(file)) for name, file in files.items() if file and file.is_file()]
    parents += [Parent("blocked", "workers", sha256_of(blocked))] if blocked else []
    return TaskSources(path, is_dataset, table, revised is not None, blocked, tuple(parents), own)


def ask(config: ExportTasks, sources: TaskSources, progress: Progress) -> TaskBatch:
    """Units of the task of `config`, with checks of the workers. Raises UnfinishedError where there is nothing to ask yet."""
    if sources.is_dataset:
        dataset = _dataset(sources.path, config.keep_leaks)
        if config.task == "dialogue":
            dataset, units = _dialogues(config, dataset)
        else:
            units = _of_dataset(config, sources, dataset)
        work = _batch_of(dataset, sources.path, units)
    else:
        answered = read_judgments(sources.path)
        if config.task == "repeat":
            units = factory.repeat_units(answered.units.values(), answered.answers, config.fraction, config)
        elif config.task == "review":
            talks = [(answered.units[talk.unit], talk) for talk in answered.dialogues]
            units = [factory.review_unit(unit, talk, config.review_votes) for unit, talk in talks]
        else:  # the same units that our own server adds by itself, and gives out
            pairs = [(answered.units[row.unit], row) for row in answered.answers if row.worker not in sources.blocked]
            units = [
                derived
                for unit, answer in pairs
                if unit.task == "describe"
                for derived in factory.derive_units(unit, answer, answered.sets[unit.image_set], config)
            ]
        work = TaskBatch(units, answered.sets, answered.images, answered.root)
    if not work.units and config.task in _FIRST and not (config.task == "retrieve" and config.input is not None):
        missing, when = _FIRST[config.task]
        take = command_in(config.workdir, "import-answers")
        raise UnfinishedError(f"there is nothing to {config.task}: {missing}", hint=f"{take}   ({when})")
    if not work.units:
        raise DataError(f"there is nothing to {config.task}", hint="see what the command before this one made")
    batch = _with_checks(config, work, progress)
    for name in (name for unit in batch.units for name in unit.images):
        if not batch.images[name].sha256:
            raise UsageError(
                f"the picture {name!r} is missing, so no task can show it",
                hint="name a dataset with its pictures (--input)",
            )
    return batch


def _of_dataset(config: ExportTasks, sources: TaskSources, dataset: Dataset) -> list[Unit]:
    if sources.own:
        return factory.own_units(dataset, sources.own, config.raters)
    if config.task == "entail":
        return _entailments(config, sources, dataset)
    if config.task == "describe":
        return factory.describe_units(dataset, config)
    if config.task == "tag":
        return factory.tag_units(dataset, listed(config.labels) or tuple(NOTES), config.raters or 1)
    return factory.retrieve_units(dataset, config)


_FIRST = {
    "retrieve": ("no description was written yet", "once people have described images"),
    "review": ("no finished talk was imported yet", "once two people have finished a talk"),
    "repeat": (
        "nothing was answered yet, but for descriptions and talks, or the share drew nothing",
        "once people have answered; with few answers a larger --fraction",
    ),
}
"""What tasks made from answers wait for."""


def _entailments(config: ExportTasks, sources: TaskSources, dataset: Dataset) -> list[Unit]:
    table = sources.candidates or Path()
    home = {name: image_set for image_set in reversed(dataset.sets) for name in image_set.images}
    example = 'such as {"image": "a/1", "statement": "s1", "text": "A dog runs."}'
    units: dict[tuple[str, str], Unit] = {}
    for number, row in typed_lines(table, StatementRow, example):
        if row.image not in home:
            raise DataError(
                f"{table}:{number}: no set of {dataset.name} has the image {row.image!r}",
                hint="name the dataset that the candidates are from (--input)",
            )
        if (row.image, row.statement) in units:
            raise DataError(f"{table}:{number}: {row.image!r} and {row.statement!r} are repeated")
        image_set = home[row.image]
        text = Text(row.statement, row.text, row.author)
        # who checks labels writes nothing, so a second look is for all workers, whatever split they work on
        split = None if sources.revised else dataset.split_of(image_set)
        unit = factory.entail_unit(image_set, row.image, row.captions, text, split, votes=config.raters or 3)
        units[row.image, row.statement] = unit
    return list(units.values())


def _dialogues(config: ExportTasks, dataset: Dataset) -> tuple[Dataset, list[Unit]]:
    """Units to talk about photos, those that a CSV of boxes chooses, or else any; and the dataset with what is known of its images."""
    path, pool, rows = config.objects, dataset, dict[str, ObjectLabels]()
    if path is None:
        rows = {row.id: row for row in cast("tuple[ObjectLabels, ...]", dataset.payloads.get("objects", ()))}
    elif path.suffix == ".csv":
        rows, chosen = labels_of_boxes(path, dataset.images)
        sets = (structs.replace(one, images=tuple(filter(chosen.__contains__, one.images))) for one in dataset.sets)
        pool = replace(dataset, sets=tuple(sets))
    else:
        for number, row in typed_lines(path, Objects, 'such as {"image": "a/1", "labels": ["Dog", "Bread"]}'):
            if row.image not in dataset.images:
                what = f"{path}:{number}: {dataset.name} has no image {row.image!r}"
                raise DataError(what, hint="name the dataset that the objects are in (--input)")
            if row.image in rows:
                raise DataError(f"{path}:{number}: the image {row.image!r} is repeated")
            rows[row.image] = ObjectLabels(row.image, row.labels)
    units = factory.describe_units(pool, config, {image: row.labels for image, row in rows.items()})
    return replace(dataset, payloads={**dataset.payloads, "objects": tuple(rows.values())}), units


def _with_checks(config: ExportTasks, work: TaskBatch, progress: Progress) -> TaskBatch:
    """The work and its checks, without units about pictures that questions with a known answer show: who met these has an advantage."""
    checks = _checks(config, work, progress)
    # each with its own contents: an id may name another picture in the dataset of the questions, which `merge_roots` refuses
    ours, theirs = ({name: image.sha256 for name, image in batch.images.items()} for batch in (work, checks))
    known = [unit for unit in checks.units if unit.purpose != "attention"]
    met = {picture for unit in known for picture in unit.pictures(theirs).values()}
    kept = [unit for unit in work.units if met.isdisjoint(unit.pictures(ours).values())]
    if not kept:
        hint = "--gold DATASET with other pictures, or lower qualification and gold_every"
        raise UsageError("all sets are in questions with a known answer, and none is left to ask about", hint=hint)
    if left_out := len(work.units) - len(kept):
        progress.note(f"left out: {plural(left_out, 'unit')} about pictures that questions with a known answer show")
    return merge_batches([replace(work, units=kept), checks])


def _checks(config: ExportTasks, work: TaskBatch, progress: Progress) -> TaskBatch:
    """Attention checks, and questions with a known answer, for workers who retrieve."""
    served = config.backend in ("local", "prolific")
    checks: list[Unit] = []
    counts: dict[Purpose, int] = {}
    if config.task == "retrieve" or (config.task == "describe" and served):
        if config.attention_every:
            sets = sorted({unit.image_set for unit in work.units})
            attentive = max(1, len(work.units) // config.attention_every)
            checks += [factory.attention_unit(work.sets[name], config) for name in sets[:attentive]]
        if config.gold_every:
            counts["gold"] = max(1, len(work.units) // config.gold_every)
        if config.qualification and served:
            counts["qualification"] = 5 * config.qualification  # several rounds, so workers get different questions
    if config.task == "retrieve" and config.qualification and not served:
        progress.warn(
            f"{config.backend} has no qualification round: questions go to the local server and Prolific only"
        )
    if not counts:
        return TaskBatch(checks, {}, {}, work.root)
    if config.gold is None:
        raise UsageError(
            "the protocol asks for questions with a known answer, and there are none",
            hint="--gold DATASET: sets whose descriptions have a known target, such as those of a pilot; they are left out of the study",
        )
    dataset = _dataset(config.gold, keep_leaks=True)
    for purpose, count in counts.items():
        units = factory.check_units(dataset, config, purpose)
        checks += sorted(units, key=lambda unit: digest(config.seed, "check", unit.id))[:count]
    return _batch_of(dataset, config.gold, checks)


def _dataset(path: Path, keep_leaks: bool) -> Dataset:
    """A dataset. Raises DataError where its splits leak, unless `keep_leaks`."""
    dataset = read_dataset(path).of_sets("ctxr export-tasks")
    if not keep_leaks and (leak := leakage_of(dataset).sentence()):
        raise DataError(
            f"{path}: {leak}", hint="give sources that share footage one split and build again, or add --keep-leaks"
        )
    if (path / MANIFEST).is_file():
        open_artifact(path).refuse_changed()
    return dataset


def _batch_of(dataset: Dataset, path: Path, units: Sequence[Unit]) -> TaskBatch:
    sets = {image_set.id: image_set for image_set in dataset.sets}
    root, objects = dataset.root or path.resolve(), dataset.payloads.get("objects", ())
    return TaskBatch(units, sets, dataset.images, root, objects=objects)

"""The artifacts of the crowd: `tasks`, which people are asked, and `judgments`, their answers.

Pictures stay where the sets are: `root` in `pictures.json` leads from the artifact to the folder that `Image.path` is relative to.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from ctxr.annotation.protocol import Protocol
from ctxr.annotation.records import Answer, Unit
from ctxr.engine.project import command_in, project_of
from ctxr.errors import DataError, UnfinishedError
from ctxr.store.artifacts import MANIFEST, Artifact, Content, open_artifact
from ctxr.store.atomic import write_bytes
from ctxr.store.kinds import JUDGMENTS, TASKS
from ctxr.store.paths import relative
from ctxr.store.records import Dialogue, Image, ImageSet, Judgment, Query, Record, Text
from ctxr.store.tables import UNREADABLE, pretty_json, read_payloads, read_table, write_table, write_tables

CROWD = "crowd"
"""Folder of the project for the server's journal, and in `private/` for the key and the people behind the pseudonyms."""

PICTURES = "pictures.json"
R = TypeVar("R", bound=Record)


@dataclass(frozen=True)
class TaskBatch:
    """Units with the sets and images, by id, that they show, and what is in these; `root`: folder that `Image.path` is relative to."""

    units: Sequence[Unit]
    sets: Mapping[str, ImageSet]
    images: Mapping[str, Image]
    root: Path
    objects: tuple[Record, ...] = field(default=(), kw_only=True)


@dataclass(frozen=True)
class Tasks(TaskBatch):
    """Finished tasks in the folder `path`, in the order of their ids; `backend`: whom they are for. `config`: of the manifest."""

    path: Path
    name: str
    protocol: Protocol
    backend: str
    config: dict[str, Any]


@dataclass(frozen=True)
class AggregatedAnswers:
    """The content of an artifact of kind `judgments`.

    Attributes:
        root: folder that `Image.path` is relative to.
        units: those that were answered. sets, images: those that they show.
        answers: one of each worker to a unit; the tables after it are their score, merged.
    """

    root: Path
    units: dict[str, Unit] = field(default_factory=dict)
    sets: Mapping[str, ImageSet] = field(default_factory=dict)
    images: Mapping[str, Image] = field(default_factory=dict)
    answers: tuple[Answer, ...] = ()
    texts: tuple[Text, ...] = ()
    queries: tuple[Query, ...] = ()
    judgments: tuple[Judgment, ...] = ()
    dialogues: tuple[Dialogue, ...] = ()
    objects: tuple[Record, ...] = ()


def write_task_tables(path: Path, batch: TaskBatch, home: Path, files: Sequence[str] = ()) -> Content:
    """Write the tables of `tasks` into `path`, later moved to `home`, beside the backend's `files`; what no unit shows is left out."""
    shown = {image for unit in batch.units for image in unit.images}
    used = {unit.image_set for unit in batch.units}
    write_table(path / "units.jsonl", batch.units)
    write_table(path / "sets.jsonl", (image_set for image_set in batch.sets.values() if image_set.id in used))
    write_table(path / "images.jsonl", (image for image in batch.images.values() if image.id in shown))
    write_bytes(path / PICTURES, pretty_json({"root": relative(batch.root, home)}))
    known = ["objects.jsonl"] if batch.objects and write_table(path / "objects.jsonl", batch.objects) else []
    work = [unit.most for unit in batch.units if unit.purpose == "work"]
    counts = {"units": len(batch.units), "sets": len(used), "images": len(shown), "votes": sum(work)}
    counts["checks"] = len(batch.units) - len(work)
    return Content(["units.jsonl", "sets.jsonl", "images.jsonl", *known, PICTURES, *files], counts, {})


def read_tasks(path: Path) -> Tasks:
    """The tasks in a folder. Raises UnfinishedError without a manifest, DataError for another kind or a changed table."""
    artifact = open_artifact(path, TASKS, "ctxr export-tasks describe")
    artifact.refuse_changed()
    sets, images = _by_id(path / "sets.jsonl", ImageSet), _by_id(path / "images.jsonl", Image)
    units = tuple(read_table(path / "units.jsonl", Unit))
    for unit in units:
        if unit.image_set not in sets or any(name not in images for name in unit.images):
            raise DataError(
                f"{path / 'units.jsonl'}: unit {unit.id!r} shows a set or an image that does not exist",
                hint="run ctxr export-tasks again",
            )
    config = artifact.manifest.config
    try:
        protocol = Protocol(**config["protocol"]).check()
    except (KeyError, TypeError) as error:
        raise DataError(
            f"{path / MANIFEST} says another protocol than this ctxr knows", hint="run ctxr export-tasks again"
        ) from error
    name, root = path.resolve().name, root_of(path)
    objects = read_payloads(path, artifact.manifest.files).get("objects", ())
    return Tasks(units, sets, images, root, path, name, protocol, config["backend"], config, objects=objects)


def first_task(workdir: Path) -> str:
    """The task that people are asked in a project before anything else: about revised labels where there are any."""
    return "entail" if (workdir / "revised").is_dir() else "describe"


def open_tasks(workdir: Path) -> list[Artifact]:
    """All finished tasks of a project, by name. Raises UnfinishedError when there are none."""
    folders = sorted(file.parent for file in (workdir / TASKS).glob(f"*/{MANIFEST}"))
    if not folders:
        hint = command_in(workdir, "export-tasks", first_task(workdir))
        raise UnfinishedError(f"{workdir} holds no finished tasks", hint=hint)
    return [open_artifact(folder, TASKS) for folder in folders]


def write_judgment_tables(path: Path, answered: AggregatedAnswers, home: Path) -> Content:
    """Write the tables of an artifact of kind `judgments` into the folder `path`, which will be moved to `home`."""
    tables = {name: getattr(answered, name) for name in (*_BY_ID, *_LISTED, *["objects"] * bool(answered.objects))}
    counts = write_tables(path, {name: rows.values() if name in _BY_ID else rows for name, rows in tables.items()})
    names = [f"{name}.jsonl" for name in counts]
    counts["workers"] = len({answer.worker for answer in answered.answers})
    write_bytes(path / PICTURES, pretty_json({"root": relative(answered.root, home)}))
    return Content([*names, PICTURES], counts, {})


def root_of(path: Path) -> Path:
    """The folder that `Image.path` of tasks or judgments is relative to. Raises DataError where it is not recorded."""
    try:
        root = msgspec.json.decode((path / PICTURES).read_bytes(), type=dict[str, str])["root"]
    except (OSError, KeyError, *UNREADABLE) as error:
        raise DataError(f"{path / PICTURES} is missing or damaged", hint=open_artifact(path).cure) from error
    return (path / root).resolve()


def read_judgments(path: Path) -> AggregatedAnswers:
    """The answers in a folder. Raises UnfinishedError without a manifest, DataError for another kind or a changed table."""
    take = command_in(project_of(path, JUDGMENTS), "import-answers")
    (artifact := open_artifact(path, JUDGMENTS, take)).refuse_changed()
    tables: dict[str, Any] = {name: _by_id(path / f"{name}.jsonl", kind) for name, kind in _BY_ID.items()}
    tables |= {name: tuple(read_table(path / f"{name}.jsonl", kind)) for name, kind in _LISTED.items()}
    tables["objects"] = read_payloads(path, artifact.manifest.files).get("objects", ())
    return AggregatedAnswers(root_of(path), **tables)


_BY_ID: dict[str, type[Record]] = {"units": Unit, "sets": ImageSet, "images": Image}
_LISTED: dict[str, type[Record]] = {
    "answers": Answer, "texts": Text, "queries": Query, "judgments": Judgment, "dialogues": Dialogue,
}  # fmt: skip
"""Records of the tables of `AggregatedAnswers`: those by id, and the others."""


def _by_id(path: Path, record: type[R]) -> dict[str, R]:
    return {str(row.key()[0]): row for row in read_table(path, record)}

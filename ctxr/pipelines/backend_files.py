"""The files of each backend, and the addresses under which it finds the pictures."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from ctxr.annotation.pseudonyms import PRIVATE, read_key
from ctxr.data.records import Image
from ctxr.data.tables import encode_row
from ctxr.pipelines.tasks_artifact import CROWD

if TYPE_CHECKING:
    from ctxr.pipelines.export_tasks import ExportTasks
    from ctxr.pipelines.tasks_artifact import TaskBatch


def private_folder(workdir: Path) -> Path:
    """What must not be published: the key, who is behind each pseudonym, completion codes, raw answers of platforms."""
    return workdir / CROWD / PRIVATE


def addresses(image_base: str, images: Mapping[str, Image]) -> dict[str, str]:
    """Address of each picture by image id: the base and the path of images.jsonl."""
    return {name: f"{image_base.rstrip('/')}/{quote(image.path)}" for name, image in images.items()}


def backend_files(config: "ExportTasks", asked: "TaskBatch") -> dict[str, bytes]:
    """Content by path in the artifact, in a folder that is called like the backend; nothing for our own server."""
    protocol, where = config.protocol(), addresses(config.image_base, asked.images)
    files: dict[str, bytes] = {}
    if config.backend == "mturk":
        from ctxr.annotation.backends import mturk

        key = read_key(private_folder(config.workdir))
        files = mturk.export(asked.units, where, protocol, config.offer(), key)
    elif config.backend == "label-studio":
        from ctxr.annotation.backends import label_studio

        files = label_studio.export(asked.units, where, protocol)
    elif config.backend == "prolific":
        files = _study(config, asked)
    return {f"{config.backend}/{name}": content for name, content in files.items()}


def _study(config: "ExportTasks", asked: "TaskBatch") -> dict[str, bytes]:
    from dataclasses import replace

    import msgspec

    from ctxr.annotation.backends import prolific
    from ctxr.annotation.backends.sheets import sheet

    key = read_key(private_folder(config.workdir))
    form = sheet(asked.units[0], 0, config.seed).form
    study = config.study()
    named = replace(study, name=study.name or form.title)
    parts = prolific.bundles(asked.units, named, config.protocol(), key)
    body: dict[str, Any] = prolific.payload(parts, named, config.folder().name, form.instruction)
    return {
        "study.json": msgspec.json.format(msgspec.json.encode(body), indent=1) + b"\n",
        "bundles.jsonl": b"".join(map(encode_row, parts)),
    }

"""Tasks written for a platform and sent to it; a repeated command sends nothing twice."""

import hashlib
import hmac
import secrets
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import msgspec

from ctxr.annotation.artifacts import CROWD, TaskBatch
from ctxr.annotation.config import ExportTasks
from ctxr.annotation.cost import Offer, answered_work, median_seconds
from ctxr.annotation.journal.identities import read_visits
from ctxr.annotation.journal.worker_state import deal_bundles
from ctxr.annotation.platforms import label_studio, prolific
from ctxr.annotation.pseudonyms import PRIVATE, read_key
from ctxr.annotation.tasks import task_of
from ctxr.errors import DryRun
from ctxr.store.atomic import DRY_RUN, link_or_copy, write_bytes
from ctxr.store.records import Image
from ctxr.store.tables import encode_row, pretty_json


def private_folder(workdir: Path) -> Path:
    """What must not be published: the key, who is behind each pseudonym, completion codes, raw answers of platforms."""
    return workdir / CROWD / PRIVATE


PICTURES = "pictures"
"""Folder of pictures under keyed names, for a platform that loads them from the web."""


def addresses(image_base: str, images: Mapping[str, Image], key: bytes) -> dict[str, str]:
    """Address of each picture by image id; its name in `PICTURES` says neither its set nor whether it is a check."""
    found = {}
    for name, image in images.items():
        digest = hmac.new(key, f"picture\0{name}".encode(), hashlib.sha256).hexdigest()[:24]
        found[name] = f"{image_base.rstrip('/')}/{digest}{Path(image.path).suffix}"
    return found


def backend_files(config: ExportTasks, batch: TaskBatch, out: Path, begin: Callable[..., None]) -> dict[str, bytes]:
    """Content by path in the artifact, in a folder that is called like the backend; nothing for our own
    server. Pictures that the platform loads are linked into `out`. Before it writes, it calls `begin` with what Prolific offers."""
    private, files, offer, first = private_folder(config.workdir), dict[str, bytes](), None, batch.units[0]
    contents = {row.id: row.sha256 for row in batch.images.values()}
    if config.backend == "prolific":
        measured, _ = median_seconds(config.task_name, answered_work(config.workdir))
        config = replace(config, seconds=config.seconds or measured or 0.0).check()
        # who wrote on Prolific what is judged now may come again
        came = {visit.worker for visit in read_visits(private)}
        size = config.work_in(config.per_submission, config.task)
        offer = config.offer([len(part) for part in deal_bundles(batch.units, config, size, contents, came)], size)
    begin(offer)
    if config.backend == "label-studio":
        where = addresses(config.image_base, batch.images, read_key(private))
        files = label_studio.project_files(batch.units, where, config, contents)
        for name in sorted({name for unit in batch.units for name in unit.images}):
            original = batch.root / batch.images[name].path
            link_or_copy(original, out / PICTURES / Path(where[name]).name)
    elif offer is not None:
        parts = prolific.bundles(batch.units, config.per_submission, offer.places, read_key(private))
        body = prolific.study_body(parts, offer, config, task_of(first).render(first, first.images))
        files = {
            "study.json": pretty_json(body),
            "offer.json": pretty_json(offer),
            "bundles.jsonl": b"".join(map(encode_row, parts)),
        }
    return {f"{config.backend}/{name}": content for name, content in files.items()}


def launch(config: ExportTasks) -> str:
    """Create the study on Prolific, unless it is there, and publish it with `live`; returns a note, one sentence."""
    private, out, client = private_folder(config.workdir), config.folder(), prolific.connect()
    study = read_study(out)
    if DRY_RUN.get() and (config.live or study is None):
        raise DryRun(f"would {'publish' if config.live else 'draft'} the study in {out}", {"offer": study_offer(out)})
    # by this name the study is found on Prolific again; it does not reveal the project
    name = f"ctxr-{hmac.new(read_key(private), b'project', hashlib.sha256).hexdigest()[:12]}-{out.name}"
    if study is None:
        body = msgspec.json.decode((out / "prolific" / "study.json").read_bytes(), type=dict[str, object])
        # an earlier request may have created the study, and its answer been lost
        created = client.studies(name)
        if created:
            study = created[0]
        else:
            codes, review = codes_of(private, out.name), [{"action": "MANUALLY_REVIEW"}]
            ids = client.choices(prolific.RESIDENCE)
            if any(row["filter_id"] == prolific.FLUENT for row in prolific.filters(config)):
                ids |= client.choices(prolific.FLUENT)
            body["filters"] = prolific.filters(config, ids)
            body["completion_codes"] = [
                {"code": codes[kind], "code_type": kind, "actions": review} for kind in prolific.CODE_TYPES
            ]
            study = client.create(body | {"internal_name": name})
        write_bytes(out / "prolific" / "launched.json", msgspec.json.encode({"study": study}) + b"\n")
    if not config.live:
        return f"the study {study} is a draft on Prolific: look at it there, or publish it with --launch --live"
    return f"the study {study} is {client.publish(study).lower() or 'published'}"


def codes_of(private: Path, task: str, make: bool = True) -> dict[str, str]:
    """Completion codes of a task's study, from the private folder; `make` them if missing."""
    path = private / f"prolific-{task}.json"
    if make and not path.is_file():
        codes = {kind: secrets.token_hex(8).upper() for kind in prolific.CODE_TYPES}
        write_bytes(path, msgspec.json.encode(codes) + b"\n")
        path.chmod(0o600)
    return msgspec.json.decode(path.read_bytes(), type=dict[str, str]) if path.is_file() else {}


def read_study(folder: Path) -> str | None:
    """Id of the study that was launched from the tasks in `folder`; None before that."""
    path = folder / "prolific" / "launched.json"
    return msgspec.json.decode(path.read_bytes(), type=dict[str, str])["study"] if path.is_file() else None


def study_offer(tasks: Path) -> Offer:
    """What the study on Prolific offers that was exported with the tasks in a folder."""
    return msgspec.json.decode((tasks / "prolific" / "offer.json").read_bytes(), type=Offer)

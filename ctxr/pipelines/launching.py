"""Sending tasks to a platform. What was sent is written down at once, so that a repeated command sends nothing twice."""

from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from ctxr.annotation.backends.mturk import Hit
from ctxr.annotation.cost import refuse_below_floor
from ctxr.annotation.pseudonyms import read_key
from ctxr.data.atomic import write_bytes
from ctxr.errors import DataError
from ctxr.pipelines.backend_files import private_folder
from ctxr.pipelines.pilot import answered_work, median_seconds, planned_floor
from ctxr.pipelines.talk import Talk
from ctxr.pipelines.touched import HITS

if TYPE_CHECKING:
    from ctxr.annotation.backends.prolific_client import ProlificClient
    from ctxr.pipelines.export_tasks import ExportTasks


class Sent(msgspec.Struct, frozen=True):
    """A study that is on Prolific."""

    study: str


def launch(config: "ExportTasks", talk: Talk) -> tuple[int, list[str]]:
    """How many HITs or studies are on the platform now, and what is worth knowing."""
    return _launch_hits(config, talk) if config.backend == "mturk" else _launch_study(config)


def _launch_hits(config: "ExportTasks", talk: Talk) -> tuple[int, list[str]]:
    from ctxr.annotation.backends import mturk_client

    if config.live:
        measured, _ = median_seconds(config.task, answered_work(config.workdir))
        reward, seconds, floor = config.offer().reward, config.seconds or measured, planned_floor(config.workdir)
        refuse_below_floor(config.task, reward, seconds or config.unit_seconds(), floor, "--reward")
    key = read_key(private_folder(config.workdir))
    folder = config.folder() / "mturk"
    hits = read_payload(folder / "payload.jsonl")
    client = mturk_client.connect(config.live)
    pools = mturk_client.pools_of(client, key) if config.disjoint == "wholly" else {}
    record = folder / HITS[config.live]
    with talk.progress("HITs", len(hits)) as task:
        for _ in mturk_client.launch(client, hits, record, key, pools):
            task.advance()
    count = len(mturk_client.read_launched(record))
    return count, [f"{count} HITs are {'offered for paid work' if config.live else 'in the sandbox'}"]


def read_payload(path: Path) -> list[Hit]:
    """The HITs of an export. Raises DataError for a line that is none."""
    found = []
    for number, line in enumerate(path.read_bytes().splitlines(), 1):
        try:
            found.append(msgspec.json.decode(line, type=Hit))
        except msgspec.DecodeError as error:
            raise DataError(f"{path}:{number}: {error}", hint="run ctxr export-tasks again") from error
    return found


def _launch_study(config: "ExportTasks") -> tuple[int, list[str]]:
    from ctxr.annotation.backends import prolific
    from ctxr.annotation.backends.mturk import project
    from ctxr.annotation.backends.prolific_client import connect

    private = private_folder(config.workdir)
    name = f"ctxr-{project(read_key(private))}-{config.folder().name}"
    client = connect()
    known = read_study(config.folder())
    if known is None:
        body = msgspec.json.decode((config.folder() / "prolific" / "study.json").read_bytes())
        known = _made(client, name) or client.create(
            prolific.with_codes(body, codes_of(private, config.folder().name), name)
        )
        write_bytes(config.folder() / "prolific" / "launched.json", msgspec.json.encode(Sent(known)) + b"\n")
    if not config.live:
        return 1, [f"the study {known} is a draft on Prolific: look at it there, or publish it with --launch --live"]
    return 1, [f"the study {known} is {client.publish(known).lower() or 'published'}"]


def codes_file(private: Path, task: str) -> Path:
    """Where the completion codes of a task's study are kept."""
    return private / f"prolific-{task}.json"


def codes_of(private: Path, task: str) -> dict[str, str]:
    """Completion codes of a task's study, made once and kept in the private folder."""
    from ctxr.annotation.backends.prolific import new_codes

    path = codes_file(private, task)
    if not path.is_file():
        write_bytes(path, msgspec.json.encode(new_codes()) + b"\n")
        path.chmod(0o600)
    return msgspec.json.decode(path.read_bytes(), type=dict[str, str])


def read_study(folder: Path) -> str | None:
    """Id of the study that was launched from the tasks in `folder`; None before that."""
    path = folder / "prolific" / "launched.json"
    return msgspec.json.decode(path.read_bytes(), type=Sent).study if path.is_file() else None


def _made(client: "ProlificClient", name: str) -> str | None:
    """A study that an earlier request made before its answer was lost."""
    found = client.studies(name)
    return found[0] if found else None

"""Where answers come from: the journal, a file, or a platform that is asked; and what is kept apart from the judgments."""

from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from ctxr.annotation.backends import mturk, mturk_client
from ctxr.annotation.backends.arrivals import Arrivals
from ctxr.annotation.protocol import Protocol
from ctxr.annotation.pseudonyms import read_key
from ctxr.annotation.records import Answer, Unit
from ctxr.annotation.voting import wanted
from ctxr.data.atomic import write_bytes
from ctxr.errors import UnfinishedError, UsageError
from ctxr.pipelines.backend_files import addresses, private_folder
from ctxr.pipelines.intake import REJECTED_SINCE, score
from ctxr.pipelines.launching import read_study
from ctxr.pipelines.standing import is_there, opened
from ctxr.pipelines.talk import Talk
from ctxr.pipelines.tasks_artifact import Tasks, asked_first
from ctxr.pipelines.touched import HITS

if TYPE_CHECKING:
    from ctxr.pipelines.import_answers import ImportAnswers
    from ctxr.pipelines.intake import Taken


@dataclass(frozen=True)
class Exported:
    """What went to a platform: by it an import knows what is its own.

    Attributes:
        tasks: the artifacts. units: by id. addresses: of the pictures, as they were exported.
    """

    tasks: tuple[Tasks, ...]
    units: Mapping[str, Unit]
    addresses: Mapping[str, str]
    protocol: Protocol


def exported_to(config: "ImportAnswers", every: list[Tasks]) -> Exported:
    """The tasks that were exported to the platform of `config`; for our own server, all.

    Raises UnfinishedError where there are none, UsageError where it is not clear which are meant.
    """
    platform = config.platform_of
    found = [one for one in every if platform == "local" or one.backend == platform]
    if config.tasks:
        found = [one for one in found if one.name == config.tasks]
    if not found:
        named = f" in tasks/{config.tasks}" if config.tasks else ""
        asked = sorted({unit.task for one in every if config.tasks in ("", one.name) for unit in one.units})
        task = asked[0] if len(asked) == 1 else asked_first(config.workdir)
        raise UnfinishedError(
            f"nothing was exported to {platform}{named}", hint=f"ctxr export-tasks {task} --backend {platform}"
        )
    options = {(one.protocol, one.config.get("image_base", "")) for one in found}
    if len(options) > 1 and platform not in ("local", "prolific"):
        names = ", ".join(one.name for one in found)
        raise UsageError(
            f"tasks of {platform} were exported with different options: {names}", hint=f"--tasks {found[0].name}"
        )
    where: dict[str, str] = {}
    for one in found:
        where |= addresses(one.config.get("image_base", ""), one.images)
    units = {unit.id: unit for one in found for unit in one.units}
    return Exported(tuple(found), units, where, found[0].protocol)


def arrive(config: "ImportAnswers", exported: Exported, talk: Talk) -> Arrivals:
    """The answers that are there now. Raises what the backend raises: DataError naming file:row, UsageError, CtxrError."""
    platform, file = config.platform_of, config.file
    key = read_key(private_folder(config.workdir))
    if platform == "label-studio" and file is not None:
        from ctxr.annotation.backends import label_studio

        return label_studio.answers(file, exported.units, exported.addresses, exported.protocol, key)
    if platform == "mturk":
        source = file or _fetch_hits(config, exported, talk)
        return mturk.answers(source, exported.units, exported.protocol, key)
    if platform == "prolific":
        return _from_prolific(config, exported, key)
    from ctxr.annotation.backends import local

    stored = _stored(config)
    arrivals = local.answers(stored)
    if waiting := len(stored) - len(arrivals.rows):
        talk.warn(
            f"{waiting} answers of people from Prolific are left out: ctxr import-answers --from prolific takes them"
        )
    return arrivals


def keep_apart(config: "ImportAnswers", exported: Exported, arrivals: Arrivals, taken: "Taken") -> list[str]:
    """What belongs to an import and not into the judgments: who is who, pools, further votes.

    Returns what is worth knowing, a sentence each.
    """
    from ctxr.annotation.journal import Identities

    private = private_folder(config.workdir)
    key, notes = read_key(private), list[str]()
    if arrivals.people:
        identities = Identities(private, key)
        for platform, identity in arrivals.people.values():
            identities.worker(platform, identity)
    if config.platform_of == "mturk" and config.file is None:
        notes += _after_hits(config, exported, arrivals, taken, key)
    return notes


def _stored(config: "ImportAnswers") -> list[Answer]:
    """The answers in the journal. Raises UnfinishedError where no server has run."""
    if not is_there(config.workdir, config.database):
        raise UnfinishedError(
            f"{config.workdir} has no journal: no server has run here", hint="ctxr serve   (or say --from …)"
        )
    with opened(config.workdir, config.database) as journal:
        return journal.answers()


def _from_prolific(config: "ImportAnswers", exported: Exported, key: bytes) -> Arrivals:
    from ctxr.annotation.backends import prolific
    from ctxr.annotation.journal import Identities

    private = private_folder(config.workdir)
    studies = {one.name: study for one in exported.tasks if (study := read_study(one.path)) is not None}
    file = config.file
    if file is None:
        from ctxr.annotation.backends.prolific_client import connect

        if not studies:
            raise UnfinishedError(
                "no study was launched from this project", hint="ctxr export-tasks TASK --backend prolific --launch"
            )
        client, file = connect(), private / "prolific-submissions.json"
        rows = sorted(
            (row for study in studies.values() for row in client.submissions(study)), key=lambda row: row["id"]
        )
        write_bytes(file, msgspec.json.format(msgspec.json.encode(rows), indent=1) + b"\n")
    identities = Identities(private, key)
    try:
        visits = identities.visits()
    finally:
        identities.close()
    return prolific.answers(file, _stored(config), visits, studies.values(), key)


def _fetch_hits(config: "ImportAnswers", exported: Exported, talk: Talk) -> Path:
    """Fetch every assignment and archive it, because HITs are gone after 120 days; returns the archive."""
    launched = _launched(config, exported)
    client = mturk_client.connect(config.live)
    with talk.progress("HITs", len(launched)) as task:
        fetched: list[mturk.Fetched] = []
        for row in launched.values():
            fetched += mturk_client.fetch(client, [row])
            task.advance()
    path = private_folder(config.workdir) / ("mturk.jsonl" if config.live else "mturk-sandbox.jsonl")
    known = {line.AssignmentId: line for line in mturk_client.read_archive(path)}
    known |= {line.AssignmentId: line for line in fetched}
    lines = sorted(known.values(), key=lambda line: (line.SubmitTime, line.AssignmentId))
    write_bytes(path, b"".join(msgspec.json.encode(line) + b"\n" for line in lines))
    return path


def _launched(config: "ImportAnswers", exported: Exported) -> dict[str, mturk_client.Launched]:
    found: dict[str, mturk_client.Launched] = {}
    for one in exported.tasks:
        found |= mturk_client.read_launched(one.path / "mturk" / HITS[config.live])
    if not found:
        raise UnfinishedError(
            f"no HIT was launched {'for paid work' if config.live else 'in the sandbox'}",
            hint="ctxr export-tasks TASK --backend mturk --launch" + (" --live" if config.live else ""),
        )
    return found


def _after_hits(
    config: "ImportAnswers", exported: Exported, arrivals: Arrivals, taken: "Taken", key: bytes
) -> list[str]:
    """Workers join the pool of their side, and with --extend undecided units get another vote."""
    client = mturk_client.connect(config.live)
    notes = []
    if exported.protocol.disjoint == "wholly":
        pools = mturk_client.pools_of(client, key)
        for name, pool in pools.items():
            people = {
                arrivals.people[row.answer.worker][1]
                for row in arrivals.rows
                if row.answer.worker in arrivals.people and mturk.side(exported.units[row.answer.unit].split) == name
            }
            mturk_client.join_pool(client, pool, sorted(people))
    if config.extend:
        most = _wanted(exported, taken)
        for one in exported.tasks:
            record = one.path / "mturk" / HITS[config.live]
            grown = mturk_client.extend(client, mturk_client.read_launched(record), most, record, key)
            if grown:
                notes.append(f"{len(grown)} HITs of {one.name} ask for another vote.")
    return notes


def _wanted(exported: Exported, taken: "Taken") -> dict[str, int]:
    """Assignments that each unit's HIT wants in all, given the answers there are: votes from elsewhere need none, and an
    assignment whose answer was refused is spent.
    """
    marks: dict[str, list[bool | None]] = defaultdict(list)
    elsewhere: Counter[str] = Counter()
    for answer in taken.answers.values():
        if answer.unit in exported.units:
            marks[answer.unit].append(score(exported.units[answer.unit], answer).right)
            elsewhere[answer.unit] += answer.backend != mturk.PLATFORM
    spent = Counter(refusal.unit for refusal in taken.refused if refusal.code != REJECTED_SINCE)
    work = [
        unit for unit in exported.units.values() if unit.purpose == "work" and (unit.id in marks or unit.id in spent)
    ]
    wants = {}
    for unit in work:
        given = marks[unit.id]
        votes = wanted(unit, given.count(True), given.count(False), given.count(None))
        wants[unit.id] = votes - elsewhere[unit.id] + spent[unit.id]
    return wants

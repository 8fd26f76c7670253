"""A small study, done once on our own journal and then told to every platform as if it had been done there."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from ctxr.annotation.artifacts import read_tasks
from ctxr.annotation.config import ExportTasks, ImportAnswers
from ctxr.annotation.forms import Choice, Mark, Order, Pick, Scale, Write, mark_place, percents_of
from ctxr.annotation.journal.identities import Identities, Visit
from ctxr.annotation.journal.journal import open_journal
from ctxr.annotation.journal.results import Lease
from ctxr.annotation.protocol import digest, shown_order
from ctxr.annotation.pseudonyms import pseudonym, read_key
from ctxr.annotation.records import Answer, Unit
from ctxr.annotation.tasks import task_of
from ctxr.pipelines.crowd.export_tasks import run
from ctxr.store.tables import encode_row
from tests.pipelines.world_dataset import write_world_dataset

BASE = "https://img.example.org/ctxr"
START = datetime(2026, 11, 20, 9, 0, tzinfo=UTC)
KEY = bytes(range(32))
WORKERS = tuple(f"A{number}WORKER" for number in range(9))

Values = Mapping[str, tuple[str, ...]]


@dataclass(frozen=True)
class Done:
    """Somebody answered a unit."""

    unit: Unit
    identity: str
    values: Values
    began: datetime
    at: datetime

    def answer(self) -> Answer:
        """What must be stored of it, but for the order."""
        seconds = (self.at - self.began).total_seconds()
        at = self.at.isoformat(timespec="milliseconds").replace("+00:00", "Z")
        return Answer(self.unit.id, person(self.identity), dict(self.values), (), 0, at, seconds, "")


def person(identity: str) -> str:
    """One pseudonym for a person, wherever they work: only so can platforms be compared."""
    return pseudonym(KEY, "people", identity)


def said(unit: Unit, identity: str) -> Values:
    """What a worker answers: the same to the same unit, wherever it is asked."""
    chance = digest(7, unit.id, identity)
    values: dict[str, tuple[str, ...]] = {}
    for field in task_of(unit).render(unit, unit.images).fields:
        if isinstance(field, Write):
            words = " ".join(chance.hex()[place : place + 5] for place in range(0, 60, 5))
            values[field.name] = (f"=\"{words}\" is <b>written</b> & 'signed', ]]> naïvely: ${{unit}}",)
        elif isinstance(field, Pick):
            values[field.name] = (unit.images[chance[0] % len(unit.images)],)
        elif isinstance(field, Choice):
            options = [option.value for option in field.options]
            if field.several and chance[1] % 2:
                # none of these, or keep, stands alone; everything else may go together
                apart = [value for value in options if value not in ("none", "keep")]
                values[field.name] = tuple(value for place, value in enumerate(apart) if place in (0, chance[2] % 5))
            else:
                values[field.name] = (options[chance[0] % len(options)],)
        elif isinstance(field, Scale):
            values[field.name] = (str(field.low + chance[0] % (1 + field.high - field.low)),)
        elif isinstance(field, Mark):
            left, top, width, height = (1 + 49 * part / 255 for part in chance[:4])
            values[field.name] = (mark_place([left, top, width, height][: 4 if field.box else 2]),)
        elif isinstance(field, Order):
            options = [option.value for option in task_of(unit).render(unit, unit.images).options(field)]
            values[field.name] = tuple(sorted(options, key=lambda option: digest(3, option, unit.id, identity)))
    return values


OWN = """
title = "Look"
instruction = ["Say what you see."]
about = "{about}"
votes = 3
field = [
  {{ name = "look", kind = "choice", legend = "Which?", options = ["a", {{ value = "b", label = "<Beta>" }}] }},
  {{ name = "many", kind = "several", legend = "Which?", options = ["a", "b & c", "d"] }},
  {{ name = "good", kind = "scale", legend = "How good?", low = -2, high = 3 }},
  {{ name = "why", kind = "text", legend = "Why?" }},
  {{ name = "rank", kind = "order", legend = "First?", options = ["x", {{ value = "y", label = "Ypsilon" }}, "z"] }},
  {more}
]
"""
MARKS = '{ name = "spot", kind = "point", legend = "Where?" }, { name = "area", kind = "box", legend = "All?", optional = true }'
SHOWN = '{ name = "shown", kind = "order", legend = "Which picture first?" }'
OWN_MORE = {"image": MARKS, "query": f"{MARKS}, {SHOWN}", "set": SHOWN}


def own_file(workdir: Path, about: str) -> str:
    """A task of one's own with fields of every kind that fits what it is about."""
    file = workdir / f"own-{about}.toml"
    file.write_text(OWN.format(about=about, more=OWN_MORE[about]).replace("\n  {", " {").replace("\n]", "]"))
    return str(file)


PSEUDONYM = ("ctxr.annotation.platforms.arrivals.pseudonym", "ctxr.annotation.journal.identities.pseudonym")
"""Where the pseudonyms of imported answers come from."""


def make_project(workdir: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project with a dataset, a key, and one pseudonym for a person on every platform."""
    write_world_dataset(workdir / "dataset", sets=2)
    private = workdir / "crowd" / "private"
    private.mkdir(parents=True)
    (private / "key").write_text(KEY.hex())
    for name in PSEUDONYM:
        monkeypatch.setattr(name, lambda key, platform, one: person(one))
    return workdir


def options(workdir: Path, task: str, backend: str = "local") -> ExportTasks:
    """Every unit gets all its votes, so that no platform stops before another."""
    base = ExportTasks(
        task=task,
        workdir=workdir,
        backend=backend,
        targets=1,
        full_share=1.0,
        disjoint="none",
        image_base="" if backend in ("local", "prolific") else BASE,
        server="https://crowd.example.org" if backend == "prolific" else "",
        raters=2 if task == "tag" else 0,
        out=workdir / "tasks" / (Path(task).stem if backend == "local" else f"{Path(task).stem}-{backend}"),
    )
    if task == "retrieve":
        return replace(base, input=workdir / "dataset")
    if task == "repeat":
        return replace(base, fraction=0.6)
    if task == "entail":
        return replace(base, candidates=write_candidates(workdir))
    return base


def files_of(folder: Path) -> dict[str, bytes]:
    """Content by path of the files below a folder."""
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def write_candidates(workdir: Path) -> Path:
    path = workdir / "candidates.jsonl"
    rows = [
        {
            "image": "video0-shot0_0/img3",
            "statement": "s1",
            "text": "A <shape> is red & round.",
            "captions": ["One.", "=2"],
        },
        {"image": "photos0/img4", "statement": "s2", "text": "Nothing moves."},
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def work_locally(workdir: Path, task: str, backend: str = "local") -> list[Done]:
    """Everybody works on the journal until nothing is left."""
    run(options(workdir, task))
    tasks, name = read_tasks(options(workdir, task).folder()), "own" if task.endswith(".toml") else task
    (workdir / "crowd").mkdir(exist_ok=True)
    journal = open_journal(workdir / "crowd" / "answers.sqlite", tasks.units, tasks.sets.values(), tasks.protocol)
    done, now, rested = [], START, 0
    for identity in WORKERS:
        journal.enrol(person(identity), "local", now)
    while rested < len(WORKERS):
        for identity in WORKERS:
            lease = journal.lease(person(identity), now, [name])
            if not isinstance(lease, Lease):
                rested += 1
                continue
            rested = 0
            began, now = now, now + timedelta(seconds=17)
            values = said(lease.unit, identity)
            journal.submit(lease.token, person(identity), values, now, backend)
            done.append(Done(lease.unit, identity, values, began, now))
    journal.close()
    return done


def directly(done: list[Done]) -> dict[str, bytes]:
    """The tables that answers are worth, scored one by one."""
    rows: dict[str, dict[object, bytes]] = {"texts": {}, "queries": {}, "judgments": {}}
    for one in done:
        outcome = task_of(one.unit).score(one.unit, one.answer())
        for name, found in rows.items():
            found |= {row.key(): encode_row(row) for row in getattr(outcome, name)}
    return {name: b"".join(found[key] for key in sorted(found)) for name, found in rows.items()}  # type: ignore[type-var]


def deliver(workdir: Path, task: str, backend: str, done: list[Done]) -> ImportAnswers:
    """Tell the platform what was done, and how it is imported."""
    config = ImportAnswers(workdir=workdir, platform_of=backend, out=workdir / f"judgments-{backend}")
    if backend == "local":
        return config
    export = options(workdir, task, backend)
    run(export)
    file = workdir / f"{backend}-results.json"
    make = {"label-studio": labelled, "prolific": submissions}[backend]
    file.write_text(make(export.folder(), done), encoding="utf-8", newline="")
    return replace(config, file=file)


def labelled(folder: Path, done: list[Done]) -> str:
    """What is exported after each slot's project was labelled: one annotation a task."""
    left: dict[str, list[Done]] = {}
    seed = read_tasks(folder).protocol.seed
    for one in done:
        left.setdefault(one.unit.id, []).append(one)
    exported: list[dict[str, object]] = []
    for number, file in enumerate(sorted((folder / "label-studio").glob("rater-*/tasks.json"))):
        for task in json.loads(file.read_text()):
            queue = left.get(task["data"]["ctxr_unit"], [])
            if not queue:
                continue
            one = queue.pop(0)
            order = shown_order(one.unit.images, one.unit.ordered, one.unit.id, task["data"]["ctxr_slot"], seed)
            exported.append({"id": len(exported), "project": number, **task, "predictions": [], "annotations": [{
                "id": 1000 + len(exported), "completed_by": one.identity, "was_cancelled": False, "ground_truth": False,
                "created_at": one.at.strftime("%Y-%m-%dT%H:%M:%S.%fZ"), "updated_at": "2027-01-01T00:00:00.000000Z",
                "lead_time": (one.at - one.began).total_seconds(), "result": _regions(one, order),
            }]})  # fmt: skip
    assert not any(left.values())
    return json.dumps(exported)


def _regions(one: Done, order: Sequence[str]) -> list[dict[str, object]]:
    found: list[dict[str, object]] = []
    form = task_of(one.unit).render(one.unit, tuple(order))
    for field in form.fields:
        given = one.values[field.name]
        if isinstance(field, Mark):
            sides = zip(("x", "y", "width", "height"), map(float, percents_of(given[0])), strict=False)
            more = {"rotation": 0} if field.box else {"width": 0.6}
            region = {
                "original_width": 64,
                "original_height": 48,
                "image_rotation": 0,
                "value": {**more, **dict(sides)},
            }
            kind = "rectangle" if field.box else "keypoint"
            found.append(
                {"id": "m", "from_name": field.name, "to_name": "image_1", "type": kind, "origin": "manual"} | region
            )
            continue
        if isinstance(field, Order):
            labels = {option.value: option.label for option in form.options(field)}
            found += [
                {
                    "id": "o",
                    "from_name": f"{field.name}-{place}",
                    "to_name": "image_1",
                    "type": "choices",
                    "origin": "manual",
                }
                | {"value": {"choices": [labels[value]]}}
                for place, value in enumerate(given, 1)
            ]
            continue
        if isinstance(field, Write):
            value: dict[str, object] = {"text": list(given)}
        elif isinstance(field, Pick):
            value = {"choices": [str(order.index(given[0]) + 1)]}
        else:
            value = {"choices": list(given)}
        kind = "textarea" if isinstance(field, Write) else "choices"
        found.append(
            {"id": "x", "from_name": field.name, "to_name": "text_1", "type": kind, "origin": "manual", "value": value}
        )
    return found


def submissions(folder: Path, done: list[Done]) -> str:
    """What Prolific says of everybody who came, and what the server wrote down when they did."""
    private = folder.parent.parent / "crowd" / "private"
    people = Identities(private, read_key(private))
    rows = []
    for identity in sorted({one.identity for one in done}):
        name = f"sub-{identity}"
        people.come(Visit(name, identity, "study-1", person(identity), folder.name, 0, START), timedelta(hours=1))
        rows.append({"id": name, "participant_id": identity, "status": "AWAITING REVIEW", "study_id": "study-1"})
    people.close()
    return json.dumps({"results": rows})

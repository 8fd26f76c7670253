"""A whole study, from consent to settled pay: no acknowledged answer is lost, and what is owed is what is paid."""

import csv
import math
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import ctxr
from ctxr.annotation.answers import REFUSED
from ctxr.annotation.artifacts import AggregatedAnswers, read_judgments
from ctxr.annotation.config import PROLIFIC_ADVISED
from ctxr.annotation.journal.journal import read_journal
from ctxr.annotation.launch import private_folder, read_study
from ctxr.annotation.platforms import prolific as platform
from ctxr.annotation.platforms.arrivals import Refusal
from ctxr.annotation.platforms.prolific import ProlificClient
from ctxr.annotation.pseudonyms import read_key
from ctxr.annotation.records import DROPPED, REPORTED, DroppedText, Reported
from ctxr.annotation.tasks import describe, retrieve
from ctxr.annotation.tasks.values import query_of
from ctxr.pipelines.crowd import settle as settling
from ctxr.pipelines.crowd.people import Worker
from ctxr.store.records import Judgment, Query, Text
from ctxr.store.tables import read_table
from tests.pipelines.crowd.simulated import BASE, ROLES, Participant, StudiesOnProlific, Study
from tests.pipelines.crowd.test_settle import ADDRESS
from tests.pipelines.world_dataset import write_world_dataset

CONSENT = {
    "consent": "# About the study\n\nYou describe images. <ada@example.org>\n",
    "consent.ar": "# عن الدراسة\n\n<ada@example.org>\n",
}
PRACTICE = 2
STAYING = ("careful", "corrects", "withdraws")
"""Roles of those who come back for the second study."""
PROTOCOL: dict[str, Any] = {"qualification": PRACTICE, "disjoint": "none", "targets": 2}


COMES_OF_ALL = (
    "checks", "refused", "described, writer_blocked", "describe cannot_tell",
    "described, kept", "found, kept", "found, dropped", "describe broken", "retrieve broken", "withdrawn",
)  # fmt: skip
"""What becomes of some answers of a study of 24; the first four of one of 6 as well."""


def export(work: Path, task: str, pictures: Path | None, per_submission: int) -> str:
    """Publish a study of a task; its id."""
    options: dict[str, Any] = {"input": pictures} if pictures else {}
    ctxr.export_tasks(
        task, workdir=work, backend="prolific", server=BASE, per_submission=per_submission, gold=work.parent / "pilot",
        launch=True, live=True, **PROTOCOL, **options,
    )  # fmt: skip
    study = read_study(work / "tasks" / task)
    assert study
    return study


def pay_sheet(work: Path) -> list[dict[str, str]]:
    with (private_folder(work) / "pay.csv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def total(work: Path) -> float:
    return round(sum(float(row["reward"]) + float(row["bonus"]) for row in pay_sheet(work)), 2)


def withdraw(work: Path, person: Participant) -> set[tuple[str, str]]:
    """Delete the data of a person; the answers, by unit and worker, that go: theirs, and those to their descriptions."""
    answered = read_judgments(work / "judgments")
    own = {(one.unit, one.worker): one for one in answered.answers if one.worker == person.worker}
    built = {(one.unit, one.worker) for one in answered.answers if person.worker in answered.units[one.unit].authors}
    report = ctxr.workers(workdir=work, withdraw=person.worker)
    assert f" {len(own)} answers " in report.withdrawn[0]
    texts = [text.encode() for one in own.values() for text in one.values.get(describe.FIELD, ())]
    assert texts
    ctxr.aggregate(workdir=work, resamples=10)
    files = [file for name in ("judgments", "dataset", "crowd") for file in (work / name).rglob("*") if file.is_file()]
    assert not [file for file in files if any(text in file.read_bytes() for text in texts)]
    return own.keys() | built


def told(work: Path, study: Study, gone: set[tuple[str, str]]) -> Counter[str]:
    """What became of each acknowledged answer, but for those that are `gone`; fails where an answer is nowhere."""
    answered, dataset = read_judgments(work / "judgments"), work / "dataset"
    refused = {(row.unit, row.worker) for row in read_table(work / "judgments" / REFUSED, Refusal)}
    taken = {(one.unit, one.worker): one for one in answered.answers}
    assert not refused & taken.keys()
    assert not gone & (refused | taken.keys())
    assert study.sent.keys() == refused | taken.keys() | gone
    for key, answer in taken.items():
        given = {name: " ".join(texts) for name, texts in answer.values.items()}
        assert given == study.sent[key]
    found = Counter({"refused": len(refused), "withdrawn": len(gone)})
    reported = {row.key(): row.code for row in read_table(dataset / REPORTED, Reported)}
    queries = {row.id for row in read_table(dataset / "queries.jsonl", Query)}
    texts = {row.id: row.text for row in read_table(dataset / "texts.jsonl", Text)}
    dropped = {row.query: row for row in read_table(dataset / DROPPED, DroppedText)}
    picks = {row.key()[:3]: row for row in read_table(dataset / "judgments.jsonl", Judgment)}
    people = {row.worker: row for row in read_table(dataset / "workers.jsonl", Worker)}
    assert queries.isdisjoint(dropped)
    checks = Counter[str]()
    for (unit, worker), answer in taken.items():
        asked = answered.units[unit]
        if asked.purpose != "work":
            checks[worker] += 1
            found["checks"] += 1
        elif "problem" in answer.values:
            assert reported[unit, worker] == answer.values["problem"][0]
            found[f"{asked.task} {reported[unit, worker]}"] += 1
        elif asked.task == "describe":
            query, (text,) = query_of(unit, worker), answer.values[describe.FIELD]
            assert (texts[query] if query in queries else dropped[query].text) == text
            found["described, kept" if query in queries else f"described, {dropped[query].reason}"] += 1
        else:
            (picked,) = answer.values[retrieve.FIELD]
            kept = asked.query in queries
            assert (asked.query, picked, worker) in picks if kept else asked.query in dropped
            found["found, kept" if kept else "found, dropped"] += 1
    assert {worker: row.checks for worker, row in people.items() if row.checks} == checks
    _count_votes(answered, dropped, {row.worker for row in people.values() if row.blocked})
    return found


def _count_votes(answered: AggregatedAnswers, dropped: dict[str, DroppedText], blocked: set[str]) -> None:
    """A dropped description was dropped with just the votes that count."""
    votes = Counter(
        answered.units[one.unit].query
        for one in answered.answers
        if answered.units[one.unit].task == "retrieve" and answered.units[one.unit].purpose == "work"
        and one.worker not in blocked and one.values.get("problem") != ("broken",)
    )  # fmt: skip
    assert {row.query: row.right + row.wrong for row in dropped.values()} == {name: votes[name] for name in dropped}


@pytest.mark.parametrize(("count", "sets", "every"), [(6, 4, 13), pytest.param(24, 16, 15, marks=pytest.mark.prove)])
def test_a_study_goes_from_consent_to_settled_pay_through_kills_and_loses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, count: int, sets: int, every: int
) -> None:
    work, prolific = tmp_path / "work", StudiesOnProlific()
    for module in (platform, settling):
        monkeypatch.setattr(
            module, "connect", lambda: ProlificClient("secret", ADDRESS, prolific, lambda seconds: None)
        )
    pictures = [
        write_world_dataset(tmp_path / "sets", sets),
        write_world_dataset(tmp_path / "pilot", 2, 9, "pilot-"),
    ]
    read_key(private_folder(work), "ab" * 32)  # whom it deals what, and so what comes of it, is the same each time
    (work / "study").mkdir(parents=True)
    for name, text in CONSENT.items():
        (work / "study" / f"{name}.md").write_text(text, "utf-8")

    described = export(work, "describe", pictures[0], per_submission=PRACTICE + 2)
    study = Study.of(work, prolific, pictures)
    people = [Participant(number, study) for number in range(count)]
    roles = {role: [person for person in people if person.role == role] for role in ROLES}
    with study.served():
        study.work_on(described, people, every)
        ctxr.import_answers(platform_of="prolific", workdir=work)
    before = len(study.sent)
    found = export(work, "retrieve", None, per_submission=8)
    with study.served():
        study.work_on(found, [person for person in people if person.role in STAYING], every)
    talks = export(work, "dialogue", pictures[0], per_submission=1)
    waiting = roles["careful"]
    with study.served():
        for number, person in enumerate(waiting):
            person.wait(talks, seconds=1 + 4 * (number % 2))
        for person in roles["withdraws"]:
            person.ask_to_withdraw()
    with pytest.warns(ctxr.CtxrWarning, match=f"^{len(study.sent) - before} answers"):
        asked = ctxr.workers(workdir=work).leaving  # answers that were imported are not left out
    assert [line.split()[0] for line in asked] == [person.worker for person in roles["withdraws"]]
    ctxr.import_answers(platform_of="prolific", workdir=work)
    gone = set[tuple[str, str]]().union(*(withdraw(work, person) for person in roles["withdraws"]))
    aggregated = ctxr.aggregate(workdir=work, resamples=50)
    became = told(work, study, gone)
    assert study.kills >= count // 6
    assert aggregated.counts["queries"] == became["described, kept"]
    assert +became >= Counter(dict.fromkeys(COMES_OF_ALL if count > 6 else COMES_OF_ALL[:4], 1))

    assert all(person.before >= 9 and person.agreed == (person.role != "refuses") for person in people)
    assert all(bool(person.codes) == (person.role not in ("refuses", "returns")) for person in people)
    assert {row["status"] for row in prolific.rows.values()} == {"AWAITING REVIEW", "RETURNED"}
    report = ctxr.workers(workdir=work, settle=True)
    agreed = Counter(person.language.tag for person in people if person.agreed and person not in roles["withdraws"])
    assert {row[1]: row[2] for row in report.consents.rows} == agreed
    journal = read_journal(work / "crowd" / "answers.sqlite")
    assert sorted(journal.blocked()) == sorted(
        person.worker for role in ("returns", "blocked") for person in roles[role]
    )
    journal.close()

    assert total(work) == prolific.paid() > 0
    bonuses = {name: sum(row.get("bonus_payments") or ()) for name, row in prolific.rows.items()}
    assert {row["submission"]: round(float(row["bonus"]) * 100) for row in pay_sheet(work)} == bonuses
    hourly = PROLIFIC_ADVISED[report.owed.rows[0][5]]
    waits = {wait.worker: math.ceil(round(hourly * wait.seconds / 3600, 6)) for wait in report.waited}
    assert {row["worker"]: bonuses[row["submission"]] for row in pay_sheet(work) if bonuses[row["submission"]]} == waits
    assert waits.keys() == {person.worker for person in waiting}
    assert len({*waits.values()}) > 1
    assert {row["worker"] for row in pay_sheet(work) if row["done"] == "decide"} == {
        person.worker for person in roles["blocked"]
    }
    for row in prolific.rows.values():  # what is left to the researcher is approved by hand
        row["status"] = "APPROVED" if row["status"] == "AWAITING REVIEW" else row["status"]
    posted = len(prolific.posted)
    ctxr.workers(workdir=work, settle=True)
    assert total(work) == prolific.paid()
    assert len(prolific.posted) == posted
    assert Counter(row["status"] for row in pay_sheet(work)) == Counter(row["status"] for row in prolific.rows.values())
    assert sum(person.codes != [] for person in people) == len(
        {row["worker"] for row in pay_sheet(work) if float(row["reward"])}
    )

"""`ctxr workers --settle`: submissions on Prolific are approved or asked back, waiting is paid as a bonus, and a pay sheet names each."""

import csv
import io
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import msgspec
from msgspec import structs

from ctxr.annotation.artifacts import open_tasks
from ctxr.annotation.config import PROLIFIC_ADVISED
from ctxr.annotation.confirmation import AUTHOR
from ctxr.annotation.cost import Offer, money
from ctxr.annotation.journal.database import micros, stamp
from ctxr.annotation.journal.identities import Visit, read_visits
from ctxr.annotation.journal.journal import Journal
from ctxr.annotation.journal.worker_state import RULE
from ctxr.annotation.launch import private_folder, read_study, study_offer
from ctxr.annotation.platforms.prolific import WORKING, ProlificClient, Submission, connect
from ctxr.annotation.project_journal import project_journal
from ctxr.engine.project import command_in
from ctxr.engine.report import Table
from ctxr.errors import CtxrError, DataError, DryRun, UnfinishedError
from ctxr.store.artifacts import take_lock
from ctxr.store.atomic import DRY_RUN, write_bytes
from ctxr.store.records import Record
from ctxr.store.tables import encode_row, grouped, read_table

SHEET, ORDERED, LOCK = "pay.csv", "bonuses.jsonl", ".settling"
"""Files of the private folder: the pay sheet, the bonuses that were ordered, and a lock."""

UNFINISHED = "Did not finish the study"
"""Prolific's own words for why a submission is asked back."""

REVIEWED = "AWAITING REVIEW"

Act = Literal["approve", "return", "decide", ""]


class PayRow(Record, frozen=True):
    """A submission on the pay sheet.

    Attributes:
        submission, study: Prolific's id, and the name of the study in this project. worker: their pseudonym. status: on Prolific.
        answers: given in it. act: what a settlement does; `decide` leaves it to a person. why: in words.
        reward, bonus: that Prolific pays or has paid, in minor units of the currency. ordered: bonus that was
            ordered and that Prolific does not list. due: bonus that is to be ordered.
    """

    KEY = ("submission",)

    submission: str
    study: str
    worker: str
    status: str
    answers: int
    act: Act
    why: str
    reward: int
    bonus: int
    ordered: int = 0
    due: int = 0


class OrderedBonus(Record, frozen=True):
    """A bonus in minor units that was ordered; `batch` is Prolific's id of the order."""

    KEY = ("batch", "submission")

    batch: str
    submission: str
    cents: int


@dataclass(frozen=True)
class Ours:
    """What the project knows of the people on Prolific.

    Attributes:
        visits: everybody who came. studies: ids on Prolific, and offers, by study. answers: number by submission.
        blocked: by worker whom a person blocked, why. owed: for waiting, minor units by worker. ordered: bonuses by submission.
    """

    visits: Sequence[Visit]
    studies: Mapping[str, str]
    offers: Mapping[str, Offer]
    answers: Mapping[str, int]
    blocked: Mapping[str, str]
    owed: Mapping[str, float]
    ordered: Mapping[str, int]


def pay_rows(submissions: Sequence[Submission], ours: Ours) -> list[PayRow]:
    """The pay sheet, in the order in which people came."""
    visits, rows = {visit.submission: visit for visit in ours.visits}, list[PayRow]()
    known = sorted(submissions, key=lambda one: (visits[one.id].began.timestamp() if one.id in visits else 0.0, one.id))
    for one in known:
        visit, answers = visits.get(one.id), ours.answers.get(one.id, 0)
        act, why = _act(one, visit, answers, ours)
        study, worker = (visit.door, visit.worker) if visit else ("", "")
        offered = ours.offers[study].pay if study in ours.offers else 0
        reward = (offered if one.reward is None else one.reward) if act == "approve" or one.is_approved else 0
        bonus = round(sum(one.bonus_payments or ()))
        ordered = max(ours.ordered.get(one.id, 0) - bonus, 0)
        rows.append(PayRow(one.id, study, worker, one.status, answers, act, why, round(reward), bonus, ordered))
    paid = {row.worker: at for at, row in enumerate(rows) if row.reward}
    had = Counter[str]()
    for row in rows:
        had[row.worker] += row.bonus + row.ordered
    # what was ordered for a submission that Prolific does not list now is not owed again either
    for name in ours.ordered.keys() & visits.keys() - {row.submission for row in rows}:
        had[visits[name].worker] += ours.ordered[name]
    for worker, cents in ours.owed.items():
        due = math.ceil(round(cents, 6)) - had[worker]
        if due > 0 and worker in paid:
            rows[paid[worker]] = structs.replace(rows[paid[worker]], due=due)
    return rows


def _act(one: Submission, visit: Visit | None, answers: int, ours: Ours) -> tuple[Act, str]:
    """What is done about a submission, and why."""
    if one.state != REVIEWED:
        return "", "in progress" if one.state in WORKING else one.state.lower()
    if one.return_requested:
        return "", "asked back"
    if visit is None or (one.participant_id or one.participant) != visit.participant:
        return "decide", "the participant never came to this server with this submission"
    if ours.studies.get(visit.door) != (one.study_id or one.study):
        return "decide", "is of another study than the one that was opened with it"
    if visit.worker in ours.blocked:
        return "decide", ours.blocked[visit.worker]
    if visit.ending in ("complete", "stopped"):
        return "approve", "got its completion code"
    if answers:
        return "decide", "has answers, and got no completion code"
    return "return", "has neither answers nor a code"


def settle(workdir: Path, database: str = "") -> Table:
    """Fetch the submissions of all studies, act, and write the pay sheet; a dry run only counts.

    Raises UnfinishedError where no study was launched, and CtxrError for what Prolific refuses.
    """
    private, tasks = private_folder(workdir), {one.path.name: one.path for one in open_tasks(workdir)}
    studies = {name: study for name, path in tasks.items() if (study := read_study(path))}
    if not studies:
        hint = "ctxr export-tasks TASK --backend prolific --launch"
        raise UnfinishedError("no study was launched from this project", hint=hint)
    offers, client = {name: study_offer(tasks[name]) for name in studies}, connect()
    currency, *others = {offer.currency for offer in offers.values()}
    if others:
        hint = "export their tasks with one --currency, that of the account"
        raise DataError(f"the studies are paid in {currency} and {others[0]}", hint=hint)
    fetched = {str(row.get("id")): row for study in studies.values() for row in client.submissions(study)}
    try:
        submissions = msgspec.convert([*fetched.values()], list[Submission])
    except msgspec.ValidationError as error:
        raise DataError(f"Prolific lists a submission that ctxr does not understand: {error}") from error
    with project_journal(workdir, database) as journal, (private / LOCK).open("a+") as lock:
        if journal is None:
            raise UnfinishedError(f"{workdir} has no journal of answers", hint=command_in(workdir, "serve"))
        if not take_lock(lock):
            raise UnfinishedError(f"{workdir} is being settled by another ctxr process", hint="wait for it")
        ours = _ours(journal, read_visits(private), studies, offers, private / ORDERED)
        rows = pay_rows(submissions, ours)
        if DRY_RUN.get():
            acts = Counter[str](row.act for row in rows)
            names = {"approve": "approve", "ask back": "return", "left to you": "decide"}
            plan: dict[str, object] = {name: acts[one] for name, one in names.items()}
            rewards = sum(row.reward for row in rows if row.act == "approve")
            plan |= {"rewards": money(rewards), "bonuses": money(sum(row.due for row in rows))}
            raise DryRun(f"would settle {len(rows)} submissions on Prolific, in {currency}", plan)
        try:
            pay(client, rows, studies, private / ORDERED)
        finally:
            write_bytes(private / SHEET, _sheet(rows, currency))
    return _table(rows, private / SHEET, currency)


def _ours(
    journal: Journal,
    visits: Sequence[Visit],
    studies: Mapping[str, str],
    offers: Mapping[str, Offer],
    ordered: Path,
) -> Ours:
    blocked, currency = dict[str, str](), next(iter(offers.values())).currency
    for state in journal.workers():
        if (block := journal.block_of(state.worker)) and block.by not in (AUTHOR, RULE):
            blocked[state.worker] = f"blocked by {block.by}{': ' * bool(block.reason)}{block.reason}"
    came = grouped((visit.worker, visit) for visit in sorted(visits, key=lambda visit: visit.began))
    answers, owed = Counter[str](), Counter[str]()
    for answer in journal.answers():
        earlier = [visit for visit in came.get(answer.worker, ()) if stamp(micros(visit.began)) <= answer.at]
        answers.update([visit.submission for visit in earlier[-1:]])
    for one in journal.earned():
        answers.update([visit.submission for visit in came.get(one.worker, ())[-1:]])
    for wait in journal.waited():
        owed[wait.worker] += PROLIFIC_ADVISED[currency] * wait.seconds / 3600  # type: ignore[assignment]
    sums = Counter[str]()
    for row in read_table(ordered, OrderedBonus) if ordered.is_file() else ():
        sums[row.submission] += row.cents
    return Ours(visits, studies, offers, answers, blocked, {name: owed[name] for name in came if owed[name]}, sums)


def pay(client: ProlificClient, rows: list[PayRow], studies: Mapping[str, str], ordered: Path) -> None:
    """Do what the pay sheet says, and note in `rows` which bonuses were ordered and paid. An order is written down before it is paid, so
    that no bonus is paid twice.

    Raises CtxrError for what Prolific refuses; where it is not known whether bonuses were paid, the hint says what to look at.
    """
    if approved := [row.submission for row in rows if row.act == "approve"]:
        client.approve(approved)
    for study, part in grouped((row.study, (at, row)) for at, row in enumerate(rows) if row.due).items():
        batch = client.order_bonuses(studies[study], {row.submission: row.due for _, row in part})
        before = ordered.read_bytes() if ordered.is_file() else b""
        lines = [encode_row(OrderedBonus(batch, row.submission, row.due)) for _, row in part]
        write_bytes(ordered, b"".join([before, *lines]))
        for at, row in part:
            rows[at] = structs.replace(row, ordered=row.ordered + row.due, due=0)
        try:
            client.pay_bonuses(batch)
        except CtxrError as error:
            error.hint = f"see on Prolific whether bonuses were paid; if not, remove the lines of {batch} from {ordered} and settle again"
            raise
        for at, row in part:
            rows[at] = structs.replace(row, bonus=row.bonus + row.due, due=0)
    for row in rows:
        if row.act == "return":
            client.ask_back(row.submission, UNFINISHED)


def _sheet(rows: Sequence[PayRow], currency: str) -> bytes:
    """The pay sheet as CSV, amounts in units of the currency."""
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow(
        ["submission", "study", "worker", "status", "answers", "done", "why", "reward", "bonus", "ordered", "currency"]
    )
    for row in rows:
        amounts = [f"{cents / 100:.2f}" for cents in (row.reward, row.bonus, row.ordered)]
        writer.writerow([*structs.astuple(row)[:5], row.act, row.why, *amounts, currency])
    return text.getvalue().encode()


def _table(rows: Sequence[PayRow], sheet: Path, currency: str) -> Table:
    """What was done, by study."""
    shown = []
    for study, part in grouped((row.study, row) for row in rows).items():
        acts = Counter[str](row.act for row in part)
        done = acts["approve"], acts["return"], acts["decide"]
        amounts = sum(row.reward for row in part) / 100, sum(row.bonus for row in part) / 100
        shown.append((study or "unknown", len(part), *done, *amounts, currency))
    columns = ("study", "submissions", "approved now", "asked back", "left to you", "rewards", "bonuses", "currency")
    note = f"rewards and bonuses are all that Prolific pays or has paid, without its fee; each submission is in {sheet}"
    left = [f"{row.worker or 'somebody'}: {row.why}" for row in rows if row.act == "decide"]
    unpaid = [row for row in rows if row.ordered]
    left += [f"{row.worker}: Prolific does not say that a bonus of {money(row.ordered)} was paid" for row in unpaid]
    return Table("Settled on Prolific", columns, tuple(shown), note, tuple(left), digits=2)

"""Settling with Prolific: who is paid, and that nothing is paid twice."""

import csv
import json
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest

from ctxr.annotation.artifacts import CROWD
from ctxr.annotation.cost import Offer
from ctxr.annotation.journal.identities import Identities, Visit
from ctxr.annotation.journal.results import Change, Earned, UnpaidWait, WorkerState
from ctxr.annotation.platforms.prolific import ProlificClient, connect
from ctxr.annotation.pseudonyms import PRIVATE
from ctxr.annotation.records import Answer
from ctxr.engine.history import recorded
from ctxr.errors import CtxrError, DryRun, UnfinishedError
from ctxr.pipelines.crowd import settle as settling
from ctxr.pipelines.crowd.config import Workers
from ctxr.pipelines.crowd.settle import settle
from ctxr.store.artifacts import take_lock

NOW = datetime(2026, 1, 2, tzinfo=UTC)
ADDRESS = "https://prolific.test/api/v1"


@dataclass
class Prolific(httpx.BaseTransport):
    """Submissions that are approved, asked back and given bonuses as on Prolific; `failing` is an address that breaks down once."""

    rows: dict[str, dict[str, Any]]
    orders: dict[str, str] = field(default_factory=dict)
    posted: list[tuple[str, Any]] = field(default_factory=list)
    failing: str = ""

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        path, body = str(request.url).removeprefix(ADDRESS), json.loads(request.read() or b"{}")
        if request.method == "GET":
            return httpx.Response(200, json={"results": [*self.rows.values()]})
        self.posted.append((path, body))
        if self.failing and path.startswith(self.failing):
            self.failing = ""
            return httpx.Response(502)
        match path.strip("/").split("/"):
            case ["submissions", "bulk-approve"]:
                for name in body["submission_ids"]:
                    self.rows[name]["status"] = "APPROVED"
            case ["submissions", name, "request-return"]:
                self.rows[name]["return_requested"] = "2026-01-02T00:00:00Z"
            case ["submissions", "bonus-payments"]:
                self.orders["order"] = body["csv_bonuses"]
                return httpx.Response(201, json={"id": "order"})
            case ["bulk-bonus-payments", order, "pay"]:
                for line in self.orders[order].split():
                    name, amount = line.split(",")
                    self.rows[name].setdefault("bonus_payments", []).append(round(float(amount) * 100))
        return httpx.Response(200, json={})

    def paid(self) -> Any:
        """What it has charged, without fees."""
        approved = sum(row["reward"] for row in self.rows.values() if row["status"] == "APPROVED")
        return (approved + sum(sum(row.get("bonus_payments") or ()) for row in self.rows.values())) / 100


class Journal:
    """One person blocked by the requester, one by a rule, one who answered without finishing, and one who waited."""

    def workers(self) -> list[WorkerState]:
        states = {"w-person": "blocked", "w-rule": "blocked"}
        names = ("w-done", "w-few", "w-none", "w-person", "w-rule")
        return [
            WorkerState(name, "prolific", "eval", states.get(name, "active"), True, 0, 0, 1, False)  # type: ignore[arg-type]
            for name in names
        ]

    def block_of(self, worker: str) -> Change | None:
        by = {"w-person": "Ada", "w-rule": "rule"}.get(worker)
        return Change(1, worker, "active", "blocked", "always the first", by, "", False) if by else None

    def answers(self) -> list[Answer]:
        return [
            Answer(f"u{at}", name, {}, (), 0, "2026-01-02T01:00:00.000Z", 9.0, "prolific")
            for at, name in enumerate(("w-done", "w-few"))
        ]

    def waited(self) -> list[UnpaidWait]:
        return [UnpaidWait("w-done", "talk", "nobody_came", 90.0, "")]

    def earned(self) -> list[Earned]:
        return []


COMING = {"done": "complete", "few": "", "none": "", "person": "stopped", "rule": "stopped", "gone": "complete"}


@pytest.fixture
def prolific(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Prolific:
    """A launched study to which six people came, of whom one returned the submission, and a seventh whom the server never saw."""
    tasks = tmp_path / "tasks" / "describe"
    (tasks / "prolific").mkdir(parents=True)
    (tasks / "prolific" / "launched.json").write_text('{"study": "study1"}')
    (tasks / "prolific" / "offer.json").write_text(json.dumps(asdict(Offer(9, 5, 375, "GBP", 3375))))
    people = Identities(tmp_path / CROWD / PRIVATE, bytes(32))
    for at, (name, ending) in enumerate(COMING.items()):
        began = NOW + timedelta(minutes=at)
        people.come(Visit(f"s-{name}", name, "study1", f"w-{name}", "describe", 0, began), timedelta(hours=1))
        if ending:
            people.end(f"s-{name}", ending)
    people.close()
    states = dict.fromkeys((*COMING, "stranger"), "AWAITING REVIEW") | {"gone": "RETURNED"}
    rows = {
        f"s-{name}": {"id": f"s-{name}", "participant_id": name, "status": state, "reward": 375, "study_id": "study1"}
        for name, state in states.items()
    }
    platform = Prolific(rows)
    made: Callable[..., ProlificClient] = lambda: ProlificClient("secret", ADDRESS, platform, lambda seconds: None)  # noqa: E731
    monkeypatch.setattr(settling, "connect", made)
    monkeypatch.setattr(settling, "open_tasks", lambda workdir: [type("Tasks", (), {"path": tasks})])
    monkeypatch.setattr(settling, "project_journal", lambda *_: _Opened())
    return platform


class _Opened:
    def __enter__(self) -> Journal:
        return Journal()

    def __exit__(self, *_: object) -> None:
        return


def sheet(workdir: Path) -> dict[str, dict[str, str]]:
    with (workdir / CROWD / PRIVATE / "pay.csv").open(encoding="utf-8", newline="") as file:
        return {row["submission"]: row for row in csv.DictReader(file)}


def total(workdir: Path) -> float:
    return round(sum(float(row["reward"]) + float(row["bonus"]) for row in sheet(workdir).values()), 2)


def test_whose_answers_were_deleted_with_those_of_others_is_not_asked_to_return(
    tmp_path: Path, prolific: Prolific, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Journal, "earned", lambda _: [Earned("w-none", "retrieve", "prolific", 9.0)])
    settle(tmp_path)
    assert [sheet(tmp_path)["s-none"][name] for name in ("done", "answers")] == ["decide", "1"]


def test_each_submission_is_settled_once_and_the_pay_sheet_is_what_prolific_charged(
    tmp_path: Path, prolific: Prolific
) -> None:
    table = settle(tmp_path)
    assert table.rows == (
        ("unknown", 1, 0, 0, 1, 0.0, 0.0, "GBP"),
        ("describe", 6, 2, 1, 2, 7.5, 0.23, "GBP"),  # 90 seconds at the 9 pounds an hour that Prolific recommends
    )
    done = {"done": "approve", "few": "decide", "none": "return", "person": "decide", "rule": "approve", "gone": ""}
    done["stranger"] = "decide"
    assert {name: row["done"] for name, row in sheet(tmp_path).items()} == {
        f"s-{name}": act for name, act in done.items()
    }
    assert sheet(tmp_path)["s-person"]["why"] == "blocked by Ada: always the first"
    assert prolific.posted == [
        ("/submissions/bulk-approve/", {"submission_ids": ["s-done", "s-rule"]}),
        ("/submissions/bonus-payments/", {"study_id": "study1", "csv_bonuses": "s-done,0.23\n"}),
        ("/bulk-bonus-payments/order/pay/", {}),
        ("/submissions/s-none/request-return/", {"request_return_reasons": [settling.UNFINISHED]}),
    ]
    assert total(tmp_path) == prolific.paid() == 7.73
    count = len(prolific.posted)
    assert settle(tmp_path).rows[1] == ("describe", 6, 0, 0, 2, 7.5, 0.23, "GBP")
    assert len(prolific.posted) == count
    assert total(tmp_path) == prolific.paid()


def test_a_person_who_is_approved_by_hand_is_on_the_next_sheet(tmp_path: Path, prolific: Prolific) -> None:
    settle(tmp_path)
    prolific.rows["s-few"] |= {"status": "APPROVED", "reward": 400}
    settle(tmp_path)
    assert sheet(tmp_path)["s-few"]["reward"] == "4.00"
    assert total(tmp_path) == prolific.paid() == 11.73


def test_a_bonus_is_not_ordered_again_where_nobody_knows_whether_it_was_paid(
    tmp_path: Path, prolific: Prolific
) -> None:
    prolific.failing = "/bulk-bonus-payments/"
    with pytest.raises(CtxrError, match="502") as caught:
        settle(tmp_path)
    ordered = tmp_path / CROWD / PRIVATE / "bonuses.jsonl"
    assert str(ordered) in caught.value.hint
    assert [sheet(tmp_path)["s-done"][name] for name in ("bonus", "ordered")] == ["0.00", "0.23"]
    orders = [path for path, _ in prolific.posted if "bonus" in path]
    settle(tmp_path)
    assert [path for path, _ in prolific.posted if "bonus" in path] == orders
    assert [sheet(tmp_path)["s-done"][name] for name in ("bonus", "ordered")] == ["0.00", "0.23"]
    assert total(tmp_path) == prolific.paid()
    ordered.unlink()
    settle(tmp_path)
    assert [sheet(tmp_path)["s-done"][name] for name in ("bonus", "ordered")] == ["0.23", "0.00"]
    assert total(tmp_path) == prolific.paid()


def test_a_bonus_is_owed_once_though_prolific_no_longer_lists_its_submission(
    tmp_path: Path, prolific: Prolific
) -> None:
    settle(tmp_path)
    people = Identities(tmp_path / CROWD / PRIVATE, bytes(32))
    again = Visit("s-again", "done", "study1", "w-done", "describe", 1, NOW + timedelta(days=1))
    people.come(again, timedelta(hours=1))
    people.end(again.submission, "complete")
    people.close()
    gone = prolific.rows.pop("s-done")
    prolific.rows["s-again"] = gone | {"id": "s-again", "status": "AWAITING REVIEW", "bonus_payments": None}
    orders = [path for path, _ in prolific.posted if "bonus" in path]
    settle(tmp_path)
    assert sheet(tmp_path)["s-again"]["done"] == "approve"
    assert [path for path, _ in prolific.posted if "bonus" in path] == orders


def test_a_submission_of_another_study_and_two_settlements_at_once_are_left_to_people(
    tmp_path: Path, prolific: Prolific
) -> None:
    prolific.rows["s-done"]["study_id"] = "dearer"
    with (tmp_path / CROWD / PRIVATE / settling.LOCK).open("a+") as other:
        assert take_lock(other)
        with pytest.raises(UnfinishedError, match="another ctxr process"):
            settle(tmp_path)
    assert not prolific.posted
    settle(tmp_path)
    assert sheet(tmp_path)["s-done"]["done"] == "decide"
    assert prolific.rows["s-done"]["status"] == "AWAITING REVIEW"


def test_a_refused_request_for_a_submission_keeps_no_bonus_back_and_the_sheet_is_written(
    tmp_path: Path, prolific: Prolific
) -> None:
    prolific.failing = "/submissions/s-none/"
    with pytest.raises(CtxrError, match="502"):
        settle(tmp_path)
    assert total(tmp_path) == prolific.paid() == 7.73


def test_a_dry_run_counts_and_sends_nothing(tmp_path: Path, prolific: Prolific) -> None:
    config = Workers(workdir=tmp_path, settle=True)
    with recorded(config, dry_run=True), pytest.raises(DryRun) as ended:
        settle(tmp_path)
    assert ended.value.plan == {"approve": 2, "ask back": 1, "left to you": 3, "rewards": "7.50", "bonuses": "0.23"}
    assert not prolific.posted
    assert not (tmp_path / CROWD / PRIVATE / "pay.csv").exists()


def test_a_submission_that_makes_no_sense_settles_nothing(tmp_path: Path, prolific: Prolific) -> None:
    prolific.rows["s-done"]["reward"] = "a lot"
    with pytest.raises(CtxrError, match="reward"):
        settle(tmp_path)
    assert not prolific.posted


def test_without_a_study_or_a_token_nothing_is_sent(
    tmp_path: Path, prolific: Prolific, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(settling, "connect", connect)
    monkeypatch.delenv("PROLIFIC_TOKEN", raising=False)
    with pytest.raises(CtxrError, match="PROLIFIC_TOKEN"):
        settle(tmp_path)
    (tmp_path / "tasks" / "describe" / "prolific" / "launched.json").unlink()
    with pytest.raises(UnfinishedError, match="no study"):
        settle(tmp_path)
    assert not prolific.posted

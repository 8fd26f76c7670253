"""`ctxr revise-labels --audit`: what people say of a sample tells of all candidates, and of Entail@K."""

import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from ctxr.annotation.artifacts import AggregatedAnswers, read_tasks
from ctxr.annotation.config import ExportTasks
from ctxr.annotation.records import Answer
from ctxr.annotation.tasks import task_of
from ctxr.annotation.tasks.entail import ENTAILMENT
from ctxr.datasets.rounds import AuditSample, AuditVerdict, CandidateRow, stratum_of
from ctxr.metrics.stratified import Stratum, reliability
from ctxr.pipelines.crowd.export_tasks import run as export_tasks
from ctxr.pipelines.revision.auditing import audited_sample, reliability_table
from ctxr.pipelines.revision.config import ReviseLabels, ReviseReport
from ctxr.pipelines.revision.revise_labels import run
from ctxr.store.records import Judgment, Query
from ctxr.store.tables import read_table
from scripts.task_artifact import write_judgments
from tests.pipelines.revision.stand_in import StandIn, ledger_of, truth_of

PEOPLE = ("w1", "w2", "w3")


def revised(workdir: Path, sample: int, seed: int = 0) -> ReviseReport:
    judge = StandIn(workdir / "dataset", sensitivity=0.9, specificity=0.93)
    config = ReviseLabels(workdir=workdir, entail=True, retriever="hashed", split="test", sample=sample, seed=seed)
    return run(config, classifier=judge)


def answer_all(workdir: Path, wrong: float = 0.0, people: tuple[str, ...] = PEOPLE) -> None:
    """Three people look at every unit and say what is true, but for a share of `wrong` answers each."""
    export_tasks(ExportTasks(task="entail", workdir=workdir))
    tasks = read_tasks(workdir / "tasks" / "entail")
    holds = StandIn(workdir / "dataset").holds
    rng = np.random.default_rng(3)
    answers: list[Answer] = []
    queries: dict[str, Query] = {}
    judgments: list[Judgment] = []
    for unit in tasks.units:
        entailed = (unit.statement, unit.images[0]) in holds
        for slot, worker in enumerate(people):
            says = entailed != (rng.random() < wrong)
            value = "entailment" if says else "neutral"
            answer = Answer(
                unit.id, worker, {"verdict": (value,)}, unit.images, slot, "2026-11-20T09:00:00Z", 5, "local"
            )
            outcome = task_of(unit).score(unit, answer)
            answers.append(answer)
            judgments += outcome.judgments
            queries |= {query.id: query for query in outcome.queries}
    answered = AggregatedAnswers(
        root=tasks.root,
        units={unit.id: unit for unit in tasks.units},
        sets=tasks.sets,
        images=tasks.images,
        answers=tuple(answers),
        queries=tuple(queries.values()),
        judgments=tuple(judgments),
    )
    write_judgments(workdir / "judgments", answered)


def test_a_census_by_people_who_know_gives_the_exact_figures(workdir: Path) -> None:
    revised(workdir, sample=100_000)
    answer_all(workdir)
    report = run(ReviseLabels(workdir=workdir, audit=True))
    ledger = ledger_of(workdir)
    truth = truth_of(workdir)
    true = np.array([row.image in truth[row.caption].holds for row in ledger])
    added = np.array([row.decision == "added" for row in ledger])
    told = json.loads((workdir / "revision-audit" / "001" / "figures.json").read_bytes())
    found = told["revision"]
    for name, value in (
        ("precision", (added & true).sum() / added.sum()),
        ("recall", (added & true).sum() / true.sum()),
    ):
        assert found[name]["value"] == pytest.approx(value)
        # that nobody errs is seen in their votes, not known
        assert (found[name]["low"], found[name]["high"]) == pytest.approx((value, value), abs=0.01)
    assert found["entailed"]["value"] == pytest.approx(true.sum())
    assert told["between"]["Fleiss' kappa"]["value"] == pytest.approx(1.0)
    assert report.did == "audited"
    # of the first K of each picture, those that were given and those that hold
    counts = json.loads((workdir / "revised" / "rounds" / "001" / "figures.json").read_bytes())["counted"]
    assert [row["k"] for row in told["entail_at"]] == [10, 30]
    for place, row in enumerate(told["entail_at"]):
        k, entailed = row["k"], 0
        for image, written in zip(counts["images"], np.array(counts["written"])[:, place], strict=True):
            first = [link for link in ledger if link.image == image and link.rank <= k - written]
            assert len(first) == k - written
            entailed += written + sum(image in truth[link.caption].holds for link in first)
        whole = entailed / (k * len(counts["images"]))
        assert row["corrected"]["value"] == pytest.approx(whole)
        assert row["value"]["value"] != pytest.approx(whole)


def test_a_sample_says_what_a_census_would_within_its_interval(workdir: Path) -> None:
    revised(workdir, sample=150, seed=1)
    answer_all(workdir, wrong=0.03)
    report = run(ReviseLabels(workdir=workdir, audit=True))
    ledger = ledger_of(workdir)
    truth = truth_of(workdir)
    added = [row for row in ledger if row.decision == "added"]
    precision = np.mean([row.image in truth[row.caption].holds for row in added])
    told = json.loads((workdir / "revision-audit" / "001" / "figures.json").read_bytes())
    found = told["revision"]["precision"]
    assert found["low"] <= precision <= found["high"]
    assert found["high"] - found["low"] < 0.35
    errors = told["revision"]["errors"]
    assert all(one["low"] <= 0.03 <= one["high"] for one in errors)
    assert "independent" in report.tables["reliability"].note
    assert 0.5 < told["between"]["Fleiss' kappa"]["value"] < 1
    assert told["with_people"]["value"] > 0.5
    row = told["entail_at"][0]
    assert row["corrected"]["low"] <= row["corrected"]["value"] <= row["corrected"]["high"]
    assert row["corrected"]["value"] != row["value"]["value"]


def test_strata_and_decisions_are_those_of_the_ledger(workdir: Path) -> None:
    revised(workdir, sample=80)
    answer_all(workdir, people=("w1", "w2"), wrong=0.2)
    report = run(replace(ReviseLabels(workdir=workdir, audit=True), round=1))
    folder = workdir / "revised" / "rounds" / "001"
    ledger = {row.key(): row for row in read_table(folder / "ledger.jsonl", CandidateRow)}
    looked = read_table(workdir / "revision-audit" / "001" / "looked.jsonl", AuditVerdict)
    drawn = read_table(folder / "strata.jsonl", AuditSample)
    assert all(stratum_of(ledger[row.key()]) == row.stratum for row in looked)
    # two who disagree decide nothing
    ties = len(drawn) - len(looked)
    assert ties > 0
    assert [int(one) for one in re.findall(r"\d+", report.facts["sample"])] == [len(looked), len(drawn), ties]
    assert "Cohen's kappa" in report.facts


def said_of(query: str, answers: str) -> list[Judgment]:
    """A row for each of the three answers of every worker, `e`, `n` or `c`."""
    names = {"e": ENTAILMENT, "n": "neutral", "c": "contradiction"}
    return [
        Judgment(f"entail/{query}/c", name, f"w{worker}", float(given == letter))
        for worker, given in enumerate(answers)
        for letter, name in names.items()
    ]


def test_agreement_is_that_on_what_the_round_uses() -> None:
    pairs = {"a": "ee", "b": "ee", "c": "nc", "d": "cn", "e": "en"}
    sample = [AuditSample(one, "c", "s", "added", 5, 5, 0.9, 1) for one in pairs]
    rows = tuple(row for query, answers in pairs.items() for row in said_of(query, answers))
    found = audited_sample(sample, AggregatedAnswers(Path(), judgments=rows), [])
    # neutral or contradiction are one decision: people agree on 4 of 5 pairs, where they gave the same answer on 2
    assert found.between["Cohen's kappa"].value == pytest.approx((0.8 - 0.48) / (1 - 0.48))
    assert (found.disputed, found.ties) == (1, 1)


def test_one_row_says_how_right_a_round_is_where_no_cap_left_anything_out() -> None:
    called, capped, other = Stratum(50, 9, 7, True), Stratum(9, 4, 3, False), Stratum(300, 9, 1, False)
    whole = reliability([called, other])
    one = reliability_table(whole, whole)
    assert [row[1] for row in one.rows] == [50]
    assert "no cap left" in one.note
    added, entailed = reliability([called, capped, other]), reliability([called, replace(capped, called=True), other])
    both = reliability_table(added, entailed)
    assert [row[1] for row in both.rows] == [50, 59]
    assert "no cap" not in both.note


def test_what_earlier_rounds_added_is_no_truth_when_a_later_round_is_audited(workdir: Path) -> None:
    revised(workdir, sample=30)
    second = StandIn(workdir / "dataset", sensitivity=1.0, specificity=0.9)
    run(ReviseLabels(workdir=workdir, entail=True, retriever="hashed", split="test", sample=100_000), classifier=second)
    answer_all(workdir)
    report = run(ReviseLabels(workdir=workdir, audit=True))
    one, two = (
        json.loads((workdir / "revised" / "rounds" / name / "figures.json").read_bytes())["counted"]
        for name in ("001", "002")
    )
    assert not np.any(one["earlier"])
    assert np.any(two["earlier"])
    # written is what was written, whatever was added since
    assert two["written"] == one["written"]
    assert report.tables["entail"].columns == ("figure", "by the judge %")
    assert any("first K captions" in note for note in report.notes)

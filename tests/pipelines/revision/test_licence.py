"""A judge is licensed by an audit that it passes, at a threshold from rows that do not test it."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from msgspec import structs

from bench.licences import Case, outcome
from ctxr.datasets.rounds import AuditSample, CandidateRow, Decision, Round, open_base, stratum_of
from ctxr.datasets.truth import UNSURE
from ctxr.engine.progress import SILENT
from ctxr.errors import DataError
from ctxr.metrics.alternative import Preference
from ctxr.pipelines.revision.auditing import favours_text, licence_facts
from ctxr.pipelines.revision.config import ReviseLabels, ReviseReport
from ctxr.pipelines.revision.licence import LEAST_CALLED, PRECISION, JudgedPairs, license_judge, read_licence
from ctxr.pipelines.revision.revise_labels import run
from scripts.licence_proof import JUDGES, audited, drawn
from tests.pipelines.revision.stand_in import StandIn
from tests.pipelines.revision.test_auditing import answer_all

ROUND = Round(1, True, "r", "r", "judge", "f", 0.5, "given", 9, 9, 0, 0, 0, "")


def revised(
    workdir: Path, judge: StandIn, people: tuple[str, ...] = ("w1", "w2", "w3"), split: str = "test"
) -> ReviseReport:
    """A round that people audit in full."""
    config = ReviseLabels(workdir=workdir, entail=True, retriever="hashed", split=split, sample=10_000)
    run(config, classifier=judge)
    answer_all(workdir, wrong=0.06, people=people)
    return run(ReviseLabels(workdir=workdir, audit=True))


def test_a_licence_is_of_one_judge_on_one_dataset(workdir: Path) -> None:
    judge = StandIn(workdir / "dataset", sensitivity=0.95, specificity=0.998)
    content = open_base(workdir / "dataset", workdir, SILENT).content
    assert read_licence(workdir, judge.fingerprint, content) is None
    report = revised(workdir, judge)
    licence = read_licence(workdir, judge.fingerprint, content)
    assert licence is not None
    assert (licence.passed, licence.judge, licence.omega) == (True, "stand-in", 1.0)
    assert [person.name for person in licence.people] == ["w1", "w2", "w3"]
    # it says no below 0.5
    assert licence.threshold == pytest.approx(0.5, abs=0.05)
    assert "stand-in" in report.facts["licence"]
    assert [row[0] for row in report.tables["people"].rows] == ["w1", "w2", "w3"]
    assert read_licence(workdir, "another", content) is None
    assert read_licence(workdir, judge.fingerprint, "another") is None
    # without the dataset an audit says all the same, and licenses nothing
    (workdir / "dataset").rename(workdir / "gone")
    run(ReviseLabels(workdir=workdir, audit=True))
    assert read_licence(workdir, judge.fingerprint, content) is None


def test_an_audit_that_was_changed_licenses_nobody(workdir: Path) -> None:
    judge = StandIn(workdir / "dataset", sensitivity=0.5, specificity=0.5)
    report = revised(workdir, judge)
    assert "people" not in report.tables
    content = open_base(workdir / "dataset", workdir, SILENT).content
    file = workdir / "revision-audit" / "001" / "figures.json"
    assert read_licence(workdir, judge.fingerprint, content) is None
    figures = json.loads(file.read_bytes())
    assert (figures["licence"]["passed"], figures["licence"]["threshold"]) == (False, None)
    figures["licence"] |= {"passed": True, "omega": 1.0, "threshold": 0.1}
    file.write_text(json.dumps(figures))
    with pytest.raises(DataError, match=r"figures\.json"):
        read_licence(workdir, judge.fingerprint, content)


@pytest.mark.parametrize(
    ("people", "split", "said"), [(("w1", "w2"), "test", "3 people"), (("w1", "w2", "w3"), "train", "valid")]
)
def test_two_people_or_pairs_of_train_alone_license_nobody(
    people: tuple[str, ...], split: str, said: str, workdir: Path
) -> None:
    judge = StandIn(workdir / "dataset", sensitivity=0.95, specificity=0.98)
    report = revised(workdir, judge, people, split)
    licence = json.loads((workdir / "revision-audit" / "001" / "figures.json").read_bytes())["licence"]
    assert (licence["passed"], licence["omega"]) == (False, None)
    assert licence["splits"] == (["test"] if split == "test" else [])
    assert said in report.facts["licence"]


def test_the_next_command_is_the_one_that_puts_pending_pairs_in_force(workdir: Path) -> None:
    config, pending = ReviseLabels(workdir=workdir), structs.replace(ROUND, pending=7)
    licence = license_judge(config, ROUND, "c", pairs_of({}), ["test"], terms={})
    assert "with this licence" not in licence_facts(config, ROUND, licence)
    assert "--unlicensed" in licence_facts(config, pending, licence)["with this licence"]
    assert "--unlicensed" not in licence_facts(config, pending, replace(licence, passed=True))["with this licence"]


def pairs_of(
    rows: dict[str, tuple[float | None, str, str]], judges: tuple[str, ...] = (), unsure_below: float | None = None
) -> JudgedPairs:
    """Pairs by name: probability, answers such as `yyn`, and the fingerprint of the judge that decided."""
    links, sample = [], []
    answers: dict[tuple[str | int, ...], dict[str, bool]] = {}
    for name, (p, said, judge) in rows.items():
        decision: Decision = "added" if p is not None and p >= 0.5 else "rejected"
        links.append(CandidateRow(name, "c", "r", "image", 1, 0.0, p, decision, judge))
        sample.append(AuditSample(name, "c", stratum_of(links[-1]), decision, 1, 1, p, 1))
        answers[name, "c"] = {f"w{person}": answer == "y" for person, answer in enumerate(said)}
    return JudgedPairs(structs.replace(ROUND, judges=judges, unsure_below=unsure_below), sample, links, answers)


def by_probability(pairs: JudgedPairs, threshold: float) -> list[int]:
    order = np.argsort(pairs.probability)
    verdicts: list[int] = pairs.at(threshold)[order].tolist()
    return verdicts


def test_verdicts_of_a_cascade_follow_its_last_judge_alone() -> None:
    rows: dict[str, tuple[float | None, str, str]] = {
        "a": (0.05, "nnn", "first"), "b": (0.3, "nnn", "last"), "c": (0.6, "yyy", "last"), "d": (0.97, "yyy", "first"),
        "e": (None, "yyn", "last"),
    }  # fmt: skip
    unsure = int(UNSURE)
    pairs = pairs_of(rows, ("first", "last"))
    assert by_probability(pairs, 0.5) == [0, 0, 1, 1, unsure]
    assert by_probability(pairs, 0.98) == [0, 0, 0, 1, unsure]
    assert by_probability(pairs, 0.01) == [0, 1, 1, 1, unsure]
    assert by_probability(pairs_of(rows, ("first", "last"), 0.2), 0.5) == [0, unsure, 1, 1, unsure]
    assert by_probability(pairs_of(rows), 0.98) == [0, 0, 0, 0, unsure]


def slow_threshold(pairs: JudgedPairs, half: int, wanted: float) -> float:
    """Every threshold tried on one half, pair by pair."""
    rows = [row for row in range(len(pairs.half)) if pairs.half[row] == half]
    share = [float(np.mean([*own.values()])) for own in pairs.answers]
    best, chosen = -np.inf, np.inf
    for threshold in sorted(pairs.probability[row] for row in rows):
        called = [row for row in rows if pairs.probability[row] >= threshold]
        # a tie is half right
        right = sum(pairs.weights[row] * (0.5 + 0.5 * np.sign(share[row] - 0.5)) for row in called)
        wrong = sum(pairs.weights[row] for row in called) - right
        if len(called) >= LEAST_CALLED and right / (right + wrong) >= wanted and right - wrong > best:
            best, chosen = right - wrong, threshold
    return float(chosen)


def test_the_threshold_of_each_half_is_chosen_on_the_other() -> None:
    rng = np.random.default_rng(0)
    rows: dict[str, tuple[float | None, str, str]] = {}
    for number in range(120):
        p = round(float(rng.random()), 3)
        rows[f"i{number}"] = (p, "".join("y" if rng.random() < p else "n" for _ in range(2 + number % 2)), "f")
    pairs = pairs_of(rows)
    assert abs(int(pairs.half.sum()) - 60) <= 1
    assert 0 < (~pairs.decided).sum() < 120
    for wanted in (0.5, 0.8):
        assert pairs.thresholds(wanted).tolist() == [slow_threshold(pairs, 1 - half, wanted) for half in (0, 1)]
    assert np.isinf(pairs_of({name: (p, "nnn", "f") for name, (p, *_) in rows.items()}).thresholds(0.1)).all()
    # whatever people say of a half, its own threshold stays
    own = pairs.thresholds(0.7)
    pairs.entailed[pairs.half == 0] = True
    assert pairs.thresholds(0.7)[0] == own[0]
    assert pairs.thresholds(0.7)[1] != own[1]


def test_the_higher_threshold_of_both_halves_is_the_licensed_one() -> None:
    rng = np.random.default_rng(1)
    rows: dict[str, tuple[float | None, str, str]] = {
        f"i{number}": (round(p, 3), "yyy" if p > 0.5 else "nnn", "f")
        for number, p in enumerate(rng.random(100).tolist())
    }
    pairs = pairs_of(rows, unsure_below=0.4)
    licence = license_judge(ReviseLabels(), ROUND, "c", pairs, ["test"], terms={})
    assert licence.passed
    assert licence.threshold == pairs.thresholds(0.8).max()
    assert licence.unsure == int((pairs.at(pairs.thresholds(0.8)[pairs.half]) == UNSURE).sum()) > 0
    assert licence.items == 100 - licence.unsure
    # the toy never passes
    assert not license_judge(ReviseLabels(), structs.replace(ROUND, toy=True), "c", pairs, ["test"], terms={}).passed


def test_a_coin_is_refused_and_a_judge_that_errs_as_seldom_as_people_passes() -> None:
    passed = dict.fromkeys(("a coin", "always no", "nine of ten right and found"), 0)
    for name in passed:
        for seed in range(5):
            rng = np.random.default_rng(seed)
            passed[name] += audited(ReviseLabels(), drawn(0.5, JUDGES[name], rng), 400, rng)[0].passed
    assert (passed["a coin"], passed["always no"]) == (0, 0)
    assert passed["nine of ten right and found"] >= 4


@pytest.mark.parametrize(("prevalence", "error", "most"), [(0.1, 0.3, 0), (0.2, 0.1, 0), (0.5, 0.3, 0), (0.5, 0.05, 3)])
def test_a_judge_that_copies_a_person_is_licensed_only_where_that_person_is_right(
    prevalence: float, error: float, most: int
) -> None:
    found = outcome(Case(prevalence, error, copies=True), 3)
    assert (found.right >= PRECISION) == bool(most)
    assert len(found.licensed) == most
    assert all(one >= PRECISION for one in found.licensed)


def test_a_tie_is_half_right() -> None:
    rows: dict[str, tuple[float | None, str, str]] = {
        f"i{number}": (0.9 - number / 1000, "yynn" if number % 3 else "yyyy", "f") for number in range(160)
    }
    assert np.isinf(pairs_of(rows).thresholds(0.9)).all()
    assert np.isfinite(pairs_of(rows).thresholds(0.6)).all()


def test_strata_that_nobody_saw_are_not_covered() -> None:
    links = [
        CandidateRow(f"i{row}", "c", "r", "image", rank, 0.0, p, "added", "f")
        for row, (p, rank) in enumerate([(0.95, 1), (0.95, 2), (0.6, 1), (0.7, 2), (0.95, 11), (0.05, 1), (0.05, 12)])
    ]
    sample = [
        AuditSample(link.image, "c", stratum_of(link), "added", 1, 1, link.probability, link.rank) for link in links
    ]
    answers = {links[row].key(): dict.fromkeys(("a", "b", "c"), True) for row in (0, 2, 5)}
    pairs = JudgedPairs(ROUND, sample, links, answers)
    high, middle = (stratum_of(links[row]) for row in (0, 2))
    assert set(pairs.seen(0.5)) == {high, middle}
    # of those that it calls entailed from .65 on people saw none in the middle
    assert set(pairs.seen(0.65)) == {high}


def test_a_judge_of_the_retrievers_family_is_marked() -> None:
    favours = Preference(10, 0.2, 0.01)
    assert "one family" in favours_text(favours, "ctxr-tiny, blip", "blip:folder")
    assert "one family" not in favours_text(favours, "ctxr-tiny", "blip:folder")
    assert "one family" not in favours_text(favours, "", "blip:folder")
    assert "0.200 higher" in favours_text(favours, "", "hashed")
    assert "0.2" not in favours_text(None, "", "hashed")
    assert "0.019 lower" in favours_text(Preference(10, -0.019, 0.5), "", "hashed")

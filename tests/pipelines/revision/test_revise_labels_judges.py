"""Rounds of cascades, of judges that leave pairs unsure, and of judges without a licence."""

import json
import re
import shutil
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ctxr.datasets.rounds import CandidateRow, Round, read_figures
from ctxr.datasets.truth import judge_verdicts
from ctxr.engine.progress import Silent
from ctxr.errors import DataError, UnfinishedError, UsageError
from ctxr.models.entailment.base import Estimate, Judge
from ctxr.pipelines.revision import decisions, inputs
from ctxr.pipelines.revision.config import ReviseLabels
from ctxr.pipelines.revision.inputs import open_judges
from ctxr.pipelines.revision.revise_labels import run
from ctxr.problems.entailment.pairs import open_pairs
from ctxr.store.artifacts import Content, finish
from ctxr.store.hashing import sha256_of
from ctxr.store.records import Judgment
from ctxr.store.tables import read_table
from tests.models.judges.nli_folder import make_nli
from tests.pipelines.modelling.listening.fake_server import Answer, Body, says, serving, words_in
from tests.pipelines.revision.stand_in import Listening, StandIn, ledger_of, truth_of
from tests.pipelines.revision.test_auditing import answer_all
from tests.pipelines.revision.test_revise_labels import bytes_of, options

Open = Callable[..., None]
CASCADE = ("file:cheap", "file:dear")


@pytest.fixture
def judges(monkeypatch: pytest.MonkeyPatch) -> Open:
    """Opens stand-ins by the names after the colon."""

    def opens(**stand_ins: Judge) -> None:
        monkeypatch.setattr(inputs, "open_judge", lambda spec, *_: stand_ins[spec.partition(":")[2].partition("@")[0]])

    return opens


@pytest.fixture
def published(workdir: Path) -> Path:
    """The project with a dataset that does not know its truth."""
    manifest = workdir / "dataset" / "manifest.json"
    content = json.loads(manifest.read_bytes())
    content["files"].pop("truth.jsonl")
    manifest.write_text(json.dumps(content))
    return workdir


def rounds_of(workdir: Path) -> list[Round]:
    return read_table(workdir / "revised" / "rounds.jsonl", Round)


def in_force(workdir: Path) -> Counter[tuple[str, float]]:
    """Judgments of judges that count, by split and value."""
    rows = read_table(workdir / "revised" / "judgments.jsonl", Judgment)
    return Counter((row.candidate.partition("/")[0], row.value) for row in rows if row.worker != "gold")


def test_a_cascade_asks_the_second_judge_what_the_first_leaves_unsure(workdir: Path, judges: Open) -> None:
    cheap, dear = StandIn(workdir / "dataset", 0.8, 0.8, name="cheap"), StandIn(workdir / "dataset", name="dear")
    judges(cheap=cheap, dear=dear)
    config = options(workdir, judge=(CASCADE[0] + "@0.2-0.8", CASCADE[1]), unsure=0.3)
    report = run(config)
    ledger = ledger_of(workdir)
    by = Counter(row.classifier for row in ledger)
    assert cheap.claims == len(ledger)
    assert dear.claims == by[dear.fingerprint] == len(ledger) - by[cheap.fingerprint]
    for row in ledger:
        low, high = (0.2, 0.8) if row.classifier == cheap.fingerprint else (0.3, 0.5)
        p = row.probability or 0.0
        expected = "unsure" if low <= p < high else "rejected" if p < low else None
        assert row.decision == (expected or ("rejected" if row.reason in ("cap_image", "cap_caption") else "added"))
    assert {row.decision for row in ledger if row.classifier == cheap.fingerprint} == {"added", "rejected"}
    (made,) = rounds_of(workdir)
    assert (made.classifier, made.judges) == ("cheap, then dear", (cheap.fingerprint, dear.fingerprint))
    assert (made.unsure_below, made.unsure) == (0.3, sum(row.decision == "unsure" for row in ledger))
    assert made.unsure > 0
    rows = read_table(workdir / "revised" / "judgments.jsonl", Judgment)
    unsure = {pair for pair, entailed in judge_verdicts(rows).items() if entailed is None}
    assert unsure == {(row.caption, row.image) for row in ledger if row.decision == "unsure"}
    said = read_figures(workdir / "revised" / "rounds" / "001")["judges"]
    assert [row["asked"] for row in said] == [cheap.claims, dear.claims]
    assert all(row["asked"] == row["entailed"] + row["not"] + row["unsure"] for row in said)
    assert str(made.unsure) in report.facts["verdicts of dear"]


def test_a_cascade_is_nothing_to_do_again_and_goes_on_after_a_stop(
    workdir: Path, judges: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(decisions, "SHARD", 64)
    cheap, dear = StandIn(workdir / "dataset", 0.8, 0.8), StandIn(workdir / "dataset", dies_after=100)
    judges(cheap=cheap, dear=dear)
    with pytest.raises(KeyboardInterrupt):
        run(options(workdir, judge=CASCADE))
    assert not (workdir / "revised" / "rounds.jsonl").exists()
    asked, dear.dies_after = (cheap.claims, dear.claims), None
    assert run(options(workdir, judge=CASCADE)).did == "added"
    assert cheap.claims == asked[0]
    before, claims = bytes_of(workdir / "revised"), dear.claims
    assert run(options(workdir, judge=CASCADE)).did == "up to date"
    assert dear.claims == claims
    shutil.rmtree(workdir / ".ctxr-cache")
    run(options(workdir, judge=CASCADE, out=workdir / "again"))
    assert bytes_of(workdir / "again") == before == bytes_of(workdir / "revised")


def test_unsure_pairs_are_left_out_later_only_between_the_same_limits(workdir: Path) -> None:
    judge = StandIn(workdir / "dataset", 0.9, 0.9)
    run(options(workdir, split="test", threshold=0.8, unsure=0.3), classifier=judge)
    unsure = {row.key() for row in ledger_of(workdir) if row.decision == "unsure"}
    assert unsure
    for number, (threshold, same) in enumerate(((0.8, True), (0.9, False)), start=2):
        run(options(workdir, split="test", threshold=threshold, unsure=0.3, sample=number), classifier=judge)
        later = {row.key() for row in ledger_of(workdir, number)}
        assert unsure.isdisjoint(later) if same else unsure <= later
        run(ReviseLabels(workdir=workdir, undo=True))


def test_unsure_captions_leave_the_ranking_of_entail_at_k(workdir: Path) -> None:
    judge = StandIn(workdir / "dataset", 0.9, 0.9)
    run(options(workdir, split="test", top_k=300, threshold=0.8, unsure=0.4), classifier=judge)
    columns = read_figures(workdir / "revised" / "rounds" / "001")["counted"]
    ledger = [row for row in ledger_of(workdir) if row.decision != "unsure"]
    for image, written, extra in zip(columns["images"], columns["written"], columns["extra"], strict=True):
        rows = sorted((row for row in ledger if row.image == image), key=lambda row: row.rank)
        for place, k in enumerate((10, 30)):
            first = rows[: k - written[place]]
            assert extra[place] == sum(row.probability is not None and row.probability >= 0.8 for row in first)


def test_pairs_that_a_file_lacks_are_unsure_and_the_round_is_equal_again(workdir: Path) -> None:
    run(options(workdir, split="test"), classifier=StandIn(workdir / "dataset"))
    answers = [{"image": row.image, "caption": row.caption, "p": row.probability} for row in ledger_of(workdir)][::2]
    file = workdir / "answers.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in answers))
    progress = Listening()
    for name in ("one", "two"):
        config = options(workdir, split="test", judge=(f"file:{file}",), out=workdir / name)
        assert run(config, progress).facts["trained on"].endswith("unknown for file:answers.jsonl")
        assert run(config, progress).did == "up to date"
    assert any("file:answers.jsonl" in note for note in progress.notes)
    assert bytes_of(workdir / "one") == bytes_of(workdir / "two")
    known: dict[Any, float] = {(row["image"], row["caption"]): row["p"] for row in answers}  # type: ignore[misc]
    ledger = read_table(workdir / "one" / "rounds" / "001" / "ledger.jsonl", CandidateRow)
    assert [row.probability for row in ledger] == [known.get((row.image, row.caption)) for row in ledger]
    assert {row.reason for row in ledger if row.probability is None} == {"no_answer"}
    missing = sum(row.probability is None for row in ledger)
    assert any(f"no row for {missing} of {len(ledger)}" in text for text in progress.warned)
    # what is left names other candidates than the file
    with pytest.raises(DataError, match=r"answers\.jsonl names none"):
        run(replace(config, sample=0), progress)
    assert len(read_table(workdir / "two" / "rounds.jsonl", Round)) == 1
    file.write_text('{"image": "photos/x.jpg", "caption": "a caption", "p": 1}\n')
    with pytest.raises(DataError, match=r"\(photos/x\.jpg, a caption\)"):
        run(replace(config, out=workdir / "none"))
    assert not (workdir / "none" / "rounds.jsonl").exists()


@pytest.mark.parametrize("toy", [False, True])
def test_without_a_licence_a_round_counts_on_train_and_a_toys_nowhere(toy: bool, published: Path) -> None:
    judge = StandIn(published / "dataset")
    judge.toy = toy
    planned = run(options(published, entail=False), classifier=judge).facts["would count on"]
    assert ("train" in planned, "--unlicensed" in planned) == (not toy, toy)
    report = run(options(published), classifier=judge)
    assert {split for split, _ in in_force(published)} == (set() if toy else {"train"})
    (made,) = rounds_of(published)
    added = Counter(row.image.partition("/")[0] for row in ledger_of(published) if row.decision == "added")
    assert made.pending == added.total() - (0 if toy else added["train"])
    assert made.added == added.total() - made.pending
    assert (made.toy, made.unlicensed) == (toy, False)
    assert any("toy" in note for note in report.notes) == toy
    assert report.facts["to count them anyway"].endswith(f"--unlicensed --workdir {published}")
    assert ("with a licence" in report.facts) == (not toy)
    assert run(options(published), classifier=judge).facts == report.facts
    forced = run(options(published, unlicensed=True), classifier=judge)
    assert "unlicensed" in forced.facts
    assert rounds_of(published)[1].unlicensed
    assert rounds_of(published)[1].pending == 0
    assert {split for split, value in in_force(published) if value == 1} == {"train", "valid", "test"}
    assert run(options(published), classifier=judge).did == "up to date"


def test_where_a_word_changes_nothing_it_makes_no_other_round(published: Path, workdir: Path) -> None:
    judge = StandIn(published / "dataset")
    for one in (False, True):
        report = run(options(published, split="train", unlicensed=one), classifier=judge)
    assert (report.did, rounds_of(published)[0].unlicensed) == ("up to date", False)


def test_a_dry_run_prices_every_judge_for_all_pairs_and_asks_none(workdir: Path, judges: Open) -> None:
    cheap, dear = StandIn(workdir / "dataset", 0.8, name="cheap"), StandIn(workdir / "dataset", name="dear")
    monkey: Any = dear
    monkey.estimate = lambda claims, usual=0: Estimate(claims, 100 * claims, claims, (0.1 if usual else 0.5) * claims)
    judges(cheap=cheap, dear=dear)
    before = bytes_of(workdir)
    config = options(workdir, split="valid", top_k=2, judge=CASCADE, dry_run=True)
    assert "--price-in" in run(config).facts["price of dear"]
    facts = run(replace(config, price_in=1.0)).facts
    pairs = int(facts["would judge"].split()[0])
    assert f"{pairs} requests" in facts["price of dear"]
    assert re.findall(r"([a-z ]+) \d+ requests.*?: ([\d.]+)", facts["price of dear"]) == [
        ("about", f"{pairs / 10:.4f}"),
        (" at most", f"{pairs / 2:.4f}"),
    ]
    assert "price of cheap" not in facts
    assert (cheap.claims, dear.claims, bytes_of(workdir)) == (0, 0, before)


def test_what_people_license_counts_with_the_next_command(published: Path) -> None:
    judge = StandIn(published / "dataset", 0.95, 0.998)
    config = options(published, split="test", sample=300)
    assert run(config, classifier=judge).facts["not in force"]
    answer_all(published, wrong=0.02)
    told = run(ReviseLabels(workdir=published, audit=True))
    licence = read_figures(published / "revision-audit" / "001")["licence"]
    assert licence["passed"], licence["reason"]
    assert licence["fingerprint"] == judge.fingerprint
    licensed = run(config, classifier=judge)
    made = rounds_of(published)[1]
    assert made.licence in licensed.facts["licence"]
    assert (made.threshold, made.threshold_from, made.pending) == (licence["threshold"], "audit", 0)
    assert in_force(published)["test", 1.0] == made.added > 0
    before = bytes_of(published / "revised")
    assert run(config, classifier=judge).did == "up to date"
    assert bytes_of(published / "revised") == before
    assert told.did == "audited"
    progress = Listening()
    lower = replace(config, threshold=licence["threshold"] - 0.05, out=published / "lower")
    assert "not in force" in run(lower, progress, classifier=judge).facts
    assert f"{licence['threshold']:.3g} or more" in progress.notes[0]
    # nobody has looked at valid, or at pairs that are left unsure
    run(replace(config, split="valid", out=published / "valid"), classifier=judge)
    assert read_table(published / "valid" / "rounds.jsonl", Round)[0].licence == ""
    unsure = run(replace(config, unsure=0.01, out=published / "unsure"), classifier=judge)
    assert "not in force" in unsure.facts
    # nobody has licensed another judge, or the toy
    other = StandIn(published / "dataset", 0.9, 0.998)
    assert "not in force" in run(replace(config, out=published / "other"), classifier=other).facts
    judge.toy = True
    assert "not in force" in run(replace(config, out=published / "toy"), classifier=judge).facts


@pytest.fixture
def licensed(published: Path) -> tuple[StandIn, ReviseLabels]:
    """A judge, and the options of the round on test with which it earned a licence."""
    judge = StandIn(published / "dataset", 0.95, 0.998)
    config = options(published, split="test", sample=10_000, top_k=40)
    run(config, classifier=judge)
    answer_all(published, wrong=0.02)
    run(ReviseLabels(workdir=published, audit=True))
    return judge, config


@pytest.mark.parametrize(
    "changed",
    [
        {"top_k": 50},
        *(
            pytest.param(changed, marks=pytest.mark.prove)
            for changed in (
                {"both": True},
                {"per_image": 2},
                {"per_caption": 3},
                {"limit": 20},
                {"retriever": "ctxr-tiny"},
            )
        ),
    ],
)
def test_a_licence_holds_only_for_candidates_like_those_it_was_earned_on(
    changed: dict[str, Any], licensed: tuple[StandIn, ReviseLabels]
) -> None:
    judge, config = licensed
    progress = Listening()
    # the next command of the audit has the options of its round
    assert "--top-k 40" in run(ReviseLabels(workdir=config.workdir, audit=True)).facts["with this licence"]
    report = run(replace(config, **changed), progress, classifier=judge)
    made = rounds_of(config.workdir)[1]
    assert (made.licence, made.added) == ("", 0)
    assert made.pending > 0
    assert "not in force" in report.facts
    name = next(iter(changed))
    was = "hashed" if name == "retriever" else getattr(config, name)
    assert any(f"--{name.replace('_', '-')} {was}" in note for note in progress.notes)


def test_candidates_behind_those_that_people_audited_are_pending(licensed: tuple[StandIn, ReviseLabels]) -> None:
    judge, config = licensed
    run(config, classifier=judge)
    before = {row.key() for row in ledger_of(config.workdir, 2)}
    assert rounds_of(config.workdir)[1].pending == 0
    # what it decided is known now, so those that the retriever ranks behind it are the candidates
    report = run(replace(config, sample=9), classifier=judge)
    added = {row.key() for row in ledger_of(config.workdir, 3) if row.decision == "added"}
    assert added
    assert added.isdisjoint(before)
    made = rounds_of(config.workdir)[2]
    assert (made.added, made.pending) == (0, len(added))
    assert "audited" in report.facts["not in force"]


def test_a_round_becomes_pending_when_a_later_audit_refuses_its_judge(
    licensed: tuple[StandIn, ReviseLabels], monkeypatch: pytest.MonkeyPatch
) -> None:
    judge, config = licensed
    work = config.workdir
    run(config, classifier=judge)
    good, before = rounds_of(work)[1], in_force(work)
    assert before["test", 1.0] == good.added > 0
    shutil.rmtree(work / "tasks")
    answer_all(work, wrong=0.4)
    audit = ReviseLabels(workdir=work, audit=True)
    told = run(audit).facts
    refused = rounds_of(work)[1]
    assert "refused" in told["licence"]
    assert f"{refused.pending:,}" in told["not in force"]
    assert (refused.active, refused.added, refused.pending) == (True, 0, good.added)
    assert refused.refused == read_figures(work / "revision-audit" / "002")["licence"]["reason"]
    assert not in_force(work)
    assert refused.refused in run(ReviseLabels(workdir=work, retriever="hashed"), classifier=judge).facts["rounds"]
    assert run(audit).up_to_date
    # other answers put it in force again, byte by byte
    shutil.rmtree(work / "tasks")
    answer_all(work, wrong=0.02)
    run(audit)
    assert (rounds_of(work)[1], in_force(work)) == (good, before)


def test_a_census_corrects_entail_at_k_of_a_ranking_without_unsure_captions(workdir: Path) -> None:
    judge = StandIn(workdir / "dataset", 0.9, 0.9)
    limits: dict[str, Any] = {"threshold": 0.7, "unsure": 0.45}
    run(options(workdir, split="test", top_k=40, both=True, sample=100_000, **limits), classifier=judge)
    answer_all(workdir, people=("w1",))
    run(ReviseLabels(workdir=workdir, audit=True))
    columns = read_figures(workdir / "revised" / "rounds" / "001")["counted"]
    rows = [row for row in ledger_of(workdir) if row.decision != "unsure" and row.direction != "caption"]
    rows.sort(key=lambda row: row.rank)
    truth = truth_of(workdir)
    for place, figure in enumerate(read_figures(workdir / "revision-audit" / "001")["entail_at"]):
        entailed = 0
        for image, written in zip(columns["images"], np.array(columns["written"])[:, place].tolist(), strict=True):
            first = [row for row in rows if row.image == image][: figure["k"] - written]
            entailed += written + sum(image in truth[row.caption].holds for row in first)
        assert figure["corrected"]["value"] == pytest.approx(entailed / figure["k"] / len(columns["images"]))
        assert figure["corrected"]["value"] != pytest.approx(figure["value"]["value"])


def test_a_model_that_refuses_every_candidate_makes_no_round(workdir: Path) -> None:
    with serving(lambda _body, _number: says(None, message={"refusal": "I never judge"})) as server:
        config = options(workdir, split="valid", top_k=1, judge=(f"endpoint:{server.url}",), model="fake", side=32)
        for _ in range(2):
            with pytest.raises(DataError, match=r"fake .*'I never judge'"):
                run(config)
        assert len(server.asked) == len(set(map(str, server.asked)))
    assert not (workdir / "revised" / "rounds.jsonl").exists()


def test_a_paid_judge_is_asked_once_with_all_claims(
    workdir: Path, judges: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(decisions, "SHARD", 8)
    dear: Any = StandIn(workdir / "dataset", name="dear")
    judges(dear=dear)
    calls: list[int] = []
    answer = dear.probabilities

    def probabilities(claims: list[Any]) -> np.ndarray:
        calls.append(len(claims))
        return np.asarray(answer(claims))

    dear.estimate = lambda claims, usual=0: Estimate(claims, claims, claims, 1.0)
    dear.probabilities = probabilities
    run(options(workdir, split="valid", judge=("file:dear",)))
    assert calls == [len(ledger_of(workdir))]


def test_a_model_of_transformers_and_one_behind_an_endpoint_make_equal_rounds_after_a_stop(workdir: Path) -> None:
    make_nli(workdir / "nli")

    def answers(body: Body, _number: int) -> Answer:
        chance = int(sha256_of(words_in(body))[:8], 16) % 5
        return (
            says("", refusal="I cannot judge people")
            if chance == 0
            else says(("perhaps", "yes", "no", "Yes.")[chance - 1])
        )

    with serving(answers) as server:
        config = options(
            workdir, split="valid", top_k=3, judge=(f"nli:{workdir / 'nli'}@0.01-0.99", f"endpoint:{server.url}"),
            model="fake", side=32, at_once=1, price_in=1.0,
        )  # fmt: skip
        dry = run(replace(config, dry_run=True)).facts["price of fake"]
        assert not server.asked
        with pytest.raises(UnfinishedError, match="max-cost"):
            run(replace(config, max_cost=0.01))
        paid = len(server.asked)
        run(config)
        asked, before = len(server.asked), bytes_of(workdir / "revised")
        about, most = (int(count.replace(",", "")) for count in re.findall(r"([\d,]+) requests", dry))
        assert 0 < paid < asked <= most == 3 * about
        assert run(config).did == "up to date"
        shutil.rmtree(workdir / ".ctxr-cache")
        run(replace(config, out=workdir / "kept"))
        assert len(server.asked) == asked
        shutil.rmtree(workdir / ".ctxr-cache")
        shutil.rmtree(workdir / "judged")
        run(replace(config, out=workdir / "again"))
    assert bytes_of(workdir / "kept") == bytes_of(workdir / "again") == before == bytes_of(workdir / "revised")
    said = read_figures(workdir / "revised" / "rounds" / "001")["judges"]
    assert said[1]["asked"] > 0
    assert {row.reason for row in ledger_of(workdir)} >= {"no_answer", "below_threshold"}


def trained(folder: Path, kind: str = "classifier") -> Path:
    folder.mkdir(parents=True)
    finish(folder, kind=kind, verb="train", config={}, parents=[], content=Content([], {}, {}))
    return folder


def test_the_only_classifier_of_a_project_decides_and_of_several_one_is_named(tmp_path: Path) -> None:
    config, shown = ReviseLabels(workdir=tmp_path), Silent()
    trained(tmp_path / "classifiers" / "half-done", kind="run")
    cascade, _ = open_judges(config, shown)
    assert (cascade.name, cascade.toy) == ("toy-judge", True)
    one = trained(tmp_path / "classifiers" / "one")
    with pytest.raises(DataError, match=str(one)):
        open_judges(config, shown)
    trained(tmp_path / "classifiers" / "two")
    with pytest.raises(UsageError, match="holds 2 classifiers of entailment: one, two"):
        open_judges(config, shown)
    for name, hint in (("nosuch", "are one, two"), ("tow", r"mean two\? .*are one, two")):
        for named in (replace(config, classifier=name), replace(config, judge=(f"classifier:{name}",))):
            with pytest.raises(UsageError, match=f"classifier '{name}' in") as caught:
                open_judges(named, shown)
            assert re.search(hint, caught.value.hint)


def test_it_learns_from_the_pairs_of_the_projects_dataset_where_none_are_named(workdir: Path) -> None:
    own, named = (open_pairs(path, workdir, Silent()) for path in (None, workdir / "dataset"))
    assert own.rows == named.rows
    assert own.in_split("valid")

"""`ctxr revise-labels`: true links are found as often as the classifier allows, old rows stay, and every round can be taken back."""

import json
import shutil
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ctxr.datasets.open import read_dataset
from ctxr.datasets.rounds import AuditSample, CandidateRow, read_rounds
from ctxr.errors import DataError, DryRun, UsageError
from ctxr.models.training.checkpoint import Checkpoint
from ctxr.models.training.recipe import HeadShape, ScorerShape
from ctxr.pipelines.modelling.config import Train
from ctxr.pipelines.modelling.train import run as train
from ctxr.pipelines.revision import decisions
from ctxr.pipelines.revision.config import ReviseLabels
from ctxr.pipelines.revision.revise_labels import run
from ctxr.store.artifacts import MANIFEST, Content, finish
from ctxr.store.records import Judgment
from ctxr.store.tables import read_table, write_table
from ctxr.synthetic.captions import write_captions
from tests.pipelines.revision.conftest import DRAWN
from tests.pipelines.revision.stand_in import Listening, StandIn, ledger_of, truth_of


def options(workdir: Path, **changes: object) -> ReviseLabels:
    return replace(ReviseLabels(workdir=workdir, entail=True, retriever="hashed", top_k=20), **changes)  # type: ignore[arg-type]


def bytes_of(folder: Path) -> dict[str, bytes]:
    return {str(one.relative_to(folder)): one.read_bytes() for one in sorted(folder.rglob("*")) if one.is_file()}


def test_true_links_are_found_with_the_precision_and_recall_that_the_classifier_allows(workdir: Path) -> None:
    judge = StandIn(workdir / "dataset", sensitivity=0.9, specificity=0.97)
    report = run(options(workdir, split="test", per_image=0, per_caption=0, top_k=300), classifier=judge)
    ledger = ledger_of(workdir)
    truth = truth_of(workdir)
    clear = [row for row in ledger if row.image not in truth[row.caption].doubtful]
    true = np.array([row.image in truth[row.caption].holds for row in clear])
    added = np.array([row.decision == "added" for row in clear])
    # every pair that was not given is a candidate here, so recall is the classifier's sensitivity
    expected = sum(len(row.holds) - 1 for row in truth.values() if row.gallery == "test")
    assert true.sum() == expected
    assert expected > 100
    recall, precision = (added & true).sum() / true.sum(), (added & true).sum() / added.sum()
    # within three standard errors of what the rates of the stand-in come to
    assert abs(recall - 0.9) < 3 * np.sqrt(0.09 / expected)
    called = 0.9 * expected + 0.03 * (~true).sum()
    stated = 0.9 * expected / called
    assert abs(precision - stated) < 3 * np.sqrt(stated * (1 - stated) / called)
    assert report.facts["trained on"].startswith("none")
    assert "threshold 0.5 on" in report.tables["bands"].note


def test_old_rows_stay_and_new_ones_are_a_round_of_their_own(workdir: Path) -> None:
    run(options(workdir), classifier=StandIn(workdir / "dataset"))
    out = workdir / "revised"
    old = (workdir / "dataset" / "judgments.jsonl").read_bytes().splitlines()
    new = (out / "judgments.jsonl").read_bytes().splitlines()
    assert set(old) < set(new)
    assert (out / "given.jsonl").read_bytes() == (workdir / "dataset" / "judgments.jsonl").read_bytes()
    rows = [row for row in read_table(out / "judgments.jsonl", Judgment) if row.worker != "gold"]
    assert {(row.worker, row.round) for row in rows} == {("entailment:stand-in", 1)}
    assert {row.value for row in rows} == {0.0, 1.0}
    assert not {(row.query, row.candidate) for row in rows} & {
        (row.query, row.candidate) for row in read_table(out / "given.jsonl", Judgment)
    }
    # any verb that reads datasets reads it
    dataset = read_dataset(out)
    assert len(dataset.judgments) == len(new)
    assert not dataset.notes
    for name in ("sets", "images", "texts", "queries", "truth", "pairs"):
        assert (out / f"{name}.jsonl").read_bytes() == (workdir / "dataset" / f"{name}.jsonl").read_bytes()


def test_a_round_is_taken_back_and_put_in_force_again(workdir: Path) -> None:
    judge = StandIn(workdir / "dataset")
    run(options(workdir, threshold=0.9), classifier=judge)
    first = bytes_of(workdir / "revised")
    report = run(options(workdir, threshold=0.6), classifier=judge)
    assert report.round == 2
    both = bytes_of(workdir / "revised")
    assert {row.round for row in read_table(workdir / "revised" / "judgments.jsonl", Judgment)} == {0, 1, 2}
    with pytest.raises(DryRun) as ended:
        run(replace(ReviseLabels(workdir=workdir), undo=True, dry_run=True))
    assert ended.value.plan == {"pairs": read_rounds(workdir / "revised")[1].added}
    assert bytes_of(workdir / "revised") == both
    assert run(replace(ReviseLabels(workdir=workdir), undo=True)).round == 2
    again = bytes_of(workdir / "revised")
    assert again["judgments.jsonl"] == first["judgments.jsonl"]
    assert run(replace(ReviseLabels(workdir=workdir), undo=True)).facts["active"] == "none"
    assert (workdir / "revised" / "judgments.jsonl").read_bytes() == first["given.jsonl"]
    with pytest.raises(UsageError, match="round is undone"):
        run(replace(ReviseLabels(workdir=workdir), undo=True))
    assert run(replace(ReviseLabels(workdir=workdir), redo=True, round=1)).did == "redone"
    # typed again as it was made, a round that was taken back is put in force, not made anew
    assert run(options(workdir, threshold=0.6), classifier=judge).did == "redone"
    assert bytes_of(workdir / "revised") == both


def test_a_killed_run_goes_on_where_it_was(workdir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decisions, "SHARD", 64)
    whole = StandIn(workdir / "dataset")
    run(options(workdir, out=workdir / "whole"), classifier=whole)
    shutil.rmtree(workdir / ".ctxr-cache")
    killed = StandIn(workdir / "dataset", dies_after=200)
    with pytest.raises(KeyboardInterrupt):
        run(options(workdir), classifier=killed)
    assert not (workdir / "revised" / MANIFEST).exists()
    after = StandIn(workdir / "dataset")
    run(options(workdir), classifier=after)
    assert after.claims == whole.claims - 192
    assert bytes_of(workdir / "revised") == bytes_of(workdir / "whole")


def test_a_stop_while_a_round_is_put_in_force_is_mended(workdir: Path) -> None:
    run(options(workdir), classifier=StandIn(workdir / "dataset"))
    before = bytes_of(workdir / "revised")
    (workdir / "revised" / MANIFEST).unlink()
    (workdir / "revised" / "judgments.jsonl").unlink()
    assert run(options(workdir), classifier=StandIn(workdir / "dataset")).did == "up to date"
    assert bytes_of(workdir / "revised") == before


def test_a_run_stopped_among_the_tables_of_the_dataset_is_unfinished(
    workdir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    judge = StandIn(workdir / "dataset")
    run(options(workdir, per_image=1), classifier=judge)

    def stopped(out: Path, *_others: object) -> None:
        write_table(out / "sets.jsonl", [])
        raise KeyboardInterrupt

    with monkeypatch.context() as once:
        once.setattr("ctxr.pipelines.revision.revising.link_base", stopped)
        with pytest.raises(KeyboardInterrupt):
            run(options(workdir, per_image=2), classifier=judge)
    assert not (workdir / "revised" / MANIFEST).exists()
    run(options(workdir, per_image=2), classifier=judge)
    for per_image in (1, 2):
        run(options(workdir, per_image=per_image, out=workdir / "whole"), classifier=judge)
    assert bytes_of(workdir / "revised") == bytes_of(workdir / "whole")


def test_who_was_trained_on_evaluated_pictures_may_not_judge_them(workdir: Path) -> None:
    dataset = read_dataset(workdir / "dataset")
    tested = next(one for one in dataset.sets if one.id == "test").images
    content = dataset.images[tested[1]].sha256
    judge = StandIn(workdir / "dataset", trained_on=frozenset({tested[0], content}))
    with pytest.raises(DataError, match=r"on 2 of 32 .* test/"):
        run(options(workdir), classifier=judge)
    assert not (workdir / "revised").exists()
    report = run(options(workdir, allow_leak=True), classifier=judge)
    assert report.leaked == tested[:2]
    row = report.tables["entail"].rows[0]
    assert row[1] != row[2]
    ledger = ledger_of(workdir)
    assert {row.image for row in ledger if row.leaked} == set(tested[:2])
    # the sides that are trained on may be judged by who has seen them, and it is said
    trained = next(one for one in dataset.sets if one.id == "train").images
    judge = StandIn(workdir / "dataset", trained_on=frozenset(trained[:1]))
    report = run(options(workdir, split="train", out=workdir / "other"), classifier=judge)
    assert report.leaked == trained[:1]


def test_a_sample_for_people_is_drawn_from_every_stratum(workdir: Path) -> None:
    run(options(workdir, sample=60), classifier=StandIn(workdir / "dataset", 0.9, 0.9))
    folder = workdir / "revised" / "rounds" / "001"
    drawn = read_table(folder / "strata.jsonl", AuditSample)
    ledger = read_table(folder / "ledger.jsonl", CandidateRow)
    assert sum({row.stratum: row.population for row in drawn}.values()) == len(ledger)
    for stratum in {row.stratum for row in drawn}:
        rows = [row for row in drawn if row.stratum == stratum]
        assert {row.sampled for row in rows} == {len(rows)}
        assert len(rows) >= min(4, rows[0].population)
    assert b"probability" not in (folder / "sample.jsonl").read_bytes()


def test_a_plan_counts_the_candidates_that_are_judged(workdir: Path) -> None:
    for k in (20, 300):
        told = run(ReviseLabels(workdir=workdir, retriever="hashed", top_k=k, split="test")).facts["would judge"]
        made = run(options(workdir, top_k=k, split="test"), classifier=StandIn(workdir / "dataset")).facts["evaluated"]
        run(ReviseLabels(workdir=workdir, undo=True))
        assert told.split(":")[0] in made
        assert ("fewer are left" in told) == (k == 300)
    both = run(ReviseLabels(workdir=workdir, retriever="hashed", both=True)).facts["would judge"]
    assert both.startswith("up to ")


def test_a_name_that_nothing_can_propose_by_is_told_what_can(workdir: Path) -> None:
    finish(workdir / "runs" / "tuned", kind="run", verb="train", config={}, parents=[], content=Content([], {}, {}))
    for config in (ReviseLabels(workdir=workdir, retriever="nosuch"), options(workdir, retriever="nosuch")):
        with pytest.raises(UsageError, match="--retriever nosuch: ") as caught:
            run(config, classifier=StandIn(workdir / "dataset"))
        assert "runs are tuned; encoders are ctxr-tiny, auto, hashed, " in caught.value.hint


def test_a_round_that_is_not_there_or_is_turned_already_is_said_with_the_way_on(workdir: Path) -> None:
    run(options(workdir), classifier=StandIn(workdir / "dataset"))
    turns: tuple[dict[str, Any], ...] = ({"redo": True}, {"undo": True}, {"audit": True})
    for changes in turns:
        with pytest.raises(UsageError, match="no round 7") as caught:
            run(replace(ReviseLabels(workdir=workdir, round=7), **changes))
        assert caught.value.hint == "--round N; the rounds are 1 (active)"
    with pytest.raises(UsageError, match="is active already"):
        run(ReviseLabels(workdir=workdir, redo=True))
    run(ReviseLabels(workdir=workdir, undo=True, round=1))
    with pytest.raises(UsageError, match="round 1 is undone already") as caught:
        run(ReviseLabels(workdir=workdir, undo=True, round=1))
    assert caught.value.hint == f"nothing to do; the reverse: ctxr revise-labels --redo --round 1 --workdir {workdir}"


def test_without_entail_it_says_what_it_would_do_and_writes_nothing(workdir: Path) -> None:
    before = bytes_of(workdir)
    progress = Listening()
    report = run(ReviseLabels(workdir=workdir, retriever="hashed"), progress)
    assert report.did == "planned"
    assert progress.tasks == ["reading the labels"]
    assert report.facts["judge"] == "toy-judge"
    assert report.facts["retriever"] == "hashed"
    assert run(options(workdir, top_k=30, dry_run=True)).facts == report.facts
    assert bytes_of(workdir) == before


def test_a_dataset_that_was_made_again_is_the_same_and_another_one_is_refused(workdir: Path) -> None:
    run(options(workdir), classifier=StandIn(workdir / "dataset"))
    manifest = workdir / "dataset" / MANIFEST
    manifest.write_bytes(manifest.read_bytes() + b"\n")
    assert run(options(workdir), classifier=StandIn(workdir / "dataset")).did == "up to date"
    with pytest.raises(UsageError, match="revised labels itself"):
        run(options(workdir, dataset=workdir / "revised"), classifier=StandIn(workdir / "dataset"))
    shutil.rmtree(workdir / "dataset")
    write_captions(replace(DRAWN, out=workdir / "dataset", train=0, test=0, pair_valid=0, seed=6))
    with pytest.raises(DataError, match="revises another dataset"):
        run(options(workdir), classifier=StandIn(workdir / "dataset"))


def test_a_real_encoder_proposes(workdir: Path) -> None:
    judge = StandIn(workdir / "dataset")
    run(options(workdir, retriever="ctxr-tiny", split="valid", limit=3, both=True, top_k=2), classifier=judge)
    ledger = ledger_of(workdir)
    assert {row.source for row in ledger} == {"ctxr-tiny"}
    assert {row.direction for row in ledger} >= {"image", "caption"}
    assert {row.rank for row in ledger} == {1, 2}


def test_an_encoder_of_pairs_cannot_propose(workdir: Path) -> None:
    changes = ("encoder=random:blip-tiny", "rerank=0", "rerank_by=", "epochs=1", "batch=40", "lr=1e-3")
    train(Train("retrieval-blip", workdir / "dataset", changes=changes, workdir=workdir, device="cpu"))
    for by, entail in (("random:blip-tiny", False), ("random:blip-tiny", True), ("retrieval-blip", True)):
        with pytest.raises(UsageError, match=f"--retriever {by} ") as refused:
            run(options(workdir, retriever=by, split="valid", entail=entail), classifier=StandIn(workdir / "dataset"))
        assert "--rerank-by" in (refused.value.hint or "")


def test_what_is_told_next_is_about_the_rounds_at_hand(workdir: Path) -> None:
    judge, out = StandIn(workdir / "dataset"), workdir / "another"
    made = run(options(workdir, split="valid", out=out), classifier=judge)
    assert made.facts["undo"] == f"ctxr revise-labels --undo --out {out} --workdir {workdir}"
    assert f"--audit --out {out}" in made.facts["after the answers"]
    undone = run(ReviseLabels(out=out, workdir=workdir, undo=True))
    assert undone.facts["reverse"] == f"ctxr revise-labels --redo --round 1 --out {out} --workdir {workdir}"


def test_a_run_that_needs_the_set_cannot_propose(workdir: Path) -> None:
    seed = workdir / "runs" / "batch" / "seed0"
    shape = ScorerShape("ctxr-tiny", HeadShape(1, 1, 4, 0.1, "multiply", 1.0, True, False, False))
    config = asdict(Checkpoint(epoch=1, made_by="", shape=shape, fingerprint="", width=4, frozen=True, seed=0))
    seed.mkdir(parents=True)
    (seed / "config.json").write_text(json.dumps(config))
    content = Content(["seed0/config.json"], {}, {})
    finish(seed.parent, kind="run", verb="train", config={"encoder": "ctxr-tiny"}, parents=[], content=content)
    with pytest.raises(UsageError, match="--retriever batch scores"):
        run(options(workdir, retriever="batch"), classifier=StandIn(workdir / "dataset"))

"""Entail@K of a gallery, corrected by audits of rounds: of this side by strata, of another one by sensitivity and specificity."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ctxr.datasets.open import read_dataset
from ctxr.datasets.rounds import AuditSample, AuditVerdict
from ctxr.datasets.truth import read_verdicts
from ctxr.media.images import read_image
from ctxr.metrics.compare import Clusters, ratio_intervals
from ctxr.metrics.retrieval import Vectors
from ctxr.pipelines.revision.config import ReviseLabels
from ctxr.pipelines.revision.revise_labels import run
from ctxr.problems.galleries import GallerySplit, gallery_splits
from ctxr.problems.gallery.figures import EntailFigure, entail_columns, entailed, entailment_table, entailments
from ctxr.problems.gallery.truth import Labels, labels_of
from ctxr.problems.verdicts import people_of
from ctxr.store.artifacts import Content, finish
from ctxr.store.tables import read_table, write_table
from tests.pipelines.revision.stand_in import Hashed, StandIn, ledger_of
from tests.pipelines.revision.test_auditing import answer_all


def revise(workdir: Path, split: str, sample: int) -> tuple[StandIn, int]:
    judge = StandIn(workdir / "dataset", sensitivity=0.5, specificity=0.97)
    config = ReviseLabels(workdir=workdir, entail=True, retriever="hashed", split=split, sample=sample)
    return judge, run(config, classifier=judge).round or 0


def look(workdir: Path, judge: StandIn, number: int) -> list[AuditSample]:
    """People who know look at the sample of a round."""
    drawn = read_table(workdir / "revised" / "rounds" / f"{number:03d}" / "strata.jsonl", AuditSample)
    texts = judge.dataset.texts
    looked = []
    for row in drawn:
        holds = (texts[row.caption].text, row.image) in judge.holds
        looked.append(AuditVerdict(row.image, row.caption, row.stratum, row.decision, holds))
    folder = workdir / "revision-audit" / f"{number:03d}"
    folder.mkdir(parents=True)
    write_table(folder / "looked.jsonl", looked)
    content = Content(["looked.jsonl"], {}, {})
    finish(folder, kind="revision_audit", verb="revise-labels", config={}, parents=[], content=content)
    return drawn


def side_of(workdir: Path) -> tuple[GallerySplit, Labels, Vectors]:
    dataset, revised = read_dataset(workdir / "dataset"), workdir / "revised"
    side = gallery_splits(dataset)["test"]
    people = people_of([revised], workdir)
    labels = [one for one in labels_of(dataset, side, read_verdicts(revised), revised, people)
              if one.entailed.labels == "classifier"]  # fmt: skip
    rng = np.random.default_rng(3)
    vectors = [rng.standard_normal((size, 8)).astype(np.float32) for size in (len(side.images), len(side.captions))]
    return side, labels[0], Vectors(*vectors)


def told(side: GallerySplit, labels: Labels, vectors: Vectors, clusters: Clusters) -> list[EntailFigure]:
    counted = entailed(side, [vectors], labels)
    assert counted is not None
    return entailments("run", side, counted, labels, (0, 0), clusters=clusters)


def test_a_census_of_the_judged_pairs_gives_the_truth_of_any_run(workdir: Path) -> None:
    judge, number = revise(workdir, "test", 10**6)
    drawn = look(workdir, judge, number)
    side, labels, vectors = side_of(workdir)
    holds = np.zeros((len(side.images), len(side.captions)), bool)
    for one in drawn:
        if (judge.dataset.texts[one.caption].text, one.image) in judge.holds:
            holds[side.images.index(one.image), side.captions.index(one.caption)] = True
    for caption, image in side.written:
        holds[image, caption] = True
    clusters = Clusters(np.arange(len(side.images)), np.random.default_rng(0), 100)
    order = np.argsort(-(vectors.queries @ vectors.candidates.T), axis=1)
    for row in told(side, labels, vectors, clusters):
        k, found = row.found.k, row.found.corrected
        truth = np.take_along_axis(holds, order[:, :k], axis=1).mean(axis=1)
        (plain,) = clusters.means(truth[:, None], np.ones((len(truth), 1), bool))
        assert (found.value, found.low, found.high) == pytest.approx((plain.value, plain.low, plain.high))
        low, high = row.found.value.low, row.found.value.high
        assert (low, high) != pytest.approx((plain.low, plain.high))  # the classifier's own labels say something else


def test_an_audit_of_another_side_tells_of_all_pairs_that_were_judged_there(workdir: Path) -> None:
    judge, number = revise(workdir, "train", 200)
    drawn = look(workdir, judge, number)
    revise(workdir, "test", 0)
    side, labels, vectors = side_of(workdir)
    assert labels.elsewhere
    assert labels.sampled is None
    assert isinstance(labels.audit, tuple)
    ledger = workdir / "revised" / "rounds" / f"{number:03d}" / "ledger.jsonl"
    judged = [json.loads(line) for line in ledger.read_text().splitlines()]
    judged = [one for one in judged if one.get("reason") not in ("cap_image", "cap_caption")]
    assert sum(part.population for part in labels.audit) == len(judged)
    assert sum(part.sampled for part in labels.audit) == sum(not one.stratum.startswith("capped") for one in drawn)
    found = told(side, labels, vectors, Clusters(np.arange(len(side.images)), np.random.default_rng(0), 100))
    corrected, value = found[0].found.corrected.value, found[0].found.value.value
    assert corrected is not None
    assert value is not None
    assert corrected > value


def test_a_figure_has_one_interval_by_the_clusters_that_were_chosen(workdir: Path) -> None:
    revise(workdir, "test", 0)
    side, labels, vectors = side_of(workdir)
    clusters = Clusters(np.arange(len(side.images)) // 4, np.random.default_rng(0), 200)
    counted = entailed(side, [vectors], labels)
    assert counted is not None
    columns = entail_columns(counted, labels)
    rows = dict(zip(columns, ratio_intervals(list(columns.values()), clusters), strict=True))
    for one in told(side, labels, vectors, clusters):
        figure = rows[f"auto E@{one.found.k}"]
        assert one.found.value.clusters == figure.clusters == clusters.size
        shown = one.found.value
        assert (shown.value, shown.low, shown.high) == pytest.approx((figure.value, figure.low, figure.high))


def test_what_was_looked_at_of_a_round_that_was_taken_back_weighs_nothing(workdir: Path) -> None:
    judge, number = revise(workdir, "test", 150)
    look(workdir, judge, number)
    before = side_of(workdir)[1]
    other = StandIn(workdir / "dataset", sensitivity=0.2, specificity=0.9)
    again = ReviseLabels(workdir=workdir, entail=True, retriever="hashed", split="test", sample=60)
    second = run(again, classifier=other).round or 0
    look(workdir, judge, second)
    assert side_of(workdir)[1].audit != before.audit
    run(ReviseLabels(workdir=workdir, undo=True))
    after = side_of(workdir)[1]
    assert isinstance(before.audit, tuple)
    assert isinstance(after.audit, tuple)
    # what people said of more pairs is still known of these alone
    assert [vars(one) for one in after.audit] == [vars(one) for one in before.audit]
    assert before.sampled is not None
    assert after.sampled is not None
    assert np.array_equal(before.sampled.looks, after.sampled.looks)
    assert (after.sampled.said >= 0).sum() > (before.sampled.said >= 0).sum()
    side, labels, vectors = side_of(workdir)
    rows = told(side, labels, vectors, Clusters(np.arange(len(side.images)), np.random.default_rng(0), 100))
    table = entailment_table(side.name, rows)
    assert table is not None
    assert "by stratum" in table.note


def test_a_round_with_unanswered_pairs_has_one_entail_at_k(workdir: Path) -> None:
    run(ReviseLabels(workdir=workdir, entail=True, retriever="hashed"), classifier=StandIn(workdir / "dataset"))
    answers = [{"image": row.image, "caption": row.caption, "p": row.probability} for row in ledger_of(workdir)]
    file = workdir / "answers.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in answers[::2]))
    run(ReviseLabels(workdir=workdir, undo=True))
    run(
        ReviseLabels(
            workdir=workdir, entail=True, retriever="hashed", split="test", judge=(f"file:{file}",), sample=10_000
        )
    )
    side, _, _ = side_of(workdir)
    dataset, encoder = read_dataset(workdir / "dataset"), Hashed()
    files = [dataset.picture(dataset.images[image]) for image in side.images]
    pixels = [read_image(one) for one in files if one is not None]
    vectors = Vectors(encoder.encode_images(pixels), encoder.encode_texts(side.texts))

    def evaluated() -> list[EntailFigure]:
        clusters = Clusters(np.arange(len(side.images)), np.random.default_rng(0), 50)
        return told(side, side_of(workdir)[1], vectors, clusters)

    def printed(folder: str) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = json.loads((workdir / folder / "figures.json").read_bytes())["entail_at"]
        return rows

    for ours, row in zip(evaluated(), printed("revised/rounds/002"), strict=True):
        assert ours.found.value.value == pytest.approx(row["value"]["value"])
        assert ours.found.judged == pytest.approx(row["judged"])
        assert row["judged"] < 1
    answer_all(workdir)
    run(ReviseLabels(workdir=workdir, audit=True))
    for ours, row in zip(evaluated(), printed("revision-audit/002"), strict=True):
        assert ours.found.value.value == pytest.approx(row["value"]["value"])
        assert ours.found.corrected.value == pytest.approx(row["corrected"]["value"])
        assert ours.found.judged == pytest.approx(row["judged"])

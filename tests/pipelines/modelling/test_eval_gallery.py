"""`ctxr eval` over galleries: recall both ways, Entail@K by gold and by a classifier, published ground truths, files."""

import json
import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from ctxr.annotation.artifacts import AggregatedAnswers
from ctxr.annotation.tasks.entail import ENTAILMENT
from ctxr.datasets.open import read_dataset
from ctxr.datasets.rounds import AuditSample, AuditVerdict, CandidateRow, Round
from ctxr.datasets.truth import read_verdicts
from ctxr.engine.progress import Silent
from ctxr.errors import DataError, UsageError
from ctxr.metrics.compare import Clusters, ratio_intervals
from ctxr.metrics.entail_at import PairLabels
from ctxr.metrics.retrieval import Matrix, Vectors, from_pairs
from ctxr.pipelines.inspection.config import Report
from ctxr.pipelines.inspection.report import run as write_report
from ctxr.pipelines.modelling.config import Eval, EvalReport
from ctxr.pipelines.modelling.eval import run
from ctxr.problems import galleries
from ctxr.problems.galleries import GallerySplit, gallery_splits
from ctxr.problems.gallery import figures as measuring
from ctxr.problems.gallery.truth import CocoIndices, Labels, coco_indices, labels_of, read_truths
from ctxr.problems.results import QueryResult, plain_name
from ctxr.problems.verdicts import people_of
from ctxr.store.artifacts import Content, finish, open_artifact
from ctxr.store.records import Judgment, Score
from ctxr.store.tables import read_table, write_table
from scripts.task_artifact import write_judgments
from tests.models.encoder_folder import make_folder
from tests.pipelines.evaluated import trec_eval
from tests.pipelines.galleries import extra_pairs, truth_of, write_round
from tests.pipelines.report_artifacts import project
from tests.problems.scores import scores_of

Evaluates = Callable[..., EvalReport]


@pytest.fixture(scope="session")
def encoders(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    root = tmp_path_factory.mktemp("encoders")
    return [f"local-dir:{make_folder(root / str(seed), seed)}" for seed in (0, 1)]


@pytest.fixture(scope="session")
def workdir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("project")


@pytest.fixture
def evaluate(world: Path, encoders: list[str], workdir: Path, tmp_path: Path) -> Evaluates:
    def call(**more: Any) -> EvalReport:
        out = more.pop("out", tmp_path / "results")
        settings: dict[str, Any] = {
            "runs": tuple(encoders),
            "dataset": world,
            "split": "test",
            "resamples": 200,
            "permutations": 50,
        } | more
        return run(Eval(workdir=workdir, out=out, **settings))

    return call


def figures(report: EvalReport) -> dict[tuple[str, str], dict[str, Any]]:
    told = json.loads((report.results / "figures.json").read_text())
    return {(row["run"], row["measure"]): row for row in told["figures"]}


def test_a_file_of_scores_over_galleries_is_evaluated_as_on_image_sets(
    evaluate: Evaluates, world: Path, tmp_path: Path
) -> None:
    split = gallery_splits(read_dataset(world))["test"]
    own = {split.captions[caption]: split.images[image] for caption, image in split.written}
    rows = [
        Score(query, image, "own", float(image == own[query])) for query in split.captions for image in split.images
    ]
    write_table(tmp_path / "own.jsonl", rows)
    report = evaluate(runs=(str(tmp_path / "own.jsonl"),))
    assert "test/recall" not in report.tables
    assert figures(report)["own", "accuracy"]["value"] == 1.0


def test_recall_and_entail_at_k_are_those_of_the_full_matrix(
    evaluate: Evaluates, world: Path, encoders: list[str], workdir: Path
) -> None:
    report = evaluate()
    found = figures(report)
    dataset = read_dataset(world)
    side = gallery_splits(dataset)["test"]
    values = {(row.query, row.candidate): row.value for row in scores_of(encoders[0], dataset, side.captions, workdir)}
    matrix = np.array([[values[caption, image] for image in side.images] for caption in side.captions])
    right: npt.NDArray[np.bool_] = np.zeros(matrix.shape, np.bool_)
    for caption, image in side.written:
        right[caption, image] = True
    holds: npt.NDArray[np.bool_] = right.copy()
    for row in truth_of(world, "test"):
        holds[side.captions.index(row.caption), [side.images.index(image) for image in row.holds]] = True
    by_image, by_caption = np.argsort(-matrix, axis=0), np.argsort(-matrix, axis=1)
    asked = np.flatnonzero(right.any(axis=0))
    for k in (1, 5, 10):
        ir = np.take_along_axis(right, by_caption[:, :k], axis=1).any(axis=1)
        tr = np.asarray(np.take_along_axis(right, by_image[:k], axis=0).any(axis=0))
        assert found[report.runs[0], f"IR@{k}"]["value"] == pytest.approx(ir.mean())
        assert found[report.runs[0], f"TR@{k}"]["value"] == pytest.approx(tr[asked].mean())
    for k in (10, 30):
        share = np.take_along_axis(holds, by_image[:k], axis=0).mean()
        assert found[report.runs[0], f"E@{k}"]["value"] == pytest.approx(share)
    assert found[report.runs[0], "accuracy"]["value"] == found[report.runs[0], "IR@1"]["value"]
    rows = [row for row in read_table(report.results / "per_query.jsonl", QueryResult) if row.run == report.runs[0]]
    assert np.mean([row.accuracy for row in rows]) == pytest.approx(found[report.runs[0], "IR@1"]["value"])
    assert set(report.tables) == {"summary", "test/recall", "test/entailed"}
    table = report.tables["test/entailed"]
    assert "gold: truth" in table.note
    assert table.columns == ("run", "K", "labels", "E@K", "judged %", "pictures")
    assert "pairs were judged" in table.note
    files = open_artifact(report.results).manifest.files
    assert {"rankings.jsonl", "per_query.jsonl", "results.md", "results.tex", "figures.json"} <= set(files)
    assert "Entail@K" in (report.results / "results.md").read_text()
    # the same ranks from the files for trec_eval
    for asks, matrix_of, queries, candidates, pairs in (
        ("ir", matrix, side.captions, side.images, side.written),
        ("tr", matrix.T, side.images, side.captions, [(image, caption) for caption, image in side.written]),
    ):
        folder = report.results / "trec" / asks
        lines = [line.split() for line in (folder / f"{plain_name(report.runs[0])}.txt").read_text().splitlines()]
        first = {line[0]: line[2] for line in lines if line[3] == "1"}
        assert first == {
            query: candidates[place] for query, place in zip(queries, matrix_of.argmax(axis=1), strict=True)
        }
        assert {line[1] for line in lines} == {"Q0"}
        assert len(lines) == len(queries) * min(30, len(candidates))
        told = (folder / "qrels.txt").read_text().splitlines()
        assert sorted(told) == sorted(f"{queries[one]} 0 {candidates[other]} 1" for one, other in pairs)


def test_unsure_pairs_leave_the_rankings_of_a_gallery(
    evaluate: Evaluates, world: Path, encoders: list[str], workdir: Path, tmp_path: Path
) -> None:
    held = extra_pairs(world, "test")
    table = write_round(tmp_path / "judgments.jsonl", held[::3], held[1::3], unsure=held[2::3])
    report = evaluate(runs=tuple(encoders[:1]), judgments=table, trec=True)
    found, dataset = figures(report), read_dataset(world)
    side = gallery_splits(dataset)["test"]
    values = {(row.query, row.candidate): row.value for row in scores_of(encoders[0], dataset, side.captions, workdir)}
    written = {(side.captions[caption], side.images[image]) for caption, image in side.written}

    def ranked(image: str, without: list[tuple[str, str]]) -> list[tuple[str, str]]:
        pairs = [(caption, image) for caption in side.captions if (caption, image) not in {*without}]
        return sorted(pairs, key=lambda pair: -values[pair])

    for k in (1, 5, 10):
        hits = [bool(written & {*ranked(image, held[2::3])[:k]}) for image in side.images]
        assert found[report.runs[0], f"TR@{k}"]["value"] == pytest.approx(np.mean(hits))
        first = [
            sorted((-values[caption, image], image) for image in side.images if (caption, image) not in {*held[2::3]})[
                :k
            ]
            for caption in side.captions
        ]
        hits = [
            any((caption, image) in written for _, image in row)
            for caption, row in zip(side.captions, first, strict=True)
        ]
        assert found[report.runs[0], f"IR@{k}"]["value"] == pytest.approx(np.mean(hits))
    assert f"unsure of {len(held[2::3])} pairs" in report.tables["test/recall"].note
    by_judge, gold = written | {*held[::3]}, written | {*held}
    for name, right, without in (("auto E@10", by_judge, held[2::3]), ("E@10", gold, [])):
        share = [len(right & {*ranked(image, without)[:10]}) / 10 for image in side.images]
        assert found[report.runs[0], name]["value"] == pytest.approx(np.mean(share))
    for way in ("IR", "TR"):
        told = trec_eval(report.results / "trec" / way.lower(), plain_name(report.runs[0]), 5)
        assert len(told) == 3
        for name, value in told.items():
            measure = f"TREC {way} {'MAP@30' if name == 'MAP' else name}"
            assert found[report.runs[0], measure]["value"] == pytest.approx(value)


def test_the_report_shows_the_tables_of_galleries(evaluate: Evaluates, encoders: list[str], tmp_path: Path) -> None:
    work = project(tmp_path / "work", videos=1, sets=1, photos=0)
    report = evaluate(runs=tuple(encoders[:1]), out=work / "results" / "one")
    page = write_report(Report(workdir=work)).page.read_text()
    for table in report.tables.values():
        assert f"<summary>{table.title}</summary>" in page


def test_runs_are_compared_measure_by_measure(evaluate: Evaluates) -> None:
    report = evaluate(compare=True, cluster="group")
    told = json.loads((report.results / "figures.json").read_text())
    found = figures(report)
    assert {row["part"] for row in told["differences"]} >= {"TR@1", "IR@10", "E@30"}
    for row in told["differences"]:
        each = [found[name, row["part"]]["value"] for name in (report.runs[1], report.runs[0])]
        assert row["value"] == pytest.approx(each[0] - each[1])
        assert row["low"] <= row["value"] <= row["high"]
    assert "interval over groups" in report.tables["test/recall"].note


def test_a_classifiers_labels_come_with_their_source_their_audit_and_their_leaks(
    evaluate: Evaluates, world: Path, tmp_path: Path
) -> None:
    held = extra_pairs(world, "test")
    yes, missed = held[::2], held[1::2]
    folder = tmp_path / "revised"
    folder.mkdir()
    write_round(folder / "judgments.jsonl", yes, missed)
    leaked = sorted({image for _, image in held})[:3]
    (folder / "rounds" / "001").mkdir(parents=True)
    (folder / "rounds" / "002").mkdir()
    write_table(folder / "rounds.jsonl", [round_of(1), round_of(2, active=False)])
    write_table(folder / "rounds" / "001" / "ledger.jsonl", [candidate(*one, leaked=one[1] in leaked) for one in held])
    write_table(folder / "rounds" / "002" / "ledger.jsonl", [candidate(*held[-1], leaked=True)])
    report = evaluate(judgments=folder)
    rows = {(row[0], row[1], row[2]): row for row in report.tables["test/entailed"].rows}
    name = report.runs[0]
    gold, auto = rows[name, 10, "gold"], rows[name, 10, "classifier"]
    assert float(str(auto[3]).split()[0]) <= float(str(gold[3]).split()[0])
    assert "corrected" not in report.tables["test/entailed"].columns
    assert report.tables["test/entailed"].columns[-2:] == ("leaked %", "without leaked")
    assert float(str(auto[-2])) > 0
    dataset = read_dataset(world)
    side = gallery_splits(dataset)["test"]
    people = write_round(tmp_path / "people.jsonl", [*yes[:6], *missed[:4]], yes[6:8], worker="ann")
    judgments = [*read_verdicts(folder), *read_verdicts(people)]
    labels = labels_of(dataset, side, judgments, folder)[1]
    assert labels.source == "entailment:stand-in"
    assert labels.leaked is not None
    assert {side.images[place] for place in np.flatnonzero(labels.leaked)} == set(leaked)
    assert (labels.audit, labels.audited) == ((), 12)
    assert labels.entailed.judged is not None
    assert len(labels.entailed.judged.pairs()[0]) == len(set(held))


def round_of(number: int, active: bool = True) -> Round:
    return Round(number, active, "x", "", "stand-in", "", 0.5, "given", 0, 0, 0, 0, 0, "")


def candidate(caption: str, image: str, leaked: bool) -> CandidateRow:
    return CandidateRow(image, caption, "x", "image", 1, 0.0, 0.5, "added", "", leaked=leaked)


def test_answers_about_a_rounds_sample_are_found_where_the_project_keeps_them(
    evaluate: Evaluates, world: Path, tmp_path: Path
) -> None:
    held = extra_pairs(world, "test")
    yes, no = held[:12], held[12:40]
    folder = tmp_path / "revised"
    (folder / "rounds" / "001").mkdir(parents=True)
    write_round(folder / "judgments.jsonl", yes, no)
    write_table(folder / "rounds.jsonl", [round_of(1)])
    drawn = [AuditSample(image, caption, "added", "added", 120, 3, 0.9, 1) for caption, image in yes[:3]]
    drawn += [AuditSample(image, caption, "far", "rejected", 800, 4, 0.1, 20) for caption, image in no[:4]]
    drawn += [AuditSample(image, caption, "near", "rejected", 200, 4, 0.4, 2) for caption, image in no[4:8]]
    write_table(folder / "rounds" / "001" / "strata.jsonl", drawn)
    votes = [("ann", yes[:3], 1.0), ("bob", yes[:2], 1.0), ("bob", yes[2:3], 0.0), ("cay", yes[2:3], 1.0), ("ann", no[4:7], 1.0),
             ("ann", [*no[:4], no[7]], 0.0)]  # fmt: skip
    rows = [
        Judgment(f"entail/{image}/{caption}", ENTAILMENT, worker, value)
        for worker, pairs, value in votes for caption, image in pairs
    ]  # fmt: skip
    write_judgments(tmp_path / "judgments", AggregatedAnswers(root=world, judgments=tuple(rows)))
    dataset = read_dataset(world)
    side = gallery_splits(dataset)["test"]

    def audit() -> tuple[tuple[tuple[str, int, int, int], ...], int]:
        people = people_of([folder, world], tmp_path)
        found = labels_of(dataset, side, read_verdicts(folder), folder, people)[1]
        assert isinstance(found.audit, tuple)
        held = [("called" if one.called else "not", one.population, one.sampled, one.positive) for one in found.audit]
        return tuple(held), found.audited

    # every stratum keeps the number of pairs it stands for
    assert audit() == ((("called", 120, 3, 3), ("not", 800, 4, 0), ("not", 200, 4, 3)), 11)
    # a later audit overrules the votes: it knows of ties and of who was blocked
    looked = [AuditVerdict(image, caption, "added", "added", False) for caption, image in yes[:1]]
    (tmp_path / "revision-audit" / "001").mkdir(parents=True)
    write_table(tmp_path / "revision-audit" / "001" / "looked.jsonl", looked)
    (kind, verb), content = ("revision_audit", "revise-labels"), Content(["looked.jsonl"], {}, {})
    finish(tmp_path / "revision-audit" / "001", kind=kind, verb=verb, config={}, parents=[], content=content)
    assert audit() == ((("called", 120, 3, 2), ("not", 800, 4, 0), ("not", 200, 4, 3)), 11)
    report = evaluate(judgments=folder)
    shown = [row for row in report.tables["test/entailed"].rows if row[2] == "classifier"]
    assert all(row[4] != "–" for row in shown)
    assert any("test: Entail@K" in note and "of 11 pairs" in note for note in report.notes)
    parents = {one.name: one.kind for one in open_artifact(report.results).manifest.parents}
    assert parents["revision-audit/001"] == "revision_audit"
    # what people said decides, not when it was merged
    for name in ("judgments", "revision-audit/001"):
        manifest = tmp_path / name / "manifest.json"
        manifest.write_bytes(manifest.read_bytes() + b"\n")
    assert evaluate(judgments=folder).up_to_date
    shutil.rmtree(tmp_path / "judgments")
    write_judgments(tmp_path / "judgments", AggregatedAnswers(root=world, judgments=tuple(rows[1:])))
    assert not evaluate(judgments=folder).up_to_date
    shutil.rmtree(tmp_path / "judgments")
    write_judgments(tmp_path / "judgments", AggregatedAnswers(root=world, judgments=tuple(rows)))
    (tmp_path / "revision-audit" / "001" / "looked.jsonl").write_text("")
    with pytest.raises(DataError, match=r"looked\.jsonl was changed"):
        people_of([folder], tmp_path)
    # without rounds answers to the tasks of a project are gold labels all the same
    assert people_of([world], tmp_path).answers == tuple(sorted(rows, key=lambda row: row.key()))
    assert people_of([world], tmp_path / "other").answers == ()


def coco_side() -> GallerySplit:
    images = tuple(f"val/COCO_val2014_{number:012d}.jpg" for number in (3, 7, 9))
    captions = tuple(f"val/{number}" for number in (10, 11, 12, 13))
    written = ((0, 0), (1, 1), (2, 1), (3, 2))
    return GallerySplit("valid", ("val",), images, (0, 0, 0), captions, captions, (0, 0, 0, 0), written)


def test_published_ground_truth_is_found_by_cocos_numbers(tmp_path: Path) -> None:
    side = coco_side()
    (tmp_path / "eccv_image_to_caption.json").write_text('{"3": [10, 12, 999], "5": [10]}')
    (tmp_path / "eccv_caption_to_image.json").write_text('{"12": [3, 7]}')
    truths = read_truths(tmp_path, side)
    assert list(truths) == ["eccv"]
    vectors = Vectors(
        np.eye(3, dtype=np.float32), np.array([[0.9, 0, 0], [0.5, 1, 0], [0.1, 1, 0], [0, 0, 1]], np.float32)
    )
    columns = measuring.gallery_columns(side, vectors, truths, (1,))
    assert columns["ECCV TR R@1"].values.tolist() == [1.0]
    # of three right ones the first is found, one is not scored, one stands third
    assert columns["ECCV TR R-Precision"].values == pytest.approx([2 / 3])
    assert columns["ECCV TR mAP@R"].values == pytest.approx([(1 + 2 / 3) / 3])
    assert columns["ECCV IR R-Precision"].values.tolist() == [1.0]
    assert columns["ECCV IR R@1"].rows.tolist() == [1]
    (bare := tmp_path / "none").mkdir()
    with pytest.raises(DataError, match=r"holds neither cxc_image_to_caption\.json nor eccv_image_to_caption\.json"):
        read_truths(bare, side)
    with pytest.raises(UsageError, match="no folder nowhere"):
        read_truths(Path("nowhere"), side)


def test_the_numbers_of_other_pictures_and_sentences_are_none_of_cocos(tmp_path: Path) -> None:
    images = ("test/36979.jpg", "test/1000092795.jpg", "test/000000000007.jpg")
    captions = ("test/10", "test/11", "test/12")
    side = GallerySplit("test", ("test",), images, (0, 0, 0), captions, captions, (0, 0, 0), ((0, 0), (1, 1), (2, 2)))
    assert coco_indices(side) == CocoIndices({"coco/7": 2}, {"coco/12": 2})
    (tmp_path / "eccv_image_to_caption.json").write_text('{"36979": [10, 11]}')
    (tmp_path / "eccv_caption_to_image.json").write_text('{"10": [36979]}')
    assert read_truths(tmp_path, side) == {}


def test_similarities_of_cxc_go_with_cosines_of_each_kind(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    images = tuple(f"val/COCO_val2014_{number:012d}.jpg" for number in range(30))
    captions = tuple(f"val/{100 + number}" for number in range(60))
    written = tuple((caption, caption // 2) for caption in range(60))
    side = GallerySplit("valid", ("val",), images, (0,) * 30, captions, captions, (0,) * 60, written)
    vectors = Vectors(*(rng.standard_normal((count, 4)).astype(np.float32) for count in (30, 60)))
    other = Vectors(-vectors.queries, vectors.candidates)
    names = {"c": [f"COCO_val2014:sentid:{100 + one}" for one in range(60)], "i": [Path(one).name for one in images]}
    ends = {"sits": ("caption,image", "ci"), "sis": ("image1,image2", "ii"), "sts": ("caption1,caption2", "cc")}
    for name, (header, kinds) in ends.items():
        arrays = [vectors.candidates if kind == "c" else vectors.queries for kind in kinds]
        lines = [f"{header},agg_score,sampling_method", "x,y,6.0,z"]
        for _ in range(120):
            a, b = rng.integers(0, 30, 2)
            # ratings that go with the cosines, but for STS where they go against them
            way = -1 if name == "sts" else 1
            rating = 2.5 + way * 2.4 * np.tanh(arrays[0][a] @ arrays[1][b] / 8)
            lines.append(f"{names[kinds[0]][a]},{names[kinds[1]][b]},{rating:.9f},c2i_intrasim")
        (tmp_path / f"{name}_val.csv").write_text("\n".join(lines) + "\n")
    assert read_truths(tmp_path, side) == {}
    ratings = measuring.ratings_of(side, measuring.read_ratings(tmp_path, Silent()))
    assert [one.kind for one in ratings] == ["SITS", "SIS", "STS"]
    rhos = measuring.correlated(ratings, [vectors], (0, 0))
    assert [round(rho.value or 0, 6) for rho in rhos.values()] == [1.0, 1.0, -1.0]
    # of two seeds the mean: one of them has every picture turned round
    assert measuring.correlated(ratings, [vectors, other], (0, 0))["SITS"].value == pytest.approx(0)
    table = measuring.similarity_table(side, {"run": rhos})
    assert table is not None
    assert table.rows == (("run", "100.0 ± 0.0", "100.0 ± 0.0", "-100.0 ± 0.0"),)
    measures = {one.measure for one in measuring.similarity_figures(side, {"run": rhos})}
    assert measures == {"rho SITS", "rho SIS", "rho STS"}
    of_pairs = measuring.correlated(ratings, [Matrix(vectors.queries @ vectors.candidates.T)], (0, 0))
    assert {kind: rho.value for kind, rho in of_pairs.items()} == {"SITS": rhos["SITS"].value}
    table = measuring.similarity_table(side, {"run": rhos, "pairs": of_pairs})
    assert table is not None
    assert table.rows[1] == ("pairs", "100.0 ± 0.0", "–", "–")
    (tmp_path / "sis_val.csv").write_text("a,b\n1,2\n")
    with pytest.raises(DataError, match=r"sis_val\.csv:1: .*header"):
        measuring.read_ratings(tmp_path, Silent())


def test_only_cocos_test_pictures_in_their_own_order_are_coco_1k(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(galleries, "COCO_TEST", 3)
    names = [f"test/COCO_val2014_{number:012d}.jpg" for number in (8, 2, 5)]
    assert galleries.is_coco_test("test", names)
    assert not galleries.is_coco_test("test", sorted(names))
    assert not galleries.is_coco_test("valid", names)
    assert not galleries.is_coco_test("test", names[:2])
    assert not galleries.is_coco_test("test", [name.replace("COCO_val2014_", "") for name in names])


def test_cocos_test_pictures_are_also_searched_in_five_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(galleries, "COCO_TEST", 10)
    rng = np.random.default_rng(0)
    owners = np.repeat(np.arange(10), rng.integers(1, 4, 10))
    names = tuple(map(str, range(len(owners))))
    written = tuple((caption, int(image)) for caption, image in enumerate(owners))
    images = tuple(f"test/COCO_val2014_{number}.jpg" for number in (7, 1, 9, 2, 0, 3, 8, 4, 6, 5))
    side = GallerySplit("test", ("test",), images, (0,) * 10, names, names, (0,) * len(owners), written)
    pictures = rng.standard_normal((10, 4)).astype(np.float32)
    vectors = Vectors(pictures, (pictures[owners] + rng.standard_normal((len(owners), 4))).astype(np.float32))
    columns = measuring.gallery_columns(side, vectors, {}, (1,))
    scores = vectors.queries @ vectors.candidates.T
    hits = []
    for caption, image in enumerate(owners):
        rivals = np.arange(image // 2 * 2, image // 2 * 2 + 2)
        hits.append(float(scores[image, caption] == scores[rivals, caption].max()))
    assert columns["1K IR@1"].values.tolist() == hits
    assert columns["IR@1"].values.mean() <= np.mean(hits)
    folds = [np.mean([hit for hit, image in zip(hits, owners, strict=True) if image // 2 == fold]) for fold in range(5)]
    clusters = Clusters(np.arange(10), np.random.default_rng(0), 50)
    (interval,) = ratio_intervals([columns["1K IR@1"]], clusters)
    assert interval.value == pytest.approx(np.mean(folds))


def test_recall_that_could_only_be_everything_is_left_out_with_a_note() -> None:
    owners = np.repeat(np.arange(7), 3)
    names = tuple(map(str, range(21)))
    written = tuple((caption, int(image)) for caption, image in enumerate(owners))
    side = GallerySplit("test", ("test",), names[:7], (0,) * 7, names, names, (0,) * 21, written)
    vectors = Vectors(*(np.random.default_rng(0).standard_normal((count, 3)).astype(np.float32) for count in (7, 21)))
    told = {
        (1, 5): [], (1, 7, 10): ["IR@7", "IR@10"], (20, 21, 1000): ["IR@20", "IR@21", "IR@1000", "TR@21", "TR@1000"]
    }  # fmt: skip
    for ks, left in told.items():
        every = {f"{way}@{k}" for way in ("TR", "IR") for k in ks}
        assert set(measuring.gallery_columns(side, vectors, {}, ks)) == every - set(left)
        assert sorted(galleries.pointless(side, ks)) == sorted(left)
        assert bool(galleries.pointless_note(side, ks)) == bool(left)
    (note,) = galleries.pointless_note(side, (5, 7))
    assert note.startswith("test: IR@7 ")
    assert "21 captions or 7 pictures" in note
    assert galleries.pointless(replace(side, galleries=("a", "b"), image_galleries=(0,) * 3 + (1,) * 4), (3, 4)) == [
        "IR@4"
    ]
    # a picture alone: nothing else is left
    alone = GallerySplit("test", ("test",), names[:1], (0,), names[:1], names[:1], (0,), ((0, 0),))
    assert set(measuring.gallery_columns(alone, vectors.part(np.arange(1), np.arange(1)), {}, (1, 5))) == {
        "TR@1",
        "IR@1",
    }


def test_each_gallery_of_a_side_is_searched_by_itself() -> None:
    rng = np.random.default_rng(1)
    owners = np.repeat(np.arange(40), 2)
    names = tuple(map(str, range(80)))
    halves = (0,) * 20 + (1,) * 20
    written = tuple((caption, int(image)) for caption, image in enumerate(owners))
    side = GallerySplit("", ("a", "b"), names[:40], halves, names, names, (0,) * 40 + (1,) * 40, written)
    vectors = Vectors(*(rng.standard_normal((count, 3)).astype(np.float32) for count in (40, 80)))
    unit = Vectors(*(v / np.linalg.norm(v, axis=1, keepdims=True) for v in (vectors.queries, vectors.candidates)))
    columns = measuring.gallery_columns(side, unit, {}, (1,))
    half = np.arange(20), np.arange(40)
    first = GallerySplit("", ("a",), names[:20], halves[:20], names[:40], names[:40], (0,) * 40, written[:40])
    alone = measuring.gallery_columns(first, unit.part(*half), {}, (1,))
    assert columns["IR@1"].values[:40].tolist() == alone["IR@1"].values.tolist()
    known = [
        PairLabels(from_pairs(owners[:n], np.arange(n)), from_pairs(owners[:n], np.arange(n)), "gold") for n in (80, 40)
    ]
    both = measuring.entailed(side, [unit], Labels(known[0], "all"))
    one = measuring.entailed(first, [unit.part(*half)], Labels(known[1], "all"))
    assert both is not None
    assert one is not None
    assert both.written[:20].tolist() == one.written.tolist()


def test_an_evaluation_that_was_killed_anywhere_while_it_wrote_ends_in_the_same_bytes(
    evaluate: Evaluates, encoders: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def held(folder: Path) -> dict[str, bytes]:
        return {str(one.relative_to(folder)): one.read_bytes() for one in folder.rglob("*") if one.is_file()}

    few: dict[str, Any] = {"runs": (encoders[0],), "resamples": 20}
    before, whole = (evaluate(out=tmp_path / str(seed), seed=seed, **few).results for seed in (0, 1))
    real = Path.replace
    for last in (0, 2, 5, 9):
        out = tmp_path / f"killed{last}"
        shutil.copytree(before, out)
        left = iter(range(last))

        def dying(file: Path, target: Path, left: Iterator[int] = left) -> Path:
            if next(left, None) is None:
                raise KeyboardInterrupt  # no `except OSError` tidies up behind it, as none does behind kill -9
            return real(file, target)

        with monkeypatch.context() as patched:
            patched.setattr(Path, "replace", dying)
            with pytest.raises(KeyboardInterrupt):
                evaluate(out=out, seed=1, **few)
        # the earlier result stays in force until the new one is whole
        assert held(out).get("manifest.json") in (None, held(before)["manifest.json"])
        assert not evaluate(out=out, seed=1, **few).up_to_date
        assert held(out) == held(whole)

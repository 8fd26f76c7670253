"""`ctxr eval` on documents: figures against a literal loop, what is skipped, and what is refused."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ctxr.datasets.documents import Document, documents_of
from ctxr.datasets.open import read_dataset
from ctxr.engine.report import Table
from ctxr.errors import CtxrError, DataError, UsageError
from ctxr.metrics.compare import spearman
from ctxr.metrics.links import auc, explained, precision_at, spread
from ctxr.problems.links.learner import OpenLinks
from ctxr.problems.links.question import COMPONENTS
from ctxr.problems.links.recipe import CurveRow
from ctxr.problems.results import QueryResult
from ctxr.store.artifacts import Content, Parent, finish
from ctxr.store.hashing import sha256_file
from ctxr.store.tables import read_table, write_table
from tests.pipelines.evaluated import evaluate
from tests.problems.links.written import write_documents

Value = Callable[[Document, int, int], float]
"""Score of a sentence and an image of a document."""


def score(
    file: Path, dataset: Path, value: Value, splits: tuple[str, ...] = ("valid", "test"), scorer: str = ""
) -> Path:
    """A line for each sentence and image of the documents of some splits."""
    more = {"scorer": scorer} if scorer else {}
    lines = [
        {"query": sentence, "candidate": image, "value": value(one, row, column), **more}
        for one in documents_of(read_dataset(dataset))
        if one.split in splits
        for row, sentence in enumerate(one.sentences)
        for column, image in enumerate(one.images)
    ]
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return file


def noisy(skill: float, seed: int = 0) -> Value:
    """Links score higher the more skill there is; with ties."""
    rng = np.random.default_rng(seed)
    return lambda one, row, column: round(float(rng.normal() + skill * (one.links[row, column] == 1)), 1)


def counted_of(dataset: Path) -> list[Document]:
    """Test documents with links and with judged pairs that are none."""
    documents = [one for one in documents_of(read_dataset(dataset)) if one.split == "test"]
    return [one for one in documents if {0.0, 1.0} <= set(one.links.ravel().tolist())]


def cells(table: Table) -> dict[Any, tuple[Any, ...]]:
    return {row[0]: row[1:] for row in table.rows}


def shares(table: Table) -> dict[str, list[float]]:
    return {run: [float(cell.split()[0]) for cell in row] for run, row in cells(table).items()}


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_documents(tmp_path_factory.mktemp("links") / "documents")


def test_figures_are_means_over_documents_with_links_and_others(dataset: Path, tmp_path: Path) -> None:
    value = noisy(1.0)
    kept: dict[tuple[str, int, int], float] = {}

    def remembered(one: Document, row: int, column: int) -> float:
        return kept.setdefault((one.id, row, column), value(one, row, column))

    report = evaluate(dataset, score(tmp_path / "run.jsonl", dataset, remembered), recall="2", workdir=tmp_path)
    assert report.tables["test/links"].columns == ("run", "AUC", "p@1", "p@2", "p@5")
    documents = [one for one in documents_of(read_dataset(dataset)) if one.split == "test"]
    counted = counted_of(dataset)
    expected = []
    for one in counted:
        table = np.array(
            [[kept[one.id, row, column] for column in range(len(one.images))] for row in range(len(one.sentences))]
        )
        expected.append([auc(table, one.links), *(precision_at(table, one.links, k) for k in (1, 2, 5))])
    assert shares(report.tables["test/links"])["run"] == [
        round(100 * value, 1) for value in np.mean(np.array(expected, float), axis=0)
    ]
    density = round(100 * float(np.mean([np.nanmean(one.links) for one in counted])), 1)
    assert shares(report.tables["test/links"])["random"] == [50.0, density, density, density]
    note = report.tables["test/links"].note
    assert f"over {len(counted)} of {len(documents)} documents" in note
    assert "skipped: 2 without a link" in note
    assert ", 1 without a judged" in note


def test_one_score_for_all_pairs_is_as_good_as_random(dataset: Path, tmp_path: Path) -> None:
    report = evaluate(dataset, score(tmp_path / "same.jsonl", dataset, lambda *_: 0.3), compare=True, workdir=tmp_path)
    table = shares(report.tables["test/links"])
    assert table["same"] == table["random"]
    rows = report.tables["valid/differences"].rows
    assert [row[:4] for row in rows] == [("same", "AUC", "random", "+0.0 (–)")]


def test_runs_are_compared_with_random_scores_and_with_each_other(dataset: Path, tmp_path: Path) -> None:
    skills = {"dull": 0.5, "keen": 9.0}
    files = [score(tmp_path / f"{name}.jsonl", dataset, noisy(skill, 3)) for name, skill in skills.items()]
    report = evaluate(dataset, *files, compare=True, permutations=3000, workdir=tmp_path)
    figures = json.loads((report.results / "figures.json").read_text())
    value = {(row["split"], row["run"], row["measure"]): row["value"] for row in figures["figures"]}
    rows = figures["differences"]
    assert {(row["run"], row["against"]) for row in rows} == {("dull", "random"), ("keen", "random"), ("keen", "dull")}
    for row in rows:
        chance = 0.5 if row["part"] == "AUC" else value[row["split"], "keen", "chance"]
        base = value.get((row["split"], row["against"], row["part"]), chance)
        assert row["value"] == pytest.approx(value[row["split"], row["run"], row["part"]] - base)
    by_key = {(row["split"], row["run"], row["against"], row["part"]): row for row in rows}
    assert by_key["test", "keen", "random", "AUC"]["corrected"] < 0.05
    assert cells(report.tables["test/links"])["keen"][0].startswith("100.0 (")
    ((_, _, rho),) = report.tables["valid/spearman"].rows
    assert rho is None  # keen finds all links of all documents


def test_methods_are_alike_as_their_documents_are_ranked(dataset: Path, tmp_path: Path) -> None:
    files = [score(tmp_path / f"{name}.jsonl", dataset, noisy(1, seed)) for seed, name in enumerate("ab")]
    report = evaluate(dataset, *files, workdir=tmp_path)
    assert report.tables["test/spearman"].rows == (("b", "a", spearman(*(aucs_of(dataset, file) for file in files))),)


def aucs_of(dataset: Path, scores: Path) -> Any:
    """Of every counted document."""
    rows = map(json.loads, scores.read_text().splitlines())
    value = {(row["query"], row["candidate"]): row["value"] for row in rows}
    tables = ((one, [[value[s, i] for i in one.images] for s in one.sentences]) for one in counted_of(dataset))
    return np.array([auc(table, one.links) for one, table in tables], float)


def test_seeds_are_averaged_document_by_document(dataset: Path, tmp_path: Path) -> None:
    run, rows = tmp_path / "runs" / "links-dc", ""
    origin = Parent("dataset", "dataset", sha256_file(dataset / "manifest.json"))
    for seed in (0, 1):
        name = f"links-dc/seed{seed}"
        rows += score(tmp_path / f"seed{seed}.jsonl", dataset, noisy(1, seed), scorer=name).read_text()
        (run / f"seed{seed}").mkdir(parents=True)
        epochs = [CurveRow(epoch, 1.0, 0.5 / epoch, 0.6 + 0.1 * epoch * (-1) ** seed) for epoch in (1, 2, 3)]
        write_table(run / f"seed{seed}" / "curve.jsonl", epochs)
        (run / f"seed{seed}" / "config.json").write_text("{}")
    (run / "scores.jsonl").write_text(rows)
    files = ["scores.jsonl", *(f"seed{seed}/{name}" for seed in (0, 1) for name in ("curve.jsonl", "config.json"))]
    content = Content(files, {}, {})
    finish(run, kind="run", verb="train", config={"variant": "links-dc"}, parents=[origin], content=content)
    report = evaluate(dataset, "links-dc", workdir=tmp_path)
    ((name, count, mean, each),) = report.tables["test/seeds"].rows
    assert (name, count) == ("links-dc", 2)
    whole = shares(report.tables["test/links"])["links-dc"][0]
    assert float(mean.split()[0]) == whole == pytest.approx(np.mean([float(one) for one in each.split(", ")]), abs=0.1)
    curve = report.tables["curve/links-dc"]
    assert curve.columns == ("epoch", "loss", "AUC")
    assert curve.rows == tuple((epoch, 0.5 / epoch, pytest.approx(0.6)) for epoch in (1, 2, 3))
    assert "seed0 -1.000, seed1 1.000" in curve.note
    assert not [note for note in report.notes if "another dataset" in note]


def test_spread_and_content_explain_auc(dataset: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    vectors: list[tuple[Any, Any]] = []
    made_by = OpenLinks.vectors

    def keep(*arguments: Any) -> Any:
        vectors.extend(made := made_by(*arguments))
        return made

    monkeypatch.setattr(OpenLinks, "vectors", keep)
    larger = write_documents(tmp_path / "more", count=48)
    file = score(tmp_path / "run.jsonl", larger, noisy(1), ("test",))
    report = evaluate(larger, file, encoder="ctxr-tiny", workdir=tmp_path, device="cpu")
    (row,) = report.tables["test/explained"].rows
    aucs = aucs_of(larger, file)
    spreads = np.array([[spread(one) for one in pair] for pair in vectors])
    means = np.array([np.concatenate([one.mean(0) for one in pair]) for pair in vectors])
    _, directions = np.linalg.eigh(np.cov(means.T))
    content = (means - means.mean(0)) @ directions[:, ::-1][:, :COMPONENTS]
    for place, columns in ((1, spreads), (3, np.hstack([spreads, content]))):
        share = explained(aucs, columns)
        assert share is not None
        assert row[place] == f"{100 * share:.1f}"
        left = (1 - share) * (len(aucs) - 1) / (len(aucs) - columns.shape[1] - 1)
        assert row[place + 1] == f"{100 * (1 - left):.1f}"


def test_too_few_documents_explain_nothing_and_none_without_pictures(dataset: Path, tmp_path: Path) -> None:
    file = score(tmp_path / "run.jsonl", dataset, noisy(1))
    report = evaluate(dataset, file, encoder="ctxr-tiny", workdir=tmp_path, device="cpu")
    assert cells(report.tables["valid/explained"])["run"][2:] == ("–", "–")
    bare = write_documents(tmp_path / "bare", pictures=False)
    report = evaluate(bare, file, encoder="ctxr-tiny", workdir=tmp_path / "other")
    assert "test/explained" not in report.tables
    assert [note for note in report.notes if note.startswith("test: spread")]


def test_whole_documents_are_left_out_where_a_pair_has_no_score(dataset: Path, tmp_path: Path) -> None:
    file = score(tmp_path / "run.jsonl", dataset, noisy(1), ("test",))
    lines = file.read_text().splitlines()
    lost = json.loads(lines.pop(-1))
    file.write_text("\n".join(lines))
    with pytest.raises(DataError, match=f"{lost['query']!r}.*{lost['candidate']!r}"):
        evaluate(dataset, file, workdir=tmp_path)
    report = evaluate(dataset, file, partial=True, workdir=tmp_path)
    count = sum(one.split == "test" for one in documents_of(read_dataset(dataset)))
    assert f"{count - 1} documents" in report.tables["test/links"].note
    assert [note for note in report.notes if note.startswith(f"test: 1 of {count} documents")]
    file.write_text(lines[0])
    assert "test: 0 of" not in str(evaluate(dataset, file, partial=True, compare=True, workdir=tmp_path).notes)


@pytest.mark.parametrize(
    ("name", "sentence", "image", "error", "match"),
    [
        ("run", "d99/s0", "d00/i0", DataError, "'d99/s0' is not asked"),
        ("run", "d00/s0", "d01/i0", DataError, "'d01/i0'.*'d00/s0'"),
        ("random", "d00/s0", "d00/i0", UsageError, "'random'"),
    ],
)
def test_scores_of_other_documents_and_the_name_of_the_baseline_are_refused(
    name: str, sentence: str, image: str, error: type[CtxrError], match: str, dataset: Path, tmp_path: Path
) -> None:
    file = tmp_path / f"{name}.jsonl"
    file.write_text(json.dumps({"query": sentence, "candidate": image, "value": 1}))
    with pytest.raises(error, match=match):
        evaluate(dataset, file, workdir=tmp_path)


def test_rows_hold_the_scores_of_each_sentence(dataset: Path, tmp_path: Path) -> None:
    file = score(tmp_path / "run.jsonl", dataset, lambda one, row, column: float(column == 1))
    report = evaluate(dataset, file, workdir=tmp_path)
    rows = {row.query: row for row in read_table(report.results / "per_query.jsonl", QueryResult)}
    for one in documents_of(read_dataset(dataset)):
        for number, sentence in enumerate(one.sentences):
            row = rows[sentence]
            linked = tuple(image for image, link in zip(one.images, one.links[number], strict=True) if link == 1)
            assert (row.kind, row.image_set, row.targets, row.candidates) == ("document", one.id, linked, one.images)
            assert row.picks == (one.images[1],)
            assert row.scores == tuple(float(place == 1) for place in range(len(one.images)))
            assert row.accuracy == (one.images[1] in linked)
            assert (row.reciprocal_rank > 0) == bool(linked)


def test_an_evaluation_is_up_to_date_and_byte_equal(dataset: Path, tmp_path: Path) -> None:
    file = score(tmp_path / "run.jsonl", dataset, noisy(1))
    first, again = (evaluate(dataset, file, compare=True, workdir=tmp_path) for _ in range(2))
    assert (first.up_to_date, again.up_to_date) == (False, True)
    assert first.tables == again.tables
    other = evaluate(dataset, file, compare=True, workdir=tmp_path / "other")
    for name in ("figures.json", "results.md", "results.tex", "per_query.jsonl", "manifest.json"):
        assert (first.results / name).read_bytes() == (other.results / name).read_bytes()


def test_intervals_are_over_groups_where_asked_and_options_for_other_questions_do_no_harm(
    dataset: Path, tmp_path: Path
) -> None:
    file = score(tmp_path / "run.jsonl", dataset, noisy(1))
    others = {"trec": True, "rerank": 0, "positives": tmp_path, "judgments": tmp_path}
    plain, more = (evaluate(dataset, file, split="test", workdir=tmp_path, **own) for own in ({}, others))
    assert plain.tables == more.tables
    report = evaluate(dataset, file, cluster="group", split="test", workdir=tmp_path)
    assert "over groups" in report.tables["test/links"].note
    assert not [name for name in report.tables if name.startswith("valid")]


def test_documents_without_a_judged_pair_have_no_figures(tmp_path: Path) -> None:
    dataset = write_documents(tmp_path / "bare", count=3)  # no link, links alone, no judged pair
    file = score(tmp_path / "run.jsonl", dataset, noisy(1))
    report = evaluate(dataset, file, compare=True, encoder="ctxr-tiny", workdir=tmp_path)
    assert report.tables["test/links"].rows == (("random", "50.0", "–", "–"), ("run", "–", "–", "–"))
    assert not {"test/differences", "test/explained"} & report.tables.keys()

"""Documents exported for others: what is read back is what was known, or what a run says."""

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ctxr.datasets.documents import Document, documents_of
from ctxr.datasets.open import read_dataset
from ctxr.datasets.readers.artifact import read_artifact
from ctxr.datasets.writers.documents import write_links
from ctxr.datasets.writers.job import ExportJob
from ctxr.engine.progress import Silent
from ctxr.errors import DataError, UsageError
from ctxr.metrics.links import assign
from ctxr.pipelines.curation.config import BuildDocuments
from ctxr.pipelines.curation.documents import run as build_documents
from ctxr.pipelines.modelling.config import Train
from ctxr.pipelines.modelling.train import run as train
from ctxr.pipelines.sharing.config import Export
from ctxr.pipelines.sharing.export import run as export_run
from ctxr.store.records import Judgment, Score
from ctxr.store.scores import write_scores
from ctxr.store.tables import read_table
from tests.exports import export
from tests.pipelines.curation.test_build_sets import same_tree
from tests.pipelines.world_dataset import write_world_dataset


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("documents")
    world = write_world_dataset(folder / "world", sets=5)
    build_documents(BuildDocuments("recipe", world, out=folder / "documents", train=5, valid=1, test=0))
    return folder / "documents"


@pytest.fixture(scope="module")
def scored(built: Path) -> Callable[[Any], float]:
    """A file of scores of all but the first document, and the score of a pair."""
    rng, rows = np.random.default_rng(5), []
    for one in documents_of(read_artifact(built))[1:]:
        rows += [Score(text, image, "mine", float(rng.normal())) for text in one.sentences for image in one.images]
    write_scores(built.parent / "scores.jsonl", rows)
    values = {(row.query, row.candidate): row.value for row in rows}
    return values.__getitem__


def weights_of(document: Document, scored: Callable[[Any], float]) -> np.ndarray:
    return np.array([[scored((text, image)) for image in document.images] for text in document.sentences])


def literal(row: Any) -> np.ndarray:
    """The links of a row of the authors' JSON; -1 on both sides is 0, a null on either side NaN."""
    images, texts, _ = row
    links = np.zeros((len(texts), len(images)))
    for column, (_, text) in enumerate(images):
        links[:, column] = np.nan if text is None else 0
    for column, (_, text) in enumerate(images):
        if text is not None and text >= 0:
            links[text, column] = 1
    for row_number, (_, image) in enumerate(texts):
        if image is not None and image >= 0:
            assert links[row_number, image] == 1
    return links


def test_known_links_are_read_back_as_they_were(built: Path, tmp_path: Path) -> None:
    export(built, tmp_path / "out", "links")
    splits = json.loads((tmp_path / "out" / "documents.json").read_text())
    rows = {row[2]: (side, row) for side, rows in splits.items() for row in rows}
    for one in documents_of(read_artifact(built)):
        side, row = rows[one.id]
        assert (side, [name for name, _ in row[0]]) == ({"valid": "val"}.get(str(one.split), one.split), [*one.images])
        assert [text for text, _ in row[1]] == [*one.texts]
        np.testing.assert_array_equal(literal(row), one.links)
        assert all((tmp_path / "out" / "images" / f"{name}.jpg").is_file() for name in one.images)
    export(built, tmp_path / "again", "links")
    assert same_tree(tmp_path / "out", tmp_path / "again")


def test_the_readers_read_what_was_written(built: Path, scored: Callable[[Any], float], tmp_path: Path) -> None:
    export(built, tmp_path / "links", "links")
    mine = str(built.parent / "scores.jsonl")
    export(built, tmp_path / "mmc4", "mmc4", run=mine)
    dataset, documents = read_dataset(tmp_path / "links" / "documents.json"), documents_of(read_artifact(built))
    assert (dataset.notes, all(image.sha256 for image in dataset.images.values())) == ((), True)
    for one, again in zip(sorted(documents, key=lambda one: one.id), documents_of(dataset), strict=True):
        assert (one.texts, one.images, one.split) == (again.texts, again.images, again.split)
        np.testing.assert_array_equal(one.links, again.links)
    read = {one.texts: one for one in documents_of(read_dataset(tmp_path / "mmc4"), "mmc4")}
    for one in documents[1:]:
        again = read[one.texts]
        assert again.split == one.split
        wanted = np.zeros(one.links.shape)
        wanted[assign(weights_of(one, scored))] = 1
        columns = [one.images.index(name) for name in again.images]
        np.testing.assert_array_equal(again.links, wanted[:, columns])


def test_the_assignment_of_a_run_is_written_as_links_and_as_judgments(
    built: Path, scored: Callable[[Any], float], tmp_path: Path
) -> None:
    report = export(built, tmp_path / "out", "links", run=str(built.parent / "scores.jsonl"))
    assert len(report.notes) == 1
    renamed = shutil.copy(built.parent / "scores.jsonl", tmp_path / "renamed.jsonl")
    assert export(built, tmp_path / "out", "links", run=str(renamed)).up_to_date
    written = [row for side in json.loads((tmp_path / "out" / "documents.json").read_text()).values() for row in side]
    rows = {row[2]["id"]: row for row in written}
    assert {row.worker for row in read_dataset(tmp_path / "out").judgments} == {row[2]["worker"] for row in written}
    said = {(row.query, row.candidate): row for row in read_table(tmp_path / "out" / "judgments.jsonl", Judgment)}
    unscored, *documents = documents_of(read_artifact(built))
    assert np.isnan(literal(rows[unscored.id])).all()
    assert {row.worker for row in said.values()} == {"mine"}
    for one in documents:
        wanted = np.zeros(one.links.shape)
        wanted[assign(weights_of(one, scored))] = 1
        np.testing.assert_array_equal(literal(rows[one.id]), wanted)
        values = [[said[text, image].value for image in one.images] for text in one.sentences]
        np.testing.assert_array_equal(values, wanted)


def test_a_run_is_asked_for_every_document_also_for_those_it_learned_from(built: Path, tmp_path: Path) -> None:
    changes = ("encoder=ctxr-tiny", "text=encoder", "width=4", "epochs=1", "batch=6")
    train(Train("links-dc", built, changes=changes, workdir=tmp_path / "work"))
    scored = {score.query for score in read_table(tmp_path / "work" / "runs" / "links-dc" / "scores.jsonl", Score)}
    asked = {query: one.split for one in documents_of(read_artifact(built)) for query in one.sentences}
    assert {asked[query] for query in asked.keys() - scored} == {"train"}
    options: dict[str, Any] = {"input": built, "to": "links", "run": "links-dc", "workdir": tmp_path / "work"}
    export_run(Export(**options, out=tmp_path / "out"))
    assert {row.query for row in read_table(tmp_path / "out" / "judgments.jsonl", Judgment)} == asked.keys()
    assert export_run(Export(**options, out=tmp_path / "out")).up_to_date
    rows = [row for side in json.loads((tmp_path / "out" / "documents.json").read_text()).values() for row in side]
    assert [row for row in rows if np.isnan(literal(row)).any()] == []


def test_mmc4_holds_the_similarities_and_what_they_assign(
    built: Path, scored: Callable[[Any], float], tmp_path: Path
) -> None:
    report = export(built, tmp_path / "out", "mmc4", run=str(built.parent / "scores.jsonl"))
    assert report.left_out[0].startswith("1 document ")
    lines = [
        json.loads(line)
        for side in ("train", "valid")
        for line in (tmp_path / "out" / f"{side}.jsonl").read_text().splitlines()
    ]
    documents = {one.texts: one for one in documents_of(read_artifact(built))[1:]}
    assert len(lines) == len(documents)
    for line in lines:
        one = documents[tuple(line["text_list"])]
        weights = weights_of(one, scored)
        pairs = {(info["matched_text_index"], one.images.index(info["image_name"])) for info in line["image_info"]}
        assert pairs == {*zip(*(side.tolist() for side in assign(weights)), strict=True)}
        for info, row in zip(line["image_info"], line["similarity_matrix"], strict=True):
            assert row == weights[:, one.images.index(info["image_name"])].tolist()
            assert info["matched_sim"] == row[info["matched_text_index"]]


def test_links_that_no_item_can_hold_are_counted(built: Path, tmp_path: Path) -> None:
    dataset = read_artifact(built)
    every = tuple(
        Judgment(text, image, "gold", 1.0)
        for one in documents_of(dataset)[:1]
        for text in one.sentences
        for image in one.images
    )
    job = ExportJob(replace(dataset, judgments=every), built, tmp_path, {}, 1, Silent())
    (sentence,) = write_links(job).left_out
    n, m = documents_of(dataset)[0].links.shape
    assert sentence.startswith(f"{(n - 1) * m} links ")
    rows = json.loads((tmp_path / "documents.json").read_text())["train"]
    assert literal(rows[0]).sum() == m


@pytest.mark.parametrize("to", ["hf", "webdataset"])
def test_formats_with_judgments_hold_documents(built: Path, tmp_path: Path, to: str) -> None:
    assert export(built, tmp_path / "out", to).left_out == []


def test_documents_that_others_keep_are_exported_with_the_assignment_of_a_scorer(
    tmp_path: Path, real_files: Path
) -> None:
    file = real_files / "documents" / "mmc4_example.jsonl"
    row, (one,) = json.loads(file.read_text()), documents_of(read_dataset(file))
    cells = [
        (text, image, row["similarity_matrix"][m][n])
        for n, text in enumerate(one.sentences)
        for m, image in enumerate(one.images)
    ]
    write_scores(tmp_path / "scores.jsonl", [Score(text, image, "clip", value) for text, image, value in cells])
    export(file, tmp_path / "out", "mmc4", run=str(tmp_path / "scores.jsonl"))
    written = json.loads((tmp_path / "out" / "unsplit.jsonl").read_text())
    assert [info["matched_text_index"] for info in written["image_info"]] == [2, 1]


@pytest.mark.parametrize("to", ["imagecode", "croissant", "fiftyone", "recipe"])
def test_other_formats_refuse_documents(built: Path, tmp_path: Path, to: str) -> None:
    with pytest.raises(DataError, match=f"{to} cannot hold"):
        export(built, tmp_path / "out", to)


@pytest.mark.parametrize(
    ("to", "by", "message"),
    [
        ("mmc4", "", "mmc4 holds similarities"),
        ("hf", "scores.jsonl", "--run scores.jsonl"),
        ("links", "nobody", "'nobody'"),
        ("links", "SEVERAL/seed1", "--run .*seed1"),
        ("links", "SEVERAL", ": a, b"),
    ],
)
def test_a_run_that_cannot_be_meant_is_refused(built: Path, tmp_path: Path, to: str, by: str, message: str) -> None:
    several = tmp_path / "several.jsonl"
    write_scores(several, [Score("q", "c", name, 0.5) for name in "ab"])
    with pytest.raises(UsageError, match=message):
        export(built, tmp_path / "out", to, run=by.replace("SEVERAL", str(several)))


def test_image_sets_are_no_documents_and_other_scores_are_of_no_document(built: Path, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="links cannot hold"):
        export(built.parent / "world", tmp_path / "out", "links")
    write_scores(tmp_path / "other.jsonl", [Score("q", "c", "other", 0.5)])
    with pytest.raises(DataError, match="scores no document"):
        export(built, tmp_path / "out", "links", run=str(tmp_path / "other.jsonl"))

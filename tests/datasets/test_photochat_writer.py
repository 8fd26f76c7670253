"""Dialogues in PhotoChat's released format: read back they are what they were, with their photos and a list of those that are missing."""

from dataclasses import replace
from pathlib import Path

import pytest
from msgspec import structs

from ctxr.datasets.dataset import Dataset
from ctxr.datasets.open import read_dataset
from ctxr.datasets.writers.job import ExportJob, ExportResult
from ctxr.datasets.writers.photochat import write
from ctxr.engine.progress import Silent
from ctxr.errors import DataError
from ctxr.store.records import Judgment
from tests.datasets.readers.test_photochat import put, row
from tests.releases import draw


def written(dataset: Dataset, out: Path) -> ExportResult:
    return write(ExportJob(dataset, out, out, {}, 1 << 20, Silent()))


def said(dataset: Dataset) -> list[object]:
    """All that a dataset holds, but for the places of pictures."""
    pictures = {one.id: (one.sha256, one.group, one.width) for one in dataset.images.values()}
    tables = [dataset.queries, dataset.texts, dataset.judgments, dataset.sets, dataset.splits, dict(dataset.payloads)]
    return [pictures, *tables]


def test_dialogues_are_read_back_as_they_were(tmp_path: Path) -> None:
    rows = [row(7), row("8b", labels="Hat"), row(9, "b", [(1, "Look\n\u201chere\u201d"), (1, None)])]
    put(tmp_path / "in", "train.json", rows)
    put(tmp_path / "in", "val.json", [row(7, "a b"), row("07", "c", labels="")])
    draw(put(tmp_path / "in", "unsplit.json", [row(0)]) / "b_o.jpg", 1)
    draw(tmp_path / "in" / "a b_o.png", 2)
    before = read_dataset(tmp_path / "in")
    result = written(before, tmp_path / "out")
    after = read_dataset(tmp_path / "out")
    assert said(after)[1:3] == said(before)[1:3]
    assert said(after) == said(before)
    listed = (tmp_path / "out" / "missing.txt").read_text().splitlines()
    assert listed == [f"{name} https://farm1.example/5/{name}.jpg" for name in ("a_o", "c_o")]
    assert [line.split()[:2] for line in result.left_out] == [["2", "photos"]]


def test_what_the_format_has_no_place_for_is_counted(tmp_path: Path) -> None:
    dataset = read_dataset(put(tmp_path, "train.json", [row(7), row(8, "b")]))
    other = replace(
        dataset,
        judgments=(*dataset.judgments, Judgment("train/7", "train/b_o", "worker-1", 1.0)),
        payloads={"dialogues": dataset.payloads["dialogues"][:1]},
    )
    left = written(other, tmp_path / "out").left_out
    assert [line.split()[:2] for line in left] == [
        [n, what] for n, what in (("1", "photo"), ("1", "query"), ("1", "photo"), ("1", "other"))
    ]


def test_a_dataset_without_a_shared_photo_is_refused(tmp_path: Path) -> None:
    dataset = replace(read_dataset(put(tmp_path, "train.json", [row(7)])), payloads={})
    with pytest.raises(DataError, match=dataset.name):
        written(dataset, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_ids_that_would_become_one_file_are_refused(tmp_path: Path) -> None:
    dataset = read_dataset(put(tmp_path, "train.json", [row(7), row(8, "b")]))
    one, other = dataset.payloads["dialogues"]
    moved = [structs.replace(one, id="d/1"), structs.replace(other, id="d_1")]
    queries = {"d/1": dataset.queries["train/7"], "d_1": dataset.queries["train/8"]}
    with pytest.raises(DataError, match=r"d/1.*d_1"):
        written(replace(dataset, payloads={"dialogues": tuple(moved)}, queries=queries), tmp_path / "out")


@pytest.mark.parametrize("name", ["dev_00.first9.json", "dev.json"])
def test_the_real_files_are_read_back_as_they_were(name: str, real_files: Path, tmp_path: Path) -> None:
    before = read_dataset(real_files / "photochat" / name)
    written(before, tmp_path)
    assert said(read_dataset(tmp_path)) == said(before)
    assert len((tmp_path / "missing.txt").read_text().splitlines()) == len(before.images)


def test_photos_are_found_and_missing_ones_listed_by_their_ids_in_open_images(tmp_path: Path) -> None:
    put(tmp_path, "test/test.json", [row(0, "here"), row(1, "gone")])
    names = {"here": "0a", "gone": "0b", "other": "0c"}
    lines = [f"{key},https://farm1.example/5/{name}_o.jpg" for name, key in names.items()]
    put(tmp_path, "images.csv", "\n".join(["ImageID,OriginalURL", *lines]))
    draw(tmp_path / "0a.jpg", 1)
    dataset = read_dataset(tmp_path)
    assert {name: image.path for name, image in dataset.images.items()} == {"test/here_o": "0a.jpg", "test/gone_o": ""}
    written(dataset, tmp_path / "out")
    assert (tmp_path / "out" / "missing.txt").read_text().split()[0] == "0b"

"""What is asked about sets: rounds, labels, several targets, and rows that refer to nothing."""

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ctxr.datasets.dataset import Dataset
from ctxr.datasets.open import read_dataset
from ctxr.datasets.readers.artifact import open_sets
from ctxr.datasets.writers import imagecode
from ctxr.datasets.writers.job import ExportJob
from ctxr.engine.progress import Silent
from ctxr.errors import DataError
from ctxr.store.records import Judgment, Query, Text
from tests.exports import export, rebuild
from tests.pipelines.curation.test_build_sets import same_tree
from tests.pipelines.inspection.test_order_check import write_copy


def job_of(dataset: Dataset, out: Path) -> ExportJob:
    out.mkdir(exist_ok=True)
    return ExportJob(dataset, dataset.root or out, out, {}, 10**9, Silent())


def gold(query: str, candidate: str, value: float = 1.0, round: int = 0) -> Judgment:
    return Judgment(query, candidate, "gold", value, round=round)


@pytest.fixture
def dataset(sets: Path) -> Dataset:
    """Sets without a question."""
    return open_sets(sets)


def ask(dataset: Dataset, judgments: list[Judgment], **query: Any) -> Dataset:
    """The dataset with one query `q` about its first video set of the training side."""
    image_set = next(one for one in dataset.sets if one.kind == "video" and dataset.split_of(one) == "train")
    asked = Query(**({"id": "q", "image_set": image_set.id, "texts": ("t",)} | query))
    return replace(
        dataset,
        texts={"t": Text("t", "the left one", "w")},
        queries={"q": asked},
        judgments=tuple(judgments),
    )


def test_a_later_round_of_gold_replaces_an_earlier(dataset: Dataset, tmp_path: Path) -> None:
    images = next(one for one in dataset.sets if one.kind == "video").images
    rows = [gold("q", images[4]), gold("q", images[4], 0.0, 1), gold("q", images[7], 1.0, 1)]
    assert job_of(ask(dataset, rows), tmp_path / "out").targets == {"q": [7]}


def test_targets_among_labels_are_positions_of_labels_and_no_business_of_imagecode(
    dataset: Dataset, tmp_path: Path
) -> None:
    asked = ask(dataset, [gold("q", "yes")], labels=("no", "yes"))
    job = job_of(asked, tmp_path / "out")
    assert job.targets == {"q": [1]}
    written = imagecode.write(job)
    assert written.left_out[0].startswith("1 queries ")
    assert not any(json.loads((tmp_path / "out" / "train_data.json").read_text()).values())


@pytest.mark.parametrize("targets", [[], [2, 5]])
def test_a_query_without_exactly_one_target_is_left_out_and_counted(
    dataset: Dataset, tmp_path: Path, targets: list[int]
) -> None:
    images = next(one for one in dataset.sets if one.kind == "video").images
    job = job_of(ask(dataset, [gold("q", images[position]) for position in targets]), tmp_path / "out")
    assert ": q." in imagecode.write(job).left_out[0]


def test_a_set_on_no_side_is_refused_by_imagecode_alone(dataset: Dataset, tmp_path: Path) -> None:
    from ctxr.datasets.writers import webdataset

    loose = replace(dataset, splits={})
    with pytest.raises(DataError, match="train, valid and test"):
        imagecode.write(job_of(loose, tmp_path / "a"))
    webdataset.write(job_of(loose, tmp_path / "b"))
    assert [file.name for file in (tmp_path / "b").iterdir()] == ["unsplit-000000.tar"]


def test_descriptions_travel_with_a_recipe(
    described: Path, exported: Callable[[str], Path], footage: Path, tmp_path: Path
) -> None:
    shutil.copytree(exported("recipe"), tmp_path / "mail")
    rebuild(tmp_path / "mail", footage, tmp_path / "rebuilt")
    for table in ("texts.jsonl", "queries.jsonl", "judgments.jsonl"):
        assert (tmp_path / "rebuilt" / table).read_bytes() == (described / table).read_bytes()
    shutil.copytree(exported("imagecode"), tmp_path / "a")
    export(tmp_path / "rebuilt", tmp_path / "b", "imagecode")
    for name in ("README.md", "manifest.json"):  # they say what they were made from
        (tmp_path / "a" / name).unlink()
        (tmp_path / "b" / name).unlink()
    assert same_tree(tmp_path / "a", tmp_path / "b")


def test_a_published_release_is_exported_as_it_is_and_a_set_of_other_than_ten_is_refused(tmp_path: Path) -> None:
    release = write_copy(tmp_path / "release")
    for to in ("imagecode", "hf", "webdataset", "croissant"):
        assert export(release, tmp_path / to, to).left_out == []
    read, again = read_dataset(release), read_dataset(tmp_path / "imagecode")
    assert ({one.id for one in again.sets}, again.texts.keys()) == ({one.id for one in read.sets}, read.texts.keys())
    assert [image for _, _, image in again.targets()] == [image for _, _, image in read.targets()]
    short = sorted(release.rglob("img*.jpg"))[0].parent
    files = sorted(short.iterdir())
    files[-1].unlink()
    (release / "valid_data.json").write_text(json.dumps({short.name: {"0": "A drawn frame."}}))
    with pytest.raises(DataError, match=f"{short.name}"):
        export(release, tmp_path / "short", "imagecode")

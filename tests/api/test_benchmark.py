"""`ctxr.load`: what a benchmark is as a sequence, and in the forms of other libraries."""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils.data import DataLoader

import ctxr
from ctxr.datasets.open import read_dataset
from ctxr.errors import CtxrWarning, DataError, UnfinishedError, UsageError
from ctxr.store.artifacts import Content, finish, open_artifact
from ctxr.store.records import Text
from ctxr.store.tables import read_table, write_table
from tests.pipelines.world_dataset import write_world_dataset
from tests.problems.links.written import write_documents
from tests.releases import draw_sets, write_release


@pytest.fixture
def work(tmp_path: Path) -> Path:
    write_world_dataset(tmp_path / "work" / "dataset")
    return tmp_path / "work"


def test_a_project_is_a_sequence_of_its_queries_by_split(work: Path) -> None:
    benchmark, valid = ctxr.load(work), ctxr.load(work)["valid"]
    targets = {query.id: place for query, _, place in read_dataset(work / "dataset").targets()}
    assert {one.id: one.target for one in benchmark} == targets
    assert benchmark.splits == {"train": len(benchmark) - len(valid), "valid": len(valid)}
    assert [one.id for one in benchmark["val"]] == [one.id for one in benchmark if one.split == "valid"]
    assert [one.id for one in valid[1:]] == [one.id for one in valid][1:]
    assert (valid[-1].images[0].size, len(valid[-1].images), valid[-1].images[-2:].ids) == (
        (48, 48),
        10,
        valid[-1].images.ids[8:],
    )
    with pytest.raises(UsageError, match="test"):
        benchmark["test"]


def test_pictures_are_read_when_they_are_looked_at(work: Path) -> None:
    one = ctxr.load(work)[0]
    (work / "dataset" / "images" / one.image_set / "img3.jpg").unlink()
    assert one.images[1].mode == "RGB"
    with pytest.raises(DataError, match=r"img3\.jpg"):
        one.images[0]


def test_the_furthest_artifact_of_a_project_is_loaded_and_an_unfinished_one_is_a_warning(work: Path) -> None:
    write_world_dataset(work / "revised", sets=2)
    with pytest.warns(CtxrWarning, match="dataset"):
        assert ctxr.load(work).path == work / "revised"
    (work / "revised" / "manifest.json").unlink()
    with pytest.warns(CtxrWarning, match="revised") as caught:
        assert ctxr.load(work).path == work / "dataset"
    assert caught[0].filename == __file__


@pytest.mark.parametrize("place", [5, None, b"work"])
def test_what_is_no_path_is_told(place: Any) -> None:
    with pytest.raises(UsageError, match=repr(place)):
        ctxr.load(place)


def test_what_is_nowhere_or_unfinished_is_told(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(work.parent / "work" / "dataset")
    with pytest.raises(UnfinishedError, match="work"):
        ctxr.load()
    with pytest.raises(UsageError, match="nowhere"):
        ctxr.load("nowhere")


def test_image_sets_without_descriptions_are_examples_without_text(work: Path) -> None:
    (sets,) = (work / "sets",)
    write_world_dataset(sets)
    files = [name for name in open_artifact(sets).manifest.files if name not in ("queries.jsonl", "judgments.jsonl")]
    finish(sets, kind="image_sets", verb="test", config={}, parents=[], content=Content(files, {}, {}))
    first = ctxr.load(sets)[0]
    assert (first.id, first.text, first.target, len(first.images)) == (first.image_set, "", None, 10)


def test_a_release_without_pictures_and_targets_loads(tmp_path: Path) -> None:
    release = write_release(tmp_path / "imagecode")
    hidden = ctxr.load(release)["test"]
    assert [one.target for one in hidden] == [None, None]
    with pytest.raises(DataError, match=hidden[0].image_set):
        hidden[0].images[0]
    draw_sets(release, [hidden[0].image_set])
    assert ctxr.load(release)["test"][0].images[9].size == (24, 24)


def test_a_document_has_several_targets(tmp_path: Path) -> None:
    documents = ctxr.load(write_documents(tmp_path / "documents"))
    several = next(one for one in documents if len(one.targets) > 1)
    assert several.target is None
    assert max(several.targets) < len(several.images)


def test_a_notebook_shows_hostile_text_as_text(work: Path) -> None:
    rows = read_table(work / "dataset" / "texts.jsonl", Text)
    (work / "dataset" / "texts.jsonl").unlink()
    write_table(
        work / "dataset" / "texts.jsonl", [Text(row.id, "<script>alert(1)</script>", row.author) for row in rows]
    )
    shown = ctxr.load(work)._repr_html_()
    assert ("<script>" in shown, "&lt;script&gt;" in shown, shown.count("data:image/jpeg")) == (False, True, 30)
    assert repr(ctxr.load(work)).count("\n") == 0


def test_other_libraries_get_the_same_rows(work: Path) -> None:
    benchmark = ctxr.load(work)
    frame, rows = benchmark.to_pandas(), benchmark.to_hf()
    assert list(frame["target"]) == rows["target"] == [one.target for one in benchmark]
    assert (rows[0]["text"], rows[0]["images"][0].size) == (benchmark[0].text, (48, 48))
    assert frame["images"][0] == [str(path) for path in benchmark[0].images.paths]


def test_a_package_that_is_not_installed_is_named_with_its_command(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "pandas", None)
    with pytest.raises(UsageError, match="pip install pandas"):
        ctxr.load(work).to_pandas()


def test_torch_loads_batches_of_what_a_transform_makes(work: Path) -> None:
    valid = ctxr.load(work)["valid"]
    batch = next(iter(DataLoader(valid.to_torch(lambda one: torch.full((2,), float(one.width))), batch_size=3)))
    assert (batch["images"].shape, batch["target"].tolist()) == ((3, 10, 2), [one.target for one in valid])
    assert next(iter(DataLoader(valid.to_torch())))["images"].shape == (1, 10, 48, 48, 3)

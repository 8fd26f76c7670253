"""What is exported is opened by the library that it is for, without a network, and holds what went in."""

import importlib
import io
import json
import re
import shutil
import tarfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image as Pillow

import ctxr
from ctxr.datasets.dataset import Dataset
from ctxr.datasets.readers.artifact import open_sets
from ctxr.errors import DataError
from ctxr.media.images import read_image
from ctxr.models.encoders import load_encoder
from tests.exports import export

# what the libraries say of themselves and of one another is not about our files
pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning:rdflib"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning:mlcroissant"),
]

OFFLINE = {"HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1", "FIFTYONE_DO_NOT_TRACK": "1"}


def library(name: str) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # raised inside libraries at import, about themselves
        reason = f"{name} is not installed: pip install -c constraints.txt '.[dev]' has all but fiftyone and mteb"
        return pytest.importorskip(name, reason=reason)


@pytest.fixture(autouse=True)
def offline(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name, value in OFFLINE.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("HOME", str(tmp_path))


def pixels(dataset: Dataset, name: str) -> Any:
    image = dataset.images[name]
    file = dataset.picture(image)
    assert file is not None
    return read_image(file)


def test_the_released_code_finds_sets_and_targets_as_it_reads_them(
    described: Path, exported: Callable[[str], Path]
) -> None:
    out = exported("imagecode")
    dataset = open_sets(described)
    by_id = {image_set.id: image_set for image_set in dataset.sets}
    seen = 0
    for file, side in (("train_data.json", "train"), ("valid_data.json", "valid")):
        table = json.loads((out / file).read_text())
        assert {name for name in table if "open-images" not in name} == {
            one.id for one in dataset.sets if one.kind == "video" and dataset.split_of(one) == side
        }
        for name, texts in table.items():
            # the order in which the released code lists a set
            listed = sorted(
                (out / "image-sets" / name).iterdir(),
                key=lambda path: int(str(path).split("/")[-1].split(".")[0][3:]),
            )
            assert len(listed) == 10
            if "open-images" in name:
                assert texts == {}
                members = by_id[name.removeprefix("open-images-")].images
                first = np.abs(read_image(listed[0]).astype(int) - pixels(dataset, members[0]).astype(int))
                assert first.mean() < 4  # a PNG became a JPEG
                continue
            seen += 1
            assert [file.read_bytes() for file in listed] == [
                (described / dataset.images[image].path).read_bytes() for image in by_id[name].images
            ]
            assert {int(target): re.search(r"<b>(\d)</b>", text)[1] for target, text in texts.items()} == {  # type: ignore[index]
                1: "1",
                3: "3",
            }
    assert seen >= 4
    test = json.loads((out / "test_data_unlabeled.json").read_text())
    assert {name: len(texts) for name, texts in test.items()} == {
        one.id: 2 for one in dataset.sets if dataset.split_of(one) == "test"
    }


def test_datasets_opens_typed_splits_with_the_very_pictures(
    described: Path, exported: Callable[[str], Path], tmp_path: Path
) -> None:
    datasets = library("datasets")
    out = exported("hf")
    dataset = open_sets(described)
    loaded = datasets.load_dataset(str(out), "sets", cache_dir=str(tmp_path / "cache"))
    assert list(loaded) == ["train", "validation", "test"]
    assert isinstance(loaded["train"].features["images"].feature, datasets.Image)
    rows = {row["id"]: row for split in loaded.values() for row in split}
    assert set(rows) == {image_set.id for image_set in dataset.sets}
    for image_set in dataset.sets:
        row = rows[image_set.id]
        assert [member["id"] for member in row["members"]] == list(image_set.images)
        assert row["shot"] == image_set.shot
        for name, picture in list(zip(image_set.images, row["images"], strict=True))[::5]:
            assert np.array_equal(np.asarray(picture.convert("RGB")), pixels(dataset, name))
    queries = datasets.load_dataset(str(out), "queries", cache_dir=str(tmp_path / "cache"))
    asked = [row for split in queries.values() for row in split]
    assert len(asked) == 2 * sum(image_set.kind == "video" for image_set in dataset.sets)
    for row in asked:
        assert f"<b>{row['targets'][0]}</b>" in row["texts"][0]
        assert {judgment["worker"] for judgment in row["judgments"]} == {"gold", "worker-2"}


def test_datasets_opens_sets_about_which_nothing_is_asked(sets: Path, tmp_path: Path) -> None:
    datasets = library("datasets")
    report = export(sets, tmp_path / "out", "hf")
    loaded = datasets.load_dataset(str(tmp_path / "out"), cache_dir=str(tmp_path / "cache"))
    assert sum(split.num_rows for split in loaded.values()) == report.counts["sets"]
    assert not (tmp_path / "out" / "queries").exists()


# the library does not close the tars that it has read
@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")
def test_webdataset_streams_sets_with_pictures_in_order(described: Path, exported: Callable[[str], Path]) -> None:
    webdataset = library("webdataset")
    out = exported("webdataset")
    dataset = open_sets(described)
    by_id = {image_set.id: image_set for image_set in dataset.sets}
    seen = []
    for split in ("train", "valid", "test"):
        shards = sorted(str(path) for path in out.glob(f"{split}-*.tar"))
        for sample in webdataset.WebDataset(shards, shardshuffle=False).decode("rgb8"):
            row = sample["json"]
            image_set = by_id[row["id"]]
            assert row["split"] == split == dataset.split_of(image_set)
            assert [image["id"] for image in row["images"]] == list(image_set.images)
            for image in row["images"][::5]:
                assert np.array_equal(sample[image["file"]], pixels(dataset, image["id"]))
            assert [query["targets"] for query in row["queries"]] == ([[1], [3]] if image_set.kind == "video" else [])
            seen.append(row["id"])
    assert sorted(seen) == sorted(by_id)


def test_mlcroissant_validates_and_reads_every_record(described: Path, tmp_path: Path) -> None:
    mlcroissant = library("mlcroissant")
    (tmp_path / "licences.csv").write_text(
        "clip0,CC-BY-4.0,A,\nclip1,CC-BY-4.0,A,\nclip2,CC-BY-4.0,A,\nalbum,CC-BY-4.0,B,\n"
    )
    export(described, tmp_path / "out", "croissant", licences=tmp_path / "licences.csv")
    dataset = open_sets(described)
    read = mlcroissant.Dataset(str(tmp_path / "out" / "croissant.json"))
    assert not read.metadata.ctx.issues.errors
    sets = {record["sets/id"].decode(): record for record in read.records("sets")}
    assert set(sets) == {image_set.id for image_set in dataset.sets}
    for image_set in dataset.sets:
        record = sets[image_set.id]
        assert [name.decode() for name in record["sets/images"]] == list(image_set.images)
        assert record["sets/split"].decode() == dataset.split_of(image_set)
    paths = {record["images/path"]: record["images/id"].decode() for record in read.records("images")}
    assert set(paths.values()) == set(dataset.images)
    pictures = 0
    for kind in ("jpg", "png"):
        for record in read.records(f"pictures-{kind}"):
            pictures += 1
            name = paths[record[f"pictures-{kind}/path"]]
            assert record[f"pictures-{kind}/image"].size == (dataset.images[name].width, dataset.images[name].height)
            if pictures % 40 == 1:
                assert np.array_equal(np.asarray(record[f"pictures-{kind}/image"]), pixels(dataset, name))
    assert pictures == len(dataset.images)
    asked = list(read.records("queries"))
    assert len(asked) == 2 * sum(image_set.kind == "video" for image_set in dataset.sets)
    assert {record["queries/targets"][0] for record in asked} == {1, 3}


def test_fiftyone_imports_a_sample_for_each_place_in_a_set(described: Path, exported: Callable[[str], Path]) -> None:
    library("fiftyone")
    from fiftyone.utils.data.importers import LegacyFiftyOneDatasetImporter  # type: ignore[import-not-found]

    out = exported("fiftyone")
    dataset = open_sets(described)
    with LegacyFiftyOneDatasetImporter(str(out)) as importer:
        samples = list(importer)
    assert len(samples) == 10 * len(dataset.sets)
    assert all(Path(sample.filepath).is_file() for sample in samples)


def test_the_fiftyone_layout_is_what_its_importer_reads(described: Path, exported: Callable[[str], Path]) -> None:
    out = exported("fiftyone")
    dataset = open_sets(described)
    samples = json.loads((out / "samples.json").read_text())["samples"]
    places = {(sample["set_id"], sample["position"]): sample for sample in samples}
    assert len(places) == len(samples) == 10 * len(dataset.sets)
    for image_set in dataset.sets:
        for position, name in enumerate(image_set.images):
            sample = places[image_set.id, position]
            picture = (out / sample["filepath"]).read_bytes()
            assert picture == (described / dataset.images[name].path).read_bytes()
            assert sample["tags"] == [dataset.split_of(image_set), image_set.kind]
            described_here = image_set.kind == "video" and position in (1, 3)
            assert len(sample["descriptions"]) == described_here
    assert json.loads((out / "metadata.json").read_text())["media_type"] == "image"


def test_every_picture_in_a_shard_is_a_picture(exported: Callable[[str], Path]) -> None:
    with tarfile.open(next(exported("webdataset").glob("train-*.tar"))) as tar:
        for member in tar:
            stream = tar.extractfile(member)
            assert stream is not None
            if not member.name.endswith(".json"):
                with Pillow.open(io.BytesIO(stream.read())) as opened:
                    opened.verify()


def mteb_tables(out: Path, cache: Path) -> dict[tuple[str, str], Any]:
    """Tables of a task folder by configuration and split, as mteb's loader of retrieval reads them."""
    datasets = library("datasets")
    found: dict[tuple[str, str], Any] = {}
    for name in datasets.get_dataset_config_names(str(out)):
        splits = datasets.load_dataset(str(out), name, cache_dir=str(cache))
        found |= {(name, split): table for split, table in splits.items()}
    return found


def test_a_task_of_mteb_has_every_question_with_its_candidates(
    described: Path, exported: Callable[[str], Path], tmp_path: Path
) -> None:
    datasets = library("datasets")
    out, dataset = exported("mteb"), open_sets(described)
    tables = mteb_tables(out, tmp_path / "cache")
    configs = {"corpus", "queries", "qrels", "top_ranked"}
    assert tables.keys() == {(config, split) for config in configs for split in ("validation", "test")}
    sides, targets = {"validation": "valid", "test": "test"}, list(dataset.targets())
    for split, side in sides.items():
        asked = {query.id: (one, place) for query, one, place in targets if dataset.split_of(one) == side}
        assert {row["id"]: row["text"] for row in tables["queries", split]} == {
            name: dataset.text_of(dataset.queries[name]) for name in asked
        }
        assert {row["query-id"]: (row["corpus-id"], row["score"]) for row in tables["qrels", split]} == {
            name: (one.images[place], 1) for name, (one, place) in asked.items()
        }
        assert {row["query-id"]: tuple(row["corpus-ids"]) for row in tables["top_ranked", split]} == {
            name: one.images for name, (one, _) in asked.items()
        }
        ids = tables["corpus", split]["id"]
        assert sorted(ids) == sorted({name for one, _ in asked.values() for name in one.images})
        assert isinstance(tables["corpus", split].features["image"], datasets.Image)
        row = tables["corpus", split][7]
        assert np.array_equal(np.asarray(row["image"].convert("RGB")), pixels(dataset, row["id"]))
    facts = json.loads((out / "context_task.json").read_text())
    assert facts["eval_splits"] == ["validation", "test"]
    assert facts["type"] == "Any2AnyReranking"


def test_a_task_of_mteb_knows_other_content_by_its_revision(
    described: Path, exported: Callable[[str], Path], tmp_path: Path
) -> None:
    export(described, tmp_path / "hidden", "mteb", hide_test=True)
    facts, hidden = (
        json.loads((one / "context_task.json").read_text()) for one in (exported("mteb"), tmp_path / "hidden")
    )
    assert hidden["eval_splits"] == ["validation"]
    assert hidden["revision"] != facts["revision"]


def test_pictures_of_a_task_of_mteb_are_checked(described: Path, tmp_path: Path) -> None:
    shutil.copytree(described.parent, tmp_path / "own")
    picture = next((tmp_path / "own" / "sets" / "images").glob("clip1-*/*.jpg"))
    picture.unlink()
    with pytest.raises(DataError, match=f"{picture.stem}.*cannot be read"):
        export(tmp_path / "own" / "sets", tmp_path / "out", "mteb")
    assert not (tmp_path / "out" / "manifest.json").exists()


def test_sets_about_which_nothing_is_asked_make_no_task_of_mteb(sets: Path, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="target"):
        export(sets, tmp_path / "out", "mteb")


class TinyInMteb:
    """`ctxr-tiny` as a model of mteb."""

    mteb_model_meta: Any = None

    def __init__(self, *given: Any, **more: Any) -> None:
        self.encoder = load_encoder("ctxr-tiny", "cpu", "fp32")

    def encode(self, inputs: Any, **given: Any) -> Any:
        vectors = [
            self.encoder.encode_images([np.asarray(one.convert("RGB")) for one in batch["image"]])
            if "image" in batch
            else self.encoder.encode_texts(batch["text"])
            for batch in inputs
        ]
        return np.concatenate(vectors)

    def similarity(self, one: Any, other: Any) -> Any:
        return np.asarray(one) @ np.asarray(other).T

    similarity_pairwise = similarity


@pytest.mark.filterwarnings("ignore")  # of mteb and what it imports
def test_mteb_scores_a_task_to_the_figure_of_eval(
    described: Path, exported: Callable[[str], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mteb, out = library("mteb"), exported("mteb")
    monkeypatch.syspath_prepend(str(out))
    model = TinyInMteb()
    model.mteb_model_meta = mteb.models.ModelMeta.create_empty(
        {"name": "ctxr/tiny", "revision": "1", "modalities": ["text", "image"]}
    )
    task = importlib.import_module("context_task").ContextTask()
    (result,) = mteb.evaluate(model, task, cache=None, show_progress_bar=False).task_results
    theirs = {split: rows[0]["main_score"] for split, rows in result.scores.items()}
    found = ctxr.evaluate(described, {}, "ctxr-tiny", workdir=tmp_path / "work", resamples=100, device="cpu")
    ours = {
        one.split: one.interval.value
        for one in found.figures
        if (one.view, one.part, one.measure) == ("overall", "all", "accuracy")
    }
    assert theirs == {
        "validation": pytest.approx(ours["valid"], abs=1e-5),
        "test": pytest.approx(ours["test"], abs=1e-5),
    }

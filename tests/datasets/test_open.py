"""The table of readers: each knows its own form and no other, and a dataset is known by its files before it is read."""

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from ctxr.datasets import open as opening
from ctxr.datasets.open import READERS, dataset_identity, identity_of, read_dataset
from ctxr.errors import UnfinishedError, UsageError
from tests.datasets.readers.test_artifact import tables, write
from tests.releases import write_release

CAPTIONS = {"images": [{"id": 1, "file_name": "a.jpg"}], "annotations": [{"id": 7, "image_id": 1, "caption": "Red."}]}
SPLIT = {"images": [{"filename": "a.jpg", "split": "test", "sentences": [{"raw": "Red.", "sentid": 1}], "imgid": 0}]}
LINKS = {"test": [[[["a", 0]], [["Red.", 0]], "m"]]}
MMC4 = {"text_list": ["Red."], "image_info": [{"image_name": "a.jpg", "matched_text_index": 0}]}
NARRATIVE = {
    "dataset_id": "a_val", "image_id": "1", "annotator_id": 2, "caption": "Red.", "timed_caption": [], "traces": [],
}  # fmt: skip
TALK = [
    {
        "dialogue": [
            {"message": "Red.", "share_photo": False, "user_id": 0},
            {"message": "", "share_photo": True, "user_id": 0},
        ],
        "dialogue_id": 1, "photo_description": "Objects in the photo: Dog", "photo_url": "https://here/a.jpg",
    }
]  # fmt: skip
PAGE = "# Red\n\n![a](a.png)\n"


def put(name: str, content: object) -> Callable[[Path], Path]:
    def make(folder: Path) -> Path:
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(content if isinstance(content, str) else json.dumps(content))
        return folder

    return make


def put_page(folder: Path) -> Path:
    Image.new("RGB", (8, 8)).save(folder / "a.png")
    return put("red.md", PAGE)(folder)


def put_repository(folder: Path) -> Path:
    write_release(folder / "data")
    return folder


def put_artifact(folder: Path) -> Path:
    return write(folder, tables())


FOLDERS: dict[str, Callable[[Path], Path]] = {
    "an ImageCoDe release": write_release,
    "MMC4": put("shard.jsonl", MMC4),
    "Localized Narratives": put("shard.jsonl", NARRATIVE),
    "PhotoChat": put("train/train_0.json", TALK),
    "documents": put("documents.json", LINKS),
    "a ctxr artifact": put_artifact,
    "the repository of ImageCoDe": put_repository,
    "Karpathy's split": put("dataset_coco.json", SPLIT),
    "COCO captions": put("captions_val2014.json", CAPTIONS),
    "photos with captions": put("metadata.csv", "file_name,text\na.jpg,Red.\n"),
    "Markdown or HTML": put_page,
}
FILES: dict[str, tuple[str, Any]] = {
    "an ImageCoDe release": ("train_data.json", {"images": {"0": "Red."}}),
    "MMC4": ("shard.jsonl", MMC4),
    "Localized Narratives": ("shard.jsonl", NARRATIVE),
    "PhotoChat": ("any.json", TALK),
    "documents": ("any.json", LINKS),
    "Karpathy's split": ("any.json", SPLIT),
    "COCO captions": ("any.json", CAPTIONS),
    "photos with captions": ("captions.txt", "image,caption\na.jpg,Red.\n"),
    "descriptions by set": ("any.json", {"images": ["Red."]}),
}


def test_every_reader_has_a_row_here() -> None:
    names = [*FOLDERS, "descriptions by set"]
    assert [reader.reads.startswith(name) for reader, name in zip(READERS, names, strict=True)] == [True] * len(READERS)


@pytest.mark.parametrize("name", FOLDERS)
def test_a_folder_is_known_to_its_own_reader_alone(name: str, tmp_path: Path) -> None:
    path = FOLDERS[name](tmp_path)
    (reader,) = (reader for reader in READERS if reader.files(path))
    assert reader.reads.startswith(name)
    dataset = read_dataset(path)
    assert dataset.sets
    assert list(dataset.files) == reader.files(path)


@pytest.mark.parametrize("name", FILES)
def test_a_file_is_known_to_its_own_reader_before_any_other(name: str, tmp_path: Path) -> None:
    path = put(*FILES[name])(tmp_path) / FILES[name][0]
    first, *others = (reader for reader in READERS if reader.files(path))
    assert first.reads.startswith(name)
    # a split lists photos as COCO does; what no reader knows by its form may be descriptions
    general = {"COCO captions"} if name == "Karpathy's split" else set[str]()
    general |= {"descriptions by set and index"} if path.suffix == ".json" and first is not READERS[-1] else set()
    assert {one.reads.partition(" (")[0] for one in others} == general
    assert read_dataset(path).sets


@pytest.mark.parametrize("name", FOLDERS)
def test_a_dataset_is_known_by_its_files_without_being_read(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "one").mkdir()
    path = FOLDERS[name](tmp_path / "one")
    read = identity_of(read_dataset(path).files)

    def refuse(*_: object) -> Any:
        raise AssertionError(name)

    monkeypatch.setattr(opening, "READERS", [replace(reader, read=refuse) for reader in READERS])
    assert dataset_identity(path) == read
    shutil.copytree(path, tmp_path / "other")
    assert dataset_identity(tmp_path / "other") == read
    changed = next(reader.files(tmp_path / "other") for reader in READERS if reader.files(tmp_path / "other"))[0]
    changed.write_text(changed.read_text() + "\n")
    assert dataset_identity(tmp_path / "other") != read


def test_an_unfinished_artifact_is_no_other_form(tmp_path: Path) -> None:
    write_release(tmp_path)
    (tmp_path / ".ctxr").touch()
    with pytest.raises(UnfinishedError):
        dataset_identity(tmp_path)


def test_what_no_reader_knows_is_answered_with_every_form(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("hello")
    for name in (".", "nothing", "notes.txt"):
        with pytest.raises(UsageError) as caught:
            dataset_identity(tmp_path / name)
        assert all(reader.reads in str(caught.value.hint) for reader in READERS)

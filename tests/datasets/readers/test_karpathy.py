"""Karpathy's splits: galleries in the file's order, all sentences, pictures wherever they lie, and what is wrong in them."""

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ctxr.datasets.open import read_dataset
from ctxr.errors import DataError, UsageError
from ctxr.metrics.retrieval import Vectors, caption_retrieval
from ctxr.problems.galleries import gallery_splits
from tests.releases import draw

NAMES = {number: f"COCO_val2014_{number:012d}.jpg" for number in (9, 3, 7, 5, 4)}


def row(number: int, split: str, sentences: list[int], **more: Any) -> dict[str, Any]:
    told = [{"raw": f"Sentence {one}.", "sentid": one, "tokens": ["sentence"]} for one in sentences]
    return {
        "filepath": "val2014", "filename": NAMES[number], "split": split, "cocoid": number, "imgid": number * 2,
        "sentences": told, "sentids": sentences,
    } | more  # fmt: skip


def rows() -> list[dict[str, Any]]:
    return [
        row(9, "test", [30, 31, 32, 33, 34, 35]),
        row(7, "restval", [20]),
        row(3, "test", [10, 11]),
        row(4, "val", [50]),
        row(5, "train", [40, 41]),
    ]


def write(folder: Path, images: object, name: str = "dataset_coco.json", **more: object) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(json.dumps({"images": images, "dataset": "coco"} | more))
    return folder


def test_galleries_stand_in_the_order_of_the_file_with_every_sentence(tmp_path: Path) -> None:
    dataset = read_dataset(write(tmp_path, rows()))
    assert {one.id: one.images for one in dataset.sets} == {
        "test": (f"test/{NAMES[9]}", f"test/{NAMES[3]}"),
        "train": (f"train/{NAMES[7]}", f"train/{NAMES[5]}"),
        "valid": (f"valid/{NAMES[4]}",),
    }
    assert dataset.name == "coco"
    assert [dataset.split_of(one) for one in dataset.sets] == ["test", "train", "valid"]
    sides = gallery_splits(dataset)
    asked = {one: sides["test"].images[place] for one, place in sides["test"].written}
    assert [asked[place] for place in range(8)] == [f"test/{NAMES[3]}"] * 2 + [f"test/{NAMES[9]}"] * 6
    assert dataset.texts["test/35"].text == "Sentence 35."
    assert dataset.root is None
    assert "5 of 5 images are missing" in " ".join(dataset.notes)
    assert read_dataset(tmp_path / "dataset_coco.json") == dataset


def test_folds_follow_the_order_of_the_file(tmp_path: Path) -> None:
    names = [f"COCO_val2014_{number:012d}.jpg" for number in (8, 1, 6, 2, 9, 3, 7, 4, 5, 10)]
    listed = [
        row(9, "test", [100 - place], filename=name, cocoid=place, imgid=place) for place, name in enumerate(names)
    ]
    side = gallery_splits(read_dataset(write(tmp_path, listed)))["test"]
    owners = np.array([image for _, image in side.written])
    rng = np.random.default_rng(0)
    vectors = Vectors(*(rng.standard_normal((10, 3)).astype(np.float32) for _ in range(2)))
    found = caption_retrieval(vectors, owners, 5, (1,))
    folds = dict(zip((side.images[one] for one in owners), found.caption_folds.tolist(), strict=True))
    assert [folds[f"test/{name}"] for name in names] == [0, 0, 1, 1, 2, 2, 3, 3, 4, 4]


def test_pictures_are_found_where_the_row_says_or_by_name_anywhere(tmp_path: Path) -> None:
    folder = tmp_path / "coco"
    for place in (f"val2014/{NAMES[9]}", f"deep/er/{NAMES[3]}", f"x/{NAMES[4]}", f"y/{NAMES[4]}", "2017/000000000005.jpg",
                  f"other/{NAMES[9]}"):  # fmt: skip
        draw(folder / place, 1)
    (folder / "z").mkdir()
    (folder / "z" / NAMES[7]).symlink_to(draw(tmp_path / "outside.jpg", 2))
    dataset = read_dataset(write(folder, rows()))
    assert {one.id: one.path for one in dataset.images.values()} == {
        f"test/{NAMES[9]}": f"val2014/{NAMES[9]}",
        f"test/{NAMES[3]}": f"deep/er/{NAMES[3]}",
        f"valid/{NAMES[4]}": f"x/{NAMES[4]}",
        f"train/{NAMES[5]}": "2017/000000000005.jpg",
        f"train/{NAMES[7]}": "",
    }
    assert dataset.images[f"test/{NAMES[9]}"].width
    told = " ".join(dataset.notes)
    assert re.search(rf"1 of 5 images .*coco/: .* {NAMES[7]}", told)


def test_flickr_has_no_folder_and_no_coco_ids(tmp_path: Path) -> None:
    listed = [
        {"filename": "77.jpg", "split": "test", "imgid": 0, "sentences": [{"raw": "A dog.", "sentid": 0}]},
        {"filename": "9.jpg", "split": "test", "imgid": 1, "sentences": [{"raw": " ", "sentid": 1}]},
        {"filename": "8.jpg", "split": "test", "imgid": 2, "sentences": []},
    ]
    draw(tmp_path / "flickr30k-images" / "77.jpg", 1)
    dataset = read_dataset(write(tmp_path, listed, "dataset_flickr30k.json", dataset="flickr30k"))
    assert dataset.name == "flickr30k"
    assert dataset.images["test/77.jpg"].path == "flickr30k-images/77.jpg"
    assert list(dataset.queries) == ["test/0"]
    told = " ".join(dataset.notes)
    assert re.search(r"1 sentences are blank .* 1\b", told)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"split": "dev"}, r"'dev' - at `\$\.images\[5\]\.split`"),
        ({"filename": None}, r"got `null` - at `\$\.images\[5\]\.filename`"),
        ({"filename": "../x.jpg"}, r"'..' .*valid name"),
        ({"filepath": "/etc"}, r"'/' .*valid name"),
        ({"filename": "x.jpg", "imgid": 1}, r"images\[5\] \(x.jpg\): the cocoid 9 .*images\[0\]"),
        ({}, r"COCO_val2014_0+9.jpg is already .*images\[0\]"),
        ({"filename": "x.jpg", "cocoid": 1, "imgid": 18}, r"the imgid 18 is already"),
        ({"filename": "x.jpg", "cocoid": 1, "imgid": 1}, r"sentences\[0\]: the sentence 30 is already"),
        ({"filename": "x.jpg", "cocoid": 1, "imgid": 1, "sentences": [{"sentid": 60, "raw": "A."}] * 2}, r"sentence 60 is already"),
        ({"filename": "x.jpg", "cocoid": 1, "imgid": 1, "sentences": [{"sentid": 60, "raw": "A.", "imgid": 18}]},
         r"sentences\[0\] .*picture 18"),
        ({"filename": "x.jpg", "cocoid": 1, "imgid": 1, "sentences": [{"sentid": 99}]}, r"missing .*`raw`"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_one_sentence_with_its_row(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    with pytest.raises(DataError, match=message):
        read_dataset(write(tmp_path, [*rows(), row(9, "test", [30]) | change]))


def test_a_row_that_is_no_object_and_a_file_without_sentences_are_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"got `int` - at `\$\.images\[5\]"):
        read_dataset(write(tmp_path, [*rows(), 3]))
    with pytest.raises(DataError, match=r"dataset_coco\.json: .*no sentence"):
        read_dataset(write(tmp_path, [row(9, "test", [])]))


def test_a_split_goes_before_captions_and_several_splits_must_be_named(tmp_path: Path) -> None:
    write(tmp_path, rows())
    (tmp_path / "captions_val2014.json").write_text('{"images": [], "annotations": []}')
    (tmp_path / "dataset_infos.json").write_text('{"default": {}}')
    assert "captions_val2014.json beside it" in " ".join(read_dataset(tmp_path).notes)
    write(tmp_path, rows(), "dataset_flickr30k.json")
    with pytest.raises(UsageError, match=r"holds several splits, dataset_coco\.json, dataset_flickr30k\.json"):
        read_dataset(tmp_path)

"""COCO captions: galleries, licences, and files that are not what they should be."""

import json
from pathlib import Path
from typing import Any

import pytest

from ctxr.datasets.open import read_dataset
from ctxr.errors import DataError
from tests.releases import draw


def captions() -> dict[str, Any]:
    return {
        "licenses": [{"id": 4, "name": "Attribution License", "url": "http://licence.example"}],
        "images": [
            {"id": 7, "file_name": "b.jpg", "license": 4},
            {"id": 3, "file_name": "a.jpg", "license": 9},
        ],
        "annotations": [
            {"id": 1, "image_id": 7, "caption": "A cat."},
            {"id": 2, "image_id": 3, "caption": "A dog."},
            {"id": 5, "image_id": 7, "caption": "A cat asleep."},
        ],
    }


def write(folder: Path, content: object, name: str = "captions_val2017.json") -> Path:
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(json.dumps(content))
    return folder


def test_captions_are_queries_against_the_gallery(tmp_path: Path) -> None:
    draw(tmp_path / "val2017" / "b.jpg", 1)
    dataset = read_dataset(write(tmp_path, captions()))
    (gallery,) = dataset.sets
    assert gallery.images == ("val2017/a.jpg", "val2017/b.jpg")
    assert {query.id: target for query, _, target in dataset.targets()} == {
        "val2017/1": 1,
        "val2017/2": 0,
        "val2017/5": 1,
    }
    assert dataset.images["val2017/b.jpg"].path == "val2017/b.jpg"
    assert dataset.images["val2017/a.jpg"].path == ""
    assert dataset.licences == {"val2017/b.jpg": "Attribution License", "val2017/a.jpg": "no licence named"}
    assert dataset.splits == {"val2017": "valid"}
    assert "1 of 2 photos of val2017 are missing" in " ".join(dataset.notes)
    assert read_dataset(tmp_path / "captions_val2017.json") == dataset


def test_a_bare_file_name_looks_for_photos_in_the_current_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, captions(), "cap.json")
    monkeypatch.chdir(tmp_path)
    assert any("2 of 2 photos of cap" in note for note in read_dataset(Path("cap.json")).notes)


@pytest.mark.parametrize("images", [captions()["images"], []])
def test_photos_without_captions_are_named_as_such(tmp_path: Path, images: list[object]) -> None:
    write(tmp_path, {"info": {"year": 2017}, "images": images, "licenses": []}, "image_info.json")
    with pytest.raises(DataError, match=r"image_info.json: .*`annotations`"):
        read_dataset(tmp_path / "image_info.json")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"images": {}}, r"`array`, got `object` - at `\$\.images`"),
        ({"images": []}, r"no image"),
        (
            {"images": [{"id": "7", "file_name": "a.jpg"}]},
            r"got `str` - at `\$\.images\[0\]\.id`",
        ),
        ({"images": [{"id": 7}]}, r"missing .*`file_name`"),
        ({"images": [{"id": 7, "file_name": "../../x.jpg"}]}, r"image 7: '..' .*valid name"),
        ({"images": [{"id": 7, "file_name": "/etc/x.jpg"}]}, r"image 7: '/' .*valid name"),
        ({"images": [{"id": 7, "file_name": "a.jpg"}] * 2}, r"the image 7 \(a.jpg\) appears twice"),
        ({"annotations": [{"id": 1, "image_id": 99, "caption": "x"}]}, r"caption 1 is of image 99"),
        ({"annotations": [{"id": 1, "image_id": 7, "caption": "x"}] * 2}, r"caption 1 appears twice"),
        ({"annotations": [{"id": 1, "image_id": 7, "caption": "  "}]}, r"no caption"),
        ({"annotations": []}, r"no caption"),
    ],
)
def test_what_does_not_fit_is_one_sentence_with_its_id(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    with pytest.raises(DataError, match=message):
        read_dataset(write(tmp_path, captions() | change))


def test_blank_captions_are_left_out_and_told_of(tmp_path: Path) -> None:
    told = captions()
    told["annotations"] += [{"id": 8, "image_id": 3, "caption": ""}, {"id": 9, "image_id": 7, "caption": "   "}]
    dataset = read_dataset(write(tmp_path, told))
    assert sorted(dataset.queries) == sorted(dataset.texts) == ["val2017/1", "val2017/2", "val2017/5"]
    assert len(dataset.judgments) == 3
    assert any("2 captions of val2017" in note and note.endswith(" 8") for note in dataset.notes)


def test_another_json_named_captions_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="`annotations`"):
        read_dataset(write(tmp_path, {"images": []}))


def test_a_photo_behind_a_link_is_not_at_hand(tmp_path: Path) -> None:
    outside = draw(tmp_path / "outside.jpg", 1)
    folder = write(tmp_path / "release", captions())
    (folder / "val2017").mkdir()
    (folder / "val2017" / "b.jpg").symlink_to(outside)
    assert read_dataset(folder).root is None


def test_the_real_captions_are_read_with_their_licences(real_files: Path) -> None:
    dataset = read_dataset(real_files / "photos")
    assert (len(dataset.images), len(dataset.queries), len(set(dataset.licences.values()))) == (80, 400, 6)
    assert all(image.path and image.width for image in dataset.images.values())

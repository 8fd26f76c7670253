"""COCO captions and tables of captions: galleries, licences, and files that are not what they should be."""

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


ROWS = (("a.jpg", "A cat."), ("b.jpg", "A dog, asleep."), ("a.jpg", "Something\nsits."))
CSV = '{0},{1}\na.jpg,A cat.\nb.jpg,"A dog, asleep."\na.jpg,"Something\nsits."\n'
CAPTION_TABLES = {
    "metadata.jsonl": "".join(json.dumps({"file_name": name, "text": text}) + "\n\n" for name, text in ROWS),
    "metadata.csv": "\ufeff" + CSV.format("file_name", "caption"),
    "captions.txt": CSV.format("image", "caption").replace("\n", "\r\n").replace("Something\r\n", "Something\n"),
}


def write_table(folder: Path, name: str, content: str) -> Path:
    draw(folder / "a.jpg", 1)
    draw(folder / "Images" / "b.jpg", 2)
    draw(folder.parent / "outside.jpg", 3)
    (folder / name).write_bytes(content.encode())
    return folder


@pytest.mark.parametrize("name", CAPTION_TABLES)
def test_every_row_of_a_table_is_a_query_against_all_photos(name: str, tmp_path: Path) -> None:
    folder = write_table(tmp_path / "album", name, CAPTION_TABLES[name])
    dataset = read_dataset(folder)
    (gallery,) = dataset.sets
    assert (dataset.name, gallery.images, dataset.split_of(gallery)) == (
        "album",
        ("photos/a.jpg", "photos/b.jpg"),
        None,
    )
    said = {dataset.texts[query.id].text: image_set.images[place] for query, image_set, place in dataset.targets()}
    assert said == {text: f"photos/{photo}" for photo, text in ROWS}
    assert {image.path for image in dataset.images.values()} == {"a.jpg", "Images/b.jpg"}
    named = read_dataset(folder / name)
    assert (named.sets, named.texts, named.judgments) == (dataset.sets, dataset.texts, dataset.judgments)


def test_photos_and_captions_that_are_missing_are_counted_and_rows_without_their_columns_left_out(
    tmp_path: Path,
) -> None:
    content = "file_name,text\na.jpg,A cat.\nb.jpg,\ngone.jpg,A bird.\nb.jpg,A dog, asleep.\n"
    dataset = read_dataset(write_table(tmp_path / "album", "metadata.csv", content))
    assert [text.text for text in dataset.texts.values()] == ["A cat.", "A bird."]
    for place in ("metadata.csv:3", "metadata.csv:5", "1 of 3 photos"):
        assert sum(place in note for note in dataset.notes) == 1


@pytest.mark.parametrize(
    ("name", "content", "place"),
    [
        ("metadata.jsonl", '{"file_name": "a.jpg", "text": "\\ud800"}\n', "no caption"),
        ("metadata.jsonl", '{"file_name": "../outside.jpg", "text": "A cat."}\n', r"jsonl:1: '\.\.'"),
        ("metadata.csv", f"file_name,text\n{Path('/outside.jpg')},A cat.\n", r"csv:2: '/'"),
        ("metadata.csv", "file_name,label\na.jpg,cat\n", r"file_name, label.*`text`"),
        ("metadata.csv", "name;words\na.jpg;cat\n", "name;words.*`file_name` and `text`"),
        ("metadata.csv", "file_name,text,split\na.jpg,A cat.,half\n", "csv:2: `split` is 'half'"),
        ("metadata.csv", "file_name,text,split\na.jpg,A cat.,test\na.jpg,A dog.,train\n", r"csv:3: a\.jpg"),
        ("captions.txt", "../outside.jpg#0\tA cat.\n", r"txt:1: '\.\.'"),
        ("captions.txt", "image,caption\n,A cat.\n", r"txt:2: ''"),
        ("captions.txt", "image,caption\na.jpg,\n", "no caption"),
        ("captions.txt", "", "is empty"),
    ],
)
def test_a_row_that_does_not_fit_is_named(name: str, content: str, place: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=place):
        read_dataset(write_table(tmp_path / "album", name, content))


@pytest.mark.parametrize("name", ["metadata.csv", "metadata.jsonl"])
def test_a_column_of_splits_makes_a_gallery_of_each(name: str, tmp_path: Path) -> None:
    rows = [("a.jpg", "A cat.", "train"), ("Images/b.jpg", "A dog.", "Validation"), ("a.jpg", "Pets.", "train")]
    rows += [(f"{number}.jpg", "Gone.", split) for number, split in enumerate(("val", "dev", "test", ""))]
    content = "file_name,text,split\n" + "".join(",".join(row) + "\n" for row in rows)
    if name.endswith("jsonl"):
        content = "".join(
            json.dumps(dict(zip(("file_name", "text", "split"), row, strict=True))) + "\n" for row in rows
        )
    dataset = read_dataset(write_table(tmp_path / "album", name, content))
    assert {dataset.split_of(one): one.images for one in dataset.sets} == {
        "train": ("photos/a.jpg",),
        "valid": ("photos/Images/b.jpg", "photos/0.jpg", "photos/1.jpg"),
        "test": ("photos/2.jpg",),
        None: ("photos/3.jpg",),
    }
    assert dataset.queries["photos/a.jpg#2"].image_set == "train"


def test_captions_of_flickr30k_need_no_header(tmp_path: Path) -> None:
    content = 'a.jpg#0\tA cat , "asleep" .\na.jpg#1\tA pet .\nb.jpg#0\tA dog .\n'
    dataset = read_dataset(write_table(tmp_path / "album", "captions.txt", content))
    said = [(dataset.texts[query.id].text, one.images[place]) for query, one, place in dataset.targets()]
    assert sorted(said) == [
        ('A cat , "asleep" .', "photos/a.jpg"),
        ("A dog .", "photos/b.jpg"),
        ("A pet .", "photos/a.jpg"),
    ]

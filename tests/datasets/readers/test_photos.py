"""Photos with captions in a table beside them."""

import json
from pathlib import Path

import pytest

from ctxr.datasets.open import read_dataset
from ctxr.errors import DataError
from tests.releases import draw

ROWS = (("a.jpg", "A cat."), ("b.jpg", "A dog, asleep."), ("a.jpg", "Something\nsits."))
CSV = '{0},{1}\na.jpg,A cat.\nb.jpg,"A dog, asleep."\na.jpg,"Something\nsits."\n'
TABLES = {
    "metadata.jsonl": "".join(json.dumps({"file_name": name, "text": text}) + "\n\n" for name, text in ROWS),
    "metadata.csv": "\ufeff" + CSV.format("file_name", "caption"),
    "captions.txt": CSV.format("image", "caption").replace("\n", "\r\n").replace("Something\r\n", "Something\n"),
}


def write(folder: Path, name: str, content: str) -> Path:
    draw(folder / "a.jpg", 1)
    draw(folder / "Images" / "b.jpg", 2)
    draw(folder.parent / "outside.jpg", 3)
    (folder / name).write_bytes(content.encode())
    return folder


@pytest.mark.parametrize("name", TABLES)
def test_every_row_of_a_table_is_a_query_against_all_photos(name: str, tmp_path: Path) -> None:
    folder = write(tmp_path / "album", name, TABLES[name])
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
    dataset = read_dataset(write(tmp_path / "album", "metadata.csv", content))
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
        read_dataset(write(tmp_path / "album", name, content))


def test_a_link_out_of_the_folder_is_a_missing_photo(tmp_path: Path) -> None:
    folder = write(tmp_path / "album", "metadata.csv", "file_name,text\nlink.jpg,A cat.\na.jpg,A dog.\n")
    (folder / "link.jpg").symlink_to(folder.parent / "outside.jpg")
    assert read_dataset(folder).images["photos/link.jpg"].path == ""


@pytest.mark.parametrize("name", ["metadata.csv", "metadata.jsonl"])
def test_a_column_of_splits_makes_a_gallery_of_each(name: str, tmp_path: Path) -> None:
    rows = [("a.jpg", "A cat.", "train"), ("Images/b.jpg", "A dog.", "Validation"), ("a.jpg", "Pets.", "train")]
    rows += [(f"{number}.jpg", "Gone.", split) for number, split in enumerate(("val", "dev", "test", ""))]
    content = "file_name,text,split\n" + "".join(",".join(row) + "\n" for row in rows)
    if name.endswith("jsonl"):
        content = "".join(
            json.dumps(dict(zip(("file_name", "text", "split"), row, strict=True))) + "\n" for row in rows
        )
    dataset = read_dataset(write(tmp_path / "album", name, content))
    assert {dataset.split_of(one): one.images for one in dataset.sets} == {
        "train": ("photos/a.jpg",),
        "valid": ("photos/Images/b.jpg", "photos/0.jpg", "photos/1.jpg"),
        "test": ("photos/2.jpg",),
        None: ("photos/3.jpg",),
    }
    assert dataset.queries["photos/a.jpg#2"].image_set == "train"


def test_captions_of_flickr30k_need_no_header(tmp_path: Path) -> None:
    content = 'a.jpg#0\tA cat , "asleep" .\na.jpg#1\tA pet .\nb.jpg#0\tA dog .\n'
    dataset = read_dataset(write(tmp_path / "album", "captions.txt", content))
    said = [(dataset.texts[query.id].text, one.images[place]) for query, one, place in dataset.targets()]
    assert sorted(said) == [
        ('A cat , "asleep" .', "photos/a.jpg"),
        ("A dog .", "photos/b.jpg"),
        ("A pet .", "photos/a.jpg"),
    ]

"""The card says what was said, of each source, and nothing that nobody said."""

import json
from pathlib import Path
from typing import Any

import pytest

from ctxr.datasets.readers.artifact import open_sets
from ctxr.datasets.writers.job import read_licences
from ctxr.errors import DataError, UsageError
from ctxr.pipelines.sharing.export import text
from tests.exports import export

HEADER = "source,licence,attribution,url\n"


def card(sets: Path, out: Path, licences: str = "", **options: Any) -> str:
    file = out.parent / "licences.csv"
    file.write_text(HEADER + licences)
    export(sets, out, options.pop("to", "fiftyone"), licences=file if licences else None, **options)
    return (out / "README.md").read_text()


def test_without_a_word_about_licences_each_source_is_unknown(sets: Path, tmp_path: Path) -> None:
    said = card(sets, tmp_path / "out")
    for source in ("clip0", "clip1", "clip2", "album"):
        (row,) = [line for line in said.splitlines() if line.startswith(f"| {source}")]
        assert row.split("|")[2].strip() == "licence unknown"
    assert "images is unknown" in said


def test_licences_stand_beside_their_sources_however_those_are_named(sets: Path, tmp_path: Path) -> None:
    lines = "clip0,CC-BY-4.0,Ann,https://example.org/a\nclip1.mp4,CC0-1.0,,\nalbum/p1.png,ODbL,Bea,\n"
    rows = {
        line.split("|")[1].split()[0]: line for line in card(sets, tmp_path / "out", lines).splitlines() if "|" in line
    }
    assert "CC-BY-4.0 | Ann <https://example.org/a>" in rows["clip0"]
    assert "CC0-1.0" in rows["clip1"]
    assert "licence unknown" in rows["clip2"]
    assert "licence unknown" in rows["album"]
    assert "ODbL | Bea" in rows["album/p1.png"]


def test_the_front_matter_names_a_licence_only_if_all_images_share_it(sets: Path, tmp_path: Path) -> None:
    yaml = pytest.importorskip("yaml", reason="PyYAML is not installed")
    three = "".join(f"clip{number},CC-BY-4.0,A,\n" for number in range(3))
    said = card(sets, tmp_path / "some", three, to="hf")
    assert yaml.safe_load(said.split("---\n")[1])["license"] == "unknown"
    said = card(sets, tmp_path / "all", three + "album,CC-BY-4.0,B,\n", to="hf")
    front = yaml.safe_load(said.split("---\n")[1])
    assert (front["license"], front["license_name"]) == ("other", "CC-BY-4.0")
    assert front["configs"][0]["data_files"][1] == {"split": "validation", "path": "data/validation-*.parquet"}


def test_what_a_licence_file_says_cannot_become_markup(sets: Path, tmp_path: Path) -> None:
    evil = 'clip0,"<script>x</script> | y","[a](javascript:b)\n# head",https://e.org/>|x\n'
    said = card(sets, tmp_path / "out", evil)
    (row,) = [line for line in said.splitlines() if line.startswith("| clip0")]
    assert "<script>" not in row.replace("\\<", "")
    assert "\\[a\\]\\(javascript:b\\) \\# head" in row
    assert "<https://e.org/%3E%7Cx>" in row
    assert text("a\n|b") == "a \\|b"


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("clip9,CC0,,\n", r"licences\.csv:2: .*'clip9'"),
        ("clip0,CC0\n", r"licences\.csv:2: 2 values, not the four"),
        ("clip0,CC0,,javascript:x\n", r"licences\.csv:2: 'javascript:x'"),
        ("clip0,CC0,,\nclip0.mp4,MIT,,\n", r"licences\.csv:3: 'clip0\.mp4' was named before"),
        ('clip0,"CC0,,\n', r"licences\.csv:\d: unexpected end"),
        ("clip0,\udcff,,\n", "is not UTF-8 text"),
    ],
)
def test_a_wrong_line_about_licences_is_named(sets: Path, tmp_path: Path, line: str, message: str) -> None:
    file = tmp_path / "licences.csv"
    file.write_bytes((HEADER + line).encode(errors="surrogateescape"))
    with pytest.raises(DataError, match=message):
        read_licences(file, open_sets(sets))


def test_a_missing_licence_file_is_a_usage_error(sets: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"none\.csv does not"):
        export(sets, tmp_path / "out", "hf", licences=tmp_path / "none.csv")


def test_another_licence_makes_the_export_again(sets: Path, tmp_path: Path) -> None:
    assert "CC0" in card(sets, tmp_path / "out", "clip0,CC0,,\n")
    assert "MIT" in card(sets, tmp_path / "out", "clip0,MIT,,\n")
    assert "MIT" not in card(sets, tmp_path / "out")


@pytest.mark.parametrize(
    ("content", "message", "hint"),
    [
        ("source;licence;attribution;url\nclip0;CC0;;\n", r"licences\.csv:1: 1 values", "by commas"),
        ("", r"licences\.csv names no", "for each source"),
        (HEADER, r"licences\.csv names no", "for each source"),
    ],
)
def test_a_file_of_licences_that_says_nothing_is_refused(
    sets: Path, tmp_path: Path, content: str, message: str, hint: str
) -> None:
    (tmp_path / "licences.csv").write_text(content)
    with pytest.raises(DataError, match=message) as caught:
        read_licences(tmp_path / "licences.csv", open_sets(sets))
    assert hint in caught.value.hint


def test_licences_of_photos_come_from_coco_captions_by_file_name(sets: Path, tmp_path: Path) -> None:
    file = tmp_path / "captions.json"
    coco = {
        "licenses": [{"id": 4, "name": "Attribution License", "url": "http://creativecommons.org/licenses/by/2.0/"}],
        "images": [
            {"id": 1, "file_name": "p1.png", "license": 4},
            {"id": 2, "file_name": "p2.png", "license": 9},
            {"id": 3, "file_name": "p999.png", "license": 4},
        ],
        "annotations": [],
    }
    file.write_text(json.dumps(coco))
    dataset = open_sets(sets)
    found = read_licences(file, dataset)
    assert found["album/p1.png"].licence == "Attribution License"
    assert found["album/p1.png"].url == "http://creativecommons.org/licenses/by/2.0/"
    assert "album/p2.png" not in found
    export(sets, tmp_path / "out", "croissant", licences=file)
    assert "Attribution License" in (tmp_path / "out" / "README.md").read_text()
    assert json.loads((tmp_path / "out" / "croissant.json").read_text())["version"] == "1.0.0"
    file.write_text(json.dumps(coco | {"images": []}))
    with pytest.raises(DataError, match="licence of no"):
        read_licences(file, dataset)

"""The annotation of phenomena: its recipe, its join, and what can be wrong with it."""

from pathlib import Path

import pytest

from ctxr.datasets.open import read_dataset
from ctxr.datasets.readers.phenomena import (
    FULL_ROWS,
    FURTHER,
    FURTHER_ROWS,
    PHENOMENA,
    read_annotations,
)
from ctxr.errors import DataError
from tests.releases import VALID, annotation_yaml, write_release

NAME = "MSR-VTT-videoTest_video7-shot1_0"


def test_an_empty_annotation_in_the_range_means_none_and_beyond_it_nobody_looked(tmp_path: Path) -> None:
    rows = [(f"video-x-shot0_{number // 3}", number % 3, "") for number in range(FURTHER_ROWS + 6)]
    (tmp_path / "manual_annotation_valid.yaml").write_text(annotation_yaml(rows))
    dataset = read_dataset(tmp_path)
    looked = [row.looked for row in read_annotations(tmp_path / "manual_annotation_valid.yaml")]
    assert looked == [PHENOMENA] * FULL_ROWS + [FURTHER] * (FURTHER_ROWS - FULL_ROWS) + [()] * 6
    judged = [row for row in dataset.judgments if row.worker == "phenomena"]
    assert len(dataset.queries) == FURTHER_ROWS
    assert len(judged) == FULL_ROWS * len(PHENOMENA) + (FURTHER_ROWS - FULL_ROWS) * len(FURTHER)
    assert {row.value for row in judged} == {0.0}


def test_annotations_join_the_release_on_set_and_index(tmp_path: Path) -> None:
    folder = write_release(tmp_path)
    rows = [(NAME, 3, "con,neg"), (NAME, 8, "q"), ("open-images-99_x", 1, "")]
    (folder / "manual_annotation_valid.yaml").write_text(annotation_yaml(rows))
    dataset = read_dataset(folder)
    assert dataset.queries[f"phenomena/{NAME}/3"].texts == (f"{NAME}/3",)
    assert dataset.texts[f"{NAME}/3"].text == VALID[NAME]["3"]
    found = {row.candidate for row in dataset.judgments if row.query == f"phenomena/{NAME}/3" and row.value == 1}
    assert found == {"context", "negation"}
    assert dataset.queries[f"phenomena/{NAME}/8"].texts == (f"phenomena/{NAME}/8",)
    assert any("2 annotated descriptions" in note for note in dataset.notes)
    assert any("1 sets are annotated" in note for note in dataset.notes)
    assert len(list(dataset.targets())) == 5


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (annotation_yaml([(NAME, 1, "con,zzz")]), r":4: set .*, index 1: unknown phenomenon code 'zzz'"),
        (annotation_yaml([(NAME, 12, "con")]), r":2: set .*: target 12 .*\(0 to 9\)"),
        ("", r"valid.yaml: .*mapping of set"),
        ("- a\n- b\n", r":1: .*mapping of set"),
        ("s:\n  - a\n", r":2: .*set s: .*mapping of target"),
        ("s:\n  x:\n    description: a\n    annotation: q\n", r":2: set s, index 'x'"),
        ("s:\n  1:\n    description: a\n", r"index '1' .*as annotation"),
        ("s:\n  1:\n    description: [a]\n    annotation: q\n", r"index '1' .*as description"),
        ("s: {}\ns: {}\n", r":2: 's' appears twice: .*line 1"),
        ("s:\n  1: {}\n  1: {}\n", r":3: '1' appears twice"),
        ("a: b: c\n", r":1 is not YAML"),
        ("? [a]\n: b\n", r"found a key"),
        ("[" * 300_000, r"nested more than 20 levels deep"),
        ("../x:\n  1: {}\n", r"'../x' .*valid name"),
        ("a: *nowhere\n", r"is not YAML"),
    ],
)
def test_what_does_not_fit_is_one_sentence_with_its_line(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "manual_annotation_valid.yaml").write_text(text)
    with pytest.raises(DataError, match=message) as error:
        read_dataset(tmp_path)
    assert "\n" not in error.value.message


def test_nothing_in_the_file_is_constructed(tmp_path: Path) -> None:
    file = tmp_path / "manual_annotation_valid.yaml"
    file.write_text('s:\n  1:\n    description: !!python/object/apply:os.system ["touch harmed"]\n    annotation: q\n')
    with pytest.raises(DataError, match="text as description"):
        read_annotations(file)
    assert not (tmp_path / "harmed").exists()


def test_an_alias_that_repeats_itself_without_end_is_refused(tmp_path: Path) -> None:
    (tmp_path / "manual_annotation_valid.yaml").write_text("a: &a\n  1: *a\n")
    with pytest.raises(DataError, match=r"index '1' .*as description"):
        read_dataset(tmp_path)


def test_the_real_sample_has_its_rows(real_files: Path) -> None:
    rows = read_annotations(real_files / "imagecode" / "manual_annotation_valid.first20.yaml")
    assert (len(rows), rows[0].tags, rows[1].tags) == (49, ("spatial",), ("quantities", "spatial", "nuances", "colour"))

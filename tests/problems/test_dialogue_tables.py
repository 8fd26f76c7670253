"""Statistics of dialogues, on one that is written out and on the real copy."""

from pathlib import Path

import pytest

from ctxr.datasets.open import read_dataset
from ctxr.problems.dialogue_tables import dialogue_tables
from tests.datasets.readers.test_photochat import put, row


def test_turns_are_counted_as_they_are_and_merged(tmp_path: Path) -> None:
    put(tmp_path, "train.json", [row(1), row(2, labels="Tea, Plate"), row(3, "b", [(0, "A dog"), (1, None)], "Animal")])
    put(tmp_path, "test.json", [row(1, "c", [(1, "One"), (0, "two three"), (1, "four"), (1, None)], "Vase")])
    tables = dialogue_tables(read_dataset(tmp_path))
    assert tables["dialogues"].rows == (
        ("train", 3, 2, 3.0, pytest.approx(7 / 3), pytest.approx(14 / 9), 2.0, pytest.approx(7 / 3), 2, 3),
        ("test", 1, 1, 3.0, 3.0, pytest.approx(4 / 3), pytest.approx(4 / 3), 3.0, 2, 1),
        ("all", 4, 3, 3.0, 2.5, 1.5, 1.8, 2.5, 4, 4),
    )
    assert tables["themes"].rows == (
        ("train", 2, 2, 1, 0, 2.5, 2),
        ("test", 0, 0, 0, 1, 1.0, 1),
        ("all", 2, 2, 1, 1, 2.0, 3),
    )


def test_themes_of_the_real_copy_are_those_of_the_papers_table(real_files: Path) -> None:
    tables = dialogue_tables(read_dataset(real_files / "photochat" / "dev.json"))
    # the paper has 109 of products
    assert tables["themes"].rows[0] == ("valid", 606, 424, 87, 112, 3.566, 648)
    assert "unknown speakers" in tables["dialogues"].note


def test_moments_of_the_released_sample_are_merged_turns(real_files: Path) -> None:
    tables = dialogue_tables(read_dataset(real_files / "photochat" / "dev_00.first9.json"))
    assert tables["dialogues"].rows[0][-3:] == (pytest.approx(86 / 9), 68 - 9, 9)

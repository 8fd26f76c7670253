"""Drawn dialogues in PhotoChat's released format."""

import filecmp
import json
from collections import Counter
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest

from ctxr.media.images import image_size
from ctxr.synthetic.dialogues import AGAIN, FOLDERS, write_dialogues
from ctxr.synthetic.world.scenes import COLOURS

COUNTS = {"train": 2 * AGAIN, "valid": 30, "test": 5}


def read(folder: Path, split: str) -> list[dict[str, Any]]:
    """The dialogues of a split as they lie on disk."""
    name = FOLDERS[split]
    rows: list[dict[str, Any]] = json.loads((folder / name / f"{name}.json").read_text())
    return rows


@pytest.fixture(scope="module")
def drawn(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Some dialogues of each split."""
    folder = tmp_path_factory.mktemp("drawn")
    write_dialogues(folder, COUNTS, seed=3)
    return folder


@pytest.mark.parametrize("split", COUNTS)
def test_every_dialogue_shares_one_photo_that_lies_on_disk_after_five_to_nine_turns(drawn: Path, split: str) -> None:
    dialogues, messages_in_a_row = read(drawn, split), 0
    assert [one["dialogue_id"] for one in dialogues] == list(range(COUNTS[split]))
    for one in dialogues:
        turns = one["dialogue"]
        assert all(turn.keys() == {"message", "share_photo", "user_id"} for turn in turns)
        (at,) = (place for place, turn in enumerate(turns) if turn["share_photo"])
        assert (turns[at]["message"], turns[at]["user_id"]) == ("", 0)
        assert all(turn["message"] for turn in (*turns[:at], *turns[at + 1 :]))
        merged = [user for user, _ in groupby(turn["user_id"] for turn in turns[:at])]
        assert 5 <= len(merged) <= 9
        assert at < len(turns) - 1
        messages_in_a_row += at - len(merged)
        name = one["photo_url"].removeprefix("https://example.org/")
        assert image_size(drawn / "photos" / name) == (240, 160)
    assert messages_in_a_row > 0


def test_photos_come_twice_in_train_alone(drawn: Path) -> None:
    seen = {split: Counter(one["photo_url"] for one in read(drawn, split)) for split in COUNTS}
    assert sorted(seen["train"].values())[-3:] == [1, 2, 2]
    assert {*seen["valid"].values(), *seen["test"].values()} == {1}
    assert len({*seen["train"], *seen["valid"], *seen["test"]}) == sum(map(len, seen.values()))


def test_descriptions_list_shapes_now_and_then_behind_a_person_and_no_colours(drawn: Path) -> None:
    said = [one["photo_description"] for one in read(drawn, "valid")]
    people, labels = zip(*(one.split("Objects in the photo: ") for one in said), strict=True)
    assert 0 < sum(one.startswith("The photo has your ") for one in people) < len(said) / 2
    listed = [one.split(", ") for one in labels]
    assert {len(one) for one in listed} == {1, 2, 3}
    assert not {label.lower() for one in listed for label in one} & {*COLOURS}


def test_the_seed_decides_what_is_drawn_and_what_exists_stays(drawn: Path, tmp_path: Path) -> None:
    write_dialogues(tmp_path / "same", {"test": 5}, seed=3)
    write_dialogues(tmp_path / "other", {"test": 5}, seed=4)
    assert read(tmp_path / "same", "test") == read(drawn, "test") != read(tmp_path / "other", "test")
    pictures = [f"test-{number:05}.jpg" for number in range(5)]
    found, _, _ = filecmp.cmpfiles(tmp_path / "same" / "photos", drawn / "photos", pictures, shallow=False)
    assert found == pictures
    write_dialogues(tmp_path / "other", {"test": 5, "valid": 1}, seed=3)
    assert read(tmp_path / "other", "test") != read(drawn, "test")
    assert len(read(tmp_path / "other", "valid")) == 1

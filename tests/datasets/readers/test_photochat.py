"""PhotoChat as it was released and in a third party's copy: turns, speakers, labels, photos, and what is wrong in them."""

import json
from pathlib import Path
from typing import Any

import pytest

from ctxr.datasets.dataset import Dataset
from ctxr.datasets.dialogues import before_share, merged
from ctxr.datasets.open import read_dataset
from ctxr.errors import DataError
from ctxr.store.records import Dialogue, ObjectLabels, Turn
from tests.releases import draw

TALK = [(0, "Hi!"), (0, "How are you?"), (1, "Fine."), (0, None), (1, "Nice.")]


def row(number: int | str, photo: str = "a", talk: Any = TALK, labels: str = "Dog, Man") -> dict[str, Any]:
    """A released dialogue of (user, message); a message of None is the share."""
    turns = [{"message": text or "", "share_photo": text is None, "user_id": user} for user, text in talk]
    return {
        "dialogue": turns, "dialogue_id": number, "photo_url": f"https://farm1.example/5/{photo}_o.jpg",
        "photo_description": f"The photo has your brother Darwin. Objects in the photo: {labels}",
    }  # fmt: skip


def put(folder: Path, name: str, content: object) -> Path:
    file = folder / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(content if isinstance(content, str) else json.dumps(content))
    return folder


def payload(dataset: Dataset, name: str) -> tuple[Any, ...]:
    return dataset.payloads[name]


def test_shards_of_a_split_are_one_gallery_with_a_query_of_what_was_said_before_the_photo(tmp_path: Path) -> None:
    put(tmp_path, "train/train_0.json", [row(7)])
    put(tmp_path, "train/train_1.json", [row(8, labels="Man, Hat"), row(9, "b")])
    draw(put(tmp_path, "dev_00.json", [row(7, "c")]) / "photos" / "b_o.jpg", 1)
    dataset = read_dataset(tmp_path)
    assert {one.id: one.images for one in dataset.sets} == {
        "train": ("train/a_o", "train/b_o"),
        "valid": ("valid/c_o",),
    }
    assert dataset.splits == {"train": "train", "valid": "valid"}
    texts = [dataset.texts[name] for name in dataset.queries["train/7"].texts]
    assert [(one.text, one.author) for one in texts] == [
        ("Hi!", "user-0"),
        ("How are you?", "user-0"),
        ("Fine.", "user-1"),
    ]
    assert [(one.query, one.candidate) for one in dataset.judgments][:2] == [
        ("train/7", "train/a_o"),
        ("train/8", "train/a_o"),
    ]
    turns = tuple(Turn(user, text or "", text is None) for user, text in TALK)
    assert payload(dataset, "dialogues")[0] == Dialogue("train/7", "", "train/a_o", (), turns, 3)
    assert payload(dataset, "objects")[0] == ObjectLabels("train/a_o", ("Dog", "Man", "Hat"))
    assert [image.id for image in dataset.images.values() if image.path] == ["train/b_o"]
    assert any(note.startswith("2 photos missing") and "train/a_o, valid/c_o" in note for note in dataset.notes)


def test_the_order_of_shards_changes_nothing(tmp_path: Path) -> None:
    rows = [row(7, labels="Man"), row(8, labels="Dog, Man"), row(9, "b")]
    for folder, order in (("one", (0, 1, 2)), ("two", (2, 1, 0))):
        for shard, number in enumerate(order):
            put(tmp_path / folder, f"train/train_{shard}.json", [rows[number]])
    one, two = (read_dataset(tmp_path / folder) for folder in ("one", "two"))
    assert (one.images, one.texts, one.queries) == (two.images, two.texts, two.queries)
    assert (one.sets, one.payloads, [*one.images]) == (two.sets, two.payloads, [*two.images])


def test_the_copy_tells_no_speakers_and_says_so(tmp_path: Path) -> None:
    copy = {"7": [["txt", "Hi!"], ["txt", ""], ["img", "7.jpg", "Objects in the photo: Dog"], ["txt", "Nice."]]}
    draw(put(tmp_path, "dev.json", copy) / "7.png", 1)
    dataset = read_dataset(tmp_path / "dev.json")
    turns = (Turn(-1, "Hi!"), Turn(-1, "", share=True), Turn(-1, "Nice."))
    assert payload(dataset, "dialogues") == (Dialogue("valid/7", "", "valid/7", (), turns, 1),)
    assert dataset.images["valid/7"].path == "7.png"
    assert [note.partition(" ")[0] for note in dataset.notes] == ["1", "1"]
    assert "without speakers" in dataset.notes[1]


def test_a_picture_of_its_own_split_is_preferred(tmp_path: Path) -> None:
    for folder in ("train", "dev"):
        draw(put(tmp_path, f"{folder}/any.json", [row(1)]) / folder / "photos" / "a_o.jpg", len(folder))
    dataset = read_dataset(tmp_path)
    assert {image.id: image.path for image in dataset.images.values()} == {
        "valid/a_o": "dev/photos/a_o.jpg",
        "train/a_o": "train/photos/a_o.jpg",
    }
    assert any("several splits: a_o" in note for note in dataset.notes)


@pytest.mark.parametrize(
    ("talk", "counted"),
    [
        (TALK[:3], "without exactly one"),
        ([*TALK, (0, None)], "without exactly one"),
        (TALK[3:], "nothing said before"),
        ([(0, " "), *TALK[3:]], "nothing said before"),
        ([], "without exactly one"),
    ],
)
def test_a_dialogue_that_asks_nothing_is_left_out_and_counted(talk: Any, counted: str, tmp_path: Path) -> None:
    put(tmp_path, "test.json", [row(1), row(2, talk=talk)])
    dataset = read_dataset(tmp_path)
    assert [*dataset.queries] == ["test/1"]
    assert any(note.startswith("1 dialogue ") and counted in note and "test/2" in note for note in dataset.notes)
    put(tmp_path, "test.json", [row(2, talk=talk)])
    with pytest.raises(DataError, match=str(tmp_path)):
        read_dataset(tmp_path)


def test_a_photo_of_unknown_labels_is_counted(tmp_path: Path) -> None:
    dataset = read_dataset(put(tmp_path, "test.json", [row(1) | {"photo_description": "A dog."}]))
    assert "objects" not in dataset.payloads
    assert any(note.startswith("1 photo without labels") and "test/a_o" in note for note in dataset.notes)


def edited(**more: object) -> list[dict[str, Any]]:
    return [row(1), row(2) | more]


def told(**more: object) -> list[dict[str, Any]]:
    return edited(dialogue=[row(1)["dialogue"][0] | more])


@pytest.mark.parametrize(
    ("content", "named"),
    [
        (edited(dialogue_id=1), r"test\.json: .* test/1 "),
        (edited(photo_url=""), r"test\.json: dialogue test/2: ''"),
        (edited(dialogue_id="a/b"), r"test\.json: dialogue test/a/b: 'a/b'"),
        (edited(photo_description=None), r"test\.json: .*\$\[1\]\.photo_description"),
        (told(message=5), r"test\.json: .*\$\[1\]\.dialogue\[0\]\.message"),
        (told(user_id=2), r"test\.json: .*\$\[1\]\.dialogue\[0\]\.user_id"),
        (told(share_photo="no"), r"test\.json: .*\$\[1\]\.dialogue\[0\]\.share_photo"),
        (json.dumps([row(1)]).replace("Hi!", "\\x"), r"test\.json:1 .*JSON"),
        (json.dumps([row(1)]).replace("Hi!", "\\ud83d"), r"test\.json .*surrogate"),
        ({"1": [["txt", "a"], ["img", "1.jpg"]]}, r"test\.json: .* 1: .*1\.jpg"),
        ({"1": [["txt", "a"], ["img", "1.jpg", None]]}, r"test\.json: .*\$\[\.\.\.\]\[1\]\[2\]"),
        ({"1": [["txt", "a"], ["gif", "1.jpg", ""]]}, r"test\.json: .* 1: .*gif"),
    ],
)
def test_what_does_not_fit_is_refused_by_file_and_row(content: object, named: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=named):
        read_dataset(put(tmp_path, "test.json", content))


def test_a_dialogue_that_two_shards_have_is_refused_with_both(tmp_path: Path) -> None:
    put(put(tmp_path, "train/train_0.json", [row(1)]), "train/train_1.json", [row(1)])
    with pytest.raises(DataError, match=r"train_1\.json.*train/1.*train_0\.json"):
        read_dataset(tmp_path)


def test_labels_of_every_photo_of_the_real_copy_are_found(real_files: Path) -> None:
    dataset = read_dataset(real_files / "photochat" / "dev.json")
    labels = [one.labels for one in payload(dataset, "objects")]
    assert (len(labels), len({frozenset(one) for one in labels})) == (1000, 648)
    assert sum(map(len, labels)) / 1000 == pytest.approx(3.57, abs=0.005)
    # 8,173 with the empty message before 231 photos
    assert sum(one.shared_at for one in payload(dataset, "dialogues")) + 231 == 8173
    assert any(note.startswith("231 dialogues") for note in dataset.notes)


def test_the_released_sample_has_speakers(real_files: Path) -> None:
    talks = payload(read_dataset(real_files / "photochat" / "dev_00.first9.json"), "dialogues")
    assert [len(before_share(one)) for one in talks][:2] == [9, 7]
    assert sum(len(before_share(one)) for one in talks) == 86
    assert sum(len(merged(before_share(one))) for one in talks) == 68

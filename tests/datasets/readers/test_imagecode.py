"""The published release: counts, order of frames, and every way in which a file can be wrong."""

import json
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from ctxr.datasets.open import read_dataset
from ctxr.errors import CtxrError, DataError
from tests.releases import TEST, TRAIN, VALID, annotation_yaml, draw, draw_sets, write_release

FRAMES = "MSR-VTT-videoTrain_video1-shot0_0"
PHOTOS = "open-images-12_abc"


def test_a_release_without_pictures_is_read_and_says_so(tmp_path: Path) -> None:
    dataset = read_dataset(write_release(tmp_path))
    assert dataset.root is None
    assert [one.id for one in dataset.sets] == sorted([*TRAIN, *VALID, *TEST])
    assert {one.id: one.kind for one in dataset.sets}[PHOTOS] == "photos"
    assert Counter(dataset.split_of(one) for one in dataset.sets) == {"train": 2, "valid": 1, "test": 1}
    assert {(query.id, target) for query, _, target in dataset.targets()} == {
        (f"{name}/{index}", int(index)) for part in (TRAIN, VALID) for name, texts in part.items() for index in texts
    }
    assert dataset.texts[f"{FRAMES}/5"].text == TRAIN[FRAMES]["5"]
    assert all(image.path == image.sha256 == "" and not image.width for image in dataset.images.values())
    assert any("4 of 4 sets" in note for note in dataset.notes)


def test_a_video_that_the_publisher_parted_is_one_source_and_two_groups(tmp_path: Path) -> None:
    dataset = read_dataset(write_release(tmp_path))
    parted = [one for one in dataset.sets if one.source == "MSR-VTT-videoTest_video7"]
    assert {(one.group, one.shot) for one in parted} == {
        ("MSR-VTT-videoTest_video7@valid", 1),
        ("MSR-VTT-videoTest_video7@test", 2),
    }
    assert any("1 video" in note and "one split" in note for note in dataset.notes)


def test_frames_are_ordered_by_number_so_the_target_is_the_right_picture(tmp_path: Path) -> None:
    folder = write_release(tmp_path, test=None)
    draw_sets(folder, [FRAMES, PHOTOS], numbers=[2, 10, 1, 33, 4, 5, 6, 7, 8, 9])
    seen: list[None] = []
    dataset = read_dataset(folder, lambda: seen.append(None))
    frames = next(one for one in dataset.sets if one.id == FRAMES)
    assert [name.rpartition("img")[2] for name in frames.images] == ["1", "2", "4", "5", "6", "7", "8", "9", "10", "33"]
    chosen = {query.id: dataset.images[one.images[target]].path for query, one, target in dataset.targets()}
    assert chosen[f"{FRAMES}/5"] == f"image-sets/{FRAMES}/img7.jpg"
    assert len(seen) == 20
    file = dataset.picture(dataset.images[frames.images[0]])
    assert file is not None
    assert file.is_file()


def test_a_set_that_lacks_a_picture_counts_as_one_without(tmp_path: Path) -> None:
    folder = write_release(tmp_path, test=None, valid=None)
    draw_sets(folder, [FRAMES, PHOTOS])
    (folder / "image-sets" / FRAMES / "img12.jpg").unlink()
    dataset = read_dataset(folder)
    by_id = {one.id: one for one in dataset.sets}
    assert dataset.images[by_id[FRAMES].images[0]].path == ""
    assert dataset.images[by_id[PHOTOS].images[0]].path != ""
    assert any(f"({FRAMES} has 9)" in note for note in dataset.notes)


@pytest.mark.parametrize("side", ["train", "valid"])
def test_lists_where_targets_are_promised_are_told_of(tmp_path: Path, side: str) -> None:
    (tmp_path / f"{side}_data.json").write_text(json.dumps({"s-shot0_0": ["That one."]}))
    (note,) = [note for note in read_dataset(tmp_path).notes if "hidden" in note]
    assert note.startswith(f"{side}_data.json ")
    assert not any("hidden" in note for note in read_dataset(write_release(tmp_path / "whole")).notes)


def test_sets_of_another_size_and_damaged_pictures_are_reported(tmp_path: Path) -> None:
    folder = write_release(tmp_path, train={FRAMES: {"5": "The hand."}}, test=None, valid=None)
    draw_sets(folder, [FRAMES], numbers=[0, 12, 30, 41, 50, 66])
    (folder / "image-sets" / FRAMES / "img12.jpg").write_bytes(b"no picture")
    dataset = read_dataset(folder)
    assert any("6 pictures here, not 10" in note for note in dataset.notes)
    assert [image.id for image in dataset.images.values() if not image.path] == [f"{FRAMES}/img12"]
    assert any("1 images cannot be" in note for note in dataset.notes)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("last.jpg", r"last.jpg: .*imgN"),
        ("img08.jpg", r"number 8 .*img0?8.jpg"),
        ("img99.jpg", r"img99.jpg .*folder"),
    ],
)
def test_a_picture_that_is_no_frame_of_its_set_is_refused(tmp_path: Path, name: str, message: str) -> None:
    folder = write_release(tmp_path / "release")
    draw_sets(folder, [FRAMES])
    picture, outside = folder / "image-sets" / FRAMES / name, draw(tmp_path / "outside.jpg", 1)
    if "99" in name:
        picture.symlink_to(outside)
    else:
        outside.rename(picture)
    with pytest.raises(DataError, match=message):
        read_dataset(folder)


def test_writers_are_the_authors_of_their_descriptions(tmp_path: Path) -> None:
    folder = write_release(tmp_path)
    name = next(iter(VALID))
    (folder / "annotator_split_valid.first1.json").write_text(
        json.dumps({name: {"3": "train_worker", "8": "unseen_worker"}})
    )
    dataset = read_dataset(folder)
    assert dataset.texts[f"{name}/3"].author == "train_worker"
    assert dataset.texts[f"{name}/4"].author == "unknown"
    assert any("1 entries about writers" in note for note in dataset.notes)


def test_the_repository_as_cloned_is_read_with_what_lies_in_its_folder_of_analyses(tmp_path: Path) -> None:
    name = next(iter(VALID))
    folder = write_release(tmp_path / "imagecode" / "data")
    draw_sets(folder, [name])
    (folder / "analysis").mkdir()
    (folder / "analysis" / "annotator_split_valid.json").write_text(json.dumps({name: {"3": "train_worker"}}))
    (folder / "analysis" / "manual_annotation_valid.yaml").write_text(annotation_yaml([(name, 3, "con,q")]))
    for dataset in (read_dataset(tmp_path / "imagecode"), read_dataset(folder)):
        assert len(dataset.sets) == 4
        assert dataset.root == folder
        assert dataset.texts[f"{name}/3"].author == "train_worker"
        found = {row.candidate for row in dataset.judgments if row.worker == "phenomena" and row.value}
        assert found == {"context", "quantities"}
    assert read_dataset(tmp_path / "imagecode").name == "imagecode"


def test_partially_named_files_and_a_bom_are_read(tmp_path: Path) -> None:
    file = tmp_path / "train_data.first2.json"
    file.write_bytes(b"\xef\xbb\xbf" + json.dumps(TRAIN).encode())
    assert len(read_dataset(tmp_path).sets) == len(read_dataset(file).sets) == 2


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("[]", r"train_data.json: .*got `array`"),
        ('{\n"s": 3}', r"train_data.json:2: set 's': .*got `int`"),
        ('{"s": {\n"3": 7}}', r":1: set 's': .*got `int`"),
        ('{"s": {"1": "x"},\n"s": {"2": "y"}}', r":2: 's' appears twice"),
        ('{"a": {"1": "x"},\n"s": {"2": "y",\n "2": "z"}}', r":3: '2' appears twice"),
        ('{"s": {\n"10": "x"}}', r":2: set 's': target 10 .*\(0 to 9\)"),
        ('{"s": {"-1": "x"}}', r"'s': .*key"),
        ('{"s": {"999999999999": "x"}}', r"'s': .*key"),
        ('{"../up": {"1": "x"}}', r"'../up' .*valid name"),
        ('{"a\\u001b[31m": {"1": "x"}}', r"a valid name"),
        ('{"s": {"1": "x"', r"train_data.json:1 is not JSON"),
        ('{"s": {"1": NaN}}', r"NaN"),
        ("[" * 100_000, r"nested too deeply"),
        ("9" * 5000, r"is not JSON"),
        ('{"s": {"1": "a\\ud800"}}', "surrogate pair"),
        ('{"a": {"1": "x"},\n"b": ["y"]}', r"train_data.json:2: set 'b' is a list, and others"),
        (b'{"s":\n{"1": "caf\xe9"}}', r"train_data.json:2 is not UTF-8 text: byte 0xe9"),
    ],
)
def test_what_does_not_fit_is_one_sentence_with_its_place(tmp_path: Path, content: str | bytes, message: str) -> None:
    (tmp_path / "train_data.json").write_bytes(content.encode() if isinstance(content, str) else content)
    with pytest.raises(DataError, match=message) as error:
        read_dataset(tmp_path)
    assert "\n" not in error.value.message


def test_a_set_in_two_files_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"valid_data.json:\d+: set '.*' is in train_data.json as well"):
        read_dataset(write_release(tmp_path, valid=TRAIN))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('{"s": {"1": 5}}', r"'s': .*got `int`"),
        ('{"s": ["train_worker"]}', r"'s': .*got `array`"),
        ('{"s": {"x": "a"}}', r"'s': .*key"),
        ("[1]", "got `array`"),
    ],
)
def test_a_wrong_file_of_writers_is_one_sentence(tmp_path: Path, content: str, message: str) -> None:
    folder = write_release(tmp_path)
    (folder / "annotator_split_valid.json").write_text(content)
    with pytest.raises(DataError, match=message):
        read_dataset(folder)
    with pytest.raises(DataError, match="holds none"):
        read_dataset(folder / "annotator_split_valid.json")


def test_the_real_release_has_the_published_counts(real_files: Path) -> None:
    dataset = read_dataset(real_files / "imagecode")
    valid = [one for one in dataset.sets if dataset.split_of(one) == "valid"]
    ids = {one.id for one in valid}
    asked = Counter(query.image_set for query in dataset.queries.values() if query.labels is None)
    assert len(valid) == 1039
    assert sum(asked[name] for name in ids) == 2302
    assert Counter(asked[name] for name in ids) == {3: 434, 2: 395, 1: 210}
    assert Counter(one.kind for one in valid) == {"video": 884, "photos": 155}
    assert Counter(text.author for text in dataset.texts.values())["train_worker"] == 502
    assert Counter(text.author for text in dataset.texts.values())["unseen_worker"] == 1800


def test_bytes_changed_by_chance_never_give_more_than_one_sentence(tmp_path: Path) -> None:
    folder = write_release(tmp_path)
    name = next(iter(VALID))
    (folder / "manual_annotation_valid.yaml").write_text(annotation_yaml([(name, 3, "con,q"), ("x", 1, "")]))
    (folder / "annotator_split_valid.json").write_text(json.dumps({name: {"3": "train_worker"}}))
    rng = np.random.default_rng(7)
    scraps = [*rb'\ud800 " { ] null -1 ../ : *a &a'.split(), b"\xff", b"9" * 30, b"\x00", b""]
    files = sorted(file for file in folder.iterdir() if file.is_file())
    read = 0
    refused: list[str] = []
    for _ in range(150):
        file = files[int(rng.integers(len(files)))]
        before = file.read_bytes()
        at, length = int(rng.integers(len(before))), int(rng.integers(0, 5))
        file.write_bytes(before[:at] + scraps[int(rng.integers(len(scraps)))] + before[at + length :])
        try:
            read_dataset(folder)
            read += 1
        except CtxrError as error:
            refused.append(error.message)
        file.write_bytes(before)
    assert read > 10
    assert len(refused) > 50
    assert not any("\n" in message for message in refused)

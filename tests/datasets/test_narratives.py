"""Localized Narratives of images and of videos, read and written: clocks, splits, edges, and lines that mean harm."""

import json
import re
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ctxr.datasets.dataset import Dataset
from ctxr.datasets.open import read_dataset
from ctxr.errors import DataError, UsageError
from ctxr.store.records import Trace
from ctxr.store.tables import grouped
from tests.exports import export
from tests.releases import draw

Line = dict[str, Any]
START = 1_646_807_046_669  # when a recording starts: milliseconds since 1970


def still(image: str | int = 7, annotator: str | int = 93, caption: str = "A red hat.", **more: Any) -> Line:
    line = {
        "dataset_id": "mscoco_val2017",
        "image_id": image,
        "annotator_id": annotator,
        "caption": caption,
        "timed_caption": [
            {"utterance": "A red", "start_time": 0.0, "end_time": 0.4},
            {"utterance": "hat.", "start_time": 0.4, "end_time": 1.25},
        ],
        "traces": [
            [{"x": 0.25, "y": 0.5, "t": 0.022}, {"x": 0.5, "y": 0.125, "t": 0.4}],
            [{"x": 1.0, "y": 0.0, "t": 1.0}],
        ],
        "voice_recording": "coco_val/coco_val_7_93.ogg",
    }
    return line | more


def frame_point(x: float, ms: float, frame: int) -> Line:
    return {"x": x, "y": 0.5, "time_ms_since_epoch": START + ms, "kf_idx": frame}


def actor(caption: str = "A tiger runs.", **more: Any) -> Line:
    line = {
        "actor_name": "Tiger",
        "keyframe_selection_indices": [2],
        "recording_start_time_ms_since_epoch": START,
        "traces_start_time_ms_since_epoch": START - 404,
        "caption": caption,
        "traces": [[frame_point(0.25, -100, 3), frame_point(0.5, 250, 3), frame_point(0.75, 500, 1)]],
        "time_alignment": [
            {"referenced_word": word, "start_ms": 100 * place, "end_ms": 100 * place + 80}
            for place, word in enumerate(caption.split())
        ],
        "recording_filename": "recordings/OVIS_train/0_0.webm",
    }
    return line | more


def video(*actors: Line, annotator: int = 103, name: str = "c1", **more: Any) -> Line:
    line = {
        "vidln_id": 0,
        "dataset_id": "OVIS_train",
        "video_id": name,
        "annotator_id": annotator,
        "keyframe_names": [f"img_{number}" for number in range(4)],
        "actor_narratives": [*actors] or [actor()],
    }
    return line | more


def write(folder: Path, lines: Iterable[Line | str], name: str = "narratives.jsonl") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / name
    file.write_text("".join(f"{line if isinstance(line, str) else json.dumps(line)}\n" for line in lines))
    return file


def trace_of(dataset: Dataset, key: str) -> Trace:
    (trace,) = dataset.payload("query", key)["traces"]
    assert isinstance(trace, Trace)
    return trace


def points(trace: Trace) -> list[list[list[float]]]:
    return [np.array(stroke, np.float64).reshape(-1, 3).round(5).tolist() for stroke in trace.strokes]


def targets(dataset: Dataset) -> dict[str, list[str]]:
    return grouped((query.id, image_set.images[place]) for query, image_set, place in dataset.targets())


def test_a_narrative_of_an_image_asks_for_it_in_the_gallery_of_its_split(tmp_path: Path) -> None:
    write(tmp_path, [still(), still(8), still("9", 5)])
    write(tmp_path, [still(1, dataset_id="ADE20k_train")], "more.jsonl")
    dataset = read_dataset(tmp_path)
    assert {one.id: one.images for one in dataset.sets} == {
        "ADE20k_train": ("ADE20k_train/1",),
        "mscoco_val2017": ("mscoco_val2017/7", "mscoco_val2017/8", "mscoco_val2017/9"),
    }
    assert {one.kind for one in dataset.sets} == {"photos"}
    assert dataset.splits == {"mscoco_val2017": "valid", "ADE20k_train": "train"}
    key = "mscoco_val2017/annotator-93/0"
    assert targets(dataset)[key] == ["mscoco_val2017/7"]
    assert dataset.texts[key].author == "annotator-93"
    trace = trace_of(dataset, key)
    assert points(trace) == [[[0.25, 0.5, 0.022], [0.5, 0.125, 0.4]], [[1, 0, 1]]]
    assert [tuple(word) for word in trace.words] == [("A red", 0.0, 0.4), ("hat.", 0.4, 1.25)]
    assert (trace.drawn_on, trace.actor) == ((0, 0), "")


def test_times_in_a_video_count_from_the_start_of_its_recording_and_strokes_end_with_their_keyframe(
    tmp_path: Path,
) -> None:
    dataset = read_dataset(write(tmp_path, [video()]))
    (one,) = dataset.sets
    assert (one.id, one.kind, one.ordered, dataset.split_of(one)) == ("OVIS_train/c1", "keyframes", True, "train")
    assert one.images == tuple(f"OVIS_train/c1/img_{number}" for number in range(4))
    key = "OVIS_train/c1/annotator-103/0"
    # 2 was selected, 3 and 1 were drawn on; what is not named was not judged
    assert targets(dataset)[key] == [one.images[place] for place in (1, 2, 3)]
    assert {row.value for row in dataset.judgments} == {1.0}
    trace = trace_of(dataset, key)
    assert points(trace) == [[[0.25, 0.5, -0.1], [0.5, 0.5, 0.25]], [[0.75, 0.5, 0.5]]]
    assert trace.drawn_on == (2, 0)
    assert [tuple(word) for word in trace.words] == [("A", 0, 0.08), ("tiger", 0.1, 0.18), ("runs.", 0.2, 0.28)]
    assert trace.actor == "Tiger"


def test_narratives_of_several_people_and_lines_have_ids_of_their_own(tmp_path: Path) -> None:
    lines = [video(actor(), actor("A cat.")), video(actor(), annotator=104), video(actor("Again."))]
    assert [*read_dataset(write(tmp_path, lines)).queries] == [
        "OVIS_train/c1/annotator-103/0",
        "OVIS_train/c1/annotator-103/1",
        "OVIS_train/c1/annotator-104/0",
        "OVIS_train/c1/annotator-103/2",
    ]
    stills = [still(), still(caption="A hat, again."), still(annotator="ann")]
    assert [*read_dataset(write(tmp_path, stills)).queries] == [
        "mscoco_val2017/annotator-93/0",
        "mscoco_val2017/annotator-93/1",
        "mscoco_val2017/ann/0",
    ]


@pytest.mark.parametrize(
    ("dataset_id", "file", "split"),
    [
        ("mscoco_val2017", "open_images_train_v6_localized_narratives-00000-of-00010", "valid"),
        ("Flickr30k", "flickr30k_test_localized_narratives", "test"),
        ("ADE20k_validation", "any", "valid"),
        ("open_images", "open_images_train_v6_localized_narratives-00000-of-00010", "train"),
        ("trained", "any", None),
    ],
)
def test_the_dataset_tells_the_split_or_else_the_file(
    tmp_path: Path, dataset_id: str, file: str, split: str | None
) -> None:
    dataset = read_dataset(write(tmp_path, [still(dataset_id=dataset_id)], f"{file}.jsonl"))
    assert [dataset.split_of(one) for one in dataset.sets] == [split]


def test_a_file_of_two_splits_and_a_dataset_of_two_files_have_a_gallery_for_each(tmp_path: Path) -> None:
    write(tmp_path / "one", [still(), still(dataset_id="mscoco_train2017")])
    assert read_dataset(tmp_path / "one").splits == {"mscoco_val2017": "valid", "mscoco_train2017": "train"}
    for split in ("train", "test"):
        write(tmp_path / "two", [still(dataset_id="flickr")], f"flickr_{split}.jsonl")
    two = read_dataset(tmp_path / "two")
    assert two.splits == {"flickr_train": "train", "flickr_test": "test"}
    assert {*two.images} == {"flickr_train/7", "flickr_test/7"}


@pytest.mark.parametrize(
    "picture",
    ["7.jpg", "deep/er/7.PNG", "val2017/000000000007.jpg", "COCO_val2014_000000000007.jpg", "mscoco_val2017/7.jpeg"],
)
def test_a_picture_is_found_by_its_number_in_any_folder_below(tmp_path: Path, picture: str) -> None:
    draw(tmp_path / picture, 1)
    dataset = read_dataset(write(tmp_path, [still(), still(annotator=5)]))
    assert dataset.images["mscoco_val2017/7"].path == picture
    assert dataset.notes == ()


def test_the_folder_of_a_dataset_and_of_a_video_tells_pictures_of_one_name_apart(tmp_path: Path) -> None:
    lines = [video(name=name, dataset_id=dataset) for dataset in ("a_train", "b_train") for name in ("v", "w")]
    paths = [
        f"frames/{row['dataset_id']}/{row['video_id']}/{name}.png" for row in lines for name in row["keyframe_names"]
    ]
    for number, path in enumerate(paths):
        draw(tmp_path / path, number)
    assert sorted(image.path for image in read_dataset(write(tmp_path, lines)).images.values()) == sorted(paths)
    shutil.move(tmp_path / "frames" / "a_train" / "v", tmp_path / "v")
    shutil.rmtree(tmp_path / "frames")
    dataset = read_dataset(write(tmp_path, lines[:1]))
    assert dataset.images["a_train/v/img_0"].path == "v/img_0.png"


def test_without_pictures_texts_and_traces_are_there_and_notes_say_what_is_missing(tmp_path: Path) -> None:
    outside = [[{"x": -0.5, "y": 0.5, "t": 0}, {"x": 2, "y": 1e9, "t": 1}, {"x": 0, "y": 1, "t": 2}]]
    lines = [still(traces=outside), still(8, caption=" "), still(9, timed_caption=[], traces=[[]])]
    lines.append(video(actor(traces=[], keyframe_selection_indices=[])))
    dataset = read_dataset(write(tmp_path, lines))
    counted = [note.rpartition(": ")[2].partition(", the first is ") for note in dataset.notes[:3]]
    assert [(count, first) for count, _, first in counted] == [
        ("7", "mscoco_val2017/7"),
        ("1", f"{tmp_path / 'narratives.jsonl'}:2"),
        ("1", f"{tmp_path / 'narratives.jsonl'}:4, actor 0"),
    ]
    assert dataset.notes[3].startswith("2 of 3 points ")
    assert len(dataset.notes) == 4
    assert points(trace_of(dataset, "mscoco_val2017/annotator-93/0")) == [[[0, 0.5, 0], [1, 1, 1], [0, 1, 2]]]
    assert dataset.payload("query", "mscoco_val2017/annotator-93/1") == {}
    assert len(dataset.queries) == 2


def test_points_stay_in_the_order_they_were_drawn_and_words_may_have_none(tmp_path: Path) -> None:
    unsorted = [[{"x": x, "y": 0, "t": t} for x, t in ((0.5, 3.0), (0.25, 1.0), (0.75, 2.0))]]
    dataset = read_dataset(write(tmp_path, [still(traces=unsorted), still(8, traces=[])]))
    assert points(trace_of(dataset, "mscoco_val2017/annotator-93/0")) == [[[0.5, 0, 3], [0.25, 0, 1], [0.75, 0, 2]]]
    assert trace_of(dataset, "mscoco_val2017/annotator-93/1").strokes == ()


def without(line: Line, name: str) -> Line:
    return {key: value for key, value in line.items() if key != name}


SAID = {"referenced_word": "A", "start_ms": 5, "end_ms": 4}
HARM: dict[str, tuple[Line | str, str]] = {
    "broken line": ('{"dataset_id": "a", "timed_caption"', "truncated"),
    "not a number": (json.dumps(still(traces=[[{"x": float("nan"), "y": 0, "t": 0}]])), "malformed"),
    "infinite": (json.dumps(still()).replace("0.022", "1e999"), "out of range"),
    "no caption": (without(still(), "caption"), "`caption`"),
    "no traces": (without(still(), "traces"), "`traces`"),
    "no time": (still(traces=[[{"x": 0, "y": 0}]]), "'t'"),
    "no keyframe": (video(actor(traces=[[{"x": 0, "y": 0, "time_ms_since_epoch": START}]])), "'kf_idx'"),
    "no keyframes": (video(keyframe_names=[]), "keyframe_names"),
    "text for a number": (still(traces=[[{"x": "0", "y": 0, "t": 0}]]), "Expected `float`"),
    "keyframe beyond": (video(actor(traces=[[frame_point(0, 0, 4)]])), "actor 0: .* keyframe 4"),
    "keyframe below": (video(actor(keyframe_selection_indices=[-1])), "keyframe -1"),
    "half a keyframe": (video(actor(traces=[[{**frame_point(0, 0, 0), "kf_idx": 0.5}]])), "keyframe 0.5"),
    "keyframe twice": (video(keyframe_names=["a", "a", "b", "c"]), "c1 is named twice"),
    "ends before": (still(timed_caption=[{"utterance": "A", "start_time": 2, "end_time": 1}]), "'A' .* 2 to 1 s"),
    "ends before in a video": (video(actor(time_alignment=[SAID])), "'A' .* 0.005 to 0.004 s"),
    "another clock": (video(actor(recording_start_time_ms_since_epoch=0)), "e\\+09 seconds"),
    "out of the folder": (still("../7"), "'..'"),
    "root": (still("/7"), "'/'"),
    "video out of the folder": (video(name=".."), "'..'"),
    "keyframe out of the folder": (video(keyframe_names=["..", "b", "c", "d"]), "'..'"),
    "dataset out of the folder": (still(dataset_id="../val"), "'..'"),
    "same again": (still(8), "narratives.jsonl:1 is here again"),
    "other keyframes": (video(name="known", annotator=7, keyframe_names=["z", "b", "c", "d"]), "known"),
    "another row": ({"id": "a"}, "`dataset_id`"),
    "a list": ("[]", "Expected `object`"),
}


@pytest.mark.parametrize("name", HARM)
def test_a_line_that_does_not_fit_is_named(name: str, tmp_path: Path) -> None:
    line, what = HARM[name]
    file = write(tmp_path, [still(8), "", video(name="known"), line])
    with pytest.raises(DataError, match=f"{re.escape(str(file))}:4.*{what}"):
        read_dataset(file)


def test_a_file_without_a_narrative_or_of_another_form_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"narratives .* text"):
        read_dataset(write(tmp_path, [still(caption="")]))
    with pytest.raises(UsageError, match=r"other\.jsonl"):
        read_dataset(write(tmp_path, [{"id": 1}], "other.jsonl"))


@pytest.fixture
def both(tmp_path: Path) -> Path:
    """A folder of both formats with pictures, two galleries and two annotators of a video."""
    folder = tmp_path / "both"
    stills = [still(), still(7, 94, "A hat."), still(8, traces=[], timed_caption=[]), still(1, dataset_id="x_test")]
    write(folder, stills, "stills.jsonl")
    write(folder, [video(actor(), actor("A cat sits.")), video(annotator=104), video(name="c2")], "videos.jsonl")
    for number, path in enumerate(["val/7.jpg", "val/8.png", *(f"c1/img_{place}.jpg" for place in range(4))]):
        draw(folder / path, number)
    return folder


def test_what_is_written_reads_as_what_was_read(both: Path, tmp_path: Path) -> None:
    report = export(both, tmp_path / "out", "narratives")
    before, after = read_dataset(both), read_dataset(tmp_path / "out")
    for name in ("sets", "queries", "judgments", "splits", "payloads"):
        assert getattr(after, name) == getattr(before, name), name
    for key, text in before.texts.items():
        assert (after.texts[key].text, after.texts[key].author) == (text.text, text.author)
    for image in before.images.values():
        assert after.images[image.id].sha256 == image.sha256
        assert bool(after.images[image.id].path) == bool(image.path)
    assert report.left_out == []
    assert sorted(path.name for path in (tmp_path / "out").glob("*.jsonl")) == [
        "test_localized_narratives.jsonl",
        "train_video_narratives.jsonl",
        "valid_localized_narratives.jsonl",
    ]
    (line, *_) = map(json.loads, (tmp_path / "out" / "train_video_narratives.jsonl").read_text().splitlines())
    words = line["actor_narratives"][1]["time_alignment"]
    spans = [(word["referenced_word_start_idx"], word["referenced_word_end_idx"]) for word in words]
    assert ["A cat sits."[start:end] for start, end in spans] == ["A", "cat", "sits."]


def test_hidden_answers_of_test_are_in_no_line(both: Path, tmp_path: Path) -> None:
    report = export(both, tmp_path / "out", "narratives", hide_test=True)
    assert not [*(tmp_path / "out").glob("test_*")]
    assert [line.partition(" ")[0] for line in report.left_out] == ["1", "1"]
    assert "x_test/annotator-93/0" in report.left_out[0]


def test_real_video_narratives_are_read_and_written(real_files: Path, tmp_path: Path) -> None:
    folder = real_files / "narratives"
    if not folder.is_dir():
        pytest.skip(f"no real files: {folder} is not there")
    dataset = read_dataset(folder)
    traces = [trace_of(dataset, query) for query in dataset.queries]
    assert (len(dataset.sets), len(traces), sum(len(one.strokes) for one in traces)) == (3, 7, 137)
    assert sum(len(stroke) for one in traces for stroke in one.strokes) == 3 * 4027
    assert all(image.path for image in dataset.images.values())
    assert dataset.notes == ()
    export(folder, tmp_path / "out", "narratives")
    assert read_dataset(tmp_path / "out").payloads == dataset.payloads

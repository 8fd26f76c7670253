"""Our own artifacts as datasets: references, paths, and the order of frames are checked."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from ctxr.datasets.open import read_dataset
from ctxr.errors import CtxrError, DataError, UnfinishedError
from ctxr.store.artifacts import Content, finish
from ctxr.store.records import Dialogue, Facts, Image, ImageSet, Judgment, Query, Record, Split, Text, Turn
from ctxr.store.tables import PAYLOADS, Owner, PayloadTable, write_table
from tests.releases import write_release

Tables = dict[str, list[Any]]


def tables() -> Tables:
    names = ("clip/img2", "clip/img10")
    return {
        "sets": [ImageSet("clip-shot0_0", "video", names, "clip", "clip", 0, 0.4, 0.5)],
        "images": [
            Image(name, f"images/clip/{name[5:]}.jpg", f"{place:064}", "clip", 4, 3, int(name[8:]))
            for place, name in enumerate(names)
        ],
        "facts": [
            Facts("clip", 2, "images/clip/img2.jpg", "0", 4, 3, brisque=0.3),
            Facts("clip", 3, "dropped/x", "0", 4, 3),
        ],
        "splits": [Split("clip", "valid")],
        "texts": [Text("t", "The second one.", "w1")],
        "queries": [Query("q", "clip-shot0_0", ("t",))],
        "judgments": [Judgment("q", "clip/img10", "gold", 1.0)],
    }


def write(folder: Path, content: Tables, kind: str = "dataset") -> Path:
    for name, rows in content.items():
        write_table(folder / f"{name}.jsonl", rows)
    files = [f"{name}.jsonl" for name in content]
    finish(folder, kind=kind, verb="test", config={}, parents=[], content=Content(files, {}, {}))
    return folder


def test_a_dataset_artifact_is_read_whole(tmp_path: Path) -> None:
    dataset = read_dataset(write(tmp_path / "dataset", tables()))
    assert [(query.id, target) for query, _, target in dataset.targets()] == [("q", 1)]
    assert dataset.facts.keys() == {"clip/img2"}
    assert dataset.splits == {"clip": "valid"}
    assert (dataset.name, dataset.notes) == ("dataset", ())
    assert read_dataset(tmp_path / "dataset" / "manifest.json") == dataset


def test_image_sets_need_no_texts(tmp_path: Path) -> None:
    content = {name: rows for name, rows in tables().items() if name in ("sets", "images")}
    dataset = read_dataset(write(tmp_path, content, "image_sets"))
    assert (len(dataset.sets), dataset.queries, dataset.judgments) == (1, {}, ())


def test_an_edited_artifact_is_read_and_said(tmp_path: Path) -> None:
    write(tmp_path, tables())
    (tmp_path / "texts.jsonl").write_text('{"id":"t","text":"Another.","author":"w1"}\n')
    assert "texts.jsonl" in read_dataset(tmp_path).notes[0]


def test_a_table_that_the_manifest_does_not_list_is_no_part_of_the_artifact(tmp_path: Path) -> None:
    texts = {name: rows for name, rows in tables().items() if name not in ("queries", "judgments")}
    write(tmp_path, texts)
    (tmp_path / "queries.jsonl").write_text("left over from an earlier run")
    assert read_dataset(tmp_path).queries == {}


def test_a_table_that_the_manifest_lists_must_be_there(tmp_path: Path) -> None:
    write(tmp_path, tables())
    (tmp_path / "judgments.jsonl").unlink()
    with pytest.raises(DataError, match=r"judgments\.jsonl is missing"):
        read_dataset(tmp_path)


def dialogue(query: str) -> Dialogue:
    return Dialogue(query, "unit", "clip/img10", ("w1", "w2"), (Turn(1, "The second one."), Turn(0, "", True)), 1)


def test_rows_of_a_side_table_are_read_by_the_query_that_they_belong_to(tmp_path: Path) -> None:
    dataset = read_dataset(write(tmp_path / "talks", tables() | {"dialogues": [dialogue("q")]}))
    assert dataset.payload("query", "q") == {"dialogues": [dialogue("q")]}
    assert dataset.payload("query", "p") == dataset.payload("image", "q") == {}
    assert list(dataset.tables()["dialogues"]) == [dialogue("q")]
    assert read_dataset(write(tmp_path / "bare", tables())).payloads == {}


class Note(Record, frozen=True):
    id: str


@pytest.mark.parametrize(
    ("of", "owner"), [("query", "q"), ("text", "t"), ("image", "clip/img2"), ("image_set", "clip-shot0_0")]
)
def test_rows_of_any_owner_are_read_and_those_of_nobody_are_refused(
    of: Owner, owner: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(PAYLOADS, "notes", PayloadTable(Note, of=of))
    dataset = read_dataset(write(tmp_path / "noted", tables() | {"notes": [Note(owner)]}))
    assert dataset.payload(of, owner) == {"notes": [Note(owner)]}
    with pytest.raises(DataError, match=r"notes\.jsonl: .*'nobody'"):
        read_dataset(write(tmp_path / "lost", tables() | {"notes": [Note("nobody")]}))


def test_distances_that_nobody_measured_are_read_again(tmp_path: Path) -> None:
    sets = [structs.replace(one, closest=None, mean_distance=None) for one in tables()["sets"]]
    assert list(read_dataset(write(tmp_path, tables() | {"sets": sets})).sets) == sets


def test_a_set_of_an_unknown_kind_is_refused_with_the_kinds_there_are(tmp_path: Path) -> None:
    write(tmp_path, tables())
    table = tmp_path / "sets.jsonl"
    table.write_text(table.read_text().replace('"kind":"video"', '"kind":"hologram"'))
    with pytest.raises(DataError, match=r"sets\.jsonl:1: .*'hologram'; there are video, photos, document"):
        read_dataset(tmp_path)


def talk_elsewhere(content: Tables) -> None:
    content["dialogues"] = [dialogue("another")]


def string_order(content: Tables) -> None:
    (one,) = content["sets"]
    content["sets"] = [ImageSet(one.id, "video", one.images[::-1], "clip", "clip", 0, 0.4, 0.5)]


def drop(name: str) -> Callable[[Tables], None]:
    return lambda content: content[name].clear()


def lead_out(content: Tables) -> None:
    content["images"][0] = Image("clip/img2", "../secret.jpg", "", "clip", 4, 3, 2)


def judge_another(content: Tables) -> None:
    content["judgments"] = [Judgment("q", "other/img1", "gold", 1.0)]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (string_order, r"set 'clip-shot0_0' .*\(img10 before img2\)"),
        (drop("images"), r"'clip/img2'.* images.jsonl"),
        (drop("texts"), r"query 'q' names"),
        (drop("queries"), r"'gold' on 'q' names 'clip/img10'"),
        (judge_another, r"'other/img1'.* not a candidate"),
        (talk_elsewhere, r"dialogues.jsonl: .*'another'"),
        (lead_out, r"image 'clip/img2': .*'../secret.jpg'"),
    ],
)
def test_what_does_not_hold_together_is_one_sentence(
    tmp_path: Path, change: Callable[[Tables], None], message: str
) -> None:
    content = tables()
    change(content)
    with pytest.raises(DataError, match=message):
        read_dataset(write(tmp_path, content))


@pytest.mark.parametrize(("marker", "error"), [(".ctxr", UnfinishedError), ("manifest.json", DataError)])
def test_an_unfinished_or_damaged_artifact_is_said(tmp_path: Path, marker: str, error: type[CtxrError]) -> None:
    (tmp_path / marker).write_text("")
    with pytest.raises(error, match="manifest"):
        read_dataset(tmp_path)


def test_another_kind_of_artifact_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="holds tasks, not image_sets or dataset"):
        read_dataset(write(tmp_path, {}, "tasks"))


def test_an_export_in_the_releases_layout_is_read_as_a_release(tmp_path: Path) -> None:
    write_release(write(tmp_path, {}, "export"))
    assert len(read_dataset(tmp_path).queries) == 7


def test_what_somebody_said_about_labels_is_no_target(tmp_path: Path) -> None:
    content = tables()
    content["queries"].append(Query("q/tags", "clip-shot0_0", ("t",), ("context",)))
    content["judgments"].append(Judgment("q/tags", "context", "gold", 1.0))
    assert len(list(read_dataset(write(tmp_path, content)).targets())) == 1

"""What people decided: the last word of each counts, a rejection of anybody too, and no id leads anywhere."""

import json
from pathlib import Path
from typing import Any

import pytest

from ctxr.datasets.decisions import counted, decisions_key, matter, read_decisions
from ctxr.errors import DataError
from ctxr.store.records import Decision
from ctxr.store.tables import append, read_appended

IMAGES = {"clip/img1": "aa", "clip/img2": "aa"}


def said(decision: Any, person: str = "w-ada", name: str = "clip-shot0_0", **images: str) -> Decision:
    return Decision(name, decision, person=person, images=images or IMAGES)


def words(*rows: Decision) -> list[str]:
    return [row.decision for row in counted(rows).values()]


def test_the_last_word_of_a_person_counts_and_one_rejection_among_several_people() -> None:
    assert words(said("keep"), said("reject")) == ["reject"]
    assert words(said("reject"), said("keep")) == ["keep"]
    assert words(said("reject"), said("open")) == []
    assert words(said("reject"), said("keep", "w-ben")) == ["reject"]
    assert words(said("keep", "w-ben"), said("reject"), said("keep", "w-ben")) == ["reject"]
    assert words(said("reject"), said("open", "w-ben")) == ["reject"]
    assert words(said("reject"), said("keep", "w-ben"), said("open")) == ["keep"]


def test_a_set_with_other_images_or_other_footage_is_another_matter() -> None:
    rows = [said("reject"), said("keep", **{"clip/img1": "bb", "clip/img2": "bb"}), said("keep", **{"clip/img3": "aa"})]
    assert words(*rows) == ["keep", "keep", "reject"]
    assert len({matter(row) for row in rows}) == 3


@pytest.mark.parametrize("name", ["list.txt", "list.csv", "list.jsonl"])
def test_a_list_of_ids_is_a_text_a_csv_or_json_lines(tmp_path: Path, name: str) -> None:
    file = tmp_path / name
    texts = {
        "list.txt": "\ufeffclip/img1\n\n  clip-shot0_0 \n",
        "list.csv": "id,decision,reason,person\nclip/img1,,faces,Ada\nclip-shot0_0,reject,,\nclip/img9,keep,,\n",
        "list.jsonl": '{"id":"clip/img1","reason":"faces","person":"Ada"}\n{"id":"clip-shot0_0","decision":"reject"}\n',
    }
    file.write_text(texts[name], encoding="utf-8")
    rows = read_decisions(file, "reject")
    assert [row.id for row in rows.values()] == ["clip/img1", "clip-shot0_0"]
    assert next(iter(rows)) == f"{file}:{1 + name.endswith('csv')}"
    if name != "list.txt":
        assert (rows[next(iter(rows))].reason, rows[next(iter(rows))].person) == ("faces", "Ada")


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.csv", "name\nclip/img1\n"),
        ("a.csv", "id,decision\nclip/img1,perhaps\n"),
        ("a.jsonl", '{"id":"x","reason":"envy"}\n'),
        ("a.jsonl", '{"id":"x","images":["y"]}\n'),
        ("a.jsonl", "no json\n"),
        ("a.jsonl", "[" * 300_000),
        ("a.csv", "id\n\xff\n"),
    ],
)
def test_what_is_no_decision_is_an_error_that_names_the_file(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / name).write_bytes(text.encode("latin-1"))
    with pytest.raises(DataError, match=name):
        read_decisions(tmp_path / name, "reject")


def test_the_key_of_decisions_depends_on_what_they_say_and_not_on_when(tmp_path: Path) -> None:
    first, later = Decision("a/img1", "reject", at="2026-01-01"), Decision("a/img1", "reject", at="2026-01-02")
    other = Decision("a/img2", "reject")
    assert decisions_key({"1": first, "2": other}) == decisions_key({"1": other, "2": later})
    assert decisions_key({"1": first}) != decisions_key({"1": Decision("a/img1", "reject", "faces")})


def test_a_half_written_line_is_replaced_by_the_next_rows(tmp_path: Path) -> None:
    file = tmp_path / "decisions.jsonl"
    append(file, said("keep"), said("reject"))
    whole = file.read_bytes()
    file.write_bytes(whole + json.dumps({"id": "clip"}).encode()[:7])
    assert len(read_appended(file, Decision)) == 2
    append(file, said("open"), said("keep"))
    assert [row.decision for row in read_appended(file, Decision)] == ["keep", "reject", "open", "keep"]
    assert file.read_bytes().startswith(whole)

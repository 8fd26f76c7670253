"""Votes from anywhere: long and wide tables, JSON, and what Label Studio exports."""

import json
from pathlib import Path

import pytest

from ctxr.annotation.vote_files import VoteTable, read_votes
from ctxr.errors import DataError, UsageError

LONG = "item,worker,value\na,x,1\na,y,1\nb,x,2\nb,y,1\n"
WANTED = {("a", "x"): "1", ("a", "y"): "1", ("b", "x"): "2", ("b", "y"): "1"}
TASKS = [
    {
        "id": item,
        "annotations": [
            {
                "completed_by": {"id": 7, "email": worker} if worker == "x" else worker,
                "was_cancelled": worker == "gone",
                "result": [{"from_name": "pick", "type": "choices", "value": {"choices": [value]}}],
            }
            for worker, value in (("x", first), ("y", "1"), ("gone", "3"))
        ],
    }
    for item, first in (("a", "1"), ("b", "2"))
]


def read(path: Path, content: str, **names: str) -> VoteTable:
    path.write_text(content, encoding="utf-8")
    return read_votes(path, names)


def as_dict(table: VoteTable) -> dict[tuple[str, str], str]:
    votes = table.votes
    codes = zip(votes.units, votes.workers, votes.values, strict=True)
    return {
        (str(votes.unit_names[u]), str(votes.worker_names[w])): f"{votes.labels[v]:g}"
        if table.numeric
        else str(votes.labels[v])
        for u, w, v in codes
    }


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("long.csv", LONG),
        ("bom.csv", "\ufeff" + LONG),
        ("semicolons.csv", LONG.replace(",", ";")),
        ("tabs.tsv", LONG.replace(",", "\t")),
        ("other.csv", LONG.replace("item,worker,value", "task_id,Participant id,Answer")),
        ("wide.csv", "item,x,y\na,1,1\nb,2,1\n"),
        ("turned.csv", "coder,a,b\nx,1,2\ny,1,1\n"),
        ("missing.csv", LONG + "a,z,NA\nb,z,\n"),
        ("rows.json", json.dumps([{"item": i, "worker": w, "value": int(v)} for (i, w), v in WANTED.items()])),
        ("rows.jsonl", "\n".join(json.dumps({"id": i, "annotator": w, "label": v}) for (i, w), v in WANTED.items())),
        ("studio.json", json.dumps(TASKS)),
    ],
)
def test_a_table_of_any_shape_holds_the_same_votes(tmp_path: Path, name: str, content: str) -> None:
    table = read(tmp_path / name, content)
    assert as_dict(table) == WANTED
    assert (table.missing, table.notes) == (2 if name == "missing.csv" else 0, ())


def test_named_columns_are_taken_and_others_are_offered(tmp_path: Path) -> None:
    content = LONG.replace("item,worker,value", "film,worker,mood")
    names = {"item": "film", "value": "mood"}
    assert as_dict(read(tmp_path / "v.csv", content, **names)) == WANTED
    for given, hint in (({}, "--item"), ({"item": "film"}, "mood"), ({"item": "movie"}, "film")):
        with pytest.raises(UsageError) as caught:
            read(tmp_path / "v.csv", content if given else content.replace("mood", "label"), **given)
        assert hint in caught.value.hint


def test_several_choices_are_one_value_and_names_beside_numbers_are_said(tmp_path: Path) -> None:
    both = json.loads(json.dumps(TASKS))
    both[0]["annotations"][0]["result"][0]["value"]["choices"] = ["1", "red"]
    small = [{"id": i, "annotator": w, "label": v} for (i, w), v in WANTED.items()]
    small[0]["label"] = {"choices": ["1", "red"]}  # type: ignore[assignment]
    for exported in (both, small):
        table = read(tmp_path / "v.json", json.dumps(exported))
        assert as_dict(table)["a", "x"] == "1 + red"
        (note,) = table.notes
        assert note.startswith("3 values of 4 ")


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("", "no table"),
        ("item,worker,value\n", "no votes"),
        ("item,worker,value\na,x,NA\n", "no votes"),
        ("item,worker,value\na,x,1\nb,x,2\n", "one worker, 'x'"),
        (LONG + "b,y,2\n", "'y' judged unit 'b'"),
        (LONG + "b,y\n", "row 6 has 2 cells"),
        ("item,item,value\na,x,1\n", "two columns"),
    ],
)
def test_what_holds_no_agreement_is_told_in_a_sentence(tmp_path: Path, content: str, words: str) -> None:
    with pytest.raises(DataError, match=words) as caught:
        read(tmp_path / "v.csv", content)
    assert caught.value.hint
    assert "\n" not in str(caught.value)


def test_bytes_that_are_no_text_and_files_that_are_not_there_are_told(tmp_path: Path) -> None:
    (tmp_path / "v.csv").write_bytes(LONG.encode("utf-16"))
    with pytest.raises(DataError, match="UTF-8"):
        read_votes(tmp_path / "v.csv", {})
    for content, words in (("[1, 2]", "no table"), ("[]", "no votes"), ('[{"annotations": [{}]}]', "no table")):
        (tmp_path / "v.json").write_text(content)
        with pytest.raises(DataError, match=words):
            read_votes(tmp_path / "v.json", {})

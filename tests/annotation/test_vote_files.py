"""Votes from anywhere: long and wide tables, JSON, and what Label Studio exports."""

import json
from pathlib import Path

import pytest

from ctxr.annotation.vote_files import VoteTable, read_votes, votes_in
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
        ("rows.NDJSON", "\n".join(json.dumps({"id": i, "annotator": w, "label": v}) for (i, w), v in WANTED.items())),
        ("trailing.csv", "item,worker,value,,\n" + LONG.partition("\n")[2].replace("\n", ",,\n")),
        (
            "semicolons in a name.csv",
            LONG.replace("item", '"item"')
            .replace("worker,value", 'worker,value,"a;b;c;d;e"')
            .replace("1\n", "1,z\n")
            .replace("2\n", "2,z\n"),
        ),
        ("studio.json", json.dumps(TASKS)),
        ("no mail.json", json.dumps(TASKS).replace('"id": 7, "email": "x"', '"id": "x", "email": null')),
        (
            "relation.JSON",
            json.dumps(TASKS).replace('"result": [', '"result": [{"type": "relation", "from_id": "a"}, '),
        ),
    ],
)
def test_a_table_of_any_shape_holds_the_same_votes(tmp_path: Path, name: str, content: str) -> None:
    table = read(tmp_path / name, content)
    assert as_dict(table) == WANTED
    assert (table.missing, len(table.notes)) == (2 if name == "missing.csv" else 0, 1)


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
        _, note = table.notes
        assert note.startswith("3 values of 4 ")


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("", "empty"),
        ("\n \n", "empty"),
        ('[{"item": 1}]', "JSON"),
        ("value\n1\n", "commas, semicolons or tabs"),
        ("item,worker,value\n", "no votes"),
        ("item,worker,value\na,x,NA\n", "no votes"),
        ("item,worker,value\na,x,1\nb,x,2\n", "one worker, 'x'"),
        (LONG + "b,y,2\n", "v.csv: worker 'y' judged item 'b'"),
        (LONG + "b,z,NA\n,,\nb,y,2\n", "rows 4, 7 "),
        (LONG + "b,y\n", "line 6 has 2 cells"),
        ("item,item,value\na,x,1\n", "called 'item'"),
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
    region = json.dumps(TASKS).replace('"result": [', '"result": [{"from_name": "pick", "value": {}}, ')
    for content, words in (
        ("[1, 2]", "list of rows"),
        ('{"item": [1]}', "list of rows"),
        ("[]", "no votes"),
        ("[" * 100_000, "no table"),
        ('[{"annotations": [{}]}]', "no table"),
        ('[{"id": 1, "annotations": [1]}]', "no table"),
        ('[{"id": 1, "annotations": [{}]}]', "says anything"),
        (region, "'pick' twice"),
    ):
        (tmp_path / "v.json").write_text(content)
        with pytest.raises(DataError, match=words):
            read_votes(tmp_path / "v.json", {})


@pytest.mark.parametrize(
    ("heads", "names", "hint"),
    [
        ("item,worker,label,rating", {}, "--value, one of label, rating"),
        ("item,who,value", {"value": "value"}, "--worker, one of who"),
        ("item,worker,value", {"item": "value"}, "--item"),
        ("begun,worker,first", {}, "--value, one of begun, first"),
    ],
)
def test_columns_that_cannot_be_told_are_asked_for(
    tmp_path: Path, heads: str, names: dict[str, str], hint: str
) -> None:
    with pytest.raises(UsageError) as caught:
        read(tmp_path / "v.csv", f"{heads}\n{','.join('a' for _ in heads.split(','))}\n", **names)
    assert caught.value.hint.startswith(hint)


@pytest.mark.parametrize(
    ("content", "columns"),
    [
        (
            "pairID,hypothesis,gold_label,explanation\n1,a man runs,neutral,he may walk\n2,it rains,entailment,it is wet\n",
            "hypothesis, gold_label, explanation",
        ),
        ("caption,image,agg_score\n9,one.jpg,1.8\n9,two.jpg,4.99\n7,six.jpg,0\n", "image, agg_score"),
        ("coder,begun,mood\nx,Monday,good\ny,Tuesday,bad\n", "begun, mood"),
    ],
)
def test_columns_that_share_no_values_are_not_taken_for_people(tmp_path: Path, content: str, columns: str) -> None:
    with pytest.raises(UsageError, match=columns) as caught:
        read(tmp_path / "v.csv", content)
    assert "--item" in caught.value.hint
    assert "\n" not in str(caught.value)


def test_columns_of_words_that_two_share_or_of_different_numbers_are_people(tmp_path: Path) -> None:
    words = read(tmp_path / "v.csv", "item,x,y,z\na,yes,yes,perhaps\nb,no,yes,\nc,yes,no,\n")
    assert words.votes.worker_names.tolist() == ["x", "y", "z"]
    assert len(read(tmp_path / "v.csv", "item,x,y\na,1.5,1.25\nb,7.5,7.25\n").votes) == 4
    assert len(read(tmp_path / "v.csv", "coder,mood\nx,good\ny,bad\n").votes) == 2


def test_an_item_in_two_rows_is_told_with_the_columns_taken(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"worker 'x' judged item 'a'.*rows 1, 3 .*items: text; a person each: x, y"):
        read(tmp_path / "v.csv", "text,x,y\na,1,2\nb,,1\na,2,1\n")


def test_the_columns_taken_are_said(tmp_path: Path) -> None:
    table = read(
        tmp_path / "v.csv", LONG.replace("item", "question,task_id").replace("\na", "\nq,a").replace("\nb", "\nq,b")
    )
    assert table.notes == ("items: task_id; people: worker; values: value; also there: question",)
    assert as_dict(table) == WANTED
    assert read(tmp_path / "v.csv", "film,x,y\na,1,1\n").notes == ("items: film; a person each: x, y",)
    assert read(tmp_path / "v.csv", "coder,a,b\nx,1,1\ny,1,1\n").notes == ("people: coder; an item each: a, b",)


def test_one_of_several_controls_is_asked_for_and_taken(tmp_path: Path) -> None:
    other = '"result": [{"from_name": "mood", "type": "rating", "value": {"rating": 5}}, '
    content = json.dumps(TASKS).replace('"result": [', other)
    with pytest.raises(UsageError) as caught:
        read(tmp_path / "v.json", content)
    assert caught.value.hint.endswith("mood, pick")
    assert as_dict(read(tmp_path / "v.json", content, value="pick")) == WANTED
    assert as_dict(read(tmp_path / "v.json", json.dumps(TASKS), value="pick")) == WANTED
    with pytest.raises(UsageError):
        read(tmp_path / "v.json", content, value="nothing")


@pytest.mark.parametrize(
    ("value", "number"),
    [
        ("1", 1), ("-2.50", -2.5), (".5", 0.5), ("1e3", 1000), ("9007199254740991", 2**53 - 1), ("1e300", 1e300),
        ("9007199254740993", None), ("007", None), ("1_0", None), ("0x1F", None), ("inf", None), ("1,5", None), ("1" * 400, None),
        ("\u0661", None), ("true", None), ("none", None), ("null", None),
    ],
)  # fmt: skip
def test_only_plain_numbers_are_numbers(tmp_path: Path, value: str, number: float | None) -> None:
    table = read(tmp_path / "v.tsv", f"item\tworker\tvalue\na\tx\t{value}\na\ty\t{value}\n")
    assert table.votes.labels.tolist() == [value if number is None else number]
    if "," in value:
        table = read(tmp_path / "v.csv", f"item;worker;value\na;x;{value}\na;y;{value}\n")
        assert table.votes.labels.tolist() == [1.5]


@pytest.mark.parametrize(
    ("cell", "label"),
    [
        (["b", "a"], "a + b"), ({"choices": ["b", "a"]}, "a + b"), ({"choices": {"a": 1}}, "{'a': 1}"), ([1, [2]], "1 + [2]"),
        (True, "True"), (10**400, str(10**400)), ("\ud800", "?"), ({"a"}, "a"), (b"x", "b'x'"), (0.1, 0.1),
    ],
)  # fmt: skip
def test_any_cell_is_a_value(cell: object, label: object) -> None:
    table = votes_in({"item": ["a", "a"], "worker": ["x", "y"], "value": [cell, cell]}, {})
    assert table.votes.labels.tolist() == [label]


def test_words_for_missing_values_are_names_of_people() -> None:
    table = votes_in(
        {"item": ["na", "na", "", "na"], "worker": ["NA", "*", "x", None], "value": ["1", "2", "1", "1"]}, {}
    )
    assert (len(table.votes), table.missing) == (2, 2)
    gone = ["", "NA", "n/a", "NaN", "NaT", "<NA>", "*", ".", None, float("nan")]
    table = votes_in({"item": ["a"] * 12, "worker": [*"abcdefghijkl"], "value": [*gone, "none", "null"]}, {})
    assert (len(table.votes), table.missing) == (2, len(gone))

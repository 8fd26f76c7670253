"""Files of scores: what is read, and the sentence with its line for whatever is wrong."""

from pathlib import Path

import pytest

from ctxr.errors import DataError
from ctxr.store.records import Score
from ctxr.store.scores import read_scores, write_scores

GOOD = '{"query": "q", "candidate": "a", "value": 1}\n{"query": "q", "candidate": "b", "value": -0.5}\n'


def write(folder: Path, text: str) -> Path:
    file = folder / "model.jsonl"
    file.write_text(text, "utf-8", "surrogateescape")
    return file


def test_lines_in_any_order_and_with_any_scorer_are_read(tmp_path: Path) -> None:
    lines = [
        '{"candidate": "b", "query": "r", "value": 2e1, "scorer": "one"}',
        "",
        '{"query": "q", "candidate": "a", "value": 1}',
        '{"query": "r", "candidate": "a", "value": 3, "scorer": "one"}',
        '{"query": "r", "candidate": "a", "value": 4, "scorer": "two"}',
    ]
    found = read_scores(write(tmp_path, "\ufeff" + "\r\n".join(lines)))
    assert list(found) == ["one", "", "two"]
    assert found["one"].values == {"r": {"b": 20.0, "a": 3.0}}
    assert found["two"].values == {"r": {"a": 4.0}}
    assert found[""].locate("q") == f"{tmp_path / 'model.jsonl'}:3"
    assert found["one"].locate("r") == f"{tmp_path / 'model.jsonl'}:1"
    assert found["one"].locate("r", "a") == f"{tmp_path / 'model.jsonl'}:4"


def test_what_is_written_is_read_again(tmp_path: Path) -> None:
    rows = [Score("q", "b", "m", 0.25), Score("q", "a", "m", -1e-9)]
    assert write_scores(tmp_path / "scores.jsonl", rows) == 2
    assert read_scores(tmp_path / "scores.jsonl")["m"].values == {"q": {"a": -1e-9, "b": 0.25}}


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_a_score_that_is_no_number_is_not_written(tmp_path: Path, value: float) -> None:
    with pytest.raises(DataError, match=f"'m' gives 'a' of query 'q' the score {value}"):
        write_scores(tmp_path / "scores.jsonl", [Score("q", "a", "m", value)])


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ('{"query": "q", "candidate": "c", "value": NaN}', "malformed"),
        ('{"query": "q", "candidate": "c", "value": 1e999}', "out of range"),
        ('{"query": "q", "candidate": "c", "value": null}', "field `value`: expected `float`, got `null`"),
        ('{"query": "q", "candidate": "c"}', "missing required field `value`"),
        ('{"query": "q", "candidate": "c", "value": 1, "model": "x"}', "unknown field `model`"),
        ('{"query": "q", "candidate": "a", "value": 2}', "query 'q' and candidate 'a' stand in line 1 already"),
        ("[1]", "Expected `object`, got `array`"),
        ("q,c,0.5", "malformed"),
        ('{"query": "\udcff", "candidate": "c", "value": 1}', "utf-8"),
    ],
)
def test_a_wrong_line_is_named(tmp_path: Path, line: str, told: str) -> None:
    with pytest.raises(DataError) as caught:
        read_scores(write(tmp_path, GOOD + line + "\n"))
    assert caught.value.message.startswith(f"{tmp_path / 'model.jsonl'}:3: ")
    assert told in caught.value.message
    assert caught.value.hint


def test_an_empty_file_and_a_folder_are_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="holds no score"):
        read_scores(write(tmp_path, "\n"))
    with pytest.raises(DataError, match="cannot be read: Is a directory"):
        read_scores(tmp_path)

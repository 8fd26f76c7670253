"""What an answer says: strict where it is JSON, kind where it is not, and never a guess."""

from typing import Any

import pytest

from ctxr.pipelines.modelling.chat import read_answer, read_text, schema, tokens


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ('{"picture": 3}', 3),
        ('```json\n{"picture": 3}\n```', 3),
        ('{"picture": "10"}', 10),
        ('{"answer": 4}', 4),
        ("7", 7),
        (" 7.\n", 7),
        ("Picture 7, because 2 of them are dark", 7),
        ("**Picture 10**", 10),
        ("<think>1? no, 2</think>\nThe answer is 9", 9),
        ("img3", 3),
        ("#5", 5),
        ("picture-6", 6),
    ],
)
def test_a_number_is_found(text: str, number: int) -> None:
    said = read_text(text, 10)
    assert (said.outcome, said.number) == ("chosen", number)


@pytest.mark.parametrize("text", ["0", "11", "-3", '{"picture": 11}', "99999999999999999999", "9" * 9000])
def test_a_number_that_no_picture_has_is_told_apart(text: str) -> None:
    assert read_text(text, 10).outcome == "out_of_range"


@pytest.mark.parametrize(
    "text", ["", "none of them", "2.5", '{"picture": true}', '{"picture": null}', "[" * 10_000, "<think>3"]
)
def test_what_holds_no_plain_number_is_unreadable(text: str) -> None:
    said = read_text(text, 10)
    assert (said.outcome, said.number) == ("unreadable", None)


@pytest.mark.parametrize(
    ("completion", "outcome"),
    [
        ({}, "unreadable"),
        ({"choices": []}, "unreadable"),
        ({"choices": [{"message": None}]}, "unreadable"),
        ({"choices": [{"message": {"content": None}}]}, "unreadable"),
        ({"choices": [{"message": {"content": "3", "refusal": "I will not"}}]}, "refused"),
        ({"choices": [{"message": {"content": ""}, "finish_reason": "content_filter"}]}, "refused"),
        ({"choices": [{"message": {"content": [{"type": "text", "text": "3"}]}}]}, "chosen"),
    ],
)
def test_a_completion_of_any_shape_has_an_outcome(completion: dict[str, Any], outcome: str) -> None:
    assert read_answer(completion, 10).outcome == outcome


def test_the_schema_allows_the_numbers_of_the_set_alone() -> None:
    shape = schema(4)["json_schema"]["schema"]
    assert shape["properties"]["picture"]["enum"] == [1, 2, 3, 4]


@pytest.mark.parametrize(
    "usage",
    [None, {}, {"prompt_tokens": "9"}, {"prompt_tokens": -1}, {"prompt_tokens": True}, {"prompt_tokens": 10**30}],
)
def test_tokens_that_are_not_told_are_none(usage: Any) -> None:
    assert tokens({"usage": usage}, "prompt_tokens") is None

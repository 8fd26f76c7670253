"""What an answer says: strict where it is JSON, kind where it is not, and never a guess."""

from typing import Any

import pytest

from ctxr.models.chat import read_completion
from ctxr.pipelines.modelling.chat import Request, read_text, reply_from, schema
from ctxr.problems.queries import EvalQuery


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
        ("Out of the 10 pictures, picture 3", 3),
        ("Of the 10, number 4 fits.", 4),
        ("I looked at all 10 given pictures. The answer is 3.", 3),
        ("3 of 10", 3),
        ("Picture 3 of 10", 3),
        ("Image number 7 shows 2 dogs", 7),
        ("Picture no. 5", 5),
        ("7, as the other 2 are dark", 7),
        ("3. The dog has 2 balls.", 3),
        ("Picture 1 shows a dog, picture 2 a cat.\n\nAnswer: **2**", 2),
        ("Picture 1 shows a dog, picture 2 a cat.\n\n**Picture 2**", 2),
        ("Pictures 1 and 2 are dark; I would choose picture 4 because 5 is blurred", 4),
        ("My final answer is: picture 8", 8),
        ("\\boxed{6}", 6),
        ("Picture 3 fits better than picture 5", 3),
        ("Not picture 3 but picture 5", 5),
        ("Picture 3 doesn't fit, picture 5 does", 5),
        ('Here it is: {"picture": 3}', 3),
        ('{"picture": 3, "reason": "2 dogs"}', 3),
    ],
)
def test_a_number_is_found(text: str, number: int) -> None:
    said = read_text(text, 10)
    assert (said.outcome, said.number) == ("chosen", number)


@pytest.mark.parametrize(
    "text",
    ["0", "11", "-3", "The answer is 12", "Picture 11 of 10", '{"picture": 11}', "99999999999999999999", "9" * 9000],
)
def test_a_number_that_no_picture_has_is_told_apart(text: str) -> None:
    assert read_text(text, 10).outcome == "out_of_range"


@pytest.mark.parametrize(
    "text",
    [
        "Picture 3 or picture 4",
        "Pictures 3, 4 and 5",
        "picture 3 and 7",
        "The answer is 3 or 4",
        "The answer is 3. No, the answer is 5.",
        "1. a dog 2. a cat",
        "Picture 1: a dog\nPicture 2: a cat",
        "3 or 2.5",
        "4, 7",
        '{"picture": [3, 4]}',
    ],
)
def test_an_answer_of_several_numbers_is_ambiguous(text: str) -> None:
    said = read_text(text, 10)
    assert (said.outcome, said.number) == ("ambiguous", None)


@pytest.mark.parametrize(
    "text", ["Picture 3 and not picture 4", "It is picture 3 and not 4", "Picture 4 does not fit, picture 3 does"]
)
def test_what_is_ruled_out_beside_the_choice_is_no_choice(text: str) -> None:
    assert read_text(text, 10).number == 3


@pytest.mark.parametrize(
    "text", ["None of the 10 pictures", "I see 10 images.", "It is not picture 3", "Picture 3 isn't it"]
)
def test_a_number_that_counts_or_rules_out_is_no_choice(text: str) -> None:
    assert read_text(text, 10).outcome == "unreadable"


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
    asked = EvalQuery("q", "s", (), tuple(map(str, range(10))), (), False, None)
    assert reply_from(Request("key", 1, asked, 0), read_completion(completion)).outcome == outcome


def test_the_schema_allows_the_numbers_of_the_set_alone() -> None:
    shape = schema(4)["json_schema"]["schema"]
    assert shape["properties"]["picture"]["enum"] == [1, 2, 3, 4]


@pytest.mark.parametrize(
    "usage",
    [None, {}, {"prompt_tokens": "9"}, {"prompt_tokens": -1}, {"prompt_tokens": True}, {"prompt_tokens": 10**30}],
)
def test_tokens_that_are_not_told_are_none(usage: Any) -> None:
    assert read_completion({"usage": usage}).prompt_tokens is None

import pytest

from ctxr.annotation.records import AnswerLimits
from ctxr.annotation.tasks.values import odd
from ctxr.annotation.wording import same_wording, wording_problems


@pytest.mark.parametrize(
    "text",
    [
        "the second picture shows the dog", "same as the other images but darker", "unlike the others he smiles",
        "image 3 shows a dog", "picture number four is the darkest", "as in the previous frame", "it is the last image of the row",
        "the only picture of a hawk", "the dog before this image was taken", "both photos show it", "In all the pictures he sits",
        "the head is lower than in the other frames",
    ],
)  # fmt: skip
def test_pointing_at_other_images_is_told(text: str) -> None:
    (problem,) = wording_problems(text)
    assert problem.code == "mentions_other_images"
    assert "“" in problem.sentence


@pytest.mark.parametrize(
    "text",
    [
        "a picture frame hangs on the wall", "the man is at the edge of the frame", "the second man from the left smiles",
        "in this image the cat sleeps", "three lit candles, one in front of the other two", "the only man in the image",
        "another image is very faintly coming in over it", "two photos hang on the wall", "a photo of one person",
        "she is cut off from the picture on the left", "her hand is higher than the rest of her body",
    ],
)  # fmt: skip
def test_speaking_of_this_image_is_no_fault(text: str) -> None:
    assert "mentions_other_images" not in [problem.code for problem in wording_problems(text)]


@pytest.mark.parametrize(
    "text",
    [
        "左边的人拿着红色的杯子", "左の男の人は赤いカップを持つ。", "คนใส่เสื้อสีแดงนั่งทางซ้าย", "가운데 여자가 빨간 컵을",
        "כלב חום יושב ליד הדלת", "\u200fالكلب البني يجلس بجانب الباب", "सफेद दरवाज़े के पास कुत्ता",
        "می\u200cروند به سوی در", "a\u200b dog sits here",
    ],
)  # fmt: skip
def test_every_script_may_be_written(text: str) -> None:
    assert wording_problems(text) == []
    assert not odd(text)


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("红色", "too_short"),
        ("赤いカップ", "too_short"),
        ("the\u200bdog\u200bsits\u200bhere", "too_short"),
        ("दरवाज़े", "too_short"),
        ("\u200b\u200f", "empty"),
        ("the next\u200b image is dark", "mentions_other_images"),
        ("红色" * 20, "same_words"),
    ],
)
def test_lengths_count_letters_by_their_script(text: str, code: str) -> None:
    assert [one.code for one in wording_problems(text)] == [code]


def test_a_copy_is_one_in_every_script() -> None:
    text = "左边的人拿着红色的杯子站在门口看着外面的街道和行人"
    assert same_wording(text, f"那{text}。")
    assert same_wording("the brown dog sits", "the brown\u200b dog sits")
    assert not same_wording(text, "右边的狗叼着蓝色的球跑向门口看着外面的街道和行人")


def test_every_problem_is_named_at_once() -> None:
    assert [one.code for one in wording_problems("next image www.x.org")] == ["mentions_other_images", "address"]
    assert [one.code for one in wording_problems(" ! ")] == ["empty"]
    assert [one.code for one in wording_problems("red table")] == ["too_short"]
    assert [one.code for one in wording_problems("word " * 40)] == ["same_words"]


def test_one_changed_word_in_a_short_text_is_another_description() -> None:
    assert not same_wording("the red cup", "the blue cup")
    assert [one.code for one in wording_problems("red table", limits=AnswerLimits(least_words=2))] == []
    assert same_wording("The red cup!", "the red cup")


def test_a_long_text_with_a_word_changed_is_the_same_text() -> None:
    text = "the man in the white shirt holds a cup in his left hand and looks at the woman"
    assert same_wording(text, text + " again")
    assert not same_wording(text, text.replace("left", "right").replace("cup", "knife"))

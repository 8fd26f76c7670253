"""Ground truth of ECCV and CxC, CxC's graded similarities, and the guard that keeps evaluated pictures out of training."""

from pathlib import Path

import pytest

from ctxr.datasets.pairs import (
    EntailmentPair,
    coco_image,
    flickr_image,
    published_image,
    published_names,
    refuse_leaks,
    seen_pictures,
)
from ctxr.datasets.readers.entailment import Captions
from ctxr.datasets.readers.relevance import pairs_of, read_positives, read_similarities
from ctxr.errors import DataError


def pair(image: str, group: str = "") -> EntailmentPair:
    return EntailmentPair(f"x/{image}", None, "A hypothesis.", image, 1, "entailment", "x", None, group or image)


def test_positives_keep_their_order_and_say_nothing_twice(tmp_path: Path) -> None:
    file = tmp_path / "image_to_caption.json"
    file.write_text('{"12": [7, 3, 7], "13": 9}')
    assert read_positives(file) == {"coco/12": ("coco/7", "coco/3"), "coco/13": ("coco/9",)}


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("[1]", "got `array`"),
        ('{"1": [2],\n "1": [3]}', ":2: '1' appears twice"),
        ('{"1": []}', ":1: '1' needs COCO ids"),
        ('{"cat": [1]}', "'cat' needs COCO ids"),
        ('{"1": [true]}', "'1' needs COCO ids"),
    ],
)
def test_a_ground_truth_that_is_none_is_one_sentence(content: str, says: str, tmp_path: Path) -> None:
    file = tmp_path / "truth.json"
    file.write_text(content)
    with pytest.raises(DataError, match=says):
        read_positives(file)


def test_both_directions_become_each_pair_once() -> None:
    captions = Captions({"coco/7": "A cat.", "coco/8": "A mat."}, {"coco/12": ["coco/7", "coco/8"]})
    found = pairs_of({"coco/12": ["coco/7"]}, {"coco/7": ["coco/12", "coco/13"]}, captions)
    assert [(one.id, one.image, one.caption, one.premise, one.hypothesis) for one in found] == [
        ("eccv/12/7", "coco/12", "coco/7", "A mat.", "A cat."),
        ("eccv/13/7", "coco/13", "coco/7", None, "A cat."),
    ]


def test_training_on_an_evaluated_picture_is_refused() -> None:
    training = [pair("coco/1"), pair("coco/2"), pair("a/img1", "a")]
    refuse_leaks(training, {"coco/3"})
    with pytest.raises(DataError, match=r"2 training pairs .*x/coco/2"):
        refuse_leaks(training, {"coco/2", "a"})
    with pytest.raises(DataError, match=r"1 training pairs .*x/coco/2"):
        refuse_leaks(training, {"coco/2"})


def test_a_published_picture_is_known_by_its_name_in_any_dataset() -> None:
    names = "val2017/000000000009.jpg x/COCO_test2014_000000000009.png 000000000009 coco/9 coco/000000000009"
    assert {published_image(name) for name in names.split()} == {"coco/9"}
    assert {published_image(name) for name in ("f/36979.jpg", "flickr30k/36979")} == {"flickr30k/36979"}
    others = "album/12.jpg album/00012.jpg test/00000-0 a/img12345 coco/x a/202101011234.jpg a/12345678901.jpg"
    assert {published_image(name) for name in others.split()} == {None}
    pictures = [("val2017/000000000790.jpg", "other bytes"), ("b/1.jpg", "cafe"), ("b/2.jpg", "")]
    assert seen_pictures(pictures, {"coco/790", "cafe"}) == ["val2017/000000000790.jpg", "b/1.jpg"]
    assert seen_pictures(pictures, {"train2017/000000000790.jpg"}) == ["val2017/000000000790.jpg"]


def test_a_picture_has_one_name_whichever_file_names_it() -> None:
    names = ("COCO_train2014_000000000009.jpg", "000000000009.jpg", "9")
    assert {coco_image(name) for name in names} == {"coco/9"}
    assert coco_image("cat.jpg") is None
    assert flickr_image("x1.jpg") is None
    assert published_names("flickr30k/4") == ("4.jpg",)
    assert published_names("album/img1") == ()


@pytest.mark.parametrize(
    ("header", "kind", "ids"),
    [
        ("caption,image", "SITS", ("COCO_val2014:sentid:7", "COCO_val2014_000000000012.jpg")),
        ("image1,image2", "SIS", ("COCO_val2014_000000000007.jpg", "COCO_val2014_000000000012.jpg")),
        ("caption1,caption2", "STS", ("COCO_val2014:sentid:7", "COCO_val2014:sentid:12")),
    ],
)
def test_similarities_are_told_by_their_columns(header: str, kind: str, ids: tuple[str, str], tmp_path: Path) -> None:
    file = tmp_path / "a.csv"
    good = f"{','.join(ids)},4.25,x"
    file.write_text(f"{header},agg_score,sampling_method\n{good}\nq,{ids[1]},1,x\n{','.join(ids)},nan,x\n")
    found = read_similarities(file)
    assert (found.kind, found.pairs) == (kind, (("coco/7", "coco/12", 4.25),))
    assert [(one.where.rpartition(":")[2], one.code) for one in found.issues] == [("3", "image"), ("4", "score")]
    assert "'q'" in found.issues[0].what
    file.write_text(f"{header},agg_score\n")
    with pytest.raises(DataError, match="no rated pair"):
        read_similarities(file)
    file.write_text("a,b\n1,2\n")
    with pytest.raises(DataError, match=r"a\.csv:1: .*header"):
        read_similarities(file)

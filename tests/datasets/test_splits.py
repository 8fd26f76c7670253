"""Splits: groups stay whole, the publisher is believed, leaks are named."""

from fractions import Fraction
from pathlib import Path

import pytest

from ctxr.datasets.splits import assign_splits, find_leakage, read_published, split_of
from ctxr.errors import DataError
from ctxr.store.records import Image, ImageSet, Split


def test_a_group_falls_to_the_same_side_whatever_else_there_is() -> None:
    alone = assign_splits(["clip7"], {})
    among = assign_splits([f"clip{number}" for number in range(50)], {})
    assert alone[0] in among


def test_shares_come_out_and_another_salt_deals_anew() -> None:
    names = [f"video{number}" for number in range(4000)]
    dealt = [split_of(name) for name in names]
    assert dealt.count("train") / 4000 == pytest.approx(0.8, abs=0.03)
    assert dealt.count("valid") / 4000 == pytest.approx(0.1, abs=0.02)
    assert [split_of(name, "other") for name in names] != dealt


def test_the_publishers_split_wins_over_the_hash(tmp_path: Path) -> None:
    (tmp_path / "s.csv").write_text("\ufeffgroup,split\nclip1,test\nclip2,validation\n", encoding="utf-8")
    published = read_published(tmp_path / "s.csv")
    assert assign_splits(["clip1", "clip2"], published) == [Split("clip1", "test"), Split("clip2", "valid")]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("clip1,tst\n", r"s\.csv:1: 'clip1,tst' is not"),
        ("clip1\n", r"s\.csv:1: 'clip1' is not"),
        ("clip1,test\nclip1,train\n", r"s\.csv:2: group 'clip1' is in test and in train"),
    ],
)
def test_a_wrong_line_is_named(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "s.csv").write_text(text)
    with pytest.raises(DataError, match=message):
        read_published(tmp_path / "s.csv")


def image(name: str, group: str, content: str) -> Image:
    return Image(name, f"{name}.jpg", content, group, 8, 8, 0, Fraction(0))


def image_set(name: str, group: str, *images: str) -> ImageSet:
    return ImageSet(name, "video", images, group, group, 0, 0.4, 0.5)


def test_leaks_are_found_by_group_and_by_content() -> None:
    images = {one.id: one for one in (image("a", "g", "1"), image("b", "g", "2"), image("c", "h", "2"))}
    sets = [image_set("s1", "g", "a"), image_set("s2", "g", "b"), image_set("s3", "h", "c")]
    leak = find_leakage(sets, images, {"s1": "train", "s2": "test", "s3": "train"})
    assert leak.groups == {"g": ["test", "train"]}
    assert leak.images == {"2": ["s2", "s3"]}
    assert not find_leakage(sets, images, {"s1": "train", "s2": "train", "s3": "train"})

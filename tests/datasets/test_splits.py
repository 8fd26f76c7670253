"""Splits: groups stay whole, the publisher is believed, leaks are named."""

from collections import Counter
from fractions import Fraction
from pathlib import Path

import pytest

from ctxr.datasets.splits import SPLITS, assign_splits, find_leakage, hash_split, read_published
from ctxr.errors import DataError
from ctxr.store.records import Image, ImageSet, SharedFootage, Split, SplitName


def test_a_group_falls_to_the_same_side_whatever_else_there_is() -> None:
    among = assign_splits({f"clip{number}": True for number in range(50)})
    more = assign_splits({f"clip{number}": True for number in range(80)})
    assert {row.split for row in among} == {"train", "valid", "test"}
    assert set(among) < set(more)


def test_shares_come_out_and_another_salt_deals_anew() -> None:
    names = [f"video{number}" for number in range(4000)]
    dealt = [hash_split(name) for name in names]
    assert dealt.count("train") / 4000 == pytest.approx(0.8, abs=0.03)
    assert dealt.count("valid") / 4000 == pytest.approx(0.1, abs=0.02)
    assert [hash_split(name, "other") for name in names] != dealt


def test_the_publishers_split_wins_over_the_hash(tmp_path: Path) -> None:
    (tmp_path / "s.csv").write_text("\ufeffgroup,split\nclip1,test\nclip2,validation\n", encoding="utf-8")
    published = read_published(tmp_path / "s.csv")
    assert assign_splits({"clip1": True, "clip2": True}, (), published) == [
        Split("clip1", "test"),
        Split("clip2", "valid"),
    ]


def shared(first: str, second: str, frames: int = 1) -> SharedFootage:
    return SharedFootage(first, second, frames, 9, (f"{first}/img1", f"{second}/img2"), 0.01)


def split_by_name(rows: list[Split]) -> dict[str, str]:
    return {row.group: row.split for row in rows}


def test_sources_that_share_footage_go_to_one_split() -> None:
    names = {f"clip{number:02}": True for number in range(60)}
    alone = split_by_name(assign_splits(names))
    outsider = next(name for name in names if alone[name] == "test")
    linked = [shared("clip00", outsider), shared(outsider, "clip59")]
    dealt = split_by_name(assign_splits(names, linked))
    assert {dealt[name] for name in ("clip00", outsider, "clip59")} == {alone["clip00"]}
    assert {name for name in names if dealt[name] != alone[name]} <= {outsider, "clip59"}


@pytest.mark.parametrize("count", [3, 5, 8, 15, 25])
def test_few_sources_leave_no_split_empty(count: int) -> None:
    for world in range(20):
        dealt = split_by_name(assign_splits({f"world{world}-{number}": True for number in range(count)}))
        assert set(dealt.values()) == {"train", "valid", "test"}
        by_rank = max(1, round(count / 10))
        hashed = [hash_split(name) for name in dealt]
        if set(hashed) != {"train", "valid", "test"}:
            assert list(dealt.values()).count("test") == list(dealt.values()).count("valid") == by_rank


def test_two_sources_are_train_and_test_one_is_train_and_one_without_sets_fills_no_split() -> None:
    assert sorted(split_by_name(assign_splits({"a": True, "b": True})).values()) == ["test", "train"]
    assert split_by_name(assign_splits({"a": True})) == {"a": "train"}
    sources = {f"clip{number}": True for number in range(3)} | {f"empty{number}": False for number in range(30)}
    dealt = split_by_name(assign_splits(sources))
    assert {dealt[f"clip{number}"] for number in range(3)} == {"train", "valid", "test"}
    assert all(dealt[name] == hash_split(name) for name in sources if name.startswith("empty"))


def test_new_sources_fill_the_split_that_a_fixed_deal_left_empty() -> None:
    fixed: dict[str, SplitName] = {"a": "train", "b": "test"}
    dealt = split_by_name(assign_splits({"a": True, "b": True, "c": True}, (), fixed))
    assert dealt == {"a": "train", "b": "test", "c": "valid"}


@pytest.mark.parametrize(
    ("fixed", "linked", "free"),
    [
        ({"a": "train", "b": "test", "c": "test"}, "ab bc cd", {"d": "test"}),
        ({"a": "train", "b": "train", "d": "test"}, "ad bd cd ce", {"c": "test", "e": "test"}),
        ({"a": "train", "b": "train", "d": "test"}, "ac bc cd cd cd", {"c": "test"}),  # frames weigh more than sources
        ({"a": "train", "b": "train", "d": "test"}, "ac bc cd", {"c": "train"}),
    ],
)
def test_the_publisher_tears_a_group_apart_and_others_go_where_they_share_most(
    fixed: dict[str, SplitName], linked: str, free: dict[str, SplitName]
) -> None:
    pairs = Counter(linked.split())
    rows = [shared(pair[0], pair[1], frames) for pair, frames in pairs.items()]
    assert split_by_name(assign_splits(dict.fromkeys(fixed | free, True), rows, fixed)) == fixed | free


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("clip1,tst\n", r"s\.csv:1: 'clip1,tst' is not"),
        ("clip1\n", r"s\.csv:1: 'clip1' is not"),
        ("clip1,test\nclip1,train\n", r"s\.csv:2: group 'clip1' .*test .*train"),
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
    assert not find_leakage(sets, images, {"s1": "train", "s2": "train", "s3": "train"}).sentence()


def test_shared_footage_leaks_where_its_sources_have_sets_in_two_splits() -> None:
    images = {one.id: one for one in (image("a", "g", "1"), image("b", "h", "2"))}
    sets = [image_set("s1", "g", "a"), image_set("s2", "h", "b")]
    rows = [shared("g", "h"), shared("g", "without-sets")]
    apart: dict[str, SplitName] = {"s1": "train", "s2": "test"}
    leak = find_leakage(sets, images, apart, rows)
    assert leak.counts() == {"leaking_groups": 0, "leaking_images": 0, "leaking_footage": 1}
    assert "g and h" in leak.sentence()
    assert not find_leakage(sets, images, {"s1": "test", "s2": "test"}, rows).sentence()


def test_every_split_gets_its_share_of_each_stratum() -> None:
    strata = {f"photo-{number}": ("food",) if number % 4 else ("people",) for number in range(400)}
    dealt = {row.group: row.split for row in assign_splits(dict.fromkeys(strata, True), strata=strata)}
    counts = Counter((strata[name], split) for name, split in dealt.items())
    for stratum, size in ((("food",), 300), (("people",), 100)):
        shares = {split: counts[stratum, split] for split in SPLITS}
        assert shares == {
            "train": pytest.approx(0.8 * size, abs=1),
            "valid": pytest.approx(0.1 * size, abs=1),
            "test": pytest.approx(0.1 * size, abs=1),
        }
    alone = {f"photo-{number}": (str(number),) for number in range(400)}
    few = Counter(row.split for row in assign_splits(dict.fromkeys(alone, True), strata=alone))
    assert min(few.values()) > 20
    assert assign_splits(dict.fromkeys(strata, True), strata=strata) == assign_splits(
        dict.fromkeys([*strata][::-1], True), strata=strata
    )

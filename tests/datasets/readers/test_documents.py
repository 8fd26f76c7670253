"""The authors' JSON, MMC4's JSONL, Markdown and HTML: links by either side, local images, and pages that mean harm."""

import json
import os
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctxr.datasets.documents import documents_of
from ctxr.datasets.open import read_dataset
from ctxr.datasets.readers.documents import PAGE_BYTES, _links, parse_html
from ctxr.errors import DataError, UsageError
from tests.releases import draw

NAN = float("nan")


def write(folder: Path, content: object, name: str = "docs.json") -> Path:
    folder.mkdir(exist_ok=True)
    file = folder / name
    file.write_text(json.dumps(content))
    return file


def document(images: list[Any], sentences: list[Any]) -> list[Any]:
    """A document by the indices that its items name."""
    return [
        [[f"i{k}", end] for k, end in enumerate(images)],
        [[f"Text {k}.", end] for k, end in enumerate(sentences)],
        "na",
    ]


def links(folder: Path, images: list[Any], sentences: list[Any]) -> list[list[float]]:
    (one,) = documents_of(read_dataset(write(folder, {"test": [document(images, sentences)]})))
    return one.links.tolist()  # type: ignore[no-any-return]


@pytest.mark.parametrize(
    ("images", "sentences", "expected"),
    [
        ([1, -1], [-1, -1], [[0, 0], [1, 0]]),  # as the authors store them: on one side, with -1 throughout the other
        ([-1, -1], [-1, 0], [[0, 0], [1, 0]]),
        ([1, -1], [-1, 0], [[0, 0], [1, 0]]),
        ([1, 1], [None, None], [[0, 0], [1, 1]]),
        ([1, 1], [-1, 0], [[0, 0], [1, 1]]),  # several name the same end, which can name one of them
        ([None, None], [1, None], [[0, 1], [NAN, NAN]]),
        ([None, -1], [None, None], [[NAN, 0], [NAN, 0]]),
        ([None, None], [None, None], [[NAN, NAN], [NAN, NAN]]),
        ([-1, -1], [-1, -1], [[0, 0], [0, 0]]),
    ],
)
def test_a_link_counts_whichever_side_carries_it(
    tmp_path: Path, images: list[Any], sentences: list[Any], expected: list[list[float]]
) -> None:
    np.testing.assert_array_equal(links(tmp_path, images, sentences), expected)


def ends(count: int, others: int) -> st.SearchStrategy[list[int | None]]:
    index = st.one_of(st.none(), st.integers(-1, others - 1))
    return st.lists(index, min_size=count, max_size=count)


@given(st.data(), st.integers(1, 4), st.integers(1, 4))
def test_links_equal_their_definition_pair_by_pair(data: st.DataObject, n: int, m: int) -> None:
    sentences, images = data.draw(ends(n, m)), data.draw(ends(m, n))
    values = _links(sentences, images)
    for row in range(n):
        for column in range(m):
            linked = sentences[row] == column or images[column] == row
            unknown = sentences[row] is None and images[column] is None
            expected = 1.0 if linked else NAN if unknown else 0.0
            np.testing.assert_equal(values[row, column], expected)


def test_documents_have_splits_pictures_and_texts_in_order(tmp_path: Path) -> None:
    folder = tmp_path / "d"
    draw(folder / "i0.png", 1)
    draw(folder / "images" / "i1.JPG.jpg", 2).rename(folder / "images" / "i1.JPG")
    (folder / "i2.jpg").symlink_to(draw(tmp_path / "outside.jpg", 3))
    (folder / "i3.jpg").write_text("no picture")
    file = write(folder, {"train": [document([None] * 4, [None] * 11)], "val": [document([0], [0])], "test": []})
    dataset = read_dataset(file)
    assert dataset.splits == {"train/00000": "train", "valid/00000": "valid"}
    assert {one.id: one.path for one in dataset.images.values()} == {
        "i0": "i0.png", "i1": "images/i1.JPG", "i2": "", "i3": "",
    }  # fmt: skip
    assert dataset.images["i0"].width == 24
    assert documents_of(dataset)[0].texts == tuple(f"Text {number}." for number in range(11))
    assert [(row.query, row.candidate, row.worker) for row in dataset.judgments] == [("valid/00000/s0", "i0", "gold")]
    assert re.search(r"^images .* d/ .*: 2, .*'i2'", dataset.notes[0])


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({"test": [document([2], [None, None])]}, r"test\[0\]: image 0 .*to 2, .* 2 sentences$"),
        ({"test": [document([-2], [None])]}, r"-1 - at `\$\.test\[0\]\[0\]\[0\]\[1\]`"),
        ({"test": [document([None], [1])]}, "sentence 0 .*to 1"),
        ({"test": [document([1e999], [None])]}, r"docs\.json .*Infinity"),
        ({"test": [[[["a", 0]], [["b\ud800", 0]]]]}, r"docs\.json .*surrogate"),
        ({"test": [[[["../a", 0]], [["b", 0]]]]}, r"the image '\.\./a'"),
        ({"test": [[[["a\u001b[1m", 0]], [["b", 0]]]]}, r"x1b\[1m"),
        ({"test": [[[["a", 0], ["a", 0]], [["b", None]]]]}, r"test\[0\]: document 'test/00000' .*twice"),
        ({"test": [document([None], [])]}, "'test/00000' has 0 sentences"),
        ({"test": [document([], [None])]}, "'test/00000' has 0 images"),
        ({"test": [document([None], [None] * 10_000)]}, "10,000 sentences; 1 to 2,000"),
        ({"test": [document([None] * 501, [None])]}, "501 images; 1 to 500"),
        ({"test": [document([None], [None])], "dev": []}, "dev"),
        ({"val": [document([None], [None])], "valid": [document([None], [None])]}, "'valid/00000' appears twice"),
        ({"train": [], "test": []}, r"docs\.json: .*no document"),
        ([[1]], r"docs\.json"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_one_sentence(tmp_path: Path, content: object, message: str) -> None:
    with pytest.raises(DataError, match=message):
        read_dataset(write(tmp_path, content))


def mmc4(**changes: Any) -> dict[str, Any]:
    return {
        "text_list": ["A.", "B.", "C."],
        "image_info": [{"image_name": "x.jpg", "matched_text_index": 2}, {"image_name": "y.jpg", "matched_text_index": 1}],
        "similarity_matrix": [[0.1, 0.2, 0.3], [0.2, 0.3, 0]],
        "url": "http://page.example",
    } | changes  # fmt: skip


def test_matches_of_mmc4_are_judgments_of_a_machine(tmp_path: Path) -> None:
    draw(tmp_path / "images" / "x.jpg", 1)
    lines = [json.dumps(mmc4(text_list=["A\u2028.", "B.", "C."]), ensure_ascii=False), "", json.dumps(mmc4())]
    (tmp_path / "train.jsonl").write_text("\n".join(lines) + "\n")
    (tmp_path / "shard_1.jsonl").write_text("\ufeff" + json.dumps(mmc4()))
    dataset = read_dataset(tmp_path)
    assert dataset.splits == {"train/00001": "train", "train/00003": "train"}
    assert [one.id for one in dataset.sets] == ["shard_1/00001", "train/00001", "train/00003"]
    assert np.isnan(documents_of(dataset)[0].links).all()
    assert [one.links.tolist() for one in documents_of(dataset, "mmc4")] == [[[0, 0], [0, 1], [1, 0]]] * 3
    assert {one.id: one.path for one in dataset.images.values()} == {"x.jpg": "images/x.jpg", "y.jpg": ""}
    assert read_dataset(tmp_path / "shard_1.jsonl").name == "shard_1"


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (mmc4(text_list=["A.", 3, "C."]), r"text_list\[1\]"),
        (mmc4(image_info=[]), "has 0 images"),
        (mmc4(image_info=[{"image_name": "x", "matched_text_index": 3}] * 2), "image 0 .*to 3"),
        (mmc4(image_info=[{"image_name": "../x", "matched_text_index": 0}] * 2), r"'\.\./x'"),
        (mmc4(image_info=[{"image_name": "x", "matched_text_index": 0}] * 2), "twice"),
        (mmc4(text_list=["A."] * 10_000), "10,000 sentences"),
        ("{", "truncated"),
    ],
)
def test_a_line_that_does_not_fit_is_named_by_file_and_line(tmp_path: Path, line: object, message: str) -> None:
    file = tmp_path / "shard.jsonl"
    text = line if isinstance(line, str) else json.dumps(line)
    file.write_text(json.dumps(mmc4()) + "\n" + text + "\n")
    with pytest.raises(DataError, match=rf"shard\.jsonl:2: .*{message}"):
        read_dataset(file)


def test_other_jsonl_is_no_dataset(tmp_path: Path) -> None:
    (tmp_path / "other.jsonl").write_text('{"text_list": []}\n')
    with pytest.raises(UsageError, match=r"other\.jsonl"):
        read_dataset(tmp_path / "other.jsonl")
    with pytest.raises(UsageError, match=r"other\.jsonl"):
        read_dataset(tmp_path)


def test_the_published_document_of_mmc4_has_the_published_matches(real_files: Path) -> None:
    file = real_files / "documents" / "mmc4_example.jsonl"
    if not file.is_file():
        pytest.skip(f"no {file}: set CTXR_REAL_DATA")
    (one,) = documents_of(read_dataset(file), "mmc4")
    assert one.links.argmax(0).tolist() == [2, 1]
    assert one.links.sum() == 2


TEA = """---
title: Tea
author: nobody
---
# How to make tea

Boil *water*. Pour it
over! ![a pot](pics/pot.jpg) Ask J. Smith, e.g. today.

- Wait.
- Drink <b>slowly</b>. <img src="../pics/cup%20one.png">

| sugar | milk |
| --- | --- |
| none | some |

```
code()
```
![again](pics/../pics/pot.jpg)
"""


def test_markdown_is_split_into_sentences_and_local_images(tmp_path: Path) -> None:
    for name in ("train/pics/pot.jpg", "pics/cup one.png"):
        draw(tmp_path / name, 1)
    (tmp_path / "train" / "tea.md").write_text(TEA)
    (tmp_path / "test").mkdir()
    (tmp_path / "test" / "cup.HTM").write_text("<p>A cup.<img src=../pics/cup%20one.png?v=2#x></p>")
    dataset = read_dataset(tmp_path)
    cup, tea = documents_of(dataset)
    assert tea.texts == (
        "How to make tea", "Boil water.", "Pour it over!", "Ask J. Smith, e.g. today.", "Wait.", "Drink slowly.",
        "sugar", "milk", "none", "some",
    )  # fmt: skip
    assert tea.images == ("train/pics/pot.jpg", "pics/cup one.png")
    assert (cup.id, cup.images, cup.split) == ("test/cup", ("pics/cup one.png",), "test")
    assert tea.split == "train"
    assert dataset.judgments == ()
    assert dataset.notes == ()
    assert all(dataset.picture(image).is_file() for image in dataset.images.values())  # type: ignore[union-attr]


def test_what_is_not_in_the_folder_is_left_out_and_counted(tmp_path: Path) -> None:
    root = tmp_path / "site"
    draw(root / "a.jpg", 1)
    (root / "text.jpg").write_text("no picture")
    (root / "link.jpg").symlink_to(draw(tmp_path / "secret.jpg", 2))
    (root / "same.jpg").symlink_to(root / "a.jpg")
    (root / "loop.jpg").symlink_to(root / "loop.jpg")
    os.mkfifo(root / "pipe.jpg")
    sources = (
        "https://x.example/a.jpg", "//x.example/a.jpg", "data:image/png;base64,AA", "file:///etc/passwd",
        "../secret.jpg", "%2e%2e/secret.jpg", "/a.jpg", "link.jpg",
        "gone.jpg", "text.jpg", "loop.jpg", "pipe.jpg", "a.jpg%00", "//[", "x" * 5000, ".",
        "a.jpg", "same.jpg", "./a.jpg",
    )  # fmt: skip
    (root / "page.html").write_text("<p>One." + "".join(f'<img src="{source}">' for source in sources))
    (root / "text.md").write_text("No image here.")
    (root / "stolen.md").symlink_to(tmp_path / "stolen.md")
    (tmp_path / "stolen.md").write_text("Secret. ![](a.jpg)")
    (root / "artifact").mkdir()
    (root / "artifact" / "manifest.json").write_text("{}")
    (root / "artifact" / "report.html").write_text("Report. <img src='../a.jpg'>")
    dataset = read_dataset(root)
    (page,) = documents_of(dataset)
    assert (page.id, page.images) == ("page", ("a.jpg",))
    notes = " ".join(dataset.notes)
    for pattern in (r"remote\b.*: 4, .*'https", r"outside\b.*: 4, .*'\.\./secret", r"missing\b.*: 8, .*'gone",
                    r"without text .*: 1, .*'text'$"):  # fmt: skip
        assert any(re.search(pattern, note) for note in dataset.notes), (pattern, notes)


@pytest.mark.parametrize(
    ("text", "sentences", "images"),
    [
        ("<title>T</title><script>var a = '<p>No.</p>';</script><style>p{}</style>Yes.", ["Yes."], []),
        ("<nav>Home <img src=a></nav><template>no</template>Text", ["Text"], []),
        ("<!-- <img src=a> -->A<!--B", ["A"], []),
        ("A &lt;b&gt; &amp; c &#65;", ["A <b> & c A"], []),
        ("<img alt='src=x' data-src=y SRC = 'a&amp;b'>One<br>two", ["One", "two"], ["a&b"]),
        ("<img alt='a > b' src=c>", [], ["c"]),
        ("<img src=''><img src><img>", [], []),
        (
            "Why? Because! “Yes.” He left… Then 3.5 m. ok",
            ["Why?", "Because!", "“Yes.”", "He left…", "Then 3.5 m. ok"],
            [],
        ),
        ("一。二！", ["一。", "二！"], []),
        ("<![x]><?php echo ?>a < b</>", ["a < b"], []),
        ("a<p", ["a"], []),
        ("... <p> --- </p>", [], []),
    ],
)
def test_html_is_read_as_browsers_show_it(text: str, sentences: list[str], images: list[str]) -> None:
    assert parse_html(text) == (sentences, images)


@pytest.mark.parametrize("piece", ["<a ", "<!--", "<a b='", "<script>", "</script ", "<", "&#x", "<img a= ", '."'])
def test_a_page_of_a_repeated_beginning_is_read_in_linear_time(piece: str) -> None:
    parse_html(piece * (1 << 18))  # quadratic time would be hours


def test_bad_pages_are_one_sentence(tmp_path: Path) -> None:
    draw(tmp_path / "a.jpg", 1)
    page = tmp_path / "page.md"
    page.write_text("Only [remote](http://x.example) ![](http://x.example/a.jpg)")
    with pytest.raises(DataError, match=r"none of its 1 .*"):
        read_dataset(tmp_path)
    page.write_bytes(b"\xff")
    with pytest.raises(DataError, match=r"page\.md:1"):
        read_dataset(tmp_path)
    page.write_text("a" * (PAGE_BYTES[".md"] + 1))
    with pytest.raises(DataError, match=r"page\.md .* 256 KiB"):
        read_dataset(tmp_path)
    page.write_text("A sentence.\n\n" * 2_001 + "![](a.jpg)")
    with pytest.raises(DataError, match=r"'page' has 2,001 sentences"):
        read_dataset(tmp_path)
    page.write_text("A. ![](a.jpg)")
    (tmp_path / "page.html").write_text("A. <img src=a.jpg>")
    with pytest.raises(DataError, match="'page' appears twice"):
        read_dataset(tmp_path)
    (tmp_path / "page.html").rename(tmp_path / "\x1b[1m.html")
    with pytest.raises(DataError, match=r"\\x1b"):
        read_dataset(tmp_path)


def test_a_folder_without_pages_is_no_dataset(tmp_path: Path) -> None:
    (tmp_path / ".hidden").mkdir()
    (tmp_path / ".hidden" / "page.md").write_text("A. ![](a.jpg)")
    with pytest.raises(UsageError, match="no file"):
        read_dataset(tmp_path)

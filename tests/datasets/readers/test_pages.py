"""Folders of Markdown and HTML: sentences, local images, splits, and pages that mean harm."""

import os
import re
from pathlib import Path

import pytest

from ctxr.datasets.documents import documents_of
from ctxr.datasets.open import read_dataset
from ctxr.datasets.readers.pages import MOST_BYTES, parse_html
from ctxr.errors import DataError, UsageError
from tests.releases import draw

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
    page.write_text("a" * (MOST_BYTES[".md"] + 1))
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

"""The texts of a study: which file is read, what Markdown may do, and what is refused."""

import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from ctxr.annotation.study import StudyTexts, page_of, read_texts
from ctxr.annotation.tasks import NAMES
from ctxr.datasets.readers.text_files import read_utf8
from ctxr.errors import CtxrError, DataError

CONSENT = "# About the study\n\nYou describe images. Questions: <mailto:ada@example.org> or ben@example.org.\n"

EXIT = "# Before you go\n\nThank you.\n\n## Was it clear?\n\n- Yes\n- Not <b>always</b>\n\n## What was *hard*?\n"
EXIT_AR = "# قبل أن تذهب\n\n## هل كان واضحا؟\n\n- نعم\n- ليس دائما\n\n## ما الذي كان صعبا؟\n"


def folder_of(root: Path, **texts: str) -> Path:
    """A folder of texts; a name's `_` is a dot."""
    root.mkdir(exist_ok=True)
    for name, text in texts.items():
        (root / f"{name.replace('_', '.')}.md").write_text(text, "utf-8")
    return root


def test_a_consent_has_a_title_a_contact_and_a_version_that_changes_with_any_of_its_files(tmp_path: Path) -> None:
    texts = read_texts(folder_of(tmp_path / "one", consent=CONSENT))
    page = texts.page("consent", "ar")
    assert page is not None
    assert (page.title, page.language, texts.contact) == ("About the study", "en", "ada@example.org")
    assert 'href="mailto:ada@example.org"' in page.html
    assert "<h1>" not in page.html
    assert len(texts.version) == 12
    same = read_texts(folder_of(tmp_path / "same", consent=CONSENT, **{"instructions-tag": "# Tags\n"}))
    assert same.version == texts.version
    for changed in ({"consent": CONSENT + "!"}, {"consent": CONSENT, "consent_ar": CONSENT}):
        other = read_texts(folder_of(tmp_path / f"{len(changed)}", **changed))
        assert other.version not in ("", texts.version)


def test_a_text_is_read_in_its_language_and_else_in_the_one_without_a_name(tmp_path: Path) -> None:
    arabic = "# عن الدراسة\n\nada@example.org\n"
    texts = read_texts(folder_of(tmp_path, consent=CONSENT, consent_ar=arabic, **{"instructions-tag": "# Mine\n"}))
    found = {language: texts.page("consent", language) for language in ("en", "ar", "ar-EG", "de", "consent")}
    assert {language: page and page.title for language, page in found.items()} == {
        "en": "About the study", "ar": "عن الدراسة", "ar-EG": "عن الدراسة", "de": "About the study", "consent": "About the study",
    }  # fmt: skip
    assert found["ar"] is not None
    assert found["ar"].language == "ar"
    mine = texts.page("instructions-tag", "ar")
    assert mine is not None
    assert mine.title == "Mine"


def test_a_table_is_one_and_brings_no_style_of_its_own(tmp_path: Path) -> None:
    table = "\n| what | kept for |\n| --- | ---: |\n| <b>names</b> | a year |\n"
    page = read_texts(folder_of(tmp_path, consent=CONSENT + table)).page("consent")
    assert page is not None
    assert "<th>kept for</th>" in page.html
    assert "<td>&lt;b&gt;names&lt;/b&gt;</td>\n<td>a year</td>" in page.html
    with pytest.raises(DataError, match="'what'"):
        read_texts(folder_of(tmp_path, exit=EXIT + table))


@pytest.mark.parametrize(("name", "is_sheet"), [("consent.md", False), ("votes.CSV", True)])
def test_only_a_table_is_saved_in_a_spreadsheet(tmp_path: Path, name: str, is_sheet: bool) -> None:
    (tmp_path / name).write_bytes("# Für".encode("latin-1"))
    with pytest.raises(DataError, match="byte 0xfc") as raised:
        read_utf8(tmp_path / name)
    assert ("CSV UTF-8" in raised.value.hint) == is_sheet


def test_every_task_has_instructions_with_good_and_bad_examples_and_no_consent_is_made_up() -> None:
    texts = read_texts(None)
    assert (texts.version, texts.contact, texts.page("consent")) == ("", "", None)
    assert StudyTexts().page("instructions-describe") is None
    for task in NAMES:
        page = texts.page(f"instructions-{task}")
        assert (page is None) == (
            task in ("repeat", "own")
        )  # which have those of the task that is repeated, or say themselves what they ask
        assert page is None or page.html.count("<blockquote>") >= 3
        assert page is None or [part in page.html for part in ("<h2>Good", "<h2>Not good")] == [True, True]


def test_questions_at_the_end_are_headings_with_choices_or_a_field(tmp_path: Path) -> None:
    texts = read_texts(folder_of(tmp_path / "one", exit=EXIT, exit_ar=EXIT_AR))
    page, arabic = texts.page("exit"), texts.page("exit", "ar")
    assert page is not None
    assert arabic is not None
    assert page.questions == (("Was it clear?", ("Yes", "Not <b>always</b>")), ("What was hard?", ()))
    assert (page.title, page.html, len(texts.exit_version)) == ("Before you go", "<p>Thank you.</p>\n", 12)
    assert [len(one.choices) for one in arabic.questions] == [2, 0]
    assert (texts.version, texts.contact) == ("", "")
    other = read_texts(folder_of(tmp_path / "two", exit=EXIT.replace("Thank", "Thanks to")))
    assert other.exit_version not in ("", texts.exit_version)
    assert read_texts(folder_of(tmp_path / "three", consent=CONSENT, exit=EXIT)).contact == "ada@example.org"


@pytest.mark.parametrize(
    ("text", "arabic", "told"),
    [
        ("# Title\n\nNo question.\n", "", "exit.md has no"),
        ("## A question?\n", "", "exit.md has no"),
        ("# T\n\n## A?\n\nA remark.\n", "", "'A remark.'"),
        (EXIT, EXIT_AR.replace("- نعم\n", ""), "exit.ar.md has other"),
        (EXIT, "# T\n\n## A?\n", "exit.ar.md has other"),
    ],
)
def test_what_is_no_list_of_questions_is_refused(tmp_path: Path, text: str, arabic: str, told: str) -> None:
    files = {"exit": text} | ({"exit_ar": arabic} if arabic else {})
    with pytest.raises(DataError, match=re.escape(told)):
        read_texts(folder_of(tmp_path, **files))


class Parsed(HTMLParser):
    """Tags, and the addresses that they lead to."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.leads: list[str] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        assert not [name for name, _ in attrs if name not in ("href", "class", "start", "title")]
        self.leads += [value or "" for name, value in attrs if name == "href"]


HOSTILE = """# <script>alert(1)</script> *Title*

<script>alert(2)</script> <b onclick="alert(3)">bold</b>

<iframe src="https://example.org"></iframe>

[a](javascript:alert(1)) [b](JaVaScRiPt:alert(1)) [c](data:text/html,x) [d](/w/x) [e](//example.org) [f](file:///etc/passwd)
[g](&#106;avascript:alert(1)) ![h](https://example.org/p.png) <javascript:alert(1)> [i](vbscript:x) [j](java\\script:x)
[k](https://example.org/"onclick="x) [l](mailto:ada@example.org) [m][1]

[1]: javascript:alert(1)

<style>body { display: none }</style>
"""


def test_markdown_is_text_and_links_to_pages_and_mailboxes_and_nothing_else() -> None:
    page = page_of(HOSTILE, Path("consent.md"))
    assert page.title == "<script>alert(1)</script> Title"  # a template escapes it
    parsed = Parsed(page.html)
    assert set(parsed.tags) == {"p", "a"}
    assert parsed.leads == [
        "https://example.org/p.png",
        "https://example.org/%22onclick=%22x",
        "mailto:ada@example.org",
    ]
    assert "&lt;script&gt;alert(2)&lt;/script&gt;" in page.html


@pytest.mark.parametrize(
    ("texts", "sentence", "hint"),
    [
        ({"consent": "# Title\n\nNo address.\n"}, r"consent\.md .*contact", "study@"),
        ({"consent": CONSENT, "consent_ar": "# Title\n"}, r"consent\.ar\.md .*contact", "study@"),
        ({"consent": "ada@example.org"}, r"consent\.md .*heading", "# "),
        ({"consent": "#\n\nada@example.org"}, r"consent\.md .*heading", "# "),
        ({"consent_ar": CONSENT}, r"consent\.ar\.md .* consent\.md", "languages"),
        ({"instructions-tag_ar": "# Tags\n"}, r"ar\.md .* instructions-tag\.md", "languages"),
        ({"concent": CONSENT}, r"concent\.md", r"consent\.md\?"),
        ({"privacy": CONSENT}, r"privacy\.md", "names are"),
        ({"instructions-descibe": "# x\n"}, r"instructions-descibe\.md", r"instructions-describe\.md\?"),
        ({"consent_toolong": CONSENT}, r"consent\.toolong\.md", r"consent\.md\?"),
    ],
)
def test_a_text_that_cannot_be_meant_is_refused_in_a_sentence(
    tmp_path: Path, texts: dict[str, str], sentence: str, hint: str
) -> None:
    folder = folder_of(tmp_path, **texts)
    with pytest.raises(DataError, match=sentence) as error:
        read_texts(folder)
    assert re.search(hint, error.value.hint)


def test_a_text_in_another_encoding_is_refused(tmp_path: Path) -> None:
    (tmp_path / "consent.md").write_bytes("# Über\n\nada@example.org".encode("latin-1"))
    with pytest.raises(CtxrError, match=r"consent\.md:1"):
        read_texts(tmp_path)

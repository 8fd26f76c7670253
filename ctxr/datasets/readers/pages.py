"""A folder of Markdown or HTML documents with the images that they show from it; nothing remote is fetched."""

import os
import re
from collections.abc import Callable
from html import unescape
from pathlib import Path
from urllib.parse import SplitResult, unquote, urlsplit

from markdown_it import MarkdownIt

from ctxr.datasets.dataset import Dataset
from ctxr.datasets.documents import DocumentTables
from ctxr.datasets.readers.documents import SPLIT_NAMES, Pictures
from ctxr.datasets.readers.galleries import Galleries
from ctxr.datasets.readers.karpathy import files_below
from ctxr.datasets.readers.text_files import is_text, read_utf8
from ctxr.errors import DataError
from ctxr.store.artifacts import MANIFEST, MARKER
from ctxr.store.records import Image

MARKDOWN, HTML = (".md", ".markdown"), (".html", ".htm")

MOST_BYTES = {MARKDOWN: 1 << 18, HTML: 1 << 22}
"""Of a page; a document of 2,000 sentences has less. Some Markdown takes time that grows with the square of its length."""

_FRONT_MATTER = re.compile(r"\A---\s*\n(?=[\w-]+\s*:).*?\n---\s*(?:\n|\Z)", re.DOTALL)
_SENTENCE_END = re.compile(r"((?<!\b[A-Z])[.!?…][\"'”’)\]]*) (?=[\"'“‘(\[]*[^\W\da-zß-ÿа-я])|([。！？])")
_TOKEN = re.compile(
    r"<!--.*?(?:-->|\Z)"
    r"|<(script|style|title|textarea)(?=[\s/>]).*?(?:</\1\s*>|\Z)"
    r"|<(?P<end>/?)(?P<tag>[a-z][^\s/>]*)(?P<rest>(?:=\s*\"[^\"]*(?:\"|\Z)|=\s*'[^']*(?:'|\Z)|[^>])*+)(?:>|\Z)"
    r"|<[!?/][^>]*(?:>|\Z)"
    r"|(?P<text>[^<]+|<)",
    re.DOTALL | re.IGNORECASE,
)
"""Of HTML. Each alternative ends at the end of the file at the latest, so time is linear; `html.parser` of some supported versions of
Python takes minutes for 64 KiB of `<a <a <a`."""
_ATTRIBUTE = re.compile(r"([^\s=/>]+)\s*(?:=\s*(?:\"([^\"]*)|'([^']*)|([^\s>]+))[\"']?)?")
_INLINE = re.compile(
    "a|abbr|b|bdi|bdo|cite|code|data|del|dfn|em|font|i|img|ins|kbd|mark|q|s|samp|small|source|span|strong|sub|sup|time|tt|u|var|wbr"
)
_SILENT = frozenset(("nav", "pre", "template"))
"""Elements whose content is no text of the document."""


_RENDERER = MarkdownIt("commonmark").enable("table")


def pages_below(root: Path) -> list[Path]:
    """Markdown and HTML files of a folder and those in it, but for hidden ones, ctxr's artifacts, and where links lead out."""
    files = files_below(root)
    made = {file.parent for name in (MANIFEST, MARKER) for file in files.get(name, ())}
    named = [file for name, paths in files.items() if Path(name).suffix.lower() in MARKDOWN + HTML for file in paths]
    return sorted(file for file in named if not made & set(file.parents) and Galleries(root).holds(file))


def read_pages(root: Path, pages: list[Path], passed: Callable[[], None] | None = None) -> Dataset:
    """The documents of `pages`, with the images that each shows from the folder `root`; nobody said which belong together.

    The folders train, valid or val, and test of `root` are splits. Raises DataError where no page has text and such an image.
    """
    tables, pictures, left = DocumentTables(), Pictures(Path(os.path.realpath(root)), passed), []
    for page in pages:
        name = page.relative_to(root).with_suffix("").as_posix()
        if not is_text(name) or not name.isprintable():
            raise DataError(f"{root}: the name of {name!r} cannot be printed", hint="rename the file")
        sentences, sources = _parse(page)
        images = {image.id: image for source in sources if (image := _image(pictures, page, source, name))}
        if sentences and images:
            tables.add(
                name, SPLIT_NAMES.get(name.partition("/")[0] if "/" in name else ""), sentences, list(images.values())
            )
        else:
            left.append(name)
    if not tables.sets:
        raise DataError(
            f"{root}: none of its {len(pages)} Markdown or HTML files has text and an image of this folder",
            hint="save the images beside the pages, and name them there by relative paths",
        )
    notes = [f"{len(left)} documents lack text or images, and were left out: the first is {left[0]}"] if left else []
    return tables.dataset(pictures.root.name, root, notes + pictures.notes())


def _parse(page: Path) -> tuple[list[str], list[str]]:
    """Sentences of a page and sources of its images, in order."""
    kind = MARKDOWN if page.suffix.lower() in MARKDOWN else HTML
    if page.stat().st_size > MOST_BYTES[kind]:
        size = f"{page.stat().st_size >> 10:,} KiB; at most {MOST_BYTES[kind] >> 10:,} are read"
        raise DataError(f"{page} has {size}", hint="split it, and keep images in files of their own")
    text = read_utf8(page)
    return parse_html(_RENDERER.render(_FRONT_MATTER.sub("", text)) if kind is MARKDOWN else text)


def parse_html(text: str) -> tuple[list[str], list[str]]:
    """Sentences and sources of images, in order. No sentence goes across blocks, or lacks a letter or digit.

    >>> parse_html("<h1>Tea</h1><p>Boil <b>water</b>. Wait. <img src='pot.jpg'>")
    (['Tea', 'Boil water.', 'Wait.'], ['pot.jpg'])
    """
    pieces, images, silent = list[str](), list[str](), 0
    for token in _TOKEN.finditer(text):
        tag = (token["tag"] or "").lower()
        if tag in _SILENT:
            silent = max(silent - 1, 0) if token["end"] else silent + 1
        if token["text"] is not None:
            pieces.append("" if silent else token["text"])
        elif not _INLINE.fullmatch(tag):
            pieces.append("\0")
        elif tag == "img" and not silent:
            values = (
                match[2] or match[3] or match[4]
                for match in _ATTRIBUTE.finditer(token["rest"])
                if match[1].lower() == "src"
            )
            images += [unescape(value).strip() for value in values if value][:1]
    lines = (_SENTENCE_END.sub(r"\1\2\n", " ".join(unescape(block).split())) for block in "".join(pieces).split("\0"))
    return [line for block in lines for line in block.split("\n") if re.search(r"\w", line)], images


def _image(pictures: Pictures, page: Path, source: str, document: str) -> Image | None:
    """The image that a page names, by its path in the folder; None, and a note, for one that is not there."""
    root, reason = pictures.root, "missing or no pictures, and were left out"
    try:
        url = urlsplit(source)
        path = unquote(url.path)
        file = Path(os.path.realpath(page.parent / path))
    except ValueError:  # no address, or a zero byte
        url, path, file = SplitResult("", "", "", "", ""), "", root
    if url.scheme or url.netloc:
        reason = "remote, and were left out"
    elif path.startswith("/") or not file.is_relative_to(root):
        reason = "outside the folder, and were left out"
    elif file.is_file() and is_text(str(file)) and str(file).isprintable():
        name = file.relative_to(root).as_posix()
        image = pictures.images.get(name) or pictures.add(name, file, document)
        if image.path:
            return image
    pictures.left.setdefault(reason, []).append(source)
    return None

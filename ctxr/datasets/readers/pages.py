"""A folder of Markdown or HTML documents with the images that they show from it; nothing remote is fetched."""

import os
import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from html import unescape
from pathlib import Path
from urllib.parse import unquote, urlsplit

from markdown_it import MarkdownIt

from ctxr.datasets.dataset import Dataset
from ctxr.datasets.readers.documents import SPLIT_NAMES, DocumentFiles
from ctxr.datasets.readers.galleries import Galleries
from ctxr.datasets.readers.karpathy import files_below
from ctxr.datasets.readers.text_files import read_utf8
from ctxr.errors import DataError
from ctxr.store.artifacts import MANIFEST, MARKER
from ctxr.store.records import Image

MOST_BYTES = {".md": 1 << 18, ".markdown": 1 << 18, ".html": 1 << 22, ".htm": 1 << 22}
"""Of a page, by suffix. 2,000 sentences are less, and some Markdown takes time that grows with the square of its length."""

_FRONT_MATTER = re.compile(r"\A---\s*\n(?=[\w-]+\s*:).*?\n---\s*(?:\n|\Z)", re.DOTALL)
_SENTENCE_END = re.compile(r"((?<!\b[A-Z])[.!?…][\"'”’)\]]*) (?=[\"'“‘(\[]*[^\W\da-zß-ÿа-я])|([。！？])")
_TAG = re.compile(
    r"(?is)<!--.*?(?:-->|\Z)|<(script|style|title|textarea|nav|pre|template)(?=[\s/>]).*?(?:</\1\s*>|\Z)"
    r"|<(?P<tag>/?[a-z][^\s/>]*)(?P<rest>(?:=\s*\"[^\"]*(?:\"|\Z)|=\s*'[^']*(?:'|\Z)|[^>])*+)(?:>|\Z)|<[!?/][^>]*(?:>|\Z)"
)
"""Of HTML, or what is no text. Each alternative ends at the end of the file at the latest, so time is linear; `html.parser` of some
supported versions of Python takes minutes for 64 KiB of `<a <a <a`."""
_ATTRIBUTE = re.compile(r"([^\s=/>]+)\s*(?:=\s*(?:\"([^\"]*)|'([^']*)|([^\s>]+))[\"']?)?")
_INLINE = re.compile(
    r"(?i)/?(a|abbr|b|bdo|cite|code|del|dfn|em|font|i|ins|kbd|mark|q|s|samp|small|span|strong|sub|sup|time|u|var|wbr)|img"
)


def page_files(path: Path) -> list[Path]:
    """The Markdown and HTML files below a folder, but for hidden ones and artifacts."""
    if not path.is_dir():
        return []
    files, folder = files_below(path), Galleries(Path(os.path.realpath(path)))
    artifacts = {file.parent for name in (MANIFEST, MARKER) for file in files.get(name, ())}
    named = [file for name, paths in files.items() if Path(name).suffix.lower() in MOST_BYTES for file in paths]
    return sorted(file for file in named if artifacts.isdisjoint(file.parents) and folder.holds(file))


def read_pages(root: Path, pages: Sequence[Path], passed: Callable[[], None] | None = None) -> Dataset:
    """Markdown and HTML files as documents, with their images from the folder `root`.

    The folders train, valid or val, and test are splits. Raises DataError where no file has text and such an image.
    """
    reading = DocumentFiles(Galleries(Path(os.path.realpath(root))), passed)
    for page in pages:
        path, suffix = page.relative_to(root), page.suffix.lower()
        if page.stat().st_size > MOST_BYTES[suffix]:
            sentence = f"{page} has more than {MOST_BYTES[suffix] >> 10:,} KiB"
            raise DataError(sentence, hint="split it, and keep images in files of their own")
        text = read_utf8(page)
        if suffix.startswith(".m"):
            text = MarkdownIt("commonmark").enable("table").render(_FRONT_MATTER.sub("", text))
        name, (sentences, sources) = path.with_suffix("").as_posix(), parse_html(text)
        images = {image.id: image for source in sources if (image := _image(reading, page, source, name))}
        if sentences and images:
            reading.tables.add(name, SPLIT_NAMES.get(path.parts[0]), sentences, list(images.values()))
        else:
            reading.left["documents without text or images, which were left out"].append(name)
    if not reading.tables.sets:
        sentence = f"{root}: none of its {len(pages)} Markdown or HTML files has text and an image of this folder"
        raise DataError(sentence, hint="save the images beside the pages, and name them there by relative paths")
    return reading.dataset(reading.photos.root.name)


def parse_html(text: str) -> tuple[list[str], list[str]]:
    """Sentences and sources of images, in order. No sentence goes across blocks, or lacks a letter or digit."""
    images = list[str]()

    def separator(found: re.Match[str]) -> str:
        tag, rest = found["tag"] or "", found["rest"] or ""
        sources = ("".join(values) for key, *values in _ATTRIBUTE.findall(rest) if key.lower() == "src")
        images.extend(unescape(source).strip() for source in sources if source and tag.lower() == "img")
        return "" if _INLINE.fullmatch(tag) else "\0"

    blocks = (" ".join(unescape(block).split()) for block in _TAG.sub(separator, text).split("\0"))
    lines = (line for block in blocks for line in _SENTENCE_END.sub(r"\1\2\n", block).split("\n"))
    return [line for line in lines if re.search(r"\w", line)], images


def _image(reading: DocumentFiles, page: Path, source: str, document: str) -> Image | None:
    """The image that a page names, by its path in the folder; None, and a note, for one that is not there."""
    root, reason = reading.photos.root, "missing or no pictures"
    with suppress(OSError, ValueError):  # no address, a zero byte, or too long a name
        url = urlsplit(source)
        file = Path(os.path.realpath(page.parent / unquote(url.path)))
        if url.scheme or url.netloc:
            reason = "remote"
        elif not file.is_relative_to(root):
            reason = "outside the folder"
        elif file.is_file() and (image := reading.picture(file.relative_to(root).as_posix(), file, document)).path:
            return image
    reading.left[f"images that are {reason}, which were left out"].append(source)
    return None

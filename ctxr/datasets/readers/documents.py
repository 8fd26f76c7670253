"""Documents as others keep them: the JSON of Hessel et al. (EMNLP 2019), the JSONL of MMC4 (Zhu et al., 2023), and folders of Markdown
or HTML with the images that they show from there; nothing remote is fetched."""

import os
import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from html import unescape
from pathlib import Path
from typing import Annotated, NamedTuple
from urllib.parse import unquote, urlsplit

import msgspec
import numpy as np
from markdown_it import MarkdownIt

from ctxr.datasets.dataset import Dataset
from ctxr.datasets.documents import GOLD, DocumentTables, Links, validate_size
from ctxr.datasets.readers.galleries import Galleries, files_below
from ctxr.datasets.readers.text_files import read_json, read_utf8, value_starts
from ctxr.errors import DataError, plural
from ctxr.store.artifacts import MANIFEST, MARKER
from ctxr.store.paths import stays_inside
from ctxr.store.records import PHOTO_SUFFIXES, Image, SplitName
from ctxr.store.tables import UNREADABLE, numbered_lines

SPLIT_NAMES: dict[str, SplitName] = {"train": "train", "val": "valid", "valid": "valid", "test": "test"}
"""What splits are called in documents, and what that is here."""

WORKER = "mmc4"  # who linked MMC4's documents: an assignment by similarities of CLIP

_SUFFIXES = ("", *sorted(PHOTO_SUFFIXES), *sorted(map(str.upper, PHOTO_SUFFIXES)))

Item = tuple[str, Annotated[int, msgspec.Meta(ge=-1, lt=1 << 53)] | None]
"""A sentence or the name of an image, and the index that it is linked to: -1 for nothing, None not judged."""


class _Row(msgspec.Struct, array_like=True, forbid_unknown_fields=True):
    images: list[Item]
    sentences: list[Item]
    meta: object = None


class _Splits(msgspec.Struct, forbid_unknown_fields=True):
    """By the names in `SPLIT_NAMES`."""

    train: list[_Row] = []
    val: list[_Row] = []
    valid: list[_Row] = []
    test: list[_Row] = []


class _Info(msgspec.Struct):
    image_name: str
    matched_text_index: Annotated[int, msgspec.Meta(ge=0, lt=1 << 53)]


class _Line(msgspec.Struct):
    text_list: list[str]
    image_info: list[_Info]


@dataclass
class DocumentFiles:
    """Documents with pictures of `photos`; `left` names what cannot be used, by reason."""

    photos: Galleries
    tables: DocumentTables = field(default_factory=DocumentTables)
    left: defaultdict[str, list[str]] = field(default_factory=lambda: defaultdict(list))

    def picture(self, name: str, file: Path | None, document: str) -> Image:
        """The image of a name, with its picture if the file is one."""
        if name not in self.photos.images:
            self.photos.add_photo(document, name, file)
        return self.photos.images[name]

    def add(self, name: str, split: SplitName | None, sentences: Sequence[Item], images: Sequence[Item]) -> None:
        """Add a document. A picture lies in the folder or its `images/`, and may have a suffix that its name lacks."""
        validate_size(name, len(sentences), len(images))
        links, pictures = _links([end for _, end in sentences], [end for _, end in images]), []
        for image, _ in images:
            if not stays_inside(image):
                raise DataError(f"the image {image!r} is not a name inside the folder", hint="rename it")
            files = (self.photos.root / folder / f"{image}{end}" for folder in ("", "images") for end in _SUFFIXES)
            pictures.append(self.picture(image, next(filter(self.photos.holds, files), None), name))
            if not pictures[-1].path:
                self.left[f"images that are missing from {self.photos.searched} and its images/"].append(image)
        texts = [text for text, _ in sentences]
        empty = [f"{name}/s{number}" for number, text in enumerate(texts) if not text.strip()]
        if empty:
            self.left["sentences without text"] += empty
        self.tables.add(name, split, texts, pictures, links)

    def dataset(self, name: str) -> Dataset:
        """All documents, with a note for each reason in `left`."""
        notes = (f"{what}: {len(names)}, the first is {names[0][:200]!r}" for what, names in self.left.items())
        return self.tables.dataset(name, self.photos.root, notes)


_EXPECTED = "a document is [[[image, index], …], [[sentence, index], …], meta] below train, val or test; an index may be -1 or null"


@contextmanager
def _located(at: str) -> Iterator[None]:
    try:
        yield
    except DataError as error:
        raise DataError(f"{at}: {error.message}", hint=error.hint) from error
    except UNREADABLE as error:
        raise DataError(f"{at}: {error}", hint=_EXPECTED) from error


def link_files(path: Path) -> list[Path]:
    """The JSON at a path, or `documents.json` in it, if it lists documents by split."""
    file = path / "documents.json" if path.is_dir() else path
    starts = value_starts(file) if file.suffix == ".json" and file.is_file() else {}
    return [file] if any(starts.get(split, b"").startswith(b"[") for split in SPLIT_NAMES) else []


def read_links(_path: Path, files: Sequence[Path], passed: Callable[[], None]) -> Dataset:
    """Documents of {train, val, test: [[images, sentences, meta]]} with lists of `Item`. Raises DataError naming document and item."""
    (file,) = files
    reading = DocumentFiles(Galleries(file.parent, passed))
    with _located(str(file)):
        splits = msgspec.json.decode(read_json(file).text, type=_Splits)
    for key, split in SPLIT_NAMES.items():
        for number, row in enumerate(getattr(splits, key)):
            with _located(f"{file}: {key}[{number}]"):
                # an export of predicted links names who predicted them
                worker = row.meta.get("worker") if isinstance(row.meta, dict) else None
                reading.tables.worker = worker if isinstance(worker, str) and worker else GOLD
                reading.add(f"{split}/{number:05}", split, row.sentences, row.images)
    if not reading.tables.sets:
        raise DataError(f"{file}: there is no document in it", hint="restore the file")
    return reading.dataset(file.stem)


def _links(sentences: Sequence[int | None], images: Sequence[int | None]) -> Links:
    return np.fmax(_side("sentence", sentences, len(images)), _side("image", images, len(sentences)).T)


def _side(what: str, ends: Sequence[int | None], others: int) -> Links:
    named = np.array(ends, np.float64)[:, None]
    for index in np.flatnonzero(named >= others).tolist():
        other = plural(others, "image" if what == "sentence" else "sentence")
        message = f"{what} {index} is linked to {ends[index]}, and the document has {other}"
        raise DataError(message, hint=f"indices are 0 to {others - 1}, -1 for nothing, null for unknown")
    return np.where(np.isnan(named), np.nan, named == np.arange(others))


def mmc4_files(path: Path) -> list[Path]:
    """The JSONL at a path, or all in it, if the first line of one is a document of MMC4."""
    found = sorted(path.glob("*.jsonl")) if path.is_dir() else [path]
    # an export has judgments beside the documents
    found = [file for file in found if file.suffix == ".jsonl" and file.name != "judgments.jsonl" and file.is_file()]
    for file in found:
        with file.open("rb") as stream:
            line = stream.readline(1 << 24)
        if b'"text_list"' in line and b'"image_info"' in line:
            return found
    return []


def read_mmc4(path: Path, files: Sequence[Path], passed: Callable[[], None]) -> Dataset:
    """Documents of MMC4, one a line, in files that may be named like splits. Raises DataError naming file:line."""
    root = path if path.is_dir() else path.parent
    reading = DocumentFiles(Galleries(root, passed), DocumentTables(WORKER))
    for file in files:
        for number, line in numbered_lines(file):
            with _located(f"{file}:{number}"):
                row = msgspec.json.decode(line, type=_Line)
                images = [(info.image_name, info.matched_text_index) for info in row.image_info]
                sentences = [(text, None) for text in row.text_list]
                reading.add(f"{file.stem}/{number:05}", SPLIT_NAMES.get(file.stem), sentences, images)
    return reading.dataset(root.resolve().name if len(files) > 1 else files[0].stem)


PAGE_BYTES = {".md": 1 << 18, ".markdown": 1 << 18, ".html": 1 << 22, ".htm": 1 << 22}
"""Of a page, by suffix. 2,000 sentences are less, and some Markdown takes time that grows with the square of its length."""

_FRONT_MATTER = re.compile(r"\A---\s*\n(?=[\w-]+\s*:).*?\n---\s*(?:\n|\Z)", re.DOTALL)
_SENTENCE_END = re.compile(r"((?<!\b[A-Z])[.!?…][\"'”’)\]]*) (?=[\"'“‘(\[]*[^\W\da-zß-ÿа-я])|([。！？])")
_TAG = re.compile(
    r"(?is)<!--.*?(?:-->|\Z)|<(script|style|title|textarea|nav|pre|template)(?=[\s/>]).*?(?:</\1\s*>|\Z)"
    r"|<(?P<tag>/?[a-z][^\s/>]*)(?P<rest>(?:=\s*\"[^\"]*(?:\"|\Z)|=\s*'[^']*(?:'|\Z)|[^>])*+)(?:>|\Z)|<[!?/][^>]*(?:>|\Z)"
)
"""Of HTML, or what is not text. Each alternative ends at the end of the file at the latest, so time is linear; `html.parser` of some
supported versions of Python takes minutes for 64 KiB of `<a <a <a`."""
_ATTRIBUTE = re.compile(r"([^\s=/>]+)\s*(?:=\s*(?:\"([^\"]*)|'([^']*)|([^\s>]+))[\"']?)?")
_INLINE = re.compile(
    r"(?i)/?(a|abbr|b|bdo|cite|code|del|dfn|em|font|i|ins|kbd|mark|q|s|samp|small|span|strong|sub|sup|time|u|var|wbr)|img"
)


def page_files(path: Path) -> list[Path]:
    """The Markdown and HTML files below a folder, but for hidden ones and artifacts."""
    if not path.is_dir():
        return []
    files, root = files_below(path), os.path.realpath(path)
    artifacts = {file.parent for name in (MANIFEST, MARKER) for file in files.get(name, ())}
    named = [file for name, paths in files.items() if Path(name).suffix.lower() in PAGE_BYTES for file in paths]
    named = [file for file in named if artifacts.isdisjoint(file.parents) and file.is_file()]
    return sorted(file for file in named if file.resolve().is_relative_to(root))


def read_pages(root: Path, pages: Sequence[Path], passed: Callable[[], None]) -> Dataset:
    """Markdown and HTML files as documents, with their images from the folder `root`.

    The folders train, valid or val, and test are splits. Raises DataError where no file has text and such an image.
    """
    reading = DocumentFiles(Galleries(Path(os.path.realpath(root)), passed))
    for page in pages:
        path, suffix = page.relative_to(root), page.suffix.lower()
        if page.stat().st_size > PAGE_BYTES[suffix]:
            sentence = f"{page} has more than {PAGE_BYTES[suffix] >> 10:,} KiB"
            raise DataError(sentence, hint="split it, and keep images in files of their own")
        text = read_utf8(page)
        if suffix.startswith(".m"):
            text = MarkdownIt("commonmark").enable("table").render(_FRONT_MATTER.sub("", text))
        name, html = path.with_suffix("").as_posix(), parse_html(text)
        images = {image.id: image for source in html.sources if (image := _image(reading, page, source, name))}
        if html.sentences and images:
            reading.tables.add(name, SPLIT_NAMES.get(path.parts[0]), html.sentences, list(images.values()))
        else:
            reading.left["documents without text or images, which were left out"].append(name)
    if not reading.tables.sets:
        sentence = f"{root}: none of its {len(pages)} Markdown or HTML files has text and an image of this folder"
        raise DataError(sentence, hint="save the images beside the pages, and name them there by relative paths")
    return reading.dataset(reading.photos.root.name)


class Html(NamedTuple):
    """The sentences of a page and the sources of its images, in order."""

    sentences: list[str]
    sources: list[str]


def parse_html(text: str) -> Html:
    """What a page shows. No sentence goes across blocks, or lacks a letter or digit."""
    images = list[str]()

    def separator(found: re.Match[str]) -> str:
        tag, rest = found["tag"] or "", found["rest"] or ""
        sources = ("".join(values) for key, *values in _ATTRIBUTE.findall(rest) if key.lower() == "src")
        images.extend(unescape(source).strip() for source in sources if source and tag.lower() == "img")
        return "" if _INLINE.fullmatch(tag) else "\0"

    blocks = (" ".join(unescape(block).split()) for block in _TAG.sub(separator, text).split("\0"))
    lines = (line for block in blocks for line in _SENTENCE_END.sub(r"\1\2\n", block).split("\n"))
    return Html([line for line in lines if re.search(r"\w", line)], images)


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

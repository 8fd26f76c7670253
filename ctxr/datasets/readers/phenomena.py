"""The released annotation of phenomena (ImageCoDe, section 4.4, Table 2 and Figure 4), read from its YAML.

Each annotated description becomes a query whose labels are the phenomena that were annotated, and a judgment for each:
1 = present, 0 = absent. A phenomenon that was not annotated has no row: it is not in the denominator of a share.
"""

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from ctxr.datasets.readers.text_files import is_text, read_utf8, refuse_unsafe
from ctxr.errors import DataError
from ctxr.store.records import Judgment, Query, Text

CODES = {
    "con": "context",
    "t": "temporal",
    "q": "quantities",
    "s": "spatial",
    "neg": "negation",
    "v": "visibility",
    "n": "nuances",
    "cor": "coreference",
    "img": "meta",
    "col": "colour",
}
"""The file's code of each phenomenon, in the order of Table 2; colour is not published."""

PHENOMENA = tuple(CODES.values())

WORKER = "phenomena"
"""Who judged: the annotators of phenomena."""

FULL_ROWS = 200
"""So many rows from the start carry every tag; they give Table 2's plain figures."""

FURTHER = ("context", "negation", "visibility", "nuances")
FURTHER_ROWS = 1002
"""These four were annotated for so many rows; they give Table 2's underlined figures. Later rows were not annotated."""

_DEEPEST = 20
"""Levels of nesting; the layout has three, and composing many more is recursion without end."""


@dataclass(frozen=True)
class PhenomenaRow:
    """One annotated description.

    Attributes:
        row: number in the file, from 0. place: `file:line`. index: position of the target.
        tags: phenomena found. looked: those looked for; empty behind the annotated range.
    """

    row: int
    place: str
    image_set: str
    index: int
    text: str
    tags: tuple[str, ...]
    looked: tuple[str, ...]


def read_annotations(path: Path) -> list[PhenomenaRow]:
    """Every row of the file. Raises DataError naming file:line for another layout than the released one."""
    rows: list[PhenomenaRow] = []
    for set_key, inner in _pairs(path, _compose(path), "a mapping of set names"):
        name = set_key.value
        refuse_unsafe(partial(_at, path, set_key), name)
        for index_key, fields in _pairs(path, inner, f"set {name}: a mapping of target indices"):
            location = _at(path, index_key)
            where = f"{location}: set {name}, index {index_key.value!r}"
            if not (index_key.value.isascii() and index_key.value.isdigit() and len(index_key.value) < 7):
                raise DataError(f"{where} is not an index of an image", hint="indices count from 0")
            nodes = {key.value: node for key, node in _pairs(path, fields, f"{where}: description and annotation")}
            for part in ("description", "annotation"):
                if part not in nodes or not is_text(nodes[part].value):
                    raise DataError(f"{where} has no text as {part}", hint="restore the row")
            index, row, codes = int(index_key.value), len(rows), nodes["annotation"]
            found = [code.strip() for code in codes.value.split(",") if code.strip()]
            if unknown := next((code for code in found if code not in CODES), None):
                at = f"{_at(path, codes)}: set {name}, index {index_key.value}"
                raise DataError(f"{at}: unknown phenomenon code {unknown!r}", hint=f"codes are {', '.join(CODES)}")
            tags = tuple(phenomenon for code, phenomenon in CODES.items() if code in found)
            looked = PHENOMENA if row < FULL_ROWS else FURTHER if row < FURTHER_ROWS else ()
            text = nodes["description"].value
            rows.append(PhenomenaRow(row, location, name, index, text, tags, looked))
    return rows


@dataclass(frozen=True)
class ReleaseQuestions:
    """What is asked about image sets, and answered."""

    texts: list[Text] = field(default_factory=list)
    queries: list[Query] = field(default_factory=list)
    judgments: list[Judgment] = field(default_factory=list)


def label_queries(rows: Iterable[PhenomenaRow], texts: Collection[str]) -> ReleaseQuestions:
    """The rows as queries with labels about `texts`, ids of the release's, or about own ones that it lacks.

    Rows after the annotated range give nothing.
    """
    labelled = ReleaseQuestions()
    for row in rows:
        if row.looked:
            text = f"{row.image_set}/{row.index}"
            query = f"{WORKER}/{text}"
            if text not in texts:
                labelled.texts.append(Text(query, row.text, "unknown", row.row))
            labelled.queries.append(Query(query, row.image_set, (text if text in texts else query,), row.looked))
            labelled.judgments.extend(Judgment(query, tag, WORKER, float(tag in row.tags)) for tag in row.looked)
    return labelled


def _compose(path: Path) -> Any:
    """The document as nodes, which know their lines; nothing is constructed from them, whatever their tags say."""
    import yaml

    text = read_utf8(path)
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # in C, ten times as fast
    depth = 0
    try:
        for event in yaml.parse(text, Loader=loader):
            depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
            if depth > _DEEPEST:  # composing is recursive, and in C that ends the process
                line = event.start_mark.line + 1
                raise DataError(f"{path}:{line} is not YAML of phenomena: nested more than {_DEEPEST} levels deep")
        return yaml.compose(text, Loader=loader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = f":{mark.line + 1}" if mark else ""
        problem = error.problem or error.context
        raise DataError(f"{path}{line} is not YAML: {problem}", hint="restore the file, or fetch it again") from error
    except yaml.YAMLError as error:
        raise DataError(f"{path} is not YAML: {str(error).splitlines()[0]}", hint="restore the file") from error


def _pairs(path: Path, node: Any, what: str) -> list[tuple[Any, Any]]:
    """Key and value nodes of a mapping. Raises DataError for another node, a key that is not a scalar, or a key twice."""
    if node is None or getattr(node, "id", "") != "mapping":
        raise DataError(f"{path if node is None else _at(path, node)}: expected {what}", hint="restore the file")
    seen: dict[str, int] = {}
    for key, _ in node.value:
        if not is_text(key.value):
            raise DataError(f"{_at(path, key)}: expected {what}, found a key that is not text", hint="restore the file")
        if key.value in seen:
            first = f"it is already in line {seen[key.value]}"
            raise DataError(f"{_at(path, key)}: {key.value!r} appears twice: {first}", hint="delete one of them")
        seen[key.value] = key.start_mark.line + 1
    return list(node.value)


def _at(path: Path, node: Any) -> str:
    return f"{path}:{node.start_mark.line + 1}"

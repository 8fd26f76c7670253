"""What `scripts.golden --figures` compares: sets, scores, tensors, figures and tables; manifests, keys and prose may differ."""

import csv
import io
import json
import re
import tomllib
from collections.abc import Callable, Iterator, Mapping
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import numpy as np

FILES = {
    "*manifest.json": "hashes, options and versions; the tables that it lists are compared",
    "*/.ctxr": "the marker and lock of a folder",
    "*/.ctxr-cache/*": "may be deleted at any time, and is named by keys",
    "*/private/*": "keys and pseudonyms of workers",
    "*.sqlite": "the journal, whose content import-answers writes as tables",
    "*/sources/*/source.json": "the stamp of a unit; sources.jsonl has the rest",
    "*/seed[0-9]*/config.json": "the recipe of a checkpoint; its weights and scores are compared",
    "*/export-*/*.md": "the card of an export",
    "*/figures/*.svg": "drawn from figures.json",
    "*/figures/*.pdf": "drawn from figures.json",
    "*.html": "a page",
    "*.xml": "a page of a platform",
}
"""Files that are not compared, by pattern of their path, and why."""

KEYS = {
    "note": "prose", "notes": "prose", "why": "prose", "hint": "prose", "message": "prose", "sentence": "prose",
    "command": "a command line, whose options may change names",
    "settings": "options of the command", "software": "versions of packages",
    "bytes": "the size of a page, which is prose; files are compared themselves",
}  # fmt: skip
"""Keys of JSON that are not compared, and why."""

SHA256 = re.compile("[0-9a-f]{64}")
"""A hash of files that are compared themselves, or of options: all are taken for the same. Perceptual hashes are longer or shorter."""

NUMBER = re.compile(r"\d+(?:\.\d+)?")

Json = Any
"""What JSON holds."""

Arrays = dict[str, np.ndarray]


def compared(name: str, file: Path) -> bool:
    """Whether a file, by its path in the folder, holds something that must stay the same."""
    if not file.stat().st_size:
        return False  # an empty table says no more than none
    return not any(fnmatch(f"/{name}", pattern) for pattern in FILES)


def figures_of(file: Path, printed: bool = False) -> Json | Arrays | bytes:
    """What is compared of a file: rows, a document, arrays by name, the numbers in the tables of a text, else its bytes.

    Args:
        printed: whether a command printed it. Then only numbers count: its strings are names, paths and prose.
    """
    if printed:
        return _numbers(json.loads(file.read_text(encoding="utf-8")))
    read = READERS.get(file.suffix)
    return read(file.read_bytes()) if read else file.read_bytes()


def _figures(value: Json) -> Json:
    """A value without the keys that are not compared, and with all hashes alike."""
    if isinstance(value, dict):
        return {key: _figures(one) for key, one in value.items() if key not in KEYS}
    if isinstance(value, list):
        return [_figures(one) for one in value]
    return "sha256" if isinstance(value, str) and SHA256.fullmatch(value) else value


def _numbers(value: Json) -> Json:
    """A value without strings and without what holds no number; a cell of a list keeps its place."""
    if isinstance(value, dict):
        kept = {key: _numbers(one) for key, one in value.items() if key not in KEYS}
        return {key: one for key, one in kept.items() if one is not None} or None
    if isinstance(value, list):
        rows = [_numbers(one) for one in value]
        return rows if any(one is not None for one in rows) else None
    return None if isinstance(value, str) else value


def _rows(content: bytes) -> Json:
    return [_figures(json.loads(line)) for line in content.splitlines()]


def _cells(content: bytes) -> Json:
    return [_figures(list(row)) for row in csv.reader(io.StringIO(content.decode()))]


def _table_numbers(content: bytes) -> Json:
    """The numbers in each line of a table of Markdown or LaTeX: words and rulers may differ."""
    lines = [line for line in content.decode().splitlines() if line.startswith("|") or line.endswith(r"\\")]
    return [numbers for line in lines if (numbers := NUMBER.findall(line))]


def _array(content: bytes) -> Arrays:
    return {"": np.load(io.BytesIO(content), allow_pickle=False)}


def _tensors(content: bytes) -> Arrays:
    """The arrays of safetensors, as the integers that hold their bits where NumPy has no such type."""
    start = 8 + int.from_bytes(content[:8], "little")
    arrays = {}
    for name, entry in json.loads(content[8:start]).items():
        if name != "__metadata__":
            begin, end = (start + offset for offset in entry["data_offsets"])
            kind = {"F64": "f8", "F32": "f4", "F16": "f2", "BF16": "u2", "I64": "i8", "I32": "i4"}.get(
                entry["dtype"], "u1"
            )
            values = np.frombuffer(content[begin:end], kind)
            arrays[name] = values if kind == "u1" else values.reshape(entry["shape"])
    return arrays


READERS: Mapping[str, Callable[[bytes], Json | Arrays]] = {
    ".json": lambda content: _figures(json.loads(content)),
    ".toml": lambda content: _figures(tomllib.loads(content.decode())),
    ".jsonl": _rows,
    ".csv": _cells,
    ".md": _table_numbers,
    ".tex": _table_numbers,
    ".npy": _array,
    ".safetensors": _tensors,
}
"""Readers by suffix; other files are compared by their bytes."""


def has_arrays(content: Any) -> bool:
    """Whether the content of a file is arrays by name."""
    return isinstance(content, dict) and any(isinstance(one, np.ndarray) for one in content.values())


def array_differences(before: Arrays, after: Arrays) -> Iterator[str]:
    """The arrays that differ, bit by bit, and by how much."""
    for name in {**before, **after}:
        one, other = before.get(name), after.get(name)
        if one is None or other is None:
            yield f"{name}: only {'now' if one is None else 'before'}"
        elif one.dtype != other.dtype or one.shape != other.shape:
            yield f"{name}: {one.dtype} {list(one.shape)}, now {other.dtype} {list(other.shape)}".lstrip(": ")
        elif one.tobytes() != other.tobytes():
            most = np.nanmax(np.abs(one.astype(float) - other.astype(float)))
            yield f"{name}: {np.count_nonzero(one != other)} of {one.size} values, by {most:.3g} at most".lstrip(": ")

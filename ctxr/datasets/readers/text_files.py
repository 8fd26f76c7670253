"""JSON that others wrote, read strictly: UTF-8 (a BOM is forgiven), no key twice, every complaint with a line; rows of parquet."""

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path, PurePosixPath
from typing import Any, NoReturn, TypeVar

import msgspec

from ctxr.errors import CtxrError, DataError, UsageError
from ctxr.store.tables import UNREADABLE

V = TypeVar("V")


class _RepeatedKeyError(ValueError):
    """A JSON object has the key twice that is the argument."""


@dataclass(frozen=True)
class JsonFile:
    """A parsed JSON file that knows where its keys stand: `value` is what was parsed of `text`."""

    path: Path
    text: str
    value: Any

    def locate(self, *keys: str) -> str:
        """`file:line` of a key, searched after the keys around it; the bare file if the key is spelled unusually."""
        position = 0
        for key in keys:
            match = _key_pattern(key).search(self.text, position)
            if match is None:
                return str(self.path)
            position = match.end()
        return f"{self.path}:{self.text.count(chr(10), 0, position) + 1}" if keys else str(self.path)


def _key_pattern(key: str) -> re.Pattern[str]:
    spelled = {re.escape(json.dumps(key, ensure_ascii=flag)) for flag in (True, False)}
    return re.compile(f"(?:{'|'.join(spelled)})\\s*:")


def read_utf8(path: Path, hint: str = "name an existing file or folder") -> str:
    """The text of a file, without BOM. Raises UsageError with `hint` if it cannot be opened, DataError if not UTF-8."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}", hint=hint) from error
    aside = " (in a spreadsheet the format is called CSV UTF-8)" if path.suffix.lower() == ".csv" else ""
    save = f"save {path.name} as UTF-8{aside}"
    if content.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise DataError(f"{path}:1 is not UTF-8 text but UTF-16", hint=save)
    content = content.removeprefix(b"\xef\xbb\xbf")
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        byte = f"byte 0x{content[error.start]:02x}"
        raise DataError(f"{path}:{line} is not UTF-8 text: {byte}", hint=save) from error


def read_json(path: Path, missing: str = "name an existing file or folder") -> JsonFile:
    """A parsed JSON file. Raises DataError naming file:line for a fault or repeated key, UsageError with `missing`."""
    text = read_utf8(path, missing)
    try:
        value = json.loads(text, object_pairs_hook=_object, parse_constant=_no_number)
        if re.search(r"\\u[dD][89a-fA-F]", text):  # half a surrogate pair cannot be written
            json.dumps(value, ensure_ascii=False).encode()
    except json.JSONDecodeError as error:
        hint = "restore the file, or fetch it again"
        raise DataError(f"{path}:{error.lineno} is not JSON: {error.msg} (column {error.colno})", hint=hint) from error
    except RecursionError as error:
        raise DataError(f"{path} is not JSON of a dataset: brackets are nested too deeply") from error
    except _RepeatedKeyError as error:
        (key,) = error.args
        places = [match.start() for match in _key_pattern(key).finditer(text)]
        line = f":{text.count(chr(10), 0, places[1]) + 1}" if len(places) == 2 else ""
        raise DataError(f"{path}{line}: {key!r} appears twice", hint="delete one of the two") from error
    except UnicodeEncodeError as error:
        raise DataError(f"{path} holds half a surrogate pair, which is not text", hint="fetch it again") from error
    except ValueError as error:  # NaN, or an integer of thousands of digits
        raise DataError(f"{path} is not JSON of a dataset: {str(error).splitlines()[0]}") from error
    return JsonFile(path, text, value)


MOST_BYTES = 1 << 31
"""A larger JSON or YAML is not read: it would not fit into memory several times over."""


def value_starts(path: Path) -> dict[str, bytes]:
    """How the values of the JSON object in a file begin, by key; nothing of them is built. Empty for any other file."""
    status = path.stat()
    return _value_starts(path, status.st_mtime_ns, status.st_size) if status.st_size <= MOST_BYTES else {}


@lru_cache(maxsize=8)
def _value_starts(path: Path, _changed: int, _size: int) -> dict[str, bytes]:
    try:
        values = msgspec.json.decode(path.read_bytes().removeprefix(b"\xef\xbb\xbf"), type=dict[str, msgspec.Raw])
    except (msgspec.DecodeError, RecursionError):
        return {}
    # so many bytes tell what the rows of a value hold
    return {key: bytes(memoryview(value)[: 1 << 12]).lstrip() for key, value in values.items()}


def as_record(value: object, kind: type[V] | Any, where: Path | Callable[[], str]) -> V:
    """A parsed value as a record. Raises DataError at `where`, and at a path below it, for what does not fit."""
    try:
        record: V = msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        place = where() if callable(where) else where
        raise DataError(f"{place}: {error}", hint="restore the file, or fetch it again") from error
    return record


def json_object(text: str | bytes) -> dict[str, Any] | None:
    """The JSON object in a line; None if it holds none."""
    try:
        return msgspec.json.decode(text, type=dict[str, Any])
    except UNREADABLE:
        return None


def parquet_rows(path: Path, classes: dict[str, list[str]]) -> Iterator[str]:
    """Rows of a parquet file as JSON, without nested columns (pictures); `classes` gets its own. Raises CtxrError, DataError."""
    try:
        from pyarrow import parquet, types

        with parquet.ParquetFile(path) as file:
            classes |= class_names((file.schema_arrow.metadata or {}).get(b"huggingface", b"{}").decode())
            flat = [column.name for column in file.schema_arrow if not types.is_nested(column.type)]
            for batch in file.iter_batches(columns=flat):
                for row in batch.to_pylist():
                    yield msgspec.json.encode(row, enc_hook=str).decode()
    except ImportError as error:
        raise CtxrError(f"{path.name} needs the package pyarrow", hint="pip install pyarrow") from error
    except (OSError, ValueError) as error:
        raise DataError(f"{path} cannot be read as parquet", hint="fetch it again") from error


def class_names(text: str) -> dict[str, list[str]]:
    """Names of each column's classes, from the JSON in which `datasets` describes a dataset."""
    features = (info := json_object(text) or {}).get("features", info.get("info", {}).get("features", {}))
    return {name: kind["names"] for name, kind in features.items() if "names" in kind}


def is_text(value: object) -> bool:
    """Whether a value is text that can be written: half a surrogate pair, which JSON lets through, cannot."""
    return isinstance(value, str) and not re.search("[\ud800-\udfff]", value)


def refuse_unsafe(where: Callable[[], str], name: str) -> None:
    """Refuse a name of a set that could lead out of its folder or act on a terminal. Raises DataError at `where()`."""
    if not name or name in {".", ".."} or any(sign in name for sign in "/\\:") or not name.isprintable():
        what = f"{where()}: {name!r} is not a valid name of an image set"
        raise DataError(what, hint="rename it: letters, digits, - _ and . are fine")


def refuse_unsafe_path(where: str, path: str) -> None:
    """Refuse a path with a part that `refuse_unsafe` refuses, or without any."""
    for part in PurePosixPath(path).parts or ("",):
        refuse_unsafe(lambda: where, part)


def _object(pairs: list[tuple[str, object]]) -> dict[str, object]:
    members = dict(pairs)
    if len(members) < len(pairs):
        raise _RepeatedKeyError(Counter(key for key, _ in pairs).most_common(1)[0][0])
    return members


def _no_number(text: str) -> NoReturn:
    raise ValueError(f"{text} is not a JSON number")

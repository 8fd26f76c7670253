"""`scripts.golden` reports no difference between equal folders, and otherwise each file with its first difference."""

import sqlite3
from pathlib import Path

import pytest

from scripts.golden import compare


def written(folder: Path, name: str, content: bytes) -> Path:
    folder.mkdir()
    (folder / name).write_bytes(content)
    return folder


@pytest.mark.parametrize(
    ("name", "before", "after", "differences"),
    [
        ("a.json", b'{"a": {"b": [1, 2]}}', b'{"a": {"b": [1, 3]}}', ["a.json: line 1 a b [1]: 2, now 3"]),
        ("a.json", b'{"a": 1}', b'{"b": 1}', ['a.json: line 1 has: ["a"], now ["b"]']),
        ("a.jsonl", b'{"a":1}\n{"a":2}\n', b'{"a":1}\n{"a":3}\n', ["a.jsonl: line 2 a: 2, now 3"]),
        ("a.md", b"one\ntwo\n", b"one\n", ['a.md: line 2: "two", now ""']),
        ("a.npy", b"\xff\x00\x01", b"\xff\x00\x02", ["a.npy: byte 2 of 3 and 3"]),
        ("a.npy", b"\xff\x00", b"\xff", ["a.npy: byte 1 of 2 and 1"]),
        ("clock.jsonl", b"1", b"2", []),
    ],
)
def test_the_first_difference_is_named(
    name: str, before: bytes, after: bytes, differences: list[str], tmp_path: Path
) -> None:
    folders = written(tmp_path / "one", name, before), written(tmp_path / "two", name, after)
    assert compare(*folders)[1] == differences


def test_files_in_only_one_folder_are_named(tmp_path: Path) -> None:
    folders = written(tmp_path / "one", "a", b""), written(tmp_path / "two", "b", b"")
    assert compare(*folders) == (1, ["a: only before", "b: only now"])


def test_databases_are_compared_by_content(tmp_path: Path) -> None:
    for side, names in (("one", "ab"), ("two", "ba")):
        (tmp_path / side).mkdir()
        with sqlite3.connect(tmp_path / side / "a.sqlite") as database:
            database.execute("CREATE TABLE t (a, b)")
            for name in names:
                database.execute(f"CREATE INDEX i{name} ON t ({name})")
        database.close()
    assert compare(tmp_path / "one", tmp_path / "two") == (1, [])

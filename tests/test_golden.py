"""`scripts.golden` reports no difference between equal folders, and otherwise each file with its first difference."""

import io
import json
import sqlite3
from pathlib import Path
from urllib.request import Request, urlopen

import numpy as np
import pytest
from safetensors.numpy import save

from scripts.golden import compare, main, model_stub


def written(folder: Path, name: str, content: bytes) -> Path:
    (folder / name).parent.mkdir(parents=True)
    (folder / name).write_bytes(content)
    return folder


def npy(*values: float) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, np.array(values, np.float32))
    return buffer.getvalue()


def sqlite() -> bytes:
    with sqlite3.connect(":memory:") as database:
        database.execute("CREATE TABLE t (a)")
        return database.serialize()


@pytest.mark.parametrize(
    ("name", "before", "after", "differences"),
    [
        ("a.json", b'{"a": {"b": [1, 2]}}', b'{"a": {"b": [1, 3]}}', ["a.json: line 1 a b [1]: 2, now 3"]),
        ("a.json", b'{"a": 1}', b'{"b": 1}', ['a.json: line 1 has: ["a"], now ["b"]']),
        ("a.json", b'{"a": [1]}', b'{"a": [1, 2]}', ["a.json: line 1 a length: 1, now 2"]),
        ("a.jsonl", b'{"a":1}\n{"a":2}\n', b'{"a":1}\n{"a":3}\n', ["a.jsonl: line 2 a: 2, now 3"]),
        ("a.md", b"one\ntwo\n", b"one\n", ['a.md: line 2: "two", now ""']),
        ("a.npy", b"\xff\x00\x01", b"\xff\x00\x02", ["a.npy: byte 2 of 3 and 3"]),
        ("a.npy", b"\xff\x00", b"\xff", ["a.npy: byte 1 of 2 and 1"]),
        ("history.jsonl", b"1", b"2", []),
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


HASHES = b"%064d" % 1, b"%064d" % 2
ONE, TWO = np.array([1.0, 2.0], np.float32), np.array([1.0, 2.5], np.float32)


@pytest.mark.parametrize(
    ("name", "before", "after"),
    [
        ("work/sets/manifest.json", b'{"counts": 1}', b'{"counts": 2}'),
        ("work/sets/.manifest.json", b"{}", b'{"a": 1}'),
        ("work/sets/.ctxr", b"", b"a"),
        ("work/sets/sources/a/source.json", b'{"stamp": 1}', b'{"stamp": 2}'),
        ("work/.ctxr-cache/encoded/a.npy", npy(1), npy(2)),
        ("work/crowd/answers.sqlite", b"", sqlite()),
        ("work/crowd/private/key", b"a", b"b"),
        ("work/runs/a/seed0/config.json", b'{"lr": 1}', b'{"rate": 1}'),
        ("work/export-hf/README.md", b"| 1 |", b"| 2 |"),
        ("work/report.html", b"a", b"b"),
        ("work/results/results.md", b"### Best\n| run | 12.5 |\n", b"### Most\n| model | 12.5 |\n\n3 notes\n"),
        ("work/results/results.tex", b"run & 12.5 \\\\\n", b"\\toprule\nmodel & 12.5 \\\\\n"),
        ("work/results/figures.json", b'{"value": 1, "notes": ["a"]}', b'{"value": 1}'),
        ("work/revised/rounds.jsonl", b'{"decides":"%b"}' % HASHES[0], b'{"decides":"%b"}' % HASHES[1]),
        ("work/runs/a/seed0/head.safetensors", save({"a": ONE}, {"format": "pt"}), save({"a": ONE})),
        ("printed/01-plan.json", b'{"out": "a", "rows": ["x", 2]}', b'{"folder": "b", "rows": ["y", 2]}'),
    ],
)
def test_manifests_keys_and_prose_are_no_figures(name: str, before: bytes, after: bytes, tmp_path: Path) -> None:
    folders = written(tmp_path / "one", name, before), written(tmp_path / "two", name, after)
    assert [bool(compare(*folders, figures)[1]) for figures in (False, True)] == [True, False]


def test_files_without_figures_may_come_and_go(tmp_path: Path) -> None:
    one, two = [written(tmp_path / side, f"a/{side}/manifest.json", b"") for side in ("one", "two")]
    (one / "a" / "sets.jsonl").write_text('{"id":"a"}')
    (one / "a" / "failures.jsonl").touch()
    assert compare(one, two, figures=True) == (1, ["a/sets.jsonl: only before"])


@pytest.mark.parametrize(
    ("name", "before", "after", "difference"),
    [
        ("a/sets.jsonl", b'{"id":"a"}\n', b'{"id":"a"}\n{"id":"b"}\n', "length: 1, now 2"),
        ("a/scores.jsonl", b'{"v":1}\n{"v":2}\n', b'{"v":3}\n{"v":3}\n', "[0] v: 1, now 3 (and 1 more)"),
        ("a/figures.json", b'{"a": [{"value": 1}]}', b'{"a": [{"value": 2}]}', "a [0] value: 1, now 2"),
        ("a/ledger.jsonl", b'{"phash":"%b"}' % (b"0" * 256), b'{"phash":"%b"}' % (b"1" * 256), "[0] phash: "),
        ("a/a.csv", b"a,1\n", b"a,2\n", '[0] [1]: "1", now "2"'),
        ("a/a.toml", b"a = 1\n", b"a = 2\n", "a: 1, now 2"),
        ("a/results.md", b"| a | 12.5 |\n", b"| a | 12.6 |\n", '[0] [0]: "12.5", now "12.6"'),
        ("a/results.tex", b"a & 12.5 \\\\\n", b"a & 12.6 \\\\\n", '[0] [0]: "12.5", now "12.6"'),
        ("a/exact.npy", npy(1, 2), npy(1, 2.5), "1 of 2 values, by 0.5 at most"),
        ("a/exact.npy", npy(1), npy(1, 2), "float32 [1], now float32 [2]"),
        ("a/head.safetensors", save({"a": ONE}), save({"a": TWO}), "a: 1 of 2 values, by 0.5 at most"),
        ("a/head.safetensors", save({"a": ONE}), save({"b": ONE}), "a: only before (and 1 more)"),
        ("a/img1.jpg", b"\xff\x00", b"\xff\x01", "byte 1 of 2 and 2"),
        ("printed/00-plan.json", b'{"rows": ["a", 2]}', b'{"rows": ["a", 3]}', "rows [1]: 2, now 3"),
    ],
)
def test_figures_are_compared_by_value(name: str, before: bytes, after: bytes, difference: str, tmp_path: Path) -> None:
    folders = written(tmp_path / "one", name, before), written(tmp_path / "two", name, after)
    (line,) = compare(*folders, figures=True)[1]
    assert line.startswith(f"{name}: {difference}")


def test_stub_answers_alike() -> None:
    with model_stub() as url:
        answers = []
        for asked in ("a", "a", "b"):
            body = json.dumps({"messages": [{"content": asked}]}).encode()
            with urlopen(Request(f"{url}/chat/completions", body)) as reply:  # noqa: S310  # this machine
                answers.append(json.load(reply)["choices"][0]["message"]["content"])
    assert answers[0] == answers[1] != answers[2]
    assert all(1 <= int(one) <= 10 for one in answers)


@pytest.mark.parametrize("arguments", [[], ["HEAD", "--before", "."]])
def test_either_a_commit_or_a_folder_is_named(arguments: list[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(arguments)

"""Sources that URLs name: the same as those of a folder, copied once, kept within a limit, and copied again when they are needed."""

import errno
import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import replace
from fcntl import LOCK_EX, flock
from functools import partial
from http.server import BaseHTTPRequestHandler, SimpleHTTPRequestHandler, ThreadingHTTPServer
from importlib import import_module
from pathlib import Path
from typing import Any

import fsspec
import pytest

from ctxr.engine.progress import Progress
from ctxr.errors import CtxrError, UsageError
from ctxr.media import sources
from ctxr.media.sources import ARTIFACT, LIMIT, LONG, InputSource, fetch, find_sources, origin_of
from ctxr.media.video import VideoError, fetch_video
from ctxr.store.atomic import DRY_RUN
from ctxr.store.paths import CACHE
from ctxr.store.remote import PAUSES, RemoteFile, Store
from tests.stores import memory, put, s3_server

FILES = ("a.mp4", "deep/b.webm", "trip/1.jpg", "trip/2.JPG", "notes.txt", ".hidden.mp4", ".secret/c.mp4")


@pytest.fixture(autouse=True)
def empty_store(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Nothing is in memory, and nobody waits."""
    monkeypatch.setattr("ctxr.store.remote.PAUSES", (0.0,) * len(PAUSES))
    monkeypatch.setattr("ctxr.media.sources._ADDED", {})
    store = fsspec.filesystem("memory")
    yield store
    store.rm("/", recursive=True)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder of files, the size of each the length of its name."""
    for name in FILES:
        path = tmp_path / "clips" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)
    return tmp_path / "clips"


@pytest.fixture
def copies(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The URLs that were copied, in order."""
    copied, copy = list[str](), Store.copy

    def counted(self: Store, *given: Any) -> None:
        copied.append(self.url)
        copy(self, *given)

    monkeypatch.setattr(Store, "copy", counted)
    return copied


class Heard(Progress):
    """Keeps what it was told."""

    def __init__(self) -> None:
        self.said = list[str]()

    def note(self, text: str) -> None:
        self.said.append(text)

    def warn(self, text: str) -> None:
        self.said.append(text)


def placeless(sources: tuple[InputSource, ...]) -> list[object]:
    """Sources without the folder that they lie in."""
    return [
        (replace(one, path=Path(one.path.name), photos=tuple(Path(photo.name) for photo in one.photos)))
        for one in sources
    ]


@pytest.mark.parametrize("store", ["memory", "s3"])
def test_a_url_gives_the_sources_of_the_folder_and_the_second_time_nothing_is_copied(
    store: str, folder: Path, tmp_path: Path, copies: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    if store == "s3":
        with s3_server(monkeypatch):
            put(fsspec.filesystem("s3"), folder, "s3://clips/clips")
            compare("s3://clips/clips", folder, tmp_path, copies)
    else:
        compare(memory(folder, "memory://bucket/clips"), folder, tmp_path, copies)


def compare(url: str, folder: Path, project: Path, copies: list[str]) -> None:
    here = find_sources([str(folder)])
    there = find_sources([f"{url}/"], project=project)
    assert placeless(there.found) == placeless(here.found)
    assert len(there.found) == 3
    assert [why for _, why in there.left_out] == [why for _, why in here.left_out]
    assert sorted(name.rpartition("/")[2] for name in copies) == ["1.jpg", "2.JPG", "a.mp4", "b.webm"]
    fsspec.filesystem(url.partition(":")[0]).pipe_file(f"{url}/a.mp4", b"other")
    again = find_sources([url], project=project)
    assert len(copies) == 5
    assert copies[-1].endswith("/a.mp4")
    assert [one.name for one in again.found if one not in there.found] == ["a"]
    by_pattern = find_sources([f"{url}/*.mp4"], project=project)
    by_name = find_sources([f"{url}/a.mp4"], project=project)
    assert {one.sha256 for one in (*by_pattern.found, *by_name.found)} == {again.found[0].sha256}


def test_a_file_url_is_a_path_of_this_machine(folder: Path) -> None:
    assert find_sources([f"file://{folder}"]) == find_sources([str(folder)])


def test_the_cache_keeps_what_was_used_last_within_its_limit_and_the_rest_is_copied_again(
    tmp_path: Path, copies: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    store = fsspec.filesystem("memory")
    for number in range(40):
        store.pipe_file(f"/b/{number}.mp4", bytes([number]) * 1000)
    monkeypatch.setenv(LIMIT, "1e-5")  # ten of them
    monkeypatch.setattr("ctxr.media.sources.GRACE", 0)
    found = find_sources(["memory://b"], project=tmp_path).found
    assert {one.bytes for one in found} == {1000}

    def kept() -> list[Path]:
        files = [one.path for one in found if one.path.is_file()]
        assert sum(file.stat().st_size for file in files) <= 10_000
        return files

    first = kept()
    assert len(first) > 5
    for file in first:
        os.utime(file.parent / ".notes" / file.name, ns=(0, 0))
    used, number = first[0], len(copies)
    fetch(used)
    for one in [one for one in found if one.path not in first][:7]:
        assert fetch(one.path).read_bytes() == bytes([int(one.name)]) * 1000
    assert used in kept()
    assert len(copies) == number + 7
    assert find_sources(["memory://b"], project=tmp_path).found == found
    assert len(copies) == number + 7
    monkeypatch.setenv(LIMIT, "much")
    with pytest.raises(UsageError, match="much"):
        fetch(next(one.path for one in found if not one.path.is_file()))


def test_a_file_that_goes_or_changes_after_it_was_listed_fails_alone(
    folder: Path, tmp_path: Path, empty_store: Any
) -> None:
    url = memory(folder, "memory://bucket/clips")
    found = {one.name: one for one in find_sources([url], project=tmp_path).found}
    for one in found.values():
        for file in one.photos or (one.path,):
            file.unlink()
    empty_store.rm("/bucket/clips/a.mp4")
    empty_store.pipe_file("/bucket/clips/deep/b.webm", b"other")
    for name, why in (("a", "gone"), ("b", "changed")) * 2:
        with pytest.raises(VideoError, match=f"clips/.*{why}") as caught:
            fetch_video(found[name].path)
        assert caught.value.reason == "no_such_file"
        assert caught.value.hint
    assert fetch(found["trip"].photos[0]).read_text() == "trip/1.jpg"
    listed = find_sources([url], project=tmp_path)
    assert [one.name for one in listed.found] == ["b", "trip"]


def test_a_file_that_is_gone_when_it_is_copied_is_a_source_that_fails(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url, copy = memory(folder, "memory://bucket/clips"), Store.copy

    def late(self: Store, *given: Any) -> None:
        if self.url.endswith(("a.mp4", "1.jpg")):
            self.fs.store.pop(self.path, None)
        copy(self, *given)

    monkeypatch.setattr(Store, "copy", late)
    search = find_sources([url], project=tmp_path)
    assert [(one.name, one.bytes) for one in search.found] == [("a", 0), ("b", 11), ("trip", 10)]
    assert "no longer" in dict(search.left_out)["memory:///bucket/clips/trip/1.jpg"]
    with pytest.raises(VideoError, match="bucket/clips/a"):
        fetch_video(search.found[0].path)


def test_a_dry_run_copies_nothing_and_knows_what_was_copied_before(
    folder: Path, tmp_path: Path, copies: list[str]
) -> None:
    url, heard = memory(folder, "memory://bucket/clips"), Heard()

    def look() -> tuple[InputSource, ...]:
        before = DRY_RUN.set(True)
        try:
            return find_sources([url], heard, tmp_path).found
        finally:
            DRY_RUN.reset(before)

    listed = look()
    assert not (tmp_path / CACHE).exists()
    assert copies == []
    assert "4 files" in heard.said.pop()
    found = find_sources([url], project=tmp_path).found

    def outlines(sources: tuple[InputSource, ...]) -> list[object]:
        return [(one.name, one.kind, one.path, one.bytes, one.photos) for one in sources]

    assert outlines(listed) == outlines(found)
    assert not {one.sha256 for one in listed} & {one.sha256 for one in found}
    assert look() == found
    assert len(copies) == 4
    assert heard.said == []
    (folder / "new.mp4").write_text("new")
    put(fsspec.filesystem("memory"), folder, url)
    fsspec.filesystem("memory").pipe_file(f"{url}/a.mp4", b"other")
    again = {one.name: one.sha256 for one in look()}
    assert again.keys() == {"a", "b", "new", "trip"}
    assert len(copies) == 4


def test_a_dry_run_takes_a_file_without_a_stamp_for_the_one_that_was_copied(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ctxr.store.remote._STAMPS", ())
    url, heard = memory(folder, "memory://bucket/clips"), Heard()
    found = find_sources([url], project=tmp_path).found
    before = DRY_RUN.set(True)
    try:
        assert find_sources([url], heard, tmp_path).found == found
    finally:
        DRY_RUN.reset(before)
    assert heard.said == []


def test_a_run_that_waits_for_the_copy_of_another_ends_soon_after_it_is_told_to(tmp_path: Path) -> None:
    file, stopping = tmp_path / "id" / "clips" / "a.mp4", threading.Event()
    lock = file.parent / sources.LOCKS / file.name
    lock.parent.mkdir(parents=True)
    stopping.set()
    with lock.open("w") as held:
        flock(held, LOCK_EX)
        with pytest.raises(CtxrError, match="stopped"):
            sources._copied((file, RemoteFile("memory://b/a.mp4", "", 1, "1")), stopping=stopping)


def test_footage_larger_than_the_cache_is_told_with_the_size_that_holds_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, heard = fsspec.filesystem("memory"), Heard()
    store.pipe_file("/big/a.mp4", bytes(3_000_000))
    monkeypatch.setenv(LIMIT, "0.0031")  # of which 0.95 stay filled
    find_sources(["memory://big"], heard, tmp_path)
    assert "0.003 GB" in heard.said[0]
    assert f"{LIMIT}=1 " in heard.said.pop()
    monkeypatch.setenv(LIMIT, "0.0032")
    find_sources(["memory://big"], heard, tmp_path)
    assert heard.said == []


def test_runs_that_begin_at_once_copy_each_file_once_between_them(
    tmp_path: Path, copies: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    store, files, together = fsspec.filesystem("memory"), Store.files, threading.Barrier(3, timeout=60)
    for number in range(12):
        store.pipe_file(f"/b/{number}.mp4", bytes([number]) * 1000)

    def listed(self: Store) -> list[RemoteFile]:
        found = files(self)
        together.wait()
        return found

    monkeypatch.setattr(Store, "files", listed)
    with ThreadPoolExecutor(3) as pool:  # locks of files exclude threads as they do processes
        first, *others = pool.map(lambda _: find_sources(["memory://b"], project=tmp_path).found, range(3))
    assert others == [first, first]
    assert {one.bytes for one in first} == {1000}
    assert sorted(copies) == sorted(f"memory:///b/{number}.mp4" for number in range(12))


def test_hostile_names_stay_in_the_cache(tmp_path: Path, empty_store: Any) -> None:
    keys = ["../up.mp4", "..//../x/..", "a\0b.mp4", "x" * 300 + ".mp4", "ok::memory:/a.mp4", "sub/.ctxr", "sub/own.mp4"]
    for key in (*keys, "deep/../p.jpg", "12:30 \\ [é].mp4"):
        empty_store.pipe_file(f"/b/{key}", key.encode())
    search = find_sources(["memory://b"], project=tmp_path)
    cache = (tmp_path / CACHE).resolve()
    for one in search.found:
        for file in one.photos or (one.path,):
            assert file.resolve() == file
            assert file.is_relative_to(cache)
            assert origin_of(file)
    assert {one.path.name for one in search.found} >= {"a.mp4", "12:30 \\ [é].mp4"}
    assert not [one for one in search.found if one.path.name in ("own.mp4", "up.mp4")]
    (typed,) = find_sources(["memory://b/../up.mp4"], project=tmp_path).found
    assert typed.path.resolve().is_relative_to(cache)
    reasons = [why for _, why in search.left_out]
    assert (reasons.count(LONG), reasons.count(ARTIFACT)) == (2, 1)


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("ftp://host/a.mp4", "ftp://"),
        ("memory://nothing/here", "nothing/here names no"),
        ("https://host/clips/?key=secret", "https://host/clips/ is"),
        ("memory://made", "memory://made is an"),
    ],
)
def test_what_cannot_be_listed_is_refused_in_one_sentence(url: str, why: str, empty_store: Any) -> None:
    empty_store.pipe_file("/made/.ctxr", b"")
    with pytest.raises(UsageError, match=re.escape(why)) as caught:
        find_sources([url])
    assert caught.value.hint
    assert "secret" not in caught.value.message


def test_a_package_that_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "gcsfs", None)
    with pytest.raises(UsageError, match="gcsfs") as caught:
        find_sources(["gs://bucket/clips"])
    assert caught.value.hint == "pip install gcsfs"


class NoCredentialsError(Exception):
    """As botocore calls it."""


@pytest.mark.parametrize(
    ("error", "why", "hint"),
    [
        (OSError(errno.EBUSY, "Please reduce your request rate"), "busy .*reduce", "again later"),
        (TimeoutError("no answer"), "busy .*no answer", "again later"),
        (NoCredentialsError("Unable to locate credentials"), "Unable to locate", "who may read"),
        (PermissionError("Forbidden"), "Forbidden", "who may read"),
        (ValueError("Invalid bucket name"), "Invalid bucket", "address"),
        (OSError(errno.ENOSPC, "No space left on device"), "disk is full", "free some space"),
    ],
)
def test_each_trouble_of_a_store_is_one_sentence(
    error: Exception, why: str, hint: str, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url, tries = memory(folder, "memory://bucket/clips"), list[str]()

    def fail(_: object, path: str, *__: object, **___: object) -> None:
        tries.append(path)
        raise error

    monkeypatch.setattr("fsspec.implementations.memory.MemoryFileSystem.get_file", fail)
    with pytest.raises(CtxrError, match=why) as caught:
        find_sources([f"{url}/a.mp4"], project=tmp_path)
    assert hint in caught.value.hint
    assert len(tries) == (1 + len(PAUSES) if hint == "again later" else 1)


def test_a_server_that_throttles_is_asked_again(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with s3_server(monkeypatch) as server:
        put(fsspec.filesystem("s3"), folder, "s3://clips/clips")
        server.busy = 8
        found = find_sources(["s3://clips/clips"], project=tmp_path).found
        assert placeless(found) == placeless(find_sources([str(folder)]).found)
        server.busy = 10**6
        with pytest.raises(CtxrError, match=r"s3://clips/clips: .* busy .*SlowDown"):
            find_sources(["s3://clips/clips"], project=tmp_path)
        server.busy = 0
        with pytest.raises(UsageError, match="s3://other names no"):
            find_sources(["s3://other"], project=tmp_path)
        monkeypatch.delenv("AWS_ACCESS_KEY_ID")
        fsspec.get_filesystem_class("s3").clear_instance_cache()
        with pytest.raises(CtxrError, match="s3://clips/clips cannot") as caught:
            find_sources(["s3://clips/clips"], project=tmp_path)
        assert "AWS_ACCESS_KEY_ID" in caught.value.hint


def test_a_file_of_a_folder_is_not_of_a_url(folder: Path) -> None:
    assert origin_of(folder / "a.mp4") is None
    assert fetch(folder / "none.mp4") == folder / "none.mp4"


def test_a_web_address_names_one_file(folder: Path, tmp_path: Path, copies: list[str]) -> None:
    pytest.importorskip("aiohttp", reason="aiohttp is not installed: make peers")
    serve = partial(SimpleHTTPRequestHandler, directory=str(folder))
    with ThreadingHTTPServer(("127.0.0.1", 0), serve) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_port}"
        typed = [f"{url}/a.mp4?key=secret", f"{url}/trip/1.jpg", f"{url}/trip/%32.JPG"]
        there = find_sources(typed, project=tmp_path).found
        here = find_sources([str(folder / name) for name in ("a.mp4", "trip/1.jpg", "trip/2.JPG")]).found
        assert placeless(there) == placeless(here)
        find_sources(typed, project=tmp_path)
        assert len(copies) == 3
        for wrong, why in (("none.mp4", "names no"), ("trip/", "the web")):
            with pytest.raises(UsageError, match=why):
                find_sources([f"{url}/{wrong}"], project=tmp_path)
        server.shutdown()
    with pytest.raises(CtxrError, match="is busy") as caught:
        find_sources([f"{url}/a.mp4?key=secret"], project=tmp_path)
    assert "secret" not in caught.value.message


PIECE, PIECES = b"x" * 1000, 8


@contextmanager
def slow_server(after: Callable[[int], bool | None], wait: float) -> Iterator[tuple[str, list[str]]]:
    """The address of a file of `PIECES`, between which the server waits so many seconds, and the requests for it; where `after` the number
    of a piece is true, the server ends the connection."""
    gets = list[str]()
    pytest.importorskip("aiohttp", reason="aiohttp is not installed: make peers")

    class Slow(BaseHTTPRequestHandler):
        def do_HEAD(self) -> None:
            self.send_response(200)
            self.send_header("Content-Length", str(len(PIECE) * PIECES))
            self.end_headers()

        def do_GET(self) -> None:
            gets.append(self.path)
            self.do_HEAD()
            with suppress(OSError):  # the client ended it
                for number in range(PIECES):
                    self.wfile.write(PIECE)
                    if after(number):
                        break
                    time.sleep(wait)

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Slow) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/a.mp4", gets
        server.shutdown()


def test_a_long_download_is_not_cut_off_and_a_silent_one_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with slow_server(lambda _: None, 0.1) as (url, gets):
        aiohttp = import_module("aiohttp")
        monkeypatch.setattr("aiohttp.client.DEFAULT_TIMEOUT", aiohttp.ClientTimeout(total=0.3))
        (found,) = find_sources([url], project=tmp_path).found
        assert (found.bytes, len(gets)) == (len(PIECE) * PIECES, 1)
        monkeypatch.setattr("ctxr.store.remote.SILENCE", 0.05)
        with pytest.raises(CtxrError, match="does not answer"):
            Store(url).copy(tmp_path / "half")
    assert len(gets) == 2 + len(PAUSES)


def test_a_download_that_breaks_off_begins_again(tmp_path: Path) -> None:
    breaks = [True, True]
    with slow_server(lambda number: number == 3 and bool(breaks and breaks.pop()), 0) as (url, gets):
        Store(url).copy(tmp_path / "whole")
        assert (tmp_path / "whole").read_bytes() == PIECE * PIECES
        assert len(gets) == 3
        breaks[:] = [True] * (1 + len(PAUSES))
        with pytest.raises(CtxrError, match="not completed") as caught:
            Store(url).copy(tmp_path / "half")
    assert "again later" in caught.value.hint


def test_a_download_ends_soon_after_it_is_told_to(tmp_path: Path) -> None:
    stopping, sent = threading.Event(), list[int]()

    def after(number: int) -> None:
        sent.append(number)
        stopping.set()

    with slow_server(after, 0.1) as (url, _), pytest.raises(CtxrError, match="stopped"):
        Store(url, stopping).copy(tmp_path / "half")
    assert len(sent) < PIECES - 1


def test_without_a_url_nothing_of_it_is_imported(folder: Path) -> None:
    code = (
        "import sys, ctxr.cli.app, ctxr.pipelines.sharing.config, ctxr.media.video; from ctxr.media.sources import find_sources;"
        f"find_sources([{str(folder)!r}]); print({{'fsspec', 'aiohttp', 's3fs'}} & {{*sys.modules}})"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"

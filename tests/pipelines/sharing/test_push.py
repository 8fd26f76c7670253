"""`ctxr push`: what is there is not sent again, and a reader never sees half an artifact, whenever the run is killed."""

import errno
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import fsspec
import pytest

from ctxr.errors import CtxrError, DataError, DryRun, UnfinishedError, UsageError
from ctxr.pipelines.sharing import pull, push
from ctxr.pipelines.sharing.config import Pull, Push, TransferReport
from ctxr.store.artifacts import MANIFEST, MARKER, Content, Parent, finish, open_artifact
from ctxr.store.atomic import DRY_RUN
from ctxr.store.remote import OBJECTS, NotThereError, Store
from tests.pipelines.curation.test_build_sets import build, same_tree
from tests.pipelines.world_dataset import write_world_dataset
from tests.stores import s3_server


@pytest.fixture(autouse=True)
def empty_store() -> Iterator[Any]:
    store = fsspec.filesystem("memory")
    yield store
    store.rm("/", recursive=True)


def drawn(folder: Path, sets: int = 2) -> Path:
    """A dataset in a folder that is marked as one of ctxr."""
    (write_world_dataset(folder, sets) / MARKER).touch()
    return folder


def send(artifact: Path, url: str, **options: Any) -> TransferReport:
    return push.run(Push(places=(str(artifact), url), **options))


def fetch(url: str, out: Path, **options: Any) -> TransferReport:
    return pull.run(Pull(places=(url, str(out)), **options))


@pytest.mark.parametrize(
    ("kind", "store"), [("sets", "memory"), ("sets", "file"), ("dataset", "memory"), ("dataset", "s3")]
)
def test_what_is_pulled_is_what_was_pushed_and_the_second_time_nothing_is_sent(
    kind: str, store: str, built: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    artifact = built if kind == "sets" else drawn(tmp_path / "dataset")
    if store == "s3":
        with s3_server(monkeypatch) as server:
            go_round(artifact, f"s3://clips/{kind}", tmp_path)
            first = len(server.requests)
            send(artifact, f"s3://clips/{kind}")
            assert not [line for line in server.requests[first:] if line.startswith(("PUT", "POST"))]
    else:
        go_round(artifact, "memory://bucket/x" if store == "memory" else f"file://{tmp_path}/bucket", tmp_path)


def go_round(artifact: Path, url: str, tmp_path: Path) -> None:
    sent = send(artifact, url)
    assert sent.copied > 10
    assert send(artifact, url).copied == 0
    got = fetch(f"{url}/", tmp_path / "new" / "copy")
    assert (got.kind, got.files, got.copied, got.bytes) == (sent.kind, sent.files, sent.copied, sent.bytes)
    assert same_tree(artifact, tmp_path / "new" / "copy")
    assert fetch(url, tmp_path / "new" / "copy").copied == 0


def test_only_what_is_new_is_sent_and_what_was_there_stays_whole(
    footage: Path, built: Path, tmp_path: Path, empty_store: Any
) -> None:
    url, sets = "memory://bucket/sets", shutil.copytree(built, tmp_path / "sets")
    first = send(built, url)
    build(footage, sets, sources=(str(footage / "videos" / "clip0.mp4"),), yes=True)
    assert 0 < send(sets, url).copied < first.copied
    fetch(url, tmp_path / "copy")
    assert open_artifact(tmp_path / "copy").sha256 == open_artifact(sets).sha256
    assert len(empty_store.ls(f"/bucket/sets/{OBJECTS}")) > first.copied
    half = empty_store.ls(f"/bucket/sets/{OBJECTS}", detail=False)[0]
    empty_store.pipe_file(half, b"")  # as a killed process leaves it in a folder
    assert send(built, url).copied + send(sets, url).copied == 1


def test_a_changed_file_a_link_and_half_an_artifact_are_not_sent(built: Path, tmp_path: Path) -> None:
    url, sets = "memory://bucket/sets", shutil.copytree(built, tmp_path / "sets")
    picture = next((sets / "images").rglob("*.jpg"))
    content = picture.read_bytes()
    picture.write_bytes(b"other")
    with pytest.raises(DataError, match=picture.name):
        send(sets, url)
    picture.unlink()
    (tmp_path / "outside.jpg").write_bytes(content)
    picture.symlink_to(tmp_path / "outside.jpg")
    with pytest.raises(DataError, match=picture.name):
        send(sets, url)
    with pytest.raises(UnfinishedError, match="holds no artifact"):
        fetch(url, tmp_path / "copy")
    (sets / MANIFEST).unlink()
    with pytest.raises(UnfinishedError, match=str(sets)):
        send(sets, url)


@pytest.mark.parametrize(
    ("places", "why"),
    [
        (("sets",), "a URL"),
        (("memory://a", "memory://b"), "a URL"),
        (("sets", "there"), "a URL"),
        (("sets", "hf://a/b"), "hf://"),
    ],
)
def test_a_wrong_place_is_refused(places: tuple[str, ...], why: str, built: Path) -> None:
    with pytest.raises(UsageError, match=why) as caught:
        push.run(Push(places=tuple(str(built) if place == "sets" else place for place in places)))
    assert caught.value.hint


def test_an_artifact_of_another_kind_is_replaced_only_with_yes(built: Path, tmp_path: Path) -> None:
    url, sets = "memory://bucket/x", open_artifact(built)
    dataset = write_world_dataset(tmp_path / "dataset")
    parent = Parent("sets", sets.manifest.kind, sets.sha256)
    content = Content(list(open_artifact(dataset).manifest.files), {}, {})
    finish(dataset, kind="dataset", verb="test", config={}, parents=[parent], content=content)
    send(built, url)
    with pytest.raises(UsageError, match="holds no dataset"):
        send(dataset, url)
    send(dataset, url, yes=True)
    assert fetch(url, tmp_path / "copy").kind == "dataset"
    assert sets.manifest.kind.encode() in fsspec.filesystem("memory").cat_file(f"/bucket/x/{MANIFEST}")  # its parent
    with pytest.raises(UsageError, match=f"holds no {sets.manifest.kind}"):
        send(built, url)


@pytest.mark.parametrize("url", ["file:///proc/nothing/sets", "s3://no-such-bucket/sets"])
def test_a_place_that_cannot_be_written_is_called_so(url: str, built: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    served = s3_server(monkeypatch) if url.startswith("s3") else nullcontext()
    with served, pytest.raises(CtxrError, match=f"^{url} cannot be written") as caught:
        send(built, url)
    assert not isinstance(caught.value, NotThereError)


def test_a_dry_run_sends_and_writes_nothing(built: Path, tmp_path: Path, empty_store: Any) -> None:
    url, before = "memory://bucket/x", DRY_RUN.set(True)
    try:
        with pytest.raises(DryRun) as caught:
            send(built, url)
        assert caught.value.plan["files"] > 10  # type: ignore[operator]
        assert empty_store.store == {}
        DRY_RUN.reset(before)
        send(built, url)
        before = DRY_RUN.set(True)
        with pytest.raises(DryRun):
            fetch(url, tmp_path / "copy")
        assert not (tmp_path / "copy").exists()
    finally:
        DRY_RUN.reset(before)


def put_to_the_proof(kills: int, tmp_path: Path, environment: pytest.MonkeyPatch) -> None:
    """Pushes of a later artifact above an earlier one, killed at random moments; each time a reader sees the one or the other."""
    earlier, later = (drawn(tmp_path / f"made{sets}", sets) for sets in (1, 3))
    words = [sys.executable, "-m", "ctxr", "push", str(later), "s3://clips/sets", "-w", str(tmp_path / "work")]
    shas = {one: open_artifact(one).sha256 for one in (earlier, later)}
    with s3_server(environment) as server:
        rng, killed, seen, tries, most = random.Random(0), 0, set[Path](), 0, len([*later.rglob("*.*")])
        while killed < kills and tries < 3 * kills:
            tries += 1
            shutil.rmtree(tmp_path / "copy", ignore_errors=True)
            fsspec.filesystem("s3").rm("s3://clips/sets", recursive=True) if tries > 1 else None
            send(earlier, "s3://clips/sets")
            server.requests.clear()
            moment = rng.randrange(1, most)  # requests that it gets through, because only these change the bucket
            process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            while process.poll() is None and len(server.requests) < moment:
                time.sleep(0.001)
            process.send_signal(signal.SIGKILL)
            killed += process.wait() == -signal.SIGKILL
            fetch("s3://clips/sets", tmp_path / "copy")
            found = next(one for one in shas if open_artifact(tmp_path / "copy").sha256 == shas[one])
            assert same_tree(found, tmp_path / "copy")
            seen.add(found)
            server.requests.clear()
            send(later, "s3://clips/sets")
            fetch("s3://clips/sets", tmp_path / "copy", yes=True)
            assert open_artifact(tmp_path / "copy").sha256 == shas[later]
        assert killed == kills
        assert earlier in seen


@pytest.mark.prove
def test_a_push_that_is_killed_shows_no_half_artifact_and_is_resumed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_to_the_proof(3, tmp_path, monkeypatch)


@pytest.mark.prove
def test_twenty_kills_of_a_push_show_no_half_artifact(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put_to_the_proof(20, tmp_path, monkeypatch)


def test_an_interrupted_push_sends_the_rest(built: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    url, copy, sent = "memory://bucket/x", Store.send, list[str]()

    def interrupted(self: Store, file: Path, name: str) -> None:
        if len(sent) >= 12:
            raise KeyboardInterrupt
        copy(self, file, name)
        sent.append(name)

    monkeypatch.setattr(Store, "send", interrupted)
    with pytest.raises(KeyboardInterrupt):
        send(built, url)
    monkeypatch.setattr(Store, "send", copy)
    report = send(built, url)
    assert report.copied == len({*fsspec.filesystem("memory").ls(f"/bucket/x/{OBJECTS}", detail=False)}) - len(sent)


def test_nothing_is_pushed_over_an_artifact_in_use(built: Path, tmp_path: Path) -> None:
    shutil.copytree(built, other := tmp_path / "other")
    for target in (other, built):
        with pytest.raises(UsageError, match="is an artifact"):
            send(built, target.as_uri(), yes=True)
    assert same_tree(built, other)


def test_a_full_disk_is_told_by_the_file_that_finds_no_room(
    built: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(self: Any, source: str, target: str) -> None:
        raise OSError(errno.ENOSPC, "No space left on device", source)

    monkeypatch.setattr("fsspec.implementations.local.LocalFileSystem.put_file", full)
    with pytest.raises(CtxrError, match=rf"disk is full: {tmp_path}/there/files/\w+ "):
        send(built, (tmp_path / "there").as_uri())

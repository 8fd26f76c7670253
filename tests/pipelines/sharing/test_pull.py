"""`ctxr pull`: every hash is compared, nothing leaves the folder, and the artifact is there at once or not at all."""

import re
import shutil
import threading
from collections.abc import Callable, Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import fsspec
import pytest
from msgspec import structs
from typer.testing import CliRunner

from ctxr.cli.app import app
from ctxr.engine.state import read_state
from ctxr.errors import CtxrError, DataError, UnfinishedError, UsageError
from ctxr.pipelines.curation import filter as filtering
from ctxr.pipelines.curation.config import Filter
from ctxr.pipelines.sharing import pull
from ctxr.pipelines.sharing.config import Pull
from ctxr.store.artifacts import MANIFEST, FileEntry, Manifest, open_artifact
from ctxr.store.hashing import sha256_bytes
from ctxr.store.remote import OBJECTS, Store
from ctxr.store.tables import pretty_json
from tests.pipelines.curation.test_build_sets import build, same_tree
from tests.pipelines.sharing.test_push import fetch, send
from tests.pipelines.world_dataset import write_world_dataset

URL = "memory://bucket/sets"
EMPTY = FileEntry(sha256_bytes(b""), 0)


@pytest.fixture(autouse=True)
def store(built: Path) -> Iterator[Any]:
    """A store with image sets at `URL`."""
    send(built, URL)
    store = fsspec.filesystem("memory")
    yield store
    store.rm("/", recursive=True)


def hostile(store: Any, change: Callable[[Manifest], Manifest]) -> None:
    """Put another manifest into the place of the one at `URL`."""
    manifest = open_artifact_of(store)
    store.pipe_file(f"/bucket/sets/{OBJECTS}/{EMPTY.sha256}", b"")
    store.pipe_file(f"/bucket/sets/{MANIFEST}", pretty_json(change(manifest).sealed()))


def open_artifact_of(store: Any) -> Manifest:
    import msgspec

    return msgspec.json.decode(store.cat_file(f"/bucket/sets/{MANIFEST}"), type=Manifest)


@pytest.mark.parametrize(
    "names",
    [
        ["../up.jsonl"],
        ["/abs.jsonl"],
        ["a/../../up.jsonl"],
        ["."],
        [""],
        ["a//b"],
        [".ctxr"],
        [".making/manifest.json"],
        ["manifest.json"],
        ["a\\b"],
        ["c:x"],
        ["nul\0"],
        ["sets.jsonl/x"],
        ["SETS.jsonl"],
    ],
)
def test_a_name_that_is_not_of_a_file_in_the_folder_is_refused(names: list[str], store: Any, tmp_path: Path) -> None:
    hostile(store, lambda one: structs.replace(one, files=one.files | dict.fromkeys(names, EMPTY)))
    copy = tmp_path / "within" / "copy"
    with pytest.raises(DataError, match="lists the file"):
        fetch(URL, copy)
    assert all(one == copy.parent or one.is_relative_to(copy) for one in tmp_path.rglob("*"))
    assert not Path("/abs.jsonl").exists()
    assert not (copy / MANIFEST).exists()


@pytest.mark.parametrize("digest", ["../../manifest.json", "0" * 63, "A" * 64, ""])
def test_what_is_no_hash_is_refused(digest: str, store: Any, tmp_path: Path) -> None:
    hostile(store, lambda one: structs.replace(one, files=one.files | {"x": FileEntry(digest, 0)}))
    with pytest.raises(DataError, match="hash"):
        fetch(URL, tmp_path / "copy")


def test_a_picture_outside_the_folder_is_refused(store: Any, tmp_path: Path) -> None:
    table = store.cat_file(f"/bucket/sets/{OBJECTS}/{open_artifact_of(store).files['images.jsonl'].sha256}")
    table = re.sub(rb'"path":"[^"]+"', b'"path":"../../up.jpg"', table, count=1)
    entry = FileEntry(sha256_bytes(table), len(table))
    store.pipe_file(f"/bucket/sets/{OBJECTS}/{entry.sha256}", table)
    hostile(store, lambda one: structs.replace(one, files=one.files | {"images.jsonl": entry}))
    with pytest.raises(DataError, match=r"up\.jpg"):
        fetch(URL, tmp_path / "deep" / "copy")
    assert not [*tmp_path.rglob("up.jpg")]


def test_a_link_in_the_folder_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    fetch(URL, tmp_path / "copy")
    shutil.rmtree(tmp_path / "copy" / "images")
    (tmp_path / "copy" / "images").symlink_to(tmp_path / "outside")
    with pytest.raises(UsageError, match="link"):
        fetch(URL, tmp_path / "copy")
    assert [*(tmp_path / "outside").iterdir()] == []


@pytest.mark.parametrize("damage", ["changed", "missing", "manifest", "cut", "newer"])
def test_damage_is_found_and_the_earlier_artifact_stays(damage: str, store: Any, footage: Path, tmp_path: Path) -> None:
    earlier = build(footage, tmp_path / "copy", sources=(str(footage / "videos" / "clip0.mp4"),)).artifact
    kept = shutil.copytree(earlier, tmp_path / "kept")
    objects, manifest = store.ls(f"/bucket/sets/{OBJECTS}", detail=False), f"/bucket/sets/{MANIFEST}"
    content = store.cat_file(manifest)
    if damage == "changed":
        store.pipe_file(objects[-1], b"other")
    elif damage == "missing":
        store.rm(objects[-1])
    else:
        other = {"manifest": (b'"format": 1', b'"format":  1'), "newer": (b'"format": 1', b'"format": 99')}
        store.pipe_file(manifest, content[:-9] if damage == "cut" else content.replace(*other[damage]))
        assert store.cat_file(manifest) != content
    with pytest.raises(DataError) as caught:
        fetch(URL, earlier, yes=True)
    assert caught.value.hint
    shutil.rmtree(earlier / pull.PULLING)
    assert same_tree(kept, earlier)


def test_another_artifact_is_replaced_only_with_yes_and_leaves_no_picture(built: Path, tmp_path: Path) -> None:
    copy = write_world_dataset(tmp_path / "copy")
    (copy / "mine.txt").write_text("mine")
    with pytest.raises(UsageError, match=str(copy)) as caught:
        fetch(URL, copy)
    assert "--yes" in caught.value.hint
    fetch(URL, copy, yes=True)
    assert (copy / "mine.txt").read_text() == "mine"
    (copy / "mine.txt").unlink()
    for folder in sorted((one for one in copy.rglob("*") if one.is_dir()), reverse=True):
        if not any(folder.iterdir()):
            folder.rmdir()
    assert same_tree(built, copy)
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "thesis.txt").write_text("mine")
    with pytest.raises(UsageError, match=r"thesis\.txt"):
        fetch(URL, tmp_path / "own", yes=True)


def test_an_interrupted_pull_fetches_the_rest(built: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    copy, fetched = Store.copy, list[str]()

    def interrupted(self: Store, target: Path, name: str) -> None:
        if len(fetched) >= 12:
            raise KeyboardInterrupt
        copy(self, target, name)
        fetched.append(name)

    monkeypatch.setattr(Store, "copy", interrupted)
    with pytest.raises(KeyboardInterrupt):
        fetch(URL, tmp_path / "copy")
    with pytest.raises(UnfinishedError):
        open_artifact(tmp_path / "copy")
    monkeypatch.setattr(Store, "copy", copy)
    report = fetch(URL, tmp_path / "copy")
    assert report.copied == send(built, "memory://bucket/other").copied - len(fetched)
    assert same_tree(built, tmp_path / "copy")
    (next((tmp_path / "copy" / "images").rglob("*.jpg"))).unlink()
    assert fetch(URL, tmp_path / "copy").copied == 1
    assert same_tree(built, tmp_path / "copy")


def test_what_was_pulled_is_part_of_the_project(
    footage: Path, built: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(app, ["pull", URL])
    assert (result.exit_code, result.stdout.splitlines()[-1]) == (0, "next: ctxr report")
    assert "nothing to do" in CliRunner().invoke(app, ["pull", URL]).stdout
    (stored,) = read_state(Path("work")).stored
    assert (stored.name, stored.words) == ("sets", ("pull", URL))
    filtering.run(Filter(input=built, out=tmp_path / "here" / "filtered", min_size=10))
    filtering.run(Filter(out=tmp_path / "filtered", min_size=10, videos=footage / "videos"))
    assert same_tree(tmp_path / "here" / "filtered", tmp_path / "filtered")


def test_where_there_is_no_project_nothing_comes_next_and_a_folder_of_others_has_a_remedy_that_helps(
    built: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    pushed = CliRunner().invoke(app, ["push", str(built), URL])
    assert (pushed.exit_code, "next:" in pushed.stdout) == (0, False)
    (tmp_path / "letters").mkdir()
    (tmp_path / "letters" / "dear.txt").touch()
    refused = CliRunner().invoke(app, ["pull", URL, "letters"])
    assert (refused.exit_code, refused.stderr.rpartition(": ")[2].split()[-2:]) == (2, ["URL", "FOLDER"])
    assert CliRunner().invoke(app, ["pull", URL, "empty"]).exit_code == 0


@pytest.mark.parametrize("places", [(), ("sets",), (URL, ""), (URL, URL), (URL, "a", "b"), ("ftp://host/sets",)])
def test_wrong_places_are_refused(places: tuple[str, ...]) -> None:
    with pytest.raises(UsageError) as caught:
        pull.run(Pull(places=places))
    assert caught.value.hint


class Signed(SimpleHTTPRequestHandler):
    """Gives files to those who know the secret."""

    def do_GET(self) -> None:
        if urlsplit(self.path).query != "sp=r&sig=secret":
            self.send_error(403, f"Forbidden {self.path}")
        else:
            super().do_GET()

    def log_message(self, *_: object) -> None:
        """Say nothing."""


def test_what_follows_the_question_mark_goes_to_every_file_and_into_no_message_or_name(
    built: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("aiohttp", reason="aiohttp is not installed: make peers")
    send(built, f"file://{tmp_path}/there/sets")
    monkeypatch.chdir(tmp_path)
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Signed, directory=str(tmp_path / "there"))) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_port}/sets"
        report = pull.run(Pull(places=(f"{url}/?sp=r&sig=secret",)))
        assert (report.artifact, report.url.rstrip("/")) == (Path("work/sets"), url)
        for other in ("sp=r&sig=other", ""):
            with pytest.raises(CtxrError, match=r"/sets .*: 403, ") as caught:
                pull.run(Pull(places=(f"{url}?{other}", str(tmp_path / "other"))))
            assert "other" not in caught.value.message
        server.shutdown()
    assert same_tree(built, tmp_path / "work" / "sets")


@pytest.mark.parametrize("query", ["X-Amz-Expires=9&X-Amz-Signature=secret", "GoogleAccessId=me&Signature=secret"])
def test_a_signature_for_one_object_is_refused_before_anything_is_asked(query: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="https://host/sets is signed") as caught:
        fetch(f"https://host/sets?{query}", tmp_path / "copy")
    assert "secret" not in caught.value.message
    assert not (tmp_path / "copy").exists()

"""`ctxr serve --review`: a person decides, the server is killed and started again, and `ctxr filter` applies what was decided."""

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest

from ctxr.annotation.pseudonyms import pseudonym, read_key
from ctxr.engine.state import DECISIONS
from ctxr.errors import DataError, UnfinishedError, UsageError
from ctxr.pipelines.crowd.config import ReviewReport, RunningServer, Serve
from ctxr.pipelines.crowd.serve import run
from ctxr.store.records import Decision, ImageSet
from ctxr.store.tables import read_appended, read_table
from ctxr.store.units import read_unit
from tests.pipelines.curation.test_build_sets import build
from tests.pipelines.curation.test_filter_decisions import refilter


@contextmanager
def started(work: Path, *words: str) -> Iterator[tuple[dict[str, Any], "subprocess.Popen[str]"]]:
    """A server of its own process, and what it says first; it is killed in the end."""
    command = [sys.executable, "-m", "ctxr", "serve", "--review", "-w", str(work), "--port", "0", "--json", *words]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True) as process:
        assert process.stdout
        try:
            text = ""
            while not text.endswith("\n}\n"):
                line = process.stdout.readline()
                assert line
                text += line
            yield json.loads(text), process
        finally:
            process.kill()


def answer(visitor: httpx.Client, page: httpx.Response, **values: Any) -> httpx.Response:
    """Post the form of a page of a set, or of an invitation."""
    action, csrf = re.findall(r'action="([^"]+)"[^>]*>\s*<input type="hidden" name="csrf" value="(\w+)"', page.text)[-1]
    return visitor.post(page.url.join(action), data={"csrf": csrf, **values})


def opened(config: Serve, monkeypatch: pytest.MonkeyPatch) -> tuple[RunningServer, ReviewReport]:
    """What is announced, and how it ends; nothing is served."""
    monkeypatch.setattr("ctxr.pipelines.crowd.serve.answer_requests", lambda *_, **__: None)
    told: list[RunningServer] = []
    report = run(replace(config, port=0, review=True), opened=told.append)
    assert isinstance(report, ReviewReport)
    return told[0], report


@pytest.mark.prove
def test_a_review_is_killed_goes_on_and_is_applied(sets: Path) -> None:
    work = sets.parent
    names = [one.id for one in read_table(sets / "sets.jsonl", ImageSet)]
    with started(work) as (server, process), httpx.Client(follow_redirects=True) as visitor:
        assert server["waiting"] == {"sets": len(names)}
        page = answer(visitor, visitor.get(server["links"]["you"]))
        page = answer(visitor, page, decision="keep", image="2", reason="faces")
        answer(visitor, page, decision="reject", reason="nudity")
        os.kill(process.pid, signal.SIGKILL)
    with started(work) as (server, process), httpx.Client(follow_redirects=True) as visitor:
        assert server["waiting"] == {"sets": len(names) - 2}
        page = answer(visitor, visitor.get(server["links"]["you"]))
        assert names[2] in page.text
        os.kill(process.pid, signal.SIGINT)
        rest, summary = process.communicate(timeout=60)
    assert (process.returncode, rest) == (0, "")
    assert f"1 kept, 1 rejected, {len(names) - 2} open" in summary
    assert f"ctxr filter -w {work} --drop {work / DECISIONS}" in summary
    person = server["workers"]["you"]
    assert person == pseudonym(read_key(work / "crowd" / "private"), "local", "team/you")
    rows = read_appended(work / DECISIONS, Decision)
    assert {row.person for row in rows} == {person}
    assert b"team/you" not in (work / DECISIONS).read_bytes()
    refilter(sets, work / "filtered", drop=work / DECISIONS)
    after = {one.id: one.images for one in read_table(work / "filtered" / "sets.jsonl", ImageSet)}
    assert rows[0].id not in {image for one in after.values() for image in one}
    assert names[1] not in after
    source = rows[0].id.rpartition("/")[0]
    rejected = [row for row in read_unit(work / "filtered", source).ledger if row.reason == "rejected_by_person"]
    assert {row.person for row in rejected} == {person}


def test_names_become_pseudonyms_and_links_and_filtered_sets_are_filtered_again_with_their_limits(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = project / "names.txt"
    names.write_text("Ada\nBen\n")
    server, report = opened(Serve(workdir=project, workers_file=names), monkeypatch)
    assert list(server.links) == ["Ada", "Ben"]
    assert all(re.fullmatch("w-[a-z2-7]{16}", worker) for worker in server.workers.values())
    assert server.people == {}
    assert (report.read, report.apply) == (project / "filtered", "")
    (project / DECISIONS).touch()
    _, report = opened(Serve(workdir=project, workers_file=names), monkeypatch)
    assert report.apply == f"ctxr filter -w {project} --drop {project / DECISIONS}"
    line = {"at": "2026-01-01", "ctxr": "0", "words": ["filter", "--brisque", "1.115"], "exit_code": 0, "seconds": 1}
    line["artifacts"] = [{"path": "filtered", "up_to_date": False}]
    (project / "history.jsonl").write_text(json.dumps(line) + "\n")
    _, report = opened(Serve(workdir=project), monkeypatch)
    assert report.apply == f"ctxr filter --brisque 1.115 --drop {project / DECISIONS}"
    _, report = opened(Serve(workdir=project, input=project / "sets"), monkeypatch)
    assert report.apply == f"ctxr filter --brisque 1.115 --drop {project / DECISIONS}"  # limits of before stay


def test_scores_sort_what_is_shown_and_scores_of_something_else_are_refused(
    sets: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    work, last = sets.parent, read_table(sets / "sets.jsonl", ImageSet)[-1]
    scores = work / "faces.csv"
    scores.write_text(f"id,value,box\n{last.images[4]},0.99,1 2 3 4\n{last.images[5]},0.5,\n")
    with started(work, "--scores", str(scores)) as (server, _), httpx.Client(follow_redirects=True) as visitor:
        page = answer(visitor, visitor.get(server["links"]["you"]))
        assert last.id in page.text
        assert "0.99" in page.text
    for text, where in (
        ("id,value\nelse,1\n", "faces.csv"),
        ("id,value\nx,nan\n", r"csv:2"),
        ("query,value\nx,1\n", r"csv:2"),
    ):
        scores.write_text(text)
        with pytest.raises(DataError, match=where):
            opened(Serve(workdir=work, scores=scores), monkeypatch)


def test_what_cannot_be_reviewed_is_told(footage: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UnfinishedError, match=str(tmp_path)):
        opened(Serve(workdir=tmp_path), monkeypatch)
    with pytest.raises(UsageError, match="nowhere"):
        opened(Serve(workdir=tmp_path, input=Path("nowhere")), monkeypatch)
    for wrong in (
        Serve(scores=tmp_path),
        Serve(input=tmp_path),
        Serve(review=True, open=True),
        Serve(review=True, tasks="tag"),
    ):
        with pytest.raises(UsageError, match="--review"):
            run(replace(wrong, workdir=tmp_path))
    build(footage, tmp_path / "sets", set_size=999)
    with pytest.raises(UsageError, match="no set"):
        opened(Serve(workdir=tmp_path), monkeypatch)

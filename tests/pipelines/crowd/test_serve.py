"""`ctxr serve`: what it says before it starts, who can come in, and how it ends."""

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest
from typer.testing import CliRunner

from ctxr.annotation.artifacts import TaskBatch
from ctxr.annotation.journal.journal import open_journal
from ctxr.annotation.launch import codes_of
from ctxr.annotation.platforms.prolific import Bundle
from ctxr.annotation.protocol import Protocol
from ctxr.annotation.pseudonyms import read_key
from ctxr.annotation.web.site import Invitation, Site, crowd_signer
from ctxr.cli.app import app
from ctxr.engine.progress import Silent
from ctxr.errors import DataError, UnfinishedError, UsageError
from ctxr.pipelines.crowd.config import RunningServer, Serve
from ctxr.pipelines.crowd.serve import open_site, run
from ctxr.store.tables import write_table
from scripts.task_artifact import write_tasks
from tests.annotation.journal.study import leased
from tests.annotation.web.crowd import SET, UNITS, paint, rows


def project(work: Path, *names: str, protocol: Protocol | None = None, backend: str = "local", path: str = "") -> Path:
    """A project with finished tasks over painted pictures."""
    root = work / "sets"
    images = rows(paint(root / "images"), root)
    if path:
        images = [msgspec.structs.replace(image, path=path) for image in images]
    for name in names or ("describe",):
        folder = work / "tasks" / name
        folder.mkdir(parents=True)
        batch = TaskBatch((UNITS[name],), {SET.id: SET}, {image.id: image for image in images}, root)
        write_tasks(folder, batch, protocol or Protocol(), backend, per_submission=2)
    return work


def prolific_project(work: Path) -> Path:
    """A project whose descriptions were exported as a study."""
    study = project(work, backend="prolific") / "tasks" / "describe" / "prolific"
    study.mkdir()
    (study / "study.json").write_text('{"maximum_allowed_time": 45}')
    write_table(study / "bundles.jsonl", [Bundle("b-1", ("u-describe", "u-2"), 1), Bundle("b-2", ("u-3",), 1)])
    return work


def opened(config: Serve, monkeypatch: pytest.MonkeyPatch) -> RunningServer:
    """What is announced; nothing is served."""
    monkeypatch.setattr("ctxr.pipelines.crowd.serve.answer_requests", lambda *_, **__: None)
    told: list[RunningServer] = []
    run(replace(config, port=0), opened=told.append)
    return told[0]


def test_a_server_says_what_waits_and_how_to_come_in_and_ends_with_what_came(tmp_path: Path) -> None:
    work = project(tmp_path / "work", "review", "entail")
    command = [sys.executable, "-m", "ctxr", "serve", "-w", str(work), "--port", "0", "--invite", "1", "--json"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout
    try:
        text = ""
        while not text.endswith("\n}\n"):
            line = process.stdout.readline()
            assert line
            text += line
        server = json.loads(text)
        assert server["waiting"] == {"entail": 1, "review": 1}
        assert server["people"]["all"] == 1
        assert list(server["links"]) == ["worker 1"]
        with httpx.Client(follow_redirects=True) as visitor:
            invitation = visitor.get(server["links"]["worker 1"])
            first = visitor.post(invitation.url, data={"csrf": re.findall(r'"csrf" value="(\w+)"', invitation.text)})
            assert first.url.path.startswith("/instructions/")
            page = visitor.get(f"{server['address']}/next").text
            link, csrf = re.findall(r'action="([^"]*)" id="answer".*?name="csrf" value="(\w+)"', page, re.DOTALL)[0]
            value = "keep" if "conversation" in page else "neutral"
            done = visitor.post(server["address"] + link, data={"csrf": csrf, "verdict": value})
            assert done.status_code == 200
        os.kill(process.pid, signal.SIGINT)
        rest, summary = process.communicate(timeout=60)
    finally:
        process.kill()
        process.wait()
    assert (process.returncode, rest) == (0, "")
    assert re.findall(r"(?:new answers|workers|next:) +(\w+.*?) *\n", summary) == ["1", "1", f"ctxr serve -w {work}"]


def test_without_a_word_there_is_one_way_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    server = opened(Serve(workdir=project(tmp_path)), monkeypatch)
    assert list(server.links) == ["you"]
    assert server.links["you"].startswith(f"{server.address}/i/")
    assert server.waiting == {"describe": 1}


def test_the_researcher_has_a_link_of_their_own_and_hears_that_it_is_paused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = Serve(workdir=project(tmp_path))
    server = opened(config, monkeypatch)
    token = server.run.removeprefix(f"{server.address}/run/")
    assert token not in "".join(server.links.values())
    with closing(open_journal(tmp_path / "crowd" / "answers.sqlite")) as journal:
        journal.pause(True, datetime(2026, 11, 21, tzinfo=UTC))
    said: list[str] = []
    progress = Silent()
    monkeypatch.setattr(progress, "warn", said.append)
    run(replace(config, port=0), progress)
    assert [line.split(":")[0].split()[-1] for line in said] == ["2026-11-21T00"]


def test_each_door_has_its_link(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names = tmp_path / "names.txt"
    names.write_text("Ada\n\n Ben \n")
    config = Serve(
        workdir=prolific_project(tmp_path), workers_file=names, open=True, base_url="https://crowd.example/a/"
    )
    server = opened(config, monkeypatch)
    assert list(server.links) == ["Ada", "Ben", "anybody", "Prolific describe"]
    assert server.address == "https://crowd.example/a"
    assert server.links["Prolific describe"].startswith(
        "https://crowd.example/a/p/describe?PROLIFIC_PID={{%PROLIFIC_PID%}}&"
    )


def test_a_server_says_what_comes_in_and_when_all_is_done(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    progress, told = Silent(), list[RunningServer]()
    monkeypatch.setattr(progress, "note", said.append)
    monkeypatch.setattr("ctxr.pipelines.crowd.serve.NEWS_SECONDS", 0.01)

    def work(site: Site, *_: object, **__: object) -> None:
        worker = told[0].workers["you"]
        site.journal.enrol(worker, "local", site.now())
        for number in (1, 2):
            lease = leased(site.journal, worker, site.now())
            values = {"verdict": ("keep" if lease.unit.task == "review" else "neutral",)}
            site.journal.submit(lease.token, worker, values, site.now())
            until = time.monotonic() + 20
            while len(said) < number and time.monotonic() < until:
                time.sleep(0.01)

    monkeypatch.setattr("ctxr.pipelines.crowd.serve.make_app", lambda site, _: site)
    monkeypatch.setattr("ctxr.pipelines.crowd.serve.answer_requests", work)
    report = run(Serve(workdir=project(tmp_path, "review", "entail"), port=0), progress, told.append)
    assert report.answers == 2
    assert list(told[0].workers) == ["you"]
    assert [line.startswith("new answers: ") for line in said] == [True, True, False]
    assert said[1].endswith(": nothing")
    assert "Ctrl-C" in said[2]


class Told(Silent):
    """Progress that keeps what it says."""

    def __init__(self) -> None:
        self.warnings: list[str] = []
        self.notes: list[str] = []

    def warn(self, text: str) -> None:
        self.warnings.append(text)

    def note(self, text: str) -> None:
        self.notes.append(text)


@pytest.mark.parametrize(
    ("options", "warned", "noted"),
    [({}, 0, 0), ({"invite": 1}, 0, 1), ({"open": True}, 1, 0), ({"open": True, "invite": 1}, 1, 0)],
)
def test_a_study_says_where_nobody_is_asked_for_consent_and_not_to_one_who_labels_alone(
    tmp_path: Path, options: dict[str, Any], warned: int, noted: int
) -> None:
    work = project(tmp_path / "work", "review")
    for written in (False, True):
        told = Told()
        site, *_ = open_site(Serve(workdir=work, **options), "http://here", told)
        site.journal.close()
        site.identities.close()
        found = [[one for one in said if "asked for consent" in one] for said in (told.warnings, told.notes)]
        assert [len(said) for said in found] == ([0, 0] if written else [warned, noted])
        assert all(str(work / "study" / "consent.md") in one for said in found for one in said)
        partly = [one for one in told.warnings if "--languages" in one]
        assert [f"{work / 'study' / 'consent'}.ar.md" in one for one in partly] == [True] * written
        assert bool(site.texts.version) == written
        assert site.texts.page("instructions-review") is not None
        (work / "study").mkdir(exist_ok=True)
        (work / "study" / "consent.md").write_text("# Consent\n\nada@example.org\n")
    other = tmp_path / "other"
    other.mkdir()
    (other / "consent.md").write_text("# Another\n\nben@example.org\n")
    site, *_ = open_site(Serve(workdir=work, study=other, **options), "http://here", Silent())
    site.journal.close()
    site.identities.close()
    assert site.texts.contact == "ben@example.org"


def test_a_study_whose_texts_cannot_be_read_leaves_no_journal(tmp_path: Path) -> None:
    work = project(tmp_path / "work", "review")
    (work / "study").mkdir()
    (work / "study" / "consent.md").write_text("# Consent\n", encoding="utf-16")
    with pytest.raises(DataError, match=r"consent\.md"):
        open_site(Serve(workdir=work), "http://here", Silent())
    assert not (work / "crowd" / "answers.sqlite").exists()


def test_links_of_a_team_are_the_same_after_a_restart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = Serve(workdir=project(tmp_path), invite=2, base_url="http://here")
    assert opened(config, monkeypatch).links == opened(config, monkeypatch).links


def test_a_study_is_let_in_as_it_was_exported_and_its_codes_are_read_when_they_are_there(tmp_path: Path) -> None:
    work = prolific_project(tmp_path)
    for served, expected in (("retrieve", []), ("describe,retrieve", ["describe"]), ("", ["describe"])):
        site, *_ = open_site(Serve(workdir=work, tasks=served), "http://here", Silent())
        site.journal.close()
        site.identities.close()
        assert list(site.studies) == expected
    found = site.studies["describe"]
    assert (found.bundle, found.tasks, found.lasts) == (2, ("describe",), timedelta(minutes=45))
    assert found.codes() == {}
    made = codes_of(work / "crowd" / "private", "describe")
    assert found.codes() == made
    assert set(made) == {"COMPLETED", "FAILED_ATTENTION_CHECK"}


def test_tasks_that_were_exported_otherwise_are_served_as_they_are_now(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    work = project(tmp_path, "describe", "tag")
    assert opened(Serve(workdir=work), monkeypatch).waiting == {"describe": 1, "tag": 1}
    shutil.rmtree(work / "tasks" / "tag")
    assert opened(Serve(workdir=work), monkeypatch).waiting == {"describe": 1}


def test_an_unfinished_task_is_named_and_the_others_are_served(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    warned: list[str] = []
    monkeypatch.setattr(Silent, "warn", lambda _, text: warned.append(text))
    work = project(tmp_path)
    (work / "tasks" / "retrieve").mkdir()
    assert opened(Serve(workdir=work), monkeypatch).waiting == {"describe": 1}
    assert [text.rsplit("/", 1)[1].split()[0] for text in warned] == ["retrieve"]


def test_an_open_network_without_https_is_warned_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    warned: list[str] = []
    monkeypatch.setattr(Silent, "warn", lambda _, text: warned.append(text))
    opened(Serve(workdir=project(tmp_path), host="0.0.0.0"), monkeypatch)  # noqa: S104
    assert ["unencrypted" in text for text in warned] == [True]
    opened(Serve(workdir=tmp_path, host="0.0.0.0", base_url="https://crowd.example"), monkeypatch)  # noqa: S104
    assert len(warned) == 1


def test_a_port_in_use_is_told_in_one_sentence(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(UsageError, match=f"^port {port} is in use$"):
            run(Serve(workdir=project(tmp_path), port=port))


def test_without_tasks_there_is_nothing_to_serve(tmp_path: Path) -> None:
    with pytest.raises(UnfinishedError, match="no finished tasks"):
        run(Serve(workdir=tmp_path, port=0))


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"tasks": "describe,retreive"}, "--tasks names 'retreive'"),
        ({"port": 70000}, "--port 70000"),
        ({"languages": "ar,xx"}, "--languages xx"),
        ({"base_url": "crowd.example"}, "not an address"),
        ({"workers_file": Path("nowhere.txt")}, "nowhere.txt does not"),
        ({"host": "256.0.0.1"}, "256.0.0.1:0 cannot be used"),
        ({"study": Path("nowhere")}, "--study nowhere"),
        ({"study": Path(), "review": True}, "--review goes without"),
    ],
)
def test_options_that_cannot_be_meant_are_refused(tmp_path: Path, options: dict[str, Any], sentence: str) -> None:
    with pytest.raises(UsageError, match=sentence):
        run(Serve(**{"workdir": project(tmp_path), "port": 0, **options}))


def test_pages_speak_the_languages_that_there_are_or_those_that_are_named(tmp_path: Path) -> None:
    (project(tmp_path, protocol=Protocol(language="de")) / "study").mkdir()
    (tmp_path / "study" / "de.po").write_text('msgid "Send"\nmsgstr "Senden"\n')
    for named, tags in (("", ["en", "ar", "de"]), ("de, en", ["de", "en"])):
        site = open_site(Serve(workdir=tmp_path, languages=named), "http://x", Silent()).site
        assert [one.tag for one in site.languages] == tags
        assert site.language == "de"
        assert site.languages[tags.index("de")].texts.gettext("Send") == "Senden"
        site.journal.close()
        site.identities.close()
    (tmp_path / "study" / "de.po").write_text('msgid "Send"\nmsgstr "{what}"\n')
    with pytest.raises(DataError, match=r"de\.po: "):
        run(Serve(workdir=tmp_path, port=0))


def test_tasks_of_two_protocols_are_not_mixed(tmp_path: Path) -> None:
    project(tmp_path)
    project(tmp_path / "other", "tag", protocol=Protocol(seed=1))
    (tmp_path / "other" / "tasks" / "tag").rename(tmp_path / "tasks" / "tag")
    with pytest.raises(UsageError, match="different protocols") as caught:
        run(Serve(workdir=tmp_path, port=0))
    assert "--seed" in caught.value.hint


def test_a_picture_outside_its_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="of its folder"):
        run(Serve(workdir=project(tmp_path, path="../../../etc/passwd"), port=0))


def test_pictures_that_are_gone_are_told_before_anybody_comes(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"the pictures of .* are not in"):
        run(Serve(workdir=project(tmp_path, path="images/gone.jpg"), port=0))


def test_what_was_exported_for_a_platform_of_its_own_is_done_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    work = project(tmp_path, "review", backend="label-studio")
    with pytest.raises(UsageError, match="exported for label-studio"):
        run(Serve(workdir=work, port=0))
    (tmp_path / "sets").rename(tmp_path / "old")
    assert opened(Serve(workdir=project(tmp_path, "entail")), monkeypatch).waiting == {"entail": 1}


def test_links_are_printed_whole_however_narrow_the_terminal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    monkeypatch.setattr("ctxr.pipelines.crowd.serve.answer_requests", lambda *_, **__: None)
    told = CliRunner().invoke(app, ["serve", "-w", str(project(tmp_path)), "--port", "0", "--invite", "2"])
    links = re.findall(r"http://\S+/i/(\S+)", told.stdout)
    assert told.exit_code == 0
    assert len(links) == 2
    key = read_key(tmp_path / "crowd" / "private")
    assert [crowd_signer(key).read(Invitation, link) for link in links] == [("team/worker 1",), ("team/worker 2",)]

"""Two hundred workers at one server, over HTTP, from consent to answers, through a kill: answers a second, latency, nothing lost.

`python -m bench.crowd_load [--workers 200] [--seconds 60] [--database URL] [--think SECONDS]`
"""

import argparse
import asyncio
import json
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from sqlalchemy import func, select

from bench.table import Row
from ctxr.annotation.artifacts import TaskBatch
from ctxr.annotation.journal import tables
from ctxr.annotation.journal.database import Database
from ctxr.annotation.journal.journal import open_journal
from ctxr.annotation.protocol import Protocol
from ctxr.annotation.pseudonyms import pseudonym, read_key
from ctxr.annotation.records import Unit
from ctxr.annotation.tasks import entail
from ctxr.annotation.web.site import LeaseLink, crowd_signer
from ctxr.store.records import Image, ImageSet
from scripts.postgres_server import programs, server
from scripts.task_artifact import write_tasks

PATIENCE = 60.0
"""Seconds in which a worker's page must come, a restart included."""


@dataclass(frozen=True)
class Load:
    """What a run found.

    Attributes:
        acknowledged: answers that a worker was told are stored. stored: those in the journal afterwards.
        missing: acknowledged and not stored. doubled: stored twice for one worker and unit. above: units with more answers and
            leases than votes. seconds: the run took. waits: seconds of each post, ascending.
        kills: times the server was killed with SIGKILL and started again.
    """

    workers: int
    acknowledged: int
    stored: int
    missing: int
    doubled: int
    above: int
    seconds: float
    waits: tuple[float, ...]
    kills: int

    def quantile(self, share: float) -> float:
        """Seconds within which that share of the posts was acknowledged."""
        return self.waits[min(len(self.waits) - 1, int(share * len(self.waits)))]

    def line(self) -> str:
        """The figures in a sentence."""
        return (
            f"{self.workers} workers, {self.seconds:.0f} s, {self.kills} kill: {self.acknowledged} answers acknowledged, "
            f"{self.acknowledged / self.seconds:.0f}/s, p50 {self.quantile(0.5) * 1000:.0f} ms, "
            f"p99 {self.quantile(0.99) * 1000:.0f} ms; {self.missing} missing, {self.doubled} doubled, {self.above} units above "
            f"their votes"
        )


def write_project(work: Path, units: int) -> None:
    """A project with that many units: three in four to be judged by three workers, the others to be described, then found."""
    sets, images, made = list[ImageSet](), list[Image](), list[Unit]()
    for number in range(units):
        group = f"g{number}"
        names = tuple(f"{group}/img{place}" for place in range(10))
        sets.append(ImageSet(group, "photos", names, group, group, None, 0.1, 0.2))
        images += [
            Image(name, "images/0.svg", f"{len(images) + place:064x}", group, 96, 64)
            for place, name in enumerate(names)
        ]
        if number % 4:
            unit = Unit(
                f"e{number}", "entail", group, group, names, statement="There is an animal.", query=f"q{number}",
                labels=entail.LABELS, needed=3, most=3,
            )  # fmt: skip
        else:
            unit = Unit(f"d{number}", "describe", group, group, names, target=names[3])
        made.append(unit)
    root = work / "sets"
    (work / "study").mkdir(parents=True)
    (work / "study" / "consent.md").write_text("# About the load\n\nNobody is paid. <load@example.org>\n")
    (root / "images").mkdir(parents=True)
    (root / "images" / "0.svg").write_text("<svg/>")
    folder = work / "tasks" / "load"
    folder.mkdir(parents=True)
    by_id = {one.id: one for one in sets}, {one.id: one for one in images}
    write_tasks(folder, TaskBatch(tuple(made), *by_id, root), Protocol(disjoint="none"))


class Server:
    """`ctxr serve` as a process of its own, at the same port each time; `said` is what it said when it began to listen."""

    def __init__(self, work: Path, *options: str) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = int(free.getsockname()[1])
        common = ["-w", str(work), "--port", str(self.port), "--rate", "0", "--json"]
        self._command = [sys.executable, "-m", "ctxr", "serve", *common, *options]
        self.said: dict[str, Any] = {}

    def start(self) -> None:
        """Start it and wait until it listens."""
        self._process = subprocess.Popen(self._command, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout
        text = ""
        while not text.endswith("\n}\n"):
            line = self._process.stdout.readline()
            if not line:
                raise RuntimeError("the server did not start")
            text += line
        self.said = json.loads(text)

    def kill(self) -> None:
        """As a power cut does."""
        self._process.kill()
        self._process.communicate()

    def stop(self) -> None:
        """As Ctrl-C does."""
        os.kill(self._process.pid, signal.SIGINT)
        self._process.communicate(timeout=30)


@dataclass
class Worker:
    """One simulated person: opens the next page, sends its form, again and again."""

    number: int
    port: int
    invitation: str
    think: float
    until: float
    cookie: str = ""
    acknowledged: list[str] = field(default_factory=list)
    waits: list[float] = field(default_factory=list)
    _reader: asyncio.StreamReader | None = None
    _writer: asyncio.StreamWriter | None = None

    async def work(self) -> None:
        """Until the time is over, and something was acknowledged."""
        _, _, page = await self.ask("GET", self.invitation)
        csrf = re.findall(r'name="csrf" value="(\w+)"', page)[0]
        await self.ask("POST", self.invitation, urlencode({"csrf": csrf}))
        place = "/next"
        while time.monotonic() < self.until or not self.acknowledged:
            if self.think:
                await asyncio.sleep(self.think)
            status, place, page = await self.ask("GET", place)
            while status == 303:  # to the consent, or past the instructions
                status, place, page = await self.ask("GET", place)
            if consent := re.search(r'action="(/consent/agree)".*?name="csrf" value="(\w+)"', page, re.DOTALL):
                _, place, _ = await self.ask("POST", consent[1], urlencode({"csrf": consent[2], "agree": "yes"}))
                continue
            form = re.search(r'action="(/w/[^"]+)" id="answer".*?name="csrf" value="(\w+)"', page, re.DOTALL)
            if form is None:
                place = "/next"
                await asyncio.sleep(0.2)
                continue
            fields = {"csrf": form[2], **self._values(page)}
            begin = time.perf_counter()
            status, place, _ = await self.ask("POST", form[1], urlencode(fields))
            if status == 303:
                self.waits.append(time.perf_counter() - begin)
                self.acknowledged.append(form[1].rsplit("/", 1)[1])
        self._close()

    def _values(self, page: str) -> dict[str, str]:
        if 'name="description"' in page:
            return {"description": f"worker {self.number} sees the small thing number {len(self.waits)} on the left"}
        name, value = re.findall(r'<input type="radio" name="(pick|verdict)"[^>]*value="(\w+)"', page)[self.number % 3]
        return {name: value}

    async def ask(self, method: str, path: str, body: str = "") -> tuple[int, str, str]:
        """Status, place to go on and text of an answer; asks again while nobody is there."""
        end = time.monotonic() + PATIENCE
        while True:
            try:
                return await self._ask(method, path, body)
            except (OSError, asyncio.IncompleteReadError, ValueError):
                self._close()
                if time.monotonic() > end:
                    raise
                await asyncio.sleep(0.1)

    async def _ask(self, method: str, path: str, body: str) -> tuple[int, str, str]:
        if self._reader is None or self._writer is None:
            self._reader, self._writer = await asyncio.open_connection("127.0.0.1", self.port)
        head = (
            f"{method} {path} HTTP/1.1\r\nhost: localhost\r\ncookie: {self.cookie}\r\ncontent-length: {len(body)}\r\n"
        )
        kind = "content-type: application/x-www-form-urlencoded\r\n" if body else ""
        self._writer.write(f"{head}{kind}\r\n{body}".encode())
        raw = (await self._reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        headers = dict(line.split(": ", 1) for line in raw[1:] if line)
        text = await self._reader.readexactly(int(headers.get("content-length", "0")))
        if "set-cookie" in headers:
            self.cookie = headers["set-cookie"].split(";")[0]
        return int(raw[0].split()[1]), headers.get("location", ""), text.decode()

    def _close(self) -> None:
        if self._writer is not None:
            self._writer.close()
        self._reader = self._writer = None


def load(
    folder: Path, workers: int = 200, seconds: float = 60, database: str = "", think: float = 0, *, kills: int = 1
) -> Load:
    """Let `workers` work for `seconds` in the empty `folder`; the server is killed `kills` times, evenly spread."""
    work = folder / "work"
    write_project(work, max(60, int(seconds * 60)))
    options = ["--per-round", "1000000", "--invite", str(workers), *(["--database", database] if database else [])]
    serving = Server(work, *options)
    serving.start()
    begin = time.monotonic()
    links = [link[link.index("/i/") :] for link in serving.said["links"].values()]
    people = [Worker(number, serving.port, link, think, begin + seconds) for number, link in enumerate(links)]

    async def disturb() -> None:
        for number in range(kills):
            await asyncio.sleep(max(0.0, begin + seconds * (number + 1) / (kills + 1) - time.monotonic()))
            serving.kill()
            await asyncio.to_thread(serving.start)

    async def everybody() -> None:
        await asyncio.gather(disturb(), *(person.work() for person in people))

    with ThreadPoolExecutor(1) as alone:  # whoever calls may have a loop of their own
        alone.submit(lambda: asyncio.run(everybody())).result()
    taken = time.monotonic() - begin
    serving.stop()
    return _judge(work, database, people, taken, kills)


def _judge(work: Path, database: str, people: list[Worker], seconds: float, kills: int) -> Load:
    key = read_key(work / "crowd" / "private")
    signer = crowd_signer(key)
    file = work / "crowd" / "answers.sqlite"
    journal = open_journal(database or file)
    answers = journal.answers()
    stored = {(answer.unit, answer.worker) for answer in answers}
    missing = 0
    for person in people:
        name = pseudonym(key, "local", f"team/worker {person.number + 1}")
        for sealed in person.acknowledged:
            link = signer.read(LeaseLink, sealed)
            lease = journal.find(link.lease) if link else None
            missing += lease is None or (lease.unit.id, name) not in stored
    journal.close()
    holding = Database(database or file)
    held_or_answered = tables.lease.c.state.in_(("live", "answered"))
    with holding.reading() as connection:
        held = connection.execute(
            select(tables.lease.c.unit, func.count()).where(held_or_answered).group_by(tables.lease.c.unit)
        ).all()
        most: dict[str, int] = dict(connection.execute(select(tables.unit.c.id, tables.unit.c.most)).all())
    holding.close()
    waits = tuple(sorted(wait for person in people for wait in person.waits))
    acknowledged = sum(len(person.acknowledged) for person in people)
    above = sum(count > most[unit] for unit, count in held)
    return Load(
        len(people), acknowledged, len(answers), missing, len(answers) - len(stored), above, seconds, waits, kills
    )


def measure() -> list[Row]:
    """A minute of 200 workers on SQLite, and one on PostgreSQL where there is a server; each is killed in the middle."""
    rows = _rows("SQLite", "")
    if programs() is not None:
        with server() as running:
            rows += _rows("PostgreSQL", running.new_database())
    return rows


def _rows(name: str, database: str) -> list[Row]:
    with tempfile.TemporaryDirectory(prefix="ctxr-load-") as folder:
        found = load(Path(folder), database=database)
    whole = (found.missing, found.doubled, found.above) == (0, 0, 0)
    return [
        Row(f"{name}: an answer, median", found.quantile(0.5), note=found.line(), target="none lost", met=whole),
        Row(f"{name}: an answer, 99th percentile", found.quantile(0.99)),
    ]


def main() -> None:
    """One run with the options of the command line."""
    parser = argparse.ArgumentParser(prog="python -m bench.crowd_load")
    parser.add_argument("--workers", type=int, default=200)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--database", default="", help="a PostgreSQL address; default: SQLite")
    parser.add_argument("--think", type=float, default=0, help="seconds that a worker thinks before each page")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="ctxr-load-") as folder:
        print(load(Path(folder), given.workers, given.seconds, given.database, given.think).line())


if __name__ == "__main__":
    main()

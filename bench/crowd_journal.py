"""What the journal of the crowd takes for a lease and a submission, with eight threads at once, in SQLite and PostgreSQL."""

import statistics
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

from bench.table import Row
from ctxr.annotation.journal.journal import Journal, open_journal
from ctxr.annotation.journal.results import Lease
from ctxr.annotation.protocol import Protocol
from ctxr.annotation.records import Unit
from scripts.postgres_server import programs, server

THREADS, SECONDS, UNITS = 8, 10.0, 20_000


def units(count: int) -> Iterator[Unit]:
    """Retrievals of ten images, 2 of 3."""
    for number in range(count):
        images = tuple(f"s{number}/{place}" for place in range(10))
        yield Unit(
            id=f"u{number:06d}",
            task="retrieve",
            image_set=f"s{number}",
            group=f"g{number}",
            images=images,
            query=f"q{number}",
            texts=("the dog's left ear is folded back",),
            text_ids=(f"t{number}",),
            truth=images[:1],
            authors=("w-author",),
            needed=2,
            most=3,
        )


def work(journal: Journal, name: str, end: float, taken: dict[str, list[float]]) -> None:
    """Lease and submit as twenty-five workers in turn until the time is over; seconds of each call go to `taken`."""
    workers = [f"{name}-{number}" for number in range(25)]
    for worker in workers:
        journal.enrol(worker, "bench", datetime.now(UTC))
    while True:
        for worker in workers:
            if time.perf_counter() > end:
                return
            start = time.perf_counter()
            lease = journal.lease(worker, datetime.now(UTC))
            taken["lease"].append(time.perf_counter() - start)
            if not isinstance(lease, Lease):
                raise LookupError("the bench has too few units")
            start = time.perf_counter()
            journal.submit(lease.token, worker, {"pick": lease.unit.truth}, datetime.now(UTC))
            taken["submit"].append(time.perf_counter() - start)


def rows(name: str, address: str | Path) -> Iterator[Row]:
    """Median and 99th percentile of a lease and of a submission, and how many of both there were a second."""
    journal = open_journal(address, units(UNITS), (), Protocol(disjoint="none"))
    taken: dict[str, list[float]] = {"lease": [], "submit": []}
    start = time.perf_counter()
    threads = [
        threading.Thread(target=work, args=(journal, f"t{number}", start + SECONDS, taken)) for number in range(THREADS)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    elapsed = time.perf_counter() - start
    stored = len(journal.answers())
    journal.close()
    if stored != len(taken["submit"]):
        raise AssertionError(f"{len(taken['submit'])} answers were acknowledged, {stored} are stored")
    rate = len(taken["submit"]) / elapsed
    for kind, seconds in taken.items():
        p99 = statistics.quantiles(seconds, n=100)[98]
        note = f"p99 {p99 * 1000:.1f} ms; {rate:.0f} leases and {rate:.0f} submissions a second with {THREADS} threads"
        yield Row(f"{kind}, {name}", statistics.median(seconds), target="p99 <= 0.25 s", met=p99 <= 0.25, note=note)


@contextmanager
def addresses() -> Iterator[dict[str, str | Path]]:
    """A database of each kind that this machine has, on the disk."""
    with tempfile.TemporaryDirectory(prefix="ctxr-bench-") as folder:
        here: dict[str, str | Path] = {"SQLite": Path(folder) / "answers.sqlite"}
        if programs() is None:
            yield here
            return
        with server(durable=True) as running:
            yield here | {"PostgreSQL (pg8000)": running.new_database()}


def measure() -> list[Row]:
    """A lease and a submission of a retrieval among 20,000, each on the disk before it returns."""
    with addresses() as here:
        return [row for name, address in here.items() for row in rows(name, address)]

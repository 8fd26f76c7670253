"""One loop over threads or processes: order, laziness, and an end when something fails."""

import itertools
import os
import signal
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from unittest.mock import Mock

import pytest

from ctxr.engine import units
from ctxr.engine.engines import Engine, map_units
from ctxr.engine.progress import SILENT
from ctxr.engine.units import Job, WorkerKilled, WorkUnit, parallel
from ctxr.errors import CtxrError
from tests.engine.ray_jobs import Tried, Unopened

PROCESSES = Engine("processes", 2)


def double(number: int) -> int:
    return 2 * number


@pytest.mark.parametrize("processes", [False, True])
def test_results_come_in_order_from_items_without_an_end(processes: bool) -> None:
    results = parallel(double, itertools.count(), 2, processes=processes, ordered=True, queued=3)
    assert list(itertools.islice(results, 10)) == [(number, 2 * number) for number in range(10)]
    results.close()


def test_every_item_is_worked_on_once_and_no_more_at_a_time_than_there_are_workers() -> None:
    lock, running, most, three = threading.Lock(), [0], [0], threading.Barrier(3)

    def work(number: int) -> int:
        with lock:
            running[0] += 1
            most[0] = max(most[0], running[0])
        three.wait(60)  # three work at the same time; a fourth has time to begin before they end
        time.sleep(0.005)
        with lock:
            running[0] -= 1
        return -number

    assert sorted(parallel(work, range(48), 3)) == [(number, -number) for number in range(48)]
    assert most[0] == 3


def test_no_number_of_workers_is_half_the_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    pool = Mock(wraps=ThreadPoolExecutor)
    monkeypatch.setattr(units, "ThreadPoolExecutor", pool)
    monkeypatch.setattr(os, "cpu_count", lambda: 6)
    assert list(parallel(double, [1])) == [(1, 2)]
    pool.assert_called_once_with(3)


def test_an_item_can_wait_for_one_that_is_under_way() -> None:
    results: list[int] = []

    def items() -> Iterator[int | None]:
        yield 1
        while not results:
            yield None
        yield results[0] + 1

    for _, result in parallel(double, items(), 4):
        results.append(result)
    assert results == [2, 6]


def test_the_first_failure_stops_what_is_under_way_and_begins_nothing_more() -> None:
    stopped, begun = threading.Event(), []

    def work(number: int) -> None:
        begun.append(number)
        if number == 1:
            raise ValueError("no")
        assert stopped.wait(60)

    with pytest.raises(ValueError, match="no"):
        list(parallel(work, range(100), 2, stop=stopped.set))
    assert begun == [0, 1]


def die(number: int) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def test_a_killed_worker_process_is_named_and_no_traceback() -> None:
    with pytest.raises(CtxrError, match="worker process"):
        list(parallel(die, range(3), 2, processes=True))


def tried(job: Job[str], payloads: Sequence[str]) -> list[tuple[str, str]]:
    """What processes made of units with these payloads, by name."""
    units = [WorkUnit(str(at), None, payload) for at, payload in enumerate(payloads)]
    return sorted((unit.name, result) for unit, result in map_units(job, units, PROCESSES, SILENT, "trying"))


def test_a_unit_that_kills_its_process_is_begun_again_alone_and_lost_alone(tmp_path: Path) -> None:
    job, here = Tried(tmp_path), str(Path.cwd())
    (tmp_path / "once").mkdir()
    assert tried(job, ["", "", "die", ""]) == [("0", here), ("1", here), ("2", "lost"), ("3", here)]
    assert job.begun("2") == 2
    assert tried(Tried(tmp_path / "once"), ["die once", ""]) == [("0", here), ("1", here)]
    assert not job.stopping.is_set()


def test_a_loss_that_is_no_result_ends_the_work_of_processes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Tried, "lost", Job.lost)
    with pytest.raises(CtxrError, match="0 ended two"):
        tried(Tried(tmp_path), ["die"])


def test_processes_that_never_begin_are_no_fault_of_the_units(tmp_path: Path) -> None:
    with pytest.raises(WorkerKilled, match="worker process"):
        tried(Unopened(tmp_path), ["", ""])

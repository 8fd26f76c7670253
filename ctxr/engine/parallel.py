"""Parallel threads, for work that releases the interpreter lock."""

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from typing import TypeVar

T = TypeVar("T")


def run_in_parallel(work: Callable[[T], object], items: Sequence[T], workers: int, stop: Callable[[], object]) -> None:
    """Call `work` on every item in `workers` threads, 0 = half the cores.

    The first exception, Ctrl-C included, calls `stop`, cancels the items that have not begun, and is raised.
    """
    with ThreadPoolExecutor(workers or half_of_cores()) as pool:
        jobs = [pool.submit(work, item) for item in items]
        try:
            for job in as_completed(jobs):
                job.result()
        except BaseException:
            stop()
            for job in jobs:
                job.cancel()
            raise


def half_of_cores() -> int:
    """The default number of threads."""
    return max(1, (os.cpu_count() or 2) // 2)

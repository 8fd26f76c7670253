"""Work in parallel threads, for what runs outside the interpreter's lock."""

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from typing import TypeVar

T = TypeVar("T")


def side_by_side(work: Callable[[T], object], items: Sequence[T], workers: int, stop: Callable[[], object]) -> None:
    """Do `work` on every item in so many threads, 0 = half the cores.

    An exception, Ctrl-C too, ends all: `stop` tells those at work, what has not begun never begins, and it is raised.
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
    """Threads where nobody said how many."""
    return max(1, (os.cpu_count() or 2) // 2)

"""Work side by side, in threads: what decodes or hashes does so outside the interpreter's lock."""

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from typing import Any, TypeVar

from ctxr.data.images import Pixels
from ctxr.errors import DataError

T = TypeVar("T")


def decoded(read: Callable[..., Pixels], *known: Sequence[Any]) -> list[Pixels]:
    """What `read` makes of each picture, in turn; `known` are its arguments as columns. Raises what `read` raises."""
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        return list(pool.map(read, *known))


def troubles(read: Callable[..., Pixels], *known: Sequence[Any]) -> Iterator[DataError | None]:
    """Why each picture cannot be read, in turn, None where it can: each is decoded wholly, and forgotten."""

    def trouble(*one: Any) -> DataError | None:
        try:
            read(*one)
        except DataError as error:
            return error
        return None

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        yield from pool.map(trouble, *known)


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

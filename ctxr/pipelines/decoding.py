"""Pictures decoded side by side: what Pillow decodes, it decodes outside the interpreter's lock."""

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from ctxr.data.images import Pixels
from ctxr.errors import DataError


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

"""First come, first served: a lock whose waiting threads get it in the order in which they asked."""

import threading
from collections import deque
from types import TracebackType


class Turns:
    """One thread at a time; `threading.Lock` would let whoever is running take it again, and others starve."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._waiting: deque[threading.Lock] = deque()
        self._taken = False

    def __enter__(self) -> None:
        with self._guard:
            if not self._taken:
                self._taken = True
                return
            turn = threading.Lock()
            turn.acquire()
            self._waiting.append(turn)
        try:
            turn.acquire()
        except BaseException:  # interrupted while waiting: the turn must not come to nobody
            with self._guard:
                if turn in self._waiting:
                    self._waiting.remove(turn)
                    raise
            self.__exit__(None, None, None)
            raise

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._guard:
            if self._waiting:
                self._waiting.popleft().release()
            else:
                self._taken = False

"""Decoder processes that are kept from one scan to the next, since starting one takes longer than decoding a short clip."""

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from ctxr.media.decoder_process import ChildProcess, Message
from ctxr.media.scan import ScanOptions

Surroundings = tuple[int, tuple[str, ...], frozenset[tuple[str, str]]]
"""The process that starts a decoder, the command, and the environment variables."""

_idle = dict[Surroundings, list["KeptDecoder"]]()
_starters = dict[int, ThreadPoolExecutor]()


class KeptDecoder(ChildProcess):
    """A decoder that answers the next client, if it was killed after a whole answer."""

    surroundings: Surroundings
    busy = False
    holding: ScanOptions | None = None
    """With what it holds a file open, of which it was asked for a frame."""

    def ask(self, path: Path, options: ScanOptions, **question: Any) -> None:
        """Ask, and be busy until the last message."""
        self.busy, self.holding = True, options if "frame" in question else None
        super().ask(path, options, **question)

    def next(self) -> Message:
        """The next message."""
        message = super().next()
        self.busy = message.kind not in ("end", "frame")
        return message

    def let_go(self) -> None:
        """Close the file, by asking for a frame of none."""
        if self.holding is not None:
            self.ask(Path(os.devnull), self.holding, frame=[0, 0])
            self.busy = ChildProcess.next(self).kind != "failed"

    def kill(self) -> None:
        """Keep the process, if it is fit; else end it."""
        if not self.busy and self.alive:
            self.let_go()
        if self.busy or not self.alive:
            super().kill()
        else:
            _idle.setdefault(self.surroundings, []).append(self)


def start(command: Sequence[str]) -> KeptDecoder:
    """A decoder that another client had in this process and environment, or a new one."""
    variables = frozenset((name, text) for name, text in os.environ.items() if name != "PYTEST_CURRENT_TEST")
    surroundings = (os.getpid(), tuple(command), variables)
    while idle := _idle.get(surroundings):
        if (kept := idle.pop()).alive:
            return kept
    # a decoder dies with the thread that started it
    starter = _starters.setdefault(os.getpid(), ThreadPoolExecutor(1))
    kept = starter.submit(KeptDecoder, command).result()
    kept.surroundings = surroundings
    return kept


def end_all() -> None:
    """End all that are idle."""
    for kept in (kept for idle in _idle.values() for kept in idle):
        kept.busy = True
        kept.kill()
    _idle.clear()

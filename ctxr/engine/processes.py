"""Child processes that do not outlive their parent."""

import os
import signal
import sys
from collections.abc import Callable

_PR_SET_PDEATHSIG = 1


def die_with_parent() -> Callable[[], None]:
    """A function that, run in a process, makes the kernel kill that process when its parent ends, however that ends.

    It is fit for `subprocess.Popen(preexec_fn=...)` and for the first lines of a child. Only Linux has such a thing; elsewhere it does
    nothing, and the child must notice by its standard input coming to an end.
    """
    if sys.platform != "linux":
        return lambda: None
    import ctypes

    prctl = ctypes.CDLL(None).prctl
    return lambda: prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def kill_group(leader: int) -> None:
    """Kill the process `leader`, and with it its process group where it leads one. Nothing happens if it is gone."""
    try:
        if hasattr(os, "killpg") and os.getpgid(leader) == leader:
            os.killpg(leader, signal.SIGKILL)
        else:
            os.kill(leader, getattr(signal, "SIGKILL", signal.SIGTERM))
    except ProcessLookupError:
        pass

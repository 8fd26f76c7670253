"""Child processes that do not outlive their parent."""

import signal
import sys
from collections.abc import Callable

_PR_SET_PDEATHSIG = 1


def die_with_parent() -> Callable[[], None]:
    """A function that, called in a child (`preexec_fn` of `Popen`), makes the kernel kill it when its parent ends, on Linux alone.

    Elsewhere the child must notice that its standard input ended.
    """
    if sys.platform != "linux":
        return lambda: None
    import ctypes

    prctl = ctypes.CDLL(None).prctl
    return lambda: prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)

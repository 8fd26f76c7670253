"""How a script ends."""

import sys
from collections.abc import Callable

from ctxr.errors import CtxrError


def exit_code(work: Callable[[], object]) -> int:
    """0 when the work is done; else the code of the error that stopped it, which is printed in a sentence with its hint."""
    try:
        work()
    except CtxrError as error:
        print(f"{error.message}; {error.hint}", file=sys.stderr)
        return error.exit_code
    return 0

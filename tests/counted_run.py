"""Runs a command of ctxr as it is typed, and counts its calls.

`python -m tests.counted_run VERB…` runs one for each line of its input, `["OUT.json", "COMMAND", …]`, in a fork that has loaded
libraries and the modules of these verbs, and answers each with a line.
"""

import importlib
import io
import json
import os
import sys
import threading
from contextlib import redirect_stdout
from cProfile import Profile
from dataclasses import asdict, dataclass
from functools import wraps
from pathlib import Path
from typing import Any
from unittest.mock import patch

import ctxr
from ctxr.cli.app import app
from ctxr.cli.commands import COMMANDS

OURS = Path(ctxr.__file__).parent
LIBRARIES = ("cv2", "httpx", "markdown_it", "numpy", "scipy.stats", "sqlalchemy")
"""What commands load before they know whether there is work, and what takes most of their time."""


@dataclass(frozen=True)
class CountedRun:
    """What came of a command.

    Attributes:
        code: it ended with. document: what it printed. calls: of functions of ctxr in the `run` of the verb, in any thread; those
            of child processes are not counted. torch: whether torch is loaded.
    """

    code: int
    document: dict[str, Any]
    calls: int
    torch: bool


def counted_run(words: list[str]) -> CountedRun:
    """Run a command in this process."""
    module = importlib.import_module(COMMANDS[words[0]].module)
    run, profiles = module.run, list[Profile]()

    def begin(*_: object) -> None:
        """Count the calls of this thread."""
        profiles.append(Profile(builtins=False))
        profiles[-1].enable()

    @wraps(run)
    def counted(*given: object, **options: object) -> object:
        threading.setprofile(begin)
        begin()
        try:
            return run(*given, **options)
        finally:
            profiles[0].disable()
            threading.setprofile(None)

    printed, code = io.StringIO(), 0
    try:
        with redirect_stdout(printed), patch.object(module, "run", counted):
            app([*words, "--json"])
    except SystemExit as end:
        code = int(end.code or 0)
    calls = 0
    for entry in (entry for profile in profiles for entry in profile.getstats()):
        if not isinstance(entry.code, str) and entry.code.co_filename.startswith(str(OURS)):
            calls += entry.callcount
    return CountedRun(code, json.loads(printed.getvalue()), calls, "torch" in sys.modules)


def serve(verbs: list[str]) -> None:
    """Answer each line of the input when its command has ended."""
    for module in (*LIBRARIES, *(COMMANDS[verb].module for verb in verbs)):
        importlib.import_module(module)
    for line in sys.stdin:
        out, *words = json.loads(line)
        child = os.fork()
        if not child:
            Path(out).write_text(json.dumps(asdict(counted_run(words))), encoding="utf-8")
            os._exit(0)
        os.waitpid(child, 0)
        sys.stdout.write(f"{out}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    serve(sys.argv[1:])

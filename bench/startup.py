"""What it costs to ask for help and to import ctxr, and when a long command says its first word."""

import os
import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path

from bench.table import Median, Row, in_turns
from ctxr.store.artifacts import Content, Parent, finish

EMPTY = "import typer\napp = typer.Typer()\n@app.command()\ndef main(name: str) -> None: ...\napp()"
COMMANDS = ("build-sets videos/", "filter --brisque 0.65", "eval", "report")
ROUNDS = 9
LONGEST = 0.5
IMPORTED = 0.15
ARTIFACTS, FILES = 10, 1_000  # of each artifact


def measure() -> list[Row]:
    """`ctxr --help` against an empty Typer app, `import ctxr`, the status of a project, and the first line of long commands."""

    def call(*arguments: str) -> None:
        subprocess.run([sys.executable, *arguments], check=True, capture_output=True)

    ours, empty = in_turns(lambda: call("-m", "ctxr", "--help"), lambda: call("-c", EMPTY, "--help"), repeat=ROUNDS)
    rows = [Row("ctxr --help", ours, "empty Typer app --help", empty, "<= 1.2", ours <= 1.2 * empty)]
    ours, bare = in_turns(lambda: call("-c", "import ctxr"), lambda: call("-c", "pass"), repeat=ROUNDS)
    rows.append(
        Row("import ctxr", ours, "pass", bare, f"<= {IMPORTED}", ours - bare <= IMPORTED, "less the interpreter")
    )
    with tempfile.TemporaryDirectory() as folder:
        draw_project(Path(folder, "work"))
        calls = [partial(call, "-m", "ctxr", *words) for words in (("status", "-w", f"{folder}/work"), ("--version",))]
        ours, bare = in_turns(*calls, repeat=ROUNDS)
        files = f"{ARTIFACTS} artifacts with {ARTIFACTS * FILES:,} files"
        rows.append(Row(f"ctxr status, {files}", ours, "ctxr --version", bare, "<= 1", ours <= 1))
    with tempfile.TemporaryDirectory() as folder:
        for command in COMMANDS:
            for name, open_ends in (("a pipe", os.pipe), ("a terminal", os.openpty)):
                seconds = Median(_first_line(command, folder, *open_ends()) for _ in range(ROUNDS))
                rows.append(
                    Row(f"first line of ctxr {command}, {name}", seconds, target="<= 0.5", met=seconds <= LONGEST)
                )
    return rows


def draw_project(project: Path) -> None:
    """A project of artifacts, each made of the one before."""
    parents = list[Parent]()
    for number in range(ARTIFACTS):
        folder, names = project / f"made{number}", [f"images/{file}.jpg" for file in range(FILES)]
        (folder / "images").mkdir(parents=True)
        for name in names:
            (folder / name).write_text(f"{number} {name}")
        content = Content(names, {"images": FILES}, {})
        made = finish(folder, kind="image_sets", verb="filter", config={}, parents=parents, content=content)
        parents = [Parent(folder.name, made.manifest.kind, made.sha256)]


def _first_line(command: str, folder: str, ours: int, theirs: int) -> float:
    """Seconds from the start of the process, in an empty folder, to the first byte at our end of a pipe or terminal."""
    began = time.perf_counter()
    arguments = [sys.executable, "-m", "ctxr", *command.split()]
    process = subprocess.Popen(arguments, stdin=subprocess.DEVNULL, stdout=theirs, stderr=theirs, cwd=folder)
    os.close(theirs)
    os.read(ours, 1)
    seconds = time.perf_counter() - began
    process.kill()
    process.wait()
    os.close(ours)
    return seconds

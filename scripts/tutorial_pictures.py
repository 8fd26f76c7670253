"""Run docs/tutorial.md as it is typed, and picture its terminals and pages: `python -m scripts.tutorial_pictures` (needs chromium)."""

import io
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from rich._export_format import CONSOLE_SVG_FORMAT
from rich.console import Console
from rich.text import Text

from scripts.crowd_pictures import opened_page, served
from scripts.screenshot import ROOT, browser, picture

PAGE = ROOT / "docs" / "tutorial.md"
COLUMNS = 100
MOST_BYTES = 150_000
SIZE = (1100, 760)
ALONE = re.sub(r"@font-face \{\{.*?\}\}", "", CONSOLE_SVG_FORMAT, flags=re.DOTALL)
"""A picture of a terminal in a font of the reader's machine, not in one of another machine."""


def steps(text: str) -> Iterator[tuple[str, list[str]]]:
    """The lines that are typed in a page, each with the pictures that stand between it and the next one."""
    found = re.finditer(
        r"^    (?P<line>(?:ctxr|python) .*?) *(?:#.*)?$|\((?P<picture>[\w/.-]+\.(?:svg|jpg))\)", text, re.MULTILINE
    )
    line, pictures = "", list[str]()
    for one in found:
        if one["picture"]:
            pictures.append(one["picture"])
            continue
        if line:
            yield line, pictures
        line, pictures = one["line"], []
    yield line, pictures


def printed(line: str, folder: Path) -> str:
    """What a line prints to a terminal, with its colours."""
    words = shlex.split(line)
    command = [sys.executable, "-m", "ctxr", *words[1:]] if words[0] == "ctxr" else [sys.executable, *words[1:]]
    shown = {"FORCE_COLOR": "1", "COLUMNS": str(COLUMNS), "TERM": "xterm-256color", "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, cwd=folder, env=os.environ | shown, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        sys.exit(f"{line} ended with {done.returncode}")
    return done.stdout


def terminal(line: str, output: str, name: str) -> bytes:
    """A picture of a terminal in which a line was typed."""
    console = Console(record=True, width=COLUMNS, file=io.StringIO(), force_terminal=True)
    console.print(Text(f"$ {line}", style="bold"))
    console.print(Text.from_ansi(output.rstrip()))
    return console.export_svg(title="ctxr", code_format=ALONE, unique_id=name).encode()


def described(work: Path) -> bytes:
    """The page of a worker who describes an image."""
    with browser() as opened, served(work, "describe") as links:
        tab = opened_page(opened, links[0], "light", 720)
        tab.wait_for_timeout(500)
        return tab.screenshot(type="jpeg", quality=70)


def main() -> None:
    """Run the tutorial in an empty folder, and write its pictures."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for line, pictures in steps(PAGE.read_text(encoding="utf-8")):
            serves = line.startswith("ctxr serve")
            output = "" if serves else printed(line, folder)
            for target in (PAGE.parent / one for one in pictures):
                if target.suffix == ".svg":
                    content = terminal(line, output, target.stem)
                else:
                    work = folder / "work"
                    copy = folder / "copy" / "work"  # whoever opens a page holds a unit
                    content = (
                        described(shutil.copytree(work, copy))
                        if serves
                        else picture(work / "report.html", "light", *SIZE, part="results" * (target.stem == "results"))
                    )
                if len(content) > MOST_BYTES:
                    sys.exit(f"{target} would have {len(content)} bytes, more than {MOST_BYTES}")
                target.parent.mkdir(exist_ok=True)
                target.write_bytes(content)
                print(f"{target.relative_to(ROOT)}: {len(content):,} bytes")


if __name__ == "__main__":
    main()

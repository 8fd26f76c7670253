"""What it costs to ask for help."""

import subprocess
import sys

from bench.table import Row, median_seconds

EMPTY = "import typer\napp = typer.Typer()\n@app.command()\ndef main(name: str) -> None: ...\napp()"


def measure() -> list[Row]:
    """`ctxr --help` against an empty Typer app."""

    def call(*arguments: str) -> None:
        subprocess.run([sys.executable, *arguments], check=True, capture_output=True)

    ours = median_seconds(lambda: call("-m", "ctxr", "--help"), 9)
    empty = median_seconds(lambda: call("-c", EMPTY, "--help"), 9)
    return [Row("ctxr --help", ours, "empty Typer app --help", empty, "<= 1.6", ours <= 1.6 * empty)]

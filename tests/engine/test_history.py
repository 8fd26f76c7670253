"""The history of a project holds a line for each command, also for those that run from Python."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from ctxr.engine.history import HISTORY, recorded
from ctxr.engine.options import Options
from ctxr.engine.stage import Inputs, Stage, execute
from ctxr.store.artifacts import Content


@dataclass(frozen=True)
class Draw(Options):
    """Options of a command that draws a line."""

    COMMAND: ClassVar[str] = "draw"
    ARGUMENT: ClassVar[str] = "name"

    name: str = "a"
    """Of the folder."""
    workdir: Path = Path("work")
    """Project."""

    def folder(self) -> Path:
        """Where it is written."""
        return self.workdir / self.name


class Drawing(Stage[Inputs]):
    """The drawn line."""

    KIND = "drawing"

    def inputs(self, progress: object) -> Inputs:
        """Nothing."""
        return Inputs([], {})

    def write(self, inputs: Inputs, out: Path, progress: object) -> Content:
        """The line."""
        (out / "line").touch()
        return Content(["line"], {}, {})


def lines_of(project: Path) -> list[tuple[list[str], int, list[bool]]]:
    """The words, the exit code and what was up to date, of each command."""
    lines = [json.loads(line) for line in (project / HISTORY).read_text().splitlines()]
    return [(row["words"], row["exit_code"], [one["up_to_date"] for one in row["artifacts"]]) for row in lines]


def test_a_stage_that_is_run_from_python_leaves_a_line(tmp_path: Path) -> None:
    for name in ("a", "b", "b"):
        execute(Drawing(Draw(name, tmp_path)))
    there = ["--workdir", str(tmp_path)]
    assert lines_of(tmp_path) == [
        (["draw", *there], 0, [False]),
        (["draw", "b", *there], 0, [False]),
        (["draw", "b", *there], 0, [True]),
    ]


def test_stages_of_one_command_share_its_line_in_its_project(tmp_path: Path) -> None:
    (tmp_path / "one").mkdir()
    with recorded(Draw(workdir=tmp_path / "one"), ["drawn"]):
        for name in "ab":
            execute(Drawing(Draw(name, tmp_path / "one")))
        execute(Drawing(Draw("c", tmp_path / "two")))
    assert lines_of(tmp_path / "one") == [(["drawn"], 0, [False, False])]
    assert [words for words, *_ in lines_of(tmp_path / "two")] == [["draw", "c", "--workdir", str(tmp_path / "two")]]

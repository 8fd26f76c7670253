"""The laws of the house, read off the source."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parent.parent / "ctxr"
FILES = sorted(PACKAGE.rglob("*.py"))
MOST_LINES = 600

MAY_IMPORT = {
    "errors": set(),
    "data": {"errors", "data"},
    "metrics": {"errors", "data", "metrics"},
    "models": {"errors", "data", "metrics", "models"},
    "annotation": {"errors", "data", "metrics", "annotation"},
    "pipelines": {"errors", "data", "metrics", "models", "annotation", "pipelines"},
    "cli": {"errors", "pipelines", "cli"},
}
"""Room by room, the rooms it may know of."""

NO_ROOM = {"utils", "util", "common", "core", "helpers", "misc", "tools"}


def room(file: Path) -> str:
    first = file.relative_to(PACKAGE).parts[0]
    return first.removesuffix(".py")


def imported(file: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(PACKAGE)))
def test_a_file_imports_only_the_rooms_it_may_know(file: Path) -> None:
    if room(file) not in MAY_IMPORT:
        assert room(file) in {"__init__", "__main__"}
        return
    rooms = {name.split(".")[1] for name in imported(file) if name.startswith("ctxr.")}
    assert rooms <= MAY_IMPORT[room(file)]


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(PACKAGE)))
def test_torch_lives_in_the_models_alone(file: Path) -> None:
    heavy = {"torch", "torchvision", "open_clip", "timm"} & {name.split(".")[0] for name in imported(file)}
    assert not heavy or room(file) == "models"


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(PACKAGE)))
def test_no_file_grows_beyond_one_noun(file: Path) -> None:
    assert len(file.read_text().splitlines()) <= MOST_LINES


def test_there_is_no_room_without_a_name() -> None:
    assert not {part.stem for part in PACKAGE.rglob("*")} & NO_ROOM


@pytest.mark.parametrize(
    "statement",
    [
        "from ctxr.cli.app import app, COMMANDS; import typer; typer.main.get_command(app).list_commands(None)",
        "import ctxr.cli.build_sets, ctxr.cli.filter, ctxr.cli.report, ctxr.cli.doctor, ctxr.cli.demo",
        "import ctxr.cli.export, ctxr.cli.rebuild, ctxr.cli.verify",
        "import ctxr.cli.stats, ctxr.cli.audit",
        "import ctxr.cli.train, ctxr.cli.revise_labels",
        "import ctxr.cli.stats, ctxr.cli.audit, ctxr.cli.eval",
        "import ctxr.cli.export_tasks, ctxr.cli.import_answers",
    ],
)
def test_the_front_door_is_light(statement: str) -> None:
    code = f"{statement}\nimport sys\nprint(sorted({{'torch', 'numpy', 'cv2', 'av', 'scenedetect', 'spacy', 'yaml'}} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_the_package_runs_as_a_module() -> None:
    done = subprocess.run([sys.executable, "-m", "ctxr", "--version"], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("ctxr ")

"""The laws of the house: those that import-linter checks (`make check`), and those that no tool does."""

import ast
import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from ctxr.cli.commands import COMMANDS

PACKAGE = Path(__file__).resolve().parent.parent / "ctxr"
TREES = {file: ast.parse(file.read_text()) for file in sorted(PACKAGE.rglob("*.py"))}
NO_ROOM = {"utils", "util", "common", "core", "helpers", "misc", "tools"}
HEAVY = {"torch", "torchvision", "open_clip", "timm"}
WITH_TORCH = {"media", "models", "problems"}
"""`media` reads published weights of BRISQUE and runs the gate before OCR."""

ON_A_BROKEN_MACHINE = "pipelines/inspection/doctor.py"
"""`ctxr doctor` says what is wrong with torch where its import fails."""

BEHIND_TORCH = [
    "ctxr.models.encoders",
    "ctxr.models.hub",
    "ctxr.models.precision",
    "ctxr.pipelines.inspection.artifact_check",
]
"""What doctor imports inside functions, because it imports torch."""

LONGEST_FUNCTION = 60
LARGEST_FOLDER = 25
"""In lines, and in Python files."""


@cache
def functions() -> list[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef]]:
    """All functions, also those within others, each with its file."""
    kinds = ast.FunctionDef | ast.AsyncFunctionDef
    found = ((file.relative_to(PACKAGE), node) for file, tree in TREES.items() for node in ast.walk(tree))
    return [(file.as_posix(), node) for file, node in found if isinstance(node, kinds)]


def imported(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module


def test_torch_stays_out_of_the_other_rooms() -> None:
    rooms = {
        file.relative_to(PACKAGE).parts[0]
        for file, tree in TREES.items()
        if HEAVY & {name.split(".")[0] for name in imported(tree)}
    }
    assert rooms <= WITH_TORCH


def test_an_import_upwards_is_found(tmp_path: Path) -> None:
    shutil.copytree(PACKAGE, tmp_path / "ctxr", ignore=lambda _, names: [one for one in names if one == "__pycache__"])
    shutil.copy(PACKAGE.parent / "pyproject.toml", tmp_path)
    code = "import sys; from importlinter.cli import lint_imports; sys.exit(lint_imports(no_cache=True))"
    with (tmp_path / "ctxr" / "metrics" / "compare.py").open("a") as file:
        file.write("from ctxr import pipelines\nfrom ..pipelines import crowd\n")
    command, environment = [sys.executable, "-c", code], os.environ | {"PYTHONPATH": "."}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    broken = {"ctxr.metrics.compare -> ctxr.pipelines", "ctxr.metrics.compare -> ctxr.pipelines.crowd"}
    assert (done.returncode, set(re.findall(r"^- (ctxr\.metrics\S+ -> \S+)", done.stdout, re.MULTILINE))) == (1, broken)


def test_no_function_but_those_of_doctor_imports_the_package() -> None:
    hidden = [
        (file, node.module if isinstance(node, ast.ImportFrom) else node.names[0].name)
        for file, function in functions()
        for node in ast.walk(function)
        if isinstance(node, ast.Import | ast.ImportFrom)
        if (isinstance(node, ast.ImportFrom) and node.level)
        or any(name.split(".")[0] == "ctxr" for name in imported(node))
    ]
    assert sorted(hidden) == [(ON_A_BROKEN_MACHINE, name) for name in BEHIND_TORCH]


def test_no_function_is_longer_than_a_screen() -> None:
    lines = {f"{file}:{one.lineno}": (one.end_lineno or 0) - one.lineno + 1 for file, one in functions()}
    assert not {where: count for where, count in lines.items() if count > LONGEST_FUNCTION}


def test_no_folder_is_a_heap() -> None:
    sizes = Counter(file.parent.relative_to(PACKAGE) for file in TREES)
    assert not {folder: size for folder, size in sizes.items() if size > LARGEST_FOLDER}


def test_a_public_class_name_has_one_meaning() -> None:
    found: dict[str, list[str]] = {}
    for file, tree in TREES.items():
        for node in tree.body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                found.setdefault(node.name, []).append(str(file.relative_to(PACKAGE)))
    assert not {name: files for name, files in found.items() if len(files) > 1}


def test_there_is_no_room_without_a_name() -> None:
    assert not {part.stem for part in PACKAGE.rglob("*")} & NO_ROOM


@pytest.mark.parametrize(
    "statement",
    [
        "from ctxr.cli.app import app; import typer; typer.main.get_command(app).list_commands(None)",
        "from ctxr.cli import commands, verbs; [verbs.named(one.config) for one in commands.COMMANDS.values()]",
        "import ctxr.cli.views",
    ],
)
def test_the_front_door_is_light(statement: str) -> None:
    heavy = "{'torch', 'numpy', 'cv2', 'av', 'ray', 'scenedetect', 'spacy', 'yaml'}"
    code = f"{statement}\nimport sys\nprint(sorted({heavy} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_the_help_of_a_command_imports_nothing_heavy() -> None:
    code = f"""
import sys
import tomllib
from ctxr.cli.app import app
for command in {list(COMMANDS)}:
    try:
        app([command, "--help"])
    except SystemExit:
        pass
    print(command, sorted({{"torch", "numpy", "cv2", "av", "ray"}} & set(sys.modules)), file=sys.stderr)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr.splitlines() == [f"{command} []" for command in COMMANDS]


def test_the_package_runs_as_a_module() -> None:
    done = subprocess.run([sys.executable, "-m", "ctxr", "--version"], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("ctxr ")


def test_a_wheel_has_every_file_of_the_package() -> None:
    settings = tomllib.loads((PACKAGE.parent / "pyproject.toml").read_text())
    patterns = settings["tool"]["setuptools"]["package-data"]["ctxr"]
    packed = {file for pattern in patterns for file in PACKAGE.glob(pattern)}
    there = {file for file in PACKAGE.rglob("*") if file.is_file() and "__pycache__" not in file.parts}
    assert sorted(there - packed - {*TREES}) == []
    assert [file for file in TREES if not (file.parent / "__init__.py").is_file()] == []

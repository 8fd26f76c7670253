"""What the documents say is there, is there."""

import re
from collections.abc import Sequence
from dataclasses import Field, fields
from pathlib import Path
from typing import Any

import pytest

from ctxr.cli.commands import COMMANDS
from ctxr.models.entailment.recipe import ClassifierRecipe
from ctxr.models.training.recipe import Recipe
from scripts.cli_docs import TARGET, page

ROOT = Path(__file__).resolve().parent.parent
COMMON = {field.name for field in fields(Recipe)}
DOCUMENTS = [ROOT / "README.md", ROOT / "AGENTS.md", *sorted((ROOT / "docs").glob("*.md"))]


def test_the_page_of_commands_is_what_the_commands_say() -> None:
    assert TARGET.read_text(encoding="utf-8") == page()


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_every_path_named_is_there(document: Path) -> None:
    text = document.read_text(encoding="utf-8")
    named = set(re.findall(r"`((?:ctxr|tests|bench|scripts|docs)/[\w./-]+)`", text)) | set(
        re.findall(r"\]\((docs/[\w.]+)\)", text)
    )
    assert not {path for path in named if not (ROOT / path.rstrip("/")).exists()}


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_every_link_between_documents_leads_somewhere(document: Path) -> None:
    linked = re.findall(r"\]\(([\w./-]+\.md)\)", document.read_text(encoding="utf-8"))
    assert not [path for path in linked if not (document.parent / path).is_file()]


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_every_command_named_is_there(document: Path) -> None:
    named = set(re.findall(r"(?:`|^    )ctxr ([a-z][a-z-]+)", document.read_text(encoding="utf-8"), re.MULTILINE))
    assert named <= set(COMMANDS)


@pytest.mark.parametrize(
    ("document", "head", "wanted"),
    [
        ("models.md", "recipe key", fields(Recipe)),
        ("entailment.md", "classifier key", [one for one in fields(ClassifierRecipe) if one.name not in COMMON]),
    ],
)
def test_the_table_of_recipe_keys_is_that_of_the_recipe(document: str, head: str, wanted: Sequence[Field[Any]]) -> None:
    def shown(value: object) -> str:
        if isinstance(value, bool):
            return str(value).lower()
        return f"{value:g}" if isinstance(value, int | float) else str(value) or "–"

    text = (ROOT / "docs" / document).read_text(encoding="utf-8")
    table = text.partition(f"| {head} | default | what it is |\n")[2].partition("\n\n")[0]
    rows = re.findall(r"^\| `(\w+)` \| (.*?) \| .+ \|$", table, re.MULTILINE)
    assert rows == [(field.name, shown(field.default)) for field in wanted]


def test_the_readme_names_every_command() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert all(f"ctxr {name}" in text for name in COMMANDS)


def test_the_map_of_the_pipelines_names_files_that_are_there() -> None:
    text = (ROOT / "docs" / "house.md").read_text(encoding="utf-8")
    section = text.partition("## In the corridors")[2].partition("\n## ")[0]
    named = set(re.findall(r"^\|(.*?)\|", section, re.MULTILINE))
    files = {name for cell in named for name in re.findall(r"`([\w/.]+)`", cell)}
    assert {"inputs.py", "exporting/"} <= files
    assert not {name for name in files if not (ROOT / "ctxr" / "pipelines" / name).exists()}

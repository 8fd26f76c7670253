"""Paths, commands and tables in the documents match the code."""

import re
import tomllib
from collections.abc import Iterator
from dataclasses import fields
from itertools import pairwise
from pathlib import Path

import pytest
from markdown_it import MarkdownIt
from markdown_it.token import Token

import ctxr
from ctxr.cli.commands import COMMANDS
from ctxr.engine.options import Options
from ctxr.models.entailment.recipe import ClassifierRecipe
from ctxr.models.training.recipe import Recipe, ScorerRecipe
from ctxr.problems.contextual.recipe import ContextualRecipe
from ctxr.problems.dialogue.recipe import DialogueRecipe
from ctxr.problems.gallery.recipe import GalleryRecipe
from ctxr.problems.intent.recipe import IntentRecipe
from ctxr.problems.links.recipe import LinksRecipe
from ctxr.problems.traces.recipe import TracesRecipe
from scripts.cli_docs import TARGET, page

ROOT = Path(__file__).resolve().parent.parent
DOCUMENTS = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]


def test_the_page_of_commands_is_what_the_commands_say() -> None:
    assert TARGET.read_text(encoding="utf-8") == page()


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_every_path_named_is_there(document: Path) -> None:
    text = document.read_text(encoding="utf-8")
    named = set(re.findall(r"`((?:ctxr|tests|bench|scripts|docs)/[\w./-]+)`", text)) | set(
        re.findall(r"\]\((docs/[\w.]+)\)", text)
    )
    assert not {path for path in named if not (ROOT / path.rstrip("/")).exists()}


def tokens(document: Path) -> Iterator[Token]:
    """What a document consists of, as Markdown; what is inside lines, too."""
    for token in MarkdownIt().parse(document.read_text(encoding="utf-8")):
        yield from (token, *(token.children or ()))


def directives(document: Path, name: str) -> list[tuple[str, list[str]]]:
    """Argument and lines, without options, of each directive of that name."""
    found = [one for one in tokens(document) if one.type == "fence" and one.info.startswith(f"{{{name}}}")]
    lines = ((one.info.partition("}")[2].strip(), one.content.splitlines()) for one in found)
    return [(given, [line for line in listed if line and line[0] != ":"]) for given, listed in lines]


def anchors(document: Path) -> set[str]:
    """The anchors of the headings to which a page of the site gives one, also of what it includes."""
    found = [*tokens(document)]
    titles = (after.content for one, after in pairwise(found) if one.type == "heading_open" and one.tag <= "h3")
    included = (document.parent / given for given, _ in directives(document, "include"))
    own = {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}
    return own.union(*map(anchors, included))


def addresses(document: Path) -> list[str]:
    """Where links and pictures of a document lead, in Markdown, HTML, and figures."""
    found = [str(value) for one in tokens(document) for name in ("href", "src") if (value := one.attrs.get(name))]
    html = "".join(one.content for one in tokens(document) if one.type.startswith("html"))
    figures = [given for name in ("figure", "image") for given, _ in directives(document, name)]
    return [*found, *re.findall(r'(?:href|src|srcset)="(.*?)"', html), *figures]


def listed_pages() -> list[str]:
    """The pages of the site, by the tables of contents of its first one."""
    return ["index", *(page for _, pages in directives(ROOT / "docs" / "index.md", "toctree") for page in pages)]


def test_every_page_of_the_site_is_listed_once() -> None:
    pages = {page.stem: page for page in (ROOT / "docs").glob("*.md")}
    parts = [ROOT / "docs" / given for page in pages.values() for given, _ in directives(page, "include")]
    assert [part for part in parts if not part.is_file()] == []
    assert sorted(listed_pages()) == sorted(pages.keys() - {part.stem for part in parts})


@pytest.mark.parametrize(
    "document", [*DOCUMENTS, ROOT / "CHANGELOG.md", ROOT / "RELEASE.md"], ids=lambda path: path.name
)
def test_every_link_and_picture_of_a_document_leads_somewhere(document: Path) -> None:
    pages, lost = {ROOT / "docs" / f"{name}.md" for name in listed_pages()}, []
    for address in addresses(document):
        path, _, anchor = address.partition("#")
        target = (document.parent / path).resolve() if path else document
        there = target in pages if document in pages and target.suffix == ".md" else target.is_file()
        if "://" not in address and not (there and (not anchor or anchor in anchors(target))):
            lost.append(address)
    assert lost == []


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_every_command_named_is_there(document: Path) -> None:
    named = set(re.findall(r"(?:`|^    )ctxr ([a-z][a-z-]+)", document.read_text(encoding="utf-8"), re.MULTILINE))
    assert named <= set(COMMANDS)


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_every_module_that_a_document_runs_exists(document: Path) -> None:
    text = document.read_text(encoding="utf-8")
    named = set(re.findall(r"python -m (scripts|bench)[. ](\w+)", text))
    assert not {f"{folder}/{name}" for folder, name in named if not (ROOT / folder / f"{name}.py").is_file()}


def test_the_readme_needs_no_script_of_a_checkout() -> None:
    assert "python -m scripts" not in (ROOT / "README.md").read_text(encoding="utf-8")


def test_no_hint_installs_ctxr_from_an_index_that_does_not_have_it() -> None:
    documents = [one for one in DOCUMENTS if one.name != "log.md"]  # the log is history
    wanted = re.compile(r"pip install [^`\n]*\bctxr\b(?!/)")
    assert not [
        file.name
        for file in (*documents, *(ROOT / "ctxr").rglob("*.py"))
        if wanted.search(file.read_text(encoding="utf-8"))
    ]


@pytest.mark.parametrize(
    ("document", "head", "recipe", "above"),
    [
        ("models.md", "recipe key", Recipe, Options),
        ("models.md", "scorer key", ScorerRecipe, Recipe),
        ("models.md", "key over sets", ContextualRecipe, ScorerRecipe),
        ("models.md", "key over galleries", GalleryRecipe, ScorerRecipe),
        ("links.md", "document key", LinksRecipe, Recipe),
        ("traces.md", "trace key", TracesRecipe, Recipe),
        ("intent.md", "intent key", IntentRecipe, Recipe),
        ("dialogues.md", "dialogue key", DialogueRecipe, Recipe),
        ("entailment.md", "classifier key", ClassifierRecipe, Recipe),
    ],
)
def test_the_table_of_recipe_keys_is_that_of_the_recipe(
    document: str, head: str, recipe: type[Options], above: type[Options]
) -> None:
    def shown(value: object) -> str:
        if isinstance(value, bool):
            return str(value).lower()
        return f"{value:g}" if isinstance(value, int | float) else str(value) or "–"

    text = (ROOT / "docs" / document).read_text(encoding="utf-8")
    table = text.partition(f"| {head} | default | what it is |\n")[2].partition("\n\n")[0]
    rows = re.findall(r"^\| `(\w+)` \| (.*?) \| .+ \|$", table, re.MULTILINE)
    wanted = [field for field in fields(recipe) if field.name not in {one.name for one in fields(above)}]
    assert rows == [(field.name, shown(field.default)) for field in wanted]


def test_every_record_that_the_format_names_is_a_class() -> None:
    text = (ROOT / "docs" / "format.md").read_text(encoding="utf-8")
    named = set(re.findall(r"(?:\| |; |\()([A-Z][a-z]+(?:[A-Z][a-z]+)*):", text))
    source = "\n".join(path.read_text(encoding="utf-8") for path in (ROOT / "ctxr").rglob("*.py"))
    assert {"ImageSet", "ImageDifference", "AuditSample"} <= named
    assert named <= set(re.findall(r"^class (\w+)\b", source, re.MULTILINE))


def test_the_python_reference_has_every_name_that_python_offers() -> None:
    text = (ROOT / "docs" / "api.md").read_text(encoding="utf-8")
    assert set(re.findall(r"auto\w+:: ctxr\.(\w+)", text)) == {*ctxr.__all__} - {"__version__"}


def test_the_readme_names_every_command() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert all(f"ctxr {name}" in text for name in COMMANDS)


def rooms_in(folder: str) -> set[str]:
    """Modules and packages of a folder, without those that begin with an underscore."""
    return {
        path.stem
        for path in (ROOT / folder).iterdir()
        if (path.is_dir() or path.suffix == ".py") and path.stem[0] != "_"
    }


def rooms_of(document: str) -> list[str]:
    """The rooms that the table of a document lists, in its order."""
    text = (ROOT / document).read_text(encoding="utf-8")
    table = text.partition("| room | holds |\n| --- | --- |\n")[2].partition("\n\n")[0]
    cells = re.findall(r"^\|(.*?)\|", table, re.MULTILINE)
    return [re.sub(r"ctxr/|\.py|/", "", name) for cell in cells for name in re.findall(r"`([\w/.]+)`", cell)]


@pytest.mark.parametrize("document", ["docs/house.md", "CONTRIBUTING.md"])
def test_the_rooms_are_the_layers_from_top_to_bottom(document: str) -> None:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"][
        "contracts"
    ]
    layers = next(contract["layers"] for contract in contracts if contract["type"] == "layers")
    names = [name.strip().removeprefix("ctxr.") for layer in layers for name in layer.split("|")]
    assert rooms_of(document) == names
    assert set(names) == rooms_in("ctxr") - {"configs"}


def test_the_groups_of_the_pipelines_are_its_folders() -> None:
    text = (ROOT / "docs" / "house.md").read_text(encoding="utf-8")
    table = text.partition("| group of `pipelines` | verbs |\n| --- | --- |\n")[2].partition("\n\n")[0]
    groups = dict(re.findall(r"^\| `(\w+)` \| (.*) \|$", table, re.MULTILINE))
    verbs = {verb for cell in groups.values() for verb in cell.split(", ")}
    assert set(groups) == rooms_in("ctxr/pipelines")
    assert verbs == {verb for verb, command in COMMANDS.items() if command.module.startswith("ctxr.pipelines.")}
    assert all(f".{group}." in COMMANDS[verb].module for group, cell in groups.items() for verb in cell.split(", "))


def test_each_file_named_in_a_row_of_the_rooms_is_in_that_room() -> None:
    text = (ROOT / "docs" / "house.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(\w+)` \| (.*) \|$", text, re.MULTILINE)
    files = {f"{room}/{name}" for room, cell in rows for name in re.findall(r"`(\w+(?:\.py|/))`", cell)}
    assert {"cli/words.py", "annotation/tasks/", "datasets/readers/"} <= files
    assert not {name for name in files if not (ROOT / "ctxr" / name).exists()}

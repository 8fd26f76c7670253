"""A release proves its figures: a script without ctxr finds them again, and names the one that was changed."""

import ast
import json
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

from ctxr.annotation.protocol import Protocol
from ctxr.pipelines.crowd.aggregate import run as aggregate
from ctxr.pipelines.crowd.config import Aggregate
from ctxr.pipelines.sharing import verify
from ctxr.store.hashing import sha256_file
from tests.exports import export
from tests.pipelines.crowd.answered import crowd, write
from tests.pipelines.report_artifacts import project

Row = dict[str, Any]
Change = Callable[[list[Row]], Iterable[Row]]
ALONE = "import runpy, sys; sys.modules['ctxr'] = None; sys.argv = sys.argv[1:]; runpy.run_path(sys.argv[0], run_name='__main__')"


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of a dataset that people validated."""
    work = project(tmp_path_factory.mktemp("proof") / "work", videos=6, sets=8, photos=30)
    judgments = write(work, crowd(work / "filtered", Protocol(full_share=1.0)))
    aggregate(Aggregate(input=judgments, out=work / "dataset", workdir=work, resamples=50))
    export(work / "dataset", work / "release", "hf")
    return work / "release"


def verified(folder: Path) -> subprocess.CompletedProcess[str]:
    """The script, where ctxr cannot be imported."""
    command = [sys.executable, "-c", ALONE, str(folder / "verify.py")]
    return subprocess.run(command, capture_output=True, text=True, cwd=folder)


def change(folder: Path, name: str, of: Change) -> None:
    """Change a table, and its hash in the manifest."""
    table, manifest = folder / name, folder / "manifest.json"
    before = sha256_file(table)
    rows = [json.loads(line) for line in table.read_text().splitlines()]
    table.write_text("".join(json.dumps(row) + "\n" for row in of(rows)))
    manifest.write_text(manifest.read_text().replace(before, sha256_file(table)))


def swapped(rows: list[Row]) -> list[Row]:
    """Two targets of queries trade places."""
    people = [row for row in rows if row["worker"].startswith("w-")]
    gold = [row for row in rows if row["worker"] == "gold" and row["query"] in {one["query"] for one in people}]
    one, other = gold[0], next(row for row in gold if row["candidate"] != gold[0]["candidate"])
    one["candidate"], other["candidate"] = other["candidate"], one["candidate"]
    return rows


def without_worker(rows: list[Row]) -> list[Row]:
    worker = next(row["worker"] for row in rows if row["worker"].startswith("w-"))
    return [row for row in rows if row["worker"] != worker]


def vote_edited(rows: list[Row]) -> list[Row]:
    vote = next(row for row in rows if row["worker"].startswith("w-"))
    vote["candidate"] = "somewhere/else"
    return rows


def vote_copied(rows: list[Row]) -> list[Row]:
    vote = next(row for row in rows if row["worker"].startswith("w-"))
    return [*rows, vote | {"worker": "w-somebody"}]


def first_of(name: str, value: object) -> Change:
    """The first row has another value."""
    return lambda rows: [rows[0] | {name: value}, *rows[1:]]


MUTATIONS: dict[str, tuple[str, Change, str]] = {
    "swapped targets": ("tables/judgments.jsonl", swapped, "right votes, kept descriptions"),
    "a dropped worker": ("tables/judgments.jsonl", without_worker, "people"),
    "an edited vote": ("tables/judgments.jsonl", vote_edited, "right votes, kept descriptions"),
    "a copied vote": ("tables/judgments.jsonl", vote_copied, "votes, kept descriptions"),
    "a set left out": ("tables/sets.jsonl", lambda rows: rows[1:], "sets"),
    "an image in two sets": (
        "tables/sets.jsonl",
        lambda rows: [*rows[:-1], rows[-1] | {"images": rows[0]["images"]}],
        "images",
    ),
    "another split": ("tables/splits.jsonl", first_of("split", "nowhere"), "sets, nowhere"),
    "a query left out": ("tables/queries.jsonl", lambda rows: rows[:-1], "queries"),
    "a text rewritten": ("tables/texts.jsonl", first_of("text", "word"), "words per text"),
    "dropped descriptions forgotten": ("tables/dropped.jsonl", lambda rows: rows[1:], "dropped descriptions"),
}


def test_every_figure_of_the_card_is_found_again_without_ctxr(release: Path) -> None:
    done = verified(release)
    assert (done.returncode, done.stderr) == (0, "")
    known = json.loads((release / "figures.json").read_text())["figures"]
    assert {"sets", "right votes, kept descriptions", "alpha, kept descriptions"} < known.keys()
    assert known["right votes, all descriptions"] < known["right votes, kept descriptions"]


@pytest.mark.parametrize("mutation", MUTATIONS)
def test_a_changed_table_is_noticed_by_its_figure_though_its_hash_was_rewritten(
    release: Path, tmp_path: Path, mutation: str
) -> None:
    folder = tmp_path / "copy"
    shutil.copytree(release, folder)
    table, of, figure = MUTATIONS[mutation]
    change(folder, table, of)
    found = [line.split(":")[0] for line in verify.differences_of(folder)]
    assert figure in found
    assert not [name for name in found if name.endswith(".jsonl")]


def test_a_changed_figure_card_or_file_is_named_and_the_script_fails(release: Path, tmp_path: Path) -> None:
    folder = tmp_path / "copy"
    shutil.copytree(release, folder)
    card, figures = folder / "README.md", folder / "figures.json"
    document = json.loads(figures.read_text())
    words = document["figures"]["words per text"]
    card.write_text(card.read_text().replace(f"| {words:.4f} |", f"| {words + 1:.4f} |"))
    document["figures"]["sets"] += 1
    figures.write_text(json.dumps(document))
    done = verified(folder)
    assert done.returncode == 1
    assert [line.split(":")[0] for line in done.stdout.splitlines()] == ["figures.json", "sets", "words per text"]


@pytest.mark.parametrize(
    ("row", "name"), [("| right votes, test | 0.99 |", "right votes, test"), ("| sets | 999 |", "sets")]
)
def test_a_figure_that_the_card_adds_or_says_twice_is_named(release: Path, tmp_path: Path, row: str, name: str) -> None:
    shutil.copytree(release, tmp_path / "copy")
    card = tmp_path / "copy" / "README.md"
    text = card.read_text()
    card.write_text(text.replace("| sets |", f"{row}\n| sets |", 1))
    assert [line.split(":")[0] for line in verify.differences_of(tmp_path / "copy")] == [name]


def test_missing_damaged_and_added_files_take_one_line_each(release: Path, tmp_path: Path) -> None:
    folder = tmp_path / "copy"
    shutil.copytree(release, folder)
    (folder / "tables" / "more.jsonl").write_text("{}\n")
    assert [line.split(":")[0] for line in verify.differences_of(folder)] == ["tables/more.jsonl"]
    (folder / "tables" / "queries.jsonl").write_text("{\n")
    (folder / "README.md").unlink()
    done = verified(folder)
    assert (done.returncode, done.stderr) == (1, "")
    assert [line.split(":")[0] for line in done.stdout.splitlines()][:2] == ["README.md", "tables/queries.jsonl"]
    assert len(done.stdout.splitlines()) == 3


def test_the_script_is_short_and_needs_nothing_but_numpy(release: Path) -> None:
    text = (release / "verify.py").read_text()
    assert len(text.splitlines()) <= 100
    tree = ast.walk(ast.parse(text))
    names = {alias.name for node in tree if isinstance(node, ast.Import) for alias in node.names}
    names |= {node.module or "" for node in ast.walk(ast.parse(text)) if isinstance(node, ast.ImportFrom)}
    assert {name.split(".")[0] for name in names} <= {*sys.stdlib_module_names, "numpy"}


def test_hidden_answers_are_in_no_table(release: Path, tmp_path: Path) -> None:
    export(release.parent / "dataset", tmp_path / "hidden", "hf", hide_test=True)
    sets, splits, queries, judgments = (
        [json.loads(line) for line in (tmp_path / "hidden" / "tables" / f"{name}.jsonl").read_text().splitlines()]
        for name in ("sets", "splits", "queries", "judgments")
    )
    split_of = {row["group"]: row["split"] for row in splits}
    of_set = {row["id"]: split_of[row["group"]] for row in sets}
    of_query = {row["id"]: of_set[row["image_set"]] for row in queries}
    assert {*of_query.values()} == {"train", "valid", "test"}
    assert {of_query[row["query"]] for row in judgments} == {"train", "valid"}
    assert not (tmp_path / "hidden" / "tables" / "dropped.jsonl").exists()
    assert verified(tmp_path / "hidden").returncode == 0


def test_a_recipe_proves_its_figures_with_its_own_tables(described: Path, footage: Path, tmp_path: Path) -> None:
    export(described, tmp_path / "recipe", "recipe", videos=footage)
    assert not (tmp_path / "recipe" / "tables").exists()
    assert verified(tmp_path / "recipe").returncode == 0
    change(tmp_path / "recipe", "sets.jsonl", lambda rows: rows[1:])
    assert "sets" in [line.split(":")[0] for line in verify.differences_of(tmp_path / "recipe")]

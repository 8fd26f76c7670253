"""A payload table goes where its dataset goes: into a recipe and what is rebuilt from it; other formats say what they leave out."""

import shutil
from array import array
from pathlib import Path

import pytest

from ctxr.datasets.dataset import Dataset
from ctxr.datasets.open import read_dataset
from ctxr.engine.report import Table
from ctxr.pipelines.inspection.config import Stats
from ctxr.pipelines.inspection.stats import Statistics
from ctxr.pipelines.inspection.stats import run as stats
from ctxr.store.artifacts import Content, finish, open_artifact
from ctxr.store.records import Dialogue, TimedWord, Trace, Turn
from ctxr.store.tables import write_table
from tests.exports import export, rebuild


@pytest.fixture(scope="module")
def talks(described: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The described sets with a dialogue and a trace about each query."""
    folder = tmp_path_factory.mktemp("talks") / "sets"
    shutil.copytree(described, folder)
    rows = [
        Dialogue(query.id, "unit", image_set.images[place], ("w1", "w2"), (Turn(1, "This one?"), Turn(0, "", True)), 1)
        for query, image_set, place in read_dataset(folder).targets()
    ]
    write_table(folder / "dialogues.jsonl", rows)
    drawn = array("f", [0.1, 0.2, 0.3])
    said = {row.id: TimedWord(row.id, 0.25, 0.5) for row in rows}
    write_table(folder / "traces.jsonl", [Trace(name, (word,), (drawn,), (0,)) for name, word in said.items()])
    made = open_artifact(folder).manifest
    content = Content([*made.files, "dialogues.jsonl", "traces.jsonl"], made.counts, made.models)
    finish(folder, kind=made.kind, verb=made.verb, config=made.config, parents=made.parents, content=content)
    return folder


def sides(dataset: Dataset) -> set[str | None]:
    by_id = {image_set.id: dataset.split_of(image_set) for image_set in dataset.sets}
    return {
        by_id[dataset.queries[row.id].image_set] for row in dataset.payloads["dialogues"] if isinstance(row, Dialogue)
    }


def test_a_recipe_and_what_is_rebuilt_from_it_keep_payloads(talks: Path, footage: Path, tmp_path: Path) -> None:
    whole = read_dataset(talks)
    export(talks, tmp_path / "recipe", "recipe", videos=footage)
    rebuild(tmp_path / "recipe", footage, tmp_path / "again")
    assert read_dataset(tmp_path / "again").payloads == whole.payloads
    assert sides(whole) == {"train", "valid", "test"}
    shutil.rmtree(tmp_path / "again")
    rebuild(tmp_path / "recipe", one_video(footage, tmp_path), tmp_path / "again")
    part = read_dataset(tmp_path / "again")
    assert {row.key()[0] for row in part.payloads["dialogues"]} == part.queries.keys() != whole.queries.keys()


def one_video(footage: Path, tmp_path: Path) -> Path:
    shutil.copytree(footage / "videos", tmp_path / "one", ignore=shutil.ignore_patterns("clip[12]*"))
    return tmp_path / "one"


def test_hidden_answers_of_test_are_not_told_by_a_side_table(talks: Path, footage: Path, tmp_path: Path) -> None:
    export(talks, tmp_path / "recipe", "recipe", hide_test=True, videos=footage)
    table = (tmp_path / "recipe" / "dialogues.jsonl").read_text()
    tested = {image_set.id for image_set in read_dataset(talks).sets if image_set.source == "clip2"}
    assert tested
    assert table
    assert not any(name in table for name in tested)


@pytest.mark.parametrize("to", ["webdataset", "hf", "croissant", "narratives"])
def test_a_format_without_payloads_has_them_in_its_tables_and_says_so(talks: Path, tmp_path: Path, to: str) -> None:
    count = len(read_dataset(talks).payloads["dialogues"])
    names = ["dialogues.jsonl", *["traces.jsonl"] * (to != "narratives")]
    lines = export(talks, tmp_path / "out", to).notes
    said = [" ".join(line.split()[:4]) for line in lines if "rows of" in line]
    assert said == [f"{count} rows of {name}" for name in names]
    for name in names:
        assert len((tmp_path / "out" / "tables" / name).read_text().splitlines()) == count


def test_narratives_keep_traces_of_sets_of_any_kind(talks: Path, tmp_path: Path) -> None:
    export(talks, tmp_path / "out", "narratives")
    before, after = (read_dataset(path).payloads["traces"] for path in (talks, tmp_path / "out"))
    said = [{row.words: row.strokes for row in rows if isinstance(row, Trace)} for rows in (before, after)]
    assert said[0] == said[1]
    assert len(said[0]) == len(before)


def test_payloads_are_counted(talks: Path, described: Path) -> None:
    dataset = read_dataset(talks)
    count = len(dataset.queries)
    table = Statistics(dataset, {}, {}).payloads()
    assert isinstance(table, Table)
    assert table.rows == tuple((name, count, "query", count) for name in ("dialogues", "traces"))
    assert "payload_tables" not in stats(Stats(described)).tables

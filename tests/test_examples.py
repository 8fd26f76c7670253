"""Every example runs, on drawn data and as it stands."""

import ast
import json
import runpy
import shutil
from pathlib import Path

import pytest

import ctxr
from ctxr.datasets.open import read_dataset
from ctxr.synthetic.world.footage import WorldConfig, write_world
from tests.drawn import LOADER, load_drawn
from tests.pipelines.world_dataset import write_world_dataset

EXAMPLES = Path(__file__).resolve().parent.parent / "examples"
OWN_TASK = "rate_photos.toml"
NOTEBOOKS = sorted(EXAMPLES.glob("*.ipynb"))
SHOWS = {
    "build_sets.py": "report.html",
    "check_and_export.py": "work/export-imagecode",
    "look_at_a_dataset.py": "query.png",
    "score_my_model.py": "colours",
    "train_and_compare.py": "clip-batch",
}


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    write_world_dataset(tmp_path / "work" / "dataset")
    return tmp_path


@pytest.mark.filterwarnings("default::ctxr.errors.CtxrWarning")
@pytest.mark.parametrize("name", SHOWS)
def test_an_example_runs(
    name: str, project: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert len((EXAMPLES / name).read_text().splitlines()) < 40
    if name == "build_sets.py":
        shutil.rmtree("work")
        write_world(project / "world", WorldConfig(seed=3, videos=2, seconds=5.0, albums=0, formats=("web",)))
        Path("videos").symlink_to(project / "world" / "videos")
        monkeypatch.setattr(LOADER, load_drawn)
    runpy.run_path(str(EXAMPLES / name), run_name="__main__")
    assert SHOWS[name] in capsys.readouterr().out


def test_there_are_no_other_examples() -> None:
    assert {one.name for one in EXAMPLES.iterdir() if one.suffix} == {
        *SHOWS,
        OWN_TASK,
        *(one.name for one in NOTEBOOKS),
    }


def test_the_task_of_ones_own_is_exported_with_a_unit_for_each_image(project: Path) -> None:
    report = ctxr.export_tasks(str(EXAMPLES / OWN_TASK), input=Path("work/dataset"))
    images = {image for one in read_dataset(Path("work/dataset")).sets for image in one.images}
    assert (report.tasks, report.units, report.votes) == (Path("work/tasks/rate_photos"), len(images), 3 * len(images))


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda one: one.name)
def test_a_notebook_runs_and_keeps_no_output(notebook: Path, project: Path) -> None:
    content = json.loads(notebook.read_text())
    cells = [cell for cell in content["cells"] if cell["cell_type"] == "code"]
    lines = ["shown = []"]
    for cell in cells:
        assert (cell["outputs"], cell["execution_count"]) == ([], None)
        *statements, last = ast.parse("".join(cell["source"])).body
        lines += [*map(ast.unparse, statements), f"shown.append({ast.unparse(last)})"]
    (project / "cells.py").write_text("\n".join(lines))
    shown = runpy.run_path("cells.py")["shown"]
    assert "data:image/jpeg" in shown[0]._repr_html_()
    assert "ctxr-tiny" in str(shown[-1])

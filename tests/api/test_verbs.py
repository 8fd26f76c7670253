"""The public surface: light to import, typed, and with the checks of the command line."""

import inspect
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

import ctxr
from ctxr.cli.app import app
from ctxr.cli.verbs import VERBS
from ctxr.engine.history import HISTORY
from ctxr.errors import CtxrWarning, UsageError
from scripts.api_stub import TARGET, page
from tests.pipelines.world_dataset import write_world_dataset


def test_import_ctxr_imports_nothing_heavy() -> None:
    code = (
        "import sys, ctxr; dir(ctxr); print({'numpy', 'torch', 'typer', 'rich', 'PIL', 'msgspec'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"


def test_load_imports_no_torch(tmp_path: Path) -> None:
    write_world_dataset(tmp_path / "dataset", sets=1)
    code = (
        f"import sys, ctxr; ctxr.load({str(tmp_path)!r})[0].images[0]; print({{'torch', 'scipy'}} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"


def test_the_stub_is_what_the_verbs_say() -> None:
    assert TARGET.read_text(encoding="utf-8") == page()


def test_every_verb_that_ends_is_a_function_with_the_options_of_its_command() -> None:
    ended = {name.replace("-", "_") for name, command in VERBS.items() if not command.started}
    assert {name for name in ctxr.__all__ if inspect.isfunction(getattr(ctxr, name))} - {"load", "evaluate"} == ended
    parameters = inspect.signature(ctxr.build_sets).parameters
    assert next(iter(parameters)) == "sources"
    assert parameters["threshold"].annotation == float | None
    assert "threshold: " in str(ctxr.build_sets.__doc__)
    assert not hasattr(ctxr, "serve")


def test_a_verb_returns_its_report_which_names_its_artifact(tmp_path: Path) -> None:
    dataset, work = write_world_dataset(tmp_path / "work" / "dataset"), tmp_path / "work"
    with pytest.warns(CtxrWarning, match="photos0/4/tags"):
        report = ctxr.export(to="imagecode", input=str(dataset), workdir=work, out=tmp_path / "release")
    assert report.place == tmp_path / "release"
    assert len(ctxr.load(report)) == len(ctxr.load(dataset))
    assert '"export"' in (work / HISTORY).read_text()
    with pytest.raises(UsageError, match="StatsReport"):
        ctxr.load(ctxr.stats(dataset, workdir=work, tokenizer="regex"))


@pytest.mark.parametrize(
    ("key", "value", "written"),
    [("threshold", "x", '"x"'), ("treshold", 0.3, "0.3"), ("threshold", 9, "9"), ("yes", 1, "1")],
)
def test_a_wrong_value_gives_the_sentence_of_the_command(key: str, value: object, written: str, tmp_path: Path) -> None:
    (tmp_path / "c.toml").write_text(f"{key} = {written}\n")
    typed = CliRunner().invoke(app, ["build-sets", str(tmp_path), "--config", str(tmp_path / "c.toml"), "--json"])
    with pytest.raises(UsageError) as caught:
        ctxr.build_sets(tmp_path, **{key: value})  # type: ignore[call-overload]
    told = caught.value.message.replace("ctxr.build_sets()", str(tmp_path / "c.toml"))
    assert told in typed.output
    assert caught.value.hint in (*caught.value.__notes__, "")


def test_a_value_by_its_place_is_the_argument_of_the_command(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="nowhere"):
        ctxr.build_sets(["nowhere", tmp_path], threshold=None)
    for call in (lambda: ctxr.filter("sets"), lambda: ctxr.stats("a", dataset="b")):  # type: ignore[misc, call-overload]
        with pytest.raises(UsageError, match=r"'(sets|a)'"):
            call()


def test_warnings_and_findings_are_warnings_at_the_line_that_called(tmp_path: Path) -> None:
    dataset = write_world_dataset(tmp_path / "dataset")
    (dataset / "texts.jsonl").write_text("")
    with pytest.warns(CtxrWarning) as caught:
        report = ctxr.doctor(dataset, workdir=tmp_path)
    assert report.problems == 1
    assert [one.filename for one in caught] == [__file__]


def test_progress_shows_notes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    dataset = write_world_dataset(tmp_path / "dataset")
    for shown in (False, True):
        ctxr.stats(workdir=dataset.parent, tokenizer="regex", progress=shown)
        assert (str(dataset) in capsys.readouterr().err) is shown

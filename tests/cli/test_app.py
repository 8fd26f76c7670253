"""The front door: exit codes, hints, configuration files."""

from dataclasses import fields
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from ctxr.cli.app import COMMANDS, app
from ctxr.cli.options import field_help, load_toml
from ctxr.errors import CtxrError, DataError, FindingsError, UnfinishedError, UsageError
from ctxr.pipelines.audit import Audit
from ctxr.pipelines.build_sets import BuildSets
from ctxr.pipelines.filter import Filter
from ctxr.pipelines.stats import Stats

runner = CliRunner()


@pytest.mark.parametrize("name", list(COMMANDS))
def test_every_command_has_help_that_names_json(name: str) -> None:
    result = runner.invoke(app, [name, "--help"])
    assert result.exit_code == 0
    assert "--json" in result.stdout


@pytest.mark.parametrize("config", [BuildSets, Filter, Stats, Audit])
def test_every_option_explains_itself(config: type) -> None:
    texts = field_help(config)
    assert set(texts) == {field.name for field in fields(config)}
    assert all(text.endswith(".") for text in texts.values())


@pytest.mark.parametrize(
    ("error", "code"),
    [(CtxrError, 1), (UsageError, 2), (DataError, 3), (UnfinishedError, 4), (FindingsError, 5)],
)
def test_an_error_becomes_one_sentence_a_hint_and_its_code(
    error: type[CtxrError], code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise error("the [thing] broke", hint="mend it")

    monkeypatch.setattr("ctxr.pipelines.filter.run", fail)
    result = runner.invoke(app, ["filter"])
    assert result.exit_code == code
    assert result.stderr.split("\n")[:2] == ["error: the [thing] broke", "hint:  mend it"]


def test_an_interrupt_says_how_to_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("ctxr.pipelines.filter.run", stop)
    result = runner.invoke(app, ["filter"])
    assert result.exit_code == 130
    assert "interrupted" in result.stderr


def test_typed_options_win_over_the_file_and_the_file_over_defaults(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[Filter] = []

    def note(config: Filter, *_: object) -> None:
        seen.append(config)
        raise typer.Exit

    monkeypatch.setattr("ctxr.pipelines.filter.run", note)
    (tmp_path / "f.toml").write_text('brisque = 1\nmax-text = 0.2\nout = "there"\n')
    result = runner.invoke(app, ["filter", "--config", str(tmp_path / "f.toml"), "--brisque", "0.65"])
    assert result.exit_code == 0
    assert seen == [Filter(brisque=0.65, max_text=0.2, out=Path("there"))]


def test_the_workdir_can_come_from_the_environment(tmp_path: Path) -> None:
    result = runner.invoke(app, ["filter", "--brisque", "0.65"], env={"CTXR_WORKDIR": str(tmp_path / "project")})
    assert result.exit_code == 4
    assert "project/sets is not there" in result.stderr.replace("\n", "")


@pytest.mark.parametrize(
    ("text", "error", "message"),
    [
        ("brisk = 1", UsageError, "unknown key 'brisk'"),
        ("brisque = 'much'", DataError, "brisque = 'much' is not float"),
        ("min_size = true", DataError, "min_size = True is not int"),
        ("brisque = ", DataError, "is not TOML"),
    ],
)
def test_a_wrong_configuration_file_is_one_sentence(
    tmp_path: Path, text: str, error: type[CtxrError], message: str
) -> None:
    (tmp_path / "f.toml").write_text(text)
    with pytest.raises(error, match=message):
        load_toml(tmp_path / "f.toml", Filter)


def test_an_unknown_command_is_a_usage_error() -> None:
    assert runner.invoke(app, ["build-set"]).exit_code == 2

"""The front door: exit codes, hints, configuration files."""

import errno
import json
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Callable
from dataclasses import dataclass, fields
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from ctxr import __version__
from ctxr.annotation.config import ExportTasks, ImportAnswersReport
from ctxr.annotation.protocol import StudyNumbers
from ctxr.cli.app import GRACE, app
from ctxr.cli.call import load_toml
from ctxr.cli.commands import COMMANDS
from ctxr.cli.verbs import Command, named
from ctxr.cli.words import EXAMPLES, PANELS
from ctxr.engine.history import HISTORY, part_of_run
from ctxr.engine.options import LAST, Options, option_name
from ctxr.engine.progress import Progress
from ctxr.engine.report import VerbReport
from ctxr.errors import CtxrError, DataError, FindingsError, UnfinishedError, UsageError
from ctxr.pipelines.curation.config import BuildSets, Filter
from ctxr.store.artifacts import Content, finish

runner = CliRunner()
FILTER = ["filter", "--brisque", "1"]


@pytest.fixture
def fails(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Makes the run of a verb raise an error."""

    def call(error: BaseException, verb: str = "curation.filter") -> None:
        def fail(*_: object) -> None:
            raise error

        monkeypatch.setattr(f"ctxr.pipelines.{verb}.run", fail)

    return call


@pytest.mark.parametrize(
    ("words", "named_as"), [(["eval"], "--dataset"), (["report"], "--input"), (["shortcuts"], "DATASET")]
)
def test_a_hint_names_the_option_that_the_command_has(words: list[str], named_as: str, tmp_path: Path) -> None:
    result = runner.invoke(app, [*words, "-w", str(tmp_path), "--json"])
    assert json.loads(result.stdout)["hint"].endswith(f": {named_as})")


def test_an_interrupted_command_ends_with_130_whatever_was_loading() -> None:
    # a library whose threads were loading aborts the process when Python takes it down
    lines = (
        "import atexit, os, sys, ctxr.pipelines.curation.filter as work",
        "from ctxr.cli.app import main",
        "atexit.register(os.abort)",
        "work.run = lambda *_: exec('raise KeyboardInterrupt')",
        "sys.argv = ['ctxr', 'filter', '--brisque', '1']",
        "main()",
    )
    done = subprocess.run([sys.executable, "-c", "\n".join(lines)], capture_output=True, text=True, check=False)
    assert (done.returncode, "interrupted" in done.stderr) == (130, True)


@pytest.mark.parametrize("name", list(COMMANDS))
def test_every_command_has_help_that_names_json(name: str) -> None:
    result = runner.invoke(app, [name, "--help"])
    assert result.exit_code == 0
    assert "--json" in result.stdout


@pytest.mark.parametrize("name", COMMANDS)
def test_help_puts_options_under_headings_and_tells_each_default_once(name: str) -> None:
    config = named(COMMANDS[name].config)
    shown = runner.invoke(app, [name, "--help"]).stdout
    filed = config.in_file()
    offered = {
        field: option for field, option in config.describe().items() if not filed or field not in filed.describe()
    }
    headings = re.findall(r"^╭─ (.*?) ─+╮$", shown, re.MULTILINE)
    wanted = dict.fromkeys(option.panel for option in offered.values() if option.panel)
    assert headings == [*(["Arguments"] if config.ARGUMENT else []), "Options", *wanted]
    assert [*wanted] == sorted(
        wanted, key=lambda heading: ("Expert", "Cluster").index(heading) if heading in LAST else -1
    )
    assert "<bool>" not in shown
    assert "list[" not in shown
    assert f"Example: {EXAMPLES.get(name, f'ctxr {name}')}\n" in re.sub(" +\n", "\n", shown)
    assert not [field for field, one in offered.items() if one.default not in (None, "", ()) and "default:" in one.help]


def test_the_list_of_commands_has_a_heading_for_each() -> None:
    shown = runner.invoke(app, ["--help"]).stdout
    assert re.findall(r"^╭─ (.*?) ─+╮$", shown, re.MULTILINE) == ["Options", *PANELS]
    assert sorted(" ".join(PANELS.values()).split()) == sorted(COMMANDS)


def test_build_sets_takes_its_rank_from_torchrun(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Any] = []
    monkeypatch.setattr("ctxr.cli.call.call_verb", lambda _, config, *rest: seen.append(config))
    monkeypatch.setenv("RANK", "2")
    monkeypatch.setenv("WORLD_SIZE", "4")
    runner.invoke(app, ["build-sets", "."])
    runner.invoke(app, ["build-sets", ".", "--rank", "1", "--world-size", "3"])
    monkeypatch.setenv("RANK", "0")
    monkeypatch.setenv("WORLD_SIZE", "1")
    runner.invoke(app, ["build-sets", "."])
    runner.invoke(app, ["build-sets", ".", "--rank", "0", "--world-size", "1"])
    assert [(one.rank, one.world_size) for one in seen] == [(2, 4), (1, 3), (None, None), (0, 1)]


def test_only_the_first_process_of_torchrun_tells_of_an_error_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    waited: list[float] = []
    monkeypatch.setattr("ctxr.cli.app.time.sleep", waited.append)

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    for rank in ("0", "1"):
        for name, value in {"RANK": rank, "WORLD_SIZE": "2", "MASTER_ADDR": "here"}.items():
            monkeypatch.setenv(name, value)
        with monkeypatch.context() as patched:
            patched.setattr("ctxr.cli.call.call_process", interrupt)
            stopped = runner.invoke(app, ["train"])
        assert (stopped.exit_code, bool(stopped.stderr)) == (130, rank == "0")
        assert not waited
    assert "unknown" in runner.invoke(app, ["train", "--device", "gpu"]).stderr
    assert waited == [GRACE]


def test_the_numbers_of_a_study_come_from_a_file_that_help_prints(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[Any] = []
    monkeypatch.setattr("ctxr.cli.call.call_verb", lambda _, config, *rest: seen.append(config))
    file = tmp_path / "protocol.toml"
    file.write_text(runner.invoke(app, ["export-tasks", "--show-protocol"]).stdout)
    assert tomllib.loads(file.read_text()) == {name: one.default for name, one in StudyNumbers.describe().items()}
    assert not seen
    words = ["export-tasks", "describe", "--protocol", str(file)]
    runner.invoke(app, words)
    file.write_text('targets = 1\ndisjoint = "none"\n')
    runner.invoke(app, words)
    assert seen == [ExportTasks(task="describe"), ExportTasks(task="describe", targets=1, disjoint="none")]
    assert seen[1].command_line() == "ctxr export-tasks describe --protocol FILE"
    for wrong, why in (("targts = 1", "targts"), ("targets = true", "targets")):
        file.write_text(wrong)
        refused = runner.invoke(app, words)
        assert (refused.exit_code, why in refused.stderr) == (2, True)
    assert "--targets" in runner.invoke(app, ["export-tasks", "describe", "--targets", "1"]).stderr


@pytest.mark.parametrize("command", COMMANDS.values(), ids=COMMANDS)
def test_what_a_command_names_is_there(command: Command) -> None:
    for dotted in (f"{command.module}:run", command.view, command.started):
        assert not dotted or callable(named(dotted))
    config = named(command.config)
    assert config.ARGUMENT in ("", *config.describe())


@pytest.mark.parametrize("config", [named(command.config) for command in COMMANDS.values()])
def test_every_option_explains_itself(config: type[Options]) -> None:
    assert all(option.help.endswith((".", "?")) for option in config.describe().values())
    parts = (part for owner in config.__mro__ for part in vars(owner).get("PANELS", "").split(";"))
    assert {name for part in parts for name in part.partition(":")[2].split()} <= config.describe().keys()


@pytest.mark.parametrize(
    ("error", "code"),
    [(CtxrError, 1), (UsageError, 2), (DataError, 3), (UnfinishedError, 4), (FindingsError, 5)],
)
def test_an_error_becomes_one_sentence_a_hint_and_its_code(
    error: type[CtxrError], code: int, fails: Callable[..., None]
) -> None:
    fails(error("the [thing] broke", hint="mend it"))
    result = runner.invoke(app, FILTER)
    assert result.exit_code == code
    assert result.stderr.split("\n")[1:3] == ["error: the [thing] broke", "hint:  mend it"]


def test_an_interrupt_says_how_to_go_on(fails: Callable[..., None]) -> None:
    fails(KeyboardInterrupt())
    fails(KeyboardInterrupt(), "inspection.report")
    # nothing of a report is kept
    for words, hint in ((FILTER, "same command again: it"), (["report"], "same command again\n")):
        result = runner.invoke(app, words)
        assert result.exit_code == 130
        assert "interrupted" in result.stderr
        assert hint in result.stderr


def test_typed_options_win_over_the_file_and_the_file_over_defaults(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[Filter] = []

    def note(config: Filter, *_: object) -> None:
        seen.append(config)
        raise typer.Exit

    monkeypatch.setattr("ctxr.pipelines.curation.filter.run", note)
    (tmp_path / "f.toml").write_text('brisque = 1\nmax-text = 0.2\nout = "there"\n')
    result = runner.invoke(app, ["filter", "--config", str(tmp_path / "f.toml"), "--brisque", "0.65"])
    assert result.exit_code == 0
    assert seen == [Filter(brisque=0.65, max_text=0.2, out=Path("there"))]


def history(workdir: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (workdir / HISTORY).read_text().splitlines()]


def test_each_run_is_noted_in_the_history_of_its_project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def make(config: Filter, _progress: Progress) -> None:
        with part_of_run(config) as run:
            run.artifacts[config.folder()] = len(history(tmp_path)) > 0
            raise DataError("broken")

    (tmp_path / HISTORY).touch()
    monkeypatch.setattr("ctxr.pipelines.curation.filter.run", make)
    words = ["filter", "--brisque", "1", "-w", str(tmp_path)]
    for _ in range(2):
        assert runner.invoke(app, words).exit_code == 3
    first, second = history(tmp_path)
    assert (first["words"], first["exit_code"]) == (words, 3)
    assert first["artifacts"] == [{"path": "filtered", "up_to_date": False}]
    assert second["artifacts"] == [{"path": "filtered", "up_to_date": True}]
    assert first["ctxr"] == __version__
    assert 0 <= first["seconds"] < 60
    assert datetime.fromisoformat(first["at"]).utcoffset() == timedelta()


@pytest.mark.parametrize(
    ("words", "noted"),
    [
        (["filter"], False),  # no limit: nothing ran
        (["filter", "--brisque", "much"], False),
        (["filter", "--help"], False),
        (["filter", "--brisque", "1"], True),
        (["plan"], True),
    ],
)
def test_only_what_ran_is_noted_and_no_folder_is_made_for_it(words: list[str], noted: bool, tmp_path: Path) -> None:
    missing, there = tmp_path / "missing", tmp_path / "there"
    there.mkdir()
    for workdir in (missing, there):
        runner.invoke(app, [*words, "-w", str(workdir)])
    assert not missing.exists()
    assert (there / HISTORY).exists() == noted


@pytest.mark.parametrize(
    ("typed", "shown"),
    [
        ("postgresql://ada:pass/w@rd@host/study", "postgresql://ada:***@host/study"),
        ("postgresql://ada@host/study?password=secret", "postgresql://ada@host/study?***"),
        ("postgresql://ada@host/study", "postgresql://ada@host/study"),
    ],
)
def test_no_password_is_noted(typed: str, shown: str, tmp_path: Path, fails: Callable[..., None]) -> None:
    fails(DataError("broken"), "crowd.workers")
    runner.invoke(app, ["workers", "-w", str(tmp_path), "--database", typed])
    assert history(tmp_path)[0]["words"][-1] == shown


def test_a_history_that_cannot_be_written_is_no_error(tmp_path: Path) -> None:
    (tmp_path / HISTORY).mkdir()
    result = runner.invoke(app, ["filter", "--brisque", "1", "-w", str(tmp_path)])
    assert result.exit_code == 4
    assert HISTORY not in result.stderr


def test_the_workdir_can_come_from_the_environment(tmp_path: Path) -> None:
    result = runner.invoke(app, ["filter", "--brisque", "0.65"], env={"CTXR_WORKDIR": str(tmp_path / "project")})
    assert result.exit_code == 4
    assert "project/sets does not" in result.stderr.replace("\n", "")


@pytest.mark.parametrize(
    ("text", "error", "message"),
    [
        ("brisk = 1", UsageError, "unknown key 'brisk'"),
        ("min_sise = 1", UsageError, "unknown key 'min_sise'"),
        ("brisque = 'much'", UsageError, "brisque = 'much'"),
        ("min_size = true", UsageError, "min_size = True"),
        ("brisque = ", DataError, "is not TOML"),
        ('out = ""', UsageError, r"f\.toml: out "),
    ],
)
def test_a_wrong_configuration_file_is_one_sentence(
    tmp_path: Path, text: str, error: type[CtxrError], message: str
) -> None:
    (tmp_path / "f.toml").write_text(text)
    with pytest.raises(error, match=message) as caught:
        load_toml(tmp_path / "f.toml", Filter)
    assert caught.value.hint.endswith(" min_size?") == ("min_sise" in text)


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["regions", "--extractor", "magic"], 2, "of grid:ENCODER"),
        (["listen", "--model", "x"], 2, "--endpoint is missing"),
        (["listen", "--endpoint", "http://example.org/v1", "--model", "x"], 2, "in the clear"),
        (["regions"], 4, "finished image sets"),
        (["listen", "--endpoint", "http://localhost:1", "--model", "x"], 4, "finished image sets"),
    ],
)
def test_what_regions_and_listen_lack_is_one_sentence(
    words: list[str], code: int, message: str, tmp_path: Path
) -> None:
    result = runner.invoke(app, [*words, "-w", str(tmp_path)])
    assert result.exit_code == code
    assert message in " ".join(result.output.split())


def test_programs_get_an_error_as_json(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    result = runner.invoke(app, ["filter", "--json", "--brisque", "0.65", "-w", str(tmp_path / "none")])
    assert result.exit_code == 4
    said = json.loads(result.stdout)
    assert said["exit_code"] == 4
    assert "does not exist" in said["error"]
    assert "ctxr build-sets videos/" in said["hint"]


@pytest.mark.parametrize(("typed", "hint"), [("buildsets", "mean ctxr build-sets?"), ("xyz", "ctxr --help lists")])
def test_an_unknown_command_hints_at_what_may_have_been_meant(typed: str, hint: str) -> None:
    result = runner.invoke(app, [typed])
    assert result.exit_code == 2
    assert hint in result.stderr


def test_one_file_serves_the_whole_chain(tmp_path: Path) -> None:
    file = tmp_path / "chain.toml"
    file.write_text('workdir = "project"\n[build-sets]\nrate = 2.0\n[filter]\nbrisque = 0.65\nworkdir = "other"\n')
    assert load_toml(file, BuildSets, "build-sets") == {"workdir": Path("project"), "rate": 2.0}
    assert load_toml(file, Filter, "filter") == {"workdir": Path("other"), "brisque": 0.65}


@pytest.mark.parametrize(
    ("command", "line", "field", "value"),
    [
        ("train", 'set = ["lr=1e-3", "encoder=ctxr-tiny"]', "changes", ("lr=1e-3", "encoder=ctxr-tiny")),
        ("import-answers", 'from = "prolific"', "platform_of", "prolific"),
        ("export-tasks", "votes = 5", "raters", 5),
    ],
)
def test_a_configuration_file_has_the_words_of_the_command_line(
    tmp_path: Path, command: str, line: str, field: str, value: object
) -> None:
    file = tmp_path / "chain.toml"
    file.write_text(f"[{command}]\n{line}\n")
    assert load_toml(file, named(COMMANDS[command].config), command) == {field: value}


@pytest.mark.parametrize(
    ("typed", "name"),
    [
        (["build-sets", ""], "of the sources"),
        (["build-sets", "x", "--out="], "--out"),
        (["build-sets", "x", "-w", ""], "--workdir"),
        (["build-sets", "x", "--splits", ""], "--splits"),
        (["filter", "--input", ""], "--input"),
        (["filter", "--videos", ""], "--videos"),
        (["filter", "--config", ""], "--config"),
        (["doctor", ""], "ARTIFACT"),
    ],
)
def test_an_empty_path_is_not_the_current_folder(typed: list[str], name: str) -> None:
    result = runner.invoke(app, typed)
    assert result.exit_code == 2
    assert f"{name} is an empty" in result.stderr


@pytest.mark.parametrize(
    ("typed", "message", "hint"),
    [
        (["build-sets", "--threshold", "abc"], "--threshold abc ", "give a distance"),
        (["build-sets", "--set-size", "2.5"], "--set-size 2.5 ", "give at least 2 images"),
        (["build-sets", "--detector-threshold", "abc"], "--detector-threshold abc ", "see the command's"),
        (["build-sets", "--treshold", "1"], "no such option: --treshold", "did you mean --threshold"),
        (["build-sets", "--lr", "1"], "no such option: --lr", "did you mean"),
        (["train", "--lr", "1"], "no such option: --lr", "--set lr=VALUE"),
        (["train", "--learning-rate=1"], "no such option: --learning-rate", "--set lr=VALUE"),
        (["train", "--margin=1"], "no such option: --margin", "--set margin=VALUE"),
        (["train", "--masked", "1"], "no such option: --masked", "--set masked=VALUE"),
        (["build-sets", "--threshold"], "option '--threshold' requires an argument", "ctxr build-sets --help"),
        (["revise-labels", "--dataset", "a"], "no such option: --dataset", "ctxr revise-labels DATASET"),
        (["doctor", "--dataset=a"], "no such option: --dataset", "ctxr doctor ARTIFACT"),
        (["build-sets", "--sources", "a"], "no such option: --sources", "ctxr build-sets SOURCES"),
        (["train", "a"], "got unexpected extra", "ctxr train --dataset DATASET"),
        (["train", "--set", "lr=1", "batch=2"], "got unexpected extra", "--set KEY=VALUE --set KEY=VALUE"),
        (["filter", "a"], "got unexpected extra", "ctxr filter --help"),
        (["--bogus"], "no such option: --bogus", "ctxr --help"),
    ],
)
def test_a_mistyped_word_is_an_error_like_any_other(typed: list[str], message: str, hint: str) -> None:
    # an option in want of its value would take --json for it
    result = runner.invoke(app, [typed[0], "--json", *typed[1:]])
    assert result.exit_code == 2
    said = json.loads(result.stdout)
    assert said["exit_code"] == 2
    assert said["error"].startswith(message)
    assert hint in said["hint"]
    assert result.stderr == f"error: {said['error']}\nhint:  {said['hint']}\n"
    silent = runner.invoke(app, typed)
    assert (silent.exit_code, silent.stdout, silent.stderr) == (2, "", result.stderr)


@pytest.mark.parametrize(
    "name", [name for name, one in COMMANDS.items() if "seed" in {field.name for field in fields(named(one.config))}]
)
def test_a_seed_below_0_is_refused_before_any_work(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    typed = {"export-tasks": ["describe"], "build-sets": ["."], "build-documents": ["coco"]}.get(name, [])
    result = runner.invoke(app, [name, *typed, "--seed", "-1"])
    assert result.exit_code == 2
    assert re.fullmatch(r"error: --seed -1 .*\nhint:  .*\n", result.stderr)
    assert not list(tmp_path.iterdir())


def test_no_words_at_all_show_the_help_or_the_status_of_the_project(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert "build-sets" in runner.invoke(app, []).output
    (tmp_path / "work").mkdir()  # somebody else's
    assert "build-sets" in runner.invoke(app, []).output
    (tmp_path / "work" / "sets").mkdir()
    finish(
        tmp_path / "work" / "sets",
        kind="image_sets",
        verb="build-sets",
        config={},
        parents=[],
        content=Content([], {"sets": 3}, {}),
    )
    result = runner.invoke(app, [])
    assert result.stdout.split()[0] == "sets"
    assert result.stdout.splitlines()[-1] == "next: ctxr report"
    assert not (tmp_path / "work" / HISTORY).exists()
    status = json.loads(runner.invoke(app, ["status", "--json"]).stdout)
    assert (status["artifacts"][0]["holds"], status["next"]) == ("3 sets", "ctxr report")
    (tmp_path / "work").rename(tmp_path / "mine")
    (tmp_path / "ctxr.toml").write_text('workdir = "mine"')
    assert runner.invoke(app, []).stdout.splitlines()[-1] == "next: ctxr report -w mine"
    assert runner.invoke(app, [], env={"CTXR_WORKDIR": "none"}).exit_code == 4


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (PermissionError(errno.EACCES, "Permission denied", "/there"), "/there: Permission denied"),
        (OSError(errno.ENAMETOOLONG, "Name too long", Path("/there")), "/there: Name too long"),
        (OSError(errno.EIO, "Input/output error"), "Input/output error"),
        (OSError(errno.EDQUOT, "Quota exceeded", "/there"), "/there: Quota exceeded"),
        (FileNotFoundError(errno.ENOENT, "No such file", b"caf\xe9"), "caf\ufffd: No such file"),
    ],
)
def test_what_the_system_refuses_is_one_sentence(error: OSError, message: str, fails: Callable[..., None]) -> None:
    fails(error)
    result = runner.invoke(app, FILTER)
    assert result.exit_code == 1
    first, rest = result.stderr.split("\n", 1)
    assert first.endswith("ctxr filter")
    assert rest.startswith(f"error: {message}\nhint:  ")
    assert ("free some space" in result.stderr) == (error.errno == errno.EDQUOT)
    assert json.loads(runner.invoke(app, [*FILTER, "--json"]).stdout)["exit_code"] == 1
    # but for a reader of our output who has gone
    fails(BrokenPipeError(errno.EPIPE, "Broken pipe"))
    result = runner.invoke(app, FILTER)
    assert (result.exit_code, "error" in result.stderr) == (1, False)


def test_too_little_memory_is_one_sentence(fails: Callable[..., None]) -> None:
    fails(MemoryError())
    result = runner.invoke(app, FILTER)
    assert (result.exit_code, "--jobs 1" in result.stderr, "Traceback" in result.stderr) == (1, True, False)


@pytest.mark.parametrize(
    "typed",
    [
        ["doctor", "n" * 300],
        ["build-sets", ".", "--out", "n" * 300],
        ["build-sets", ".", "-w", "n" * 300],
        ["report", "-i", "n" * 300],
    ],
)
def test_a_name_too_long_is_one_sentence(typed: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "clip.mp4").write_text("footage")
    result = runner.invoke(app, typed)
    assert result.exit_code == 1
    assert "name too long" in result.stderr


def test_a_terminal_without_a_sign_shows_another_in_its_place(tmp_path: Path) -> None:
    words = [sys.executable, "-m", "ctxr", "report", "--input", str(tmp_path / "caf\xe9"), "--json"]
    environment = os.environ | {"PYTHONIOENCODING": "ascii"}
    done = subprocess.run(words, capture_output=True, env=environment, check=False)
    assert done.returncode == 2
    assert b"Traceback" not in done.stderr
    assert b"caf?" in done.stderr
    assert "caf\xe9" in json.dumps(json.loads(done.stdout), ensure_ascii=False)


def test_one_answer_of_one_worker_is_told_in_the_singular(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    counts = {"answers": 1, "workers": 1}
    report = ImportAnswersReport(tmp_path, "local", False, 1, 0, 0, {}, counts, 0)
    monkeypatch.setattr("ctxr.annotation.answers.run", lambda config, progress: report)
    result = runner.invoke(app, ["import-answers"])
    assert "1 answer of 1 worker\n" in result.stdout
    counts |= {"answers": 200}
    assert "200 answers of 1 worker\n" in runner.invoke(app, ["import-answers"]).stdout


READ = [
    (name, option)
    for name, command in COMMANDS.items()
    for option, field in named(command.config).describe().items()
    if field.kind == Path | None and option != "out"
]


@pytest.mark.parametrize(("name", "option"), READ, ids=map("-".join, READ))
def test_a_path_that_does_not_exist_is_a_wrong_argument_of_every_command_and_told_before_it_is_loaded(
    name: str, option: str, tmp_path: Path
) -> None:
    needed = {"export-tasks": ["describe"], "export": ["--to", "hf"], "filter": ["--brisque", "1"]}.get(name, [])
    needed += ["--review"] if (name, option) in (("serve", "input"), ("serve", "scores")) else []
    needed += ["--endpoint", "http://localhost/v1", "--model", "m"] if name == "listen" else []
    needed += {"build-sets": ["videos"], "build-documents": ["coco"], "pairs": ["sample"]}.get(name, [])
    named_by = [] if option == named(COMMANDS[name].config).ARGUMENT else [option_name(option)]
    needed += ["-w", str(tmp_path)] * ("workdir" in named(COMMANDS[name].config).describe())
    result = runner.invoke(app, [name, *named_by, str(tmp_path / "none"), *needed])
    assert result.exit_code == 2
    assert re.match(rf"error: [^\n]*{tmp_path}/none", result.stderr)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["train", "--device", "cuda"], "device cuda "),
        (["build-sets", "videos", "--max-text", "0.1"], "Tesseract is not"),
        (["filter", "--max-text", "0.1", "--ocr", "tesserocr"], "tesserocr is not"),
        (["export", "--to", "hf"], "parquet .* pyarrow"),
        (["report", "--more", "none.html"], "none.html does not"),
    ],
)
def test_what_is_missing_is_told_before_a_command_is_loaded(
    words: list[str], sentence: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.platform", "linux")
    monkeypatch.setattr(Path, "exists", lambda path, **_: False)
    monkeypatch.setattr("ctxr.pipelines.curation.config.which", lambda name: None)
    for group in ("curation", "sharing"):
        monkeypatch.setattr(f"ctxr.pipelines.{group}.config.find_spec", lambda name: None)
    result = runner.invoke(app, words)
    assert result.exit_code == 2
    assert re.match(rf"error: {sentence}.*\nhint:  ", result.stderr)


@pytest.mark.parametrize("failing", [False, True])
@pytest.mark.parametrize("name", list(COMMANDS))
def test_json_is_one_document_whatever_comes_after_it(
    name: str, failing: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    command = COMMANDS[name]

    @dataclass(frozen=True)
    class Fake(VerbReport):
        a: str = "report"

        @property
        def finding(self) -> CtxrError | None:
            return CtxrError("too late", hint="") if failing else None

    def run(config: object, progress: object, *started: Any) -> Fake:
        for tell in started:
            tell(Fake("running"))
        return Fake()

    fakes = {f"{command.module}:run": run, command.view: lambda _: ["text"], command.started: lambda _: ["text"]}
    monkeypatch.setattr("ctxr.cli.call.named", lambda dotted: fakes.get(dotted) or named(dotted))
    monkeypatch.setattr(named(command.config), "check", lambda config: config)
    monkeypatch.chdir(tmp_path)
    result = runner.invoke(app, [name, "--json"])
    after = {} if command.started else {"next": "" if failing else "ctxr build-sets --help"}
    assert json.loads(result.stdout) == {"a": "running" if command.started else "report"} | after
    assert result.exit_code == int(failing)

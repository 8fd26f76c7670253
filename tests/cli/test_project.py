"""Commands about a whole project: its settings, what is repeated in it, and the switches that every command has."""

import io
import json
import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from ctxr.cli.app import SYNONYMS, app
from ctxr.cli.call import load_toml
from ctxr.cli.commands import COMMANDS
from ctxr.cli.verbs import named
from ctxr.cli.words import SETTINGS
from ctxr.datasets.decisions import decisions_key, read_decisions
from ctxr.engine.history import HISTORY
from ctxr.engine.progress import Progress
from ctxr.engine.report import VerbReport
from ctxr.errors import DryRun, UsageError
from ctxr.pipelines.curation.config import Filter
from ctxr.store.artifacts import MARKER
from ctxr.store.atomic import DRY_RUN
from ctxr.store.records import Decision
from ctxr.store.tables import append
from tests.engine.test_next_step import Project

runner = CliRunner()


@dataclass(frozen=True)
class Nothing(VerbReport):
    """Of a command that did nothing."""


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def stale() -> Project:
    """A project whose sets were built again, with another threshold."""
    project = Project(Path("work"))
    project.make("sets", "build-sets", "image_sets")
    project.make("filtered", "filter", "image_sets", "sets", words=["filter", "--brisque", "0.5", "--yes"])
    project.make("plan", "plan", "plan", "filtered", words=["plan", "--json"])
    project.make("tasks/describe", "export-tasks", "tasks", "filtered", words=["export-tasks", "describe", "--force"])
    project.make("judgments", "aggregate", "judgments", "tasks/describe", words=["aggregate"])
    project.make("export-hf", "export", "export", "filtered", words=["export", "--to", "hf", "-w", "elsewhere"])
    project.make("export-x", "export", "export", "filtered", words=["export", "--nonsense"])
    project.make("sets", "build-sets", "image_sets", salt="other")
    return project


def kept(seen: list[Any]) -> Callable[[Any, Progress], VerbReport]:
    """A verb that keeps its options and does nothing."""

    def run(config: Any, _: Progress) -> VerbReport:
        seen.append(config)
        return Nothing()

    return run


def files() -> dict[Path, bytes]:
    return {file: file.read_bytes() for file in Path().rglob("*") if file.is_file()}


def test_what_is_stale_is_repeated_in_order_without_yes_and_what_is_left_is_named(
    stale: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[str, Any]] = []

    def again(config: Any, _: Progress) -> VerbReport:
        if DRY_RUN.get():
            raise DryRun
        asked.append((config.COMMAND, getattr(config, "yes", None)))
        return Nothing()

    monkeypatch.setattr("ctxr.pipelines.curation.filter.run", again)
    monkeypatch.setattr("ctxr.pipelines.crowd.plan.run", again)
    before = files()
    would = json.loads(runner.invoke(app, ["run", "--dry-run", "--json"]).stdout)
    assert (files(), asked) == (before, [])
    result = runner.invoke(app, ["run", "--json"])
    assert asked == [("filter", False), ("plan", None)]
    assert result.exit_code == 4
    done = json.loads(result.stdout)
    assert {key for key in done if done[key] != would[key]} == {"dry_run"}
    assert done["repeated"] == ["ctxr filter --brisque 0.5", "ctxr plan --json"]
    assert done["left"].keys() == {"tasks/describe", "judgments", "export-hf", "export-x"}
    assert done["failed"].keys() == {"ctxr export --to hf -w elsewhere", "ctxr export --nonsense"}
    repeated = [json.loads(line)["words"] for line in Path("work", HISTORY).read_text().splitlines()[-3:]]
    assert repeated == [["filter", "--brisque", "0.5"], ["plan", "--json"], ["run", "--json"]]


def test_what_would_take_answers_away_ends_the_chain_with_its_own_hint(
    stale: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(config: Filter, _: Progress) -> VerbReport:
        assert not config.yes
        raise UsageError("answers are about 3 of these sets", hint="--yes to go on")

    monkeypatch.setattr("ctxr.pipelines.curation.filter.run", refuse)
    result = runner.invoke(app, ["run", "--json"])
    said = json.loads(result.stdout)
    assert (result.exit_code, said["repeated"]) == (4, [])
    assert {"filtered", "plan", "judgments"} <= said["left"].keys()
    assert "hint:  ctxr filter --brisque 0.5 --yes\n" in result.stderr
    would = runner.invoke(app, ["run", "--dry-run", "--json"])
    assert (would.exit_code, json.loads(would.stdout)["failed"]) == (4, said["failed"])
    assert json.loads(runner.invoke(app, ["status", "--json"]).stdout)["next"] == "ctxr filter --brisque 0.5"
    assert runner.invoke(app, ["run"]).output.count("about 3 of these sets") == 1


@pytest.mark.parametrize(
    ("words", "setting"),
    [
        (["revise-labels", "--entail"], '[revise-labels]\njudge = ["endpoint:http://localhost/v1#m"]'),
        (["export-tasks", "tag", "--backend", "prolific"], "[export-tasks]\nlaunch = true\nserver = 'https://x.org'"),
    ],
)
def test_what_costs_by_a_file_of_settings_is_not_repeated_either(words: list[str], setting: str) -> None:
    project = Project(Path("work"))
    project.make("dataset", "aggregate", "dataset")
    project.make("made", words[0], "tasks", "dataset", words=words)
    project.make("dataset", "aggregate", "dataset", salt="other")
    SETTINGS.write_text(setting)
    said = json.loads(runner.invoke(app, ["run", "--json"]).stdout)
    assert (said["repeated"], list(said["left"])) == ([], ["made"])
    assert said["left"]["made"].endswith("people or money")


@pytest.mark.parametrize("words", [["run"], ["run", "--dry-run"]])
def test_a_fresh_project_has_nothing_to_repeat(words: list[str]) -> None:
    Project(Path("work")).make("sets", "build-sets", "image_sets")
    assert runner.invoke(app, words).stdout.splitlines() == ["nothing is stale", "next: ctxr report"]


def test_what_is_unfinished_is_named_by_run() -> None:
    Project(Path("work")).make("sets", "build-sets", "image_sets")
    Path("work/filtered").mkdir()
    Path("work/filtered", MARKER).touch()
    assert json.loads(runner.invoke(app, ["run", "--json"]).stdout)["left"].keys() == {"filtered"}


def test_a_status_counts_what_a_review_rejects_until_a_filter_applies_it() -> None:
    project, log = Project(Path("work")), Path("work/decisions.jsonl")
    project.make("sets", "build-sets", "image_sets")
    append(log, Decision("a", "reject", "faces", "w-a"), Decision("b", "keep", "", "w-a"))
    said = json.loads(runner.invoke(app, ["status", "--json"]).stdout)
    assert said["next"] == f"ctxr filter --drop {log}"
    assert said["notes"] == ["decisions.jsonl: 1 decision not applied"]
    key = decisions_key(read_decisions(log, "reject"))
    project.make("filtered", "filter", "image_sets", "sets", config={"drop": key})
    said = json.loads(runner.invoke(app, ["status", "--json"]).stdout)
    assert (said["notes"], "--drop" in said["next"]) == ([], False)
    log.write_text("{")
    assert runner.invoke(app, ["status"]).exit_code == 0


def test_a_status_looks_at_no_file_of_an_artifact_but_its_manifest(monkeypatch: pytest.MonkeyPatch) -> None:
    project, looked = Project(Path("work")), set[str]()
    for name, *parents in (("sets",), ("filtered", "sets"), ("runs/m", "filtered")):
        project.make(name, "filter", "image_sets", *parents)
        for number in range(3):
            file = Path("work", name, "images", f"img{number}.jpg")
            file.parent.mkdir(exist_ok=True)
            file.touch()

    def noted(original: Callable[..., Any], path: Any, *rest: Any, **more: Any) -> Any:
        looked.add(os.path.relpath(path, "work") if isinstance(path, str | os.PathLike) else "")
        return original(path, *rest, **more)

    for module, name in ((os, "stat"), (os, "lstat"), (os, "scandir"), (os, "listdir"), (io, "open")):
        monkeypatch.setattr(module, name, partial(noted, getattr(module, name)))
    assert runner.invoke(app, ["status"]).exit_code == 0
    own = {one for one in looked if one.startswith(("sets", "filtered", "runs"))}
    seen = {f"{name}{file}" for name in ("sets", "filtered", "runs/m", "runs") for file in ("", "/manifest.json")}
    assert own == seen | {"runs/.ctxr"}


@pytest.mark.parametrize("width", ["20", "200"])
def test_a_status_tells_each_artifact_on_a_line_with_its_whole_name(width: str) -> None:
    name = "results/a-long-name-of-a-run-vs-another-long-name-of-a-run"
    Project(Path("work")).make(name, "eval", "results", counts={"names": ["a [long] name"]})
    shown = runner.invoke(app, ["status"], env={"COLUMNS": width}).stdout.splitlines()[0]
    assert (shown.split()[0], shown.endswith("a [long] name")) == (name, True)


def test_settings_are_written_once_and_hold_for_every_command(monkeypatch: pytest.MonkeyPatch) -> None:
    assert runner.invoke(app, ["init"]).exit_code == 0
    text = SETTINGS.read_text()
    assert runner.invoke(app, ["init"]).exit_code == 2
    assert SETTINGS.read_text() == text
    SETTINGS.write_text(re.sub(r"^# (\w+ = )", r"\1", text, flags=re.MULTILINE))
    for name, command in COMMANDS.items():
        values = load_toml(SETTINGS, named(command.config), name)
        assert bool(values) == (f"[{name}]" in text)
    seen: list[Any] = []
    monkeypatch.setattr("ctxr.pipelines.curation.filter.run", kept(seen))
    Path("other.toml").write_text("[filter]\nbrisque = 0.2\n")
    for words in (["filter"], ["filter", "--brisque", "0.3"], ["filter", "--config", "other.toml"]):
        assert runner.invoke(app, [*words, "--json"]).exit_code == 0
    assert [(one.brisque, one.min_size) for one in seen] == [(0.65, 200), (0.3, 200), (0.2, None)]


@pytest.mark.parametrize(("words", "notes"), [([], 1), (["-q"], 0), (["-v"], 2)])
def test_quiet_hides_notes_and_verbose_shows_details_but_neither_hides_warnings(
    words: list[str], notes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def speak(_: object, progress: Progress) -> VerbReport:
        with progress.task("working", None):
            progress.note("a note")
            progress.detail("a detail")
            progress.warn("a warning")
        return Nothing()

    monkeypatch.setattr("ctxr.pipelines.curation.filter.run", speak)
    shown = runner.invoke(app, ["filter", "--brisque", "1", "--json", *words]).stderr.splitlines()
    assert [line for line in shown if line.startswith("a ")] == ["a note", "a detail"][:notes]
    assert ("working" in shown) == (notes > 0)
    assert shown[-1] == "warning: a warning"


def test_a_dry_run_with_yes_suggests_the_command_without_it_and_counts_what_there_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def plan(_: Filter, __: Progress) -> VerbReport:
        raise DryRun("would filter", {"new_videos": 3, "albums": 0})

    monkeypatch.setattr("ctxr.pipelines.curation.filter.run", plan)
    shown = runner.invoke(app, ["filter", "--brisque", "1", "-qy", "--yes", "--dry-run"]).stdout
    assert "new videos  3" in shown
    assert "albums" not in shown
    assert shown.splitlines()[-1] == "next: ctxr filter --brisque 1"
    assert Filter(brisque=1.0, yes=True).command_line() == "ctxr filter --brisque 1.0"


def test_yes_has_one_letter(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Any] = []
    monkeypatch.setattr("ctxr.pipelines.curation.filter.run", kept(seen))
    runner.invoke(app, ["filter", "--brisque", "1", "-y", "--json"])
    assert seen[0].yes


def test_help_is_also_a_command() -> None:
    assert runner.invoke(app, ["help", "plan"]).stdout == runner.invoke(app, ["plan", "--help"]).stdout
    assert runner.invoke(app, ["help"]).stdout == runner.invoke(app, ["--help"]).stdout


@pytest.mark.parametrize("name", SYNONYMS)
def test_words_that_people_try_lead_to_the_command(name: str) -> None:
    for word in SYNONYMS[name].split():
        assert word not in COMMANDS
        assert f"mean ctxr {name}?" in runner.invoke(app, [word]).stderr

"""What comes next in a project, and what is stale there, by manifests and history alone."""

import json
import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ctxr.engine.history import HISTORY
from ctxr.engine.next_step import next_step, repeats
from ctxr.engine.state import ProjectState, read_state
from ctxr.store.artifacts import MANIFEST, MARKER, Artifact, Content, Parent, finish, locked

CLOCK = iter(range(10**9, 2 * 10**9))


class Project:
    """A project whose artifacts are made one after another."""

    def __init__(self, workdir: Path) -> None:
        self.workdir, self.made = workdir, dict[str, Artifact]()
        workdir.mkdir()

    def make(
        self, name: str, verb: str, kind: str, *parents: str, words: Sequence[str] = (), salt: str = "", **facts: Any
    ) -> None:
        path = self.workdir / name
        path.mkdir(parents=True, exist_ok=True)
        made_from = [
            Parent(one.rpartition("/")[2], self.made[one].manifest.kind, self.made[one].sha256) for one in parents
        ]
        models = {"encoder": {"name": facts["encoder"]}} if "encoder" in facts else {}
        content = Content([], {"sets": 3, "answers": 4, "features": 5, **facts.get("counts", {})}, models)
        config = {"salt": salt, **facts.get("config", {})}
        self.made[name] = finish(path, kind=kind, verb=verb, config=config, parents=made_from, content=content)
        (path / MARKER).touch()
        self.looked(path / MANIFEST)
        self.note(words or (verb, "-w", str(self.workdir)), name)

    def note(self, words: Sequence[str], *paths: str, code: int = 0) -> None:
        line = {"words": [*words], "exit_code": code, "artifacts": [{"path": path} for path in paths]}
        with (self.workdir / HISTORY).open("a") as stream:
            stream.write(f"{json.dumps(line)}\n")

    def looked(self, file: Path | None = None) -> None:
        """Write the report now, or a file."""
        file = file or self.workdir / "report.html"
        file.touch()
        os.utime(file, (now := next(CLOCK), now))

    def state(self, **more: Any) -> ProjectState:
        return replace(read_state(self.workdir), **more)

    def next(self, **more: Any) -> str:
        return next_step(self.state(**more)).replace(str(self.workdir), "W").removesuffix(" -w W")


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path / "p")


def test_the_chain_leads_from_sets_to_the_export(project: Project) -> None:
    assert project.next() == "ctxr build-sets --help"
    project.make("sets", "build-sets", "image_sets", encoder="ctxr-lite")
    assert project.next() == "ctxr report"
    project.looked()
    assert project.next() == "ctxr filter --brisque 0.65"
    project.make("filtered", "filter", "image_sets", "sets", encoder="ctxr-lite")
    assert project.next() == "ctxr report"
    project.looked()
    assert project.next() == "ctxr export-tasks describe"
    project.make("plan", "plan", "plan", "filtered")
    assert project.next() == "ctxr export-tasks describe"
    project.make("tasks/describe", "export-tasks", "tasks", "filtered", config={"backend": "local"})
    assert project.next() == "ctxr serve"
    assert project.next(open={"describe": 0, "retrieve": 2}, answered=5) == "ctxr serve"
    done = {"open": {"describe": 0, "retrieve": 0}, "answered": 5}
    assert project.next(**done) == "ctxr aggregate"
    project.make(
        "judgments", "aggregate", "judgments", "tasks/describe", counts={"answers": 4, "refused": {"known": 1}}
    )
    assert project.next(**done) == "ctxr aggregate"
    project.make("dataset", "aggregate", "dataset", "filtered", "judgments")
    assert project.next(**done) == "ctxr report --input W/dataset"
    project.looked()
    assert project.next(**done) == "ctxr eval ctxr-lite --dataset W/dataset"
    project.make("results/lite", "eval", "results", "dataset")
    assert project.next(**done) == "ctxr report --input W/dataset"
    project.looked()
    assert project.next(**done) == "ctxr export --to imagecode --input W/dataset"
    project.make("export-imagecode", "export", "export", "dataset")
    assert project.next(**done) == "ctxr doctor W/dataset"
    assert project.next(**done | {"answered": 6}) == "ctxr aggregate"


@pytest.mark.parametrize(
    ("made", "wanted"),
    [
        ([("documents", "build-documents", "dataset")], "ctxr train --recipe links-ap --dataset W/documents"),
        ([("runs/m", "train", "run")], "ctxr eval m"),
        ([("runs/m", "listen", "run"), ("results/m", "eval", "results", "runs/m")], "ctxr report"),
        ([("pairs", "pairs", "pairs")], "ctxr train --recipe entailment-tiny"),
        ([("regions/grid", "regions", "regions")],
         "ctxr train --recipe uniter-batch --set regions=grid --set encoder=random:uniter-tiny:5"),
        ([("sets", "build-sets", "image_sets"), ("regions/grid", "regions", "regions", "sets")], "ctxr report"),
        ([("sets", "build-sets", "image_sets"), ("indexes/a", "search", "index", "sets")], "ctxr report"),
        ([("index", "search", "index")], "ctxr doctor W/index"),
        ([("revised", "revise-labels", "dataset")], "ctxr export-tasks entail"),
        ([("tasks/entail", "export-tasks", "tasks"), ("judgments", "import-answers", "judgments", "tasks/entail")],
         "ctxr revise-labels --audit"),
        ([("tasks/tag", "export-tasks", "tasks"), ("judgments", "import-answers", "judgments", "tasks/tag")], "ctxr aggregate"),
        ([("tasks/tag", "export-tasks", "tasks")], "ctxr import-answers --help"),
        ([("elsewhere", "build-sets", "image_sets")], "ctxr report --input W/elsewhere"),
    ],
)  # fmt: skip
def test_each_branch_leads_on(project: Project, made: list[tuple[str, ...]], wanted: str) -> None:
    for name, verb, kind, *parents in made:
        project.make(name, verb, kind, *parents, config={"backend": "label-studio"})
    assert project.next() == wanted


def test_regions_of_a_release_train_on_it_with_the_weights_that_are_there(
    project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for folder in ("models/uniter", "rel"):
        (tmp_path / folder).mkdir(parents=True)
    project.make("regions/grid", "regions", "regions", words=("regions", "-w", str(project.workdir), "rel"))
    assert project.next() == "ctxr train --recipe uniter-batch --set regions=grid --dataset rel"


def test_results_on_a_release_are_shown_on_its_own_page(project: Project) -> None:
    words = ("eval", "mine.csv", "--dataset", "rel2", "--split", "valid")
    project.make("results/mine", "eval", "results", words=words)
    assert project.next() == "ctxr report --input rel2"


def test_what_a_review_rejected_is_applied_with_the_limits_of_before_and_without_its_yes(project: Project) -> None:
    project.make("sets", "build-sets", "image_sets")
    assert project.next(rejections=2) == "ctxr filter -w W --drop W/decisions.jsonl"
    project.make("filtered", "filter", "image_sets", "sets", words=["filter", "--brisque", "0.65", "--yes"])
    assert project.next(rejections=2) == "ctxr filter --brisque 0.65 --drop W/decisions.jsonl"


def test_dialogues_have_models_and_a_format_of_their_own(project: Project) -> None:
    project.make("dataset", "aggregate", "dataset", counts={"dialogues": 2})
    project.looked()
    assert project.next() == "ctxr train --recipe dialogue-bm25 --dataset W/dataset"
    project.make("runs/bm25", "train", "run", "dataset")
    project.make("results/bm25", "eval", "results", "dataset", "runs/bm25")
    project.looked()
    assert project.next() == "ctxr export --to photochat --input W/dataset"


def test_nothing_is_evaluated_on_an_empty_dataset(project: Project) -> None:
    project.make("tasks/describe", "export-tasks", "tasks", config={"backend": "local"})
    project.make("judgments", "aggregate", "judgments", "tasks/describe")
    project.make("dataset", "aggregate", "dataset", "judgments", counts={"queries": 0})
    for still, wanted in ((2, "ctxr serve"), (0, "ctxr doctor W/dataset")):
        assert project.next(open={"describe": still}, answered=4) == wanted


def test_a_study_is_launched_before_it_is_served(project: Project) -> None:
    words, platform = ["export-tasks", "tag", "--backend", "prolific"], {"backend": "prolific"}
    for typed, wanted in ((words, f"ctxr {' '.join(words)} --launch"), ([*words, "--launch"], "ctxr serve")):
        project.make("tasks/tag", "export-tasks", "tasks", words=typed, config=platform)
        assert project.next() == wanted


def test_an_audit_that_was_made_is_not_asked_for_again(project: Project) -> None:
    project.make("tasks/entail", "export-tasks", "tasks", config={"backend": "local"})
    project.make("judgments", "revise-labels", "judgments", "tasks/entail", counts={"answers": 3, "refused": {}})
    answers = {"open": {"entail": 0}, "answered": 3}
    assert project.next(**answers) == "ctxr revise-labels --audit"
    project.make("revision-audit/001", "revise-labels", "revision_audit", "judgments")
    assert project.next(**answers) == "ctxr doctor W/revision-audit/001"


def test_sets_at_a_threshold_without_any_lead_to_the_other_thresholds(project: Project) -> None:
    project.make("sets", "build-sets", "image_sets", words=["build-sets", "videos/"], counts={"sets": 0})
    assert project.next() == "ctxr build-sets videos/ --yield-curve"


def test_what_was_broken_off_comes_first_and_ranks_are_merged(project: Project) -> None:
    project.make("sets", "build-sets", "image_sets")
    (project.workdir / "filtered").mkdir()
    (project.workdir / "filtered" / MARKER).touch()
    assert project.next() == "ctxr report"
    words = ["filter", "--brisque", "0.5", "-w", str(project.workdir)]
    project.note(words, code=130)
    assert project.next() == "ctxr filter --brisque 0.5"
    with locked(project.workdir / "filtered"):
        running = {one.name: one.running for one in read_state(project.workdir).stored}
        assert running == {"sets": False, "filtered": True}
        assert project.next() == "ctxr report"
    (project.workdir / "filtered" / "sources").mkdir()
    (project.workdir / "filtered" / "sources" / ".0-of-2.rank").touch()
    assert project.next() == "ctxr merge W/filtered"


def test_what_comes_from_a_replaced_artifact_is_stale_and_repeated_in_order(project: Project) -> None:
    def chain() -> list[tuple[str, bool]]:
        return [(one.name, not why) for one, why in repeats(project.state())]

    project.make("sets", "build-sets", "image_sets")
    project.make("filtered", "filter", "image_sets", "sets")
    project.make("plan", "plan", "plan", "filtered")
    project.make("tasks/describe", "export-tasks", "tasks", "filtered", words=["export-tasks", "describe", "--launch"])
    project.make("judgments", "aggregate", "judgments", "tasks/describe")
    assert chain() == []
    project.make("sets", "build-sets", "image_sets", salt="other")
    assert chain() == [("filtered", True), ("plan", True), ("tasks/describe", False), ("judgments", False)]
    reasons = {one.name: one.stale for one in project.state().stored}
    assert [reasons[name].split()[0] for name in ("filtered", "judgments")] == ["sets", "tasks/describe"]
    assert project.next() == "ctxr run"
    with (project.workdir / HISTORY).open("a") as stream:
        stream.write('{"words": ["run"], "exit_code": 4, "artifacts": []}\n')
    assert project.next() == "ctxr filter"
    project.make("filtered", "filter", "image_sets", "sets")
    assert project.next() == "ctxr run"
    assert chain() == [("plan", True), ("tasks/describe", False), ("judgments", False)]


@pytest.mark.parametrize(
    "words",
    [
        [],
        ["eval", "m", "--database", "postgresql://ada:***@host/study"],
        ["import-answers", "file.csv"],
        ["listen", "--model", "m"],
        ["search", "photos"],
        ["revise-labels", "--entail", "--judge", "endpoint:http://localhost/v1#m"],
        ["export-tasks", "describe", "--force"],
        ["export-tasks", "describe", "--protocol", "FILE"],
    ],
)
def test_what_costs_or_cannot_be_known_is_not_repeated(project: Project, words: list[str]) -> None:
    project.make("dataset", "aggregate", "dataset")
    project.make("made", "export", "export", "dataset", words=words or ["x"])
    if not words:
        (project.workdir / HISTORY).unlink()
    project.make("dataset", "aggregate", "dataset", salt="other")
    ((one, why),) = repeats(project.state())
    assert (one.name, bool(why)) == ("made", True)
    assert project.next() != "ctxr run"


def test_an_input_outside_of_the_project_is_stale_only_if_it_changed(
    project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    other = Project(Path("other"))
    other.make("drawn", "test", "dataset")
    project.make("dataset", "aggregate", "dataset")
    project.made["dataset2"] = other.made["drawn"]
    project.make("export-hf", "export", "export", "dataset2", words=["export", "--input", "other/drawn"])
    assert not repeats(project.state())
    other.make("drawn", "test", "dataset", salt="other")
    assert [one.name for one, _ in repeats(project.state())] == ["export-hf"]


def test_a_damaged_manifest_is_unfinished_and_nothing_raises(project: Project) -> None:
    project.make("sets", "build-sets", "image_sets")
    (project.workdir / "sets" / MANIFEST).write_text("{")
    (project.workdir / HISTORY).write_text('{"no": "words"}\n[]\nnothing\n')
    assert [(one.name, one.kind) for one in project.state().stored] == [("sets", "")]
    assert project.next() == "ctxr build-sets --help"

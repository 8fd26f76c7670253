"""`ctxr export-tasks`: what is asked, once, and never changed under the hands of who answers."""

import json
import re
import shutil
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from ctxr.annotation.answers import run as import_answers
from ctxr.annotation.artifacts import Tasks, read_tasks
from ctxr.annotation.config import BACKENDS, COUNTRIES, ExportTasks, ImportAnswers
from ctxr.annotation.journal.journal import open_journal
from ctxr.annotation.journal.results import Lease
from ctxr.annotation.launch import codes_of, read_study
from ctxr.annotation.platforms.prolific import Bundle
from ctxr.engine.history import recorded
from ctxr.errors import CtxrError, DataError, DryRun, UnfinishedError, UsageError
from ctxr.pipelines.crowd.config import Plan
from ctxr.pipelines.crowd.export_tasks import run
from ctxr.pipelines.crowd.plan import run as plan
from ctxr.store.artifacts import MANIFEST, Content, finish, open_artifact
from ctxr.store.kinds import DATASET
from ctxr.store.tables import read_table
from tests.annotation.journal.study import units_of
from tests.annotation.platforms import study
from tests.annotation.platforms.participants import give, listing, participant, served
from tests.pipelines.world_dataset import write_world_dataset
from tests.test_second_runs import everything


@pytest.fixture
def workdir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    return study.make_project(tmp_path, monkeypatch)


@dataclass
class StudyClient:
    """Prolific's client, with the studies that were made; `lost`: the answer to what makes one does not arrive."""

    made: list[dict[str, Any]]
    lost: bool = False

    def studies(self, name: str) -> list[str]:
        return ["s1" for body in self.made if body["internal_name"] == name]

    def choices(self, name: str) -> dict[str, str]:
        assert name == "current-country-of-residence"
        return {country: str(number) for number, country in enumerate(COUNTRIES.values(), 10)}

    def create(self, body: dict[str, Any]) -> str:
        self.made.append(body)
        if self.lost:
            raise CtxrError("the answer was lost")
        return "s1"

    def publish(self, name: str) -> str:
        return "ACTIVE"


def exported(config: ExportTasks) -> Tasks:
    run(config)
    return read_tasks(config.folder())


@pytest.mark.parametrize("backend", BACKENDS)
def test_the_same_again_is_nothing_to_do_and_equal_runs_are_byte_equal(backend: str, workdir: Path) -> None:
    config = study.options(workdir, "retrieve", backend)
    report = run(config)
    assert not report.up_to_date
    before = study.files_of(config.folder())
    assert run(config).up_to_date
    assert study.files_of(config.folder()) == before
    run(replace(config, out=workdir / "tasks" / "again"))
    again = study.files_of(workdir / "tasks" / "again")
    if backend == "prolific":  # its addresses name the folder
        again["prolific/study.json"] = again["prolific/study.json"].replace(b"/p/again?", b"/p/retrieve-prolific?")
        again[MANIFEST] = before[MANIFEST]
    assert again == before
    assert sorted(name for name in before if name.startswith(f"{backend}/")) == report.files


@pytest.mark.parametrize(("task", "measured"), [("describe", None), ("retrieve", None), ("retrieve", 47.3)])
def test_a_plan_for_prolific_is_what_the_export_offers(
    task: str, measured: float | None, workdir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for room in ("cost", "launch"):
        monkeypatch.setattr(f"ctxr.annotation.{room}.median_seconds", lambda *_: (measured, 20))
    numbers: dict[str, Any] = {
        "targets": 2,
        "attention_every": 2,
        "per_submission": 3,
        "currency": "USD",
        "disjoint": "none",
    }
    numbers |= {"input": workdir / "dataset", "full_share": 1.0}
    write_world_dataset(workdir / "dataset", sets=2, seed=1)
    planned = plan(Plan(workdir=workdir, platform="prolific", fee_percent=33.3, **numbers))
    describe = replace(study.options(workdir, "describe", "prolific"), **numbers)
    offer = run(describe).offer
    assert offer is not None
    config = replace(study.options(workdir, task, "prolific"), **(numbers | {"input": None}))
    if task == "retrieve":
        journal, names = served(workdir), [f"p{number}" for number in range(offer.places)]
        for name in names:
            assert give(journal, participant(workdir, journal, name), "describe", 3)
        journal.close()
        import_answers(listing(workdir, **dict.fromkeys(names, "APPROVED")))
        offer = run(config).offer
        assert offer is not None
    else:
        config = describe
    (forecast,) = [row for row in planned.forecasts if row.task == task]
    assert forecast.offer == offer
    assert (forecast.reward, forecast.cost - forecast.fee) == (offer.pay, offer.total)
    body = json.loads((config.folder() / "prolific" / "study.json").read_text())
    assert (body["total_available_places"], body["estimated_completion_time"], body["reward"]) == (
        offer.places, offer.minutes, offer.pay,
    )  # fmt: skip
    assert sum(place["total_allocation"] for place in body["access_details"]) == offer.places


def test_tasks_say_where_the_pictures_are_and_how_they_were_asked(workdir: Path) -> None:
    tasks = exported(replace(study.options(workdir, "describe"), targets=2, seed=4))
    assert len(tasks.units) == 6
    assert (tasks.protocol.targets, tasks.protocol.seed, tasks.backend) == (2, 4, "local")
    assert all((tasks.root / image.path).is_file() for image in tasks.images.values())
    assert not any(path.suffix == ".jpg" for path in tasks.path.rglob("*"))


def test_no_truth_and_no_pseudonym_is_in_what_a_platform_gets(workdir: Path) -> None:
    for backend in BACKENDS[1:]:
        config = study.options(workdir, "retrieve", backend)
        run(config)
        for path in (config.folder() / backend).rglob("*"):
            if path.is_file():
                assert not any(word in path.read_text() for word in ('"truth"', "drawn", "gold")), path


def answer_some(workdir: Path, tasks: Tasks) -> None:
    journal = open_journal(workdir / "crowd" / "answers.sqlite", tasks.units, tasks.sets.values(), tasks.protocol)
    journal.enrol("w-a", "local", study.START)
    assert isinstance(journal.lease("w-a", study.START), Lease)
    journal.close()


def test_tasks_in_somebodys_hands_do_not_change(workdir: Path) -> None:
    config = study.options(workdir, "describe")
    run(replace(config, seed=9))
    assert not run(config).up_to_date  # nobody saw them
    answer_some(workdir, read_tasks(config.folder()))
    before = study.files_of(config.folder())
    with pytest.raises(UsageError, match=r"describe .* seed 0 and not 9"):
        run(replace(config, seed=9))
    with pytest.raises(UsageError, match="local, not for label-studio"):
        run(replace(config, backend="label-studio", image_base=study.BASE))
    assert study.files_of(config.folder()) == before
    assert not run(replace(config, seed=9, force=True)).up_to_date
    assert read_tasks(config.folder()).protocol.seed == 9


def test_launched_tasks_do_not_change(workdir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[dict[str, Any]] = []
    monkeypatch.setattr("ctxr.annotation.platforms.prolific.connect", lambda: StudyClient(made))
    config = study.options(workdir, "retrieve", "prolific")
    assert run(replace(config, launch=True)).launched == 1
    with pytest.raises(UsageError, match="None and not 500"):
        run(replace(config, reward=500))
    again = run(replace(config, launch=True))
    assert (again.up_to_date, again.launched) == (True, 1)
    assert len(made) == 1


def test_a_dry_run_of_a_launch_names_the_price_and_neither_writes_nor_launches(
    workdir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[dict[str, Any]] = []
    monkeypatch.setattr("ctxr.annotation.platforms.prolific.connect", lambda: StudyClient(made))
    config = replace(study.options(workdir, "retrieve", "prolific"), launch=True, live=True)

    def dry() -> DryRun:
        before = everything(workdir)
        with recorded(config, dry_run=True), pytest.raises(DryRun) as ended:
            run(config)
        assert everything(workdir) == before
        return ended.value

    first = dry()
    report = run(replace(config, launch=False, live=False))
    assert first.plan == {
        "units": report.units,
        "answers": report.votes,
        "checks": report.checks,
        "live": True,
        "offer": report.offer,
    }
    assert report.offer is not None
    assert f"{report.offer.places * report.offer.pay / 100:.2f} without fees" in str(report.offer)
    second = dry()
    assert second.message.startswith("would publish ")
    assert (str(config.folder()) in second.message, second.plan) == (True, {"offer": report.offer})
    assert not made
    assert run(config).notes == ["the study s1 is active"]


def test_new_descriptions_make_new_retrievals_and_leave_the_old_ones(workdir: Path) -> None:
    """What our own server adds by itself and what is exported from judgments are the same units."""
    study.work_locally(workdir, "describe")
    import_answers(ImportAnswers(workdir=workdir))
    config = replace(study.options(workdir, "retrieve"), input=None)
    tasks = exported(config)
    journal = open_journal(workdir / "crowd" / "answers.sqlite")
    followed = {unit.id: unit for unit in units_of(journal) if unit.task == "retrieve"}
    journal.close()
    assert {unit.id: unit for unit in tasks.units} == followed
    assert len(followed) == 3


@pytest.mark.parametrize(
    "change", [{"eval_most": 2}, {"train_needed": 2, "train_most": 2}, {"seed": 5}, {"full_share": 0.0}]
)
def test_what_other_tasks_have_with_other_votes_is_not_exported(change: dict[str, Any], workdir: Path) -> None:
    study.work_locally(workdir, "describe")
    import_answers(ImportAnswers(workdir=workdir))
    found = replace(study.options(workdir, "retrieve", "label-studio"), input=None)
    with pytest.raises(UsageError, match=r"unit 'retrieve-\w+' .*tasks/describe"):
        run(replace(found, **change))
    with pytest.raises(UsageError, match=r"other votes .*seed"):
        run(replace(found, force=True, **change))
    assert not (found.folder() / MANIFEST).exists()
    assert import_answers(ImportAnswers(workdir=workdir)).up_to_date  # every other command goes on
    run(found)
    run(replace(found, out=workdir / "elsewhere", **change))  # no tasks of the project


def test_the_same_tasks_for_another_platform_are_asked_in_the_same_way(workdir: Path) -> None:
    run(study.options(workdir, "retrieve", "label-studio"))
    other = replace(study.options(workdir, "retrieve"), out=workdir / "tasks" / "retrieve")
    with pytest.raises(UsageError, match=r"is in .*tasks/retrieve-label-studio as well"):
        run(replace(other, seed=5))
    run(replace(other, attention_every=2))  # that changes nothing of what both have


def test_a_second_look_is_by_somebody_else_and_as_large_as_asked(workdir: Path) -> None:
    done = study.work_locally(workdir, "retrieve")
    import_answers(ImportAnswers(workdir=workdir))
    tasks = exported(replace(study.options(workdir, "repeat"), fraction=1.0))
    assert len(tasks.units) == len({one.unit.id for one in done})
    for unit in tasks.units:
        assert unit.like == "retrieve"
        assert {study.person(one.identity) for one in done if one.unit.id == unit.of} <= set(unit.authors)
    some = exported(replace(study.options(workdir, "repeat"), fraction=0.6)).units
    assert 0 < len(some) < len(tasks.units)


def test_checks_are_questions_with_a_known_answer_and_a_named_place(workdir: Path, tmp_path: Path) -> None:
    known = known_dataset(tmp_path / "elsewhere" / "known", 4)
    config = replace(study.options(workdir, "retrieve"), gold=known, gold_every=2, attention_every=3, qualification=1)
    tasks = exported(config)
    by_purpose = {
        name: [one for one in tasks.units if one.purpose == name] for name in ("gold", "attention", "qualification")
    }
    assert {name: len(units) for name, units in by_purpose.items()} == {"gold": 2, "attention": 1, "qualification": 5}
    report = run(config)
    assert (report.checks, report.units) == (8, len(tasks.units) - 8)
    labels = exported(replace(config, backend="label-studio", image_base=study.BASE, out=workdir / "tasks" / "labels"))
    assert not [one for one in labels.units if one.purpose == "qualification"]
    with pytest.raises(UsageError, match="a known answer"):
        run(replace(config, gold=None))


def test_tasks_are_not_made_again_from_a_table_that_was_edited(workdir: Path) -> None:
    config = study.options(workdir, "describe")
    run(config)
    sets = workdir / "dataset" / "sets.jsonl"
    sets.write_text(sets.read_text() + "\n")
    with pytest.raises(DataError, match=r"sets\.jsonl"):
        run(config)


def known_dataset(folder: Path, sets: int) -> Path:
    """A dataset with known targets, about other pictures than those of the project."""
    return renamed(write_world_dataset(folder, sets=sets, seed=11))


def renamed(folder: Path) -> Path:
    """The dataset with other ids of its sets and images."""
    for table in folder.glob("*.jsonl"):
        table.write_text(re.sub(r"(video|photos)(\d)", r"known-\1\2", table.read_text()))
    for old in (folder / "images").iterdir():
        old.rename(old.with_name(f"known-{old.name}"))
    known = open_artifact(folder)
    content = Content([*known.manifest.files], known.manifest.counts, {})
    finish(known.path, kind=DATASET, verb="aggregate", config={}, parents=[], content=content)
    return folder


def test_questions_from_another_dataset_bring_their_pictures(workdir: Path, tmp_path: Path) -> None:
    known = known_dataset(tmp_path / "elsewhere" / "known", 1)
    config = replace(study.options(workdir, "retrieve"), gold=known, gold_every=2)
    tasks = exported(config)
    assert any(unit.image_set.startswith("known") for unit in tasks.units)
    assert all((tasks.root / image.path).is_file() and ".." not in image.path for image in tasks.images.values())


@pytest.mark.parametrize("task", ["describe", "retrieve"])
def test_sets_that_practice_shows_are_left_out_of_the_study_by_their_pictures(
    workdir: Path, tmp_path: Path, task: str
) -> None:
    config = study.options(workdir, task)
    whole = [unit for unit in exported(config).units if unit.purpose == "work"]
    contents = {name: image.sha256 for name, image in read_tasks(config.folder()).images.items()}
    # the same pictures under other names: ids do not tell
    copied = renamed(shutil.copytree(workdir / "dataset", tmp_path / "elsewhere" / "copied"))
    asked = replace(config, gold=copied, gold_every=100)  # one question
    tasks = exported(asked)
    (question,) = (unit for unit in tasks.units if unit.purpose == "gold")
    met = {tasks.images[name].sha256 for name in question.images}
    work = {unit.id for unit in tasks.units if unit.purpose == "work"}
    assert work == {unit.id for unit in whole if met.isdisjoint(contents[name] for name in unit.images)}
    assert 0 < len(work) < len(whole)
    with pytest.raises(UsageError, match="known answer") as error:
        run(replace(asked, qualification=20))
    assert "--gold" in error.value.hint


def test_an_id_that_names_another_picture_in_the_questions_is_named(tmp_path: Path) -> None:
    workdir = tmp_path / "work"
    write_world_dataset(workdir / "dataset", sets=2)
    other = write_world_dataset(tmp_path / "other", sets=2, seed=4)
    config = ExportTasks(task="describe", workdir=workdir, gold=other, gold_every=2)
    with pytest.raises(DataError, match="'photos0/img10'"):
        run(config)


def test_candidates_are_judged_with_their_captions(workdir: Path) -> None:
    tasks = exported(study.options(workdir, "entail"))
    units = {unit.text_ids[0]: unit for unit in tasks.units}
    assert (units["s1"].texts, units["s1"].statement) == (("One.", "=2"), "A <shape> is red & round.")
    assert all(unit.most == 3 for unit in tasks.units)
    assert exported(replace(study.options(workdir, "entail"), raters=1)).units[0].most == 1


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"image": "nowhere", "statement": "s", "text": "x"}', r"candidates\.jsonl:1: .*'nowhere'"),
        ('{"image": "photos0/img4"}', r"candidates\.jsonl:1: .*statement"),
        ('{"image": "photos0/img4", "statement": "s", "text": "x"}\n' * 2, r"candidates\.jsonl:2: .* are repeated"),
        ("{", r"candidates\.jsonl:1: "),
    ],
)
def test_a_candidate_that_does_not_fit_names_its_line(line: str, message: str, workdir: Path) -> None:
    config = study.options(workdir, "entail")
    (workdir / "candidates.jsonl").write_text(line + "\n")
    with pytest.raises(DataError, match=message):
        run(config)


def test_candidates_saved_by_an_editor_are_read(workdir: Path) -> None:
    config = study.options(workdir, "entail")
    file = workdir / "candidates.jsonl"
    text = file.read_text().replace("\n", "\r\n\r\n")
    file.write_text(text, encoding="utf-8-sig", newline="")
    assert len(exported(config).units) == 2
    file.write_text(text + "{", newline="")
    with pytest.raises(DataError, match=r"candidates\.jsonl:5: "):
        run(config)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"task": "describ"}, "task 'describ'"),
        ({"task": ""}, "task is missing"),
        ({"task": "entail"}, "entail needs"),
        ({"backend": "mechanical"}, "--backend mechanical"),
        ({"backend": "label-studio"}, "needs their address"),
        ({"fraction": 0.0}, "--fraction 0.0"),
        ({"launch": True}, "--launch does"),
        ({"live": True}, "--live needs --launch"),
        ({"task": "review", "raters": 3}, "to the protocol"),
        ({"sameness": 1.5}, "sameness = 1.5 is"),
    ],
)
def test_wrong_arguments_are_one_sentence(change: dict[str, Any], message: str, workdir: Path) -> None:
    with pytest.raises(UsageError, match=message):
        run(replace(ExportTasks(task="describe", workdir=workdir), **change))
    assert not (workdir / "tasks").exists()


@pytest.mark.parametrize("task", ["retrieve", "review", "repeat"])
def test_without_answers_it_says_what_comes_first(task: str, workdir: Path) -> None:
    with pytest.raises(UnfinishedError, match="no answers yet"):
        run(ExportTasks(task=task, workdir=workdir))


@pytest.mark.parametrize(
    ("task", "answered", "message"),
    [
        ("review", "describe", "review: .*finished talk"),
        ("repeat", "describe", "repeat: nothing was"),
        ("retrieve", "entail", "retrieve: no description"),
    ],
)
def test_without_the_answers_that_a_task_is_made_from_it_says_which(
    task: str, answered: str, message: str, workdir: Path
) -> None:
    study.work_locally(workdir, answered)
    import_answers(ImportAnswers(workdir=workdir))
    with pytest.raises(UnfinishedError, match=message) as caught:
        run(ExportTasks(task=task, workdir=workdir))
    assert caught.value.hint.startswith("ctxr import-answers")


def test_objects_of_a_photo_are_a_hint_for_who_sees_it(workdir: Path) -> None:
    file = workdir / "objects.jsonl"
    file.write_text('{"image": "photos0/img4", "labels": ["Dog", "Bread"]}\n')
    config = replace(study.options(workdir, "dialogue"), objects=file, targets=10)
    labels = {unit.target: unit.labels for unit in exported(config).units if unit.labels}
    assert labels == {"photos0/img4": ("Dog", "Bread")}
    assert run(config).up_to_date
    for text, message in (
        (file.read_text() * 2, r"objects\.jsonl:2: the image 'photos0/img4' is repeated"),
        ('{"image": "x", "labels": []}', r"objects\.jsonl:1: .* has no image 'x'"),
        ('{"image": "x"}', r"objects\.jsonl:1: .*labels"),
    ):
        file.write_text(text)
        with pytest.raises(DataError, match=message):
            run(config)


def test_a_folder_of_something_else_is_left_alone(workdir: Path) -> None:
    (workdir / "tasks" / "describe").mkdir(parents=True)
    (workdir / "tasks" / "describe" / "notes.txt").write_text("mine")
    with pytest.raises(UsageError, match=r"notes\.txt"):
        run(ExportTasks(task="describe", workdir=workdir))


def test_a_study_is_drafted_once_and_its_codes_stay_private(workdir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[dict[str, Any]] = []

    monkeypatch.setattr("ctxr.annotation.platforms.prolific.connect", lambda: StudyClient(made, lost=True))
    config = study.options(workdir, "retrieve", "prolific")
    with pytest.raises(CtxrError, match="answer was lost"):
        run(replace(config, launch=True))
    assert "is a draft" in run(replace(config, launch=True)).notes[0]
    assert run(replace(config, launch=True, live=True)).notes == ["the study s1 is active"]
    assert len(made) == 1
    assert read_study(config.folder()) == "s1"
    assert made[0]["filters"][1]["selected_values"] == ["10", "11", "12", "13", "14", "15"]
    written = json.loads((config.folder() / "prolific" / "study.json").read_text())
    assert written["filters"][1]["selected_values"] == list(COUNTRIES.values())
    private = workdir / "crowd" / "private"
    codes = codes_of(private, config.folder().name)
    assert [one["code"] for one in made[0]["completion_codes"]] == list(codes.values())
    assert not any(code in path.read_text() for code in codes.values() for path in config.folder().rglob("*.json*"))
    parts = read_table(config.folder() / "prolific" / "bundles.jsonl", Bundle)
    assert {name for part in parts for name in part.units} == {one.id for one in read_tasks(config.folder()).units}


def test_a_protocol_that_the_server_could_not_follow_is_refused_with_what_to_type(workdir: Path) -> None:
    exported(study.options(workdir, "describe"))
    other = replace(study.options(workdir, "dialogue"), attention_every=7)
    with pytest.raises(UsageError, match="cannot follow two") as caught:
        run(other)
    assert caught.value.hint.startswith("--protocol FILE, where attention_every = 0")

"""`ctxr import-answers`: every answer is checked again, whoever checked it before; nothing is taken twice or half."""

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

from ctxr.annotation.answers import REFUSED, AnswerableUnit, AnswerMerge, merge_answers, refused_answers, run
from ctxr.annotation.artifacts import read_judgments
from ctxr.annotation.config import ImportAnswers
from ctxr.annotation.journal.identities import Identities
from ctxr.annotation.platforms.arrivals import Arrival, Arrivals, Refusal
from ctxr.annotation.protocol import Protocol, shown_order
from ctxr.annotation.pseudonyms import pseudonym
from ctxr.annotation.records import Answer, Unit
from ctxr.engine.progress import Silent
from ctxr.errors import UnfinishedError, UsageError
from ctxr.pipelines.crowd.export_tasks import run as export_tasks
from ctxr.store.artifacts import open_artifact
from ctxr.store.records import ImageSet
from ctxr.store.tables import read_table
from tests.annotation.platforms import study

IMAGES = ("s/1", "s/2", "s/3")
SET = ImageSet("s", "photos", IMAGES, "s", "s", None, 0.1, 0.2)
DESCRIBE = Unit("d", "describe", "s", "s", IMAGES, target="s/2", split="train")
OTHER = Unit("e", "describe", "s", "s", IMAGES, target="s/3", split="train")
PROTOCOL = Protocol()
QUESTIONS = {unit.id: AnswerableUnit(unit, SET, PROTOCOL) for unit in (DESCRIBE, OTHER)}
TEXT = "The red cup beside the door lacks its handle today."


def answer(unit: Unit, worker: str, minute: int, slot: int = 0, **values: str) -> Answer:
    order = shown_order(unit.images, unit.ordered, unit.id, slot, PROTOCOL.seed)
    given: dict[str, tuple[str, ...]] = {name: (value,) for name, value in values.items()}
    return Answer(unit.id, worker, given, order, slot, f"2026-11-20T09:{minute:02d}:00.000Z", 9.0, "local")


def arrived(*answers: Answer) -> Arrivals:
    return Arrivals(Path("file"), rows=[Arrival(f"file:{number}", one) for number, one in enumerate(answers, 1)])


def took(*answers: Answer, before: tuple[Answer, ...] = ()) -> AnswerMerge:
    return merge_answers(before, arrived(*answers), QUESTIONS, {})


def codes(taken: AnswerMerge) -> list[tuple[str, str]]:
    return [(refusal.where, refusal.code) for refusal in taken.refused]


def retrieval(describer: str = "w-a") -> Unit:
    taken = took(answer(DESCRIBE, describer, 1, description=TEXT))
    (unit,) = [one.unit for one in taken.units.values() if one.unit.task == "retrieve"]
    return unit


@pytest.mark.parametrize(("text", "code"), [("the cat on the next image", "mentions_other_images"), ("", "empty")])
def test_a_text_that_the_page_would_not_take_is_not_imported_either(text: str, code: str) -> None:
    assert codes(took(answer(DESCRIBE, "w-a", 1, description=text))) == [("file:1", code)]


def test_texts_are_measured_against_those_that_came_before_and_not_after() -> None:
    taken = took(
        answer(OTHER, "w-b", 5, description=TEXT.upper()),  # later, though first in the file
        answer(DESCRIBE, "w-a", 1, description=TEXT),
    )
    assert codes(taken) == [("file:1", "copied")]
    again = took(answer(DESCRIBE, "w-a", 1, description=TEXT), answer(OTHER, "w-a", 2, description=TEXT))
    assert codes(again) == [("file:2", "repeats_yourself")]
    before = answer(DESCRIBE, "w-a", 1, description=TEXT)
    assert codes(took(answer(OTHER, "w-b", 2, description=TEXT), before=(before,))) == [("file:1", "copied")]


def test_the_same_answer_again_is_one_and_another_is_refused() -> None:
    before = answer(DESCRIBE, "w-a", 1, description=TEXT)
    taken = took(replace_at(before, 7), answer(DESCRIBE, "w-a", 8, description=f"{TEXT} Really."), before=(before,))
    assert (taken.again, taken.new, codes(taken)) == (1, 0, [("file:2", "answered_before")])
    assert taken.answers == {("d", "w-a"): before}


def test_an_answer_that_was_corrected_on_our_pages_takes_the_place_of_the_first() -> None:
    before = answer(DESCRIBE, "w-a", 1, description=TEXT)
    corrected = msgspec.structs.replace(before, values={"description": (f"{TEXT} Really.",)})
    taken = took(corrected, before=(before,))
    assert (taken.new, taken.again, codes(taken)) == (1, 0, [])
    assert taken.answers == {("d", "w-a"): corrected}
    elsewhere = [msgspec.structs.replace(one, backend="label-studio") for one in (before, corrected)]
    assert codes(took(elsewhere[1], before=(elsewhere[0],))) == [("file:1", "answered_before")]


def replace_at(one: Answer, minute: int) -> Answer:
    return msgspec.structs.replace(one, at=f"2026-11-20T09:{minute:02d}:00.000Z")


def test_no_more_answers_are_taken_than_were_asked_for() -> None:
    texts = [
        f"Nothing but {word} bottles and {word} glasses stand there."
        for word in ("green", "blue", "old", "tall", "wet")
    ]
    five = [answer(DESCRIBE, f"w-{number}", number, description=text) for number, text in enumerate(texts)]
    taken = took(*five[::-1])
    assert (taken.new, codes(taken)) == (1, [(f"file:{row}", "enough") for row in (4, 3, 2, 1)])
    later = took(*five, before=(five[2],))  # what was imported first stays
    assert (later.new, later.again, list(later.answers)) == (0, 1, [("d", "w-2")])


def test_an_answer_is_taken_that_replaces_one_of_a_blocked_worker() -> None:
    rows = (
        answer(DESCRIBE, "w-a", 1, description="Some nice view and a pretty good look."),
        answer(DESCRIBE, "w-b", 2, description=TEXT),
    )
    taken = merge_answers((), arrived(*rows), QUESTIONS, {}, ("w-a",))
    assert (taken.new, codes(taken), list(taken.answers)) == (2, [], [("d", "w-a"), ("d", "w-b")])


def test_nobody_votes_on_their_own_description() -> None:
    unit = retrieval("w-a")
    taken = took(answer(DESCRIBE, "w-a", 1, description=TEXT), answer(unit, "w-a", 2, pick="s/2"))
    assert codes(taken) == [("file:2", "own_work")]


def test_an_answer_to_a_description_that_arrives_with_it_is_taken_in_any_order_of_the_file() -> None:
    unit = retrieval("w-a")
    taken = took(answer(unit, "w-b", 2, pick="s/2"), answer(DESCRIBE, "w-a", 1, description=TEXT))
    assert (taken.new, codes(taken)) == (2, [])
    # clocks differ: the description may even look later
    late = took(answer(unit, "w-b", 2, pick="s/2"), answer(DESCRIBE, "w-a", 3, description=TEXT))
    assert (late.new, codes(late)) == (2, [])
    tables = taken.tables()
    assert [(row.worker, row.candidate) for row in tables["judgments"]] == [("gold", "s/2"), ("w-b", "s/2")]
    assert [text.text for text in tables["texts"]] == [TEXT]


def test_an_answer_to_a_description_that_was_refused_is_refused() -> None:
    unit = retrieval("w-a")
    assert codes(took(answer(unit, "w-b", 2, pick="s/2"))) == [("file:1", "no_question")]


def test_an_answer_from_before_the_tasks_had_another_seed_keeps_the_order_that_was_shown() -> None:
    before = answer(DESCRIBE, "w-a", 1, description=TEXT)
    questions = {"d": AnswerableUnit(DESCRIBE, SET, Protocol(seed=5))}
    assert before.order != shown_order(IMAGES, False, "d", 0, 5)
    assert merge_answers((), arrived(before), questions, {}).answers == {("d", "w-a"): before}


@pytest.mark.parametrize("pick", ["s/9", "3", "../etc/passwd", ""])
def test_a_picture_that_was_not_shown_is_refused(pick: str) -> None:
    unit = retrieval()
    taken = took(answer(DESCRIBE, "w-a", 1, description=TEXT), answer(unit, "w-b", 2, pick=pick))
    assert codes(taken) == [("file:2", "not_offered")]


def test_answers_to_tasks_that_are_gone_stay_and_get_no_company() -> None:
    before = answer(DESCRIBE, "w-a", 1, description=TEXT)
    past = {"d": AnswerableUnit(DESCRIBE, SET, None)}
    taken = merge_answers(
        (before,), arrived(answer(DESCRIBE, "w-b", 2, description="Nothing but a green bottle stands there.")), {}, past
    )
    assert list(taken.answers.values()) == [before]
    assert codes(taken) == [("file:1", "no_question")]
    assert taken.units["d"].unit == DESCRIBE


@pytest.fixture
def workdir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    return study.make_project(tmp_path, monkeypatch)


def labelled(workdir: Path, monkeypatch: pytest.MonkeyPatch, task: str = "retrieve") -> tuple[ImportAnswers, list[Any]]:
    done = study.work_locally(workdir, task)
    config = study.deliver(workdir, task, "label-studio", done)
    assert config.file is not None
    return replace(config, out=None), json.loads(config.file.read_text())


def test_refused_rows_are_listed_and_a_mended_file_replaces_them(
    workdir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config, rows = labelled(workdir, monkeypatch)
    assert config.file is not None
    whole = config.file.read_text()
    rows[1]["annotations"][0]["result"][0]["value"]["choices"] = ["99"]
    config.file.write_text(json.dumps(rows))
    report = run(config)
    assert (report.new, report.refused, report.reasons) == (len(rows) - 1, 1, {"not_offered": 1})
    (refusal,) = read_table(config.folder() / REFUSED, Refusal)
    assert refusal.where == f"{config.file.name}:2:{rows[1]['annotations'][0]['id']}"
    before = study.files_of(config.folder())
    assert run(config).up_to_date
    assert study.files_of(config.folder()) == before
    config.file.write_text(whole)
    report = run(config)
    assert (report.new, report.again, report.refused) == (1, len(rows) - 1, 0)
    assert read_table(config.folder() / REFUSED, Refusal) == []


def test_a_refused_answer_that_two_files_have_is_counted_once(workdir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config, rows = labelled(workdir, monkeypatch)
    assert config.file is not None
    rows[1]["annotations"][0]["result"][0]["value"]["choices"] = ["99"]
    for name in ("monday.json", "tuesday.json"):
        file = config.file.with_name(name)
        rows[0]["meta"] = name
        file.write_text(json.dumps(rows))
        assert run(replace(config, file=file)).reasons == {"not_offered": 1}
    (refusal,) = read_table(config.folder() / REFUSED, Refusal)
    assert refusal.where.startswith("tuesday.json:2:")
    assert refused_answers(config.folder()) == {"not_offered": 1}


def test_a_file_cut_between_rows_leaves_units_without_an_answer(workdir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config, rows = labelled(workdir, monkeypatch)
    assert config.file is not None
    assert run(config).unanswered == 0
    shutil.rmtree(config.folder())
    config.file.write_text(json.dumps(rows[:2]))
    kept = {row["data"]["ctxr_unit"] for row in rows[:2]}
    assert run(config).unanswered == len({row["data"]["ctxr_unit"] for row in rows} - kept) > 0


@pytest.mark.parametrize("nobody", ["", " "])
def test_an_answer_of_nobody_is_refused_and_makes_no_person(
    nobody: str, workdir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, *others = study.work_locally(workdir, "retrieve")
    config = study.deliver(workdir, "retrieve", "label-studio", [replace(first, identity=nobody), *others])
    report = run(config)
    assert (report.new, report.reasons) == (len(others), {"nobody": 1})
    workers = {one.worker for one in read_judgments(config.folder()).answers}
    assert workers == {study.person(one.identity) for one in others}


@pytest.mark.parametrize("backend", ["label-studio", "prolific"])
def test_a_file_without_answers_is_said_to_hold_none(
    backend: str, workdir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    study.work_locally(workdir, "retrieve")
    config = study.deliver(workdir, "retrieve", backend, [])
    assert config.file is not None
    for _ in range(2):
        with pytest.raises(UnfinishedError, match=rf"{config.file.name} holds no answers"):
            run(config)
    assert not (config.folder() / "manifest.json").exists()


def rejected(file: Path, name: str, identity: str) -> Path:
    """The same submissions, but that Prolific rejected one person's."""
    rows = json.loads(file.read_text())["results"]
    told = [row | {"status": "REJECTED"} if row["participant_id"] == identity else row for row in rows]
    path = file.with_name(name)
    path.write_text(json.dumps(told))
    return path


def test_what_was_rejected_since_is_listed_and_kept(workdir: Path) -> None:
    done = study.work_locally(workdir, "retrieve", "prolific")
    config = study.deliver(workdir, "retrieve", "prolific", done)
    assert config.file is not None
    run(config)
    first = done[0].identity
    theirs = [one for one in done if one.identity == first]
    report = run(replace(config, file=rejected(config.file, "later.json", first)))
    assert (report.again, report.reasons) == (len(done) - len(theirs), {"rejected_since": len(theirs)})
    refusal = read_table(config.folder() / REFUSED, Refusal)[0]
    assert refusal.where.startswith("later.json:")
    worker = study.person(first)
    assert f" ctxr workers --allow {worker} " in refusal.sentence
    assert (refusal.unit, worker) in {(one.unit, one.worker) for one in read_judgments(config.folder()).answers}


def test_another_answer_to_what_was_answered_stays_listed(workdir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config, rows = labelled(workdir, monkeypatch)
    assert config.file is not None
    run(config)
    choices = rows[0]["annotations"][0]["result"][0]["value"]["choices"]
    choices[0] = "2" if choices[0] == "1" else "1"
    other = config.file.with_name("other.json")
    other.write_text(json.dumps(rows))
    assert run(replace(config, file=other)).reasons == {"answered_before": 1}
    run(config)
    assert [one.code for one in read_table(config.folder() / REFUSED, Refusal)] == ["answered_before"]


def test_answers_from_two_places_are_one_table(workdir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config, rows = labelled(workdir, monkeypatch)
    assert config.file is not None
    half = config.file.with_name("half.json")
    half.write_text(json.dumps(rows[: len(rows) // 2]))
    run(replace(config, file=half))
    assert len(read_judgments(config.folder()).answers) == len(rows) // 2
    report = run(ImportAnswers(workdir=workdir))  # the same people on our own server
    assert (report.new, report.again) == (len(rows) - len(rows) // 2, len(rows) // 2)
    assert {one.backend for one in read_judgments(config.folder()).answers} == {"local", "label-studio"}


def test_people_from_prolific_count_once_prolific_knows_them(workdir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    done = study.work_locally(workdir, "retrieve", "prolific")
    said: list[str] = []
    progress = Silent()
    monkeypatch.setattr(progress, "warn", said.append)
    assert run(ImportAnswers(workdir=workdir), progress).new == 0
    (line,) = said
    assert line.startswith(f"{len(done)} answers ")
    assert "ctxr import-answers --from prolific" in line
    config = study.deliver(workdir, "retrieve", "prolific", done)
    assert run(replace(config, out=None)).new == len(done)
    assert run(ImportAnswers(workdir=workdir)).up_to_date


def test_who_is_who_stays_in_the_private_folder(workdir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config, _ = labelled(workdir, monkeypatch)
    for name in study.PSEUDONYM:
        monkeypatch.setattr(name, pseudonym)
    run(config)
    identities = Identities(workdir / "crowd" / "private", study.KEY)
    workers = {one.worker for one in read_judgments(config.folder()).answers}
    assert workers <= {pseudonym(study.KEY, "label-studio", one) for one in study.WORKERS}
    assert all(map(identities.knows, workers))
    for name, content in study.files_of(config.folder()).items():
        assert not any(worker.encode() in content for worker in study.WORKERS), name


def test_judgments_name_their_tasks_and_find_their_pictures(workdir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config, _ = labelled(workdir, monkeypatch)
    run(config)
    read = read_judgments(config.folder())
    assert all((read.root / image.path).is_file() for image in read.images.values())
    assert {name for unit in read.units.values() for name in unit.images} == set(read.images)
    assert {parent.name for parent in open_artifact(config.folder()).manifest.parents} == {
        "retrieve", "retrieve-label-studio", "label-studio-results.json",
    }  # fmt: skip


def test_tasks_may_be_deleted_after_they_were_answered(workdir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    done = study.work_locally(workdir, "describe")
    run(ImportAnswers(workdir=workdir))
    shutil.rmtree(workdir / "tasks" / "describe")
    (workdir / "crowd" / "answers.sqlite").unlink()
    more = study.work_locally(workdir, "entail")
    report = run(ImportAnswers(workdir=workdir))
    assert report.new == len(more)
    assert len(read_judgments(workdir / "judgments").answers) == len(done) + len(more)


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"platform_of": "mturk"}, UsageError, "--from mturk"),
        ({"platform_of": "label-studio"}, UsageError, "label-studio are in"),
        ({"file": Path("x.csv")}, UsageError, "^x.csv does not"),
        ({"file": Path(__file__)}, UsageError, "journal, .*a file"),
        ({}, UnfinishedError, "no finished tasks"),
    ],
)
def test_wrong_arguments_are_one_sentence(change: dict[str, Any], error: type, message: str, workdir: Path) -> None:
    with pytest.raises(error, match=message):
        run(replace(ImportAnswers(workdir=workdir), **change))


def test_a_platform_to_which_nothing_went_is_named(workdir: Path) -> None:
    export_tasks(study.options(workdir, "describe"))
    with pytest.raises(UnfinishedError, match="exported to label-studio"):
        run(ImportAnswers(Path(__file__), "label-studio", workdir=workdir))
    with pytest.raises(UnfinishedError, match="has no answers"):
        run(ImportAnswers(workdir=workdir))
    assert not (workdir / "judgments").exists()


def test_a_file_says_itself_which_of_several_exports_it_answers(workdir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config, rows = labelled(workdir, monkeypatch)
    export_tasks(replace(study.options(workdir, "tag", "label-studio"), seed=8))
    assert run(config).new == len(rows)
    assert run(replace(config, tasks="retrieve-label-studio")).again == len(rows)


def test_a_talk_of_two_replaces_one_with_a_blocked_worker() -> None:
    talk = Unit("t", "dialogue", "s", "s", IMAGES[:1], ordered=True, target="s/1", split="train")
    turns = [{"user": number % 2, "text": f"turn {number}"} for number in range(5)]
    said = msgspec.json.encode([*turns, {"user": 0, "text": "", "share": True}]).decode()

    def both(minute: int, slot: int, *pair: str) -> list[Answer]:
        rows = [answer(talk, worker, minute, slot, turns=said) for worker in pair]
        return [msgspec.structs.replace(row, values=row.values | {"pair": pair}) for row in rows]

    questions = {"t": AnswerableUnit(talk, SET, PROTOCOL)}
    rows = (*both(1, 0, "w-a", "w-b"), *both(2, 1, "w-c", "w-d"), *both(3, 2, "w-e", "w-f"))
    taken = merge_answers((), arrived(*rows), questions, {}, ("w-b",))
    assert (taken.new, codes(taken)) == (4, [("file:5", "enough"), ("file:6", "enough")])

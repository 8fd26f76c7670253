"""`ctxr workers --withdraw`: everything of one person goes, from the journal to the dataset, and all are paid."""

import json
import random
import re
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from typer.testing import CliRunner

import ctxr
from ctxr.annotation.answers import run as import_answers
from ctxr.annotation.artifacts import read_judgments
from ctxr.annotation.config import ExportTasks, ImportAnswers
from ctxr.annotation.confirmation import ask_to_withdraw, leaving
from ctxr.annotation.journal.dealing import WITHDRAWN
from ctxr.annotation.journal.identities import FILE, Identities, known_workers, read_visits
from ctxr.annotation.journal.journal import Journal
from ctxr.annotation.journal.results import DECLINED, Lease
from ctxr.annotation.overview import overview
from ctxr.annotation.owed import owed_by
from ctxr.annotation.platforms.prolific import ProlificClient
from ctxr.annotation.pseudonyms import read_key
from ctxr.cli.app import app
from ctxr.engine.history import HISTORY, recorded
from ctxr.engine.progress import SILENT
from ctxr.errors import DryRun, UnfinishedError, UsageError
from ctxr.pipelines.crowd.aggregate import run as aggregate
from ctxr.pipelines.crowd.config import Aggregate, Serve, Workers
from ctxr.pipelines.crowd.export_tasks import run as export_tasks
from ctxr.pipelines.crowd.serve import open_site
from ctxr.pipelines.crowd.workers import run
from ctxr.pipelines.sharing.config import Export
from ctxr.pipelines.sharing.export import run as export
from tests.annotation.journal.study import START, after, values
from tests.annotation.platforms.participants import came, give, listing, participant, served
from tests.pipelines.crowd.test_settle import ADDRESS, Prolific
from tests.pipelines.report_artifacts import project

ODD = "Ada\n<b>Lovelace</b>"


@pytest.fixture
def work(tmp_path: Path) -> Path:
    """A study of descriptions, in which ada wrote, and ben and cy looked for what she wrote."""
    work = project(tmp_path / "work", videos=2, sets=2, photos=0)
    export_tasks(ExportTasks(task="describe", workdir=work, targets=1, disjoint="none"))
    journal, people = served(work), Identities(work / "crowd" / "private", read_key(work / "crowd" / "private"))
    for name in (ODD, "Ben", "Cy"):
        journal.enrol(people.worker("local", f"team/{name}"), "local", START)
    people.close()
    ada, ben, cy = names(work)
    for worker, count in ((ada, 2), (ben, 1)):
        for _ in range(count):
            answer(journal, worker, "describe")
    for worker in (ada, ben, cy):
        while answer(journal, worker, "retrieve"):
            pass
    journal.close()
    return work


def names(work: Path) -> list[str]:
    private = work / "crowd" / "private"
    people = Identities(private, read_key(private))
    known = {name: worker for worker, name in people.names().items()}
    people.close()
    return [known[name] for name in (ODD, "Ben", "Cy")]


def answer(journal: Journal, worker: str, task: str) -> bool:
    lease = journal.lease(worker, after(0), [task])
    if not isinstance(lease, Lease):
        return False
    filled = values(lease.unit, random.Random(f"{worker}{lease.unit.id}"))
    journal.submit(lease.token, worker, filled | {"counted": ("1 2 3000",)}, after(1))
    return True


def files_with(folder: Path, *words: str) -> set[str]:
    """The files below a folder in which one of the words stands."""
    needles = [form for word in words for form in (word.encode(), json.dumps(word)[1:-1].encode())]
    files = {file for file in folder.rglob("*") if file.is_file() and any(one in file.read_bytes() for one in needles)}
    return {file.relative_to(folder).as_posix() for file in files}


def test_all_of_one_person_goes_and_the_dataset_is_made_without_them(work: Path) -> None:
    ada, ben, cy = names(work)
    before = aggregate(Aggregate(workdir=work, resamples=20))
    export(Export(workdir=work, to="croissant"))
    texts = tuple(row.text for row in read_judgments(work / "judgments").texts if row.author == ada)
    assert (len(texts), before.counts["queries"]) == (2, 3)
    first = run(Workers(workdir=work))
    owed = {row[0]: row[4] for row in first.owed.rows}
    assert first.page_use is not None
    assert {row[0]: row[3:] for row in first.page_use.rows} == dict.fromkeys((ada, ben, cy), (1.0, 2.0, 3.0))
    report = run(Workers(workdir=work, withdraw=ODD))
    told = "\n".join(report.withdrawn)
    assert f"{work / 'dataset'} was made with" in told
    assert ": ctxr aggregate" in told
    assert f"{work / 'export-croissant'} was made" in told
    assert f"{ada} is still owed {owed[ada]:.2f} USD" in told
    assert {row[0]: row[4] for row in report.owed.rows} == owed
    assert ben in {row.worker for row in report.workers} <= {ben, cy}
    assert report.page_use is not None
    assert ada not in {row[0] for row in report.page_use.rows}
    assert files_with(work / "crowd", *texts, ODD) == set()
    assert files_with(work / "judgments", ada, *texts) == set()
    again = aggregate(Aggregate(workdir=work, resamples=20))
    assert again.counts["queries"] + sum(again.counts["dropped"].values()) == 1  # ben's, which may lack ada's vote
    assert files_with(work / "dataset", ada, *texts) == set()
    # others describe what ada described
    assert served(work).progress()["describe"].open == served(work).progress()["describe"].units - 1


def test_where_everybody_has_withdrawn_the_dataset_is_made_again_without_any_row(work: Path) -> None:
    aggregate(Aggregate(workdir=work, resamples=20))
    people = names(work)
    texts = [row.text for row in read_judgments(work / "judgments").texts]
    for name in (ODD, "Ben", "Cy"):
        run(Workers(workdir=work, withdraw=name))
    with pytest.warns(ctxr.CtxrWarning, match="^3 people have withdrawn"):
        emptied = ctxr.aggregate(workdir=work, resamples=20)
    assert {emptied.counts[name] for name in ("sets", "queries", "judgments", "workers")} == {0}
    assert files_with(work / "dataset", *people, *texts) == set()


def test_a_dry_run_counts_and_a_second_run_with_paid_leaves_the_pseudonym_alone(work: Path) -> None:
    ada, ben, _ = names(work)
    config = Workers(workdir=work, withdraw=ODD)
    before = {file: file.read_bytes() for file in work.rglob("*") if file.is_file() and "-shm" not in file.name}
    with recorded(config, dry_run=True), pytest.raises(DryRun) as ended:
        run(config)
    plan = ended.value.plan
    then = str(plan["then"]).splitlines()
    assert (plan["answers"], re.findall(r"\d (\w+)", then[1])) == (3, ["describe", "retrieve"])
    assert before.items() <= {file: file.read_bytes() for file in work.rglob("*") if file.is_file()}.items()
    (owed,) = (row[4] for row in run(Workers(workdir=work)).owed.rows if row[0] == ada)
    assert f"{ada} is still owed {owed:.2f} USD" in then[-1]
    run(config)
    paid = run(replace(config, paid=True))
    assert paid.withdrawn[-1].startswith(f"{owed:.2f} USD ")
    assert ada not in {row[0] for row in paid.owed.rows}
    assert ben in {row[0] for row in paid.owed.rows}
    assert ada in {change.worker for change in paid.changes}
    for typed, hint in (("nobody", "an invitation"), ("ben", " Ben?")):
        with pytest.raises(UsageError, match=f"'{typed}'") as caught:
            run(Workers(workdir=work, withdraw=typed))
        assert hint in caught.value.hint
    with pytest.raises(UsageError, match="--paid"):
        run(Workers(workdir=work, paid=True))
    with pytest.raises(UsageError, match="--withdraw"):
        run(Workers(workdir=work, withdraw="Ben", settle=True))


@pytest.mark.parametrize("step", ["compact", "forget", "merge"])
def test_what_a_kill_leaves_behind_a_second_run_deletes(work: Path, monkeypatch: pytest.MonkeyPatch, step: str) -> None:
    aggregate(Aggregate(workdir=work, resamples=20))
    ada, *_ = names(work)
    texts = tuple(row.text for row in read_judgments(work / "judgments").texts if row.author == ada)

    def die(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        target = {
            "compact": "ctxr.annotation.journal.database.Database.compact",
            "forget": "ctxr.annotation.journal.identities.Identities.forget",
            "merge": "ctxr.pipelines.crowd.workers.merge_journal",
        }[step]
        patched.setattr(target, die)
        with pytest.raises(KeyboardInterrupt):
            run(Workers(workdir=work, withdraw=ODD))
    run(Workers(workdir=work, withdraw=ODD))
    assert files_with(work / "crowd", *texts, ODD) == set()
    assert files_with(work / "judgments", ada, *texts) == set()


def on_prolific(work: Path) -> tuple[Path, Journal, str, str]:
    """A study on Prolific with two participants, `aaa…` and `bbb…`, who gave one answer each."""
    project(work, videos=2, sets=2, photos=0)
    config = ExportTasks(task="describe", workdir=work, targets=1, disjoint="none", backend="prolific")
    export_tasks(replace(config, server="https://crowd.example.org", reward=300))
    journal = served(work)
    one, two = (participant(work, journal, name * 24) for name in "ab")
    for worker in (one, two):
        give(journal, worker, "describe", 1)
    return work, journal, one, two


def test_who_is_on_prolific_keeps_the_submission_until_they_are_paid(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    work, journal, one, two = on_prolific(tmp_path / "work")
    journal.close()
    private = work / "crowd" / "private"
    (private / "prolific-submissions.json").write_text(json.dumps([{"participant_id": name * 24} for name in "ab"]))
    taken = listing(work, **{"a" * 24: "APPROVED", "b" * 24: "APPROVED"})
    assert import_answers(taken).new == 2
    run(Workers(workdir=work, withdraw="a" * 24))
    assert [visit.worker for visit in read_visits(private)] == sorted([one, two], key=[one, two].index)
    assert files_with(private, "a" * 24) == {FILE}
    assert "b" * 24 in (private / "prolific-submissions.json").read_text()
    run(Workers(workdir=work, withdraw="a" * 24, paid=True))
    assert files_with(private, "a" * 24) == set()
    # the same list brings nobody back, and Prolific's own leaves them out
    assert import_answers(taken).new == 0
    rows = {name: {"id": f"sub-{name * 24}", "participant_id": name * 24, "status": "APPROVED"} for name in "abc"}
    online = ProlificClient("secret", ADDRESS, Prolific(rows), lambda seconds: None)
    monkeypatch.setattr("ctxr.annotation.platforms.prolific.connect", lambda: online)
    (work / "tasks" / "describe" / "prolific" / "launched.json").write_text(json.dumps({"study": "study-1"}))
    import_answers(ImportAnswers(workdir=work, platform_of="prolific"))
    assert [row["participant_id"] for row in json.loads((private / "prolific-submissions.json").read_bytes())] == [
        "b" * 24
    ]
    assert {row.worker for row in read_judgments(work / "judgments").answers} == {two}
    assert files_with(work, "a" * 24) == set()


def test_a_block_stays_in_force_for_pay_beside_a_request_to_withdraw(tmp_path: Path) -> None:
    work, journal, one, two = on_prolific(tmp_path / "work")
    journal.change(two, "blocked", "spam", "Ada", after(2))
    journal.close()
    private = work / "crowd" / "private"
    people = Identities(private, read_key(private))
    for name in "ab":
        people.end(f"sub-{name * 24}", "complete")
    people.close()
    import_answers(listing(work, **{"a" * 24: "RETURNED", "b" * 24: "AWAITING REVIEW"}))

    def decided() -> tuple[dict[str, float], str]:
        journal = served(work)
        owed = {row[0]: row[4] for row in owed_by(work, journal.answered(), journal).rows}
        block = journal.block_of(two)
        journal.close()
        return owed, block.by if block else ""

    before = decided()
    assert (before[0].get(one, 0), before[1]) == (0, "Ada")
    journal = served(work)
    for worker in (one, two):
        ask_to_withdraw(journal, worker, after(3))
    journal.close()
    assert decided() == before
    for worker in (one, two):
        run(Workers(workdir=work, withdraw=worker))
    assert decided() == before


def test_a_request_to_withdraw_stands_beside_a_later_block(work: Path) -> None:
    ada, *_ = names(work)
    journal = served(work)
    ask_to_withdraw(journal, ada, after(5))
    kept = Aggregate(workdir=work, resamples=20, keep_blocked=True)
    before = aggregate(kept).counts
    journal.change(ada, "blocked", "spam", "lead", after(6))
    assert ([one.worker for one in leaving(journal)], journal.stopped(ada)) == ([ada], WITHDRAWN)
    journal.close()
    assert (aggregate(kept).counts, before["blocked"]) == (before, 1)


def test_who_asks_gets_no_more_work_and_the_researcher_is_told_how_to_delete(work: Path) -> None:
    ada, ben, _ = names(work)
    journal = served(work)
    kept = aggregate(Aggregate(workdir=work, resamples=20, keep_blocked=True)).counts["queries"]
    ask_to_withdraw(journal, ada, after(5))
    ask_to_withdraw(journal, ada, after(6))
    assert len(journal.changes(ada)) == 1
    command = f"--withdraw {ada}"
    assert command in "\n".join(overview(work, journal, journal.answered(), after(7)).stuck)
    assert journal.lease(ada, after(7)) == journal.stopped(ada)
    report = run(Workers(workdir=work))
    assert [command in line for line in report.leaving] == [True]
    assert aggregate(Aggregate(workdir=work, resamples=20, keep_blocked=True)).counts["queries"] < kept
    assert command in CliRunner().invoke(app, ["workers", "-w", str(work)]).output.replace("\n", "")
    # a change of mind
    run(Workers(workdir=work, undo=(ada,), reason="they wrote to us"))
    assert run(Workers(workdir=work)).leaving == ()
    assert journal.stopped(ada) is None
    run(Workers(workdir=work, block=(ben,), reason="copies"))
    assert run(Workers(workdir=work)).leaving == ()
    journal.close()


@pytest.mark.parametrize("typed", ["Declined", "Open Name", "c" * 24, "pseudonym"])
def test_who_never_agreed_is_deleted_too(work: Path, typed: str) -> None:
    private = work / "crowd" / "private"
    people = Identities(private, read_key(private))
    known = [people.worker("local", name) for name in ("team/Declined", "open/open name")]
    known.append(people.worker("prolific", "c" * 24))
    people.come(came("sub-c", "c" * 24, 0, known[-1]), timedelta(hours=1))
    people.end("sub-c", DECLINED)
    people.close()
    (private / "prolific-submissions.json").write_text(json.dumps([{"participant_id": name * 24} for name in "cd"]))
    place = {"Declined": 0, "Open Name": 1}.get(typed, 2)
    config = Workers(workdir=work, withdraw=known[place] if typed == "pseudonym" else typed)
    with recorded(config, dry_run=True), pytest.raises(DryRun, match=known[place]):
        run(config)
    assert known_workers(private) == {*names(work), *known}
    assert known[place] in run(config).withdrawn[0]
    gone = known.pop(place)
    assert known_workers(private) == {*names(work), *known}
    assert files_with(private, gone, ("team/Declined", "open/open name", "c" * 24)[place]) == set()
    assert "d" * 24 in (private / "prolific-submissions.json").read_text()
    with pytest.raises(UsageError, match="no worker"):
        run(config)


def test_no_name_that_is_typed_is_kept_in_the_history(work: Path) -> None:
    shown = CliRunner().invoke(app, ["workers", "-w", str(work), "--withdraw", "Ben"])
    assert shown.exit_code == 0, shown.output
    (line,) = (work / HISTORY).read_text().splitlines()[-1:]
    assert json.loads(line)["words"][-2:] == ["--withdraw", "***"]
    assert "Ben" not in line


def test_questions_at_the_end_are_counted_and_come_out_until_somebody_withdraws(work: Path) -> None:
    ada, ben, _ = names(work)
    journal = served(work)
    for worker, said in ((ada, "too <b>long</b>"), (ben, "")):
        journal.answer_exit(worker, "0a", [("Clear?", "Yes"), ("Hard?", said)], after(5))
        journal.answer_exit(worker, "1b", [("Clear?", "No")], after(6))
    journal.close()
    aggregate(Aggregate(workdir=work, resamples=20))
    file = work / "dataset" / "exit.jsonl"
    rows = [json.loads(line) for line in file.read_text().splitlines()]
    assert [(row["worker"], row["question"], row["answer"]) for row in rows if row["worker"] == ada] == [
        (ada, "Clear?", "Yes"), (ada, "Hard?", "too <b>long</b>"),
    ]  # fmt: skip
    assert len(rows) == 3
    report = run(Workers(workdir=work))
    assert report.exit is not None
    assert report.exit.columns == ("version", "question", "forms sent", "answered")
    assert report.exit.rows == (("0a", "Clear?", 2, 2), ("0a", "Hard?", 2, 1))
    assert "Hard?" in CliRunner().invoke(app, ["workers", "-w", str(work)]).output
    run(Workers(workdir=work, withdraw=ODD))
    aggregate(Aggregate(workdir=work, resamples=20))
    assert [json.loads(line)["worker"] for line in file.read_text().splitlines()] == [ben]
    run(Workers(workdir=work, block=("Ben",), reason="copies"))
    aggregate(Aggregate(workdir=work, resamples=20))
    assert not file.exists()


def test_a_server_that_goes_on_serves_nothing_of_it(work: Path) -> None:
    ada, _, cy = names(work)
    site = open_site(Serve(workdir=work), "http://x", SILENT).site
    run(Workers(workdir=work, withdraw=ODD))
    assert site.journal.done_by(ada) == 0
    lease = site.journal.lease(cy, after(9), ["describe"])
    assert isinstance(lease, Lease)
    site.journal.close()
    site.identities.close()


def test_the_statement_on_data_protection_is_of_what_is_really_kept(work: Path) -> None:
    aggregate(Aggregate(workdir=work, resamples=20))
    (work / "crowd" / "private" / "pay.csv").write_text("")
    (work / "crowd" / "private" / f"{ODD[:3]}<b>").write_text("")
    text = CliRunner().invoke(app, ["workers", "-w", str(work), "--data-protection"]).output
    answers = len(read_judgments(work / "judgments").answers)
    for part in (
        "3 people took part",
        f"### answer: {answers} rows about 3 people",
        "### identity: 3 rows about 3 people",
        "| `pay.csv` |",
        "| `pastes` |",
        "| `away` |",
        "- `dataset`",
        "- `judgments`",
        "--withdraw NAME",
    ):
        assert part in text
    for part in ("Prolific recruits", "Label Studio", "Lovelace", "<b>", "- `filtered`"):
        assert part not in text
    assert "Pasting and leaving" in CliRunner().invoke(app, ["workers", "-w", str(work)]).output
    run(Workers(workdir=work, withdraw=ODD))
    report = run(Workers(workdir=work, data_protection=True))
    assert "### identity: 2 rows about 2 people" in report.data_protection
    assert f"### answer: {answers - 3} rows" not in report.data_protection  # some of others went along


def test_the_statement_is_there_before_the_study_and_other_figures_are_not(tmp_path: Path) -> None:
    work = project(tmp_path / "work", videos=2, sets=2, photos=0)
    export_tasks(ExportTasks(task="describe", workdir=work, targets=1))
    text = run(Workers(workdir=work, data_protection=True)).data_protection
    for part in ("### answer: 0 rows about 0 people", "### identity: 0 rows", "| `away` |", "none yet"):
        assert part in text
    with pytest.raises(UnfinishedError, match="ctxr serve") as caught:
        run(Workers(workdir=work))
    assert "ctxr serve" in caught.value.hint


def test_the_statement_names_every_copy_and_only_what_the_study_has(work: Path) -> None:
    aggregate(Aggregate(workdir=work, resamples=20))
    for form in ("hf", "webdataset"):
        export(Export(workdir=work, to=form))
    (work / "report.html").write_text(read_judgments(work / "judgments").texts[0].text)
    statement = Workers(workdir=work, data_protection=True)
    before = run(statement).data_protection
    copies = before[before.index("## Copies") : before.index("## What is published")]
    named = {line.removeprefix("- `").rstrip("`") for line in copies.splitlines() if line.startswith("- ")}
    assert named == {"judgments", "dataset", "export-hf", "export-webdataset", "report.html"}
    parts = ("page of the", "to the questions")
    assert [part in before for part in parts] == [False, False]
    (work / "study").mkdir()
    for name, part in (("consent", parts[0]), ("exit", parts[1])):
        (work / "study" / f"{name}.md").write_text("# A study")
        assert part in run(statement).data_protection
        (work / "study" / f"{name}.md").unlink()
    # the texts may lie in another folder
    journal = served(work)
    journal.agree(names(work)[0], "0a", "en", after(5))
    journal.answer_exit(names(work)[0], "0a", [("Clear?", "Yes")], after(5))
    journal.close()
    assert all(part in run(statement).data_protection for part in parts)

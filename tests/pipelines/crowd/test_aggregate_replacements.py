"""Work that replaces that of blocked workers, from the server to the dataset: all of it counts, whatever is undone later."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from ctxr.annotation.answers import run as import_answers
from ctxr.annotation.artifacts import Tasks, open_tasks, read_judgments, read_tasks
from ctxr.annotation.config import ExportTasks, ImportAnswers
from ctxr.annotation.journal.journal import Journal, open_journal
from ctxr.annotation.journal.results import Lease
from ctxr.annotation.journal.worker_state import people_needed
from ctxr.annotation.project_journal import journal_of
from ctxr.pipelines.crowd.aggregate import run as aggregate
from ctxr.pipelines.crowd.config import Aggregate, Workers
from ctxr.pipelines.crowd.export_tasks import run as export_tasks
from ctxr.pipelines.crowd.workers import run as workers
from tests.annotation.journal.study import after, answer, newcomer, units_of
from tests.pipelines.report_artifacts import project

PEOPLE = tuple(f"w-{number}" for number in range(14))


def contents(tasks: Sequence[Tasks]) -> dict[str, str]:
    return {name: image.sha256 for batch in tasks for name, image in batch.images.items()}


def journal(work: Path) -> Journal:
    tasks = [read_tasks(one.path) for one in open_tasks(work)]
    units = [unit for batch in tasks for unit in batch.units]
    sets = {name: one for batch in tasks for name, one in batch.sets.items()}
    return open_journal(journal_of(work), units, sets.values(), tasks[0].protocol, pictures=contents(tasks))


def finish(work: Path, people: Sequence[str], minute: int) -> int:
    """Everybody answers, right, until there is nothing left for them; how many answers that makes."""
    done, study = 0, journal(work)
    for worker in people:
        newcomer(study, worker)
    while fresh := [one for worker in people if isinstance(one := study.lease(worker, after(minute)), Lease)]:
        for lease in fresh:
            done, minute = done + 1, minute + 1
            answer(study, lease, now=after(minute))
    study.close()
    return done


@pytest.fixture
def work(tmp_path: Path) -> Path:
    work = project(tmp_path / "work", videos=2, sets=2, photos=12)
    export_tasks(ExportTasks(task="describe", workdir=work, targets=1, disjoint="none", keep_leaks=True))
    return work


@pytest.mark.parametrize(
    ("imported", "undone"),
    [
        (True, True),
        *(pytest.param(*one, marks=pytest.mark.prove) for one in ((False, False), (False, True), (True, False))),
    ],
)
def test_what_replaces_the_work_of_a_blocked_worker_counts(work: Path, imported: bool, undone: bool) -> None:
    first = finish(work, PEOPLE[:8], 0)
    if imported:
        import_answers(ImportAnswers(workdir=work))
    study = journal(work)
    bad = next(state.worker for state in study.workers() if state.answers > 1)
    study.close()
    workers(Workers(workdir=work, block=(bad,), reason="a robot"))
    again = finish(work, PEOPLE[8:], 1000)
    if undone:
        workers(Workers(workdir=work, undo=(bad,), reason="no robot"))
    report = aggregate(Aggregate(workdir=work, resamples=20))
    assert again > 1
    assert len(read_judgments(report.read).answers) == first + again
    assert (report.refused, report.holds) == ({}, True)
    assert aggregate(Aggregate(workdir=work, resamples=20, keep_blocked=True)).holds


def test_no_votes_are_asked_for_what_a_blocked_worker_wrote(work: Path) -> None:
    finish(work, PEOPLE[:1], 0)
    import_answers(ImportAnswers(workdir=work))
    retrieve = ExportTasks(
        task="retrieve", workdir=work, keep_leaks=True, targets=1, disjoint="none", out=work / "votes"
    )
    asked = export_tasks(retrieve).units
    workers(Workers(workdir=work, block=PEOPLE[:1], reason="a robot"))
    report = aggregate(Aggregate(workdir=work, resamples=20))
    assert report.counts["dropped"] == {"writer_blocked": asked}
    finish(work, PEOPLE[1:2], 1000)
    import_answers(ImportAnswers(workdir=work))
    assert export_tasks(retrieve).units == asked


def test_with_the_people_that_suffice_everything_is_done_and_with_fewer_the_rest_is_named(work: Path) -> None:
    batch = read_tasks(open_tasks(work)[0].path)
    needed = people_needed(batch.units, batch.protocol, contents([batch]))
    finish(work, PEOPLE[:2], 0)
    report = aggregate(Aggregate(workdir=work, resamples=20))
    assert report.unreachable
    stuck = {name for names in report.unreachable.values() for name in names}
    study = journal(work)
    assert stuck <= {unit.id for unit in units_of(study) if unit.task == "retrieve"}
    assert len(stuck) == study.progress()["retrieve"].open
    study.close()
    finish(work, [f"w-{number}" for number in range(needed["all"])], 100)
    assert aggregate(Aggregate(workdir=work, resamples=20)).unreachable == {}
    study = journal(work)
    assert [one.open for one in study.progress().values()] == [0, 0]
    study.close()

"""`ctxr workers`: worker quality with confidence intervals, and who may work; every change has a reason and can be undone."""

from datetime import UTC, datetime
from pathlib import Path

from ctxr.annotation.answers import collected
from ctxr.annotation.artifacts import CROWD, read_judgments
from ctxr.annotation.journal.results import Change, Waited
from ctxr.annotation.project_journal import blocked_workers, has_journal, opened
from ctxr.annotation.pseudonyms import PRIVATE, pseudonym, read_key
from ctxr.engine.progress import Progress, Silent
from ctxr.errors import UsageError
from ctxr.pipelines.crowd.config import Workers, WorkersReport
from ctxr.pipelines.crowd.people import people, table
from ctxr.pipelines.crowd.votes import picks_of


def run(config: Workers, progress: Progress | None = None) -> WorkersReport:
    """Change the state of workers if requested, then report on all of them.

    Raises UsageError for a change without a reason or of an unknown worker, UnfinishedError without answers.
    """
    progress = progress or Silent()
    config.check()
    changed = _change(config) if config.block or config.allow or config.undo else ()
    answered = read_judgments(collected(config.workdir, progress, config.database))
    rows = people(
        answered, picks_of(answered), blocked_workers(config.workdir, config.database), config.good, config.poor
    )
    changes: tuple[Change, ...] = ()
    waited: tuple[Waited, ...] = ()
    if has_journal(config.workdir, config.database):
        with opened(config.workdir, config.database) as journal:
            everybody = [one.worker for one in journal.workers()]
            changes = tuple(change for worker in everybody for change in journal.changes(worker))
            waited = tuple(journal.waited())
    oldest_first = tuple(sorted(changes, key=lambda one: one.number))
    return WorkersReport(tuple(rows), table(rows), changed, oldest_first, waited)


def _change(config: Workers) -> tuple[str, ...]:
    said = []
    with opened(config.workdir, config.database) as journal:
        known = [one.worker for one in journal.workers()]
        now = datetime.now(UTC)
        acts = [
            (verb, act, _named(config.workdir, given, known))
            for verb, act, chosen in (
                ("blocked", journal.block, config.block),
                ("allowed", journal.allow, config.allow),
                ("undid the last change of", journal.undo, config.undo),
            )
            for given in chosen
        ]
        for verb, act, worker in acts:
            standing = act(worker, config.reason.strip(), config.by, now)
            said.append(f"{verb} {worker}: now {standing.state}")
    return tuple(said)


def _named(workdir: Path, given: str, known: list[str]) -> str:
    """The pseudonym that is meant by itself, by its beginning, or by the name on an invitation of `ctxr serve`."""
    begin = [worker for worker in known if worker.startswith(given)] if len(given) > len("w-") else []
    if given in known or len(begin) == 1:
        return given if given in known else begin[0]
    invited = pseudonym(read_key(workdir / CROWD / PRIVATE), "local", f"team/{given}")
    if invited in known:
        return invited
    what = f"{len(begin)} workers begin with" if begin else "no worker is called"
    raise UsageError(f"{what} {given!r}", hint="a pseudonym of ctxr workers --json, or the name on an invitation")

"""`ctxr workers`: worker quality with confidence intervals, and who may work; every change has a reason and can be undone."""

from datetime import UTC, datetime
from pathlib import Path

from ctxr.annotation.answers import collected, refused_answers
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
    source = collected(config.workdir, progress, config.database)
    answered = read_judgments(source)
    blocked = blocked_workers(config.workdir, config.database)
    rows = people(answered, picks_of(answered), blocked, config.good, config.poor)
    changes: list[Change] = []
    waited: tuple[Waited, ...] = ()
    if has_journal(config.workdir, config.database):
        with opened(config.workdir, config.database) as journal:
            changes = [change for state in journal.workers() for change in journal.changes(state.worker)]
            waited = tuple(journal.waited())
    oldest_first = tuple(sorted(changes, key=lambda change: change.number))
    return WorkersReport(tuple(rows), table(rows), changed, oldest_first, waited, refused_answers(source))


def _change(config: Workers) -> tuple[str, ...]:
    changed = []
    with opened(config.workdir, config.database) as journal:
        names = [state.worker for state in journal.workers()]
        now = datetime.now(UTC)
        options = (
            ("blocked", journal.block, config.block),
            ("allowed", journal.allow, config.allow),
            ("undid the last change of", journal.undo, config.undo),
        )
        acts = [(verb, act, _named(config.workdir, typed, names)) for verb, act, words in options for typed in words]
        for verb, act, worker in acts:
            state = act(worker, config.reason.strip(), config.by, now)
            changed.append(f"{verb} {worker}: now {state.state}")
    return tuple(changed)


def _named(workdir: Path, typed: str, names: list[str]) -> str:
    """The pseudonym that is typed as a whole, by its beginning, or by the name on an invitation of `ctxr serve`."""
    begin = [worker for worker in names if worker.startswith(typed)] if len(typed) > len("w-") else []
    if typed in names or len(begin) == 1:
        return typed if typed in names else begin[0]
    invited = pseudonym(read_key(workdir / CROWD / PRIVATE), "local", f"team/{typed}")
    if invited in names:
        return invited
    what = f"{len(begin)} workers begin with" if begin else "no worker is called"
    raise UsageError(f"{what} {typed!r}", hint="a pseudonym of ctxr workers --json, or the name on an invitation")

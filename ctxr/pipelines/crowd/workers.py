"""`ctxr workers`: worker quality with confidence intervals, and who may work; every change has a reason and can be undone."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from ctxr.annotation.answers import merge_journal, refused_answers
from ctxr.annotation.artifacts import read_judgments
from ctxr.annotation.confirmation import leaving_notes
from ctxr.annotation.journal.identities import known_workers, read_names
from ctxr.annotation.journal.journal import Journal, StateChange
from ctxr.annotation.journal.results import PageUse
from ctxr.annotation.launch import private_folder
from ctxr.annotation.owed import owed_by
from ctxr.annotation.project_journal import project_journal
from ctxr.annotation.pseudonyms import pseudonym, read_key
from ctxr.annotation.records import ExitAnswer
from ctxr.annotation.votes import picks_of
from ctxr.engine.history import hide_word
from ctxr.engine.progress import SILENT, Progress
from ctxr.engine.project import command_in
from ctxr.engine.report import Table
from ctxr.errors import DryRun, UnfinishedError, UsageError, did_you_mean
from ctxr.pipelines.crowd.config import Workers, WorkersReport
from ctxr.pipelines.crowd.data_protection import statement
from ctxr.pipelines.crowd.people import people, worker_table
from ctxr.pipelines.crowd.settle import settle
from ctxr.pipelines.crowd.withdraw import owed_notes, withdraw
from ctxr.store.atomic import DRY_RUN
from ctxr.store.tables import grouped


def run(config: Workers, progress: Progress = SILENT) -> WorkersReport:
    """Change the state of workers if requested, then report on all of them.

    Raises UsageError for a change without a reason or of an unknown worker, UnfinishedError without answers.
    """
    config.check()
    gone, told = "", list[str]()
    if config.withdraw:
        with _journal(config, read_only=False) as journal:
            known = known_workers(private_folder(config.workdir)).union(state.worker for state in journal.workers())
            gone = _named(config.workdir, config.withdraw, sorted(known))
            told = withdraw(journal, config.workdir, gone, config.decided_by, paid=config.paid)
    changed = changes_of(config) if config.block or config.allow or config.undo else []
    if config.data_protection:
        with project_journal(config.workdir, config.database) as journal:
            if journal is None:  # an application comes before the study
                text = statement(None, config.workdir)
                return WorkersReport((), worker_table(()), (), Table("Owed", (), ()), {}, data_protection=text)
    if config.settle and DRY_RUN.get():
        settle(config.workdir, config.database)
    source = merge_journal(config.workdir, progress, config.database)
    answered = read_judgments(source)
    settled = settle(config.workdir, config.database) if config.settle else None
    with project_journal(config.workdir, config.database) as journal:
        blocked = journal.blocked() if journal else ()
        rows = tuple(people(answered, picks_of(answered), blocked, config.good, config.poor))
        owed = owed_by(config.workdir, answered, journal)
        report = WorkersReport(
            workers=rows,
            table=worker_table(rows),
            changed=tuple(changed),
            owed=owed,
            refused=refused_answers(source),
            settled=settled,
            withdrawn=(*told, *owed_notes(config.workdir, owed, gone)),
        )
        return _with_journal(report, journal, config) if journal else report


def _with_journal(report: WorkersReport, journal: Journal, config: Workers) -> WorkersReport:
    """The report with what only the journal says."""
    return replace(
        report,
        changes=tuple(journal.changes()),
        waited=tuple(journal.waited()),
        consents=replace(report.consents, rows=tuple(journal.consents())),
        leaving=tuple(leaving_notes(journal, config.workdir)),
        exit=_exit_table(journal.exit_answers()),
        page_use=use_table(journal.page_use()),
        data_protection=statement(journal, config.workdir) if config.data_protection else "",
    )


def _exit_table(said: list[ExitAnswer]) -> Table:
    """How many sent the form with each question at the end, and how many answered it."""
    forms = grouped(((one.version, one.number, one.question), one.answer != "") for one in said)
    counts = tuple((version, text, len(given), sum(given)) for (version, _, text), given in sorted(forms.items()))
    return Table("Questions at the end", ("version", "question", "forms sent", "answered"), counts)


def use_table(used: Mapping[str, PageUse]) -> Table:
    """What each worker's pages counted of pasting and leaving; nothing is decided by it."""
    rows = tuple(
        (worker, one.answers, one.pasted, one.pasted / one.answers, one.left / one.answers, one.seconds / one.answers)
        for worker, one in used.items()
    )
    heads = ("worker", "answers", "pasted", "share", "left", "s away")
    note = (
        "pasted: answers with pasted text; left and s away: how often and how long they left the page, means per answer; answers "
        "without scripts are not counted; no rule uses any of this"
    )
    return Table("Pasting and leaving the page", heads, rows, note, digits=2)


def changes_of(config: Workers) -> list[str]:
    """Change the state of workers as the options say; what was changed, in words. Raises UsageError for an unknown worker."""
    changed = []
    with _journal(config, read_only=DRY_RUN.get()) as journal:
        names = [state.worker for state in journal.workers()]
        options: dict[StateChange, tuple[str, ...]] = {
            "blocked": config.block,
            "allowed": config.allow,
            "undone": config.undo,
        }
        # every name is looked up before the first change
        acts = [(act, _named(config.workdir, typed, names)) for act, words in options.items() for typed in words]
        if DRY_RUN.get():
            raise DryRun("would note in the journal", {worker: act for act, worker in acts})
        now, reason = datetime.now(UTC), config.reason.strip()
        for act, worker in acts:
            verb = "undid the last change of" if act == "undone" else act
            state = journal.change(worker, act, reason, config.decided_by, now).state
            changed.append(f"{verb} {worker}: now {state}")
    return changed


@contextmanager
def _journal(config: Workers, *, read_only: bool) -> Iterator[Journal]:
    with project_journal(config.workdir, config.database, read_only=read_only) as journal:
        if journal is None:
            hint = f"{command_in(config.workdir, 'serve')}   (it keeps the list of workers)"
            raise UnfinishedError(f"{config.workdir} has no journal of answers", hint=hint)
        yield journal


def _named(workdir: Path, typed: str, names: list[str]) -> str:
    """A typed pseudonym, whole or its beginning, name of a link or of somebody who came in, or id on Prolific."""
    begin = [worker for worker in names if worker.startswith(typed)] if len(typed) > len("w-") else []
    if typed in names or len(begin) == 1:
        return typed if typed in names else begin[0]
    hide_word(typed)
    key, own = read_key(private_folder(workdir)), (f"team/{typed}", f"open/{typed.casefold()}")
    for worker in (*(pseudonym(key, "local", name) for name in own), pseudonym(key, "prolific", typed)):
        if worker in names:
            return worker
    what = f"{len(begin)} workers begin with" if begin else "no worker is called"
    invited = read_names(private_folder(workdir)).values()
    otherwise = "a pseudonym of ctxr workers --json, or the name on an invitation"
    raise UsageError(f"{what} {typed!r}", hint=did_you_mean(typed, invited, otherwise))

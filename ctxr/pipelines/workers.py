"""`ctxr workers`: how good each worker is, how sure that is, and who may go on; every change has a reason and can be undone."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ctxr.errors import UsageError
from ctxr.pipelines.result_tables import Table
from ctxr.pipelines.talk import Silent, Talk

if TYPE_CHECKING:
    from ctxr.annotation.journal import Change, Waited
    from ctxr.pipelines.aggregating.people import Worker


@dataclass(frozen=True)
class Workers:
    """Configuration of `ctxr workers`; a field's text is its help."""

    workdir: Path = Path("work")
    """Project folder, where each command finds what the one before it made."""
    database: str = ""
    """Database of `ctxr serve`, when it is not the file in the workdir."""
    block: tuple[str, ...] = ()
    """Give this worker no more work and do not count their votes: pseudonym, its beginning, or the name of an invitation; once for each."""
    allow: tuple[str, ...] = ()
    """Vouch for this worker: no rule stops them."""
    undo: tuple[str, ...] = ()
    """Take back the last change of this worker's standing."""
    reason: str = ""
    """Why; needed with --block, --allow and --undo."""
    by: str = "requester"
    """Who decides."""
    good: float = 0.8
    """Accuracy that is wanted of a worker."""
    poor: float = 0.5
    """Accuracy that is not borne."""


@dataclass(frozen=True)
class WorkersReport:
    """What is known of the workers.

    Attributes:
        workers: everybody who answered. changed: what was changed now. changes: all of them so far, oldest first.
        waited: time given to talks that could not be; it is to be paid.
    """

    workers: "tuple[Worker, ...]"
    table: Table
    changed: tuple[str, ...]
    changes: "tuple[Change, ...]"
    waited: "tuple[Waited, ...]"


def run(config: Workers, talk: Talk | None = None) -> WorkersReport:
    """Change standings if asked to, then say what is known of everybody.

    Raises UsageError for a change without a reason or of somebody unknown, UnfinishedError before anybody answered.
    """
    from ctxr.pipelines.aggregating.ballots import picks_of
    from ctxr.pipelines.aggregating.people import people, table
    from ctxr.pipelines.collecting import collected
    from ctxr.pipelines.standing import blocked_workers, is_there, opened
    from ctxr.pipelines.tasks_artifact import read_judgments

    talk = talk or Silent()
    if not 0 <= config.poor <= config.good <= 1:
        raise UsageError(
            f"--poor {config.poor:g} and --good {config.good:g} must be shares, the first not above the second"
        )
    changed = _change(config) if config.block or config.allow or config.undo else ()
    answered = read_judgments(collected(config.workdir, talk, config.database))
    rows = people(
        answered, picks_of(answered), blocked_workers(config.workdir, config.database), config.good, config.poor
    )
    changes: tuple[Change, ...] = ()
    waited: tuple[Waited, ...] = ()
    if is_there(config.workdir, config.database):
        with opened(config.workdir, config.database) as journal:
            everybody = [one.worker for one in journal.standings()]
            changes = tuple(change for worker in everybody for change in journal.changes(worker))
            waited = tuple(journal.waited())
    oldest_first = tuple(sorted(changes, key=lambda one: one.number))
    return WorkersReport(tuple(rows), table(rows), changed, oldest_first, waited)


def _change(config: Workers) -> tuple[str, ...]:
    from datetime import UTC, datetime

    from ctxr.pipelines.standing import opened

    if not config.reason.strip():
        raise UsageError("a change of standing needs its reason", hint='--reason "picks the first image every time"')
    if twice := {*config.block} & {*config.allow} | {*config.block} & {*config.undo} | {*config.allow} & {*config.undo}:
        raise UsageError(f"{sorted(twice)[0]!r} cannot be changed in two ways at once")
    said = []
    with opened(config.workdir, config.database) as journal:
        known = [one.worker for one in journal.standings()]
        now = datetime.now(UTC)
        acts = [
            (verb, act, _named(config.workdir, given, known))
            for verb, act, chosen in (
                ("blocked", journal.block, config.block),
                ("allowed", journal.allow, config.allow),
                ("took back the last change of", journal.undo, config.undo),
            )
            for given in chosen
        ]
        for verb, act, worker in acts:
            standing = act(worker, config.reason.strip(), config.by, now)
            said.append(f"{verb} {worker}: now {standing.state}")
    return tuple(said)


def _named(workdir: Path, given: str, known: list[str]) -> str:
    """The pseudonym that is meant by itself, by its beginning, or by the name on an invitation of `ctxr serve`."""
    from ctxr.annotation.pseudonyms import PRIVATE, pseudonym, read_key
    from ctxr.pipelines.tasks_artifact import CROWD

    begin = [worker for worker in known if worker.startswith(given)] if len(given) > len("w-") else []
    if given in known or len(begin) == 1:
        return given if given in known else begin[0]
    invited = pseudonym(read_key(workdir / CROWD / PRIVATE), "local", f"team/{given}")
    if invited in known:
        return invited
    what = f"{len(begin)} workers begin with" if begin else "no worker is called"
    raise UsageError(f"{what} {given!r}", hint="a pseudonym of ctxr workers --json, or the name on an invitation")

"""The work of `ctxr listen`: what is left to ask, the asking, and the run that comes of it."""

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from ctxr.annotation.backends.append_only import read_appended
from ctxr.data.artifacts import (
    MANIFEST,
    MARKER,
    finish,
    finished,
    locked,
    open_artifact,
    refuse_strangers,
    take_manifest,
)
from ctxr.data.atomic import disk_errors
from ctxr.data.scores import write_scores
from ctxr.data.tables import read_table, write_table
from ctxr.errors import CtxrError, UsageError
from ctxr.pipelines.listen import Listen, ListenReport
from ctxr.pipelines.listening import results
from ctxr.pipelines.listening.asking import Listener, ask_all
from ctxr.pipelines.listening.endpoint import Endpoint, key_of
from ctxr.pipelines.listening.job import ListenJob, heard_of, is_complete, job_of
from ctxr.pipelines.listening.replies import Reply
from ctxr.pipelines.listening.report import REPLIES, report_on
from ctxr.pipelines.scoring import RUN, SCORES
from ctxr.pipelines.talk import Talk

Pause = Callable[[float], object]

JOURNAL = "journal.jsonl"
"""Every reply that was ever paid for, in the order of arrival; no part of the artifact, and never removed."""

PARTIAL = "partial.jsonl"


def listen(config: Listen, talk: Talk, pause: Pause | None = None) -> ListenReport:
    """The run of a configuration, or as much of it as was paid for; `pause` waits, for tests that do not.

    Raises what `pipelines.listen.run` says.
    """
    job = job_of(config, talk)
    _refuse_others(job.out)
    replies = _replies(job.out)
    if config.dry_run:
        return report_on(job, replies, dry_run=True)
    if finished(job.out, RUN, "listen", job.decides(), job.parents) and is_complete(job, replies):
        return replace(report_on(job, replies), up_to_date=True)
    key = key_of(config.key_from, job.place)
    refuse_strangers(job.out)
    with locked(job.out):
        replies = _replies(job.out)
        take_manifest(job.out)
        _remove(job.out / SCORES, job.out / PARTIAL)
        try:
            _ask(job, key, replies, talk, pause)
        finally:
            replies = _replies(job.out)
            if not is_complete(job, replies):
                _keep_partial(job, replies)
        report = report_on(job, replies)
        if report.complete:
            _finish(job, replies, report)
    return report


def _refuse_others(out: Path) -> None:
    """Raises UsageError for a folder that holds another kind of run."""
    if not out.is_dir():
        return
    names = {file.name for file in out.iterdir()} - {MARKER}
    made_here = open_artifact(out).manifest.verb == "listen" if MANIFEST in names else JOURNAL in names
    if names and not made_here:
        raise UsageError(f"{out} holds something else than a listener's run", hint="choose another --name")


def _replies(out: Path) -> list[Reply]:
    """Every reply that is known, also where somebody removed the journal: it was paid for."""
    table = out / REPLIES
    kept = read_table(table, Reply) if table.is_file() else []
    return list({reply.asked: reply for reply in [*kept, *read_appended(out / JOURNAL, Reply)]}.values())


def _ask(job: ListenJob, key: str, replies: list[Reply], talk: Talk, pause: Pause | None) -> None:
    """Ask what nobody answered yet, as far as the money goes."""
    known = {reply.asked for reply in replies}
    todo = [one for one in job.requests if one.identity not in known]
    with _endpoint(job, key, pause) as (endpoint, ended), talk.progress("asking", len(job.requests)) as task:
        task.advance(len(job.requests) - len(todo))
        listener = Listener(
            endpoint,
            job.config.model,
            job.files,
            job.config.side,
            job.config.max_tokens,
            job.out / JOURNAL,
            trusted=any(reply.outcome == "chosen" for reply in replies),
        )
        ask_all(todo, listener.ask, job.config.at_once, job.purse(replies), task, ended.set)


@contextmanager
def _endpoint(job: ListenJob, key: str, waiting: Pause | None) -> "Iterator[tuple[Endpoint, threading.Event]]":
    """The endpoint, and what ends its waiting."""
    ended = threading.Event()

    def pause(seconds: float) -> None:
        if ended.is_set() or (waiting or ended.wait)(seconds) is True:
            raise CtxrError("stopped while it waited for the endpoint", hint="run the same command again")

    endpoint = Endpoint(job.place, key, job.config.timeout, pause)
    try:
        yield endpoint, ended
    finally:
        endpoint.close()


def _remove(*files: Path) -> None:
    for file in files:
        with disk_errors(file):
            file.unlink(missing_ok=True)


def _keep_partial(job: ListenJob, replies: Sequence[Reply]) -> None:
    """Scores of what was answered in full, under a name that says so."""
    heard = heard_of(job, replies)
    if heard:
        asked = [one for one in job.asked if one.query in heard]
        write_scores(job.out / PARTIAL, results.scores(asked, heard, f"{job.out.name}-partial"))


def _finish(job: ListenJob, replies: Sequence[Reply], report: ListenReport) -> None:
    heard = heard_of(job, replies)
    used = [reply for one in heard.values() for reply in one]
    write_scores(job.out / SCORES, results.scores(job.asked, heard, job.out.name))
    write_table(job.out / REPLIES, used)
    finish(
        job.out,
        kind=RUN,
        verb="listen",
        config=job.decides(),
        parents=job.parents,
        counts={
            "queries": len(job.asked),
            "requests": len(job.requests),
            "outcomes": report.outcomes,
            "tokens_in": report.tokens_in,
            "tokens_out": report.tokens_out,
            "tokens_not_told": report.uncounted,
            "price_in": job.config.price_in,
            "price_out": job.config.price_out,
            "cost": report.cost,
            job.config.split: report.accuracy,
        },
        models={"listener": {"name": job.config.model, "answered_as": sorted({reply.model for reply in used})}},
        files=[SCORES, REPLIES],
    )

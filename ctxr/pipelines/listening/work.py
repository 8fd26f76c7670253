"""The work of `ctxr listen`: what is left to ask, the asking, and the run that comes of it."""

import threading
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from ctxr.annotation.backends.append_only import read_appended
from ctxr.data.artifacts import (
    MANIFEST,
    MARKER,
    Parent,
    finish,
    finished,
    locked,
    open_artifact,
    refuse_strangers,
    take_manifest,
)
from ctxr.data.atomic import disk_errors
from ctxr.data.dataset import Dataset
from ctxr.data.hashing import sha256_of
from ctxr.data.scores import write_scores
from ctxr.data.tables import write_table
from ctxr.errors import CtxrError, DataError, UsageError
from ctxr.pipelines.inputs import open_dataset
from ctxr.pipelines.listen import Listen, ListenReport
from ctxr.pipelines.listening import results
from ctxr.pipelines.listening.asking import Listener, Purse, Request, ask_all
from ctxr.pipelines.listening.endpoint import Endpoint, Place, key_of, place_of
from ctxr.pipelines.listening.replies import Reply
from ctxr.pipelines.listening.wording import VERSION, estimated_tokens, identity, shifts_of
from ctxr.pipelines.scoring import RUN
from ctxr.pipelines.talk import Talk
from ctxr.pipelines.training.asked import Asked, asked_of, contents_of, pictures_of, sha256_of_asked

JOURNAL = "journal.jsonl"
"""Every reply that was ever paid for, in the order of arrival; no part of the artifact, and never removed."""

REPLIES, SCORES, PARTIAL = "replies.jsonl", "scores.jsonl", "partial.jsonl"


@dataclass(frozen=True)
class Job:
    """Everything that is to be asked.

    Attributes:
        place: where. of_side: queries of the side, asked or not. contents: SHA-256 of each picture. requests: in the order of
            queries. parents: of the artifact.
    """

    config: Listen
    place: Place
    dataset: Dataset
    of_side: int
    asked: tuple[Asked, ...]
    files: Mapping[str, Path]
    requests: tuple[Request, ...]
    parents: tuple[Parent, ...]

    @property
    def out(self) -> Path:
        """The run's folder."""
        return self.config.folder()

    def decides(self) -> dict[str, object]:
        """What decides the result."""
        names = ("model", "split", "limit", "shifts", "side", "max_tokens")
        return {"endpoint": self.place.url, "wording": VERSION} | {name: getattr(self.config, name) for name in names}

    def purse(self, replies: Sequence[Reply] = ()) -> Purse:
        """What was spent on replies, with what may still be."""
        config, estimates = self.config, {one.identity: one.tokens for one in self.requests}
        purse = Purse(config.price_in, config.price_out, config.max_cost, config.max_tokens)
        for reply in replies:
            purse.pay(purse.cost(reply, estimates.get(reply.asked, 0)))
        return purse


def listen(config: Listen, talk: Talk) -> ListenReport:
    """The run of a configuration, or as much of it as was paid for. Raises what `pipelines.listen.run` says."""
    job = _job(config, talk)
    _refuse_others(job.out)
    replies = read_appended(job.out / JOURNAL, Reply)
    if config.dry_run:
        return _report(job, replies, dry_run=True)
    if finished(job.out, RUN, "listen", job.decides(), job.parents) and _complete(job, replies):
        return replace(_report(job, replies), up_to_date=True)
    key = key_of(config.key_from, job.place)
    refuse_strangers(job.out)
    with locked(job.out):
        replies = read_appended(job.out / JOURNAL, Reply)
        take_manifest(job.out)
        try:
            _ask(job, key, replies, talk)
        finally:
            replies = read_appended(job.out / JOURNAL, Reply)
            if not _complete(job, replies):
                _keep_partial(job, replies)
        report = _report(job, replies)
        if report.complete:
            _finish(job, replies, report)
    return report


def _job(config: Listen, talk: Talk) -> Job:
    place = place_of(config.endpoint, config.insecure)
    dataset = open_dataset(config.dataset, config.workdir, talk)
    side = [one for one in asked_of(dataset) if (one.split or "none") == config.split]
    if not side:
        raise DataError(f"{dataset.name} has no query on the side {config.split}", hint="name another --split")
    sample = sorted(side, key=lambda one: sha256_of(one.query))[: config.limit or None]
    asked = tuple(sorted(sample, key=lambda one: one.query))
    files = pictures_of(dataset, asked)
    contents = contents_of(dataset, files)
    model = {"endpoint": place.url, "model": config.model, "side": config.side, "max_tokens": config.max_tokens}
    requests = tuple(
        Request(one, shift, identity(one, shift, contents, model), estimated_tokens(one, dataset, config.side))
        for one in asked
        for shift in shifts_of(config.shifts, len(one.images))
    )
    parent = _parent(dataset, sha256_of_asked(asked, contents))
    return Job(config, place, dataset, len(side), asked, files, requests, (parent,))


def _refuse_others(out: Path) -> None:
    """Raises UsageError for a folder that holds another kind of run."""
    if not out.is_dir():
        return
    names = {file.name for file in out.iterdir()} - {MARKER}
    other = MANIFEST in names and open_artifact(out).manifest.verb != "listen"
    if other or (names and JOURNAL not in names):
        raise UsageError(f"{out} holds something else than a listener's run", hint="choose another --name")


def _ask(job: Job, key: str, replies: list[Reply], talk: Talk) -> None:
    """Ask what nobody answered yet, as far as the money goes."""
    known = {reply.asked for reply in replies}
    todo = [one for one in job.requests if one.identity not in known]
    with _endpoint(job, key) as (endpoint, ended), talk.progress("asking", len(job.requests)) as task:
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
def _endpoint(job: Job, key: str) -> "Iterator[tuple[Endpoint, threading.Event]]":
    """The endpoint, and what ends its waiting."""
    ended = threading.Event()

    def pause(seconds: float) -> None:
        if ended.wait(seconds):
            raise CtxrError("stopped while it waited for the endpoint", hint="run the same command again")

    endpoint = Endpoint(job.place, key, job.config.timeout, pause)
    try:
        yield endpoint, ended
    finally:
        endpoint.close()


def _heard(job: Job, replies: Sequence[Reply]) -> dict[str, list[Reply]]:
    """Replies to the requests of a job by query, for queries of which every shift was answered."""
    known = {reply.asked: reply for reply in replies}
    found: dict[str, list[Reply]] = {one.query: [] for one in job.asked}
    lacking = set()
    for request in job.requests:
        if request.identity in known:
            found[request.asked.query].append(known[request.identity])
        else:
            lacking.add(request.asked.query)
    return {query: heard for query, heard in found.items() if query not in lacking}


def _complete(job: Job, replies: Sequence[Reply]) -> bool:
    return len(_heard(job, replies)) == len(job.asked)


def _keep_partial(job: Job, replies: Sequence[Reply]) -> None:
    """Scores of what was answered in full, under a name that says so."""
    heard = _heard(job, replies)
    if heard:
        asked = [one for one in job.asked if one.query in heard]
        write_scores(job.out / PARTIAL, results.scores(asked, heard, f"{job.out.name}-partial"))


def _finish(job: Job, replies: Sequence[Reply], report: ListenReport) -> None:
    heard = _heard(job, replies)
    used = [reply for one in heard.values() for reply in one]
    with disk_errors(job.out):
        (job.out / PARTIAL).unlink(missing_ok=True)
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


def _report(job: Job, replies: Sequence[Reply], dry_run: bool = False) -> ListenReport:
    heard = _heard(job, replies)
    asked = [one for one in job.asked if one.query in heard]
    known = {reply.asked: reply for reply in replies}
    used = [known[one.identity] for one in job.requests if one.identity in known]
    todo = [one for one in job.requests if one.identity not in known]
    outcomes = dict(sorted(Counter(reply.outcome for reply in used).items()))
    untold = [reply for reply in used if None in (reply.prompt_tokens, reply.completion_tokens)]
    sent = sum(reply.prompt_tokens or 0 for reply in used)
    said = sum(reply.completion_tokens or 0 for reply in used)
    purse = job.purse(used)
    if dry_run:
        sent, said = sum(one.tokens for one in todo), len(todo) * job.config.max_tokens
        purse.spent = (sent * job.config.price_in + said * job.config.price_out) / 1e6
    return ListenReport(
        run=job.out,
        dataset=job.dataset.name,
        model=job.config.model,
        queries=len(job.asked),
        requests=len(job.requests),
        answered=len(used),
        complete=len(heard) == len(job.asked),
        dry_run=dry_run,
        up_to_date=False,
        outcomes=outcomes,
        tokens_in=sent,
        tokens_out=said,
        cost=round(purse.spent, 6),
        uncounted=len(untold),
        accuracy=results.accuracy(asked, heard),
        tables=(results.by_shift(asked, heard), results.by_place(asked, heard)) if heard and not dry_run else (),
        notes=tuple(_notes(job, heard, used, len(untold), dry_run)),
    )


def _notes(
    job: Job, heard: Mapping[str, Sequence[Reply]], used: Sequence[Reply], untold: int, dry_run: bool
) -> Iterator[str]:
    config, name = job.config, job.out.name
    if dry_run:
        yield "tokens of pictures are estimated, rather too many; answers count with all of --max-tokens"
        return
    if len(heard) < len(job.asked):
        yield f"this is a partial run: {len(heard)} of {len(job.asked)} queries were answered in full"
    elif len(job.asked) < job.of_side:
        yield f"{len(job.asked)} of {job.of_side} queries of {config.split} were asked: ctxr eval {name} --partial"
    if lost := sum(reply.outcome != "chosen" for reply in used):
        yield f"{lost} of {len(used)} replies chose no picture, and count as guesses; {REPLIES} holds each"
    if untold:
        yield f"the endpoint did not tell the tokens of {untold} replies: their cost is estimated"
    if config.shifts == 1:
        yield "each query was asked in one order, so a liking for places is in the figures: --shifts 10"
    elif (same := results.agreement(heard)) is not None:
        yield f"in {same:.1%} of queries all shifts chose the same picture"
    if len(models := sorted({reply.model for reply in used if reply.model})) > 1:
        yield f"the endpoint answered as {', '.join(models)}"
    yield f"what {config.model} was trained on, and whether these sets were in it, is not known here"


def _parent(dataset: Dataset, asked: str) -> Parent:
    """The dataset as a parent: its manifest where it is an artifact, else all that a model sees of it."""
    if dataset.root is not None and (dataset.root / MANIFEST).is_file():
        artifact = open_artifact(dataset.root)
        return Parent(dataset.name, artifact.manifest.kind, artifact.sha256)
    return Parent(dataset.name, "release", asked)

"""`ctxr listen`: evaluate a multimodal language model behind an OpenAI-compatible endpoint."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import groupby
from pathlib import Path

from msgspec import convert, structs

from ctxr.datasets.changes import contents_of
from ctxr.datasets.dataset import Dataset
from ctxr.datasets.lineage import content_of, picture_parents, remember_dataset
from ctxr.datasets.open import open_dataset
from ctxr.engine.progress import SILENT, Progress
from ctxr.engine.project import CHAIN, chosen
from ctxr.engine.report import Table
from ctxr.engine.stage import Inputs, Stage, execute
from ctxr.errors import DataError, UsageError
from ctxr.models.chat import Budget, ChatClient, Pause
from ctxr.models.endpoint import EndpointAddress, key_of, resolve_address
from ctxr.pipelines.modelling.chat import (
    VERSION,
    Reply,
    Request,
    estimated_tokens,
    identity,
    messages,
    reply_from,
    rotate_images,
    schema,
    shifts_of,
)
from ctxr.pipelines.modelling.config import Listen, ListenReport
from ctxr.problems.queries import EvalQuery, pictures_of, queries_of
from ctxr.problems.runs import SCORES
from ctxr.store.artifacts import MANIFEST, MARKER, Content, open_artifact, take_manifest
from ctxr.store.hashing import sha256_of
from ctxr.store.kinds import RUN
from ctxr.store.records import Score
from ctxr.store.scores import write_scores
from ctxr.store.tables import read_appended, read_table, write_table


@dataclass(frozen=True)
class ListenJob:
    """All requests of a run.

    Attributes:
        place: where. of_side: queries of the side, asked or not. requests: in the order of queries.
    """

    config: Listen
    place: EndpointAddress
    dataset: Dataset
    of_side: int
    asked: tuple[EvalQuery, ...]
    files: Mapping[str, Path]
    requests: tuple[Request, ...]

    @property
    def out(self) -> Path:
        """The run's folder."""
        return self.config.folder()

    def purse(self, replies: Sequence[Reply] = ()) -> Budget:
        """What was spent on replies, with what may still be."""
        config, estimates = self.config, {request.identity: request.tokens for request in self.requests}
        purse = Budget(config)
        for reply in replies:
            purse.pay(reply.prompt_tokens, reply.completion_tokens, estimates.get(reply.asked, 0))
        return purse


def job_of(config: Listen, progress: Progress) -> ListenJob:
    """Everything that a configuration asks. Raises what `run` says."""
    address = resolve_address(config.endpoint, config.insecure)
    dataset = open_dataset(config.dataset, config.workdir, progress).of_sets("ctxr listen")
    pool = [query for query in queries_of(dataset) if (query.split or "none") == config.split]
    if not pool:
        raise DataError(f"{dataset.name} has no query on the side {config.split}", hint="name another --split")
    sample = sorted(pool, key=lambda one: sha256_of(one.query))[: config.limit or None]
    queries = tuple(sorted(sample, key=lambda one: one.query))
    files = pictures_of(dataset, queries)
    contents = contents_of(dataset, files)
    model = {"endpoint": address.url, "model": config.model, "side": config.side, "max_tokens": config.max_tokens}
    requests = tuple(
        Request(identity(query, shift, contents, model), estimated_tokens(query, dataset, config.side), query, shift)
        for query in queries
        for shift in shifts_of(config.shifts, len(query.images))
    )
    return ListenJob(config, address, dataset, len(pool), queries, files, requests)


def heard_of(job: ListenJob, replies: Sequence[Reply]) -> dict[str, list[Reply]]:
    """Replies to the requests of a job by query, for queries with a reply to every shift."""
    answered = {reply.asked: reply for reply in replies}
    by_query = groupby(job.requests, lambda request: request.asked.query)
    heard = {query: [answered.get(request.identity) for request in requests] for query, requests in by_query}
    return {query: [one for one in several if one] for query, several in heard.items() if all(several)}


Heard = Mapping[str, Sequence[Reply]]
"""Replies by query, all shifts of it."""


def scores(queries: Iterable[EvalQuery], heard: Heard, scorer: str) -> list[Score]:
    """For each candidate the share of shifts that chose it; a shift that chose none counts evenly for all: 0..1."""
    rows = []
    for query in queries:
        images, asked = dict.fromkeys(query.images), len(heard[query.query])
        # equal counts must give equal scores, whatever the order of addition
        chosen = Counter(reply.candidate for reply in heard[query.query] if reply.candidate is not None)
        guess = (asked - chosen.total()) / len(images)
        rows += [Score(query.query, image, scorer, (chosen[image] + guess) / asked) for image in images]
    return rows


def listener_accuracy(queries: Iterable[EvalQuery], heard: Heard) -> float | None:
    """Expected share of targets that score highest, ties in expectation; None where no target is known."""
    labelled = [query for query in queries if query.targets]
    hits = 0.0
    for question in labelled:
        values = [row.value for row in scores([question], heard, "")]
        best = [index for index, value in enumerate(values) if value == max(values)]
        hits += len({*question.targets} & {*best}) / len(best)
    return hits / len(labelled) if labelled else None


def by_shift(queries: Sequence[EvalQuery], heard: Heard) -> Table:
    """Accuracy of each shift by itself: what no choice says counts as a guess."""
    rows = []
    for shift in sorted({reply.shift for replies in heard.values() for reply in replies}):
        replies = [(query, reply) for query in queries for reply in heard[query.query] if reply.shift == shift]
        judged = [(one, reply.candidate) for one, reply in replies if one.targets]
        hits = sum(
            len(one.targets) / len(one.images) if pick is None else pick in {one.images[place] for place in one.targets}
            for one, pick in judged
        )
        chosen = sum(reply.outcome == "chosen" for _, reply in replies)
        rows.append((shift, len(replies), chosen, hits / len(judged) if judged else None))
    return Table(
        "accuracy by shift",
        ("shift", "asked", "chosen", "accuracy"),
        tuple(rows),
        "a shift says which picture of the set was number 1, from 0; without a choice, a guess",
    )


def by_position(queries: Sequence[EvalQuery], heard: Heard) -> Table:
    """Choices of each position, compared with those of a model without position bias."""
    chosen, stood, hits = Counter[int](), Counter[int](), Counter[int]()
    expected = defaultdict[int, float](float)
    for query in queries:
        for reply in heard[query.query]:
            if reply.number is None:
                continue
            chosen[reply.number] += 1
            for number in range(1, len(query.images) + 1):
                expected[number] += 1 / len(query.images)
            for target in query.targets:
                position = rotate_images(query.images, reply.shift).index(query.images[target]) + 1
                stood[position] += 1
                hits[position] += reply.number == position
    rows = []
    for number in sorted(expected):
        share = hits[number] / stood[number] if stood[number] else None
        rows.append((number, chosen[number], expected[number], stood[number] if stood else None, share))
    return Table(
        "choices by place",
        ("place", "chosen", "expected", "targets there", "accuracy there"),
        tuple(rows),
        "expected: as often as any other place of the set; compare it where every shift was asked, or with the targets there",
    )


def agreement(heard: Heard) -> float | None:
    """Share of queries where all shifts chose the same picture; None with one shift."""
    several = [replies for replies in heard.values() if len(replies) > 1]
    same = [len({reply.candidate for reply in one}) == 1 and one[0].candidate is not None for one in several]
    return sum(same) / len(same) if same else None


REPLIES = "replies.jsonl"


def report_on(job: ListenJob, replies: Sequence[Reply], dry_run: bool = False) -> ListenReport:
    """What was heard so far; with `dry_run`, what the rest would take."""
    heard = heard_of(job, replies)
    queries = [one for one in job.asked if one.query in heard]
    by_identity = {reply.asked: reply for reply in replies}
    used = [by_identity[request.identity] for request in job.requests if request.identity in by_identity]
    todo = [request for request in job.requests if request.identity not in by_identity]
    outcomes: dict[str, int] = dict(sorted(Counter(str(reply.outcome) for reply in used).items()))
    untold = [reply for reply in used if None in (reply.prompt_tokens, reply.completion_tokens)]
    sent = sum(reply.prompt_tokens or 0 for reply in used)
    received = sum(reply.completion_tokens or 0 for reply in used)
    purse = job.purse(used)
    if dry_run:
        sent, received = sum(one.tokens for one in todo), len(todo) * job.config.max_tokens
        purse.spent = purse.cost(sent, received)
    names = job.out, job.dataset.name, job.config.model
    counts = len(job.asked), len(job.requests), len(used)
    tables = (by_shift(queries, heard), by_position(queries, heard)) if heard and not dry_run else ()
    notes = tuple(_notes(job, heard, used, len(untold), dry_run))
    return ListenReport(
        *names, *counts, len(heard) == len(job.asked), dry_run, False, outcomes, sent, received, round(purse.spent, 6),
        len(untold), listener_accuracy(queries, heard), tables, notes,
    )  # fmt: skip


def _notes(job: ListenJob, heard: Heard, used: Sequence[Reply], untold: int, dry_run: bool) -> Iterator[str]:
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
    if 2 * sum(reply.outcome == "unreadable" for reply in used) > len(used):
        yield "most replies were unreadable: a reasoning model needs a larger --max-tokens"
    if untold:
        yield f"the endpoint did not report the tokens of {untold} replies: their cost is estimated"
    if config.shifts == 1:
        yield "each query was asked in one order, so the figures contain position bias: --shifts 10 averages it out"
    elif (same := agreement(heard)) is not None:
        yield f"all shifts chose the same picture in {same:.1%} of queries"
    if len(models := sorted({reply.model for reply in used if reply.model})) > 1:
        yield f"the endpoint answered as {', '.join(models)}"
    yield f"the training data of {config.model} is unknown and may include these sets"


JOURNAL = "journal.jsonl"
"""Every reply that was ever paid for, in the order of arrival; no part of the artifact, and never removed."""

PARTIAL = "partial.jsonl"


@dataclass(frozen=True)
class ListenInputs(Inputs):
    """Where the dataset lies."""

    path: Path


class ListenStage(Stage[ListenInputs]):
    """`listen` as an artifact; without a reply to every request there are partial scores, and no manifest."""

    KIND = RUN
    IN_PLACE = True

    options: Listen

    def __init__(self, options: Listen, pause: Pause | None = None) -> None:
        super().__init__(options)
        self._pause = pause

    def inputs(self, progress: Progress) -> ListenInputs:
        """The dataset; the endpoint, the version of the prompt, and the options."""
        options = self.options
        address = resolve_address(options.endpoint, options.insecure)
        _refuse_others(self.out())
        path = chosen(options.dataset, options.workdir, CHAIN, progress)
        known = content_of(path)
        parents = [structs.replace(known, name=path.resolve().stem)]
        parents += picture_parents(path, known, options.workdir, progress)
        return ListenInputs(parents, {"endpoint": address.url, "wording": VERSION} | options.key(), path)

    def write(self, inputs: ListenInputs, out: Path, progress: Progress) -> Content | None:
        """Send the requests without a reply; scores, where all have one."""
        job = job_of(replace(self.options, dataset=inputs.path), progress)
        key_of(job.config.key_from, job.place)
        (out / PARTIAL).unlink(missing_ok=True)
        try:
            _ask(job, _replies(out), progress, self._pause)
        finally:
            replies = _replies(out)
            heard = heard_of(job, replies)
            queries = [one for one in job.asked if one.query in heard]
            complete = len(queries) == len(job.asked)
            if heard and not complete:  # under a name that says so
                write_scores(out / PARTIAL, scores(queries, heard, f"{out.name}-partial"))
        # an endpoint that fails leaves the earlier result
        take_manifest(out)
        (out / SCORES).unlink(missing_ok=True)
        return _finished(job, replies) if complete else None


def _refuse_others(out: Path) -> None:
    """Raises UsageError for a folder that holds another kind of run."""
    if not out.is_dir():
        return
    names = {file.name for file in out.iterdir()} - {MARKER}
    made_here = open_artifact(out).manifest.verb == "listen" if MANIFEST in names else JOURNAL in names
    if names and not made_here:
        raise UsageError(f"{out} does not hold a run of ctxr listen", hint="choose another --name")


def _replies(out: Path) -> list[Reply]:
    """Every reply that is known, also where somebody removed the journal: it was paid for."""
    table = out / REPLIES
    kept = read_table(table, Reply) if table.is_file() else []
    return list({reply.asked: reply for reply in [*kept, *read_appended(out / JOURNAL, Reply)]}.values())


def _ask(job: ListenJob, replies: list[Reply], progress: Progress, pause: Pause | None) -> None:
    """Send the requests without a reply, as far as the budget allows."""
    answered, side = {reply.asked for reply in replies}, job.config.side
    todo = [request for request in job.requests if request.identity not in answered]
    trusted = any(reply.outcome == "chosen" for reply in replies)
    client = ChatClient(job.place, job.config, job.out / JOURNAL, job.purse(replies), trusted, pause=pause)

    def ask(request: Request) -> Reply:
        asked = messages(request.asked, request.shift, job.files, side)
        return client.ask(request, asked, reply_from, schema(len(request.asked.images)))

    with progress.task("asking", len(job.requests)) as task:
        task.advance(len(job.requests) - len(todo))
        client.ask_all(todo, ask, task)


def _finished(job: ListenJob, replies: Sequence[Reply]) -> Content:
    """Scores and replies, written."""
    heard, report = heard_of(job, replies), report_on(job, replies)
    used = [reply for one in heard.values() for reply in one]
    write_scores(job.out / SCORES, scores(job.asked, heard, job.out.name))
    write_table(job.out / REPLIES, used)
    counts = {
        **{name: getattr(report, name) for name in ("queries", "requests", "outcomes", "tokens_in", "tokens_out")},
        "tokens_not_told": report.uncounted,
        "price_in": job.config.price_in,
        "price_out": job.config.price_out,
        "cost": report.cost,
        job.config.split: report.accuracy,
        "report": {name: value for name, value in asdict(report).items() if name != "run"},
    }
    models = {"listener": {"name": job.config.model, "answered_as": sorted({reply.model for reply in used})}}
    return Content([SCORES, REPLIES], counts, models)


def run(config: Listen, progress: Progress = SILENT, pause: Pause | None = None) -> ListenReport:
    """Ask what was not answered yet, and write scores once everything is; a run that stopped at its cost is reported as such.

    `pause` waits, for tests that do not.

    Raises UsageError for wrong arguments, CtxrError without a key, and for a host that refuses or does not answer (every
    answer until then is kept), DataError for pictures that cannot be sent, UnfinishedError without a finished dataset.
    """
    out = config.check().folder()
    if config.dry_run:
        _refuse_others(out)
        content_of(chosen(config.dataset, config.workdir, CHAIN, SILENT))  # which refuses edited tables
        return report_on(job_of(config, progress), _replies(out), dry_run=True)
    result = execute(ListenStage(config, pause), progress)
    if result.artifact is None:
        return report_on(job_of(config, progress), _replies(out))
    remember_dataset(out, config.dataset)
    told = result.artifact.manifest.counts["report"]
    tables, notes = tuple(convert(table, Table) for table in told["tables"]), tuple(told["notes"])
    return ListenReport(out, **{**told, "tables": tables, "notes": notes, "up_to_date": result.up_to_date})

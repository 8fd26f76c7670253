"""`ctxr listen`: evaluate a multimodal language model behind an OpenAI-compatible endpoint."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from itertools import groupby
from pathlib import Path

from msgspec import convert

from ctxr.datasets.changes import contents_of
from ctxr.datasets.dataset import Dataset
from ctxr.datasets.lineage import dataset_parents, remember_dataset
from ctxr.datasets.open import open_dataset
from ctxr.engine.progress import SILENT, Progress
from ctxr.engine.project import CHAIN, chosen
from ctxr.engine.report import Table
from ctxr.engine.stage import SourceInputs, Stage, execute
from ctxr.errors import DataError, UsageError
from ctxr.models.chat import Budget, ChatClient
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
from ctxr.store.tables import grouped, read_appended, read_table, write_table

JOURNAL = "journal.jsonl"
"""Every paid reply, in the order of arrival; no part of the artifact, and never removed."""

REPLIES = "replies.jsonl"

PARTIAL = "partial.jsonl"


@dataclass(frozen=True)
class ListenJob:
    """All `requests` of a run, in the order of `queries`, which are a sample of the `split_size` queries of the split."""

    config: Listen
    address: EndpointAddress
    dataset: Dataset
    split_size: int
    queries: tuple[EvalQuery, ...]
    files: Mapping[str, Path]
    requests: tuple[Request, ...]

    def budget(self, replies: Iterable[Reply] = ()) -> Budget:
        """What was spent on replies, with what may still be."""
        estimates, budget = {request.identity: request.tokens for request in self.requests}, Budget(self.config)
        for reply in replies:
            budget.pay(reply.prompt_tokens, reply.completion_tokens, estimates.get(reply.asked, 0))
        return budget


def job_of(config: Listen, progress: Progress) -> ListenJob:
    """Everything that a configuration asks. Raises what `run` says."""
    address = resolve_address(config.endpoint, config.insecure)
    dataset = open_dataset(config.dataset, config.workdir, progress).of_sets("ctxr listen")
    pool = [query for query in queries_of(dataset) if (query.split or "none") == config.split]
    if not pool:
        raise DataError(f"{dataset.name} has no query on the side {config.split}", hint="name another --split")
    sample = sorted(pool, key=lambda query: sha256_of(query.query))[: config.limit or None]
    queries = tuple(sorted(sample, key=lambda query: query.query))
    files = pictures_of(dataset, queries)
    contents = contents_of(dataset, files)
    model = {"endpoint": address.url, "model": config.model, "side": config.side, "max_tokens": config.max_tokens}
    requests = tuple(
        Request(identity(query, shift, contents, model), estimated_tokens(query, dataset, config.side), query, shift)
        for query in queries
        for shift in shifts_of(config.shifts, len(query.images))
    )
    return ListenJob(config, address, dataset, len(pool), queries, files, requests)


class Answers:
    """The `replies` of a job in order; `by_query`, where every shift has one; and `waiting`, requests without one."""

    def __init__(self, job: ListenJob, replies: Iterable[Reply]) -> None:
        self.job = job
        known = {reply.asked: reply for reply in replies}
        self.replies = [known[request.identity] for request in job.requests if request.identity in known]
        self.waiting = [request for request in job.requests if request.identity not in known]
        unanswered = {request.asked.query for request in self.waiting}
        by_query = groupby(self.replies, lambda reply: reply.query)
        self.by_query = {query: list(replies) for query, replies in by_query if query not in unanswered}
        self.queries = [query for query in job.queries if query.query in self.by_query]
        self.complete = not self.waiting

    def scores(self, scorer: str) -> list[Score]:
        """For each candidate the share of shifts that chose it; a shift that chose none counts evenly for all: 0..1."""
        rows = []
        for query in self.queries:
            images, replies = dict.fromkeys(query.images), self.by_query[query.query]
            # equal counts must give equal scores, whatever the order of addition
            chosen = Counter(reply.candidate for reply in replies if reply.candidate is not None)
            guess = (len(replies) - chosen.total()) / len(images)
            rows += [Score(query.query, image, scorer, (chosen[image] + guess) / len(replies)) for image in images]
        return rows

    def accuracy(self) -> float | None:
        """Expected share of targets that score highest, also in ties; None without targets."""
        values = {query: [row.value for row in rows] for query, rows in groupby(self.scores(""), lambda row: row.query)}
        hits = []
        for query in self.queries:
            if query.targets:
                scores = values[query.query]
                best = {index for index, score in enumerate(scores) if score == max(scores)}
                hits.append(len({*query.targets} & best) / len(best))
        return sum(hits) / len(hits) if hits else None

    def by_shift(self) -> Table:
        """Accuracy of each shift by itself: what no choice says counts as a guess."""
        rows = []
        asked = [(query, reply) for query in self.queries for reply in self.by_query[query.query]]
        for shift, replies in sorted(grouped((pair[1].shift, pair) for pair in asked).items()):
            hits = [
                len(query.targets) / len(query.images)
                if reply.candidate is None
                else reply.candidate in {query.images[target] for target in query.targets}
                for query, reply in replies
                if query.targets
            ]
            chosen = sum(reply.outcome == "chosen" for _, reply in replies)
            rows.append((shift, len(replies), chosen, sum(hits) / len(hits) if hits else None))
        note = "a shift says which picture of the set was number 1, from 0; without a choice, a guess"
        return Table("accuracy by shift", ("shift", "asked", "chosen", "accuracy"), tuple(rows), note)

    def by_position(self) -> Table:
        """Choices of each position, compared with those of a model without position bias."""
        chosen, targets, hits = Counter[int](), Counter[int](), Counter[int]()
        expected = defaultdict[int, float](float)
        for query in self.queries:
            for reply in self.by_query[query.query]:
                if reply.number is None:
                    continue
                chosen[reply.number] += 1
                for number in range(1, len(query.images) + 1):
                    expected[number] += 1 / len(query.images)
                for target in query.targets:
                    position = rotate_images(query.images, reply.shift).index(query.images[target]) + 1
                    targets[position] += 1
                    hits[position] += reply.number == position
        rows = []
        for number in sorted(expected):
            share = hits[number] / targets[number] if targets[number] else None
            rows.append((number, chosen[number], expected[number], targets[number] if targets else None, share))
        heads = ("place", "chosen", "expected", "targets there", "accuracy there")
        note = "expected: as often as any other place of the set; compare it where every shift was asked, or with the targets there"
        return Table("choices by place", heads, tuple(rows), note)

    def report(self, dry_run: bool = False) -> ListenReport:
        """What was answered so far; with `dry_run`, what the rest would take."""
        job, budget = self.job, self.job.budget(self.replies)
        sent = sum(reply.prompt_tokens or 0 for reply in self.replies)
        received = sum(reply.completion_tokens or 0 for reply in self.replies)
        if dry_run:
            sent = sum(request.tokens for request in self.waiting)
            received = len(self.waiting) * job.config.max_tokens
            budget.spent = budget.cost(sent, received)
        uncounted = sum(None in (reply.prompt_tokens, reply.completion_tokens) for reply in self.replies)
        return ListenReport(
            run=job.config.folder(),
            dataset=job.dataset.name,
            model=job.config.model,
            queries=len(job.queries),
            requests=len(job.requests),
            answered=len(self.replies),
            complete=self.complete,
            dry_run=dry_run,
            up_to_date=False,
            outcomes=dict(sorted(Counter(str(reply.outcome) for reply in self.replies).items())),
            tokens_in=sent,
            tokens_out=received,
            cost=round(budget.spent, 6),
            uncounted=uncounted,
            accuracy=self.accuracy(),
            tables=(self.by_shift(), self.by_position()) if self.by_query and not dry_run else (),
            notes=tuple(self._notes(uncounted, dry_run)),
        )

    def _notes(self, uncounted: int, dry_run: bool) -> Iterator[str]:
        job, config, replies = self.job, self.job.config, self.replies
        if dry_run:
            yield "tokens of pictures are estimated, rather too many; answers count with all of --max-tokens"
            return
        if not self.complete:
            yield f"this is a partial run: {len(self.queries)} of {len(job.queries)} queries were answered in full"
        elif len(job.queries) < job.split_size:
            partial = f"ctxr eval {config.folder().name} --partial"
            yield f"{len(job.queries)} of {job.split_size} queries of {config.split} were asked: {partial}"
        if lost := sum(reply.outcome != "chosen" for reply in replies):
            yield f"{lost} of {len(replies)} replies chose no picture, and count as guesses; {REPLIES} holds each"
        if 2 * sum(reply.outcome == "unreadable" for reply in replies) > len(replies):
            yield "most replies were unreadable: a reasoning model needs a larger --max-tokens"
        if uncounted:
            yield f"the endpoint did not report the tokens of {uncounted} replies: their cost is estimated"
        several = [{reply.candidate for reply in replies} for replies in self.by_query.values() if len(replies) > 1]
        if config.shifts == 1:
            yield "each query was asked in one order, so the figures contain position bias: --shifts 10 averages it out"
        elif several:
            same = sum(len(candidates) == 1 and None not in candidates for candidates in several)
            yield f"all shifts chose the same picture in {same / len(several):.1%} of queries"
        if len(models := sorted({reply.model for reply in replies if reply.model})) > 1:
            yield f"the endpoint answered as {', '.join(models)}"
        yield f"the training data of {config.model} is unknown and may include these sets"


@dataclass(eq=False)
class ListenStage(Stage[SourceInputs[Path]]):
    """`listen` as an artifact; without all replies it has partial scores and no manifest."""

    KIND = RUN
    IN_PLACE = True
    options: Listen

    def inputs(self, progress: Progress) -> SourceInputs[Path]:
        """The dataset; the endpoint, the version of the prompt, and the options."""
        options = self.options
        address = resolve_address(options.endpoint, options.insecure)
        _refuse_others(self.out())
        path = chosen(options.dataset, options.workdir, CHAIN, progress)
        parents = dataset_parents(path, path.resolve().stem, options.workdir, progress)
        return SourceInputs(parents, {"endpoint": address.url, "wording": VERSION} | options.key(), path)

    def write(self, inputs: SourceInputs[Path], out: Path, progress: Progress) -> Content | None:
        """Send the requests without a reply, as far as the budget allows; scores and replies, where all have one."""
        job = job_of(replace(self.options, dataset=inputs.source), progress)
        key_of(job.config.key_from, job.address)
        answers, budget = Answers(job, replies := _replies(out)), job.budget(replies)
        trusted = any(reply.outcome == "chosen" for reply in replies)
        client = ChatClient(job.address, job.config, out / JOURNAL, budget, trusted)

        def ask(request: Request) -> Reply:
            prompt = messages(request.asked, request.shift, job.files, job.config.side)
            return client.ask(request, prompt, reply_from, schema(len(request.asked.images)))

        (out / PARTIAL).unlink(missing_ok=True)
        try:
            with progress.task("asking the model", len(job.requests)) as task:
                task.advance(len(answers.replies))
                client.ask_all(answers.waiting, ask, task)
        finally:
            answers = Answers(job, _replies(out))
            if answers.by_query and not answers.complete:  # under a name that says so
                write_scores(out / PARTIAL, answers.scores(f"{out.name}-partial"))
        # an endpoint that fails leaves the earlier result
        take_manifest(out)
        (out / SCORES).unlink(missing_ok=True)
        if not answers.complete:
            return None
        write_scores(out / SCORES, answers.scores(out.name))
        write_table(out / REPLIES, answers.replies)
        config, report = job.config, asdict(answers.report())
        del report["run"]
        counts = {
            **{name: report[name] for name in ("queries", "requests", "outcomes", "tokens_in", "tokens_out")},
            "tokens_not_told": report["uncounted"],
            "price_in": config.price_in,
            "price_out": config.price_out,
            "cost": report["cost"],
            config.split: report["accuracy"],
            "report": report,
        }
        models = {"name": config.model, "answered_as": sorted({reply.model for reply in answers.replies})}
        return Content([SCORES, REPLIES], counts, {"listener": models})


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


def run(config: Listen, progress: Progress = SILENT) -> ListenReport:
    """Ask what was not answered yet, and write scores once everything is; a run that stopped at its cost is reported as such.

    Raises CtxrError without a key, and for a host that refuses or does not answer: every answer until then is kept.
    """
    out = config.check().folder()
    if config.dry_run:
        ListenStage(config).inputs(progress)  # which refuses what the run refuses
        return Answers(job_of(config, progress), _replies(out)).report(dry_run=True)
    result = execute(ListenStage(config), progress)
    if result.artifact is None:
        return Answers(job_of(config, progress), _replies(out)).report()
    remember_dataset(out, config.dataset)
    report = result.artifact.manifest.counts["report"]
    tables, notes = tuple(convert(table, Table) for table in report["tables"]), tuple(report["notes"])
    return ListenReport(out, **{**report, "tables": tables, "notes": notes, "up_to_date": result.up_to_date})

"""What a run of `ctxr listen` says about itself."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from ctxr.pipelines.listen import ListenReport
from ctxr.pipelines.listening import results
from ctxr.pipelines.listening.job import ListenJob, heard_of
from ctxr.pipelines.listening.replies import Reply

REPLIES = "replies.jsonl"


def report_on(job: ListenJob, replies: Sequence[Reply], dry_run: bool = False) -> ListenReport:
    """What was heard so far; with `dry_run`, what the rest would take."""
    heard = heard_of(job, replies)
    asked = [one for one in job.asked if one.query in heard]
    known = {reply.asked: reply for reply in replies}
    used = [known[one.identity] for one in job.requests if one.identity in known]
    todo = [one for one in job.requests if one.identity not in known]
    outcomes: dict[str, int] = dict(sorted(Counter(str(reply.outcome) for reply in used).items()))
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
    job: ListenJob, heard: Mapping[str, Sequence[Reply]], used: Sequence[Reply], untold: int, dry_run: bool
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
    if 2 * sum(reply.outcome == "unreadable" for reply in used) > len(used):
        yield "most replies were unreadable: a model that thinks aloud needs a larger --max-tokens"
    if untold:
        yield f"the endpoint did not tell the tokens of {untold} replies: their cost is estimated"
    if config.shifts == 1:
        yield "each query was asked in one order, so a liking for places is in the figures: --shifts 10"
    elif (same := results.agreement(heard)) is not None:
        yield f"in {same:.1%} of queries all shifts chose the same picture"
    if len(models := sorted({reply.model for reply in used if reply.model})) > 1:
        yield f"the endpoint answered as {', '.join(models)}"
    yield f"what {config.model} was trained on, and whether these sets were in it, is not known here"

"""The quality of each worker, and a certificate that every rule was kept; people decide who is blocked or allowed."""

from collections import Counter, defaultdict
from collections.abc import Collection, Sequence
from statistics import median

import msgspec
import numpy as np

from ctxr.annotation.artifacts import AggregatedAnswers
from ctxr.annotation.forms import CANNOT_TELL, PROBLEM
from ctxr.annotation.journal.worker_state import pool_of
from ctxr.annotation.tasks import counts, most_answers, task_of
from ctxr.annotation.tasks.values import query_of
from ctxr.annotation.votes import RetrieverPick, votes_on
from ctxr.engine.report import Table
from ctxr.metrics.positions import errors_by_distance, neighbour_confusion, position_bias_by_worker
from ctxr.metrics.workers import Skill, decision_on, skill_of
from ctxr.store.records import Record
from ctxr.store.tables import grouped

PLACED = 0.01
"""Corrected p-value below which picks depend on the position of an image."""

LEAST_WRONG = 10
"""Wrong picks that a test for position bias needs."""


class Worker(Record, frozen=True):
    """One worker, as seen in the answers.

    Attributes:
        worker: pseudonym. answers: by task. seconds: median of an answer, by task.
        finds: as a retriever, descriptions by others and checks with a known answer together, without what all other retrievers missed;
            None without any.
        found: as a describer: one trial for each description that others voted on.
        checks: checks answered; missed: of these, wrong. position_p: p-value of position bias
            (Holm-corrected over workers); None with too few picks.
        suggestion: allow, block or undecided; why: in words. blocked: is on the block list now.
    """

    KEY = ("worker",)

    worker: str
    answers: dict[str, int]
    seconds: dict[str, float]
    finds: Skill | None
    found: Skill | None
    checks: int
    missed: int
    position_p: float | None
    suggestion: str
    why: str
    blocked: bool


def people(
    answered: AggregatedAnswers, picks: Sequence[RetrieverPick], blocked: Collection[str], good: float, poor: float
) -> list[Worker]:
    """Everyone who answered, by pseudonym.

    Retrievers are to be allowed above the accuracy `good` and blocked below `poor`, 0..1.
    """
    checks: Counter[str] = Counter()
    missed: Counter[str] = Counter()
    # a description that others searched in vain says nothing: it may fit several images, or none; what the worker did with it does not
    # decide, or only hits would count where one person looks
    found, tried = Counter(pick.unit.id for pick in picks if pick.right), Counter(pick.unit.id for pick in picks)
    fair = [pick for pick in picks if tried[pick.unit.id] == 1 or found[pick.unit.id] > pick.right]
    hits: Counter[str] = Counter(pick.worker for pick in fair if pick.right)
    votes: Counter[str] = Counter(pick.worker for pick in fair)
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    times: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for answer in answered.answers:
        unit = answered.units[answer.unit]
        counts[answer.worker][unit.task] += 1
        if answer.seconds is not None:
            times[answer.worker][unit.task].append(answer.seconds)
        if unit.purpose != "work":
            hit = task_of(unit).score(unit, answer).right
            if hit is None:
                continue  # nobody is to blame for a broken picture
            checks[answer.worker] += 1
            missed[answer.worker] += not hit
            hits[answer.worker] += hit
            votes[answer.worker] += 1
    authors, positions = author_skills(picks), _position_bias(picks)
    rows = []
    for worker in sorted(counts):
        suggestion, why = "undecided", "no question with a known answer yet"
        if positions.get(worker, 1.0) < PLACED:
            suggestion, why = "block", "picks depend on the position of the image, not on the text"
        elif votes[worker]:
            suggestion = decision_on(hits[worker], votes[worker], good, poor)
            why = {
                "block": f"accuracy is confidently below {poor:g}",
                "allow": f"accuracy is confidently above {good:g}",
                "undecided": "too few answers to decide",
            }[suggestion]
        rows.append(
            Worker(
                worker=worker,
                answers=dict(sorted(counts[worker].items())),
                seconds={task: round(median(seconds), 1) for task, seconds in sorted(times[worker].items())},
                finds=skill_of(hits[worker], votes[worker]) if votes[worker] else None,
                found=authors.get(worker),
                checks=checks[worker],
                missed=missed[worker],
                position_p=positions.get(worker),
                suggestion=suggestion,
                why=why,
                blocked=worker in blocked,
            )
        )
    return rows


def worker_table(rows: Sequence[Worker]) -> Table:
    """The workers as a table, suggested blocks first."""
    rank = {"block": 0, "undecided": 1, "allow": 2}
    ordered = sorted(rows, key=lambda row: (rank[row.suggestion], row.finds.mean if row.finds else 1.0, row.worker))
    shown = tuple(
        (
            row.worker,
            sum(row.answers.values()),
            *(one and f"{one.mean:.2f} ({one.low:.2f}–{one.high:.2f})" for one in (row.finds, row.found)),
            f"{row.missed} of {row.checks}" if row.checks else None,
            "blocked" if row.blocked else row.suggestion,
        )
        for row in ordered
    )
    note = (
        "finds: accuracy of their picks without descriptions that all others missed; is found: accuracy of others on their "
        "descriptions; both as mean and 95 % interval of a Beta posterior, so 3 of 3 is 0.80. "
        "Suggestions are not applied; to block a worker: ctxr workers --block WORKER --reason TEXT"
    )
    reasons = tuple(f"{row.worker}: {row.why}" for row in ordered if row.suggestion == "block")
    return Table("Workers", ("worker", "answers", "finds", "is found", "missed", "now"), shown, note, reasons)


def author_skills(picks: Sequence[RetrieverPick]) -> dict[str, Skill]:
    """The skill of each author, by the share of *other* workers who found each text: picks for one text are not independent."""
    others = [pick for pick in picks if pick.describer not in ("", pick.worker)]
    found = grouped(((pick.describer, pick.unit.id), pick.right) for pick in others)
    shares = grouped((author, sum(hits) / len(hits)) for (author, _), hits in found.items())
    return {author: skill_of(sum(texts), len(texts)) for author, texts in shares.items()}


def _position_bias(picks: Sequence[RetrieverPick]) -> dict[str, float]:
    """Corrected p-value of each worker's position bias, over sets of the commonest size."""
    picks = [pick for pick in picks if pick.picked != CANNOT_TELL]
    sizes = Counter(len(pick.unit.images) for pick in picks)
    if not sizes:
        return {}
    size = sizes.most_common(1)[0][0]
    chosen = [pick for pick in picks if len(pick.unit.images) == size]
    votes = votes_on("picked", chosen)
    shown, target = np.array([pick.shown for pick in chosen]), np.array([pick.target for pick in chosen])
    # in temporal order everybody confuses neighbours: that is not a position bias
    errors = errors_by_distance(neighbour_confusion(shown, target, size))
    return {
        str(votes.worker_names[bias.worker]): bias.corrected
        for bias in position_bias_by_worker(votes.workers, shown, target, size, errors)
        if bias.worker is not None and bias.wrong >= LEAST_WRONG
    }


SEEN, UNSEEN = "train_worker", "unseen_worker"
"""As the ImageCoDe release calls descriptions by workers who described for train, and others."""


class Certificate(msgspec.Struct, frozen=True):
    """Whether the rules of assignment were kept.

    Attributes:
        disjoint: the declared separation of workers. holds: no violation. workers: number on train, eval and both.
        queries: of each validation and test description whether its author also described for train, and how many of its
            retrievers worked on train.
        violations: each answer that should not be there: an author who judged their own, a worker who judged a set after
            seeing one of its pictures or a copy of it, more answers than places (see `most_answers`), a worker in both pools of a study
            declared wholly disjoint.
    """

    disjoint: str
    holds: bool
    workers: dict[str, int]
    shared_workers: list[str]
    queries: dict[str, dict[str, str | int]]
    violations: list[str]


def certificate(answered: AggregatedAnswers, disjoint: str, replaced: Collection[str] = ()) -> Certificate:
    """The certificate of an assignment."""
    pools: dict[str, set[str]] = defaultdict(set)
    pairs = [(answered.units[answer.unit], answer) for answer in answered.answers]
    for unit, answer in pairs:
        pools[pool_of(unit)].add(answer.worker)
    shared = sorted(pools["train"] & pools["eval"])
    votes = Counter(unit.id for unit, answer in pairs if counts(unit, answer, replaced))
    most = {name: most_answers(unit) for name, unit in answered.units.items()}
    violations = [
        f"{row.worker} judged their own work in {unit.id}" for unit, row in pairs if row.worker in unit.authors
    ]
    # answers to a task that requires unknown pictures, by workers who had seen one before
    contents = {name: image.sha256 for name, image in answered.images.items()}
    seen: dict[tuple[str, str], str] = {}
    for unit, answer in sorted(pairs, key=lambda pair: (pair[1].worker, pair[1].at, pair[1].unit)):
        if unit.purpose == "work":
            shown = unit.pictures(contents).values()
            earlier = {seen.setdefault((answer.worker, picture), unit.id) for picture in shown} - {unit.id}
            if task_of(unit).FRESH and earlier:
                violations.append(f"{answer.worker} judged {unit.id} after meeting its images in {min(earlier)}")
    violations += [
        f"{name} has {count} answers, {most[name]} at most were asked for"
        for name, count in sorted(votes.items())
        if count > most[name]
    ]
    if disjoint == "wholly":
        violations += [f"{worker} worked on train and on validation or test" for worker in shared]
    workers = {"train": len(pools["train"]), "eval": len(pools["eval"]), "both": len(shared)}
    described = {answer.worker for unit, answer in pairs if (unit.task, unit.split) == ("describe", "train")}
    rows: dict[str, dict[str, str | int]] = {}
    for unit, answer in pairs:
        if unit.task == "describe" and unit.split in ("valid", "test") and not answer.values.get(PROBLEM):
            describer = SEEN if answer.worker in described else UNSEEN
            rows[query_of(unit.id, answer.worker)] = {"split": unit.split, "describer": describer}
    counts_of = Counter(
        (unit.query, "retrievers_seen" if answer.worker in pools["train"] else "retrievers_unseen")
        for unit, answer in pairs
        if unit.task == "retrieve" and unit.query in rows
    )
    for (query, column), count in counts_of.items():
        rows[query or ""][column] = count
    return Certificate(disjoint, not violations, workers, shared, dict(sorted(rows.items())), violations)

"""Who worked on which side, and whether every rule of assignment held: read off the answers, whatever the server promised."""

from collections import defaultdict
from collections.abc import Collection, Sequence
from typing import Any

from ctxr.annotation.records import Answer, Unit
from ctxr.annotation.tasks import task_of
from ctxr.annotation.tasks.naming import query_of
from ctxr.pipelines.tasks_artifact import Answered

SEEN, UNSEEN = "train_worker", "unseen_worker"
"""As the ImageCoDe release calls the descriptions by workers who also described for train, and the others."""


def certificate(answered: Answered, disjoint: str, blocked: Collection[str] = ()) -> dict[str, Any]:
    """What can be certified of an assignment.

    `queries` says of each validation and test description whether its writer also described for train, and how many of its
    retrievers worked on train. `violations` names each answer that should not be there: an author who judged their own, a
    worker who judged a set whose images they had met, more votes than allowed (but for those of `blocked` workers, which others
    replace), somebody on both sides of a study declared wholly disjoint. Shown orders are held against the seeded ones when
    answers are imported.
    """
    on: dict[str, set[str]] = defaultdict(set)
    for answer in answered.answers:
        unit = answered.units[answer.unit]
        if unit.purpose == "work" and unit.split is not None:
            on["train" if unit.split == "train" else "eval"].add(answer.worker)
    shared = sorted(on["train"] & on["eval"])
    violations = [*_own(answered), *_met_before(answered), *_too_many(answered, blocked)]
    if disjoint == "wholly":
        violations += [f"{worker} worked on train and on validation or test" for worker in shared]
    return {
        "disjoint": disjoint,
        "holds": not violations,
        "workers": {"train": len(on["train"]), "eval": len(on["eval"]), "both": len(shared)},
        "shared_workers": shared,
        "queries": _queries(answered, on["train"]),
        "violations": violations,
    }


def _queries(answered: Answered, train: set[str]) -> dict[str, dict[str, Any]]:
    rows: dict[str, dict[str, Any]] = {}
    described = {
        answer.worker
        for answer in answered.answers
        if answered.units[answer.unit].task == "describe" and answered.units[answer.unit].split == "train"
    }
    for answer in answered.answers:
        unit = answered.units[answer.unit]
        if unit.task == "describe" and unit.split in ("valid", "test"):
            row = rows.setdefault(query_of(unit.id, answer.worker), {"split": unit.split, "describer": UNSEEN})
            row["describer"] = SEEN if answer.worker in described else UNSEEN
    for answer in answered.answers:
        unit = answered.units[answer.unit]
        if unit.task == "retrieve" and unit.query in rows:
            where = "retrievers_seen" if answer.worker in train else "retrievers_unseen"
            rows[unit.query][where] = rows[unit.query].get(where, 0) + 1
    return dict(sorted(rows.items()))


def _own(answered: Answered) -> list[str]:
    return [
        f"{answer.worker} judged their own work in {answer.unit}"
        for answer in answered.answers
        if answer.worker in answered.units[answer.unit].authors
    ]


def _met_before(answered: Answered) -> list[str]:
    """Whoever answered a task for fresh eyes must not have met its set in an earlier answer."""
    found: list[str] = []
    for worker, answers in _by_worker(answered.answers).items():
        met: dict[str, str] = {}
        for answer in answers:
            unit = answered.units[answer.unit]
            if unit.purpose == "work":
                if task_of(unit).FRESH and unit.image_set in met:
                    found.append(f"{worker} judged {unit.id} after meeting its images in {met[unit.image_set]}")
                met.setdefault(unit.image_set, unit.id)
    return found


def _too_many(answered: Answered, blocked: Collection[str]) -> list[str]:
    given: dict[str, int] = defaultdict(int)
    for answer in answered.answers:
        given[answer.unit] += answer.worker not in blocked
    return [
        f"{name} has {count} answers, {_most(answered.units[name])} at most were asked for"
        for name, count in sorted(given.items())
        if count > _most(answered.units[name])
    ]


def _most(unit: Unit) -> int:
    return unit.most * task_of(unit).SEATS


def _by_worker(answers: Sequence[Answer]) -> dict[str, list[Answer]]:
    found: dict[str, list[Answer]] = defaultdict(list)
    for answer in sorted(answers, key=lambda one: (one.worker, one.at, one.unit)):
        found[answer.worker].append(answer)
    return found

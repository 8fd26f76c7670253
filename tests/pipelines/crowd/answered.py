"""Answers of a crowd whose care is known, as an artifact of judgments; nothing is served."""

import random
from collections.abc import Iterable, Mapping
from pathlib import Path

from ctxr.annotation.artifacts import AggregatedAnswers
from ctxr.annotation.protocol import Protocol, shown_order, wanted
from ctxr.annotation.records import Answer, Unit
from ctxr.annotation.tasks import task_of
from ctxr.annotation.unit_factory import derive_units, describe_units
from ctxr.datasets.readers.artifact import read_artifact
from scripts.task_artifact import write_judgments

CARE = {"w-careful1": 0.95, "w-careful2": 0.95, "w-careful3": 0.9, "w-hasty": 0.7, "w-spammer": 0.0}
"""Probability that a worker looks; otherwise the pick is any image."""


def stamp(number: int) -> str:
    return f"2026-01-{1 + number // 86400:02d}T{number // 3600 % 24:02d}:{number // 60 % 60:02d}:{number % 60:02d}Z"


def answer(unit: Unit, worker: str, slot: int, number: int, values: Mapping[str, tuple[str, ...]]) -> Answer:
    order = shown_order(unit.images, unit.ordered, unit.id, slot, 0)
    return Answer(unit.id, worker, dict(values), order, slot, stamp(number), 10.0 + number % 7, "local")


def merged(base: AggregatedAnswers, units: Iterable[Unit], answers: Iterable[Answer]) -> AggregatedAnswers:
    """What an import makes of answers."""
    known = {unit.id: unit for unit in units}
    answers = tuple(answers)
    outcomes = [task_of(known[one.unit]).score(known[one.unit], one) for one in answers]
    used = {one.unit for one in answers}
    return AggregatedAnswers(
        root=base.root,
        units={name: unit for name, unit in known.items() if name in used},
        sets=base.sets,
        images=base.images,
        answers=answers,
        texts=tuple(text for outcome in outcomes for text in outcome.texts),
        queries=tuple({query.id: query for outcome in outcomes for query in outcome.queries}.values()),
        judgments=tuple(row for outcome in outcomes for row in outcome.judgments),
        dialogues=tuple(talk for outcome in outcomes for talk in outcome.dialogues),
    )


def base_of(root: Path) -> AggregatedAnswers:
    dataset = read_artifact(root)
    return AggregatedAnswers(root=root, sets={one.id: one for one in dataset.sets}, images=dataset.images)


def crowd(root: Path, protocol: Protocol, seed: int = 1, care: Mapping[str, float] = CARE) -> AggregatedAnswers:
    """Every unit described by one worker and retrieved by others, as the protocol says; spammers describe too."""
    rng, base, dataset = random.Random(seed), base_of(root), read_artifact(root)
    units: dict[str, Unit] = {}
    answers: list[Answer] = []
    for one in describe_units(dataset, protocol):
        units[one.id] = one
        writer = rng.choice(sorted(care))
        text = f"thing number {len(answers)} of {one.target} is what is seen here"
        answers.append(answer(one, writer, 0, len(answers), {"description": (text,)}))
        for check in derive_units(one, answers[-1], base.sets[one.image_set], protocol):
            units[check.id] = check
            right = wrong = 0
            voters = [name for name in sorted(care) if name != writer]
            rng.shuffle(voters)
            while right + wrong < wanted(check, right, wrong):
                voter = voters[right + wrong]
                looks = rng.random() < care[voter] * (1.0 if care[writer] else 0.1)
                pick = check.truth[0] if looks else rng.choice(check.images)
                answers.append(answer(check, voter, right + wrong, len(answers), {"pick": (pick,)}))
                right, wrong = right + (pick == check.truth[0]), wrong + (pick != check.truth[0])
    return merged(base, units.values(), answers)


def write(work: Path, answered: AggregatedAnswers) -> Path:
    folder = work / "judgments"
    folder.mkdir(exist_ok=True)
    write_judgments(folder, answered)
    return folder


def add(answered: AggregatedAnswers, units: Iterable[Unit], answers: Iterable[Answer]) -> AggregatedAnswers:
    return merged(answered, [*answered.units.values(), *units], [*answered.answers, *answers])

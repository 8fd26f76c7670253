"""What people answered to tasks of a researcher's own: one answer for each unit and field, and how far people agree."""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import asdict
from typing import NamedTuple

import numpy as np

from ctxr.annotation.artifacts import AggregatedAnswers
from ctxr.annotation.forms import PROBLEM, Choice, Mark, Order, OwnField
from ctxr.annotation.records import OwnQuestions, Unit
from ctxr.annotation.tasks import counts
from ctxr.annotation.tasks.own import field_kind
from ctxr.engine.report import Table
from ctxr.metrics.agreement import Agreement, by_units, distance_alpha
from ctxr.metrics.fields import KINDS
from ctxr.metrics.votes import Doubles, gather
from ctxr.pipelines.crowd.validation import Row
from ctxr.store.records import FieldAnswer
from ctxr.store.tables import grouped


class FieldVote(NamedTuple):
    """What one person filled into a field."""

    unit: Unit
    worker: str
    values: tuple[str, ...]


class Asked(NamedTuple):
    """A field of a task."""

    title: str
    field: OwnField


class OwnResults(NamedTuple):
    """What the votes on each unit come to, and the agreement of each field, as figures and as a table; empty without own tasks."""

    answers: list[FieldAnswer]
    figures: dict[str, list[Row]]
    tables: dict[str, Table]


def own_results(answered: AggregatedAnswers, blocked: Collection[str], resamples: int, seed: int) -> OwnResults:
    """By the votes that count, without second looks, reports and fields that were left empty."""
    asked: dict[Asked, list[FieldVote]] = {}
    for answer in sorted(answered.answers, key=lambda row: (row.unit, row.at, row.worker)):
        unit = answered.units[answer.unit]
        if not isinstance(unit.asked, OwnQuestions) or unit.task != "own" or answer.values.get(PROBLEM):
            continue
        if counts(unit, answer, blocked):
            for field in unit.asked.fields:
                votes = asked.setdefault(Asked(unit.asked.title, field), [])
                votes += [FieldVote(unit, answer.worker, said)] if (said := answer.values.get(field.name)) else []
    if not asked:
        return OwnResults([], {}, {})
    rng = np.random.default_rng(seed)
    rows: list[Row] = [
        {"task": one.title, "field": one.field.name, "kind": field_kind(one.field)}
        | asdict(field_agreement(one.field, votes, rng, resamples))
        for one, votes in asked.items()
    ]
    heads, shown = ("task", "field", "kind", "units", "votes"), []
    for row in rows:
        interval = "" if row["low"] is None else f" ({row['low']:.2f}–{row['high']:.2f})"
        shown.append((*map(row.get, heads), row["reason"] if row["value"] is None else f"{row['value']:.2f}{interval}"))
    note = "Krippendorff's alpha by kind of field, with a 95 % interval over units; the answers are in own.jsonl"
    answers = [row for one, votes in asked.items() for row in field_answers(one, votes)]
    return OwnResults(answers, {"own": rows}, {"own": Table("Own tasks", (*heads, "alpha"), tuple(shown), note)})


def field_agreement(field: OwnField, votes: Sequence[FieldVote], rng: np.random.Generator, resamples: int) -> Agreement:
    """Alpha: nominal of a choice, of several with MASI's distance, ordinal of a scale, squared distance of points, 1 - IoU of boxes,
    Kendall's tau distance of orders; none of texts."""
    units, kind = [vote.unit.id for vote in votes], field_kind(field)
    if kind not in KINDS:
        return Agreement(None, len({*units}), len(votes), "–")
    numbers = _numbers(field, votes)
    if kind == "scale":
        workers = [vote.worker for vote in votes]
        return by_units(gather(units, workers, numbers[:, 0]), "ordinal", rng, resamples)
    distance, _, power = KINDS[kind]
    return distance_alpha(units, numbers, lambda one, other: distance(one, other) ** power, rng, resamples)


def field_answers(asked: Asked, votes: Sequence[FieldVote]) -> Iterator[FieldAnswer]:
    """What the votes on each unit come to."""
    field, kind = asked.field, field_kind(asked.field)
    for own in grouped((vote.unit.id, vote) for vote in votes).values():
        unit, answer, spread, mean = own[0].unit, tuple(text for vote in own for text in vote.values), None, None
        if kind in KINDS:
            numbers = _numbers(field, own)
            found = KINDS[kind].answer(numbers)
            answer = _values(field, unit, found)
            apart = float(KINDS[kind].distance(numbers, found[None]).mean())
            spread = None if np.isnan(apart) else round(apart, 4)
            mean = round(float(numbers.mean()), 4) if kind == "scale" else None
        query = unit.query.partition("/")[2] if unit.query else None
        image = unit.images[0] if len(unit.images) == 1 and not query else None
        shown = (unit.id, unit.image_set, asked.title, field.name, kind, len(own))
        yield FieldAnswer(*shown, answer, spread, mean, image, query)


def _options(field: Choice | Order, unit: Unit) -> tuple[str, ...]:
    return tuple(option.value for option in field.options) or unit.images


def _numbers(field: OwnField, votes: Sequence[FieldVote]) -> Doubles:
    """Votes as the rows of `metrics.fields`."""
    rows: list[list[float]] = []
    for unit, _, values in votes:
        if isinstance(field, Choice):
            rows.append([float(option in values) for option in _options(field, unit)])
        elif isinstance(field, Order):
            rows.append([float(values.index(option)) for option in _options(field, unit)])
        else:
            rows.append([float(part) for part in values[0].split(",")])
    width = max(map(len, rows), default=1)
    return np.array([row + [np.nan] * (width - len(row)) for row in rows]).reshape(len(rows), width)


def _values(field: OwnField, unit: Unit, found: Doubles) -> tuple[str, ...]:
    """A row of numbers as the values of an answer; none where votes are tied."""
    if np.isnan(found).any():
        return ()
    if isinstance(field, Choice):
        return tuple(option for option, chosen in zip(_options(field, unit), found, strict=True) if chosen)
    if isinstance(field, Order):
        return tuple(option for _, option in sorted(zip(found, _options(field, unit), strict=True)))
    return (",".join(f"{part:.4f}" for part in found),) if isinstance(field, Mark) else (f"{found[0]:g}",)

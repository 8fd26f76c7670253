"""Answers to the audit of revised labels say how right a round is; what the labels were revised from does not change with them."""

from dataclasses import replace
from pathlib import Path

from ctxr.annotation.records import Unit
from ctxr.data.tables import read_table
from ctxr.pipelines.revising.records import AuditSample
from ctxr.pipelines.revising.rounds import FOLDER, STRATA
from ctxr.pipelines.tasks_artifact import Answered


def without_audits(answered: Answered, workdir: Path) -> Answered:
    """The answers but for those about pairs that were drawn for an audit in the project `workdir`."""
    drawn = {
        (one.image, one.caption)
        for strata in (workdir / FOLDER).glob(f"rounds/*/{STRATA}")
        for one in read_table(strata, AuditSample)
    }
    gone = {unit.id for unit in answered.units.values() if _pair(unit) in drawn}
    if not gone:
        return answered
    queries = {answered.units[name].query for name in gone}
    units = {name: unit for name, unit in answered.units.items() if name not in gone}
    sets = {unit.image_set for unit in units.values()}
    return replace(
        answered,
        units=units,
        sets={name: one for name, one in answered.sets.items() if name in sets},
        answers=tuple(one for one in answered.answers if one.unit not in gone),
        queries=tuple(one for one in answered.queries if one.id not in queries),
        judgments=tuple(one for one in answered.judgments if one.query not in queries),
    )


def _pair(unit: Unit) -> tuple[str, str] | None:
    """Picture and caption of a unit that asks about both."""
    return (unit.images[0], unit.text_ids[0]) if unit.task == "entail" and unit.images and unit.text_ids else None

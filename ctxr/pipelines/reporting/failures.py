"""Sources that gave nothing: those that failed, with the command that tries again, and those without a set."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ctxr.data.records import Failure
from ctxr.data.units import SourceUnit
from ctxr.pipelines.reporting.edition import REASONS, Edition, Section
from ctxr.pipelines.sets_report import KIND


@dataclass(frozen=True)
class Barren:
    """A source that was read well and gave no set, and what became of most of it."""

    name: str
    considered: int
    told: str


def make(edition: Edition) -> Mapping[str, Any] | None:
    """Failures of all artifacts, each once, with the artifact it is from; and sources without a set.

    None where nothing failed and whether anything could have is not known: of a dataset, and of results alone.
    """
    failures: dict[tuple[str, str, str], tuple[str, Failure]] = {}
    for stage in edition.chain.stages:
        for row in stage.failures:
            failures.setdefault((row.source, row.path, row.reason), (stage.name, row))
    barren = [_barren(unit) for unit in edition.chain.units if not unit.sets]
    damaged = [unit.source for unit in edition.chain.units if unit.source.damage]
    if edition.chain.last.kind != KIND and not (failures or barren or damaged):
        return None
    return {"failures": list(failures.values()), "barren": barren, "damaged": damaged}


def _barren(unit: SourceUnit) -> Barren:
    counts = Counter(row.reason or "in a set of another source" for row in unit.ledger)
    told = ", ".join(
        f"{REASONS[name][0] if name in REASONS else name} {number}" for name, number in counts.most_common(3)
    )
    return Barren(unit.source.name, len(unit.ledger), told or "nothing was considered")


SECTION = Section("failures", "Failures", make)

"""What an artifact of image sets contains: counts, failures, and the number of sets at other thresholds."""

from collections import Counter
from dataclasses import replace
from pathlib import Path

import msgspec

from ctxr.engine.report import SetsReport
from ctxr.metrics.selection import count_sets
from ctxr.store.artifacts import open_artifact
from ctxr.store.kinds import IMAGE_SETS
from ctxr.store.records import Failure
from ctxr.store.tables import read_table
from ctxr.store.units import read_unit


def report_on(path: Path, up_to_date: bool, curve: bool = False, read: Path | None = None) -> SetsReport:
    """What a finished artifact of image sets says about itself."""
    manifest = open_artifact(path, IMAGE_SETS).manifest
    report = SetsReport(
        artifact=path,
        up_to_date=up_to_date,
        encoder=manifest.models["encoder"]["name"],
        threshold=manifest.models["selection"]["threshold"],
        counts=manifest.counts,
        failures=[msgspec.structs.asdict(row) for row in read_table(path / "failures.jsonl", Failure)],
        read=read,
    )
    return replace(report, curve=yield_curve(path)) if curve and manifest.counts["videos"] else report


def yield_curve(path: Path) -> dict[str, int]:
    """Sets per threshold, from the ledger alone: video sets, before quality; the threshold in use is among them.

    Exact where every sample was embedded and nothing else; after a search, exact at the threshold in use, else from what that needed.
    Thresholds run from half to twice the one in use, evenly on a logarithmic scale.
    """
    import numpy as np

    manifest = open_artifact(path, IMAGE_SETS).manifest
    used = float(manifest.models["selection"]["threshold"])
    set_size = int(manifest.models["selection"]["set_size"])
    thresholds = sorted({used * 2**exponent for exponent in np.linspace(-1, 1, 17).tolist()})
    counts: Counter[str] = Counter({f"{threshold:.4g}": 0 for threshold in thresholds})
    for parent in manifest.parents:
        name = parent.name
        if parent.kind != "video" or not (path / "sources" / name).is_dir():
            continue
        unit = read_unit(path, name)
        rows = [(row.row, row.shot) for row in unit.ledger if row.row is not None and row.shot is not None]
        vectors = np.asarray(unit.vectors[[row for row, _ in rows]]) if rows else unit.vectors
        for threshold in thresholds:
            counts[f"{threshold:.4g}"] += count_sets(vectors, [shot for _, shot in rows], threshold, set_size)
    return dict(counts)

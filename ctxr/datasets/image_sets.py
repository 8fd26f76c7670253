"""The content of image sets: counts, failures, and the number of sets at other thresholds."""

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import msgspec
import numpy as np

from ctxr.engine.report import SetsReport
from ctxr.store.artifacts import Manifest, open_artifact
from ctxr.store.kinds import IMAGE_SETS
from ctxr.store.paths import rooted
from ctxr.store.records import Failure
from ctxr.store.tables import read_table
from ctxr.store.units import SourceUnit, read_unit


def sets_report(path: Path, up_to_date: bool, curve: bool = False, read: Path | None = None) -> SetsReport:
    """What a finished artifact of image sets says about itself."""
    manifest = open_artifact(path, IMAGE_SETS).manifest
    report = SetsReport(
        artifact=path,
        up_to_date=up_to_date,
        encoder=rooted(manifest.models["encoder"]["name"], path),
        threshold=manifest.models["selection"]["threshold"],
        counts=manifest.counts,
        failures=[msgspec.structs.asdict(row) for row in read_table(path / "failures.jsonl", Failure)],
        neighbours=manifest.models["selection"].get("neighbours", {}),
        read=read,
    )
    if not curve or not manifest.counts["videos"]:
        return report
    sets = yield_curve(path)
    return replace(report, curve=sets, exact=exact_thresholds(manifest, sets))


def exact_thresholds(manifest: Manifest, thresholds: Iterable[str]) -> list[str]:
    """Those of a yield curve at which a build would embed the same frames, so it does not search, and decide alike, so it does not take
    distances again in fp32; after a search without limits of quality that in use."""
    selection, used = manifest.models["selection"], f"{manifest.models['selection']['threshold']:.4g}"
    limited = any(manifest.config.get(name) is not None for name in ("brisque", "max_text", "min_size"))
    near = selection["margin"] or (selection["frames"] == "search" and limited)
    return [name for name in thresholds if not near and (selection["frames"] != "search" or name == used)]


def yield_curve(path: Path, units: Iterable[SourceUnit] | None = None) -> dict[str, int]:
    """Sets per threshold, from the ledger alone: video sets, without limits of quality; the threshold in use is among them.

    After a search, from the frames that the threshold in use needed: exact there, if no limit was set. Elsewhere a build
    mostly finds more, and seldom fewer.
    Thresholds run from half to twice the one in use, evenly on a logarithmic scale. `units`: its videos, where read.
    """
    manifest = open_artifact(path, IMAGE_SETS).manifest
    used = float(manifest.models["selection"]["threshold"])
    set_size = int(manifest.models["selection"]["set_size"])
    thresholds = sorted({used * 2**exponent for exponent in np.linspace(-1, 1, 17).tolist() if used * 2**exponent <= 2})
    if units is None:
        names = [parent.name for parent in manifest.parents if parent.kind == "video"]
        units = (read_unit(path, name) for name in names if (path / "sources" / name).is_dir())
    counts = np.zeros(len(thresholds), int)
    for unit in units:
        rows = [(row.row, row.shot) for row in unit.ledger if row.row is not None and row.shot is not None]
        vectors = np.asarray(unit.vectors[[row for row, _ in rows]]) if rows else unit.vectors
        # as `GreedyPicker` chooses, at all thresholds in one walk; places that are not taken are infinitely far
        chosen = np.full((len(thresholds), set_size, vectors.shape[1]), np.inf)
        taken, shots = np.zeros(len(thresholds), int), [shot for _, shot in rows]
        for vector, shot, before in zip(vectors, shots, [None, *shots], strict=False):
            if shot != before:
                chosen[:], taken[:] = np.inf, 0
            difference = chosen - vector
            distances = np.sqrt(np.einsum("tnd,tnd->tn", difference, difference))
            joins = np.flatnonzero(distances.min(axis=1) > thresholds)
            chosen[joins, taken[joins]] = vector
            taken[joins] += 1
            counts += (full := taken == set_size)
            chosen[full], taken[full] = np.inf, 0
    return dict(zip((f"{threshold:.4g}" for threshold in thresholds), counts.tolist(), strict=True))

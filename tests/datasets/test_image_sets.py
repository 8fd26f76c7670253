"""Sets at other thresholds, counted in one walk as in one walk for each."""

from pathlib import Path

import msgspec
import numpy as np
import pytest

from ctxr.datasets.image_sets import yield_curve
from ctxr.metrics.selection import GreedyPicker
from ctxr.store.units import read_unit
from tests.pipelines.report_artifacts import SIZE, unit_vectors, video_unit, write


@pytest.mark.parametrize("seed", range(4))
def test_one_walk_counts_the_sets_of_a_walk_per_threshold(tmp_path: Path, seed: int) -> None:
    units = [video_unit(tmp_path / "sets", name, 8) for name in ("clip", "other")]
    for number, unit in enumerate(units):
        spots = unit_vectors(3, seed)[np.random.default_rng([seed, number]).integers(0, 3, len(unit.vectors))]
        near = spots + np.random.default_rng(seed).normal(0, 0.04, spots.shape)
        unit.vectors[:] = near / np.linalg.norm(near, axis=1, keepdims=True)
        for index, row in enumerate(unit.ledger):  # shots of several lengths
            unit.ledger[index] = msgspec.structs.replace(row, shot=int(np.sqrt(index)))
    out = write(tmp_path / "sets", units)
    thresholds = [0.15 * 2**exponent for exponent in np.linspace(-1, 1, 17).tolist()]
    expected = dict.fromkeys((f"{threshold:.4g}" for threshold in thresholds), 0)
    for unit in units:
        rows = [row for row in unit.ledger if row.row is not None]
        for threshold in thresholds:
            shots = [row.shot or 0 for row in rows]
            picker = GreedyPicker(threshold, SIZE)
            decisions = [picker.push(index, shot, unit.vectors[index]) for index, shot in enumerate(shots)]
            picker.finish()
            expected[f"{threshold:.4g}"] += sum(one.set_number is not None for one in decisions) // SIZE
    assert yield_curve(out) == expected
    assert len(set(expected.values())) > 2
    assert yield_curve(out, [read_unit(out, unit.source.name) for unit in units]) == expected

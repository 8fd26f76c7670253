"""Runs against the first of them: differences with intervals, and whether they could be luck."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ctxr.data.readers.phenomena import PHENOMENA
from ctxr.metrics.compare import Clusters, Interval, mcnemar_of_shares, sign_flip
from ctxr.metrics.proportions import holm
from ctxr.pipelines.evaluating.matching import EvalSplit
from ctxr.pipelines.evaluating.measuring import credits_of, kinds_of
from ctxr.pipelines.evaluating.questions import BenchmarkQuery


@dataclass(frozen=True)
class RunDifference:
    """Accuracy of a run less that of the first, on one part of a side.

    Attributes:
        permutation: p-value of flipping clusters. corrected: the same after Holm's correction over the runs.
        mcnemar: exact, on queries that both runs have right or wrong outright, as if they were independent; None for runs of
            several seeds, which are neither right nor wrong, and where every query has a tie.
        mcnemar_corrected: after Holm's correction over the runs.
        tied: queries that McNemar leaves out, as the target shares the highest score of one of the two runs.
    """

    side: str
    part: str
    run: str
    against: str
    queries: int
    interval: Interval
    permutation: float
    corrected: float
    mcnemar: float | None
    mcnemar_corrected: float | None
    tied: int | None = None


def differences(side: EvalSplit, clusters: Clusters, seed: tuple[int, int], draws: int) -> list[RunDifference]:
    """Every run but the first against the first, overall, by kind, and on what shows a phenomenon; each part is one family of tests."""
    if len(side.runs) < 2 or not side.questions:
        return []
    credits = credits_of(side)
    first, *others = side.runs
    rows: list[RunDifference] = []
    for part, within in _parts(side.questions).items():
        gains = np.stack([credits[run] - credits[first] for run in others], axis=1)
        intervals = clusters.means(gains, np.repeat(within[:, None], len(others), axis=1))
        flips = [
            sign_flip(gains[within, place], clusters.codes[within], np.random.default_rng(seed), draws)
            for place in range(len(others))
        ]
        counted = {
            run: mcnemar_of_shares(credits[run][within], credits[first][within])
            for run in others
            if len(side.seeds[run]) == len(side.seeds[first]) == 1
        }
        exact = {run: p for run, (p, _) in counted.items() if p is not None}
        known = dict(zip(exact, holm(list(exact.values())), strict=True))
        tied = {run: left_out for run, (_, left_out) in counted.items()}
        found = (map(one.get, others) for one in (exact, known, tied))
        columns = zip(others, intervals, flips, holm(flips), *found, strict=True)
        rows += [RunDifference(side.name, part, run, first, int(within.sum()), *told) for run, *told in columns]
    return rows


def _parts(questions: Sequence[BenchmarkQuery]) -> dict[str, npt.NDArray[np.bool_]]:
    """Which questions belong to each part: all, those of a kind of set, those in whose text a phenomenon was found."""
    kinds = {part: [part in ("all", one.image_set.kind) for one in questions] for part in kinds_of(questions)}
    shown = {phenomenon: [phenomenon in one.found for one in questions] for phenomenon in PHENOMENA}
    return {part: np.array(held) for part, held in (kinds | shown).items() if any(held)}

"""Shortcuts: rules that choose an image without understanding the description, which must not do better than chance.

A rule gives each query a credit in 0..1: 1 if it chose the target, 1/n if the target is one of n that it cannot tell apart.
A wrong order of frames, a sharper target or a habit of describing the last frame shows here as accuracy above 1/K.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256

import numpy as np
import numpy.typing as npt

from ctxr.metrics.proportions import exact_interval, holm, upper_tail

Doubles = npt.NDArray[np.float64]

LEVEL = 0.95
"""Of the intervals; a rule is flagged when the interval, corrected for the number of rules, lies above chance."""

BINS = 5
"""Lengths of descriptions are looked at in fifths."""


@dataclass(frozen=True)
class Asked:
    """One query as a shortcut sees it.

    Attributes:
        image_set: its set. kind: video or photos. split: side of the benchmark; None where nobody said.
        size: candidates K. target: position of the right one, 0..K-1. length: words of the description.
    """

    image_set: str
    kind: str
    split: str | None
    size: int
    target: int
    length: int


@dataclass(frozen=True)
class Verdict:
    """One rule on one part of the queries.

    Attributes:
        accuracy: mean credit over `queries`. low, high: exact 95 % interval of it, not corrected. chance: mean of 1/K.
        p_value: how often luck does at least as well. corrected: the same after Holm's correction for all verdicts.
        flagged: whether the corrected p-value is below 2.5 %, so that the interval lies above chance.
    """

    rule: str
    part: str
    queries: int
    accuracy: float
    low: float
    high: float
    chance: float
    p_value: float
    corrected: float = 1.0
    flagged: bool = False


def extreme_credits(asked: Sequence[Asked], values: Mapping[str, Doubles], largest: bool) -> Doubles:
    """Credits [Q] of choosing the image with the largest (or smallest) value of its set; NaN where values are missing.

    Args:
        asked: the queries.
        values: a number for each image of a set, [K], by set; sets without, or with a NaN in it, are left out.
        largest: which end to choose.

    >>> one = Asked("s", "video", None, size=3, target=2, length=4)
    >>> extreme_credits([one], {"s": np.array([1.0, 5.0, 5.0])}, largest=True).tolist()
    [0.5]
    """
    best: dict[str, npt.NDArray[np.bool_]] = {}
    for name, numbers in values.items():
        if len(numbers) and not np.isnan(numbers).any():
            best[name] = numbers == (numbers.max() if largest else numbers.min())
    credits = np.full(len(asked), np.nan)
    for row, query in enumerate(asked):
        chosen = best.get(query.image_set)
        if chosen is not None:
            credits[row] = chosen[query.target] / chosen.sum()
    return credits


def place_credits(asked: Sequence[Asked], last: bool) -> Doubles:
    """Credits [Q] of always choosing the first image of a set, or the last."""
    return np.array([float(query.target == (query.size - 1 if last else 0)) for query in asked])


def learns_on_train(asked: Sequence[Asked]) -> bool:
    """Whether there are targets on train and elsewhere: then what is learnt is learnt there and tried elsewhere."""
    return {query.split == "train" for query in asked} == {True, False}


def learnt_credits(asked: Sequence[Asked], by_length: bool) -> Doubles:
    """Credits [Q] of the position that was most often right elsewhere, in sets of the same kind and size; with `by_length`
    among descriptions about as long.

    Learnt on train where train has targets and another side too; the queries of train then are NaN. Otherwise sets come in an
    order that is fixed by their names and looks random, and each is tried with what the sets before it taught. That keeps
    each try independent of those before, as the binomial test needs. Leaving out one set at a time does not: whichever
    position happens to lead is then tried on its own lead (10 % false alarms where 2.5 % were asked for: `python -m bench shortcuts`).
    NaN where nothing was learnt yet.

    >>> same = [Asked(name, "video", None, size=10, target=4, length=5) for name in "abc"]
    >>> sorted(learnt_credits(same, by_length=False).tolist())[:2]
    [1.0, 1.0]
    """
    taught = learns_on_train(asked)
    train = np.array([query.split == "train" for query in asked], bool)
    bins = [0] * len(asked)
    if by_length:
        bins = length_bins([query.length for query in asked], train if taught else None)
    groups = [(query.kind, query.size, part) for query, part in zip(asked, bins, strict=True)]
    seen = {group: np.zeros(group[1]) for group in groups}
    credits = np.full(len(asked), np.nan)
    for rows in _in_turn(asked, taught):
        if not (taught and train[rows[0]]):
            for row in rows:
                counts = seen[groups[row]]
                if counts.any():
                    best = counts == counts.max()
                    credits[row] = best[asked[row].target] / best.sum()
        if train[rows[0]] or not taught:
            for row in rows:
                seen[groups[row]][asked[row].target] += 1
    return credits


def _in_turn(asked: Sequence[Asked], taught: bool) -> list[list[int]]:
    """Rows of each set together, in the order of the hash of its name; with `taught`, train comes first."""
    rows: dict[tuple[bool, bytes], list[int]] = {}
    for row, query in enumerate(asked):
        later = taught and query.split != "train"
        rows.setdefault((later, sha256(query.image_set.encode()).digest()), []).append(row)
    return [rows[key] for key in sorted(rows)]


def length_bins(lengths: Sequence[int], learnt_on: npt.NDArray[np.bool_] | None = None) -> list[int]:
    """The fifth, 0..4, that each length falls into; edges from the rows marked in `learnt_on`, else from all.

    >>> length_bins([1, 2, 3, 4, 5, 6, 7, 8, 9, 10])
    [0, 0, 1, 1, 2, 2, 3, 3, 4, 4]
    """
    known = np.asarray(lengths, float)
    if not known.size:
        return []
    edges = np.quantile(known if learnt_on is None else known[learnt_on], np.arange(1, BINS) / BINS)
    return [int(place) for place in np.searchsorted(edges, known, side="left")]


def judge(rule: str, part: str, asked: Sequence[Asked], credits: Doubles) -> Verdict | None:
    """The verdict on a rule, before correction; None if it could not choose for any query.

    The test is the exact binomial one on whole hits. Where sets differ in size, share targets or leave ties, the number of
    hits varies less than a binomial one (Hoeffding 1956, 1963), so the test errs towards not flagging.
    """
    rows = np.flatnonzero(~np.isnan(credits))
    if not rows.size:
        return None
    hits = float(credits[rows].sum())
    chance = float(np.mean([1 / asked[row].size for row in rows.tolist()]))
    low, high = exact_interval(hits, rows.size, LEVEL)
    p_value = upper_tail(int(np.floor(hits + 1e-9)), rows.size, chance)
    return Verdict(rule, part, rows.size, hits / rows.size, low, high, chance, p_value)


def corrected(verdicts: Sequence[Verdict]) -> list[Verdict]:
    """The verdicts with Holm's correction over all of them, and flags."""
    adjusted = holm([verdict.p_value for verdict in verdicts])
    limit = (1 - LEVEL) / 2
    return [
        replace(verdict, corrected=value, flagged=value < limit)
        for verdict, value in zip(verdicts, adjusted, strict=True)
    ]

"""Shortcuts: rules that choose an image without understanding the description, which must not do better than chance.

A rule gives each query a credit in 0..1: 1 if it chose the target, 1/n if the target is one of n that it cannot tell apart.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from zlib import crc32

import numpy as np

from ctxr.metrics.proportions import LEVEL, bounded_interval, bounded_tail, holm
from ctxr.metrics.votes import Doubles, Flags
from ctxr.store.tables import grouped

FOLDS = 5
"""Parts of the sets; a blind model is tried on one after it learned from those before."""

BUCKETS = 512
"""Of the words of descriptions."""

BINS = 5
"""Lengths of descriptions are grouped in fifths."""


@dataclass(frozen=True)
class Trial:
    """A query as a shortcut sees it: `target` is the place 0..K-1 in its set of `size` K, `length` counts words."""

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
        queries: different targets; several descriptions of one target in one set count once. sets: independent trials.
        accuracy: mean credit. low, high: 95 % interval of it, at least, not corrected. chance: what it would be by luck.
        p_value: chance that luck does at least as well. corrected: the same after Holm's correction for all verdicts.
        flagged: whether the corrected p-value is below 2.5 %: the interval lies above chance.
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
    sets: int = 0


def extreme_credits(trials: Sequence[Trial], values: Mapping[str, Doubles], largest: bool) -> Doubles:
    """Credits [Q] of choosing the image with the largest (or smallest) value of its set; NaN where values are missing.

    Args:
        values: a number for each image of a set, [K], by set; sets without, or with a NaN in it, are left out.
        largest: which end to choose.
    """
    best = {
        name: numbers == (numbers.max() if largest else numbers.min())
        for name, numbers in values.items()
        if len(numbers) and not np.isnan(numbers).any()
    }
    credits = np.full(len(trials), np.nan)
    for row, query in enumerate(trials):
        if (chosen := best.get(query.image_set)) is not None:
            credits[row] = chosen[query.target] / chosen.sum()
    return credits


def position_credits(trials: Sequence[Trial], last: bool) -> Doubles:
    """Credits [Q] of always choosing the first image of a set, or the last."""
    return np.array([float(query.target == (query.size - 1 if last else 0)) for query in trials])


def learns_on_train(trials: Sequence[Trial]) -> bool:
    """Whether train and another split have targets: rules are learnt on train, tried on others."""
    return {query.split == "train" for query in trials} == {True, False}


def learnt_credits(trials: Sequence[Trial], by_length: bool) -> Doubles:
    """Credits [Q] of the position that was most often right elsewhere, in sets of the same kind and size; with `by_length`
    among descriptions about as long.

    Learnt on train where train has targets and another side too; the queries of train then are NaN. Otherwise sets come in an
    order that is fixed by their names and looks random, and each is tried with what the sets before it taught. That keeps
    each try at chance whatever came before, as the test needs. Leaving out one set at a time does not: whichever
    position happens to lead is then tried on its own lead (10 % false alarms where 2.5 % were asked for: `python -m bench shortcuts`).
    NaN where nothing was learnt yet.

    >>> same = [Trial(name, "video", None, size=10, target=4, length=5) for name in "abc"]
    >>> sorted(learnt_credits(same, by_length=False).tolist())[:2]
    [1.0, 1.0]
    """
    taught = learns_on_train(trials)
    train = np.array([query.split == "train" for query in trials], bool)
    bins = [0] * len(trials)
    if by_length:
        bins = length_bins([query.length for query in trials], train if taught else None)
    groups = [(query.kind, query.size, part) for query, part in zip(trials, bins, strict=True)]
    seen = {group: np.zeros(group[1]) for group in groups}
    credits = np.full(len(trials), np.nan)
    # rows of each set together, in the order of the hash of its name; what is taught on train is learnt first
    sets = grouped(
        ((taught and query.split != "train", sha256(query.image_set.encode()).digest()), row)
        for row, query in enumerate(trials)
    )
    for _, rows in sorted(sets.items()):
        if not (taught and train[rows[0]]):
            for row in rows:
                counts = seen[groups[row]]
                if counts.any():
                    best = counts == counts.max()
                    credits[row] = best[trials[row].target] / best.sum()
        if train[rows[0]] or not taught:
            for row in rows:
                seen[groups[row]][trials[row].target] += 1
    return credits


Blind = Callable[[int], Doubles]
"""The scores [K] that a model gives the images of the set of a query, by its row."""


def blind_credits(trials: Sequence[Trial], learn: Callable[[Sequence[int]], Blind]) -> Doubles:
    """Credits [Q] of a model that `learn` trains on rows of queries; NaN for queries of the first fold, or of train.

    The model is trained on train where `learns_on_train`. Otherwise sets are dealt into `FOLDS` folds by the hash of their names, and the
    model of each fold is trained on the folds before it, which keeps each try at chance (see `learnt_credits`).
    """
    names = sorted({query.image_set for query in trials}, key=lambda name: sha256(name.encode()).digest())
    part_of = {name: FOLDS * place // len(names) for place, name in enumerate(names)}
    if learns_on_train(trials):
        part_of = {query.image_set: int(query.split != "train") for query in trials}
    parts, credits = np.array([part_of[query.image_set] for query in trials], int), np.full(len(trials), np.nan)
    for part in sorted({*parts.tolist()} - {parts.min(initial=FOLDS)}):
        model = learn(np.flatnonzero(parts < part).tolist())
        for row in np.flatnonzero(parts == part).tolist():
            scores = model(row)[: trials[row].size]
            best = scores == scores.max()
            credits[row] = best[trials[row].target] / best.sum()
    return credits


def blind_to_texts(trials: Sequence[Trial], vectors: Mapping[str, Doubles]) -> Callable[[Sequence[int]], Blind]:
    """A linear model of whether an image is a target, from the difference of its vector to the mean of its set; `vectors` [K, D] by set."""
    deviations = {name: own - own.mean(axis=0) for name, own in vectors.items()}

    def learn(rows: Sequence[int]) -> Blind:
        labels = {trials[row].image_set: np.zeros((trials[row].size, 1)) for row in rows}
        for row in rows:
            labels[trials[row].image_set][trials[row].target] = 1
        predict = ridge(np.concatenate([deviations[name] for name in labels]), np.concatenate([*labels.values()]))
        return lambda row: predict(deviations[trials[row].image_set])[:, 0]

    return learn


def blind_to_images(trials: Sequence[Trial], words: Doubles) -> Callable[[Sequence[int]], Blind]:
    """A linear model of the target's position from `words` [Q, D], a row per description."""
    places = np.eye(max((query.size for query in trials), default=1))

    def learn(rows: Sequence[int]) -> Blind:
        predict = ridge(words[rows], places[[trials[row].target for row in rows]])
        return lambda row: predict(words[row])

    return learn


def bags_of_words(texts: Sequence[str]) -> Doubles:
    """Which of `BUCKETS` hold a word of each text [Q, BUCKETS], by the hash of the word in lower case (Weinberger et al. 2009)."""
    bags = np.zeros((len(texts), BUCKETS))
    for bag, text in zip(bags, texts, strict=True):
        bag[[crc32(word.encode()) % BUCKETS for word in re.findall(r"\w+", text.lower())]] = 1
    return bags


def ridge(inputs: Doubles, outputs: Doubles) -> Callable[[Doubles], Doubles]:
    """A ridge regression from inputs [N, D], scaled to unit variance, to outputs [N, C]; its penalty is D (Hoerl and Kennard 1970)."""
    mean, scale, base = inputs.mean(axis=0), np.maximum(inputs.std(axis=0), 1e-9), outputs.mean(axis=0)
    unit, wanted = (inputs - mean) / scale, outputs - base
    # the smaller of two systems of equations with one solution
    if len(unit) > unit.shape[1]:
        weights = np.linalg.solve(unit.T @ unit + unit.shape[1] * np.eye(unit.shape[1]), unit.T @ wanted)
    else:
        weights = unit.T @ np.linalg.solve(unit @ unit.T + unit.shape[1] * np.eye(len(unit)), wanted)
    return lambda rows: np.asarray((rows - mean) / scale @ weights + base)


def length_bins(lengths: Sequence[int], learnt_on: Flags | None = None) -> list[int]:
    """The fifth, 0..4, that each length falls into; edges from the rows marked in `learnt_on`, else from all."""
    values = np.asarray(lengths, float)
    if not values.size:
        return []
    edges = np.quantile(values if learnt_on is None else values[learnt_on], np.arange(1, BINS) / BINS)
    return [int(fifth) for fifth in np.searchsorted(edges, values, side="left")]


def judge_rule(
    rule: str, part: str, trials: Sequence[Trial], credits: Doubles, one_choice: bool = True
) -> Verdict | None:
    """The verdict on a rule, before correction; None if it could not choose for any query.

    Descriptions of one target stand or fall together, and so may those of one set: each set is one trial. With `one_choice` (the
    rule chooses one image of a set, whatever the query) its outcome is the sum of the credits over its m different targets: at most
    1, and m/K on average where targets are drawn blindly. Otherwise it is the mean credit over these targets, 1/K on average. Either
    is a number in 0..1 with a known mean, as `bounded_tail` asks for: the test errs towards not flagging.
    """
    rows = np.flatnonzero(~np.isnan(credits))
    if not rows.size:
        return None
    by_target = grouped(((trials[row].image_set, trials[row].target), float(credits[row])) for row in rows.tolist())
    by_set = grouped((name, sum(outcomes) / len(outcomes)) for (name, _), outcomes in by_target.items())
    sizes = {query.image_set: query.size for query in trials}
    hits = expected = 0.0
    for name, means in by_set.items():
        share = 1 if one_choice else len(means)
        hits += sum(means) / share
        expected += len(means) / share / sizes[name]
    set_count, targets = len(by_set), len(by_target)
    # from outcomes of sets to shares of targets
    scale = set_count / targets if one_choice else 1.0
    low, high = bounded_interval(hits, set_count)
    p_value = bounded_tail(hits, set_count, expected / set_count)
    accuracy, chance = scale * hits / set_count, scale * expected / set_count
    low, high = scale * low, min(1.0, scale * high)
    return Verdict(rule, part, targets, accuracy, low, high, chance, p_value, sets=set_count)


def corrected(verdicts: Sequence[Verdict]) -> list[Verdict]:
    """The verdicts with Holm's correction over all of them, and flags: of rules whose corrected interval lies above chance."""
    adjusted = holm([verdict.p_value for verdict in verdicts])
    limit = (1 - LEVEL) / 2
    return [
        replace(verdict, corrected=value, flagged=value < limit)
        for verdict, value in zip(verdicts, adjusted, strict=True)
    ]

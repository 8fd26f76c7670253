"""The licence of a judge: whether its labels may count where others are evaluated, by what people answered to the sample of a round."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import inf, nan
from pathlib import Path

import msgspec
import numpy as np
from scipy.special import ndtri

from ctxr.datasets.rounds import (
    AUDITS,
    CAPPED,
    LEDGER,
    AuditSample,
    CandidateRow,
    Round,
    folder_of,
    read_audit,
    stratum_of,
)
from ctxr.datasets.truth import UNSURE
from ctxr.errors import DataError
from ctxr.metrics.alternative import LEVEL, WINNING, AnnotatorTest, alternative_test
from ctxr.metrics.stratified import PairVotes, Stratum, reliability
from ctxr.metrics.votes import Codes, Doubles, factorise, gather
from ctxr.pipelines.revision.config import ReviseLabels
from ctxr.store.artifacts import MANIFEST, open_artifact
from ctxr.store.hashing import sha256_of
from ctxr.store.kinds import AUDIT
from ctxr.store.paths import reached, relative
from ctxr.store.tables import read_table

PRECISION = 0.8
"""Precision that the threshold of an audit reaches, unless --precision names another."""

LEAST_PRECISION = 0.5
"""The least that --precision may ask of it."""

LEAST_CALLED = 10
"""Pairs of half an audit that a threshold must call entailed to be chosen on them."""

ONE_SIDED = float(ndtri(1 - LEVEL) / ndtri(1 - LEVEL / 2))
"""Distance of a limit that errs on its one side at most at `LEVEL`, as a share of that of an interval that errs so often on both."""

LEAST_PEOPLE, LEAST_SHARE = 3, 0.1
"""People who must have answered this share of the pairs each: what the others say shows whether a judge copies one of them."""

TERMS = ("top_k", "both", "per_image", "per_caption", "limit")
"""Options that decide the candidates of a round: a licence holds where they are the same."""

Answers = Mapping[tuple[str | int, ...], Mapping[str, bool]]
"""Whether each person calls a pair of the sample entailed, by its key."""


@dataclass(frozen=True)
class JudgeLicence:
    """What an audit says of a judge on a dataset.

    Attributes:
        reason: for the outcome. judge, fingerprint: of the round. content: of the dataset. epsilon: see `alternative_test`.
        threshold: lowest probability that counts as entailed, the higher one of both halves of the audit. omega: winning rate, the
            share of people whose test is rejected. rho: mean advantage. items: of the test; unsure: pairs that are not in it.
        splits: of the audited pairs, on which alone it holds; train is none of them. unsure_below: of the round. wanted: precision.
        low: lower limit of the precision at the threshold, the least of those without the answers of one person.
        by, by_fingerprint, terms: retriever and options (`TERMS`) of the round. ledger: of the round, from the workdir; strata:
            those of its candidates that people saw. tested: whether enough people answered to grant or refuse it.
    """

    passed: bool
    reason: str
    judge: str
    fingerprint: str
    content: str
    threshold: float | None
    epsilon: float
    omega: float | None = None
    rho: float | None = None
    people: tuple[AnnotatorTest, ...] = ()
    items: int = 0
    unsure: int = 0
    splits: tuple[str, ...] = ()
    unsure_below: float | None = None
    wanted: float = PRECISION
    low: float | None = None
    by: str = ""
    by_fingerprint: str = ""
    terms: Mapping[str, bool | int] = field(default_factory=dict)
    ledger: str = ""
    strata: tuple[str, ...] = ()
    tested: bool = False

    def differs(self, config: ReviseLabels, by: str, threshold: float) -> str:
        """How a round differs from what the licence was earned on; "" where it holds."""
        least = self.threshold or 0
        same = {
            f"--{name.replace('_', '-')} {value}": getattr(config, name) == value for name, value in self.terms.items()
        }
        same[f"--retriever {self.by}"] = self.by == by
        same[f"a threshold of {least:.3g} or more"] = least <= threshold
        same["--unsure as in its round"] = self.unsure_below == config.unsure
        return ", ".join(words for words, holds in same.items() if not holds)

    def covered(self, workdir: Path, retriever: str) -> set[tuple[object, bool]]:
        """The decisions that it covers: keys of the audited candidates, with whether they are called entailed; none of another retriever
        than that with this fingerprint. Raises DataError where the ledger is missing or damaged."""
        links = read_table(reached(workdir, self.ledger), CandidateRow) if retriever == self.by_fingerprint else []
        return {(link.key(), called) for link in links for called in (False, stratum_of(link) in self.strata)}


def read_licence(workdir: Path, fingerprint: str, content: str) -> JudgeLicence | None:
    """The licence of a judge on a dataset by the latest audit that tested it; None where none did, or it failed.

    Raises DataError for an audit that was changed since it was written.
    """
    for _, licence in licences(workdir, fingerprint, content):
        if licence.tested:
            return licence if licence.passed else None
    return None


def licences(workdir: Path, fingerprint: str, content: str) -> Iterator[tuple[str, JudgeLicence]]:
    """What the audits of a judge on a dataset say, the latest first, by folder. Raises what `read_licence` raises."""
    for manifest in sorted((workdir / AUDITS).glob(f"*/{MANIFEST}"), reverse=True):
        open_artifact(manifest.parent, AUDIT).refuse_changed()
        try:
            licence = msgspec.convert((read_audit(manifest.parent) or {}).get("licence"), JudgeLicence | None)
        except msgspec.ValidationError as error:
            raise DataError(f"{manifest}: its licence is damaged: {error}", "ctxr revise-labels --audit") from error
        if licence and licence.splits and (licence.fingerprint, licence.content) == (fingerprint, content):
            yield manifest.parent.name, licence


class JudgedPairs:
    """The pairs of a sample that people answered, as columns [N]; in each stratum they belong to either half in turn, by their hash."""

    def __init__(
        self, current: Round, sample: Sequence[AuditSample], links: Sequence[CandidateRow], answers: Answers
    ) -> None:
        row_of = {link.key(): row for row, link in enumerate(links)}
        answered = [one for one in sample if one.key() in answers]
        answered.sort(key=lambda one: (one.stratum, sha256_of(one.key())))
        self.rows = np.array([row_of[one.key()] for one in answered], np.int64)
        self.answers = [answers[one.key()] for one in answered]
        self.half = np.arange(len(answered)) % 2
        share = np.array([np.mean([*one.values()]) for one in self.answers])
        self.decided, self.entailed = share != 0.5, share > 0.5
        # of all candidates: strata, probabilities, and what decides
        self.strata = factorise([stratum_of(link) for link in links])
        unknown = np.array([nan if link.probability is None else link.probability for link in links])
        # what an earlier judge of a cascade decided holds at every threshold
        fixed = [bool(current.judges) and link.classifier != current.judges[-1] for link in links]
        called = [inf if link.decision == "added" or link.reason in CAPPED else -inf for link in links]
        self.every = np.where(fixed, called, unknown)
        # candidates that each pair stands for
        own = self.strata.codes[self.rows]
        self.weights = np.bincount(self.strata.codes)[own] / np.bincount(own)[own]
        self.probability, self.last = unknown[self.rows], self.every[self.rows]
        self.ranks = np.array([float(links[row].rank) for row in self.rows])
        self.low = inf if current.unsure_below is None else current.unsure_below

    def at(self, threshold: float | Doubles) -> Codes:
        """The verdicts at one threshold or that of each pair: 1 entailed, 0 not, `UNSURE`."""
        unsure = (self.last >= self.low) | np.isnan(self.last)
        return np.where(self.last >= threshold, 1, np.where(unsure, UNSURE, 0)).astype(np.int64)

    def seen(self, threshold: float) -> tuple[str, ...]:
        """The strata of pairs that people saw and that the judge calls entailed."""
        called = self.rows[self.last >= threshold]
        return tuple(sorted({str(self.strata.names[code]) for code in self.strata.codes[called]}))

    def least_precision(self, threshold: float) -> float | None:
        """The lower limit, which holds in 95 %, of the precision among the parts that people saw, corrected for people's errors: the
        least of those without the answers of one person, since only the others show that a judge copies a person. None where too few
        answers are left to show errors."""
        # a part is a stratum, cut where the judge begins to say yes
        cells, lows = 2 * self.strata.codes + (self.every >= threshold), list[float]()
        population = np.bincount(cells)
        for person in sorted({name for own in self.answers for name in own}):
            others = [[said for name, said in own.items() if name != person] for own in self.answers]
            votes = [(cell, len(own), sum(own)) for cell, own in zip(cells[self.rows], others, strict=True) if own]
            parts, cast, yes = np.array(votes, np.int64).reshape(-1, 3).T
            names, codes = np.unique(parts, return_inverse=True)
            strata = [Stratum(int(population[name]), 1, 0, bool(name % 2)) for name in names]
            measures = reliability(strata, PairVotes(codes, cast, yes))
            value, low = measures.precision.value, measures.precision.low
            if measures.errors is None or value is None or low is None:
                return None
            lows.append(value - ONE_SIDED * (value - low))
        return min(lows)

    def thresholds(self, wanted: float) -> Doubles:
        """Thresholds of both halves, [2], chosen on the other: most agreement at the wanted precision; inf for none."""
        chosen, share = np.full(2, inf), np.where(self.decided, self.entailed, 0.5)
        for half in (0, 1):
            rows, most = self.half == half, -inf
            for threshold in np.unique(self.last[rows & np.isfinite(self.last)]):
                called = rows & (self.at(threshold) == 1)
                right, every = float(self.weights[called] @ share[called]), float(self.weights[called].sum())
                if called.sum() >= LEAST_CALLED and right >= wanted * every and 2 * right - every > most:
                    chosen[1 - half], most = threshold, 2 * right - every
        return chosen


def license_judge(
    config: ReviseLabels, current: Round, content: str, pairs: JudgedPairs, splits: Sequence[str], *,
    terms: Mapping[str, bool | int],
) -> JudgeLicence:  # fmt: skip
    """License the judge of a round for the splits that its pairs are from, or say why not: each half of the audit chooses the threshold at
    which it decides the other half, and the test is over both; the precision at the higher one is at least the wanted one, also without
    the answers of any one person. `terms`: `TERMS` of the round."""
    wanted = max(LEAST_PRECISION, PRECISION if config.precision is None else config.precision)
    folder = config.folder() / folder_of(current.number)
    licence = JudgeLicence(
        False, "", current.classifier, current.classifier_fingerprint, content, None, config.epsilon,
        splits=tuple(splits), unsure_below=current.unsure_below, wanted=wanted, by=current.by,
        by_fingerprint=current.by_fingerprint, terms=terms, ledger=relative(folder / LEDGER, config.workdir),
    )  # fmt: skip
    if not splits:
        return replace(licence, reason="people judged no pair of valid, test or a set without a split")
    answered = Counter(person for own in pairs.answers for person in own)
    if sum(count >= LEAST_SHARE * len(pairs.answers) for count in answered.values()) < LEAST_PEOPLE:
        least = f"{LEAST_SHARE:.0%} of the {len(pairs.answers)} pairs each (serve --invite {LEAST_PEOPLE}, or a larger --per-round)"
        return replace(licence, reason=f"fewer than {LEAST_PEOPLE} people answered {least}")
    licence = replace(licence, tested=True)
    thresholds = pairs.thresholds(wanted)
    if np.isinf(thresholds).any():
        reason = f"no threshold calls {LEAST_CALLED} pairs or more entailed, {wanted:.0%} of them rightly"
        return replace(licence, reason=f"{reason}, in one half of the answers, which chooses that of the other half")
    called, threshold = pairs.at(thresholds[pairs.half]), float(thresholds.max())
    rows = np.flatnonzero(called != UNSURE).tolist()
    votes = [(row, *vote) for row in rows for vote in pairs.answers[row].items()]
    votes_by_person = gather(*([vote[column] for vote in votes] for column in range(3)))
    units = votes_by_person.unit_names.astype(np.int64)
    people = alternative_test(votes_by_person, called[units], pairs.weights[units], config.epsilon)
    licence = replace(
        licence, threshold=threshold, people=people, unsure=len(called) - len(rows), strata=pairs.seen(threshold),
        items=sum(len(pairs.answers[row]) > 1 for row in rows), low=pairs.least_precision(threshold),
    )  # fmt: skip
    tested = [person for person in people if person.items]
    if not tested or licence.low is None:
        return replace(licence, reason="too few pairs were answered by three people", tested=False)
    wins = sum(person.rejected for person in tested)
    omega, rho = wins / len(tested), sum(person.advantage or 0 for person in tested) / len(tested)
    toy = ", but no audit licenses a toy" if current.toy else ""
    short = f", less than {wanted:.0%}" if licence.low < wanted else ""
    reason = f"it can replace {wins} of {len(tested)} people{toy}; at least {licence.low:.1%} of what it adds is right{short}"
    passed = omega >= WINNING and licence.low >= wanted and not current.toy
    return replace(licence, passed=passed, reason=reason, omega=omega, rho=rho)

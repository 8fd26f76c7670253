"""The licence of a judge: whether its labels may count where others are evaluated, by what people answered to the sample of a round."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf, nan
from pathlib import Path

import msgspec
import numpy as np

from ctxr.datasets.rounds import AUDIT, AUDITS, CAPPED, AuditSample, CandidateRow, Round, read_audit
from ctxr.datasets.truth import UNSURE
from ctxr.errors import DataError
from ctxr.metrics.alternative import WINNING, AnnotatorTest, alternative_test
from ctxr.metrics.votes import Codes, Doubles, gather
from ctxr.pipelines.revision.config import ReviseLabels
from ctxr.store.artifacts import MANIFEST, open_artifact
from ctxr.store.hashing import sha256_of

PRECISION = 0.8
"""Precision that the threshold of an audit reaches, unless --precision names another."""

LEAST_PRECISION = 0.5
"""The least that --precision may ask of it."""

LEAST_CALLED = 10
"""Pairs of half an audit that a threshold must call entailed to be chosen on them."""

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


def read_licence(workdir: Path, fingerprint: str, content: str) -> JudgeLicence | None:
    """The licence of a judge on a dataset by the latest audit that tested it or found no threshold; None where none did, or it failed.

    Raises DataError for an audit that was changed since it was written.
    """
    for _, licence in licences(workdir, fingerprint, content):
        if licence.omega is not None or licence.threshold is None:
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
        ledger = {link.key(): link for link in links}
        answered = [one for one in sample if one.key() in answers]
        answered.sort(key=lambda one: (one.stratum, sha256_of(one.key())))
        rows = [ledger[one.key()] for one in answered]
        self.answers = [answers[one.key()] for one in answered]
        self.half = np.arange(len(answered)) % 2
        share = np.array([np.mean([*one.values()]) for one in self.answers])
        self.decided, self.entailed = share != 0.5, share > 0.5
        strata = Counter(one.stratum for one in answered)
        # candidates that each pair stands for
        self.weights = np.array([one.population / strata[one.stratum] for one in answered])
        self.probability = np.array([nan if row.probability is None else row.probability for row in rows])
        self.ranks = np.array([float(row.rank) for row in rows])
        # what an earlier judge of a cascade decided holds at every threshold
        fixed = [bool(current.judges) and row.classifier != current.judges[-1] for row in rows]
        called = [inf if row.decision == "added" or row.reason in CAPPED else -inf for row in rows]
        self.last = np.where(fixed, called, self.probability)
        self.low = inf if current.unsure_below is None else current.unsure_below

    def at(self, threshold: float | Doubles) -> Codes:
        """The verdicts at one threshold or that of each pair: 1 entailed, 0 not, `UNSURE`."""
        unsure = (self.last >= self.low) | np.isnan(self.last)
        return np.where(self.last >= threshold, 1, np.where(unsure, UNSURE, 0)).astype(np.int64)

    def thresholds(self, wanted: float) -> Doubles:
        """The thresholds of both halves, [2], each chosen on the other: of those that reach the wanted precision there, the one that
        agrees with people most often; inf for none."""
        chosen = np.full(2, inf)
        for half in (0, 1):
            rows, most = (self.half == half) & self.decided, -inf
            for threshold in np.unique(self.last[rows & np.isfinite(self.last)]):
                called = rows & (self.at(threshold) == 1)
                right, every = (float(self.weights[which].sum()) for which in (called & self.entailed, called))
                if called.sum() >= LEAST_CALLED and right >= wanted * every and 2 * right - every > most:
                    chosen[1 - half], most = threshold, 2 * right - every
        return chosen


def license_judge(
    config: ReviseLabels, current: Round, content: str, pairs: JudgedPairs, splits: Sequence[str]
) -> JudgeLicence:
    """License the judge of a round for the splits that its pairs are from, or say why not: each half of the audit chooses the threshold at
    which it decides the other half, and the test is over both."""
    wanted = max(LEAST_PRECISION, PRECISION if config.precision is None else config.precision)
    licence = JudgeLicence(
        False, "", current.classifier, current.classifier_fingerprint, content, None, config.epsilon,
        splits=tuple(splits), unsure_below=current.unsure_below, wanted=wanted,
    )  # fmt: skip
    if not splits:
        return replace(licence, reason="people judged no pair of valid, test or a set without a split")
    thresholds = pairs.thresholds(wanted)
    if np.isinf(thresholds).any():
        reason = f"no threshold calls {LEAST_CALLED} pairs or more entailed, {wanted:.0%} of them rightly"
        return replace(licence, reason=f"{reason}, in one half of the answers, which chooses that of the other half")
    called = pairs.at(thresholds[pairs.half])
    rows = np.flatnonzero(called != UNSURE).tolist()
    votes = [(row, *vote) for row in rows for vote in pairs.answers[row].items()]
    votes_by_person = gather(*([vote[column] for vote in votes] for column in range(3)))
    units = votes_by_person.unit_names.astype(np.int64)
    people = alternative_test(votes_by_person, called[units], pairs.weights[units], config.epsilon)
    licence = replace(
        licence, threshold=float(thresholds.max()), people=people, unsure=len(called) - len(rows),
        items=sum(len(pairs.answers[row]) > 1 for row in rows),
    )  # fmt: skip
    tested = [person for person in people if person.items]
    if not tested:
        return replace(licence, reason="no two people answered the same pair")
    wins = sum(person.rejected for person in tested)
    omega, rho = wins / len(tested), sum(person.advantage or 0 for person in tested) / len(tested)
    toy = ", but no audit licenses a toy" if current.toy else ""
    reason = f"it may stand in for {wins} of {len(tested)} people{toy}"
    return replace(licence, passed=omega >= WINNING and not current.toy, reason=reason, omega=omega, rho=rho)

"""The licence of a judge: whether the answers of people to the sample of a round allow its labels where others are evaluated, and from
which threshold on."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf, nan
from pathlib import Path

import msgspec
import numpy as np

from ctxr.datasets.rounds import AUDIT, AUDITS, FIGURES, AuditSample, AuditVerdict, CandidateRow, Round, read_audit
from ctxr.datasets.truth import UNSURE
from ctxr.errors import DataError
from ctxr.metrics.alternative import LEAST_PEOPLE, WINNING, Alternative, Person, alternative_test
from ctxr.metrics.votes import Codes, Doubles, gather
from ctxr.pipelines.revision.config import ReviseLabels
from ctxr.pipelines.revision.results import CAPPED
from ctxr.store.artifacts import MANIFEST, open_artifact
from ctxr.store.hashing import sha256_of

PRECISION = 0.8
"""Precision that the threshold of an audit reaches, unless the user says otherwise."""

LEAST_CALLED = 10
"""Pairs of half an audit that a threshold must call entailed to be chosen on them."""


@dataclass(frozen=True)
class Licence:
    """What an audit says of a judge; it holds for the same judge on the same dataset.

    Attributes:
        reason: for the outcome, in one sentence. judge, fingerprint: of the round. content: of the dataset.
        threshold: lowest probability that counts as entailed: the higher one of both halves of the audit; None where none fits.
        epsilon, omega, rho, people, alone, items: of the alternative annotator test. unsure: pairs that the judge leaves open,
            which are not in it.
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
    people: tuple[Person, ...] = ()
    alone: tuple[str, ...] = ()
    items: int = 0
    unsure: int = 0


def read_licence(workdir: Path, fingerprint: str, content: str) -> Licence | None:
    """The licence of a judge on a dataset by the latest audit that tested it; None where none did or it failed there.

    Raises DataError for an audit that was changed since it was written.
    """
    for manifest in sorted((workdir / AUDITS).glob(f"*/{MANIFEST}"), reverse=True):
        open_artifact(manifest.parent, AUDIT).refuse_changed()
        row = (read_audit(manifest.parent) or {}).get("licence")
        if row is None:
            continue
        try:
            licence = msgspec.convert(row, Licence)
        except msgspec.ValidationError as error:
            file = manifest.parent / FIGURES
            raise DataError(f"{file} holds no licence: {error}", hint="ctxr revise-labels --audit") from error
        if licence.omega is not None and (licence.fingerprint, licence.content) == (fingerprint, content):
            return licence if licence.passed else None
    return None


@dataclass(frozen=True, eq=False)
class JudgedPairs:
    """The audited pairs of a round, parallel columns [N].

    Attributes:
        probability: by the last judge; NaN where there is none. earlier: verdict of a judge before the last; `UNSURE` where the
            last one decides. low: probability from which on a pair below the threshold is unsure.
    """

    probability: Doubles
    earlier: Codes
    low: float

    @classmethod
    def of(cls, current: Round, links: Sequence[CandidateRow]) -> "JudgedPairs":
        """Those of a ledger."""
        before = [bool(current.judges) and link.classifier != current.judges[-1] for link in links]
        earlier = [
            int(link.decision == "added" or link.reason in CAPPED) if decided else int(UNSURE)
            for link, decided in zip(links, before, strict=True)
        ]
        probability = [
            nan if decided or link.probability is None else link.probability
            for link, decided in zip(links, before, strict=True)
        ]
        low = inf if current.unsure_below is None else current.unsure_below
        return cls(np.array(probability, np.float64), np.array(earlier, np.int64), low)

    def at(self, threshold: float | Doubles) -> Codes:
        """1 entailed, 0 not, `UNSURE`, [N], at one threshold or that of each pair [N]."""
        unsure = (self.probability >= self.low) | np.isnan(self.probability)
        own = np.where(self.probability >= threshold, 1, np.where(unsure, int(UNSURE), 0))
        return np.where(self.earlier == UNSURE, own, self.earlier)

    def thresholds(self, half: Codes, entailed: Doubles, weights: Doubles, wanted: float) -> Doubles | None:
        """For each half of the pairs, the lowest probability at which the other half reaches the wanted precision, [2]; None where one
        reaches it nowhere.

        Args:
            half: [N], 0 or 1. entailed: [N] by people. weights: [N] candidates that a pair stands for, 0 where people tied.
        """
        lowest = np.full(2, inf)
        for number in (0, 1):
            rows = (half == number) & (weights > 0)
            for threshold in np.unique(self.probability[rows & ~np.isnan(self.probability)]).tolist():
                called = rows & (self.at(threshold) == 1)
                if called.sum() >= LEAST_CALLED and weights[called] @ (entailed[called] - wanted) >= 0:
                    lowest[1 - number] = threshold
                    break
        return lowest if np.isfinite(lowest).all() else None


def halves(sample: Sequence[AuditSample]) -> Codes:
    """Which half each pair belongs to, [N]: those of a stratum alternate in the order of their hashes."""
    order = sorted(range(len(sample)), key=lambda row: (sample[row].stratum, sha256_of(sample[row].key())))
    half = np.zeros(len(sample), np.int64)
    half[order] = np.arange(len(sample)) % 2
    return half


Answers = Mapping[tuple[str | int, ...], Mapping[str, bool]]
"""Whether each person calls an audited pair entailed, by its key."""


def examine(
    config: ReviseLabels,
    current: Round,
    content: str,
    sample: Sequence[AuditSample],
    links: Sequence[CandidateRow],
    *,
    looked: Sequence[AuditVerdict],
    answers: Answers,
) -> Licence:
    """License the judge of a round, or say why not.

    Each half of the audit chooses the threshold at which the judge decides the other half; the test is over both together.

    Args:
        content: of the dataset. links: the ledger. looked: what people decided together. answers: of each person.
    """
    audited = [one for one in sample if one.key() in answers]
    ledger = {link.key(): link for link in links}
    pairs = JudgedPairs.of(current, [ledger[one.key()] for one in audited])
    verdicts = {one.key(): one.entailed for one in looked}
    half = halves(audited)
    cells = [(one.stratum, number) for one, number in zip(audited, half.tolist(), strict=True)]
    decided = Counter(cell for one, cell in zip(audited, cells, strict=True) if one.key() in verdicts)
    weights = [
        one.population / decided[cell] if one.key() in verdicts else 0.0
        for one, cell in zip(audited, cells, strict=True)
    ]
    entailed = np.array([verdicts.get(one.key(), False) for one in audited], np.float64)
    wanted = PRECISION if config.precision is None else config.precision
    thresholds = pairs.thresholds(half, entailed, np.array(weights), wanted)
    licence = Licence(False, "", current.classifier, current.classifier_fingerprint, content, None, config.epsilon)
    if thresholds is None:
        few = f"of {LEAST_CALLED} pairs or more in each half of the audit"
        return replace(licence, reason=f"no threshold reaches a precision of {wanted:g} {few}")
    called = pairs.at(thresholds[half])
    votes = [
        (row, person, int(entailed))
        for row in np.flatnonzero(called != UNSURE).tolist()
        for person, entailed in answers[audited[row].key()].items()
    ]
    given = gather(*([vote[column] for vote in votes] for column in range(3)))
    result = alternative_test(given, called[given.unit_names.astype(np.int64)], config.epsilon)
    return replace(
        licence,
        passed=result.passed,
        reason=_reason(result),
        threshold=float(thresholds.max()),
        unsure=int((called == UNSURE).sum()),
        **vars(result),
    )


def _reason(result: Alternative) -> str:
    """The outcome in one sentence."""
    if result.omega is None:
        return f"fewer than {LEAST_PEOPLE} people judged the same pairs"
    wins, people = sum(person.rejected for person in result.people), len(result.people)
    least = f"; {WINNING:.0%} are needed" if not result.passed else ""
    return (
        f"it is as good as {wins} of {people} people, by the alternative annotator test on {result.items} pairs{least}"
    )

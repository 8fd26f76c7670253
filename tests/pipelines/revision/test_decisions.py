"""What a classifier's probabilities decide of the candidates of a gallery, and people of a sample of them."""

from types import SimpleNamespace
from typing import Any, cast

import numpy as np

from ctxr.annotation.artifacts import AggregatedAnswers
from ctxr.annotation.tasks.entail import ENTAILMENT
from ctxr.datasets.rounds import AuditSample, Decision
from ctxr.models.judges.cascade import Verdicts
from ctxr.pipelines.revision.auditing import audited_sample
from ctxr.pipelines.revision.candidates import Candidates, decide
from ctxr.store.records import Judgment


def pool(images: list[int], captions: list[int], scores: list[float]) -> Candidates:
    gallery = SimpleNamespace(images=("i0", "i1", "i2"), captions=("c0", "c1", "c2"))
    rows = np.arange(len(images))
    return Candidates(
        cast(Any, gallery), np.array(images), np.array(captions), rows + 1, np.array(scores), rows, np.array([])
    )


ADDED, BELOW, CAP_IMAGE, CAP_CAPTION = None, "below_threshold", "cap_image", "cap_caption"


def decided(rows: Candidates, probability: list[float], per_image: int = 0, per_caption: int = 0) -> list[Any]:
    chances = np.array(probability)
    values = np.where(chances >= 0.5, 1, 0)
    return decide(rows, Verdicts(values, chances, np.zeros_like(values)), per_image, per_caption)


def test_a_probability_at_the_threshold_is_entailed_and_one_below_is_not() -> None:
    below = float(np.nextafter(0.5, 0))
    assert decided(pool([0, 1, 2], [0, 1, 2], [0.1, 0.2, 0.3]), [0.5, below, 0.9]) == [ADDED, BELOW, ADDED]


def test_under_a_cap_ties_are_ordered_by_score_and_then_by_position() -> None:
    one_image = pool([0, 0, 0], [0, 1, 2], [0.1, 0.3, 0.3])
    assert decided(one_image, [0.9, 0.9, 0.9], per_image=1) == [CAP_IMAGE, ADDED, CAP_IMAGE]
    assert decided(one_image, [0.95, 0.9, 0.9], per_image=1) == [ADDED, CAP_IMAGE, CAP_IMAGE]
    assert decided(one_image, [0.9, 0.9, 0.9], per_image=2) == [CAP_IMAGE, ADDED, ADDED]
    one_caption = pool([0, 1, 2], [0, 0, 0], [0.1, 0.3, 0.3])
    assert decided(one_caption, [0.9, 0.9, 0.9], per_caption=1) == [CAP_CAPTION, ADDED, CAP_CAPTION]


def sampled(number: int, stratum: str, decision: Decision) -> AuditSample:
    return AuditSample(f"i{number}", f"c{number}", stratum, decision, 10, 2, 0.9, 1)


def vote(number: int, worker: str, value: float) -> Judgment:
    return Judgment(f"entail/i{number}/c{number}", ENTAILMENT, worker, value)


def test_blocked_workers_do_not_vote_in_an_audit_and_capped_pairs_are_called_entailed(tmp_path: Any) -> None:
    sample = [sampled(0, "added", "added"), sampled(1, "capped", "rejected"), sampled(2, "below", "rejected")]
    votes = [vote(number, worker, 1.0) for number in range(2) for worker in ("a", "b")]
    votes += [vote(0, "bad", 0.0), vote(2, "a", 0.0), vote(2, "bad", 1.0), vote(2, "worse", 1.0)]
    answered = AggregatedAnswers(root=tmp_path, judgments=tuple(votes))
    found = audited_sample(sample, answered, ["bad", "worse"])
    assert [row.entailed for row in found.looked] == [True, True, False]
    assert (found.ties, found.unseen) == (0, 0)
    assert (found.revision.called, found.classifier.called) == (10, 20)
    everybody = audited_sample(sample, answered, [])
    assert [row.entailed for row in everybody.looked] == [True, True, True]
    tied = audited_sample(sample, answered, ["worse"])
    assert ([row.caption for row in tied.looked], tied.ties) == (["c0", "c1"], 1)

"""Shares of phenomena: the right base, majorities, rounds."""

from ctxr.metrics.phenomena import shares
from ctxr.store.records import Judgment, Query

KINDS = {"v": "video", "p": "photos"}


def test_the_base_is_what_somebody_looked_at() -> None:
    queries = [Query("1", "v", ("t",), ("context", "negation")), Query("2", "p", ("t",), ("context",))]
    judgments = [
        Judgment("1", "context", "w", 1.0),
        Judgment("1", "negation", "w", 1.0),
        Judgment("2", "context", "w", 0.0),
    ]
    context, negation = shares(("context", "negation", "spatial"), queries, judgments, KINDS)
    assert [context.percent(part) for part in ("all", "video", "photos")] == [50.0, 100.0, 0.0]
    assert [negation.percent(part) for part in ("all", "video", "photos")] == [100.0, 100.0, None]


def test_workers_decide_by_majority_and_a_later_round_replaces() -> None:
    queries = [Query("1", "v", ("t",), ("context",))]
    judged = [Judgment("1", "context", worker, value) for worker, value in (("a", 1.0), ("b", 0.0))]
    (tied,) = shares(("context",), queries, judged, KINDS)
    assert tied.percent("all") == 0.0
    (won,) = shares(("context",), queries, [*judged, Judgment("1", "context", "b", 1.0, round=1)], KINDS)
    assert won.percent("all") == 100.0


def test_queries_for_images_or_with_other_labels_are_passed_over() -> None:
    queries = [Query("1", "v", ("t",)), Query("2", "v", ("t",), ("context", "entailment"))]
    judged = [Judgment("1", "context", "w", 1.0), Judgment("2", "context", "w", 1.0)]
    assert shares(("context",), queries, judged, KINDS) == []

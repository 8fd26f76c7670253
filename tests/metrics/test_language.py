"""Figures on language and phenomena that can be counted by hand."""

from ctxr.metrics.language import ParsedText, language, shares, tree_depth
from ctxr.store.records import Judgment, Query

KINDS = {"v": "video", "p": "photos"}


def test_figures_can_be_counted_by_hand() -> None:
    found = language([ParsedText(("a", "red", "hat", "."), 1, (2,)), ParsedText(("a", "b"), 3, (1, 0, 0))])
    assert found is not None
    assert (found.descriptions, found.mean_length, found.median_length, found.longest) == (2, 3.0, 3.0, 4)
    assert (found.word_types, found.mean_sentences, found.three_or_more) == (5, 2.0, 0.5)
    assert found.mean_depth == 0.75


def test_without_trees_there_is_no_depth_and_without_texts_nothing() -> None:
    found = language([ParsedText(("a",), 1)])
    assert found is not None
    assert found.mean_depth is None
    assert language([]) is None


def test_depth_counts_the_edges_below_the_root() -> None:
    assert tree_depth([0]) == 0
    assert tree_depth([1, 1]) == 1
    assert tree_depth([1, 2, 3, 3]) == 3
    assert tree_depth([1, 1, 3, 1]) == 2
    assert tree_depth([]) == 0


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

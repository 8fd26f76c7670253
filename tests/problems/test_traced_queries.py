"""Queries with traces: cut to their first words, moved by noise."""

from array import array

import numpy as np
from msgspec.structs import replace

from ctxr.metrics.traces import word_boxes
from ctxr.problems.queries import EvalQuery
from ctxr.problems.question import ProblemResults
from ctxr.problems.results import QueryResult
from ctxr.problems.traces.queries import TracedQuery, traced
from ctxr.problems.traces.question import query_card
from ctxr.store.records import Text, TimedWord, Trace


def narrated(trace: Trace | None) -> TracedQuery:
    """A query of one set with a trace."""
    payload = {} if trace is None else {"traces": [trace]}
    (found,) = traced(
        [EvalQuery("q", "s", (Text("t", "A dog, running", "ann"),), ("i", "j"), (1,), False, None, payload=payload)]
    )
    return found


WORDS = (TimedWord("A", 0.0, 1.0), TimedWord("dog,", 1.0, 2.0), TimedWord("running", 2.0, 3.0))
FULL = Trace("q", WORDS, (array("f", [0.5, 0.5, 0.5, 0.25, 0.5, 2.5]), array("f", [0.75, 0.25, 2.75])), (0, 1))


def test_the_first_words_keep_what_was_drawn_until_the_last_of_them_was_said() -> None:
    half = narrated(FULL).first(0.5)
    assert (half.text, half.words, half.times.tolist()) == ("A dog,", ("A", "dog,"), [[0, 1], [1, 2]])
    assert (half.points.tolist(), half.drawn_on.tolist()) == ([[0.5, 0.5, 0.5]], [0])
    whole = narrated(FULL)
    assert whole.first(1.0) is whole
    assert whole.text == "A dog, running"


def test_words_of_the_text_have_the_place_of_their_utterance_however_it_is_written() -> None:
    said = narrated(replace(FULL, words=(TimedWord("a dog", 0.0, 1.0), TimedWord("running", 1.0, 2.0))))
    assert (said.places, said.first(0.5).text) == ([0, 0, 1], "A dog,")
    other = narrated(replace(FULL, words=(TimedWord("running", 0.0, 1.0),)))
    assert other.places == [0, 1, 2]


def test_a_point_at_the_end_of_a_word_was_drawn_while_it_was_said() -> None:
    words = (TimedWord("A", 0.0, 0.4), TimedWord("dog, running", 0.5, 1.0))
    query = narrated(Trace("q", words, (array("f", [0.5, 0.5, 0.4]),), (0,)))
    assert word_boxes(query.points, query.times, 0.0, 0.0)[1].tolist() == [True, False]
    assert len(query.first(0.5).points) == 1


def test_strokes_have_the_colour_of_their_word_in_whatever_order_words_are_listed() -> None:
    words = (TimedWord("late", 3.0, 4.0), TimedWord("early", 0.0, 1.0), TimedWord("mid", 1.5, 2.0))
    query = narrated(Trace("q", words, (array("f", [0.5, 0.5, 3.5]), array("f", [0.1, 0.1, 0.2])), (0, 0)))
    row = QueryResult(
        "r", "q", "none", "s", "photos", "late", ("j",), ("j",), 1.0, 1.0, 0, 1, 1, candidates=("j",), scores=(1.0,)
    )
    card = query_card([row], query, ProblemResults([], [], [], None, lambda _image: 0))
    assert card["lines"] == [(0, 0, [500, 500]), (0, 1, [100, 100])]
    assert query_card([row], narrated(None), ProblemResults([], [], [], None, lambda _image: 0))["lines"] == []


def test_noise_moves_each_stroke_as_a_whole_and_keeps_it_inside() -> None:
    query = narrated(FULL)
    moved = query.moved(0.05, np.random.default_rng(0))
    steps = [(after - before)[:, :2] for after, before in zip(moved.strokes, query.strokes, strict=True)]
    np.testing.assert_allclose(steps[0][0], steps[0][1])
    assert not np.allclose(steps[0][0], steps[1][0])
    far = query.moved(50.0, np.random.default_rng(0))
    assert 0 <= far.points[:, :2].min() <= far.points[:, :2].max() <= 1
    assert query.points.tolist() == narrated(FULL).points.tolist()
    assert query.moved(0.0, np.random.default_rng(0)).points.tolist() == query.points.tolist()


def test_a_query_without_a_trace_has_no_words_and_no_points() -> None:
    query = narrated(None)
    assert (query.words, query.points.shape, query.first(0.25).text) == ((), (0, 3), "A dog, running")

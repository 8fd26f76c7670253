"""An evaluation over sets as files: a row for each query, TREC runs, and the picks of a leaderboard."""

import json
from collections.abc import Iterator, Sequence

import numpy as np

from ctxr.metrics.ranking import accuracy, reciprocal_rank
from ctxr.problems.contextual.examples import BenchmarkQuery, EvalSplit
from ctxr.problems.results import MOST_SCORES, QueryResult, plain_name, qrel, trec_ranking

LEADERBOARD_SIDE = "test"


def leaderboard(run: str, sides: Sequence[EvalSplit]) -> str | None:
    """The picks on test as ImageCoDe's leaderboard takes them, {set: [index, …]}, sets and descriptions in the order of the
    dataset; None where test was not scored as a whole.

    In a tie the first image is picked: the leaderboard knows no shares.
    """
    side = next((one for one in sides if one.name == LEADERBOARD_SIDE and not one.left_out), None)
    if side is None:
        return None
    picks: dict[str, list[int]] = {}
    for one, scores in sorted(_scored(run, side), key=lambda pair: pair[0].number):
        picks.setdefault(one.image_set.id, []).append(int(np.argmax(scores)))
    return json.dumps(picks, ensure_ascii=False, indent=1) + "\n"


def trec_run(run: str, sides: Sequence[EvalSplit]) -> Iterator[str]:
    """The ranking of every question, as `trec_ranking` writes it."""
    for side in sides:
        for one, scores in _scored(run, side):
            yield from trec_ranking(run, one.query, one.candidates, scores)


def qrels(sides: Sequence[EvalSplit]) -> Iterator[str]:
    """The targets of every question, as `qrel` writes them."""
    for side in sides:
        for one in side.questions:
            for place in one.right:
                yield qrel(one.query, one.candidates[place])


def _scored(run: str, side: EvalSplit) -> Iterator[tuple[BenchmarkQuery, list[float]]]:
    """Every question of a side, its target known or hidden, with a run's scores."""
    for row, one in enumerate(side.questions):
        yield one, side.scores[run][row, : len(one.candidates)].tolist()
    for one in side.hidden:
        yield one, side.hidden_scores[run][one.query]


def query_results(side: EvalSplit) -> Iterator[QueryResult]:
    """A row for each scorer and question of a side."""
    for run in side.scorers:
        found, scores = side.places(run), side.scores[run]
        credit, ranks = accuracy(found), reciprocal_rank(found)
        tops = scores.max(axis=1, initial=float("-inf"))
        for row, one in enumerate(side.questions):
            given = scores[row, : len(one.candidates)].tolist()
            few = len(given) <= MOST_SCORES
            yield QueryResult(
                run=run,
                query=one.query,
                side=side.name,
                image_set=one.image_set.id,
                kind=one.image_set.kind,
                text=one.text,
                targets=tuple(one.candidates[place] for place in one.right),
                picks=tuple(name for name, value in zip(one.candidates, given, strict=True) if value == tops[row]),
                accuracy=float(credit[row]),
                reciprocal_rank=float(ranks[row]),
                above=int(found.above[row]),
                level=int(found.level[row]),
                tokens=one.tokens,
                candidates=one.candidates if few else (),
                scores=tuple(given) if few else (),
                tags=tuple(sorted(one.found)),
                distance=one.distance,
            )


def files_for_others(sides: Sequence[EvalSplit]) -> dict[str, str]:
    """Targets and rankings for trec_eval, and picks for the leaderboard, by name."""
    files = {}
    if any(side.questions for side in sides):
        files["trec/qrels.txt"] = "".join(qrels(sides))
    for run in sides[0].scorers:
        files[f"trec/{plain_name(run)}.txt"] = "".join(trec_run(run, sides))
        picked = leaderboard(run, sides)
        if picked is not None:
            files[f"leaderboard/{plain_name(run)}.json"] = picked
    return files

"""What replies come to: scores, and how far the places at which pictures stood decided."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from ctxr.data.records import Score
from ctxr.pipelines.listening.replies import Reply
from ctxr.pipelines.listening.wording import shown
from ctxr.pipelines.result_tables import Table
from ctxr.pipelines.training.asked import EvalQuery

Heard = Mapping[str, Sequence[Reply]]
"""Replies by query, all shifts of it."""


def scores(asked: Iterable[EvalQuery], heard: Heard, scorer: str) -> list[Score]:
    """For each candidate the share of shifts that chose it; a shift that chose none counts evenly for all: 0..1."""
    found = []
    for one in asked:
        votes = dict.fromkeys(one.images, 0.0)
        # equal counts must give equal scores, whatever the order of addition
        chosen = Counter(reply.candidate for reply in heard[one.query] if reply.candidate is not None)
        undecided = len(heard[one.query]) - chosen.total()
        for image in votes:
            votes[image] = (chosen[image] + undecided / len(votes)) / len(heard[one.query])
        found += [Score(one.query, image, scorer, value) for image, value in votes.items()]
    return found


def accuracy(asked: Iterable[EvalQuery], heard: Heard) -> float | None:
    """Expected share of targets that score highest, ties in expectation; None where no target is known."""
    known = [one for one in asked if one.target is not None]
    hits = 0.0
    for one in known:
        values = [row.value for row in scores([one], heard, "")]
        best = [place for place, value in enumerate(values) if value == max(values)]
        hits += (one.target in best) / len(best)
    return hits / len(known) if known else None


def by_shift(asked: Sequence[EvalQuery], heard: Heard) -> Table:
    """Accuracy of each shift by itself: what no choice says counts as a guess."""
    rows = []
    for shift in sorted({reply.shift for replies in heard.values() for reply in replies}):
        replies = [(one, reply) for one in asked for reply in heard[one.query] if reply.shift == shift]
        judged = [(one, reply) for one, reply in replies if one.target is not None]
        right = sum(_hit(one, reply) for one, reply in judged)
        chosen = sum(reply.outcome == "chosen" for _, reply in replies)
        rows.append((shift, len(replies), chosen, right / len(judged) if judged else None))
    return Table(
        "accuracy by shift",
        ("shift", "asked", "chosen", "accuracy"),
        tuple(rows),
        "a shift says which picture of the set was number 1, from 0; without a choice, a guess",
    )


def by_place(asked: Sequence[EvalQuery], heard: Heard) -> Table:
    """How often each place was chosen, beside how often a model without a liking for places would choose it."""
    chosen: Counter[int] = Counter()
    stood: Counter[int] = Counter()
    found: Counter[int] = Counter()
    expected: dict[int, float] = {}
    for one in asked:
        for reply in heard[one.query]:
            if reply.number is None:
                continue
            chosen[reply.number] += 1
            for number in range(1, len(one.images) + 1):
                expected[number] = expected.get(number, 0.0) + 1 / len(one.images)
            if one.target is not None:
                place = shown(one.images, reply.shift).index(one.images[one.target]) + 1
                stood[place] += 1
                found[place] += reply.number == place
    rows = [
        (
            number,
            chosen[number],
            expected[number],
            stood[number] if stood else None,
            found[number] / stood[number] if stood[number] else None,
        )
        for number in sorted(expected)
    ]
    return Table(
        "choices by place",
        ("place", "chosen", "expected", "targets there", "accuracy there"),
        tuple(rows),
        "expected: as often as any other place of the set; compare it where every shift was asked, or with the targets there",
    )


def agreement(heard: Heard) -> float | None:
    """Share of queries of which all shifts chose the same picture; None with one shift."""
    several = [replies for replies in heard.values() if len(replies) > 1]
    same = [len({reply.candidate for reply in one}) == 1 and one[0].candidate is not None for one in several]
    return sum(same) / len(same) if same else None


def _hit(one: EvalQuery, reply: Reply) -> float:
    if reply.candidate is None:
        return 1 / len(one.images)
    return float(one.target is not None and one.images[one.target] == reply.candidate)

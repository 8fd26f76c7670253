"""One loop over threads or processes: order, laziness, and an end when something fails."""

import itertools
import threading
import time
from collections.abc import Iterator

import pytest

from ctxr.engine.units import RankShard, find_engine, parallel, shard_rules
from ctxr.errors import UsageError


def double(number: int) -> int:
    return 2 * number


@pytest.mark.parametrize("processes", [False, True])
def test_results_come_in_order_from_items_without_an_end(processes: bool) -> None:
    results = parallel(double, itertools.count(), 2, processes=processes, ordered=True, queued=3)
    assert list(itertools.islice(results, 10)) == [(number, 2 * number) for number in range(10)]
    results.close()


def test_every_item_is_worked_on_once_and_no_more_at_a_time_than_there_are_workers() -> None:
    lock, running, most, three = threading.Lock(), [0], [0], threading.Barrier(3)

    def work(number: int) -> int:
        with lock:
            running[0] += 1
            most[0] = max(most[0], running[0])
        three.wait(60)  # three work at the same time; a fourth has time to begin before they end
        time.sleep(0.005)
        with lock:
            running[0] -= 1
        return -number

    assert sorted(parallel(work, range(48), 3)) == [(number, -number) for number in range(48)]
    assert most[0] == 3


def test_an_item_can_wait_for_one_that_is_under_way() -> None:
    results: list[int] = []

    def items() -> Iterator[int | None]:
        yield 1
        while not results:
            yield None
        yield results[0] + 1

    for _, result in parallel(double, items(), 4):
        results.append(result)
    assert results == [2, 6]


def test_the_first_failure_stops_what_is_under_way_and_begins_nothing_more() -> None:
    stopped, begun = threading.Event(), []

    def work(number: int) -> None:
        begun.append(number)
        if number == 1:
            raise ValueError("no")
        assert stopped.wait(60)

    with pytest.raises(ValueError, match="no"):
        list(parallel(work, range(100), 2, stop=stopped.set))
    assert begun == [0, 1]


@pytest.mark.parametrize(
    ("rank", "world", "problem"),
    [(0, None, "go together"), (None, 2, "go together"), (2, 2, "--rank 2 is not below --world-size 2"), (1, 2, "")],
)
def test_a_rank_is_one_of_a_world(rank: int | None, world: int | None, problem: str) -> None:
    problems = list(shard_rules(rank, world))
    assert bool(problems) == bool(problem)
    assert all(problem in sentence for sentence, _ in problems)


def test_an_unknown_engine_is_refused_with_the_nearest() -> None:
    assert RankShard.of(object()) is None
    with pytest.raises(UsageError, match="--engine thread is unknown") as caught:
        find_engine("thread", 1)
    assert "--engine threads" in caught.value.hint
